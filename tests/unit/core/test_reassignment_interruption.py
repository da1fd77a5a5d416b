"""Stop, rollback, another target, another controller: case by case; and which targets are refused."""

from uuid import UUID

import pytest

from shunter.core.reassignment import (
    Closing,
    LeftMove,
    Reconciled,
    Row,
    Situation,
    Sources,
    Step,
    Waiting,
    WaitReason,
    drop_set,
    left_move,
    plan_on_paper,
    reconcile,
    roll_back,
    roll_back_on_paper,
    same_route,
    step_costs,
    stop,
    supersede,
    told_moves,
    validate_target,
    validate_top,
)
from shunter.errors import ErrorCode
from shunter.model.partition import NO_LEADER, ReplicaAssignment, Replicas, TopicPartition
from shunter.model.reassignment import Phase, Reassignment, Strategy

ORIGINAL = (0, 1, 2)
TOPIC = UUID(int=7)
TP = TopicPartition("mv", 2)
AT_STEP = ReplicaAssignment((1, 2), adding=(2,))
LAST = ReplicaAssignment((1, 2), removing=(1,))
STILL = ReplicaAssignment((0, 1, 2))
STEP = ReplicaAssignment((0, 2, 3, 4), adding=(4,))


def situation(
    assignment: ReplicaAssignment, *, isr: Replicas, leader: int, dead: Replicas = (), min_isr: int = 1
) -> Situation:
    return Situation(assignment, isr, leader, frozenset(range(12)) - frozenset(dead), min_isr)


ALL_ADDED = ReplicaAssignment((3, 4, 5, 0, 1, 2), (3, 4, 5), (0, 1, 2))


def test_a_stop_keeps_additions_in_sync_in_their_place_and_drops_the_others():
    stopped = stop(situation(ALL_ADDED, isr=(0, 1, 4), leader=0), original=ORIGINAL)
    assert stopped == Step((3, 5), (), ReplicaAssignment((4, 0, 1, 2)), (0, 1, 4), 0, final=True)


def test_a_stop_keeps_an_original_that_fell_behind():
    now = situation(ReplicaAssignment((0, 1, 2, 3), (3,)), isr=(0, 1), leader=0)
    assert stop(now, original=ORIGINAL).replicas == (0, 1, 2)


def test_a_stop_in_the_middle_of_a_rollback_drops_the_original_that_is_still_fetched():
    now = situation(ReplicaAssignment((0, 4, 5, 1), (1,)), isr=(0, 4, 5), leader=0)
    assert stop(now, original=ORIGINAL).replicas == (0, 4, 5)


def test_a_stop_of_an_offline_partition_keeps_its_last_in_sync_replica():
    now = situation(ReplicaAssignment((0, 2, 3, 4), (4,)), isr=(3,), leader=NO_LEADER, dead=(3,))
    assert stop(now, original=ORIGINAL) == Step((4,), (), ReplicaAssignment((0, 2, 3)), (3,), NO_LEADER, final=True)


def test_a_stop_drops_nobody_where_nobody_is_known_to_be_in_sync():
    now = situation(ReplicaAssignment((3, 4)), isr=(), leader=NO_LEADER)
    assert stop(now, original=ORIGINAL).replicas == (3, 4)


def test_a_rollback_before_anything_was_dropped_is_one_write_in_the_original_order():
    now = situation(ReplicaAssignment((3, 4, 1, 0), (3, 4), ()), isr=(3, 0, 1), leader=3)
    assert roll_back(now, original=(1, 0)) == Step((4, 3), (), ReplicaAssignment((1, 0)), (0, 1), 1, final=True)


def test_a_rollback_is_done_when_the_original_stands_there():
    assert roll_back(situation(ReplicaAssignment(ORIGINAL), isr=(0,), leader=0), original=ORIGINAL) is None


def test_a_rollback_clears_the_marks_of_an_assignment_that_is_back():
    now = situation(ReplicaAssignment(ORIGINAL, (2,)), isr=ORIGINAL, leader=0)
    assert roll_back(now, original=ORIGINAL) == Step((), (), ReplicaAssignment(ORIGINAL), ORIGINAL, 0, final=True)


def test_a_rollback_fetches_dropped_originals_one_by_one_while_additions_stand_in():
    now = situation(ReplicaAssignment((0, 3, 4, 5)), isr=(0, 3, 4, 5), leader=0)
    plan = roll_back_on_paper(now, original=ORIGINAL)
    assert [(step.dropped, step.added, step.replicas) for step in plan.steps] == [
        ((3,), (1,), (0, 4, 5, 1)),
        ((4,), (2,), (0, 5, 1, 2)),
        ((5,), (), (0, 1, 2)),
    ]
    assert [step.assignment.adding for step in plan.steps] == [(1,), (2,), ()]


def test_a_returning_original_is_waited_for_before_the_next():
    now = situation(ReplicaAssignment((0, 4, 5, 1), (1,)), isr=(0, 4, 5), leader=0)
    assert roll_back(now, original=ORIGINAL) == Waiting(WaitReason.CATCHING_UP, (1,))


def test_an_addition_out_of_sync_goes_at_once_whatever_the_originals_are():
    now = situation(ALL_ADDED, isr=(3,), leader=3, dead=ORIGINAL, min_isr=2)
    step = roll_back(now, original=ORIGINAL)
    assert isinstance(step, Step)
    assert (step.dropped, step.leader) == ((4, 5), 3)
    assert roll_back(now.after(step), original=ORIGINAL) == Waiting(WaitReason.ORIGINALS, ORIGINAL, have=0, need=2)


def test_additions_go_as_soon_as_min_insync_originals_are_healthy():
    now = situation(ALL_ADDED, isr=(3, 4, 5, 1), leader=3, dead=(2,), min_isr=2)
    assert roll_back(now, original=ORIGINAL) == Waiting(WaitReason.ORIGINALS, (0, 2), have=1, need=2)
    healed = situation(ALL_ADDED, isr=(3, 4, 5, 1, 0), leader=3, dead=(2,), min_isr=2)
    assert roll_back(healed, original=ORIGINAL) == Step(
        (4, 5, 3), (), ReplicaAssignment(ORIGINAL), (1, 0), 0, final=True
    )


def test_a_dropped_original_that_is_dead_does_not_keep_the_additions():
    now = situation(ReplicaAssignment((0, 2, 3, 4)), isr=(0, 2, 3, 4), leader=0, dead=(1,), min_isr=2)
    step = roll_back(now, original=ORIGINAL)
    assert step == Step((3, 4), (), ReplicaAssignment((0, 2)), (0, 2), 0, final=False)
    assert roll_back(now.after(step), original=ORIGINAL) == Waiting(WaitReason.DEAD, (1,))


def test_a_min_isr_above_the_originals_size_does_not_block_for_ever():
    now = situation(ReplicaAssignment((3, 0), (3,), (0,)), isr=(0, 3), leader=0, min_isr=2)
    step = roll_back(now, original=(0,))
    assert isinstance(step, Step)
    assert step.replicas == (0,)


def test_a_rollback_of_an_offline_partition_waits_for_a_leader():
    now = situation(ALL_ADDED, isr=(3,), leader=NO_LEADER, dead=(3,))
    assert roll_back(now, original=ORIGINAL) == Waiting(WaitReason.NO_LEADER, (3,))


@pytest.mark.parametrize("top", [-1, 0, 1])
def test_the_drop_set_never_has_the_leader(top):
    assert drop_set((1, 2, 3), (3, 1), 3, top) == (1, 2)


def test_the_drop_set_of_an_offline_partition_starts_from_the_isr():
    assert drop_set((1, 2, 3), (2,), NO_LEADER, 1) == (1, 3)


def test_the_drop_set_ignores_isr_members_outside_the_assignment():
    assert drop_set((1, 2, 3), (9, 3, 1), 3, 2) == (2,)


def test_another_target_keeps_what_both_want_running_and_drops_the_rest_in_one_write():
    now = situation(ALL_ADDED, isr=(0, 1, 2, 3), leader=0)
    step = supersede(now, original=ORIGINAL, new_target=(3, 4, 6), top=3, strategy=Strategy.ALL_AT_ONCE)
    assert step == Step(
        (5,), (6,), ReplicaAssignment((3, 4, 6, 0, 1, 2), (3, 4, 6), (0, 1, 2)), (0, 1, 2, 3), 0, final=False
    )


def test_another_target_that_is_where_the_partition_stands_ends_the_move():
    now = situation(ReplicaAssignment((0, 1, 2, 3), (3,)), isr=(0, 1, 2), leader=0)
    step = supersede(now, original=ORIGINAL, new_target=ORIGINAL, top=3, strategy=Strategy.INCREMENTAL)
    assert step == Step((3,), (), ReplicaAssignment(ORIGINAL), ORIGINAL, 0, final=True)


def test_another_target_waits_for_an_addition_that_both_want():
    now = situation(ReplicaAssignment((0, 1, 2, 3), (3,)), isr=(0, 1, 2), leader=0)
    step = supersede(now, original=ORIGINAL, new_target=(3, 7, 8), top=3, strategy=Strategy.INCREMENTAL)
    assert step == Step((), (), ReplicaAssignment((0, 1, 2, 3), (3,)), ORIGINAL, 0, final=False)


def test_a_leader_that_is_an_addition_stays_until_somebody_else_can_lead():
    # KAFKA-14808: the leader is an adding replica, alone in sync, when its move is superseded.
    now = situation(ReplicaAssignment((3, 4, 0, 1), (3, 4), (0, 1)), isr=(3,), leader=3)
    step = supersede(now, original=(0, 1), new_target=(5, 6), top=2, strategy=Strategy.ALL_AT_ONCE)
    assert step.leader == 3
    assert 3 in step.replicas
    assert 4 not in step.replicas


def test_a_move_of_an_offline_partition_is_turned_without_a_leader():
    now = situation(ALL_ADDED, isr=(0,), leader=NO_LEADER, dead=(0,))
    step = supersede(now, original=ORIGINAL, new_target=(3, 6, 7), top=3, strategy=Strategy.INCREMENTAL)
    assert step == Step((4, 5), (), ReplicaAssignment((3, 0, 1, 2), (3,)), (0,), NO_LEADER, final=False)


def test_another_target_leaves_as_many_live_in_sync_as_there_were_at_first():
    # Two of the ISR have just died: by the drop set's letter 5 could go, and one live in-sync replica would stay.
    now = situation(ReplicaAssignment((0, 3, 4, 5)), isr=(0, 3, 4, 5), leader=0, dead=(3, 4))
    step = supersede(now, original=ORIGINAL, new_target=(6, 7, 8), top=3, strategy=Strategy.INCREMENTAL)
    assert 5 in step.replicas


def test_a_rollback_on_paper_costs_what_was_dropped():
    plan = plan_on_paper((0, 1, 2), (3, 4, 5), 0)
    costs = step_costs(plan.steps, original=ORIGINAL, partition_bytes=10)
    assert [cost.copied_bytes for cost in costs] == [10, 10, 10, 0]
    assert [cost.rollback_bytes for cost in costs] == [0, 10, 20, 30]


def test_a_rollback_all_at_once_is_instant_until_the_last_write():
    plan = plan_on_paper((0, 1, 2), (3, 4, 5), 0, strategy=Strategy.ALL_AT_ONCE)
    costs = step_costs(plan.steps, original=ORIGINAL, partition_bytes=10)
    assert [cost.rollback_bytes for cost in costs] == [0, 30]


@pytest.mark.parametrize(
    ("replicas", "words"),
    [
        ([], "replicas [] for topic-0 are empty"),
        ([4, 4], "replicas [4, 4] for topic-0 repeat broker 4"),
        ([1, -2], "replicas [1, -2] for topic-0 name broker -2: broker ids are not negative"),
        ([1, 9], "replicas [1, 9] for topic-0 name broker 9, which is not a live broker"),
        ([1, 100], "replicas [1, 100] for topic-0 name broker 100, which is a controller and holds no data"),
        ([1], "replicas [1] for topic-0 are 1, fewer than min.insync.replicas 2"),
    ],
)
def test_a_bad_target_is_refused_with_value_rule_and_place(replicas, words):
    refusal = validate_target(replicas, {1, 4, 100}, place="topic-0", controllers={100, 101}, min_isr=2)
    assert refusal is not None
    code, message = refusal
    assert code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert message.startswith(words)


def test_a_good_target_passes_and_a_small_one_can_be_forced():
    assert validate_target((1, 4), {1, 4}, place="topic-0", min_isr=2) is None
    assert validate_target((1,), {1, 4}, place="topic-0", min_isr=2, forced=True) is None


def test_a_broker_that_has_or_had_a_replica_may_be_dead():
    assert validate_target((1, 4, 9), {1, 4}, place="topic-0", had={9}) is None
    assert validate_target((1, 4, 100), {1, 4}, place="topic-0", had={9, 100}, controllers={100}) is not None


def test_a_request_for_too_few_originals_is_ignored_with_a_warning():
    assert validate_top(2, 2, place="topic-0") is None
    assert validate_top(1, 2, place="topic-0") == (
        "topic-0 has 1 original replicas, fewer than min.insync.replicas 2: the request is ignored"
    )


def left_record(written=AT_STEP, phase=Phase.MOVING, *, legacy=False):
    return Reassignment(TOPIC, (1,), (2,), Strategy.INCREMENTAL, phase, written, accepted_at_ms=1, top=1, legacy=legacy)


@pytest.mark.parametrize(
    ("written", "phase", "found", "ends_at", "wanted"),
    [
        pytest.param(AT_STEP, Phase.MOVING, AT_STEP, (1, 2), (2,), id="a step that is under way"),
        pytest.param(AT_STEP, Phase.MOVING, ReplicaAssignment((1, 2)), (1, 2), (2,), id="a step that Apache has ended"),
        pytest.param(AT_STEP, Phase.PAUSED, AT_STEP, (1, 2), (2,), id="a paused move, which Apache goes on with"),
        pytest.param(AT_STEP, Phase.ROLLING_BACK, AT_STEP, (1, 2), (1,), id="a rollback"),
        pytest.param(LAST, Phase.MOVING, LAST, (2,), (2,), id="the last step, after which Apache is at the target"),
        pytest.param(
            ReplicaAssignment((1,)), Phase.PENDING, ReplicaAssignment((1,)), (1,), (2,), id="a move that has not begun"
        ),
    ],
)
def test_where_a_move_ends_without_shunter(written, phase, found, ends_at, wanted):
    left = left_move(TP, left_record(written, phase), TOPIC, found)
    assert left == LeftMove(TP, ends_at, wanted)
    assert left.is_short == (ends_at != wanted)


@pytest.mark.parametrize(
    ("phase", "topic_id", "found"),
    [
        pytest.param(Phase.MOVING, TOPIC, ReplicaAssignment((2,)), id="somebody has moved it to its target"),
        pytest.param(Phase.MOVING, TOPIC, ReplicaAssignment((3,)), id="somebody has moved it elsewhere"),
        pytest.param(Phase.MOVING, UUID(int=8), AT_STEP, id="the record is of an older topic of that name"),
        pytest.param(Phase.DROPPING, TOPIC, AT_STEP, id="the move is over but for its deletions"),
    ],
)
def test_a_move_that_is_over_is_not_left(phase, topic_id, found):
    assert left_move(TP, left_record(AT_STEP, phase), topic_id, found) is None


def test_an_apache_broker_goes_on_to_the_target_of_its_own_znode():
    assert left_move(TP, left_record(legacy=True), TOPIC, AT_STEP, by_legacy_znode=True) == LeftMove(TP, (2,), (2,))
    assert left_move(TP, left_record(), TOPIC, AT_STEP, by_legacy_znode=True) == LeftMove(TP, (1, 2), (2,))


def test_the_moves_are_counted_and_those_that_stop_short_are_named():
    short, whole = LeftMove(TP, (1, 2), (2,)), LeftMove(TopicPartition("u", 0), (2,), (2,))
    assert told_moves([short, whole]) == (
        "2 moves of topics mv, u are not over; a controller that is no Shunter ends 1 short of the target: "
        "mv-2 at [1, 2], not at [2]"
    )
    assert told_moves([whole]) == (
        "1 move of topic u is not over; a controller that is no Shunter ends it at the target"
    )
    assert told_moves([short] * 5).endswith("mv-2 at [1, 2], not at [2] and 2 more")


def record(written=STEP, *, topic_id=TOPIC, legacy=False, original=(0, 1, 2)):
    return Reassignment(
        topic_id, original, (3, 4, 5), Strategy.INCREMENTAL, Phase.MOVING, written, accepted_at_ms=1, legacy=legacy
    )


CONTINUED = Reconciled(Row.CONTINUE, None, (0, 1, 2), (3, 4, 5))


def test_a_record_whose_assignment_stands_goes_on():
    assert reconcile(Sources(TOPIC, STEP, record())) == CONTINUED


def test_a_step_that_apache_finished_goes_on():
    assert reconcile(Sources(TOPIC, ReplicaAssignment((0, 2, 3, 4)), record())) == CONTINUED


def test_a_move_all_at_once_that_apache_finished_goes_on():
    written = ReplicaAssignment((3, 4, 5, 0, 1, 2), adding=(3, 4, 5), removing=(0, 1, 2))
    assert reconcile(Sources(TOPIC, ReplicaAssignment((3, 4, 5)), record(written))) == CONTINUED
    assert reconcile(Sources(TOPIC, ReplicaAssignment((3, 4, 5, 0, 1, 2)), record(written))).row is Row.IDLE


def test_a_record_older_than_topic_ids_is_taken_for_the_topics():
    assert reconcile(Sources(TOPIC, STEP, record(topic_id=None))) == CONTINUED


def test_a_record_of_another_topic_of_that_name_is_closed():
    assert reconcile(Sources(UUID(int=8), STILL, record())) == Reconciled(Row.IDLE, Closing.TOPIC_MADE_ANEW, None, None)


def test_an_assignment_that_somebody_else_wrote_is_the_truth():
    assert reconcile(Sources(TOPIC, STILL, record())) == Reconciled(Row.IDLE, Closing.SUPERSEDED, None, None)


def test_a_superseded_record_does_not_come_back_by_target_replicas():
    assert reconcile(Sources(TOPIC, STILL, record(), target_replicas=(3, 4, 5))).row is Row.IDLE


def test_another_move_by_somebody_else_is_adopted_with_the_first_originals_order():
    # Apache's encoding puts the target first: (2, 3, 4) from (0, 1, 2) becomes (2, 3, 4, 0, 1).
    assignment = ReplicaAssignment((2, 3, 4, 0, 1), adding=(3, 4), removing=(0, 1))
    assert reconcile(Sources(TOPIC, assignment, record())) == Reconciled(
        Row.ADOPT, Closing.SUPERSEDED, (0, 1, 2), (2, 3, 4)
    )


def test_a_move_of_other_originals_is_adopted_as_it_stands():
    assignment = ReplicaAssignment((6, 0, 4), adding=(6,), removing=(0, 4))
    assert reconcile(Sources(TOPIC, assignment, record())) == Reconciled(Row.ADOPT, Closing.SUPERSEDED, (0, 4), (6,))


def test_a_new_topic_in_motion_is_adopted_without_the_old_ones_order():
    assignment = ReplicaAssignment((3, 2, 1, 0), adding=(3,), removing=(0,))
    assert reconcile(Sources(UUID(int=8), assignment, record())) == Reconciled(
        Row.ADOPT, Closing.TOPIC_MADE_ANEW, (2, 1, 0), (3, 2, 1)
    )


def test_an_assignment_in_motion_without_a_record_is_adopted():
    assignment = ReplicaAssignment((3, 4, 0, 1), adding=(3, 4), removing=(0, 1))
    assert reconcile(Sources(TOPIC, assignment)) == Reconciled(Row.ADOPT, None, (0, 1), (3, 4))


def test_a_legacy_entry_alone_is_started_from_where_the_partition_is():
    assert reconcile(Sources(TOPIC, STILL, legacy_target=(3,))) == Reconciled(
        Row.START_LEGACY, None, (0, 1, 2), (3,), legacy=True
    )


@pytest.mark.parametrize(
    ("standing", "given", "used"),
    [
        (STILL, (2, 1, 0), (0, 1, 2)),  # It stands there in its order: nobody has to tell.
        (STILL, (7, 8), (0, 1, 2)),
        (ReplicaAssignment((3, 0, 1, 2), adding=(3,)), (2, 1, 0), (2, 1, 0)),
        (ReplicaAssignment((3, 0, 1, 2), adding=(3,)), (2, 1), (0, 1, 2)),
        (ReplicaAssignment((3, 0, 1, 2), adding=(3,)), (2, 1, 1), (0, 1, 2)),
    ],
)
def test_a_legacy_entrys_own_original_replicas_tell_their_order_alone(standing, given, used):
    sources = Sources(TOPIC, standing, legacy_target=(3,), legacy_original=given)
    assert reconcile(sources).original == used


def test_a_legacy_entry_that_its_record_knows_goes_on():
    sources = Sources(TOPIC, STEP, record(legacy=True), legacy_target=(3, 4, 5))
    assert reconcile(sources) == CONTINUED._replace(legacy=True)


@pytest.mark.parametrize("moving", [record(), None])
def test_a_legacy_entry_wins_over_another_move(moving):
    assignment = STEP if moving else ReplicaAssignment((3, 0, 1, 2), adding=(3,))
    sources = Sources(TOPIC, assignment, moving, legacy_target=(6, 7))
    assert reconcile(sources) == Reconciled(Row.LEGACY_WINS, None, (0, 1, 2), (6, 7), legacy=True)


def test_a_legacy_entry_for_a_partition_of_the_new_protocol_is_ignored():
    sources = Sources(TOPIC, STEP, record(), legacy_target=(6, 7), requested=True)
    assert reconcile(sources) == CONTINUED._replace(row=Row.LEGACY_IGNORED)


def test_target_replicas_count_where_everything_else_is_silent():
    assert reconcile(Sources(TOPIC, STILL, target_replicas=(3, 4))) == Reconciled(
        Row.ADOPT_TARGET_REPLICAS, None, (0, 1, 2), (3, 4)
    )


@pytest.mark.parametrize("target_replicas", [None, (), (0, 1, 2)])
def test_nothing_moves_where_nobody_says_so(target_replicas):
    assert reconcile(Sources(TOPIC, STILL, target_replicas=target_replicas)) == Reconciled(Row.IDLE, None, None, None)


@pytest.mark.parametrize(
    ("current", "legacy", "allowed"),
    [(None, True, True), (True, True, True), (False, True, False), (True, False, False)],
)
def test_a_partition_is_not_moved_by_two_routes(current, legacy, allowed):
    assert same_route(current, legacy=legacy) is allowed
