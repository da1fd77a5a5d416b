"""Throttles in a cluster: which are set, which of them the journal knows, and how to remove them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from shunter.app.executor.orders import HolderGone, giver, holder_of, order_command
from shunter.app.executor.session import Target, claimed_by, connect, journal_place, read_journal
from shunter.app.executor.throttle_loan import give_back, in_hand
from shunter.core.executor.orders import decide_command
from shunter.core.executor.state import ExecutorState
from shunter.core.executor.throttling.debts import told_debts, told_way_out
from shunter.core.throttles import (
    LISTS,
    is_theirs,
    settings_of,
)
from shunter.core.under_way import UnderWay, held_by
from shunter.core.wording import NAMED, counted, named
from shunter.drivers.host.clock import SystemClock
from shunter.drivers.journal.claimants import ClusterClaimed
from shunter.errors import DriverError, ShunterError
from shunter.model.execution import Command, CommandKind, ThrottleKey
from shunter.model.partition import BrokerId

if TYPE_CHECKING:
    from shunter.drivers.admin.cluster import KafkaPythonAdmin

LOG = logging.getLogger(__name__)

OTHERS_WITHIN_S = 8.0
"""How long brokers are asked for throttles of others, where these are not all that is wanted."""
ENTRIES_NAMED = 8
MOST_ASKED = 20_000
"""The most topics times brokers for which every broker is asked: 2,000 take about a second."""


class StillNeeded(ShunterError):
    """The throttles belong to an execution that has not ended, or hold what another tool moves."""


@dataclass(frozen=True, slots=True)
class FoundThrottle:
    """A throttle that is set at a broker or topic itself.

    `journaled`: an executor set this value, and the journal knows the former value (`former`; None: it was not set); `needed`:
    a move that has not ended needs it. `silent`: its broker does not answer, so that it is as the journal knows it.
    `brokers`: those on which it is in force; `lacking`: brokers that say that the topic does not have it. Kafka
    may leave such a throttle on a broker when a topic is deleted and created again.
    """

    key: ThrottleKey
    value: str
    journaled: bool
    needed: bool = False
    brokers: tuple[BrokerId, ...] = ()
    lacking: tuple[BrokerId, ...] = ()
    silent: bool = False
    former: str | None = None

    @property
    def where(self) -> str:
        """The brokers that show it, in words, if others do not; "" if all do."""
        shown, others = (", ".join(map(str, brokers)) for brokers in (self.brokers, self.lacking))
        return f"in force on broker {shown}, not on broker {others}" if self.lacking else ""

    @property
    def owed(self) -> bool:
        """Whether it is owed to a broker that does not answer."""
        return self.silent and not self.needed

    def __str__(self) -> str:
        told = f"{self.key.kind} {self.key.name} {self.key.setting} = {_told_value(self.key, self.value)}"
        if self.lacking:
            told = f"{told}  ({self.where})"
        if self.owed:
            then = "to be deleted" if self.former is None else f"to become {self.former}"
            return f"{told}  (owed to broker {self.key.name}, which does not answer: it is {then} there)"
        if self.needed:
            return f"{told}  (under the journal of an execution that has not ended)"
        return f"{told}  (in the journal: it is restored as it was before)" if self.journaled else told


def _told_value(key: ThrottleKey, value: str) -> str:
    """A setting's value for people: of a list only the first replicas."""
    entries = value.split(",")
    if key.setting not in LISTS or len(entries) <= ENTRIES_NAMED:
        return value
    return f"{','.join(entries[:ENTRIES_NAMED])} and {counted(len(entries) - ENTRIES_NAMED, 'more replica')}"


class Cleared(NamedTuple):
    """What became of throttles; `driven`: the executor that restores those that are left, "": none drives them now.

    `owed`: left, because their brokers do not answer.
    """

    deleted: tuple[ThrottleKey, ...]
    restored: tuple[ThrottleKey, ...]
    left: tuple[ThrottleKey, ...]
    driven: str = ""
    owed: tuple[ThrottleKey, ...] = ()

    def told(self) -> list[str]:
        """A sentence for each kind."""
        why = "an open move needs it, and `shunter resume`, `stop` or `rollback` restores it"
        if self.driven:
            why = f"{self.driven} drives its execution, and restores it"
        kinds = (
            ("deleted", self.deleted),
            ("restored as before the execution", self.restored),
            (f"left, because {why}", self.left),
            (f"left, {told_owed(self.owed, driven=bool(self.driven))}", self.owed),
        )
        settings = ((what, [f"{key.kind} {key.name} {key.setting}" for key in keys]) for what, keys in kinds)
        return [f"{len(names)} {what}: {named(names)}" for what, names in settings if names]


def told_owed(keys: Collection[ThrottleKey], *, driven: bool) -> str:
    """That throttles are owed to brokers that do not answer, and the way out."""
    return f"owed to {told_debts(keys)} until it answers: {told_way_out(keys, driven=driven)}"


async def list_throttles(target: Target) -> tuple[FoundThrottle, ...]:
    """Every throttle that is set at a broker or at a topic itself, whoever set it; of silent brokers the journal's."""
    admin = await connect(target)
    try:
        place = await journal_place(target, admin)
        return await throttles_set(admin, read_journal(place)[0] if place.exists() else ExecutorState())
    finally:
        await admin.close()


async def throttles_set(admin: KafkaPythonAdmin, state: ExecutorState) -> tuple[FoundThrottle, ...]:
    """Every throttle that is set, or owed to brokers that don't answer; `state`: the fold of the cluster's journal."""
    owed = set(state.owed())
    brokers, topics = sorted(await admin.brokers()), await admin.topic_names()
    asked = [settings_of((broker,), ()) for broker in brokers]
    found: list[tuple[ThrottleKey, str, tuple[BrokerId, ...], tuple[BrokerId, ...]]] = []
    answers = await asyncio.gather(*(_own(admin, keys) for keys in asked))
    heard = {int(key.name) for own in answers for key in own}
    for own in answers:
        found += [(key, value, (int(key.name),), ()) for key, value in own.items() if value]
    found += await _of_topics(admin, settings_of((), topics), brokers) if topics else []
    told: list[FoundThrottle] = []
    for key, value, shown, lacking in found:
        journal = state.throttles.get(key)
        ours = journal is not None and not is_theirs(value, journal.before, journal.ours)
        former = None if journal is None else journal.before
        told.append(FoundThrottle(key, value, ours, ours and key not in owed, shown, lacking, former=former))
    for key in sorted(state.throttles):
        if key.kind == "broker" and int(key.name) not in heard:
            kept, needed = state.throttles[key], key not in owed
            told.append(FoundThrottle(key, kept.value or "", True, needed, silent=True, former=kept.before))
    return tuple(told)


async def rates_of_others(admin: KafkaPythonAdmin, state: ExecutorState, claimant: str = "") -> tuple[str, ...]:
    """Rates at live brokers that are not this journal's, a sentence for each: they slow this execution's copies too.

    `claimant`: who drives the cluster under another journal, and sets throttles for that; "": nobody.
    """
    try:
        async with asyncio.timeout(OTHERS_WITHIN_S):
            brokers = sorted(await admin.brokers())
            found = await asyncio.gather(*(_own(admin, settings_of((broker,), ())) for broker in brokers))
    except (TimeoutError, DriverError) as error:
        why = str(error) or f"not every broker answers within {OTHERS_WITHIN_S:.0f} s"
        return (f"whether others have set throttles at brokers is not known: {why}",)
    which: dict[tuple[str, str], list[str]] = {}
    now_ms = SystemClock().now_ms()
    for key, value in (each for own in found for each in own.items()):
        ours, given_back = state.throttles.get(key), state.given_back.get(key)
        late = given_back is not None and given_back.may_be_shown(value, now_ms)
        if value and not late and (ours is None or is_theirs(value, None, ours.ours)):
            which.setdefault((key.setting, value), []).append(key.name)
    whose = "a throttle" if claimant else "somebody else's throttle"
    by = f": set by whoever drives the cluster ({claimant}), as its journal is not read here" if claimant else ""
    return tuple(
        f"{whose} holds at broker {', '.join(names)}: {setting} = {value}{by}"
        for (setting, value), names in which.items()
    )


async def _own(admin: KafkaPythonAdmin, keys: Sequence[ThrottleKey]) -> dict[ThrottleKey, str | None]:
    """A broker's settings as they are set. One that has just died may still be listed; its silence is only logged."""
    try:
        return (await admin.read_settings(keys)).own
    except DriverError as error:
        if not error.retriable:
            raise
        LOG.warning("broker %s does not report its throttles: %s", keys[0].name, error)
        return {}


async def _of_topics(
    admin: KafkaPythonAdmin, keys: Sequence[ThrottleKey], brokers: Sequence[BrokerId]
) -> list[tuple[ThrottleKey, str, tuple[BrokerId, ...], tuple[BrokerId, ...]]]:
    """Throttles of topics, with the brokers that show them and those that don't.

    Raises:
        DriverError: no broker answers, or a permission is missing.
    """
    asked = brokers
    if len(keys) // len(LISTS) * len(brokers) > MOST_ASKED:
        asked = brokers[:1]
        many = f"{counted(len(keys) // len(LISTS), 'topic')} at {counted(len(brokers), 'broker')} are more than {MOST_ASKED:,}"
        LOG.warning("only broker %s is asked for throttles of topics: %s", asked[0], many)
    told = await admin.topic_throttles(keys, asked)
    for broker, why in sorted(told.silent.items()):
        LOG.warning("broker %s does not report the throttles of topics: %s", broker, why)
    if len(told.silent) == len(asked):
        raise DriverError(f"no broker reports the throttles of topics: {min(told.silent.values())}", retriable=True)
    return [
        (
            key,
            value,
            shown,
            tuple(sorted(broker for other, some in values.items() if other != value for broker in some)),
        )
        for key, values in told.values.items()
        for value, shown in values.items()
        if value
    ]


async def driven_elsewhere(target: Target) -> str:
    """The executor that drives the cluster under another journal, and may have set throttles; "": there is none."""
    place, _holder = await holder_of(target)
    return await claimed_by(target, place)


async def see_nobody_else_drives(target: Target) -> None:
    """Check that no other executor is at work, to which throttles that the journal does not know may belong.

    Raises:
        ClusterClaimed: an executor drives the cluster under another journal; its copies would go on without a throttle.
    """
    if claimant := await driven_elsewhere(target):
        told = "these throttles may be its own, which it restores itself; ask there, or clear what is left when it has ended"
        raise ClusterClaimed(claimant, told)


async def held_now(target: Target, keys: Collection[ThrottleKey]) -> list[str]:
    """What is under way, whoever began it, and would go on without a limit if these throttles were removed."""
    admin = await connect(target)
    try:
        return held_by(keys, UnderWay(await admin.list_reassignments(), await admin.log_dir_copies()))
    finally:
        await admin.close()


async def clear_throttles(target: Target, found: Sequence[FoundThrottle]) -> Cleared:
    """Remove throttles: those in the journal are restored, the others are deleted.

    Throttles that an open move needs stay. If an executor drives the journal, all its throttles stay, because it
    restores them itself. Those that are owed to brokers that do not answer stay in the journal.

    Raises:
        StillNeeded: all belong to an open execution: `resume`, `stop` or `rollback` restores them.
        DriverError: the cluster refuses, or does not answer.
    """
    loose = [throttle for throttle in found if not throttle.journaled]
    place, holder = await holder_of(target)
    silent = tuple(throttle.key for throttle in found if throttle.owed)
    free = [throttle.key for throttle in found if throttle.journaled and not throttle.needed and holder is None]
    owed = [key for key in free if key not in silent]
    if not loose and not owed and len(silent) < len(found):
        told = f"driven by {holder}" if holder is not None else "driven by no executor"
        raise StillNeeded(
            f"they belong to the execution of {place}, {told}: "
            "`shunter resume`, `stop` or `rollback` restores them as they were",
        )
    admin = await connect(target)
    try:
        errors = await _delete(admin, loose)
        if owed:
            with in_hand(place, "throttles clear") as journal:
                errors |= await give_back(journal, admin, owed)
    finally:
        await admin.close()
    if errors:
        key, told = min(errors.items())
        count = f"{len(errors)} of {counted(len(loose) + len(owed), 'throttle')} could not be cleared"
        raise DriverError(f"{count}: {key.kind} {key.name} {key.setting}: {told}", retriable=True)
    gone = tuple(throttle.key for throttle in loose)
    left = tuple(throttle.key for throttle in found if throttle.key not in {*gone, *owed, *silent})
    return Cleared(gone, tuple(owed), left, "" if holder is None else str(holder), silent)


async def _delete(admin: KafkaPythonAdmin, loose: Sequence[FoundThrottle]) -> dict[ThrottleKey, str]:
    """Delete throttles; return those that are left, and why.

    The controller does not know a throttle that single brokers have kept, so it would delete nothing. Such a throttle
    is set first, which every broker learns, and then deleted.
    """
    kept = {throttle.key: throttle.value for throttle in loose if throttle.lacking}
    missing = await admin.alter_settings(list(kept.items()))
    missing |= await admin.alter_settings([(throttle.key, None) for throttle in loose])
    errors = {key: why.told for key, why in missing.items()}
    for key in kept.keys() - errors.keys():  # Of several topics at a time, one would stand for all.
        errors |= await admin.not_in_force({key: None})
    return errors


async def clear_loose_throttles(target: Target) -> str:
    """Remove throttles that the journal does not know; returns a sentence with their number.

    Raises:
        ClusterClaimed: an executor drives the cluster under another journal.
        StillNeeded: another tool's moves, or copies between log dirs, may need them.
        DriverError: the cluster does not answer, or refuses.
    """
    loose = [throttle for throttle in await list_throttles(target) if not throttle.journaled]
    if loose:
        await see_nobody_else_drives(target)
        if held := await held_now(target, [throttle.key for throttle in loose]):
            told = f"what is under way may need them: {'; '.join(held[:NAMED])}"
            raise StillNeeded(f"{told}. Wait for its end, or remove them by `shunter throttles clear`, which asks")
        await clear_throttles(target, loose)
    return (
        f"{counted(len(loose), 'throttle setting is', 'throttle settings are')} removed"
        if loose
        else "no throttle is left over"
    )


async def owed_settings(target: Target, brokers: Sequence[BrokerId]) -> int:
    """The number of settings of these brokers that are in the journal, and not restored.

    Raises:
        FormatError: there is no journal, or it is damaged.
    """
    place, _holder = await holder_of(target)
    state, _holder = await asyncio.to_thread(read_journal, place)
    return sum(key.kind == "broker" and int(key.name) in brokers for key in state.throttles)


async def forget_throttles(target: Target, brokers: Sequence[BrokerId]) -> tuple[bool, str]:
    """Delete from the journal the debts to brokers that don't come back; returns whether it was done, and a sentence.

    Raises:
        DriverError: the cluster does not answer, so it is unknown whether those brokers are up.
        FormatError: there is no journal, or it is damaged.
    """
    command = Command(CommandKind.FORGET, given_by=giver("throttles forget"), brokers=tuple(brokers))
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
        with in_hand(place, "throttles forget") as journal:
            journal.append(decided.records)
    return decided.accepted, decided.text
