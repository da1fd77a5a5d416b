"""Room on disks, and brokers and log dirs that somebody cordons (KIP-1066): what a move may still be given."""

from dataclasses import replace

import pytest
from apache_yard import SIZE, Rig, Yard, planned, until, until_asked

from shunter.core.executor import events as ev
from shunter.core.executor.apply import apply
from shunter.core.executor.capacity import Capacity
from shunter.core.executor.choice import Begin, choose
from shunter.core.executor.ending import when_it_ends
from shunter.core.executor.estimates.rates import Meter
from shunter.core.executor.ready import ObserveLogDirs, Read, Request
from shunter.core.executor.state import ExecutorState, Move
from shunter.core.executor.waits import WaitKind
from shunter.model.execution import (
    DISK_SHARE,
    CommandKind,
    Direction,
    ExecutionOptions,
    LogDirSpace,
    MoveOrder,
    ObservedPartition,
    Outcome,
    ReplicaSize,
    StepDropped,
    ThrottleRestored,
)
from shunter.model.limits import Window
from shunter.model.partition import Replicas, TopicPartition
from shunter.model.reassignment import Strategy
from shunter.views.execution import view_execution

T0 = TopicPartition("t", 0)
PLENTY = LogDirSpace(100 * SIZE, 60 * SIZE)
LIFTS_4 = "`kafka-configs --alter --entity-type brokers --entity-name 4 --delete-config cordoned.log.dirs` lifts that"


class RoomRig(Rig):
    """Brokers whose log dirs have the room that a test says; every replica has `size` bytes."""

    def __init__(self, yard: Yard, *, size: int = SIZE, **rooms: LogDirSpace) -> None:
        """`rooms`: by log dir (`d1` is /d1), of broker 4; the other brokers have plenty in /d."""
        self.size = size
        self.rooms = {f"/{name}": room for name, room in rooms.items()}
        self.silent: Replicas = ()
        self.looks: list[tuple[int, ...]] = []
        super().__init__(yard)

    def _carry_out(self, work: Request | Read) -> ev.Event:
        found = super()._carry_out(work)
        if not isinstance(found, ev.LogDirsObserved):
            return found
        assert isinstance(work, ObserveLogDirs)
        self.looks.append(tuple(broker for broker, _tps in work.partitions))
        told = [broker for broker in found.brokers if broker not in self.silent]
        spaces = {(broker, path): room for broker in told if broker == 4 for path, room in self.rooms.items()}
        spaces |= {(broker, "/d"): PLENTY for broker in told if broker != 4}
        copied = {tp: partition.have for tp, partition in self.yard.partitions.items()}
        sizes = {
            key: size._replace(bytes=copied[key[1]].get(key[0], 0) if key[0] == 4 else self.size)
            for key, size in found.sizes.items()
            if key[0] in told
        }
        return replace(found, spaces=spaces, sizes=sizes, brokers=tuple(told))

    def order(self, *moves: MoveOrder, options: ExecutionOptions | None = None) -> None:
        self.tell(ev.PlanSubmitted("p", moves, options or ExecutionOptions(), 1))

    @property
    def waits(self) -> str:
        wait = self.core.state.moves[T0].waits
        assert wait.kind is WaitKind.DISK
        return wait.text


def to_4(*log_dirs: tuple[int, str], partition: int = 0) -> MoveOrder:
    return MoveOrder(TopicPartition("t", partition), (4, 2, 3), None, log_dirs)


def test_a_move_that_does_not_fit_is_held_back_without_any_flag() -> None:
    """An outsider's find: by default nothing was looked at, and 95 of 100 GB that others use did not count."""
    rig = RoomRig(Yard({"t": [(1, 2, 3)]}), size=10 * SIZE, d=LogDirSpace(100 * SIZE, 12 * SIZE))
    rig.order(to_4())
    rig.settle(rounds=40)
    assert rig.asked == []
    assert rig.waits == (
        "waits for disk: log dir /d of broker 4 has 12.0 kB usable: 10.0 kB needed, 5.0 kB stay free; "
        "free some, or give the plan again with another log dir or --disk-share 1"
    )


@pytest.mark.parametrize("way", ["made", "shrunk", "share", "unlooked"])
def test_a_move_that_waits_for_disk_begins_by_each_way_out(way: str) -> None:
    """Found by simulation: the executor did not look at the disks again while nothing was copied."""
    rig = RoomRig(Yard({"t": [(1, 2, 3)]}), size=10 * SIZE, d=LogDirSpace(100 * SIZE, 12 * SIZE))
    rig.order(to_4())
    rig.settle(rounds=40)
    assert rig.waits
    if way == "made":
        rig.rooms["/d"] = LogDirSpace(100 * SIZE, 50 * SIZE)
    elif way == "shrunk":
        rig.size = SIZE
    else:
        rig.order(to_4(), options=ExecutionOptions(disk_share=0.99 if way == "share" else 1.0))
    rig.settle()
    assert rig.outcomes() == {T0: Outcome.DONE}


def test_a_named_log_dir_is_judged_by_itself() -> None:
    """Beside a large empty log dir a small one that the plan names counted as empty, too."""
    small, large = LogDirSpace(10 * SIZE, 2 * SIZE), LogDirSpace(1_000 * SIZE, 900 * SIZE)
    rig = RoomRig(Yard({"t": [(1, 2, 3)]}), size=5 * SIZE, d=large, fast=small)
    rig.order(to_4((4, "/fast")))
    rig.settle(rounds=40)
    assert rig.asked == []
    assert "log dir /fast of broker 4 has 2.0 kB usable: 5.0 kB needed, 500 B stay free; free" in rig.waits
    rig.order(to_4((4, "/d")))
    rig.yard.log_dirs[4, T0] = "/d"
    rig.settle()
    assert rig.outcomes() == {T0: Outcome.DONE}


def test_where_the_broker_chooses_the_worst_log_dir_is_assumed() -> None:
    small, large = LogDirSpace(10 * SIZE, 2 * SIZE), LogDirSpace(1_000 * SIZE, 900 * SIZE)
    rig = RoomRig(Yard({"t": [(1, 2, 3)]}), size=5 * SIZE, d=large, fast=small)
    rig.order(to_4())
    rig.settle(rounds=40)
    assert rig.asked == []
    assert "log dir /fast of broker 4 has 2.0 kB usable" in rig.waits
    assert "(the broker may choose it: a plan that names log dirs decides)" in rig.waits


@pytest.mark.parametrize("log_dirs", [(), ((4, "/d"),)])
def test_copies_under_way_count_in_the_log_dir_that_they_go_to(log_dirs: tuple[tuple[int, str], ...]) -> None:
    rig = RoomRig(Yard({"t": [(1, 2, 3), (1, 2, 3)]}), size=10 * SIZE, d=LogDirSpace(100 * SIZE, 20 * SIZE))
    rig.order(to_4(*log_dirs), to_4(*log_dirs, partition=1))
    rig.settle(catching_up=False, rounds=4)
    assert [tp.partition for tp, _replicas in rig.asked] == [0]
    waits = rig.core.state.moves[TopicPartition("t", 1)].waits.text
    assert "10.0 kB needed, 10.0 kB on their way, 5.0 kB stay free" in waits
    rig.yard.partitions[T0].have[4] = 8 * SIZE
    rig.rooms["/d"] = LogDirSpace(100 * SIZE, 12 * SIZE)
    rig.settle(catching_up=False, rounds=20)
    assert "10.0 kB needed, 2.0 kB on their way" in rig.core.state.moves[TopicPartition("t", 1)].waits.text


def test_log_dirs_on_one_volume_have_their_room_once() -> None:
    room = LogDirSpace(100 * SIZE, 20 * SIZE)
    rig = RoomRig(Yard({"t": [(1, 2, 3), (1, 2, 3)]}), size=10 * SIZE, d=room, fast=room)
    rig.order(to_4((4, "/d")), to_4((4, "/fast"), partition=1))
    rig.settle(catching_up=False, rounds=4)
    assert [tp.partition for tp, _replicas in rig.asked] == [0]
    waits = rig.core.state.moves[TopicPartition("t", 1)].waits.text
    assert "log dir /fast of broker 4 has 20.0 kB usable: 10.0 kB needed, 10.0 kB on their way" in waits


def test_a_copy_that_ended_since_the_last_look_still_counts() -> None:
    rig = RoomRig(Yard({"t": [(1, 2, 3), (1, 2, 3)]}), size=10 * SIZE, d=LogDirSpace(100 * SIZE, 20 * SIZE))
    rig.order(to_4(), to_4(partition=1))
    looks = len(rig.looks)
    while T0 not in rig.core.state.moves or rig.core.state.moves[T0].open:
        while rig.pending:
            rig.deliver()
        rig.yard.catch_up(T0)
        rig.pass_time(10)
    assert len(rig.looks) == looks + 1, "nobody looked since the plan was taken on"
    rig.settle(catching_up=False, rounds=1)
    waits = rig.core.state.moves[TopicPartition("t", 1)].waits.text
    assert "10.0 kB needed, 10.0 kB on their way, 5.0 kB stay free" in waits
    rig.rooms["/d"] = LogDirSpace(100 * SIZE, 16 * SIZE)
    rig.settle()
    assert rig.outcomes()[TopicPartition("t", 1)] is Outcome.DONE


def test_a_rollback_may_use_the_headroom_and_no_more_than_there_is() -> None:
    rig = RoomRig(Yard({"t": [(2, 4)]}), d=LogDirSpace(100 * SIZE, 50 * SIZE))
    rig.order(MoveOrder(T0, (5, 6)))
    for _turn in range(400):
        if 4 not in rig.yard.partitions[T0].replicas:
            break
        rig.settle(rounds=1)
    rig.rooms["/d"] = LogDirSpace(100 * SIZE, SIZE // 2)
    rig.yard.partitions[T0].have.pop(4, None)
    rig.now_ms += 60_000
    rig.command(CommandKind.ROLL_BACK)
    rig.settle(rounds=40)
    assert "has 500 B usable: 1.0 kB needed; free" in rig.waits
    rig.rooms["/d"] = LogDirSpace(100 * SIZE, SIZE)
    rig.settle()
    assert rig.outcomes() == {T0: Outcome.ROLLED_BACK}


def test_unknown_room_is_told_once_and_holds_nothing_back() -> None:
    rig = RoomRig(Yard({"t": [(1, 2, 3), (1, 2, 3)]}), d=LogDirSpace(-1, -1))
    rig.order(to_4(), to_4(partition=1))
    rig.settle()
    told = [notice.text for notice in rig.notices if notice.kind == "room-unknown"]
    assert told == ["broker 4 does not say how much room its log dirs have: copies to it are not held back for it"]


def test_a_broker_is_looked_at_again_before_a_copy_begins_long_after_the_last_look() -> None:
    rig = RoomRig(Yard({"t": [(1, 2, 3)]}), size=10 * SIZE, d=LogDirSpace(100 * SIZE, 50 * SIZE))
    rig.order(to_4(), options=ExecutionOptions(window=Window(1, 2)))
    rig.settle(rounds=10)
    before = len(rig.looks)
    rig.rooms["/d"] = LogDirSpace(100 * SIZE, 12 * SIZE)
    rig.now_ms += (24 * 60 * 60_000) - rig.now_ms % (24 * 60 * 60_000) + 60_000
    rig.settle(rounds=40)
    assert rig.asked == []
    assert any(4 in look for look in rig.looks[before:])
    assert "has 12.0 kB usable" in rig.waits


def test_a_restart_looks_before_it_begins_and_a_silent_broker_leaves_its_room_unknown() -> None:
    rig = RoomRig(Yard({"t": [(1, 2, 3)]}), d=PLENTY)
    rig.order(to_4(), options=ExecutionOptions(window=Window(20, 100)))
    rig.settle(rounds=4)
    rig.silent = (4,)
    rig.crash()
    rig.now_ms = 20 * 60_000
    rig.settle(rounds=60)
    assert rig.asked == []
    assert rig.core.state.moves[T0].waits.text == "looks how much room the log dirs of broker 4 have"
    rig.settle(rounds=200)
    assert rig.outcomes() == {T0: Outcome.DONE}
    assert "room-unknown" in {notice.kind for notice in rig.notices}


def test_a_size_that_was_unknown_when_the_plan_came_is_looked_for() -> None:
    """Found by simulation: it counted as 0, and the copy filled the disk."""
    rig = RoomRig(Yard({"t": [(1, 2, 3)]}), size=10 * SIZE, d=LogDirSpace(100 * SIZE, 12 * SIZE))
    rig.silent = (1,)
    rig.order(to_4())
    rig.settle(rounds=8)
    assert rig.core.state.moves[T0].waits.text == "looks how much is to be copied"
    rig.silent = ()
    rig.settle(rounds=20)
    assert rig.asked == []
    assert "10.0 kB needed" in rig.waits


def test_a_leader_that_was_seen_when_it_was_half_copied_says_nothing_of_the_size() -> None:
    """Found by simulation: the next copy of the partition began without room for it."""
    rig = RoomRig(Yard({"t": [(1, 2)]}), size=10 * SIZE, d=LogDirSpace(100 * SIZE, 12 * SIZE))
    rig.order(MoveOrder(T0, (5, 4)), options=ExecutionOptions(disk_share=0.999))
    rig.settle(catching_up=False, rounds=1)
    cluster, (move,) = rig.core.state.cluster, rig.core.state.moves.values()
    cluster.sizes[5, T0], cluster.sizes_at_ms[5, T0] = ReplicaSize(SIZE, "/d"), rig.now_ms
    move.stepped_at_ms, move.step = rig.now_ms + 1, None
    seen = cluster.topics["t"]
    assert seen is not None
    seen.partitions[0] = seen.partitions[0]._replace(replicas=(5, 2), isr=(5, 2), leader=5)
    capacity = Capacity.of(rig.core.state, rig.now_ms)
    capacity.expect(move, 4, None)
    assert capacity.coming[4, ""] == 10 * SIZE


def test_the_default_leaves_a_headroom() -> None:
    assert ExecutionOptions().disk_share == DISK_SHARE < 1


def stuck_row(rig: Rig) -> str:
    (row,) = view_execution(rig.core.state, Meter(), None, rig.now_ms).moves
    return row.stuck


def refused(rig: Rig) -> int:
    return sum(notice.kind == "step-refused" for notice in rig.notices)


@pytest.mark.parametrize("looked_lately", [True, False])
def test_a_move_whose_next_step_names_a_cordoned_broker_waits_and_goes_on(looked_lately: bool) -> None:
    rig = planned({"t": [(1, 2)]}, ("t", 0, (3, 4)))
    until(rig, lambda: bool(rig.yard.ongoing()), 80, "the first step does not run")
    rig.yard.cordon(4)
    if not looked_lately:
        rig.settle(catching_up=False, rounds=200)
    rig.settle(rounds=600)
    assert rig.asked[0] == (T0, (1, 2, 3))
    assert len(rig.asked) == 1 + refused(rig)
    assert refused(rig) == looked_lately, "a look from before the cordon does not show it"
    waits = rig.core.state.moves[T0].waits
    assert (waits.kind, waits.text) == (
        WaitKind.CORDON,
        "waits: broker 4 is cordoned, and Kafka takes no target that names such a broker",
    )
    why = "it can't end while broker 4 has its log dirs cordoned: Kafka takes no target that names it"
    assert stuck_row(rig) == f"{why}; {LIFTS_4}; `shunter rollback` or `shunter stop`, given its name, ends it"
    held = when_it_ends(rig.core.state, Meter(), rig.now_ms, {}).held
    assert held == f"no end: 1 stuck: {stuck_row(rig)}"
    assert rig.finish is None
    rig.yard.cordon()
    rig.settle()
    assert rig.outcomes() == {T0: Outcome.DONE}
    assert rig.yard.partitions[T0].replicas == (3, 4)


@pytest.mark.parametrize(
    ("kind", "outcome", "left"),
    [(CommandKind.ROLL_BACK, Outcome.ROLLED_BACK, (1, 2)), (CommandKind.STOP, Outcome.STOPPED, (1, 2, 3))],
)
def test_the_ways_out_end_a_move_that_a_cordon_holds(kind: CommandKind, outcome: Outcome, left: Replicas) -> None:
    rig = planned({"t": [(1, 2)]}, ("t", 0, (3, 4)))
    until(rig, lambda: bool(rig.yard.ongoing()), 80, "the first step does not run")
    rig.yard.cordon(4)
    rig.settle(rounds=100)
    rig.command(kind)
    rig.settle()
    assert (rig.outcomes(), rig.yard.partitions[T0].replicas) == ({T0: outcome}, left)


def test_a_move_that_only_takes_a_replica_from_a_cordoned_broker_goes_on_in_one_step() -> None:
    rig = planned({"t": [(1, 2, 3)]}, ("t", 0, (4, 5, 3)))
    until(rig, lambda: bool(rig.yard.ongoing()), 80, "the first step does not run")
    assert rig.asked == [(T0, (1, 2, 3, 4))]
    rig.yard.cordon(2)
    rig.settle()
    assert rig.outcomes() == {T0: Outcome.DONE}
    assert rig.asked[-1] == (T0, (4, 5, 3))
    move = Move(T0, None, (1, 2), (3, 4), Strategy.INCREMENTAL, 1, (), False, 0, current=(1, 2))
    seen, live = ObservedPartition((1, 2), (1, 2), 1), frozenset({1, 2, 3, 4})
    stepwise, whole = (choose(move, seen, live, 1, closed=frozenset(closed)) for closed in ((), (1,)))
    assert isinstance(stepwise, Begin)
    assert isinstance(whole, Begin)
    assert (stepwise.after, whole.after) == ((1, 2, 3), (3, 4))


def test_another_order_of_replicas_waits_as_well() -> None:
    rig = planned({"t": [(1, 2)]}, ("t", 0, (2, 1)))
    until(rig, lambda: bool(rig.core.state.moves), 80, "the plan was not taken on")
    rig.yard.cordon(1)
    rig.settle(rounds=600)
    assert "broker 1 has its log dirs cordoned" in stuck_row(rig)
    assert refused(rig) == len(rig.asked) <= 1
    rig.crash()
    rig.settle(rounds=100)
    assert refused(rig) <= 2, "another process knows no cordon at first"
    rig.yard.cordon()
    rig.settle()
    assert rig.outcomes() == {T0: Outcome.DONE}


def test_a_cancel_loses_the_order_and_waits_for_the_cordon_to_restore_it() -> None:
    rig = planned({"t": [(1, 2)]}, ("t", 0, (3, 2)))
    until(rig, lambda: bool(rig.yard.ongoing()), 80, "the step does not run")
    rig.settle(catching_up=False, rounds=20)
    rig.yard.cordon(2)
    rig.command(CommandKind.ROLL_BACK)
    rig.settle(catching_up=False, rounds=600)
    assert not rig.yard.ongoing()
    assert rig.yard.partitions[T0].replicas == (2, 1)
    assert "broker 2 has its log dirs cordoned" in stuck_row(rig)
    assert rig.core.state.moves[T0].order == (1, 2), "a step that was refused is not forgotten"
    rig.yard.cordon()
    rig.settle()
    assert rig.outcomes() == {T0: Outcome.ROLLED_BACK}
    assert rig.yard.partitions[T0].replicas == (1, 2)


def test_a_redirection_that_a_cordon_prevents_is_a_cancel() -> None:
    rig = planned({"t": [(1, 2)]}, ("t", 0, (3, 2)))
    until(rig, lambda: bool(rig.yard.ongoing()), 80, "the step does not run")
    rig.yard.cordon(2)  # Nobody has looked yet, so the rollback asks for another target.
    rig.command(CommandKind.ROLL_BACK)
    rig.settle(catching_up=False, rounds=300)
    assert not rig.yard.ongoing()
    assert [target for _tp, target in rig.asked[:3]] == [(3, 2), (1, 2), None]
    rig.yard.cordon()
    rig.settle()
    assert rig.outcomes() == {T0: Outcome.ROLLED_BACK}


def test_a_rollback_waits_until_the_executions_own_cordon_is_given_back() -> None:
    rig = planned({"t": [(1, 2)], "u": [(1, 5)]}, ("t", 0, (1, 3)))
    until_asked(rig)
    rig.submit(("u", 0, (6, 5)), options=ExecutionOptions(cordons=((2, "*"),)))
    rig.settle(catching_up=False, rounds=100)
    rig.command(CommandKind.ROLL_BACK, T0)
    rig.settle()
    assert rig.outcomes()[T0] is Outcome.ROLLED_BACK
    assert rig.yard.partitions[T0].replicas == (1, 2)


def test_a_forward_move_that_an_own_cordon_holds_names_undrain() -> None:
    rig = planned({"t": [(1, 2)], "u": [(4, 5)]}, ("t", 0, (3, 4)))
    until(rig, lambda: bool(rig.yard.ongoing()), 80, "the first step does not run")
    rig.submit(("u", 0, (6, 5)), options=ExecutionOptions(cordons=((4, "*"),)))
    rig.settle(rounds=300)
    rows = {row.partition: row.stuck for row in view_execution(rig.core.state, Meter(), None, rig.now_ms).moves}
    assert (
        "; `shunter undrain 4` lifts that; `shunter rollback` or `shunter stop`, given its name, ends it" in rows["t-0"]
    )
    assert refused(rig) == 0
    rig.command(CommandKind.UNCORDON, brokers=(4,))
    rig.settle()
    assert set(rig.outcomes().values()) == {Outcome.DONE}


def test_a_journal_with_a_cordon_that_was_given_back_closes_no_broker() -> None:
    """An outsider's find: after `drain --cordon` and `undrain`, every dry run that named the broker was refused."""
    rig = planned({"u": [(4, 5)]}, ("u", 0, (6, 5)), options=ExecutionOptions(cordons=((4, "*"),)))
    rig.settle(rounds=300)
    rig.command(CommandKind.UNCORDON, brokers=(4,))
    rig.settle()
    assert any(isinstance(entry.record, ThrottleRestored) for entry in rig.journal)
    state = ExecutorState()
    for entry in rig.journal:
        apply(state, entry)
    assert state.closed() == frozenset()


def test_a_refused_step_is_dropped_once_and_numbered_on() -> None:
    rig = planned({"t": [(1, 2)]}, ("t", 0, (3, 2)))
    until(rig, lambda: bool(rig.core.state.moves), 80, "the plan was not taken on")
    rig.yard.cordon(3)
    rig.settle(rounds=300)
    assert sum(isinstance(entry.record, StepDropped) for entry in rig.journal) == 1
    assert rig.core.state.moves[T0].direction is Direction.FORWARD
    rig.yard.cordon()
    rig.settle()
    assert rig.outcomes() == {T0: Outcome.DONE}
