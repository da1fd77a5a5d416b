"""What an operator's command comes to."""

from __future__ import annotations

from dataclasses import dataclass, field

from shunter.core.executor.state import ExecutorState, Move
from shunter.model.execution import (
    Command,
    CommandKind,
    CommandTaken,
    Direction,
    DirectionChanged,
    FloorRelaxed,
    JournalRecord,
    LimitChanged,
    MovePaused,
)


@dataclass(slots=True)
class Decided:
    """Entries to be written, and the answer that may go out once they are."""

    accepted: bool
    text: str
    records: list[JournalRecord] = field(default_factory=list[JournalRecord])


def decide_command(state: ExecutorState, command: Command) -> Decided:
    """Turn a command into entries. Moves that ended are left as they are; a rollback of the whole plan is said so."""
    if command.kind is CommandKind.LIMIT:
        return _limit(state, command)
    moves = [state.moves[tp] for tp in state.moves if not command.partitions or tp in command.partitions]
    unknown = sorted(set(command.partitions) - state.moves.keys())
    if unknown:
        return Decided(False, f"not in the execution: {', '.join(str(tp) for tp in unknown)}")
    opened = [move for move in moves if move.open]
    if not opened:
        return Decided(False, "nothing is under way: all moves named have ended")
    decided = _PER_MOVE[command.kind](opened)
    decided.records.insert(0, CommandTaken(command))
    return decided


def _limit(state: ExecutorState, command: Command) -> Decided:
    if not state.running:
        return Decided(False, "nothing is under way: there is nothing to limit")
    if command.bytes_per_s is not None and command.bytes_per_s <= 0:
        return Decided(False, f"a limit of {command.bytes_per_s} bytes per second: it must be more than 0")
    changed = LimitChanged(command.bytes_per_s, f"asked for by {command.given_by or 'an operator'}")
    told = "the limit is lifted" if command.bytes_per_s is None else f"the limit is {command.bytes_per_s} bytes/s"
    return Decided(True, told, [CommandTaken(command), changed])


def _stop(moves: list[Move]) -> Decided:
    turned: list[JournalRecord] = [DirectionChanged(move.tp, Direction.STOP) for move in moves]
    return Decided(True, f"{len(moves)} moves stop: what is in sync stays", turned)


def _roll_back(moves: list[Move]) -> Decided:
    turned: list[JournalRecord] = [DirectionChanged(move.tp, Direction.BACK) for move in moves]
    return Decided(True, f"{len(moves)} moves are rolled back; {told_rollback(moves)}", turned)


def _pause(moves: list[Move]) -> Decided:
    paused: list[JournalRecord] = [MovePaused(move.tp, True) for move in moves if not move.paused]
    return Decided(True, f"{len(moves)} moves are paused: no step begins, copies slow down to almost nothing", paused)


def _resume(moves: list[Move]) -> Decided:
    resumed: list[JournalRecord] = [MovePaused(move.tp, False) for move in moves if move.paused]
    if not resumed:
        return Decided(False, "none of the moves named is paused")
    return Decided(True, f"{len(resumed)} moves go on", resumed)


def _relax(moves: list[Move]) -> Decided:
    relaxed: list[JournalRecord] = [FloorRelaxed(move.tp) for move in moves if not move.relaxed]
    return Decided(True, f"the floor of {len(relaxed)} moves is relaxed", relaxed)


def told_rollback(moves: list[Move]) -> str:
    """What rolling these back copies: originals that were dropped are gone from disk."""
    copies = sum(rollback_bytes(move) for move in moves)
    return "it is instant" if copies == 0 else f"{copies} bytes of dropped originals are copied again"


def rollback_bytes(move: Move) -> int:
    """Bytes that a rollback of one move copies, from where it stands."""
    held = set(move.current)
    if move.step is not None:
        held |= set(move.step.before)
    return move.size_bytes * sum(broker not in held for broker in move.original)


_PER_MOVE = {
    CommandKind.STOP: _stop,
    CommandKind.ROLL_BACK: _roll_back,
    CommandKind.PAUSE: _pause,
    CommandKind.RESUME: _resume,
    CommandKind.RELAX: _relax,
}
