"""Steps, floor and waiting, case by case."""

from dataclasses import replace

import pytest

from shunter.core.reassignment import Situation, Step, Waiting, WaitReason, describe_waiting, next_step, plan_on_paper
from shunter.core.reassignment.steps import excess_replicas, relaxed_floor
from shunter.model.partition import NO_LEADER, ReplicaAssignment, Replicas
from shunter.model.reassignment import Strategy


def situation(
    replicas: Replicas,
    *,
    isr: Replicas | None = None,
    dead: Replicas = (),
    leader: int | None = None,
    min_isr: int = 1,
    adding: Replicas = (),
    removing: Replicas = (),
) -> Situation:
    in_sync = tuple(broker for broker in replicas if broker not in dead) if isr is None else isr
    return Situation(
        ReplicaAssignment(replicas, adding, removing),
        in_sync,
        (in_sync[0] if in_sync else NO_LEADER) if leader is None else leader,
        frozenset(range(12)) - frozenset(dead),
        min_isr,
    )


def choose(
    now: Situation,
    target: Replicas,
    *,
    original: Replicas = (0, 1, 2),
    relaxed: bool = False,
    strategy: Strategy = Strategy.INCREMENTAL,
) -> Step | Waiting | None:
    return next_step(now, original=original, target=target, strategy=strategy, relaxed=relaxed)


def changes(replicas: Replicas, target: Replicas, **facts: object) -> list[tuple[Replicas, Replicas, Replicas, int]]:
    plan = plan_on_paper(replicas, target, replicas[0], **facts)
    assert plan.waiting is None
    return [(step.dropped, step.added, step.replicas, step.leader) for step in plan.steps]


def test_growing_adds_one_replica_a_step_and_ends_in_the_targets_order():
    assert changes((0,), (2, 0, 1)) == [((), (2,), (0, 2), 0), ((), (1,), (2, 0, 1), 0)]


def test_shrinking_drops_everything_in_one_step():
    assert changes((0, 1, 2, 3), (3, 0)) == [((1, 2), (), (3, 0), 0)]


def test_shrinking_away_from_the_leader_elects_in_the_targets_order():
    assert changes((0, 1, 2), (2, 1)) == [((0,), (), (2, 1), 2)]


def test_growing_to_other_brokers_drops_only_what_exceeds_the_targets_size():
    assert changes((0, 1), (2, 3, 4)) == [
        ((), (2,), (0, 1, 2), 0),
        ((), (3,), (0, 1, 2, 3), 0),
        ((1,), (4,), (0, 2, 3, 4), 0),
        ((0,), (), (2, 3, 4), 2),
    ]


def test_shrinking_to_other_brokers_drops_the_excess_with_the_first_addition():
    assert changes((0, 1, 2), (3,)) == [((1, 2), (3,), (0, 3), 0), ((0,), (), (3,), 3)]


@pytest.mark.parametrize("strategy", Strategy)
def test_another_order_is_one_step_that_keeps_the_leader(strategy):
    step = choose(situation((0, 1, 2)), (2, 0, 1), strategy=strategy)
    assert step == Step((), (), ReplicaAssignment((2, 0, 1)), (0, 1, 2), 0, final=True)


@pytest.mark.parametrize("strategy", Strategy)
def test_a_target_already_reached_takes_no_step(strategy):
    assert choose(situation((0, 1, 2), dead=(2,)), (0, 1, 2), strategy=strategy) is None


@pytest.mark.parametrize("strategy", Strategy)
def test_the_last_write_clears_the_topics_marks(strategy):
    now = situation((0, 1, 2, 3), adding=(3,))
    assert choose(now, (0, 1, 2, 3), strategy=strategy) == Step(
        (), (), ReplicaAssignment((0, 1, 2, 3)), (0, 1, 2, 3), 0, final=True
    )


@pytest.mark.parametrize("strategy", Strategy)
def test_a_reached_set_is_not_the_end_while_an_addition_catches_up(strategy):
    now = situation((0, 1, 2, 3), isr=(0, 1, 2), adding=(3,))
    assert choose(now, (0, 1, 2, 3), strategy=strategy) == Waiting(WaitReason.CATCHING_UP, (3,))


def test_the_topic_shows_the_step_and_nothing_of_the_rest():
    step = choose(situation((0, 1, 2, 3), adding=(3,)), (3, 4, 5))
    assert isinstance(step, Step)
    assert step.assignment == ReplicaAssignment((0, 2, 3, 4), adding=(4,), removing=())
    assert step.isr == (0, 2, 3)
    assert not step.final


def test_the_excess_goes_dead_first_then_out_of_sync_then_in_order_the_leader_last():
    now = situation((0, 1, 2, 3, 4), isr=(0, 1, 4), dead=(3,), leader=0)
    assert excess_replicas(now, (9,)) == (3, 2, 1, 4, 0)


def test_a_live_addition_is_waited_for_before_the_next_one():
    now = situation((0, 1, 2, 3), isr=(0, 1, 2), adding=(3,))
    assert choose(now, (3, 4, 5)) == Waiting(WaitReason.CATCHING_UP, (3,))


@pytest.mark.parametrize("dead", [(), (1,)])
def test_a_replica_that_is_down_or_behind_stays_until_as_many_as_the_floor_asks_for_are_in_sync(dead):
    now = situation((0, 1, 2, 3), isr=(0, 2), dead=dead, adding=(3,))
    assert choose(now, (3, 4, 5)) == Waiting(WaitReason.CATCHING_UP, (3,))
    step = choose(situation((0, 1, 2, 3), isr=(0, 2, 3), dead=dead, adding=(3,)), (3, 4, 5))
    assert isinstance(step, Step)
    assert (step.dropped, step.added) == ((1,), (4,))


@pytest.mark.parametrize("isr", [(0,), (0, 3)])
def test_replicas_that_are_down_do_not_hold_up_the_next_addition(isr):
    now = situation((0, 1, 2, 3), isr=isr, dead=(1, 2), adding=(3,))
    if 3 in isr:
        step = choose(now, (3, 4, 5))
        assert isinstance(step, Step)
        assert (step.dropped, step.added) == ((), (4,))
    else:
        assert choose(now, (3, 4, 5)) == Waiting(WaitReason.CATCHING_UP, (3,))


def test_an_addition_that_another_target_does_not_want_goes_at_once():
    step = choose(situation((0, 1, 2, 3), isr=(0, 2), dead=(1,), adding=(3,)), (4, 5, 6))
    assert isinstance(step, Step)
    assert (step.dropped, step.added) == ((3,), (4,))


@pytest.mark.parametrize(
    ("original", "target", "least"),
    [
        ((0, 1), (2, 1), 1),
        ((0, 1), (3, 2), 1),
        ((0, 1, 2), (3, 1, 2), 2),
        ((0, 1, 2), (3, 4, 2), 2),
        ((0, 1, 2), (5, 4, 3), 2),
        ((0, 1, 2), (3, 4), 1),
        ((0, 1), (4, 3, 2), 1),
    ],
)
def test_a_rolling_restart_never_takes_more_than_one_replica_in_sync(original, target, least):
    """Every history in which a broker is stopped only while Kafka counts the partition as not under-replicated."""
    first = situation(original)
    seen, waiting, reached = {(first, None)}, [(first, None)], False
    while waiting:
        now, down = waiting.pop()
        assert len(now.in_sync) >= least
        reached |= now.assignment == ReplicaAssignment(target)
        for following in restarts(now, down, original, target):
            if following not in seen:
                seen.add(following)
                waiting.append(following)
    assert reached


def restarts(now: Situation, down: int | None, original: Replicas, target: Replicas):
    """What can happen next: a step, a replica that catches up, a broker that stops or is back."""
    step = choose(now, target, original=original)
    if isinstance(step, Step):
        yield now.after(step), down
    for broker in now.replicas:
        if broker not in now.isr and broker != down:
            yield replace(now, isr=tuple(each for each in now.replicas if each in now.isr or each == broker)), down
    if down is not None:
        yield replace(now, live=now.live | {down}), None
    elif set(now.isr) >= set(now.replicas) - set(now.assignment.adding):
        for broker in now.replicas:
            isr = tuple(each for each in now.isr if each != broker)
            leader = now.leader if now.leader != broker else isr[0] if isr else NO_LEADER
            yield replace(now, isr=isr, leader=leader, live=now.live - {broker}), broker


def test_a_dead_addition_does_not_hold_up_the_next_one():
    now = situation((0, 1, 2, 3), isr=(0, 1, 2), dead=(3,), adding=(3,))
    step = choose(now, (3, 4, 5))
    assert isinstance(step, Step)
    assert (step.dropped, step.added, step.assignment.adding) == ((), (4,), (3, 4))


def test_a_dead_broker_of_the_target_is_passed_over_and_named_at_the_end():
    plan = plan_on_paper((0, 1, 2), (3, 4, 5), 0, dead=(3,))
    assert [step.added for step in plan.steps] == [(4,), (5,), ()]
    assert plan.steps[-1].replicas == (0, 4, 5)
    assert plan.waiting == Waiting(WaitReason.DEAD, (3,))


def test_a_kept_replica_that_fell_behind_does_not_hold_up_the_next_addition():
    now = situation((0, 1, 2), isr=(0, 1))
    step = choose(now, (2, 3, 4))
    assert isinstance(step, Step)
    assert step.added == (3,)


def test_where_the_floor_forbids_a_drop_the_next_replica_is_added_all_the_same():
    now = situation((0, 1, 2, 4), isr=(0, 2, 4), dead=(1,))
    step = choose(now, (1, 4, 5))
    assert isinstance(step, Step)
    assert (step.dropped, step.added) == ((), (5,))
    assert len(step.replicas) == 5


def test_an_unhealthy_replica_in_both_sets_is_waited_for_until_the_floor_is_relaxed():
    now = situation((0, 1, 2, 3), isr=(0, 2, 3), dead=(1,), min_isr=2)
    assert choose(now, (1, 2, 3)) == Waiting(WaitReason.FLOOR, (1,), have=2, need=3)
    step = choose(now, (1, 2, 3), relaxed=True)
    assert step == Step((0,), (), ReplicaAssignment((1, 2, 3)), (2, 3), 2, final=True)


def test_a_relaxed_floor_keeps_min_insync_replicas():
    now = situation((0, 1, 2, 3), isr=(0, 3), dead=(1, 2), min_isr=2)
    assert choose(now, (1, 2, 3), relaxed=True) == Waiting(WaitReason.FLOOR, (1, 2), have=1, need=2)


def test_a_relaxed_floor_keeps_what_the_original_set_would_have_in_sync():
    # 1 and 2 were dropped for 3 and 4 and are healthy: without the move there would be three in sync.
    now = situation((0, 3, 4, 5), isr=(0, 3, 4), dead=(5,))
    assert relaxed_floor(now, (0, 1, 2), (3, 4, 5)) == 3
    assert choose(now, (3, 4, 5), relaxed=True) == Waiting(WaitReason.DEAD, (5,))
    assert relaxed_floor(situation((0, 3, 4, 5), dead=(1, 5)), (0, 1, 2), (3, 4, 5)) == 2


def test_a_relaxed_floor_is_never_above_the_targets_size():
    assert relaxed_floor(situation((0, 1, 2), min_isr=2), (0, 1, 2), (3,)) == 1


def test_a_relaxed_last_step_keeps_the_move_open_for_a_dead_addition():
    now = situation((0, 3, 4, 5), isr=(0, 3, 4), dead=(1, 2, 5), adding=(5,))
    step = choose(now, (3, 4, 5), relaxed=True)
    assert step == Step((0,), (), ReplicaAssignment((3, 4, 5), adding=(5,)), (3, 4), 3, final=False)
    assert choose(now.after(step), (3, 4, 5)) == Waiting(WaitReason.DEAD, (5,))


def test_a_relaxed_last_step_all_at_once_keeps_the_move_open_too():
    now = situation((3, 4, 5, 0, 1, 2), isr=(0, 3, 4), dead=(1, 2, 5), adding=(3, 4, 5), removing=(0, 1, 2), leader=0)
    step = choose(now, (3, 4, 5), relaxed=True, strategy=Strategy.ALL_AT_ONCE)
    assert step == Step((1, 2, 0), (), ReplicaAssignment((3, 4, 5), adding=(3, 4, 5)), (3, 4), 3, final=False)
    after = now.after(step)
    assert choose(after, (3, 4, 5), strategy=Strategy.ALL_AT_ONCE) == Waiting(WaitReason.DEAD, (5,))


def test_all_at_once_keeps_dead_originals_to_the_end():
    now = situation((3, 0, 1, 2), isr=(0,), dead=(1, 2), adding=(3,), removing=(0, 1, 2), leader=0)
    assert choose(now, (3,), strategy=Strategy.ALL_AT_ONCE) == Waiting(WaitReason.CATCHING_UP, (3,))


def test_all_at_once_waits_for_a_kept_replica_by_the_floor():
    now = situation((1, 3, 0), isr=(0, 3), dead=(1,), adding=(3,), removing=(0,), leader=0)
    waiting = choose(now, (1, 3), original=(0, 1), strategy=Strategy.ALL_AT_ONCE)
    assert waiting == Waiting(WaitReason.FLOOR, (1,), have=1, need=2)


def test_all_at_once_brings_back_an_original_as_an_addition():
    now = situation((0, 3, 4))
    step = choose(now, (1, 3, 4), strategy=Strategy.ALL_AT_ONCE)
    assert isinstance(step, Step)
    assert step.assignment == ReplicaAssignment((1, 3, 4, 0), adding=(1, 3, 4), removing=(0,))
    again = now.after(step)
    assert choose(again, (1, 3, 4), strategy=Strategy.ALL_AT_ONCE) == Waiting(WaitReason.CATCHING_UP, (1,))


@pytest.mark.parametrize("strategy", Strategy)
@pytest.mark.parametrize("isr", [(1,), ()])
def test_nothing_moves_while_nobody_in_sync_is_alive(strategy, isr):
    now = situation((0, 1, 2), isr=isr, dead=(1,), leader=NO_LEADER)
    assert choose(now, (3, 4, 5), strategy=strategy) == Waiting(WaitReason.NO_LEADER, isr or (0, 1, 2))


def test_a_step_replaces_a_leader_that_has_just_died_in_the_targets_order():
    now = situation((0, 2, 3, 4), isr=(0, 2, 3, 4), dead=(0,), leader=0)
    step = choose(now, (3, 4, 5))
    assert isinstance(step, Step)
    assert (step.dropped, step.added, step.leader, step.isr) == ((0,), (5,), 3, (2, 3, 4))


def test_isr_members_outside_the_assignment_count_for_nothing_and_are_written_away():
    now = situation((0, 1), isr=(0, 1, 7), leader=0)
    assert choose(now, (0, 2), original=(0, 1)) == Step(
        (), (2,), ReplicaAssignment((0, 1, 2), adding=(2,)), (0, 1), 0, final=False
    )


def test_a_new_replica_is_not_in_sync_whatever_the_isr_says():
    now = situation((0, 1), isr=(0, 1, 2), leader=0)
    step = choose(now, (0, 2), original=(0, 1))
    assert isinstance(step, Step)
    assert (step.added, step.isr) == ((2,), (0, 1))


@pytest.mark.parametrize(
    ("waiting", "text"),
    [
        (Waiting(WaitReason.CATCHING_UP, (3,)), "waits for broker 3 to catch up"),
        (Waiting(WaitReason.DEAD, (3, 4)), "waits for brokers 3, 4 to come back: dead, and part of the target"),
        (
            Waiting(WaitReason.DEAD, (3,), failed=(3,)),
            "waits for broker 3 to be restarted: its log dir failed, and it is part of the target",
        ),
        (
            Waiting(WaitReason.DEAD, (3, 4, 5), failed=(4, 5)),
            (
                "waits for broker 3 to come back: dead, and part of the target; and for brokers 4, 5 to be restarted: their"
                " log dirs failed, and they are part of the target"
            ),
        ),
        (
            Waiting(WaitReason.NO_LEADER, (0, 1), failed=(1,)),
            (
                "waits for brokers 0, 1 to come back: no live replica is in sync, nobody can lead; the log dir on broker 1"
                " failed"
            ),
        ),
        (
            Waiting(WaitReason.FLOOR, (1,), have=2, need=3),
            (
                "waits for broker 1 to be live and in sync: the next drop would leave 2 of the 3 live in-sync replicas that"
                " must stay"
            ),
        ),
        (
            Waiting(WaitReason.ORIGINALS, (1, 2), have=1, need=2),
            "waits for brokers 1, 2 to be live and in sync: 1 of the 2 original replicas that a rollback needs are",
        ),
        (
            Waiting(WaitReason.NO_LEADER, (0,)),
            "waits for broker 0 to come back: no live replica is in sync, nobody can lead",
        ),
    ],
)
def test_what_a_move_waits_for_is_a_sentence(waiting, text):
    assert describe_waiting(waiting) == text
