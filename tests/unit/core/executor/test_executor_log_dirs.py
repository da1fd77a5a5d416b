"""Log dirs of a plan: asked for once their throttle is in force and the window is open, waited for broker by broker."""

from dataclasses import replace

import pytest
from apache_yard import SIZE, Rig, Yard

from shunter.core.executor import events as ev
from shunter.core.executor.ending import Ending, when_it_ends
from shunter.core.executor.estimates.eta import forecast
from shunter.core.executor.estimates.rates import Meter
from shunter.core.executor.history import executions, reverse
from shunter.core.executor.log_dirs import decide_log_dirs
from shunter.core.executor.orders import rollback_cost
from shunter.core.executor.ready import AlterLogDirs, Collected, CommandReply, ObserveLogDirs, PlanReply, Read, Request
from shunter.core.executor.state import ExecutorState, Move
from shunter.errors import ErrorCode
from shunter.model.execution import (
    CommandKind,
    Direction,
    ExecutionOptions,
    JournalRecord,
    LogDirSpace,
    MoveAccepted,
    MoveOrder,
    ObservedPartition,
    ObservedTopic,
    Outcome,
    ReplicaSize,
    ThrottleKey,
)
from shunter.model.limits import Window
from shunter.model.partition import Replicas, TopicPartition
from shunter.model.reassignment import Strategy
from shunter.views.execution import view_execution

T0 = TopicPartition("t", 0)
RATE = ThrottleKey("broker", "1", "replica.alter.log.dirs.io.max.bytes.per.second")
MINUTE_MS = 60_000


class DirRig(Rig):
    """Brokers put replicas into the log dirs that they are asked for, unless they refuse. Requests are kept.

    Slow brokers copy for as long as they are slow. A broker that is asked for the log dir where its replica is gives its
    copy up.
    """

    def __init__(self, yard: Yard, refusing: Replicas = ()) -> None:
        self.dirs_asked: list[tuple[int, str]] = []
        self.refusing = refusing
        self.slow: Replicas = ()
        self.futures: dict[tuple[int, TopicPartition], str] = {}
        super().__init__(yard)

    def _carry_out(self, work: Request | Read) -> ev.Event:
        for key in [key for key, path in self.futures.items() if key[0] not in self.slow]:
            self.yard.log_dirs[key] = self.futures.pop(key)
        if isinstance(work, ObserveLogDirs):
            seen = super()._carry_out(work)
            assert isinstance(seen, ev.LogDirsObserved)
            known = {key: ReplicaSize(SIZE // 4, path, True) for key, path in self.futures.items() if key in seen.sizes}
            return replace(seen, futures=known)
        if not isinstance(work, AlterLogDirs):
            return super()._carry_out(work)
        results: dict[tuple[int, TopicPartition], ErrorCode] = {}
        for broker, tp, path in work.replicas:
            self.dirs_asked.append((broker, path))
            results[broker, tp] = ErrorCode.KAFKA_STORAGE_ERROR if broker in self.refusing else ErrorCode.NONE
            if broker not in self.refusing:
                self.put(broker, tp, path)
        return ev.LogDirsAltered(work.request_id, results)

    def put(self, broker: int, tp: TopicPartition, path: str) -> None:
        """Ask a broker for a log dir, as any tool does."""
        self.futures.pop((broker, tp), None)
        if broker in self.slow and self.yard.log_dirs.get((broker, tp), "/d") != path:
            self.futures[broker, tp] = path
        elif broker not in self.slow:
            self.yard.log_dirs[broker, tp] = path

    def order(self, target: Replicas, *log_dirs: tuple[int, str], options: ExecutionOptions | None = None) -> None:
        order = MoveOrder(T0, target, None, log_dirs)
        self.tell(ev.PlanSubmitted("p", (order,), options or ExecutionOptions(), 1))


def test_a_copy_between_log_dirs_begins_when_its_throttle_is_in_force() -> None:
    """Found by simulation: the log dir was asked for before its throttle was in force."""
    rig = DirRig(Yard({"t": [(1, 2)]}))
    rig.order((1, 2), (1, "/fast"), options=ExecutionOptions(log_dir_throttle=700))
    for _turn in range(200):
        if rig.dirs_asked:
            break
        assert not any(isinstance(work, AlterLogDirs) for work in rig.pending) or rig.yard.settings.get(RATE) == "700"
        if rig.pending:
            rig.deliver()
        else:
            rig.pass_time(250)
    assert rig.dirs_asked == [(1, "/fast")]
    rig.settle()
    assert rig.outcomes() == {T0: Outcome.DONE}
    assert rig.yard.settings == {}


def test_a_log_dir_that_one_broker_refuses_is_waited_for_at_the_other() -> None:
    """Found by simulation: a move was done while a replica was still in its old log dir."""
    rig = DirRig(Yard({"t": [(1, 2)]}), refusing=(1,))
    rig.slow = (2,)
    rig.order((1, 2), (1, "/fast"), (2, "/fast"), options=ExecutionOptions())
    rig.settle(rounds=80)
    assert [notice.kind for notice in rig.notices if notice.kind == "log-dir-refused"] == ["log-dir-refused"]
    assert rig.outcomes() == {T0: None}
    rig.slow = ()
    rig.settle()
    assert rig.outcomes() == {T0: Outcome.REFUSED}


def test_a_refusal_of_a_former_plans_log_dir_does_not_hold_for_the_next() -> None:
    """Found by simulation: the answer came when a second plan had taken the partition on, without log dirs."""
    rig = DirRig(Yard({"t": [(1, 2)]}), refusing=(1,))
    rig.order((1, 2), (1, "/fast"), options=ExecutionOptions())
    for _turn in range(200):
        asked = [work for work in rig.pending if isinstance(work, AlterLogDirs)]
        if asked:
            break
        if rig.pending:
            rig.deliver()
        else:
            rig.pass_time(250)
    rig.pending.remove(asked[0])
    rig.order((1, 4), options=ExecutionOptions())
    while rig.core.state.moves[T0].target != (1, 4):
        rig.deliver()
    rig.tell(ev.LogDirsAltered(asked[0].request_id, {(1, T0): ErrorCode.KAFKA_STORAGE_ERROR}))
    rig.settle()
    assert rig.outcomes() == {T0: Outcome.DONE}


def test_log_dirs_are_asked_for_within_the_time_window() -> None:
    rig = DirRig(Yard({"t": [(1, 2)]}))
    minute = rig.now_ms // MINUTE_MS % 1440
    options = ExecutionOptions(window=Window((minute + 5) % 1440, (minute + 60) % 1440))
    rig.order((1, 2), (1, "/fast"), options=options)
    rig.settle(rounds=40)
    assert rig.dirs_asked == []
    rig.now_ms += 6 * MINUTE_MS
    rig.settle()
    assert rig.dirs_asked == [(1, "/fast")]
    assert rig.outcomes() == {T0: Outcome.DONE}


def test_a_paused_move_asks_for_no_log_dir() -> None:
    rig = DirRig(Yard({"t": [(1, 2)]}))
    rig.slow = (1,)
    rig.order((1, 2), (1, "/fast"), options=ExecutionOptions())
    rig.settle(rounds=20)
    rig.command(CommandKind.PAUSE)
    asked = len(rig.dirs_asked)
    rig.settle(rounds=80)
    assert asked > 0
    assert len(rig.dirs_asked) == asked
    rig.slow = ()
    rig.command(CommandKind.RESUME)
    rig.settle()
    assert rig.outcomes() == {T0: Outcome.DONE}


def test_a_paused_copy_between_log_dirs_is_slowed_down_and_given_back_its_rate() -> None:
    rig = DirRig(Yard({"t": [(1, 2)], "u": [(1, 2)]}))
    rig.slow = (1,)
    moves = tuple(MoveOrder(TopicPartition(topic, 0), (1, 2), log_dirs=((1, "/fast"),)) for topic in "tu")
    rig.tell(ev.PlanSubmitted("p", moves, ExecutionOptions(), 1))
    rig.settle(rounds=20)
    assert RATE not in rig.yard.settings
    u0 = TopicPartition("u", 0)
    assert len(rig.futures) == 2
    rig.command(CommandKind.PAUSE, u0)
    rig.settle(rounds=20)
    assert RATE not in rig.yard.settings, "the other one, which goes on, would be slowed down too"
    assert list(rig.futures) == [(1, T0)], "so it is given up"
    assert [notice.about for notice in rig.notices if notice.kind == "copy-put-off"] == ["u-0"]
    rig.start()
    rig.settle(rounds=60)
    assert not rig.core.state.moves[u0].cancelled, "nobody else cancelled it"
    rig.command(CommandKind.PAUSE)
    rig.settle(rounds=20)
    assert rig.yard.settings[RATE] == "1024"
    rig.command(CommandKind.RESUME)
    rig.settle(rounds=20)
    assert RATE not in rig.yard.settings
    rig.slow = ()
    rig.settle()
    assert set(rig.outcomes().values()) == {Outcome.DONE}


def test_a_replica_that_lies_there_already_is_looked_for_before_its_move_is_done() -> None:
    """An observation from before the plan may be out of date."""
    rig = DirRig(Yard({"t": [(1, 2)]}))
    rig.yard.log_dirs[1, T0] = "/fast"
    rig.order((1, 2), (1, "/fast"), options=ExecutionOptions())
    rig.tell(ev.LogDirsObserved({}, {}, (), rig.now_ms))
    rig.settle(rounds=2)
    assert rig.outcomes() == {T0: None}, "it was not looked at since"
    rig.settle()
    assert rig.dirs_asked == [], "it is there"
    assert rig.outcomes() == {T0: Outcome.DONE}


def test_no_log_dir_is_asked_for_in_the_moment_in_which_an_order_becomes_durable() -> None:
    """Found by simulation: a plan's log dirs were asked for while the next plan was being written."""
    rig = DirRig(Yard({"t": [(1, 2)]}))
    rig.slow = (1,)
    rig.order((1, 2), (1, "/fast"), options=ExecutionOptions())
    rig.settle(rounds=20)
    assert rig.dirs_asked == [(1, "/fast")]
    while rig.pending:
        rig.deliver()
    rig.futures.clear()
    rig.now_ms += 20_000  # The log dir is due again.
    rig.command(CommandKind.PAUSE)
    assert not [work for work in rig.pending if isinstance(work, AlterLogDirs)]


def test_a_log_dir_that_its_broker_does_not_have_is_refused_before_anything_begins() -> None:
    rig = DirRig(Yard({"t": [(1, 2)]}))
    order = MoveOrder(T0, (3, 2), log_dirs=((3, "/typo"),))
    rig.tell(ev.PlanSubmitted("p", (order,), ExecutionOptions(), 1))
    rig.settle()
    reply = rig.replies[1]
    assert isinstance(reply, PlanReply)
    assert "broker 3 has no log dir /typo that works, for t-0; it has /d, /d1, /fast, /nowhere" in str(reply.error)
    assert rig.journal == []


def test_a_move_between_log_dirs_counts_its_bytes() -> None:
    rig = DirRig(Yard({"t": [(1, 2)]}))
    rig.slow = (1,)
    rig.tell(ev.PlanSubmitted("p", (MoveOrder(T0, (1, 2), log_dirs=((1, "/fast"), (2, "/d"))),), ExecutionOptions(), 1))
    rig.settle(rounds=20)
    view = view_execution(rig.core.state, rig.core.meter, None, rig.now_ms)
    assert (view.total_bytes, view.copied_bytes) == (SIZE, SIZE // 4), "broker 2 has it there already"
    rig.slow = ()
    rig.settle()
    view = view_execution(rig.core.state, rig.core.meter, None, rig.now_ms)
    assert (view.total_bytes, view.copied_bytes) == (SIZE, SIZE)
    assert rig.outcomes() == {T0: Outcome.DONE}


def test_a_target_below_min_isr_is_taken_where_that_is_forced() -> None:
    yard = Yard({"t": [(1, 2, 3)]})
    yard.min_isr["t"] = 2
    rig = Rig(yard)
    refused = rig.submit(("t", 0, (1,)))
    rig.settle()
    reply = rig.replies[refused]
    assert isinstance(reply, PlanReply)
    assert "fewer than min.insync.replicas 2" in str(reply.error)
    assert "--force" in str(reply.error)
    rig.submit(("t", 0, (1,)), options=ExecutionOptions(force=True))
    rig.settle()
    assert yard.partitions[T0].replicas == (1,)


def test_a_replica_that_was_there_and_is_seen_elsewhere_is_asked_for_again() -> None:
    """Found by simulation: before a move was closed, another tool moved the replica on, and the move ended as done."""
    rig = DirRig(Yard({"t": [(1, 2)]}))
    rig.slow = (1,)
    rig.order((1, 2), (1, "/fast"), options=ExecutionOptions())
    rig.settle(rounds=4)
    (move,) = rig.core.state.moves.values()
    move.log_dir_status = replace(move.log_dir_status, done=True)
    rig.core.state.cluster.sizes[1, T0] = ReplicaSize(SIZE, "/fast")
    rig.core.state.cluster.sizes_at_ms[1, T0] = rig.now_ms
    decide_log_dirs(rig.core.state, Collected())
    assert move.log_dir_status.done
    rig.core.state.cluster.sizes[1, T0] = ReplicaSize(SIZE, "/slow")
    decide_log_dirs(rig.core.state, Collected())
    assert not move.log_dir_status.done
    rig.slow = ()
    rig.settle()
    assert rig.dirs_asked[-1] == (1, "/fast")
    assert rig.outcomes() == {T0: Outcome.DONE}


class TestTheWayBack:
    """A rollback is exact: replicas are back in the log dirs that they were in."""

    def under_way(self, *log_dirs: tuple[int, str], target: Replicas = (1, 2), slow: Replicas = (2,)) -> DirRig:
        rig = DirRig(Yard({"t": [(1, 2)]}))
        rig.yard.log_dirs[1, T0], rig.yard.log_dirs[2, T0] = "/d1", "/fast"
        rig.slow = slow
        rig.order(target, *log_dirs, options=ExecutionOptions())
        rig.settle(catching_up=False, rounds=20)
        return rig

    def test_the_journal_keeps_where_all_originals_were(self) -> None:
        rig = self.under_way((1, "/fast"))
        (accepted,) = (each.record for each in rig.journal if isinstance(each.record, MoveAccepted))
        assert accepted.origins == ((1, "/d1"), (2, "/fast"))

    def test_a_plan_that_names_no_log_dir_leaves_them_to_the_brokers(self) -> None:
        rig = self.under_way(target=(1, 3))
        (accepted,) = (each.record for each in rig.journal if isinstance(each.record, MoveAccepted))
        assert accepted.origins == ()
        rig.command(CommandKind.ROLL_BACK)
        rig.settle()
        assert (rig.outcomes(), rig.dirs_asked) == ({T0: Outcome.ROLLED_BACK}, [])

    def test_what_arrived_goes_back_and_what_did_not_is_given_up(self) -> None:
        rig = self.under_way((1, "/fast"), (2, "/d"))
        assert rig.yard.log_dirs[1, T0] == "/fast"
        assert rig.outcomes() == {T0: None}
        rig.dirs_asked.clear()
        rig.command(CommandKind.ROLL_BACK)
        rig.settle()
        assert sorted(set(rig.dirs_asked)) == [(1, "/d1"), (2, "/fast")]
        assert rig.yard.log_dirs == {(1, T0): "/d1", (2, T0): "/fast"}
        assert rig.outcomes() == {T0: Outcome.ROLLED_BACK}

    def test_it_goes_on_after_a_restart(self) -> None:
        rig = self.under_way((1, "/fast"), (2, "/d"))
        rig.slow = (1, 2)
        rig.command(CommandKind.ROLL_BACK)
        rig.settle(rounds=6)
        assert rig.outcomes() == {T0: None}
        rig.start()
        rig.slow = ()
        rig.settle()
        assert rig.yard.log_dirs == {(1, T0): "/d1", (2, T0): "/fast"}
        assert rig.outcomes() == {T0: Outcome.ROLLED_BACK}

    def test_a_second_plan_keeps_the_first_log_dirs(self) -> None:
        rig = self.under_way((1, "/fast"), (2, "/d"))
        rig.order((1, 2), (1, "/d"), (2, "/d1"), options=ExecutionOptions())
        rig.settle(rounds=20)
        assert rig.yard.log_dirs[1, T0] == "/d"
        rig.command(CommandKind.ROLL_BACK)
        rig.settle()
        assert rig.yard.log_dirs[1, T0] == "/d1"

    def test_a_second_plan_that_names_no_log_dir_does_not_forget_what_the_first_one_moved(self) -> None:
        """Found by simulation: a second plan had other log dirs, and a rollback left a replica in the first plan's."""
        rig = self.under_way((1, "/fast"), (2, "/d"))
        assert rig.yard.log_dirs[1, T0] == "/fast"
        rig.order((1, 2, 3), (2, "/d1"), options=ExecutionOptions())
        rig.settle(catching_up=False, rounds=20)
        rig.start()
        (move,) = rig.core.state.moves.values()
        assert rollback_cost(move) == 2 * SIZE
        rig.command(CommandKind.ROLL_BACK)
        rig.slow = ()
        rig.settle()
        assert {key: path for key, path in rig.yard.log_dirs.items() if key[0] in (1, 2)} == {
            (1, T0): "/d1",
            (2, T0): "/fast",
        }
        assert rig.outcomes() == {T0: Outcome.ROLLED_BACK}

    def test_a_dropped_original_comes_back_to_its_log_dir(self) -> None:
        rig = DirRig(Yard({"t": [(1, 2)]}))
        rig.yard.log_dirs[1, T0] = "/d1"
        rig.order((3, 4), (3, "/fast"), options=ExecutionOptions())
        for _turn in range(200):
            if 1 not in rig.yard.partitions[T0].replicas:
                break
            rig.settle(rounds=2)
        assert rig.outcomes() == {T0: None}
        rig.command(CommandKind.ROLL_BACK)
        rig.settle()
        assert rig.yard.partitions[T0].replicas == (1, 2)
        assert (1, "/d1") in rig.dirs_asked
        assert rig.outcomes() == {T0: Outcome.ROLLED_BACK}

    def test_a_replica_that_goes_away_is_not_copied_to_where_an_earlier_one_was(self) -> None:
        """The originals changed since the plan was accepted, so a broker that is not an original may have an origin."""
        rig = self.under_way((3, "/fast"), target=(1, 3), slow=(3,))
        (move,) = rig.core.state.moves.values()
        move.origins = ((1, "/d1"), (3, "/d"))
        assert move.places == ((3, "/fast"),)
        rig.command(CommandKind.ROLL_BACK)
        rig.settle(rounds=2)
        assert move.direction is Direction.BACK
        assert 3 not in dict(move.places)

    def test_an_original_that_never_moved_is_not_waited_for(self) -> None:
        """The original's broker may be dead, and then it can't report where the replica is."""
        rig = self.under_way((1, "/fast"), slow=(1,))
        rig.command(CommandKind.ROLL_BACK)
        rig.yard.up.discard(2)
        rig.slow = ()
        rig.settle()
        assert rig.outcomes() == {T0: Outcome.ROLLED_BACK}

    def test_a_log_dir_that_failed_since_is_told(self) -> None:
        rig = self.under_way((1, "/fast"), (2, "/d"))
        rig.refusing = (1,)
        rig.slow = ()
        rig.command(CommandKind.ROLL_BACK)
        rig.settle()
        (move,) = rig.core.state.moves.values()
        assert move.outcome is Outcome.REFUSED
        assert move.reason.startswith("the original replicas are back in their order, but broker 1 refuses its log dir")

    def test_its_cost_is_told_before(self) -> None:
        rig = self.under_way((1, "/fast"), (2, "/d"))
        (move,) = rig.core.state.moves.values()
        assert rollback_cost(move) == 2 * SIZE, "at most: broker 2 has not copied all yet"

    def test_where_the_former_log_dirs_are_not_known_they_stay_and_no_copy_goes_on(self) -> None:
        rig = self.under_way((1, "/fast"), (2, "/d"))
        older = [each._replace(record=_without_origins(each.record)) for each in rig.journal]
        rig.journal[:] = older
        rig.start()
        rig.dirs_asked.clear()
        rig.command(CommandKind.ROLL_BACK)
        rig.settle()
        assert (rig.outcomes(), rig.dirs_asked) == ({T0: Outcome.ROLLED_BACK}, [(2, "/fast")])
        assert rig.yard.log_dirs[2, T0] == "/fast", "the copy that had not arrived is given up all the same"

    def test_what_was_done_is_taken_back_with_its_log_dirs(self) -> None:
        rig = self.under_way((1, "/fast"), (2, "/d"))
        rig.slow = ()
        rig.settle()
        assert rig.outcomes() == {T0: Outcome.DONE}
        found = reverse(executions(rig.journal)[0])
        (order,) = found.moves
        assert (order.target, order.log_dirs, order.planned_from) == ((1, 2), ((1, "/d1"), (2, "/fast")), (1, 2))
        assert (found.copied_bytes, found.told) == (2 * SIZE, ())


def _without_origins(record: JournalRecord) -> JournalRecord:
    return record._replace(origins=()) if isinstance(record, MoveAccepted) else record


class TestUnwantedCopies:
    """No copy between log dirs goes on for a move that does not want it; another tool's copy and cancel are left."""

    def copying(self, *log_dirs: tuple[int, str], target: Replicas = (1, 2)) -> DirRig:
        """A rig in which brokers 1 and 2 copy as slowly as the plan allows; their replicas are in /d1 and /d."""
        rig = DirRig(Yard({"t": [(1, 2)]}))
        rig.yard.log_dirs[1, T0], rig.yard.log_dirs[2, T0] = "/d1", "/d"
        rig.slow = (1, 2, 3)
        rig.order(target, *(log_dirs or ((1, "/fast"), (2, "/fast"))))
        rig.settle(catching_up=False, rounds=20)
        assert rig.futures
        rig.dirs_asked.clear()
        return rig

    def test_a_stop_gives_them_up(self) -> None:
        rig = self.copying()
        rig.command(CommandKind.STOP)
        rig.settle()
        assert sorted(rig.dirs_asked) == [(1, "/d1"), (2, "/d")]
        assert rig.futures == {}
        assert rig.outcomes() == {T0: Outcome.STOPPED}

    def test_a_stop_gives_them_up_after_a_restart(self) -> None:
        rig = self.copying()
        rig.command(CommandKind.STOP)
        rig.start()
        rig.settle()
        assert rig.futures == {}
        assert rig.outcomes() == {T0: Outcome.STOPPED}

    def test_a_stop_looks_again_and_gives_up_what_its_own_request_began(self) -> None:
        """The copy arrives before the request that shall end it, which then begins one back."""
        rig = self.copying((1, "/fast"))
        rig.command(CommandKind.STOP)
        while not any(isinstance(work, AlterLogDirs) for work in rig.pending):
            rig.deliver()
        rig.yard.log_dirs[1, T0] = "/fast"
        rig.futures.clear()
        rig.settle()
        assert rig.dirs_asked == [(1, "/d1"), (1, "/fast")]
        assert (rig.futures, rig.yard.log_dirs[1, T0]) == ({}, "/fast")
        assert rig.outcomes() == {T0: Outcome.STOPPED}

    def test_a_stop_waits_for_the_answer_to_the_request_that_began_them(self) -> None:
        rig = DirRig(Yard({"t": [(1, 2)]}))
        rig.slow = (1, 2)
        rig.order((1, 2), (1, "/fast"))
        while not any(isinstance(work, AlterLogDirs) for work in rig.pending):
            rig.deliver() if rig.pending else rig.pass_time(250)
        (late,) = [work for work in rig.pending if isinstance(work, AlterLogDirs)]
        rig.pending.remove(late)
        rig.command(CommandKind.STOP)
        rig.settle(rounds=40)
        assert rig.outcomes() == {T0: None}
        rig.tell(rig._carry_out(late))
        rig.settle()
        assert rig.futures == {}
        assert rig.outcomes() == {T0: Outcome.STOPPED}

    @pytest.mark.parametrize("kind", [CommandKind.STOP, CommandKind.ROLL_BACK])
    def test_no_time_window_delays_that(self, kind: CommandKind) -> None:
        rig = DirRig(Yard({"t": [(1, 2)]}))
        rig.yard.log_dirs[1, T0] = "/d1"
        rig.slow = (1,)
        minute = rig.now_ms // MINUTE_MS % 1440
        rig.order((1, 2), (1, "/fast"), options=ExecutionOptions(window=Window(minute, minute + 5)))
        rig.settle(rounds=20)
        assert rig.futures
        rig.now_ms += 6 * MINUTE_MS
        rig.command(kind)
        rig.settle()
        assert rig.futures == {}
        assert set(rig.outcomes().values()) <= {Outcome.STOPPED, Outcome.ROLLED_BACK}

    def test_the_throttle_stays_until_they_are_gone(self) -> None:
        rig = DirRig(Yard({"t": [(1, 2)]}))
        rig.slow = (1,)
        rig.order((1, 2), (1, "/fast"), options=ExecutionOptions(log_dir_throttle=700))
        rig.settle(rounds=60)
        rig.command(CommandKind.STOP)
        while rig.futures:
            assert rig.yard.settings[RATE] == "700"
            rig.deliver() if rig.pending else rig.pass_time(250)
        rig.settle()
        assert (rig.outcomes(), rig.yard.settings) == ({T0: Outcome.STOPPED}, {})

    def test_another_tools_copy_is_left_alone(self) -> None:
        rig = self.copying((1, "/fast"))
        rig.put(2, T0, "/fast")
        rig.command(CommandKind.STOP)
        rig.settle()
        assert rig.dirs_asked == [(1, "/d1")]
        assert rig.futures == {(2, T0): "/fast"}

    def test_a_plan_that_names_the_log_dir_no_more_gives_the_copy_up(self) -> None:
        rig = self.copying()
        rig.order((1, 2), (2, "/fast"))
        rig.settle(rounds=20)
        assert rig.dirs_asked == [(1, "/d1")]
        assert rig.futures == {(2, T0): "/fast"}, "what both plans want goes on"
        rig.slow = ()
        rig.settle()
        assert (rig.outcomes(), rig.yard.log_dirs[1, T0]) == ({T0: Outcome.DONE}, "/d1")

    def test_a_plan_that_names_another_log_dir_gives_the_copy_up_first(self) -> None:
        rig = self.copying((1, "/fast"))
        rig.order((1, 2), (1, "/d"))
        rig.settle(rounds=40)
        assert rig.dirs_asked == [(1, "/d1"), (1, "/d")]
        rig.slow = ()
        rig.settle()
        assert (rig.outcomes(), rig.yard.log_dirs[1, T0]) == ({T0: Outcome.DONE}, "/d")

    def test_a_move_that_another_tool_changes_gives_them_up_before_it_ends(self) -> None:
        """Found by simulation: a copy went on that belonged to a move which had ended long before."""
        rig = self.copying((1, "/fast"), target=(1, 3))
        rig.yard.alter(T0, None)
        rig.yard.alter(T0, (1, 2, 4))
        rig.settle(catching_up=False, rounds=400)
        assert rig.outcomes() == {T0: Outcome.SUPERSEDED}
        assert (rig.dirs_asked, rig.futures) == ([(1, "/d1")], {})

    def test_leaving_a_move_leaves_its_copies_and_says_so(self) -> None:
        rig = self.copying((1, "/fast"))
        token = rig.command(CommandKind.LEAVE)
        rig.settle()
        reply = rig.replies[token]
        assert isinstance(reply, CommandReply)
        assert "1 copy between log dirs goes on without our throttle" in reply.text
        assert (rig.outcomes(), rig.futures) == ({T0: Outcome.LEFT}, {(1, T0): "/fast"})

    @pytest.mark.parametrize("restart", [False, True])
    def test_another_tools_cancel_holds(self, *, restart: bool) -> None:
        rig = self.copying()
        if restart:
            rig.start()
        rig.put(1, T0, "/d1")
        rig.settle(rounds=60)
        assert [notice.kind for notice in rig.notices if notice.kind.startswith("copy")] == ["copy-cancelled"]
        rig.start()
        rig.settle(rounds=60)
        rig.slow = ()
        rig.settle()
        assert rig.dirs_asked == []
        assert rig.outcomes() == {T0: Outcome.SUPERSEDED}
        (move,) = rig.core.state.moves.values()
        assert move.reason == (
            "the target is reached, but somebody else cancelled its copy to another log dir of broker 1"
        )
        assert (rig.yard.log_dirs[1, T0], rig.yard.log_dirs[2, T0]) == ("/d1", "/fast")

    def test_a_look_between_copy_and_replica_is_no_cancel(self) -> None:
        rig = self.copying((1, "/fast"))
        kept = rig.futures.pop((1, T0))
        while not any(isinstance(work, ObserveLogDirs) for work in rig.pending):
            rig.deliver() if rig.pending else rig.pass_time(250)
        while rig.pending:
            rig.deliver()
        rig.yard.log_dirs[1, T0] = kept
        rig.settle()
        assert rig.outcomes() == {T0: Outcome.DONE}

    def test_a_copy_that_went_with_its_log_dir_was_not_cancelled(self) -> None:
        rig = self.copying((1, "/fast"))
        rig.futures.clear()
        rig.yard.paths = ("/d", "/d1")
        rig.settle(rounds=40)
        rig.yard.paths = ("/d", "/d1", "/fast")
        rig.slow = ()
        rig.settle()
        assert (1, "/fast") in rig.dirs_asked, "it is asked for again"
        assert rig.outcomes() == {T0: Outcome.DONE}

    def test_a_dead_broker_that_may_still_copy_is_named_and_leaving_is_the_way_out(self) -> None:
        rig = self.copying((2, "/fast"))
        rig.yard.kill(2)
        rig.settle(rounds=30)
        rig.command(CommandKind.STOP)
        rig.settle(rounds=30)
        (row,) = view_execution(rig.core.state, rig.core.meter, None, rig.now_ms).moves
        told = "it can't end without broker 2, which is down and may still copy it to another log dir"
        assert row.stuck == f"{told}; `shunter stop --leave`, given its name, ends it as it is"
        rig.command(CommandKind.LEAVE)
        rig.settle(rounds=400)
        assert rig.outcomes() == {T0: Outcome.LEFT}


def test_a_replica_that_was_in_its_log_dir_and_comes_again_is_not_there() -> None:
    """Found by simulation: its step waited for ever for a log dir that nobody asked for."""
    state = ExecutorState(running=True)
    move = Move(T0, None, (1, 2), (1, 3), Strategy.INCREMENTAL, 1, ((3, "/fast"),), False, 0, current=(1, 2))
    state.moves[T0], state.cluster.brokers = move, {1: None, 2: None, 3: None}
    state.cluster.sizes[3, T0], state.cluster.sizes_at_ms[3, T0] = ReplicaSize(1, "/fast"), 5
    decide_log_dirs(state, Collected())
    assert not move.log_dir_status.done
    move.current = (1, 3)
    decide_log_dirs(state, Collected())
    assert move.log_dir_status.done


class TestBounds:
    """Copies between log dirs count like those between brokers, and begin only where they have room."""

    def orders(self, rig: DirRig, options: ExecutionOptions, *orders: MoveOrder) -> None:
        rig.tell(ev.PlanSubmitted("p", orders, options, 1))
        rig.settle(catching_up=False, rounds=40)

    @pytest.mark.parametrize("bound", ["max_in", "max_concurrent", "max_per_log_dir"])
    def test_bounds_count_them(self, bound: str) -> None:
        rig = DirRig(Yard({"t": [(1, 2)], "u": [(1, 2)]}))
        rig.slow = (1, 2)
        u0 = TopicPartition("u", 0)
        moves = (MoveOrder(T0, (1, 2), None, ((1, "/fast"),)), MoveOrder(u0, (1, 2), None, ((1, "/fast"),)))
        self.orders(rig, ExecutionOptions(**{bound: 1}), *moves)
        assert list(rig.futures) == [(1, T0)]
        assert "waits for its turn" in rig.core.state.moves[u0].waits.text
        rig.start()
        rig.settle(rounds=40)
        assert list(rig.futures) == [(1, T0)], "also after a restart"
        rig.slow = ()
        rig.settle()
        assert set(rig.outcomes().values()) == {Outcome.DONE}

    def test_a_step_waits_for_one_and_one_for_a_step(self) -> None:
        rig = DirRig(Yard({"t": [(1, 2)], "u": [(1, 2)]}))
        rig.slow = (1, 2)
        moves = (MoveOrder(T0, (1, 2), None, ((1, "/fast"),)), MoveOrder(TopicPartition("u", 0), (3, 2)))
        self.orders(rig, ExecutionOptions(max_concurrent=1), *moves)
        assert len(rig.futures) + len(rig.asked) == 1
        rig.slow = ()
        rig.settle()
        assert set(rig.outcomes().values()) == {Outcome.DONE}

    def test_one_without_room_waits_and_says_so(self) -> None:
        rig = DirRig(Yard({"t": [(1, 2)]}))
        rig.yard.spaces["/fast"] = LogDirSpace(100 * SIZE, SIZE // 2)
        self.orders(rig, ExecutionOptions(), MoveOrder(T0, (1, 2), None, ((1, "/fast"),)))
        assert rig.dirs_asked == []
        assert "log dir /fast of broker 1 has 500 B usable: 1.0 kB needed" in rig.core.state.moves[T0].waits.text
        rig.yard.spaces["/fast"] = LogDirSpace(100 * SIZE, 50 * SIZE)
        rig.settle()
        assert rig.outcomes() == {T0: Outcome.DONE}


class TestTheirBytes:
    """Progress, the estimated end and the forecast count copies between log dirs."""

    def test_the_end_is_unknown_until_bytes_came_and_then_by_the_slowest_broker(self) -> None:
        state, meter = ExecutorState(running=True), Meter()
        state.cluster.brokers = {1: None, 2: None}
        state.cluster.topics["t"] = ObservedTopic(None, {0: ObservedPartition((1, 2), (1, 2), 1)})
        places = ((1, "/fast"), (2, "/fast"))
        move = Move(T0, None, (1, 2), (1, 2), Strategy.INCREMENTAL, 100_000, places, False, 0, current=(1, 2))
        move.placing, move.began_at_ms = (1, 2), 0
        state.moves[T0] = move
        keys = {(broker, T0) for broker in (1, 2)}
        state.cluster.sizes = {key: ReplicaSize(100_000, "/d") for key in keys}
        assert when_it_ends(state, meter, 0, {}) == Ending(None, "")
        for second in range(0, 42, 2):
            state.cluster.futures = {(b, T0): ReplicaSize(second * 1_000 * b, "/fast", True) for b in (1, 2)}
            meter.sample(state, second * 1000, keys)
        found = when_it_ends(state, meter, 40_000, {}).estimate
        assert found is not None
        assert found.remaining_bytes == 60_000 + 20_000
        assert found.bytes_per_s == pytest.approx(3_000)
        assert found.left_ms == pytest.approx(60_000)
        assert found.low_ms < found.left_ms < found.high_ms

    def test_a_throttle_gives_the_pace_before_a_byte_came(self) -> None:
        rig = DirRig(Yard({"t": [(1, 2)]}))
        rig.slow = (1,)
        rig.order((1, 2), (1, "/fast"), options=ExecutionOptions(log_dir_throttle=100))
        rig.settle(rounds=3)
        found = when_it_ends(rig.core.state, Meter(), rig.now_ms, {}).estimate
        assert found is not None
        assert found.left_ms == SIZE * 10

    def test_the_forecast_counts_them_beside_the_others(self) -> None:
        move = Move(T0, None, (1, 2), (1, 3), Strategy.INCREMENTAL, 1_000, (), False, 0, current=(1, 2), placing=(1,))
        assert forecast([move], bandwidth=100, learnt={}) == (2_000, 10.0, 100, False)
        assert forecast([move], bandwidth=100, learnt={}, within=20) == (2_000, 50.0, 100, False)
