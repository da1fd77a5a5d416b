"""Deliberate bugs in the executor, as in `mutants.py` for the controller: each is found within its number of seeds."""

import asyncio
from dataclasses import replace
from functools import partial
from zlib import crc32

import mutants

from lab.simulation.actions import ASIDE_OF
from lab.simulation.executor.actions import ASIDE
from lab.simulation.kinds import EXECUTOR
from shunter.core.executor import apply, capacity, choice, decisions, log_dirs, machine
from shunter.core.executor.capacity import Capacity
from shunter.core.executor.machine import Executor
from shunter.core.executor.state import Move
from shunter.core.executor.throttling import throttles
from shunter.core.executor.throttling.throttles import Gate, ThrottleBook
from shunter.drivers.journal import order_taker
from shunter.drivers.journal import sqlite as journal_sqlite
from shunter.drivers.journal.compacted_topic import CompactedTopic
from shunter.drivers.journal.execution import ExecutionDriver
from shunter.drivers.journal.sqlite import SqliteJournal
from shunter.drivers.journal.topic import TopicJournal
from shunter.model.execution import (
    CommandKind,
    CommandTaken,
    CopySight,
    Direction,
    DirectionChanged,
    MoveAccepted,
    ThrottleRestored,
)

EXECUTOR_MUTANTS: list[mutants.Mutant] = []
LOG_DIRS_FIRST, CORDONS_FIRST = ASIDE
"""The first seed of worlds in which another tool moves a replica to another log dir, and a plan asks for it back; and
of those in which brokers are cordoned."""
mutant = partial(mutants.mutant, kind=EXECUTOR, into=EXECUTOR_MUTANTS)


# ---- the journal


@mutant(SqliteJournal, "__init__", within=20)
def journal_not_synced(original, self, *arguments, **named):
    """SQLite does not sync: the operating system decides when a batch reaches the disk."""
    original(self, *arguments, **named)
    self._connection.execute("PRAGMA synchronous=OFF")


@mutant(ExecutionDriver, "_carry_out", within=60)
def requests_before_the_journal(original, self, ready):
    """The requests of a batch are sent while the batch is being written."""
    outstanding = self.core._outstanding
    if outstanding is None or not ready.requests:
        original(self, ready)
        return
    original(self, replace(ready, requests=()))


@mutant(SqliteJournal, "load", within=40)
def last_row_is_not_read(original, self):
    """A resumed executor goes on from an older state."""
    return original(self)[:-1]


@mutant(journal_sqlite, "decode_line", within=120)
def torn_row_accepted(original, row, place):
    """The checksum is not checked."""
    return original(row._replace(checksum=crc32(row.body.encode())), place)


@mutant(ExecutionDriver, "_check", within=1200)
async def fenced_and_goes_on(original, self, *, written):
    """Requests are sent without a check of the lease."""
    return


@mutant(CompactedTopic, "fence", within=100)
def topic_not_fenced(original, self):
    """A process that takes the lease does not fence the former producer."""
    self._producer = self.clients.producer(transactional_id="as before")
    self._producer._epoch = self._producer.topic.epoch


@mutant(TopicJournal, "load", within=40)
def last_record_is_not_read(original, self):
    """A resumed executor goes on from an older state; with the journal in a topic."""
    return original(self)[:-1]


@mutant(order_taker, "_too_late", within=80)
def orders_by_their_date(original, now_ms, order, came_since_ms):
    """The bug that was found: a new order is refused because of its date, which is by another process's clock."""
    return original(now_ms, order, None)


@mutant(order_taker, "_take", within=600)
async def orders_wait_in_line(original, driver, journal, order, came_since_ms):
    """The bug that was found: a stop waits for the plan that came before it."""
    lock = vars(driver).setdefault("line", asyncio.Lock())
    async with lock:
        await original(driver, journal, order, came_since_ms)


# ---- steps, stops and rollbacks, ends


@mutant(decisions, "choose", within=120)
def rollback_in_another_order(original, move, seen, live, min_isr, **more):
    """A rollback restores the set, not the ORDER."""
    if move.direction is not Direction.BACK:
        return original(move, seen, live, min_isr, **more)
    if set(seen.replicas) == set(move.original):
        return choice.Reached(seen.replicas)
    chosen = original(move, seen, live, min_isr, **more)
    return chosen._replace(after=tuple(sorted(chosen.after))) if type(chosen) is choice.Begin else chosen


@mutant(machine, "decide_command", within=40)
def cancel_forgets_what_has_not_begun(original, state, command):
    """A stop or a rollback affects only moves with a running step."""
    decided = original(state, command)
    if command.kind in (CommandKind.STOP, CommandKind.ROLL_BACK):
        decided.records = [
            record
            for record in decided.records
            if type(record) is CommandTaken or state.moves[record.tp].step is not None
        ]
    return decided


@mutant(apply, "_move", within=250)
def original_is_overwritten(original, state, tp, entry):
    """When a move is stopped or rolled back, its current replicas become its original."""
    move = original(state, tp, entry)
    if type(entry.record) is DirectionChanged:
        move.original = move.current
    return move


@mutant(decisions, "_unexplained", within=300)
def foreign_reassignment_overruled(original, work, move, seen):
    """A reassignment of the executor's partition by another tool is ignored."""
    return False


@mutant(Move, "begun_before", within=250)
def the_future_is_waited_for(original, self, now_ms):
    """The bug that was found: after the clock was set back, the executor waits for the later times in the journal."""


@mutant(choice, "folded", within=40)
def floor_forgotten(original, after, goal):
    """The last steps become one step, however many replicas are not in sync yet."""
    return goal[-1:] if goal[-1] in after and len(goal) > 1 else original(after, goal)


# ---- caps and throttles


@mutant(Capacity, "refusal", within=40)
def cap_off_by_one(original, self, move, adding):
    """One copy more than allowed begins."""
    options = self.options
    more = {name: getattr(options, name) + 1 for name in ("max_in", "max_concurrent") if getattr(options, name)}
    self.options = replace(options, **more)
    try:
        return original(self, move, adding)
    finally:
        self.options = options


@mutant(capacity, "_passes", within=60)
def one_step_passes_any_cap(original, count, more, bound):
    """The bug that was found: a step with two copies counts as one copy."""
    return 0 < bound <= count


@mutant(throttles, "_give_back", within=20)
def throttle_not_restored(original, state, book, key, throttle, now_ms, unread, out):
    """Throttles are not removed in the end."""
    return [ThrottleRestored(key)]


@mutant(throttles, "is_theirs", within=400)
def throttles_of_others_overwritten(original, found, before, ours):
    """A value that another tool has set is taken for the executor's own."""
    return False


@mutant(ThrottleBook, "fresh", within=150)
def settings_read_once(original, self, key, now_ms, within_ms=0):
    """The bug that was found: a daemon uses settings that it read long ago."""
    return key in self.own


@mutant(throttles, "held_brokers", within=200)
def paused_copies_run_on(original, state):
    """The bug that was found: paused copies run while other moves are not paused. Here paused copies always run."""
    return frozenset()


@mutant(throttles, "not_in_force", within=20)
def steps_before_their_throttle(original, state, book, wanted):
    """A copy begins before its throttle is in force."""
    return set()


@mutant(throttles, "_covers", within=60)
def lists_that_grow_late(original, key, applied, wanted):
    """The bug that was found: a list that lacks the new copy counts as in force."""
    return applied is not None


@mutant(machine, "due_log_dirs", within=60)
def log_dirs_before_their_throttle(original, state, held, throttled, now_ms, out, *, begins):
    """The bug that was found: a copy between log dirs begins before its throttle is in force."""
    return original(state, held, Gate(), now_ms, out, begins=begins)


@mutant(log_dirs, "_placed", within=400, every=ASIDE_OF, first=LOG_DIRS_FIRST)
def log_dirs_as_they_were(original, state, move):
    """A replica's log dir counts even if it was seen before the request, or before the replica was made again."""
    state.cluster.sizes_at_ms.update(dict.fromkeys(state.cluster.sizes, 1 << 62))
    return original(state, move)


@mutant(machine, "decide_log_dirs", within=300)
def rollback_leaves_log_dirs(original, state, out):
    """A rollback ends with the original brokers, without their original log dirs."""
    records = original(state, out)
    for move in state.open_moves():
        if move.direction is Direction.BACK:
            move.log_dir_status = replace(move.log_dir_status, done=True)
    return records


@mutant(machine, "decide_log_dirs", within=100)
def a_stop_leaves_copies(original, state, out):
    """The bug that was found: copies between log dirs go on after a stop."""
    for move in state.open_moves():
        if move.direction is Direction.STOP:
            move.log_dirs, move.asked_before = (), frozenset()
    return original(state, out)


@mutant(machine, "decide_log_dirs", within=800)
def another_tools_cancel_is_undone(original, state, out):
    """A copy between log dirs that another tool cancelled is asked for again."""
    return [
        (move, record._replace(sight=CopySight.LOST) if record.sight is CopySight.CANCELLED else record)
        for move, record in original(state, out)
    ]


@mutant(Capacity, "take_within", within=200)
def bounds_ignore_copies_between_log_dirs(original, self, move, broker, path):
    """The bug that was found: bounds count copies between brokers alone."""


@mutant(Executor, "_on_log_dirs_altered", within=800)
def one_refused_log_dir_ends_all(original, self, event, out):
    """The bug that was found: when one broker refuses its log dir, the executor does not wait for the others."""
    original(self, event, out)
    for move in self.state.open_moves():
        if move.log_dir_status.refused:
            everybody = dict.fromkeys((broker for broker, _path in move.log_dirs), "ALL")
            move.log_dir_status = replace(move.log_dir_status, refused=everybody)


@mutant(decisions, "judge_election", within=60)
def election_believed(original, move, seen, live, seen_at_ms, now_ms):
    """The bug that was found: a move is done when its order is as wanted, whoever leads."""
    return original(move, seen._replace(leader=move.goal[0]), live, seen_at_ms, now_ms)


@mutant(machine, "send_elections", within=60)
def elections_before_the_journal(original, state, held, new_id, out):
    """An election is asked for before the journal has it."""
    for move in state.open_moves():
        status = move.election
        if move.step is None and status.since_ms is not None and not status.asks and not status.begun:
            move.election = status._replace(due=True)
    return original(state, (), new_id, out)


@mutant(machine, "is_open", within=60)
def window_never_closes(original, window, now_ms, utc_offset_minutes):
    """Time windows are ignored."""
    return True


@mutant(machine, "is_open", within=100)
def window_ends_at_midnight(original, window, now_ms, utc_offset_minutes):
    """A window across midnight is taken for its complement within the day."""
    day = window and window._replace(first=min(window[:2]), after=max(window[:2]))
    return original(day, now_ms, utc_offset_minutes)


@mutant(Capacity, "room_refusal", within=80)
def room_is_not_looked_at(original, self, move, broker):
    """The bug that was found: by default nobody looks whether a copy has room."""


@mutant(Capacity, "_rooms", within=100)
def log_dirs_count_as_one(original, self, broker, named, headroom):
    """The bug that was found: all log dirs of a broker are added up."""
    rooms = original(self, broker, named, headroom)
    return [(sum(room for room, _path in rooms), rooms[0][1])] if all(room for room, _path in rooms) else rooms


@mutant(decisions, "told_closed", within=60, every=ASIDE_OF, first=CORDONS_FIRST)
def cordons_are_run_into(original, after, closed):
    """The bug that was found: a step names a cordoned broker, and is given up when Kafka has refused it five times."""


# ---- liveness


@mutant(Executor, "_on_failed", within=40)
def failures_are_not_heard(original, self, event, out):
    """The executor waits for ever for an answer to a request that failed."""
    self._requests.pop(event.request_id, None)


@mutant(machine, "apply", within=300)
def second_original_wins(original, state, entry):
    """A second plan for a partition in motion takes the current replicas for the original."""
    original(state, entry)
    if type(entry.record) is MoveAccepted:
        state.moves[entry.record.tp].original = entry.record.original
