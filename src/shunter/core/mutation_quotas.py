"""Quotas on changes of topics (KIP-599): the quota that a request falls under, and how much of it is left.

A quota is a rate of partitions created or deleted, per second, and a bucket of tokens that fills at that rate. A
request is refused, or its client told to wait, only while the bucket is below zero: a large request may take it far
below.

Two departures from Apache: tokens are taken before a request is judged and given back if it is refused, so that two
requests can't use the same ones; and connections that are throttled are still read.

Source: Apache 3.9, `ControllerMutationQuotaManager`, `ClientQuotaManager.DefaultQuotaCallback`, `TokenBucket`.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

RATE: Final = "controller_mutation_rate"
BUCKETS_AT_MOST: Final = 10_000
"""The most buckets of users and clients. The least recently used one is forgotten, and would begin full again."""
_LONGEST_MS: Final = 2**31 - 1


class QuotaEntity(NamedTuple):
    """The entity whose quota a configuration has: a user, a client id, or both; `default_…`: any user or client id."""

    user: str | None
    client: str | None
    default_user: bool = False
    default_client: bool = False


def quota_entities(user: str, client: str) -> tuple[QuotaEntity, ...]:
    """List the entities whose quota may hold for a request. The first one that has a quota counts."""
    clients = [(client, False), (client, True)] if client else []
    found: list[QuotaEntity] = []
    for default_user in (False, True):
        found += [QuotaEntity(user, name, default_user, default) for name, default in clients]
        found.append(QuotaEntity(user, None, default_user))
    return (*found, *(QuotaEntity(None, name, default_client=default) for name, default in clients))


def rate_of(config: Mapping[str, str]) -> float | None:
    """Read the rate from an entity's configuration; None: it has none, or none that is a number."""
    try:
        rate = float(config[RATE])
    except (KeyError, ValueError):
        return None
    return rate if rate >= 0 and math.isfinite(rate) else None


class TokenBucket:
    """Tokens of one user and client; below zero is debt. A new bucket is full."""

    __slots__ = ("burst_s", "filled_at_s", "rate", "tokens")

    def __init__(self, rate: float, burst_s: float, now_s: float) -> None:
        self.rate = rate
        self.burst_s = burst_s
        self.tokens = rate * burst_s
        self.filled_at_s = now_s

    def fill(self, rate: float, burst_s: float, now_s: float) -> None:
        """Fill the bucket up to now at the old rate, and go on at another rate."""
        self.tokens = min(self.rate * self.burst_s, self.tokens + self.rate * max(0.0, now_s - self.filled_at_s))
        self.rate, self.burst_s, self.filled_at_s = rate, burst_s, now_s

    def add(self, tokens: float) -> None:
        """Take tokens, or give some back."""
        self.tokens = min(self.rate * self.burst_s, self.tokens + tokens)

    @property
    def wait_ms(self) -> int:
        """How long it takes until there is no debt."""
        if self.tokens >= 0:
            return 0
        return _LONGEST_MS if self.rate == 0 else min(_LONGEST_MS, round(-self.tokens / self.rate * 1000))


class Buckets:
    """The buckets of users and clients with a quota. They last as long as the process, as in Apache's controller."""

    def __init__(self) -> None:
        self._buckets: OrderedDict[tuple[str | None, str | None], TokenBucket] = OrderedDict()

    def bucket(self, entity: QuotaEntity, rate: float, burst_s: float, now_s: float) -> TokenBucket:
        """Find a bucket, filled up to now. By a default quota every user or client has a bucket of its own."""
        key = (entity.user, entity.client)
        bucket = self._buckets.pop(key, None)
        if bucket is None:
            bucket = TokenBucket(rate, burst_s, now_s)
        bucket.fill(rate, burst_s, now_s)
        self._buckets[key] = bucket
        if len(self._buckets) > BUCKETS_AT_MOST:
            self._buckets.popitem(last=False)
        return bucket


class Allowance:
    """The partitions that one request may still create or delete.

    Args:
        bucket: of the quota that the request falls under; None: there is none.
        strict: refuse topics while the bucket is below zero; else accept them, and tell the client to wait.
    """

    def __init__(self, bucket: TokenBucket | None = None, *, strict: bool = True) -> None:
        self._bucket = bucket
        self._strict = strict
        self._taken: dict[str, float] = {}
        self.throttle_ms = 0
        """How long the answer tells the client to wait."""

    def admit(self, topic: str, partitions: int) -> bool:
        """Take a topic's partitions from the bucket; False: the topic is refused."""
        if self._bucket is None:
            return True
        if self._strict and self._bucket.tokens < 0:
            self.throttle_ms = self._bucket.wait_ms
            return False
        self._bucket.add(-partitions)
        self._taken[topic] = partitions
        if not self._strict:
            self.throttle_ms = self._bucket.wait_ms
        return True

    def give_back(self, topics: Sequence[str]) -> None:
        """Give back the tokens of these topics, which were not changed after all."""
        for topic in topics:
            taken = self._taken.pop(topic, 0.0)
            if self._bucket is not None and taken:
                self._bucket.add(taken)
                if not self._strict:
                    self.throttle_ms = self._bucket.wait_ms
