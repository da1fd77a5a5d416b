"""Keeps `/feature` valid while this process is the controller, and changes it on request."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from shunter.core.features import FeatureUpdate, Supported, kept_valid, update_features
from shunter.drivers.zookeeper.client import ZooKeeperClient
from shunter.drivers.zookeeper.requests import Create, Operation, Put, Znode
from shunter.drivers.zookeeper.store import ZooKeeperStore
from shunter.errors import DriverError, ErrorCode, FormatError, RequestRejected
from shunter.formats.znodes import paths as znodes
from shunter.formats.znodes.features import decode_features, encode_features
from shunter.model.features import FinalizedFeatures, Protocol

_LOG = logging.getLogger(__name__)
Results = dict[str, RequestRejected | None]


class FeatureKeeper:
    """Reads and writes `/feature` behind the controller's fence.

    Args:
        client: reads it.
        store: writes it.
        protocol: returns the oldest inter-broker protocol of all live brokers; None while that is unknown.
    """

    def __init__(self, client: ZooKeeperClient, store: ZooKeeperStore, protocol: Callable[[], Protocol | None]) -> None:
        self._client = client
        self._store = store
        self._protocol = protocol
        self._kept: tuple[int, Protocol] | None = None

    async def keep(self, controller_epoch: int) -> None:
        """Create or correct `/feature`, once for each election and protocol; after a refusal again at the next call."""
        protocol = self._protocol()
        if protocol is None or self._kept == (controller_epoch, protocol):
            return

        async def decide() -> list[Operation]:
            found = await self._client.get(znodes.FEATURE)
            kept = None if found is None else decode_features(found.data)
            return _written(found, kept, kept_valid(kept, protocol))

        try:
            await self._store.amend(decide)
        except RequestRejected:
            return  # Another process is the controller now.
        except FormatError as unreadable:
            _LOG.warning("left alone until somebody mends it: %s", unreadable)
        except DriverError as failure:
            _LOG.warning("%s is not looked after yet: %s", znodes.FEATURE, failure)
            return
        self._kept = (controller_epoch, protocol)

    async def update(
        self, updates: Sequence[FeatureUpdate], brokers: Sequence[Supported], *, validate_only: bool
    ) -> Results:
        """Change finalized levels, durably.

        Returns:
            By feature: why its update was refused, or None.

        Raises:
            RequestRejected: no feature can be changed.
            FormatError: the znode can't be read.
            DriverError: ZooKeeper refuses.
        """
        results: Results = {}

        async def decide() -> list[Operation]:
            found = await self._client.get(znodes.FEATURE)
            kept = None if found is None else decode_features(found.data)
            protocol = self._protocol()
            # `keep` may not have run yet, so the update starts from the levels that `keep` would write.
            valid = kept if protocol is None else kept_valid(kept, protocol)
            if valid is None or not valid.enabled:
                raise RequestRejected(ErrorCode.INVALID_REQUEST, "Feature versioning system is disabled.")
            levels, told = update_features(valid.levels, updates, brokers)
            results.clear()
            results.update(told)
            return [] if validate_only else _written(found, kept, FinalizedFeatures(valid.layout, True, levels))

        await self._store.amend(decide)
        return results


def _written(found: Znode | None, kept: FinalizedFeatures | None, wanted: FinalizedFeatures) -> list[Operation]:
    if kept == wanted:
        return []
    _LOG.info("%s becomes %s", znodes.FEATURE, wanted)
    data = encode_features(wanted)
    return [Create(znodes.FEATURE, data) if found is None else Put(znodes.FEATURE, data, found.version)]
