"""Log dirs of a plan: asked for once their throttle is in force and the window is open, waited for broker by broker."""

from __future__ import annotations

from apache_yard import SIZE, Rig, Yard

from shunter.core.executor import events as ev
from shunter.core.executor.history import executions, reverse
from shunter.core.executor.log_dirs import decide_log_dirs
from shunter.core.executor.orders import rollback_cost
from shunter.core.executor.ready import AlterLogDirs, PlanReply, Read, Request
from shunter.core.executor.state import LogDirStatus
from shunter.errors import ErrorCode
from shunter.model.execution import (
    CommandKind,
    Direction,
    ExecutionOptions,
    JournalRecord,
    MoveAccepted,
    MoveOrder,
    Outcome,
    ReplicaSize,
    ThrottleKey,
)
from shunter.model.partition import Replicas, TopicPartition
from shunter.views.execution import view_execution

T0 = TopicPartition("t", 0)
RATE = ThrottleKey("broker", "1", "replica.alter.log.dirs.io.max.bytes.per.second")
MINUTE_MS = 60_000


class DirRig(Rig):
    """Brokers put replicas into the log dirs that they are asked for, unless they refuse. Requests are kept."""

    def __init__(self, yard: Yard, refusing: Replicas = ()) -> None:
        self.dirs_asked: list[tuple[int, str]] = []
        self.refusing = refusing
        self.slow: Replicas = ()
        super().__init__(yard)

    def _carry_out(self, work: Request | Read) -> ev.Event:
        if not isinstance(work, AlterLogDirs):
            return super()._carry_out(work)
        results: dict[tuple[int, TopicPartition], ErrorCode] = {}
        for broker, tp, path in work.replicas:
            self.dirs_asked.append((broker, path))
            results[broker, tp] = ErrorCode.KAFKA_STORAGE_ERROR if broker in self.refusing else ErrorCode.NONE
            if broker not in (*self.refusing, *self.slow):
                self.yard.log_dirs[broker, tp] = path
        return ev.LogDirsAltered(work.request_id, results)

    def order(self, target: Replicas, *log_dirs: tuple[int, str], options: ExecutionOptions) -> None:
        self.tell(ev.PlanSubmitted("p", (MoveOrder(T0, target, None, log_dirs),), options, 1))


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
    rig.yard.log_dirs[2, T0] = "/fast"
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
    options = ExecutionOptions(window=((minute + 5) % 1440, (minute + 60) % 1440))
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
    rig.settle(rounds=4)
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
    rig.command(CommandKind.PAUSE, TopicPartition("u", 0))
    rig.settle(rounds=20)
    assert RATE not in rig.yard.settings, "the other one, which goes on, would be slowed down too"
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
    rig.settle()
    assert rig.dirs_asked == [(1, "/fast")]
    assert rig.outcomes() == {T0: Outcome.DONE}


def test_no_log_dir_is_asked_for_in_the_moment_in_which_an_order_becomes_durable() -> None:
    """Found by simulation: a plan's log dirs were asked for while the next plan was being written."""
    rig = DirRig(Yard({"t": [(1, 2)]}))
    rig.slow = (1,)
    rig.order((1, 2), (1, "/fast"), options=ExecutionOptions())
    rig.settle(rounds=4)
    assert not rig.pending
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
    assert (view.total_bytes, view.copied_bytes) == (SIZE, 0), "broker 2 has it there already"
    rig.yard.log_dirs[1, T0] = "/fast"
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
    asked_at_ms = move.log_dir_status.asked_at_ms
    assert asked_at_ms is not None
    move.log_dir_status = LogDirStatus(asked_at_ms=asked_at_ms, done=True)
    rig.core.state.cluster.sizes[1, T0] = ReplicaSize(SIZE, "/fast")
    rig.core.state.cluster.sizes_at_ms[1, T0] = asked_at_ms + 1
    decide_log_dirs(rig.core.state)
    assert move.log_dir_status.done
    rig.core.state.cluster.sizes[1, T0] = ReplicaSize(SIZE, "/slow")
    decide_log_dirs(rig.core.state)
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

    def test_a_journal_of_an_earlier_version_leaves_log_dirs_as_they_are(self) -> None:
        rig = self.under_way((1, "/fast"), (2, "/d"))
        older = [each._replace(record=_without_origins(each.record)) for each in rig.journal]
        rig.journal[:] = older
        rig.start()
        rig.dirs_asked.clear()
        rig.command(CommandKind.ROLL_BACK)
        rig.settle()
        assert (rig.outcomes(), rig.dirs_asked) == ({T0: Outcome.ROLLED_BACK}, [])

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
