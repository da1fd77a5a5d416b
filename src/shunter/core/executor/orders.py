"""Turns operators' commands into entries to be written, and replies."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from shunter.core.executor.choice import Waits, undo
from shunter.core.executor.copies import within
from shunter.core.executor.foresight.hold_ups import can_cancel, told_held_up, told_stuck, told_unsure
from shunter.core.executor.foresight.stuck import endless_step, ends_with_its_step, stuck, turned_to, waits_now
from shunter.core.executor.state import ExecutorState, Move
from shunter.core.executor.throttling.pausing import OTHERS_HELD, holds_others, paused_within, unheld
from shunter.core.throttles import CORDONED_LOG_DIRS
from shunter.core.wording import counted, named, told_bytes, told_rate
from shunter.model.execution import (
    BOUNDS,
    BoundsChanged,
    Command,
    CommandKind,
    CommandTaken,
    Direction,
    DirectionChanged,
    FloorRelaxed,
    JournalRecord,
    LimitChanged,
    MoveClosed,
    MovePaused,
    Outcome,
    ThrottleRestored,
)
from shunter.model.limits import bound_trouble
from shunter.model.partition import BrokerId, TopicPartition


@dataclass(slots=True)
class DecidedOrder:
    """Entries to be written, and the reply that goes out once they are durable."""

    accepted: bool
    text: str
    records: list[JournalRecord] = field(default_factory=list[JournalRecord])
    partly: bool = False
    """It is done, but for something that was named, or that somebody has to end in the cluster."""


def decide_command(state: ExecutorState, command: Command) -> DecidedOrder:
    """Turn a command into entries. Moves that have ended are left as they are."""
    if command.kind is CommandKind.LIMIT:
        return _limit(state, command)
    if command.kind is CommandKind.BOUND:
        return _bound(state, command)
    if command.kind is CommandKind.FORGET:
        return _forget(state, command)
    if command.kind is CommandKind.UNCORDON:
        return _uncordon(state, command)
    moves = [state.moves[tp] for tp in state.moves if not command.partitions or tp in command.partitions]
    unknown = sorted(set(command.partitions) - state.moves.keys())
    if unknown and not moves:
        return DecidedOrder(False, f"not in the execution: {', '.join(str(tp) for tp in unknown)}")
    opened = [move for move in moves if move.open]
    if not opened:
        if others := len(state.open_moves()):
            still = counted(others, "other move is", "other moves are")
            return DecidedOrder(False, f"nothing that was named is under way: all of it has ended; {still} open")
        why = "all moves named have ended" if command.partitions else "no move is open"
        return DecidedOrder(
            False, f"nothing of this journal is under way: {why}; `shunter undo` takes back what was done"
        )
    decided = _PER_MOVE[command.kind](state, command, opened)
    if not decided.accepted:
        return decided
    decided.records.insert(0, CommandTaken(command))
    ended = [move.tp for move in moves if not move.open] if command.partitions else []
    decided.text += f"; ended before, and left alone: {named(sorted(ended))}" if ended else ""
    if unknown:
        decided.text += f"; not in the execution: {named(unknown)}"
        decided.partly = True
    return decided


def _limit(state: ExecutorState, command: Command) -> DecidedOrder:
    if not state.running:
        return DecidedOrder(False, "nothing is under way: there is nothing to limit")
    # Who takes the order has judged the rate by `rate_trouble`, except Apache's tool, which may set any rate.
    if command.bytes_per_s is not None and command.bytes_per_s <= 0:
        return DecidedOrder(
            False, f"a limit of {counted(command.bytes_per_s, 'byte')} per second: it must be more than 0"
        )
    changed = LimitChanged(command.bytes_per_s, f"asked for by {command.given_by or 'an operator'}")
    told = "the limit is lifted" if command.bytes_per_s is None else f"the limit is {told_rate(command.bytes_per_s)}"
    return DecidedOrder(True, told, [CommandTaken(command), changed])


def _bound(state: ExecutorState, command: Command) -> DecidedOrder:
    """Change how many copies may run. Copies under way go on; the bounds apply when the next copies begin."""
    if not state.running:
        return DecidedOrder(False, "nothing is under way: there is nothing to bound")
    unknown = [name for name, _ in command.bounds if name not in BOUNDS]
    if unknown or not command.bounds:
        return DecidedOrder(False, f"{', '.join(unknown) or 'no name'}: one of {', '.join(BOUNDS)} is wanted")
    wrong = [f"{name} = {trouble}" for name, value in command.bounds if (trouble := bound_trouble(value))]
    if wrong:
        return DecidedOrder(False, "; ".join(wrong))
    changed = BoundsChanged(command.bounds, f"asked for by {command.given_by or 'an operator'}")
    told = ", ".join(f"{name.replace('_', '-')} {value or 'without bound'}" for name, value in command.bounds)
    return DecidedOrder(True, f"from now on: {told}", [CommandTaken(command), changed])


def _forget(state: ExecutorState, command: Command) -> DecidedOrder:
    """Strike off throttles owed to brokers that are down. If such a broker comes back, it still has the throttle."""
    live = [broker for broker in command.brokers if broker in state.cluster.brokers]
    if live:
        return DecidedOrder(
            False, f"broker {live[0]} is up: its throttles are given back as they were, nothing is forgotten"
        )
    keys = [key for key in state.throttles if key.kind == "broker" and int(key.name) in command.brokers]
    named = ", ".join(str(broker) for broker in command.brokers)
    if not keys:
        return DecidedOrder(False, f"no throttle is owed to broker {named}")
    told = f"{counted(len(keys), f'throttle setting of broker {named} is', f'throttle settings of broker {named} are')} forgotten; "
    told += "should it come back, it has what was set"
    forgotten: list[JournalRecord] = [ThrottleRestored(key, left=True, forgotten=True) for key in keys]
    return DecidedOrder(True, f"{told}: `shunter throttles list` finds them", [CommandTaken(command), *forgotten])


def _uncordon(state: ExecutorState, command: Command) -> DecidedOrder:
    """Make cordons settings to be restored, those of drains that are done and of one under way."""
    known = state.cordoned()
    strange = [broker for broker in command.brokers if broker not in known]
    if strange:
        told = f"no drain of this journal cordoned broker {', '.join(map(str, strange))}"
        return DecidedOrder(False, f"{told}: whoever set its `{CORDONED_LOG_DIRS}` takes it back")
    whose = ", ".join(map(str, command.brokers))
    return DecidedOrder(True, f"broker {whose}: the former {CORDONED_LOG_DIRS} is given back", [CommandTaken(command)])


def _turn(state: ExecutorState, command: Command, moves: list[Move]) -> DecidedOrder:
    """Stop moves, or roll them back."""
    direction = Direction.STOP if command.kind is CommandKind.STOP else Direction.BACK
    turned: list[JournalRecord] = [DirectionChanged(move.tp, direction, command.force) for move in moves]
    told = _and(told_stuck(state, moves, direction=direction, forced=command.force))
    told = (_told_below(state, moves) if command.force else "") + told
    if direction is Direction.BACK:
        # Nothing is said about the price of a rollback that does not end.
        ending = [move for move in moves if stuck(state, turned_to(move, direction, forced=command.force)) is None]
        some = "" if ending == moves else f"for {len(ending)} of them "
        price = f"; {some}{told_rollback(ending)}" if ending else ""
        unsure = ((move.tp, told_unsure(state, move.tp, _comes_back(move))) for move in ending)
        told += _and(told_held_up((tp, why) for tp, why in unsure if why))
        back = counted(len(moves), "move is", "moves are")
        told += _told_done_before(state) if not command.partitions else ""
        return DecidedOrder(True, f"{back} {'rolled' if ending == moves else 'turned'} back{price}{told}", turned)
    copies = sum(1 for move in moves for _copy in within(state, move))
    given_up = counted(copies, "copy between log dirs is", "copies between log dirs are")
    stays = f"what is in sync stays{f', {given_up} given up' if copies else ''}{_told_fewer(moves)}"
    late = [each.tp for each in moves if not command.force and ends_with_its_step(state, turned_to(each, direction))]
    if late:
        until = f"{'ends only when what it copies' if len(late) == 1 else 'end only when what they copy'} is in sync, because too few former replicas are for a cancel"
        stays += f"; {len(late)} of them {until} ({named(late)}); `shunter stop --leave` leaves that to the cluster"
    stays += "" if command.force else _told_race(state, moves)
    return DecidedOrder(True, f"{counted(len(moves), 'move')} told to stop: {stays}{told}", turned)


def _told_done_before(state: ExecutorState) -> str:
    """That a rollback leaves the moves that ended before it, to be put behind its sentence; "": there are none."""
    done = sum(move.outcome is Outcome.DONE for move in state.moves.values())
    stays = counted(done, "move that is done stays", "moves that are done stay")
    return f"; {stays}: `shunter undo` takes {'it' if done == 1 else 'them'} back" if done else ""


def _told_race(state: ExecutorState, moves: list[Move]) -> str:
    """Name moves that a stop no longer ends once their copy is in sync, as it may be by now; "": there are none."""
    found = [
        move.tp
        for move in moves
        if (seen := state.cluster.partition(move.tp)) is not None
        and move.step is not None
        and any(broker in state.cluster.brokers and broker not in seen.isr for broker in move.step.copying)
        and endless_step(state, move)
        and stuck(state, turned_to(move, Direction.STOP)) is None
    ]
    if not found:
        return ""
    return (
        f"; should the copy be in sync by now, it stays, and its step waits for what is down ({named(found)}): "
        "`shunter stop --force` then gives the copy up"
    )


def _told_fewer(moves: list[Move]) -> str:
    """Name moves that dropped replicas before they could add others, to be put behind what a stop leaves; "": none."""
    fewer = [
        move.tp for move in moves if len(move.current if move.step is None else move.step.before) < len(move.original)
    ]
    if not fewer:
        return ""
    counts = counted(len(fewer), "partition has", "partitions have")
    return f"; {counts} fewer replicas than before ({named(fewer)}), unless a copy under way is in sync; `shunter doctor` says how they get them back"


def _comes_back(move: Move) -> list[BrokerId]:
    """Brokers that get a replica again by a rollback."""
    return [broker for broker in move.original if broker not in move.held]


def _told_below(state: ExecutorState, moves: list[Move]) -> str:
    """Name partitions that an order by force leaves with fewer in sync than their topic's min.insync.replicas."""
    live, below = state.cluster.brokers, list[str]()
    for move in moves:
        seen, least = state.cluster.partition(move.tp), state.cluster.min_isr(move.tp.topic)
        before = move.current if move.step is None else move.step.before
        healthy = 0 if seen is None else sum(broker in seen.isr and broker in live for broker in before)
        if healthy < min(least, len(before)):
            below.append(f"{move.tp} ({healthy} of {len(before)} in sync, min.insync.replicas is {least})")
    return f"; producers with acks=all are refused until more replicas are in sync: {named(below)}" if below else ""


def _leave(state: ExecutorState, _command: Command, moves: list[Move]) -> DecidedOrder:
    closed: list[JournalRecord] = []
    endless: dict[str, list[TopicPartition]] = {}
    running = 0
    for move in moves:
        seen = state.cluster.partition(move.tp)
        replicas = move.current if seen is None else seen.replicas
        running += move.step is not None
        reason = "left as it is at an operator's word"
        if move.step is not None:
            reason += f"; its step to {list(move.step.after)} is the cluster's own business now"
        if ends := endless_step(state, move):
            endless.setdefault(ends, []).append(move.tp)
            reason += f", and {ends} before an offline replica of it is back"
        closed.append(MoveClosed(move.tp, Outcome.LEFT, reason, replicas, move.copied_bytes))
    told = f"; the cluster goes on with {counted(running, 'step')} by itself, without our throttle" if running else ""
    for ends, tps in endless.items():
        told += f"; {counted(len(tps), 'of them')} {ends} before offline replicas are back: {named(tps)}"
    if endless:
        stay = [move for move in moves if endless_step(state, move)]
        first = "" if all(can_cancel(state, move) for move in stay) else "once a former replica is in sync, "
        told += (
            f"; {first}`kafka-reassign-partitions --cancel` ends such a reassignment, "
            "`shunter execute --take-over` takes it up again"
        )
    copies = sum(1 for move in moves for _copy in within(state, move))
    if copies:
        goes_on = counted(copies, "copy between log dirs goes on", "copies between log dirs go on")
        told += f"; {goes_on} without our throttle"
    left = counted(len(moves), "move is left as it is", "moves are left as they are")
    return DecidedOrder(True, f"{left}{told}", closed, partly=bool(endless))


SLOWED = (
    "paused copies slow down to one fetch in 11 s from each broker that sends (by Kafka's defaults at most 1 MB of a "
    "partition, 10 MB of many)"
)
"""The traffic that a pause still lets through. Kafka's quota holds a fetch back only after an earlier one exceeded it,
and a fetch takes up to `replica.fetch.max.bytes` of each partition and `replica.fetch.response.max.bytes` in all, for
each of `num.replica.fetchers`."""


def _pause(state: ExecutorState, _command: Command, moves: list[Move]) -> DecidedOrder:
    paused: list[JournalRecord] = [MovePaused(move.tp, True) for move in moves if not move.paused]
    waiting = {move.tp for move in moves} | {move.tp for move in state.open_moves() if move.paused}
    shared = paused_within(state, waiting)[1]
    cancelled = unheld(state, waiting)
    stay = sorted(tp for tp in cancelled if _goes_on_paused(state, state.moves[tp]))
    gone = len(cancelled) - len(stay)
    gone += sum(len(shared & move.copies) for move in state.open_moves() if move.tp in waiting)
    told = (
        f"; {counted(gone, 'copy is', 'copies are')} cancelled and begun again later, for a throttle would hold others too"
        if gone
        else ""
    )
    if stay:
        copies = counted(len(stay), "copy goes on, as it", "copies go on, as they")
        told += f"; {copies} can't be cancelled now ({named(stay)}), and {OTHERS_HELD}"
    done = _told_done(f"{counted(len(paused), 'move')} paused", len(paused), len(moves), "paused")
    goes_on = any(move.tp not in waiting for move in state.open_moves())
    step = "No step of a paused move begins, and other moves go on" if goes_on else "No step begins"
    held = any(move.copying and move.tp not in cancelled for move in moves)
    slowed = f"; {SLOWED}" if held else ""
    return DecidedOrder(True, f"{done}. {step}{slowed}{told}", paused)


def _goes_on_paused(state: ExecutorState, move: Move) -> bool:
    """Whether the copy of an unheld paused move can be neither cancelled now nor held by a rate."""
    seen = state.cluster.partition(move.tp)
    if seen is None or not holds_others(state, move.copying):
        return False
    live, least = frozenset(state.cluster.brokers), state.least_in_sync(move)
    return isinstance(undo(move, seen, live, least, put_off=True, closed=state.closed()), Waits)


def _resume(_state: ExecutorState, _command: Command, moves: list[Move]) -> DecidedOrder:
    resumed: list[JournalRecord] = [MovePaused(move.tp, False) for move in moves if move.paused]
    if not resumed:
        return DecidedOrder(False, "none of the moves named is paused")
    return DecidedOrder(True, f"{counted(len(resumed), 'move goes', 'moves go')} on", resumed)


def _relax(state: ExecutorState, _command: Command, moves: list[Move]) -> DecidedOrder:
    relaxed: list[JournalRecord] = [FloorRelaxed(move.tp) for move in moves if not move.relaxed]
    told = _and(told_stuck(state, moves) or _told_waits(state, moves))
    done = f"the floor of {counted(len(relaxed), 'move')} is relaxed"
    return DecidedOrder(True, f"{_told_done(done, len(relaxed), len(moves), 'relaxed')}{told}", relaxed)


def _told_waits(state: ExecutorState, moves: list[Move]) -> str:
    """Name moves that wait for replicas in sync even with a relaxed floor; "": none does."""
    found = {move.tp: waits for move in moves if (waits := waits_now(state, replace(move, relaxed=True))) is not None}
    if not found:
        return ""
    first = next(iter(found.values()))
    still = f"{counted(len(found), 'move')} still can't go on, {named(found)}: it {first.reason}"
    return f"{still}; a relaxed floor is min.insync.replicas"


def _told_done(done: str, changed: int, named: int, state: str) -> str:
    """What an order has changed (`done`), and how many of the moves that it names were in that state already."""
    before = named - changed
    if not changed:
        return f"{counted(before, 'move was', 'moves were')} {state} already"
    return f"{done}; {counted(before, 'was', 'were')} {state} already" if before else done


def _and(told: str) -> str:
    return f". But {told}" if told else ""


def told_rollback(moves: list[Move]) -> str:
    """The bytes that a rollback of these moves copies, in words: dropped originals are no longer on disk."""
    copies = sum(rollback_bytes(move) for move in moves)
    most = sum(rollback_cost(move) for move in moves)
    if most > copies:
        return f"at most {told_bytes(most)} are copied again: steps may have ended since an executor last looked"
    return "it is instant" if copies == 0 else f"{told_bytes(copies)} of dropped originals are copied again"


def rollback_bytes(move: Move) -> int:
    """Bytes that a rollback of one move copies, from where it stands; for copies between log dirs, at most."""
    return move.size_bytes * (sum(broker not in move.held for broker in move.original) + _placed_again(move))


def _placed_again(move: Move) -> int:
    """The most replicas that a rollback copies, within their broker, back to the log dir that they were in."""
    unasked = move.status.watched and not move.log_dir_status.asked and not move.log_dir_status.done
    known = dict(move.origins)
    placed = move.placed_before if unasked else move.placed
    return sum(broker in known and broker in move.held for broker in placed)


def rollback_cost(move: Move) -> int:
    """The most bytes that a rollback would copy now; 0 for a move that has ended, because it can't be rolled back."""
    if not move.open:
        return 0
    return rollback_bytes(move) if move.status.watched else most_rollback_bytes(move)


def most_rollback_bytes(move: Move) -> int:
    """The most bytes that a rollback may copy if no executor has looked since the last entry: the step may be over."""
    if move.step is None:
        return rollback_bytes(move)
    possible = (move.current, move.step.before, move.step.after, *move.step.redirected_from)
    copied = max(sum(broker not in held for broker in move.original) for held in possible)
    return move.size_bytes * (copied + _placed_again(move))


_PER_MOVE = {
    CommandKind.STOP: _turn,
    CommandKind.ROLL_BACK: _turn,
    CommandKind.PAUSE: _pause,
    CommandKind.RESUME: _resume,
    CommandKind.RELAX: _relax,
    CommandKind.LEAVE: _leave,
}
