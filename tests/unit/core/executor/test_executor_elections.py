"""Elections are part of an execution: journalled, asked for, checked by what the cluster shows, and bounded."""

import pytest
from apache_yard import Rig, Yard, go_on, until

from shunter.core.executor.elections import ELECTION_MS
from shunter.core.executor.history import executions, reverse
from shunter.core.executor.ready import ElectLeaders
from shunter.errors import ErrorCode
from shunter.model.execution import (
    CommandKind,
    ElectionBegun,
    ExecutionOptions,
    MoveAccepted,
    MoveClosed,
    MoveOrder,
    Outcome,
)
from shunter.model.partition import TopicPartition

T0 = TopicPartition("t", 0)


def _rig(replicas: tuple[int, ...], leader: int) -> Rig:
    rig = Rig(Yard({"t": [replicas]}))
    rig.yard.partitions[T0].leader = leader
    return rig


def _asked(rig: Rig) -> int | None:
    return next((at for at, work in enumerate(rig.pending) if isinstance(work, ElectLeaders)), None)


def _closed(rig: Rig) -> MoveClosed:
    return next(entry.record for entry in rig.journal if isinstance(entry.record, MoveClosed))


def test_an_order_that_changes_ends_with_its_first_replica_leading() -> None:
    rig = _rig((3, 1, 2), 3)
    rig.submit(("t", 0, (1, 3, 2)), elect=True)
    rig.settle()
    assert rig.yard.partitions[T0].leader == 1
    assert _closed(rig).outcome is Outcome.DONE
    assert _closed(rig).reason == "the target is reached, and broker 1 leads"


def test_without_the_wish_nobody_is_elected() -> None:
    rig = _rig((3, 1, 2), 3)
    rig.submit(("t", 0, (1, 3, 2)))
    rig.settle()
    assert (rig.yard.partitions[T0].leader, rig.elected) == (3, [])
    assert _closed(rig).reason == "the target is reached"


def test_an_order_that_is_right_needs_an_election_alone() -> None:
    """Found on 48647b9: [1, 3, 2] led by broker 3 stayed led by it, with exit status 0."""
    rig = _rig((1, 3, 2), 3)
    rig.submit(("t", 0, (1, 3, 2)), elect=True)
    rig.settle()
    assert (rig.yard.partitions[T0].leader, rig.asked, rig.elected) == (1, [], [T0])
    begun = [entry.record for entry in rig.journal if isinstance(entry.record, ElectionBegun)]
    assert begun == [ElectionBegun(T0, 1)]


def test_who_leads_already_is_not_elected() -> None:
    rig = _rig((1, 3, 2), 1)
    rig.submit(("t", 0, (1, 3, 2)), elect=True)
    rig.settle()
    assert (rig.elected, _closed(rig).outcome) == ([], Outcome.DONE)


def test_a_replica_out_of_sync_is_waited_for_with_a_reason_and_then_elected() -> None:
    rig = _rig((1, 3, 2), 3)
    rig.yard.partitions[T0].isr = (3, 2)
    rig.submit(("t", 0, (1, 3, 2)), elect=True)
    go_on(rig, 60)
    move = rig.core.state.moves[T0]
    assert move.open
    assert move.waits.text == "waits for broker 1 to lead: broker 1 is out of sync"
    assert rig.elected == []
    rig.settle()
    assert (rig.yard.partitions[T0].leader, _closed(rig).outcome) == (1, Outcome.DONE)


@pytest.mark.parametrize("down", [True, False])
def test_an_election_that_does_not_come_about_ends_as_refused_and_says_why(down: bool) -> None:
    rig = _rig((1, 3, 2), 3)
    if down:
        rig.yard.kill(1)
    else:
        rig.yard.refuse_elections[T0] = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    began = rig.now_ms
    rig.submit(("t", 0, (1, 3, 2)), elect=True)
    rig.settle(catching_up=False, rounds=1_000)
    why = "broker 1 is down" if down else "the cluster refuses it: PREFERRED_LEADER_NOT_AVAILABLE"
    told = f"the target is reached, but broker 3 leads: broker 1 was not elected within 60 s, for {why}"
    assert (_closed(rig).outcome, _closed(rig).reason) == (Outcome.REFUSED, told)
    assert ELECTION_MS <= rig.now_ms - began < 2 * ELECTION_MS
    assert len(rig.elected) == 0 if down else 4 < len(rig.elected) < 15
    assert [notice.text for notice in rig.notices if notice.kind == "move-refused"] == [told]


def test_a_lost_answer_is_settled_by_what_the_cluster_shows() -> None:
    rig = _rig((1, 3, 2), 3)
    rig.submit(("t", 0, (1, 3, 2)), elect=True)
    until(rig, lambda: _asked(rig) is not None, 80, "no election was asked for")
    rig.deliver(_asked(rig) or 0, lost=True)
    rig.settle()
    assert (rig.yard.partitions[T0].leader, _closed(rig).outcome) == (1, Outcome.DONE)


@pytest.mark.parametrize("arrives", [True, False])
def test_an_election_survives_the_death_of_the_process(arrives: bool) -> None:
    rig = _rig((3, 1, 2), 3)
    rig.submit(("t", 0, (1, 3, 2)), elect=True)
    begun = lambda: any(isinstance(entry.record, ElectionBegun) for entry in rig.journal)  # noqa: E731
    until(rig, begun, 200, "no election was begun")
    rig.crash(carried_out=[arrives] * len(rig.pending))
    rig.settle()
    assert (rig.yard.partitions[T0].leader, _closed(rig).outcome) == (1, Outcome.DONE)


def test_a_stop_ends_an_election_that_waits() -> None:
    rig = _rig((1, 3, 2), 3)
    rig.yard.kill(1)
    rig.submit(("t", 0, (1, 3, 2)), elect=True)
    go_on(rig, 60)
    rig.command(CommandKind.STOP)
    rig.settle(catching_up=False)
    assert (_closed(rig).outcome, rig.elected) == (Outcome.STOPPED, [])


def test_a_pause_asks_for_no_election_and_does_not_count_towards_the_bound() -> None:
    rig = _rig((1, 3, 2), 3)
    rig.yard.kill(1)
    rig.submit(("t", 0, (1, 3, 2)), elect=True)
    go_on(rig, 20)
    rig.command(CommandKind.PAUSE)
    rig.yard.revive(1)
    rig.yard.partitions[T0].isr = (3, 2, 1)
    go_on(rig, 600)
    assert (rig.elected, rig.core.state.moves[T0].open) == ([], True)
    rig.command(CommandKind.RESUME)
    rig.settle()
    assert (_closed(rig).outcome, rig.yard.partitions[T0].leader) == (Outcome.DONE, 1)


def test_a_rollback_restores_the_order_and_the_leader() -> None:
    rig = _rig((3, 1, 2), 3)
    rig.yard.refuse_elections[T0] = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    rig.submit(("t", 0, (1, 3, 2)), elect=True)
    until(rig, lambda: bool(rig.elected), 200, "no election was asked for")
    rig.yard.refuse_elections.clear()
    rig.yard.partitions[T0].leader = 1
    rig.command(CommandKind.ROLL_BACK)
    rig.settle()
    partition = rig.yard.partitions[T0]
    assert (partition.replicas, partition.leader, _closed(rig).outcome) == ((3, 1, 2), 3, Outcome.ROLLED_BACK)


def test_a_rollback_does_not_wait_for_a_leader_that_is_down() -> None:
    rig = _rig((3, 1, 2), 3)
    rig.submit(("t", 0, (1, 3, 2)), elect=True)
    until(rig, lambda: rig.yard.partitions[T0].replicas == (1, 3, 2), 200, "the order did not change")
    rig.yard.kill(3)
    rig.command(CommandKind.ROLL_BACK)
    rig.settle(catching_up=False)
    assert _closed(rig).outcome is Outcome.ROLLED_BACK
    assert _closed(rig).reason.endswith("but broker 1 leads, for broker 3 is down")


def test_undo_takes_back_order_and_leader_or_says_that_the_leader_stays() -> None:
    rig = _rig((3, 1, 2), 3)
    rig.submit(("t", 0, (1, 3, 2)), elect=True)
    rig.settle()
    back = reverse(executions(rig.journal)[-1])
    assert back.moves == (MoveOrder(T0, (3, 1, 2), back.moves[0].strategy, (), (1, 3, 2), elect=True),)
    other = _rig((1, 3, 2), 3)
    other.submit(("t", 0, (1, 3, 2)), elect=True)
    other.settle()
    stays = reverse(executions(other.journal)[-1])
    assert stays.moves == ()
    assert stays.told == ("t-0: its leader stays, for broker 3, which led it, was not its first replica",)


def test_an_election_waits_for_no_copy() -> None:
    rig = Rig(Yard({"t": [(1, 2), (1, 2), (3, 4)]}))
    rig.yard.partitions[TopicPartition("t", 2)].leader = 4
    rig.submit(("t", 0, (5, 2)), ("t", 1, (6, 2)), options=ExecutionOptions(max_concurrent=1))
    until(rig, lambda: bool(rig.asked), 80, "nothing was asked for")
    rig.submit(("t", 2, (3, 4)), elect=True)
    go_on(rig, 40)
    assert rig.yard.partitions[TopicPartition("t", 2)].leader == 3
    assert rig.outcomes()[TopicPartition("t", 1)] is None


def test_the_journal_knows_who_led_before() -> None:
    rig = _rig((1, 3, 2), 3)
    rig.submit(("t", 0, (1, 3, 2)), elect=True)
    rig.settle()
    accepted = next(entry.record for entry in rig.journal if isinstance(entry.record, MoveAccepted))
    assert accepted.led_by == 3
