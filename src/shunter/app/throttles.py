"""Throttles in a cluster: which are set, by whom as far as a journal knows, and how to take them away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shunter.app.executor import Target, connect, holder_of, journal_place, read_journal
from shunter.core.executor.throttles import FOLLOWER_RATE, FOLLOWER_REPLICAS, LEADER_RATE, LEADER_REPLICAS, LOG_DIR_RATE
from shunter.drivers.admin import AdminClient
from shunter.errors import DriverError, ShunterError
from shunter.model.execution import ThrottleKey

_BROKER_SETTINGS = (LEADER_RATE, FOLLOWER_RATE, LOG_DIR_RATE)
_TOPIC_SETTINGS = (LEADER_REPLICAS, FOLLOWER_REPLICAS)


class StillNeeded(ShunterError):
    """Throttles of an execution that has not ended."""


@dataclass(frozen=True, slots=True)
class FoundThrottle:
    """A throttle that is set at a broker or topic itself. `journaled`: an open execution set it and will restore it."""

    key: ThrottleKey
    value: str
    journaled: bool

    def __str__(self) -> str:
        ours = "  (under the journal of an execution that has not ended)" if self.journaled else ""
        return f"{self.key.kind} {self.key.name} {self.key.setting} = {self.value}{ours}"


async def list_throttles(target: Target) -> tuple[FoundThrottle, ...]:
    """Every throttle that is set at a live broker or at a topic itself, whoever set it."""
    admin = await connect(target)
    try:
        return await _list(target, admin)
    finally:
        await admin.close()


async def _list(target: Target, admin: AdminClient) -> tuple[FoundThrottle, ...]:
    place = await journal_place(target, admin)
    ours = read_journal(place)[0].throttles.keys() if place.exists() else frozenset[ThrottleKey]()
    seen = await admin.observe_topics(())
    keys = [
        ThrottleKey("broker", str(broker), setting) for broker in sorted(seen.brokers) for setting in _BROKER_SETTINGS
    ]
    topics = await admin.topic_names()
    keys += [ThrottleKey("topic", topic, setting) for topic in topics for setting in _TOPIC_SETTINGS]
    own = (await admin.read_settings(keys)).own
    return tuple(FoundThrottle(key, value, key in ours) for key in keys if (value := own[key]) is not None and value)


async def clear_throttles(target: Target, found: Sequence[FoundThrottle]) -> None:
    """Take throttles away, but for those that an execution which has not ended will restore by itself.

    Raises:
        StillNeeded: all are of such an execution: `resume`, `stop` or `rollback` restores them.
        DriverError: the cluster refuses, or brokers don't tell that they are gone.
    """
    loose = [throttle for throttle in found if not throttle.journaled]
    if not loose:
        place, holder = await holder_of(target)
        told = f"driven by {holder}" if holder is not None else "driven by nobody"
        raise StillNeeded(
            f"they belong to the execution of {place}, {told}: "
            "`shunter resume`, `stop` or `rollback` restores them as they were",
        )
    admin = await connect(target)
    try:
        errors = await admin.alter_settings([(throttle.key, None) for throttle in loose])
    finally:
        await admin.close()
    if errors:
        key, told = min(errors.items())
        raise DriverError(f"{key.setting} of {key.kind} {key.name}: {told}", retriable=True)
