"""Since when conditions have held, as far as an unbroken series of looks shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from shunter.core.keeper.sign import Sign
from shunter.model.keeper import KeeperPolicy, Memory, Since, Subject

MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class Holding:
    """A condition that holds now. `since_ms` None: this observation is the first that saw it, so the time is not known."""

    sign: Sign
    since_ms: int | None
    minutes: int
    """How long it is known to hold."""
    wanted_minutes: int
    """How long it has to hold before a plan is proposed."""

    @property
    def lasted(self) -> bool:
        """Whether it has held for as long as the policy wants."""
        return self.minutes >= self.wanted_minutes


def usable(memory: Memory | None, cluster_id: str, at_ms: int, policy: KeeperPolicy) -> Memory | None:
    """The memory if it is of the same cluster and at most `gap_minutes` old; else None, as too much may be unseen."""
    if memory is None or memory.cluster_id != cluster_id:
        return None
    return memory if 0 <= at_ms - memory.at_ms <= policy.rails.gap_minutes * MINUTE_MS else None


def judged(memory: Memory | None, signs: Sequence[Sign], at_ms: int, policy: KeeperPolicy) -> tuple[Holding, ...]:
    """Find out since when each sign holds. Pre: `memory` is usable."""
    before = {} if memory is None else {(each.subject, each.mark): each.since_ms for each in memory.held}
    found: list[Holding] = []
    for sign in signs:
        since = before.get((sign.subject, sign.mark))
        minutes = 0 if since is None else (at_ms - since) // MINUTE_MS
        found.append(Holding(sign, since, minutes, policy.watches[sign.subject.condition].minutes))
    return tuple(found)


def remembered(cluster_id: str, at_ms: int, holding: Sequence[Holding]) -> Memory:
    """The memory that the next look gets."""
    held = (
        Since(each.sign.subject, at_ms if each.since_ms is None else each.since_ms, each.sign.mark) for each in holding
    )
    return Memory(cluster_id, at_ms, tuple(sorted(held, key=_by_name)))


class MemoryTurn(NamedTuple):
    """Conditions that have held for their minutes since this look, and those of them that no longer hold."""

    began: frozenset[Subject]
    over: tuple[Since, ...]


def turns(before: Memory | None, now: Memory, policy: KeeperPolicy) -> MemoryTurn:
    """What is to be told after a look, by the memories of the look before and of this one."""
    former = {each.subject: each for each in lasted(before, policy)}
    holding = {(each.subject, each.mark) for each in now.held}
    told = former.keys() if before is not None and before.told else set[Subject]()
    began = frozenset(each.subject for each in lasted(now, policy)) - told
    return MemoryTurn(began, tuple(each for each in former.values() if (each.subject, each.mark) not in holding))


def lasted(memory: Memory | None, policy: KeeperPolicy) -> tuple[Since, ...]:
    """The conditions that had held for their minutes at the look that remembered them."""
    if memory is None:
        return ()
    wanted_ms = {condition: watch.minutes * MINUTE_MS for condition, watch in policy.watches.items()}
    return tuple(each for each in memory.held if memory.at_ms - each.since_ms >= wanted_ms[each.subject.condition])


def _by_name(since: Since) -> tuple[str, str]:
    return since.subject.condition.value, since.subject.about
