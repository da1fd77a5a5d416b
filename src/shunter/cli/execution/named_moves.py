"""Moves that the command line names by partition, topic or plan; and sentences about names that have no move."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from shunter.app.executor.history import executions_in
from shunter.app.exit_codes import ExitCode
from shunter.model.partition import TopicPartition
from shunter.views.execution import OPEN_STATES, ExecutionView

if TYPE_CHECKING:
    from shunter.app.executor.journals import JournalPlace
    from shunter.app.executor.status import Status


class Wanted(NamedTuple):
    """The moves that a verb is about; all moves, if nothing is named."""

    partitions: tuple[TopicPartition, ...] = ()
    topics: tuple[str, ...] = ()
    planned: tuple[TopicPartition, ...] = ()
    """Partitions that a plan names; some of them may not move."""

    @property
    def everything(self) -> bool:
        """Whether nothing is named."""
        return not (self.partitions or self.topics or self.planned)

    def of(self, moves: Collection[TopicPartition]) -> list[TopicPartition]:
        """The given moves that the verb is about, sorted."""
        named = {*self.partitions, *self.planned}
        return sorted(tp for tp in moves if self.everything or tp in named or tp.topic in self.topics)


class Elsewhere(NamedTuple):
    """A sentence for each name that does not move here: what is known about it, or that nothing is known."""

    known: dict[str, str]
    unknown: dict[str, str]

    @property
    def lines(self) -> list[str]:
        """All sentences, each after its name."""
        return [f"{name}: {told}" for name, told in (self.known | self.unknown).items()]

    def exit_code(self, *, shown: bool) -> ExitCode:
        """The exit status of a look at these names; `shown`: some of what was named moves here."""
        if not self.unknown:
            return ExitCode.DONE
        return ExitCode.PARTLY if shown or self.known else ExitCode.REFUSED


NOWHERE = Elsewhere({}, {})
"""Everything that was named moves here, or nothing was named."""


def meant(wanted: Wanted) -> Callable[[str], bool]:
    """A function that says whether a verb is about a partition, written `orders-3`."""
    named = {str(tp) for tp in (*wanted.partitions, *wanted.planned)}
    return lambda partition: wanted.everything or partition in named or _topic_of(partition) in wanted.topics


def narrowed(view: ExecutionView, wanted: Wanted) -> ExecutionView:
    """A view of these moves alone. It has no estimated end, because the estimate covers everything under way."""
    if wanted.everything:
        return view
    is_meant = meant(wanted)
    rows = tuple(row for row in view.moves if is_meant(row.partition))
    counts: dict[str, int] = {}
    for row in rows:
        counts[row.state] = counts.get(row.state, 0) + 1
    return replace(
        view,
        moves=rows,
        counts=counts,
        running=any(row.state in OPEN_STATES for row in rows),
        total_bytes=sum(row.total_bytes for row in rows),
        copied_bytes=sum(row.copied_bytes for row in rows),
        rollback_bytes=sum(row.rollback_bytes for row in rows),
        bytes_per_s=None,
        left_ms=None,
        low_ms=None,
        high_ms=None,
        held="no end is estimated for some moves alone: `shunter status` shows the end of all",
    )


def missing_of(wanted: Wanted, found: Collection[str]) -> Wanted:
    """The names that are not among these partitions. A plan is missing only if none of its partitions is among them."""
    topics = {_topic_of(partition) for partition in found}
    return Wanted(
        tuple(tp for tp in wanted.partitions if str(tp) not in found),
        tuple(topic for topic in wanted.topics if topic not in topics),
        () if any(str(tp) in found for tp in wanted.planned) else wanted.planned,
    )


async def look_elsewhere(missing: Wanted, found: Status) -> Elsewhere:
    """Sentences about names that nothing moves, from earlier executions and the cluster."""
    if missing.everything:
        return NOWHERE
    known = await _past(found.place, missing) if found.exists else {}
    rest = missing_of(missing, set(known))
    rest = rest._replace(topics=tuple(name for name in rest.topics if f"topic {name}" not in known))
    return Elsewhere(known, _unknown(rest, found))


async def _past(place: JournalPlace, missing: Wanted) -> dict[str, str]:
    last: dict[TopicPartition, tuple[int, str]] = {}
    for execution in await executions_in(place):
        for tp, move in execution.moves.items():
            last[tp] = (execution.number, "open" if move.outcome is None else move.outcome.told)
    told: dict[str, str] = {}
    for tp in missing.partitions:
        if tp in last:
            number, ended = last[tp]
            told[str(tp)] = f"nothing moves it; execution {number} of `shunter history` moved it: {ended}"
    for topic in missing.topics:
        numbers = [number for tp, (number, _ended) in last.items() if tp.topic == topic]
        if numbers:
            told[f"topic {topic}"] = (
                f"nothing of it moves; execution {max(numbers)} of `shunter history` moved some of it"
            )
    return told


def _unknown(missing: Wanted, found: Status) -> dict[str, str]:
    nobody = "the journal knows no move of it"
    nor_journal = f", and {nobody}" if found.exists else ""
    there = found.partitions
    if there is not None:
        nobody = (
            "neither the journal nor the cluster knows a move of it"
            if found.exists
            else "the cluster knows no move of it"
        )
    told = {str(tp): nobody for tp in missing.partitions} | {f"topic {name}": nobody for name in missing.topics}
    if there is not None:
        absent = [tp for tp in missing.partitions if tp.partition not in there.get(tp.topic, ())]
        told |= {str(tp): f"the cluster has no such partition{nor_journal}" for tp in absent}
        unknown = [name for name in missing.topics if name not in there]
        told |= {f"topic {name}": f"the cluster has no such topic{nor_journal}" for name in unknown}
    return told | ({"the plan": nobody.replace("of it", "of any of its partitions")} if missing.planned else {})


def _topic_of(partition: str) -> str:
    return partition.rpartition("-")[0]


__all__ = ["NOWHERE", "Elsewhere", "Wanted", "look_elsewhere", "meant", "missing_of", "narrowed"]
