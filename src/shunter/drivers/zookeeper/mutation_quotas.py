"""Quotas on changes of topics, read from ZooKeeper for each request: such requests are few, and no change is missed."""

from __future__ import annotations

import logging
from collections.abc import Callable

from shunter.core.mutation_quotas import Allowance, Buckets, QuotaEntity, quota_entities, rate_of
from shunter.drivers.zookeeper.client import ZooKeeperClient
from shunter.errors import DriverError, FormatError
from shunter.formats.znodes import paths as znodes
from shunter.formats.znodes.configs import decode_config, sanitized
from shunter.model.security.principal import Principal

_LOG = logging.getLogger(__name__)
DEFAULT = "<default>"


class MutationQuotas:
    """Finds the quota of a request.

    Args:
        client: returns the ZooKeeper client; None while there is none.
        burst_s: returns how many seconds of a rate a bucket holds.
        default_partitions: returns the number of partitions of a topic that is created without a number.
        now_s: a clock that never goes back.
    """

    def __init__(
        self,
        client: Callable[[], ZooKeeperClient | None],
        burst_s: Callable[[], float],
        default_partitions: Callable[[], int],
        now_s: Callable[[], float],
    ) -> None:
        self._client = client
        self._burst_s = burst_s
        self.default_partitions = default_partitions
        self._now_s = now_s
        self._buckets = Buckets()

    async def allowance(self, principal: Principal, client_id: str | None, *, strict: bool) -> Allowance:
        """Return what a request may change. If quotas can't be read, they refuse nothing."""
        entities = quota_entities(principal.name, client_id or "")
        client = self._client()
        if client is None:
            return Allowance()
        try:
            found, _ = await client.get_many([_path(entity) for entity in entities])
        except DriverError as failure:
            _LOG.info("quotas of client %r can't be read: %s", client_id, failure)
            return Allowance()
        for entity, znode in zip(entities, found, strict=True):
            if znode is None:
                continue
            try:
                rate = rate_of(decode_config(_path(entity), znode.data))
            except FormatError as unreadable:
                _LOG.warning("a quota is left out: %s", unreadable)
                continue
            if rate is not None:
                bucket = self._buckets.bucket(entity, rate, self._burst_s(), self._now_s())
                return Allowance(bucket, strict=strict)
        return Allowance()


def _path(entity: QuotaEntity) -> str:
    user = None if entity.user is None else DEFAULT if entity.default_user else sanitized(entity.user)
    client = None if entity.client is None else DEFAULT if entity.default_client else sanitized(entity.client)
    if user is None:
        return znodes.config("clients", str(client))
    return znodes.config("users", user if client is None else f"{user}/clients/{client}")
