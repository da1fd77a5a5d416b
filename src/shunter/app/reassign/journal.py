"""A journal, for the pipeline's account, of moves that Shunter's controller carries out, as a client sees them.

The entries have the executor's form, as JSON lines (docs/data.md, "Journal lines"). A controller writes a step as one
change of a partition's replicas. At this change the step begins, and the step before it is over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import orjson

from shunter.app.reassign.session import MoveUnderWay, ReassignSession
from shunter.drivers.host.clock import wall_clock_ms
from shunter.errors import FormatError
from shunter.model.execution import Outcome
from shunter.model.partition import Replicas, TopicPartition
from shunter.model.reassignment import Phase

_PAUSED, _ROLLING_BACK = Phase.PAUSED.value, Phase.ROLLING_BACK.value
_LOOKS_UNSETTLED = 5
"""How often brokers are asked again for the replicas of an ended move, if these are neither target nor original.
Brokers learn of a move's end a moment after the controller no longer lists it."""


@dataclass(slots=True)
class _Followed:
    """A move under way, as it was last seen. `step` is the number of the step under way, 0 before the first."""

    row: MoveUnderWay
    original: Replicas
    target: Replicas
    size_bytes: int
    step: int = 0
    before: Replicas = ()
    copied_bytes: int = 0


@dataclass(slots=True)
class MoveFollower:
    """Makes journal entries from successive looks at moves."""

    _moves: dict[TopicPartition, _Followed] = field(default_factory=dict[TopicPartition, _Followed])

    def look(
        self,
        rows: Sequence[MoveUnderWay],
        sizes: Mapping[TopicPartition, int],
        places: Mapping[TopicPartition, Replicas],
    ) -> Iterator[dict[str, Any]]:
        """Yield entries for the changes since the last look.

        Args:
            rows: Moves under way.
            sizes: Bytes of one replica, by partition.
            places: Replicas of partitions whose moves are over; () if the topic is gone. Moves of `over` that are not
                in it stay open.
        """
        for row in rows:
            known = self._moves.get(row.tp)
            if known is not None and row.target != known.target and row.phase != _ROLLING_BACK:
                yield from self._close(known, Outcome.SUPERSEDED, row.replicas)
                known = None
            if known is None:
                yield from self._accept(row, sizes.get(row.tp, 0))
            else:
                yield from self._go_on(known, row)
        for followed in self.over(rows):
            if followed.row.tp in places:
                place = places[followed.row.tp]
                yield from self._close(followed, _outcome(followed, place), place)

    def __contains__(self, tp: TopicPartition) -> bool:
        """Whether this move was under way at the last look."""
        return tp in self._moves

    def __len__(self) -> int:
        """The number of moves that are not closed."""
        return len(self._moves)

    def over(self, rows: Sequence[MoveUnderWay]) -> list[_Followed]:
        """Moves that were under way at the last look and no longer are, by partition."""
        return [self._moves[tp] for tp in sorted(self._moves.keys() - {row.tp for row in rows})]

    def _accept(self, row: MoveUnderWay, size_bytes: int) -> Iterator[dict[str, Any]]:
        original = row.original or tuple(broker for broker in row.replicas if broker not in row.adding)
        target = original if row.phase == _ROLLING_BACK else row.target
        known = self._moves[row.tp] = _Followed(row, original, target, size_bytes)
        yield {
            "kind": "move-accepted", "tp": str(row.tp), "original": original, "target": target,
            "size_bytes": size_bytes,
        }  # fmt: skip
        if row.phase == _PAUSED:
            yield {"kind": "move-paused", "tp": str(row.tp), "paused": True}
        if set(row.replicas) != set(original):
            yield self._begin(known, original, row.replicas)

    def _go_on(self, known: _Followed, row: MoveUnderWay) -> Iterator[dict[str, Any]]:
        was, known.row = known.row, row
        if (was.phase == _PAUSED) != (row.phase == _PAUSED):
            yield {"kind": "move-paused", "tp": str(row.tp), "paused": row.phase == _PAUSED}
        if was.replicas != row.replicas:
            yield from self._finish(known, was.replicas)
            yield self._begin(known, was.replicas, row.replicas)

    def _begin(self, known: _Followed, before: Replicas, after: Replicas) -> dict[str, Any]:
        known.step, known.before = known.step + 1, before
        return {
            "kind": "step-begun", "tp": str(known.row.tp), "number": known.step, "before": before, "after": after,
            "reason": known.row.phase,
        }  # fmt: skip

    def _finish(self, known: _Followed, replicas: Replicas) -> Iterator[dict[str, Any]]:
        if known.step == 0:
            return
        copied = sum(broker not in known.before for broker in replicas) * known.size_bytes
        known.copied_bytes += copied
        yield {
            "kind": "step-finished", "tp": str(known.row.tp), "number": known.step, "after": replicas,
            "copied_bytes": copied,
        }  # fmt: skip

    def _close(self, known: _Followed, outcome: Outcome, replicas: Replicas) -> Iterator[dict[str, Any]]:
        tp = known.row.tp
        yield from self._finish(known, known.row.replicas)
        del self._moves[tp]
        yield {
            "kind": "move-closed", "tp": str(tp), "outcome": outcome.value, "reason": "", "after": replicas,
            "copied_bytes": known.copied_bytes,
        }  # fmt: skip


def _outcome(followed: _Followed, place: Replicas) -> Outcome:
    if not place:
        return Outcome.GONE
    if place == followed.target:
        return Outcome.DONE
    return Outcome.ROLLED_BACK if place == followed.original else Outcome.STOPPED


class JournalLines:
    """A file to which journal lines are appended."""

    def __init__(self, path: Path, cluster_id: str, plan_id: str | None, at_ms: int) -> None:
        """Begin a file, or append to an earlier run's; the first line is a `plan-accepted` entry.

        Raises:
            FormatError: the file can't be written, or is not a journal.
        """
        self._head = {"cluster_id": cluster_id, "journal": path.stem}
        try:
            self._sequence = _last_sequence(path)
            self._stream = path.open("ab")
        except OSError as error:
            raise FormatError(str(path), f"can't be written: {error.strerror}") from error
        self.write(at_ms, [{"kind": "plan-accepted", "plan_id": plan_id or f"{path.stem}-{at_ms}"}])

    def close(self) -> None:
        """Close the file."""
        self._stream.close()

    def write(self, at_ms: int, entries: Sequence[Mapping[str, Any]]) -> None:
        """Append entries, and flush them so that readers see them."""
        for entry in entries:
            self._sequence += 1
            line = {**self._head, "sequence": self._sequence, "at": at_ms, "cause": "watch", **entry}
            self._stream.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
        self._stream.flush()


def _last_sequence(path: Path) -> int:
    if not path.exists() or path.stat().st_size == 0:
        return 0
    last = path.read_bytes().splitlines()[-1]
    try:
        return int(orjson.loads(last)["sequence"])
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise FormatError(str(path), "its last line is not a journal entry: give another file") from error


class WatchedMoves:
    """A journal of the moves that a session sees; a context manager."""

    def __init__(self, session: ReassignSession, path: Path, plan_id: str | None) -> None:
        """Begin the journal.

        Raises:
            DriverError: the cluster does not answer.
            FormatError: the file can't be used.
        """
        self._session = session
        self._follower = MoveFollower()
        self._unsettled: dict[TopicPartition, int] = {}
        self._lines = JournalLines(path, session.cluster.cluster_id(), plan_id, wall_clock_ms())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.close()

    def look(self, rows: Sequence[MoveUnderWay]) -> bool:
        """Write the changes since the last look; returns whether the end of some moves is not known yet."""
        sizes = self._session.sizes([row for row in rows if row.tp not in self._follower])
        entries = list(self._follower.look(rows, sizes, self._settled(rows)))
        self._lines.write(wall_clock_ms(), entries)
        return len(self._follower) > 0

    def _settled(self, rows: Sequence[MoveUnderWay]) -> dict[TopicPartition, Replicas]:
        over = self._follower.over(rows)
        known = self._session.cluster.partitions([followed.row.tp for followed in over])
        settled: dict[TopicPartition, Replicas] = {}
        for followed in over:
            tp = followed.row.tp
            place = known[tp].replicas if tp in known else ()
            self._unsettled[tp] = self._unsettled.get(tp, 0) + 1
            if place in ((), followed.target, followed.original) or self._unsettled[tp] > _LOOKS_UNSETTLED:
                settled[tp] = place
                del self._unsettled[tp]
        return settled


__all__ = ["JournalLines", "MoveFollower", "WatchedMoves"]
