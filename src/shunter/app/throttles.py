"""Throttles in a cluster: which are set, by whom as far as a journal knows, and how to take them away."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from shunter.app.executor import Target, connect, journal_place, read_journal
from shunter.app.executor_orders import HolderGone, holder_of, order_command
from shunter.app.journals import JournalPlace
from shunter.core.executor.orders import decide_command
from shunter.core.executor.throttles import FOLLOWER_RATE, FOLLOWER_REPLICAS, LEADER_RATE, LEADER_REPLICAS, LOG_DIR_RATE
from shunter.drivers.admin.executor_client import AdminClient
from shunter.drivers.execution import SystemClock
from shunter.errors import DriverError, ShunterError
from shunter.model.execution import Command, CommandKind, JournalEntry, JournalRecord, ThrottleKey
from shunter.model.partition import BrokerId

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


async def owed_settings(target: Target, brokers: Sequence[BrokerId]) -> int:
    """How many settings of these brokers the journal has not given back.

    Raises:
        FormatError: there is no journal, or it is damaged.
    """
    place, _holder = await holder_of(target)
    state, _holder = await asyncio.to_thread(read_journal, place)
    return sum(key.kind == "broker" and int(key.name) in brokers for key in state.throttles)


async def forget_throttles(target: Target, brokers: Sequence[BrokerId]) -> tuple[bool, str]:
    """Strike off what is owed to brokers that don't come back; whether that was done, and a sentence.

    Raises:
        DriverError: the cluster does not answer: whether those brokers are up has to be seen.
        FormatError: there is no journal, or it is damaged.
    """
    command = Command(CommandKind.FORGET, given_by="throttles forget", brokers=tuple(brokers))
    place, holder = await holder_of(target)
    if holder is not None:
        with suppress(HolderGone):
            answer = await order_command(place, command)
            return bool(answer["accepted"]), str(answer["text"])
    state, _holder = await asyncio.to_thread(read_journal, place)
    admin = await connect(target)
    try:
        state.cluster.brokers = (await admin.observe_topics(())).brokers
    finally:
        await admin.close()
    decided = decide_command(state, command)
    if decided.accepted:
        await asyncio.to_thread(_write, place, state.next_sequence, decided.records)
    return decided.accepted, decided.text


def _write(place: JournalPlace, first: int, records: Sequence[JournalRecord]) -> None:
    """Write entries where nobody drives: under the lease, as whoever drives would."""
    now_ms = SystemClock().now_ms()
    journal = place.open(uuid.uuid4().hex)
    try:
        journal.acquire(now_ms)
        numbered = enumerate(records, start=first)
        journal.append(
            [JournalEntry(number, now_ms, "throttles forget", record) for number, record in numbered], now_ms
        )
        journal.release()
    finally:
        journal.close()
