"""Throttles with brokers that are late, and with other tools that set the same settings."""

import pytest
from apache_yard import SIZE, LateRig, Rig, Yard, go_on, planned, until, until_asked

from shunter.core.executor import events as ev
from shunter.core.executor.history import executions
from shunter.core.executor.ready import AlterSettings, Collected, CommandReply, Read, ReadSettings, Request
from shunter.core.executor.state import ExecutorState, Throttle
from shunter.core.executor.throttling.throttles import ThrottleBook, decide_throttles, not_in_force, send_settings
from shunter.core.throttles import CORDONED_LOG_DIRS, FOLLOWER_RATE, FOLLOWER_REPLICAS
from shunter.model.execution import CommandKind, ExecutionOptions, LogDirSpace, Outcome, ThrottleKey
from shunter.model.partition import TopicPartition

T0 = TopicPartition("t", 0)
FOLLOWERS = ThrottleKey("topic", "t", "follower.replication.throttled.replicas")
RATE = ThrottleKey("broker", "4", "follower.replication.throttled.rate")
THROTTLED = ExecutionOptions(throttle=1_000)


def test_a_throttle_that_looks_as_if_it_had_never_been_set_is_given_back_all_the_same() -> None:
    rig = LateRig(Yard({"t": [(1, 2)]}))
    rig.submit(("t", 0, (4, 2)), options=THROTTLED)
    until_asked(rig)
    rig.shown = {}
    rig.settle(rounds=20)
    assert rig.outcomes() == {T0: Outcome.DONE}
    assert rig.yard.settings[RATE] == "1000", "a late broker's word is not believed at once"
    rig.shown = None
    rig.settle()
    assert rig.yard.settings == {}


def test_an_older_rate_of_ours_is_not_taken_for_somebody_elses() -> None:
    rig = LateRig(Yard({"t": [(1, 2)]}))
    rig.submit(("t", 0, (4, 2)), options=THROTTLED)
    until_asked(rig)
    before = dict(rig.yard.settings)
    rig.command(CommandKind.LIMIT, rate=700)
    rig.settle(catching_up=False, rounds=4)
    rig.shown = before
    rig.settle()
    assert rig.yard.settings == {}
    assert not [notice for notice in rig.notices if notice.kind == "throttle-left"]


def shown_what_was_given_back(rig: LateRig) -> None:
    """Let a throttled plan end; from then on brokers show its throttles as if they were still set."""
    rig.submit(("t", 0, (4, 2)), options=THROTTLED)
    until_asked(rig)
    ours = dict(rig.yard.settings)
    rig.settle()
    assert rig.yard.settings == {}
    rig.shown = ours


def none_begins_within(rig: Rig, turns: int) -> None:
    go_on(rig, turns)
    assert len(rig.asked) == 1, "a copy began under a throttle that was given back"


def test_a_throttle_just_given_back_is_not_remembered_as_somebody_elses() -> None:
    rig = LateRig(Yard({"t": [(1, 2)]}))
    shown_what_was_given_back(rig)
    rig.submit(("t", 0, (1, 2)), options=THROTTLED)
    none_begins_within(rig, 40)
    rig.shown = None
    until_asked(rig, 2)
    rig.settle()
    assert rig.yard.settings == {}


@pytest.mark.parametrize("clock_ms", [-600_000, 0, 3_600_000])
def test_a_throttle_given_back_by_a_process_with_another_clock_is_not_remembered_as_somebody_elses(
    clock_ms: int,
) -> None:
    """Found by simulation (seed 96000300): by the journal's clock, twelve seconds ago was another hour."""
    rig = LateRig(Yard({"t": [(1, 2)]}))
    shown_what_was_given_back(rig)
    rig.now_ms += clock_ms
    rig.crash()
    rig.submit(("t", 0, (1, 2)), options=THROTTLED)
    none_begins_within(rig, 40)
    rig.shown = None
    until_asked(rig, 2)
    rig.settle()
    assert rig.yard.settings == {}
    assert not [notice for notice in rig.notices if notice.kind in ("throttle-left", "throttle-theirs-again")]


def test_a_late_broker_shows_what_was_given_back_after_another_told_that_it_is_gone() -> None:
    rig = LateRig(Yard({"t": [(1, 2)]}))
    shown_what_was_given_back(rig)
    late, rig.shown = rig.shown, None
    rig.now_ms += 3_600_000
    rig.crash()
    rig.submit(("t", 0, (1, 2)), options=ExecutionOptions(throttle=2_000))
    until(rig, lambda: RATE in rig.yard.settings, 80, "no throttle was set")
    rig.shown = late
    rig.pass_time(3_000)
    rig.command(CommandKind.LIMIT, rate=3_000)
    go_on(rig, 40)
    rig.shown = None
    rig.settle()
    assert rig.yard.settings == {}
    assert not [notice for notice in rig.notices if notice.kind == "throttle-left"]


def test_a_late_broker_does_not_make_a_throttle_left_to_somebody_ours_again() -> None:
    rig = LateRig(Yard({"t": [(1, 2)]}))
    rig.submit(("t", 0, (4, 2)), options=THROTTLED)
    until_asked(rig)
    late = dict(rig.yard.settings)
    rig.pass_time(31_000)  # After this time no broker can be late with the executor's setting.
    rig.yard.settings[RATE] = "123"
    rig.command(CommandKind.LIMIT, rate=900)
    rig.settle(catching_up=False, rounds=12)
    assert [notice for notice in rig.notices if notice.kind == "throttle-left"]
    rig.shown = late
    rig.command(CommandKind.LIMIT, rate=100)
    rig.settle(catching_up=False, rounds=20)
    rig.shown = None
    rig.settle()
    assert rig.yard.settings == {RATE: "123"}


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("later_ms", [0, 10_000, 3_600_000])
def test_a_throttle_set_by_somebody_between_two_executions_is_theirs_though_it_has_our_value(
    later_ms: int, again: bool
) -> None:
    """If an operator keeps the executor's throttle or sets the same, it may not vanish with the next execution."""
    rig = LateRig(Yard({"t": [(1, 2)]}))
    shown_what_was_given_back(rig)
    assert rig.shown is not None
    theirs, rig.shown = dict(rig.shown), None
    rig.yard.settings.update(theirs)
    rig.now_ms += later_ms
    if again:
        rig.crash()
    rig.submit(("t", 0, (1, 2)), options=ExecutionOptions(throttle=500))
    until(rig, lambda: len(rig.asked) == 2, 300, "it waits for more than the thirty seconds that a broker may be late")
    assert rig.yard.settings[RATE] == "500"
    rig.settle()
    assert rig.yard.settings == theirs
    assert set(rig.outcomes().values()) == {Outcome.DONE}


def test_a_change_of_somebody_else_is_not_overwritten_by_another_limit() -> None:
    rig = planned({"t": [(1, 2)]}, ("t", 0, (4, 2)), options=THROTTLED)
    until_asked(rig)
    rig.yard.settings[RATE] = "123"
    rig.pass_time(20_000)
    rig.command(CommandKind.LIMIT, rate=700)
    rig.settle()
    assert rig.yard.settings == {RATE: "123"}


def test_a_value_from_before_us_that_a_late_broker_shows_is_not_left_as_somebody_elses() -> None:
    """Found by simulation (97486322): a broker showed a former topic's value, and the executor's was never removed."""
    rig = LateRig(Yard({"t": [(1, 2)]}))
    rig.submit(("t", 0, (4, 2)), options=THROTTLED)
    until_asked(rig)
    rig.shown = {RATE: "123"}
    rig.command(CommandKind.LIMIT, rate=900)
    go_on(rig, 20)
    rig.shown = None
    rig.settle()
    assert rig.yard.settings == {}
    assert not [notice for notice in rig.notices if notice.kind == "throttle-left"]


def test_a_throttle_set_by_somebody_while_nobody_drove_comes_back_as_it_was() -> None:
    """Found by simulation (seed 934): a new process set the throttles of its journal without reading them first."""
    rig = planned({"t": [(1, 2)]}, ("t", 0, (4, 2)), options=THROTTLED)
    until_asked(rig)
    rig.yard.settings[RATE] = "5000"
    rig.crash()
    until(rig, lambda: rig.yard.settings[RATE] == "1000", 40, "ours is lower, and is not in force")
    rig.settle()
    assert rig.yard.settings == {RATE: "5000"}


def test_a_broker_that_tells_nothing_of_its_settings_holds_up_no_other() -> None:
    rig = LateRig(Yard({"t": [(1, 2), (1, 2)]}))
    rig.submit(("t", 0, (4, 2)), ("t", 1, (3, 2)), options=THROTTLED)
    until_asked(rig)
    rig.silent = "4"
    rig.crash()
    rates = {key: value for key, value in rig.yard.settings.items() if key.setting == RATE.setting}
    rig.yard.settings.clear()
    until(rig, lambda: {key.name for key in rig.yard.settings} == {"t", "1", "2", "3"}, 80, "all others wait for it")
    rig.silent = None
    until(rig, lambda: rates.items() <= rig.yard.settings.items(), 80, "it is not asked again")
    rig.settle()
    assert rig.yard.settings == {}


def test_a_throttle_that_somebody_took_away_is_in_force_again_before_the_next_copy() -> None:
    """Found by simulation (seed 5000232): a throttle that was set once was believed to stay in force."""
    rig = planned(
        {"t": [(1, 2), (1, 2)]},
        ("t", 0, (4, 2)),
        ("t", 1, (4, 2)),
        options=ExecutionOptions(throttle=1_000, max_concurrent=1),
    )
    until_asked(rig)
    rig.yard.settings.clear()
    rig.settle(catching_up=False, rounds=130)
    assert len(rig.asked) == 1
    rig.yard.catch_up(T0)
    until_asked(rig, 2)
    assert rig.yard.settings[RATE] == "1000"
    assert "1:4" in rig.yard.settings[FOLLOWERS].split(",")


class DeniedRig(Rig):
    """An executor that may change settings of topics, but not of brokers."""

    denied = True

    def _carry_out(self, work: Request | Read) -> ev.Event:
        if not isinstance(work, AlterSettings) or not self.denied:
            return super()._carry_out(work)
        mine = tuple(item for item in work.settings if item[0].kind == "topic")
        others = tuple(key for key, _value in work.settings if key.kind == "broker")
        done = super()._carry_out(AlterSettings(work.request_id, mine))
        told = "not allowed to change settings of broker 1"
        return (
            ev.AdminFailed(work.request_id, "AlterSettings", told, retriable=False, settings=others) if others else done
        )


def test_a_rate_that_somebody_took_away_is_in_force_again_while_the_copy_goes_on() -> None:
    rig = planned({"t": [(1, 2)]}, ("t", 0, (4, 2)), options=THROTTLED)
    until_asked(rig)
    del rig.yard.settings[RATE]
    until(rig, lambda: RATE in rig.yard.settings, 200, "the copy is not throttled any more")
    assert len(rig.asked) == 1, "it is the same copy"
    rig.settle()
    assert rig.yard.settings == {}


def test_a_rate_that_somebody_changed_is_told_while_the_copy_goes_on() -> None:
    rig = planned({"t": [(1, 2)]}, ("t", 0, (4, 2)), options=THROTTLED)
    until_asked(rig)
    rig.yard.settings[RATE] = "123"
    kinds = [notice.kind for notice in rig.notices]
    assert "throttle-left" not in kinds
    until(rig, lambda: "throttle-left" in [notice.kind for notice in rig.notices], 200, "nobody is told")
    assert len(rig.asked) == 1, "it is the same copy"
    assert rig.yard.settings[RATE] == "123", "it is lower than ours"
    rig.settle()
    assert rig.yard.settings == {RATE: "123"}


def test_what_was_denied_can_be_ended_by_who_was_denied() -> None:
    """Decision 0203: each command gave up because of the missing permission, even the command that rolled back."""
    rig = DeniedRig(Yard({"t": [(1, 2)]}))
    rig.submit(("t", 0, (4, 2)), options=THROTTLED)
    until(rig, lambda: rig.finish is not None, 80, "it does not give up")
    assert rig.finish is not None
    assert "not allowed" in rig.finish.fatal
    assert rig.asked == [], "nothing is copied without its throttle"
    assert {key.kind for key in rig.yard.settings} == {"topic"}
    rig.crash()
    rig.command(CommandKind.STOP)
    rig.settle()
    assert rig.finish is not None
    assert not rig.finish.fatal
    assert rig.yard.settings == {}
    assert rig.core.state.throttles == {}


def test_a_permission_that_was_taken_away_is_told_while_ours_is_set() -> None:
    rig = DeniedRig(Yard({"t": [(1, 2)]}))
    rig.denied = False
    rig.submit(("t", 0, (4, 2)), options=THROTTLED)
    until_asked(rig)
    rig.denied = True
    rig.settle()
    assert rig.finish is not None
    assert "not allowed" in rig.finish.fatal
    assert rig.yard.settings[RATE] == "1000"
    rig.denied = False
    rig.crash()
    rig.settle()
    assert rig.yard.settings == {}


def test_an_execution_ends_whose_throttled_topic_is_gone() -> None:
    rig = LateRig(Yard({"t": [(1, 2)], "u": [(1, 2)]}))
    rig.submit(("t", 0, (4, 2)), ("u", 0, (4, 2)), options=THROTTLED)
    until_asked(rig)
    rig.yard.delete("t")
    rig.yard.settings.pop(FOLLOWERS)
    rig.crash()
    rig.settle()
    assert rig.finish is not None
    assert not rig.core.state.running, "and its throttles are not waited for"


class GoneTopic:
    """A topic's list that the executor has to set, while the last look showed that there is no such topic."""

    def __init__(self) -> None:
        self.state, self.book = ExecutorState(), ThrottleBook()
        self.state.throttles[FOLLOWERS] = Throttle(None, "0:4", {"0:4"})
        self.state.cluster.topics["t"] = None
        self.state.cluster.topics_at_ms["t"] = 0

    def ask(self, now_ms: int, *, wanted: bool = True) -> tuple[tuple[ThrottleKey, str | None], ...]:
        """Ask for the list, or for its former value; returns the request, whose id is the time."""
        out = Collected()
        self.book.on_read(self.state, {FOLLOWERS: None}, {}, now_ms)
        send_settings(self.state, self.book, {FOLLOWERS: "0:4"} if wanted else {}, now_ms, lambda: now_ms, out)
        (request,) = out.requests
        assert isinstance(request, AlterSettings)
        return request.settings

    def refuse(self, now_ms: int) -> None:
        """Ask, and get the answer that there is no such topic."""
        self.ask(now_ms)
        told = {FOLLOWERS: "UnknownTopicOrPartitionError"}
        self.book.on_altered(self.state, ev.SettingsAltered(now_ms, told, frozenset(told)), now_ms)

    def struck_off(self, now_ms: int) -> bool:
        """Whether the list counts as deleted with its topic, when no move needs it any more."""
        return bool(decide_throttles(self.state, self.book, {}, now_ms, Collected()))


@pytest.mark.parametrize("answered", [True, False])
def test_a_list_that_a_topic_made_anew_may_have_taken_is_given_back(answered: bool) -> None:
    """Found by simulation (seed 99002444): the topic was made anew after the first request, and took the second one.

    One broker did not show the list in time. That counted as another refusal, so the list counted as deleted with the
    former topic, and stayed.
    """
    gone = GoneTopic()
    gone.refuse(1_000)
    gone.ask(4_000)
    if answered:
        late = {FOLLOWERS: "taken, but broker 4 did not apply it within 10 s"}
        gone.book.on_altered(gone.state, ev.SettingsAltered(4_000, late), 14_000)
    else:
        gone.book.on_alter_failed(gone.state, 4_000, 14_000)
    gone.state.cluster.topics_at_ms["t"] = 15_000  # By the word of brokers that have not heard of the new topic.
    assert not gone.struck_off(16_000)
    assert gone.ask(17_000, wanted=False) == ((FOLLOWERS, None),)


def test_a_look_from_before_the_refusal_does_not_tell_that_a_list_went_with_its_topic() -> None:
    gone = GoneTopic()
    gone.refuse(1_000)
    assert not gone.struck_off(2_000), "the topic may have been made anew since the look"
    gone.state.cluster.topics_at_ms["t"] = 2_500
    gone.refuse(4_000)
    assert gone.struck_off(5_000), "nothing was taken since the first refusal, and the topic was seen absent after it"


def test_a_copy_that_a_second_plan_brings_is_throttled_before_it_begins() -> None:
    rig = planned({"t": [(1,)]}, ("t", 0, (4,)), options=THROTTLED)
    until_asked(rig)
    rig.yard.catch_up(T0)
    rig.submit(("t", 0, (1,)), options=THROTTLED)
    until_asked(rig, 2)
    assert rig.asked[-1] == (T0, (1,))
    assert "0:1" in rig.yard.settings[FOLLOWERS].split(",")


def late_when_wanted_again(key: ThrottleKey, throttle: Throttle, now: str | None, again: str) -> set[str]:
    """Ask for the value that is wanted now; returns the resources where `again`, wanted next, is not in force."""
    state, book, out = ExecutorState(), ThrottleBook(), Collected()
    state.cluster.brokers = {4: None}
    state.throttles[key] = throttle
    book.on_read(state, {key: throttle.applied}, {}, 0)
    send_settings(state, book, {} if now is None else {key: now}, 0, lambda: 1, out)
    assert out.requests
    throttle.value = again
    return not_in_force(state, book, {key: again})


def test_a_throttle_that_is_being_given_back_is_not_in_force() -> None:
    """Found by simulation: the same throttle was wanted again meanwhile, and a copy began before it was set anew."""
    throttle = Throttle(None, "1000", {"1000"}, "1000")
    assert late_when_wanted_again(RATE, throttle, None, "1000") == {"broker 4"}


def test_a_list_that_is_being_shortened_is_not_in_force() -> None:
    throttle = Throttle(None, "0:4", {"0:3,0:4", "0:4"}, "0:3,0:4")
    assert late_when_wanted_again(FOLLOWERS, throttle, "0:4", "0:3,0:4") == {"topic t"}


@pytest.mark.parametrize("answered", [True, False])
def test_an_answer_about_a_throttle_that_was_forgotten_is_not_taken_for_that_of_the_next(answered: bool) -> None:
    """`throttles forget` strikes the throttle off before broker 4 has answered; then a plan needs broker 4 again."""
    state, book, out = ExecutorState(), ThrottleBook(), Collected()
    state.cluster.brokers = {4: None}
    for request_id, rate in ((1, "1000"), (2, "500")):
        state.throttles[RATE] = Throttle(None, rate, {rate})
        book.on_read(state, {RATE: None}, {}, 0)
        send_settings(state, book, {RATE: rate}, 0, lambda: request_id, out)  # noqa: B023 - called at once
    if answered:
        book.on_altered(state, ev.SettingsAltered(1), 5)
    else:
        book.on_alter_failed(state, 1, 5)
    assert (state.throttles[RATE].applied, state.throttles[RATE].request_id) == (None, 2), "500 is under way still"
    book.on_altered(state, ev.SettingsAltered(2), 6)
    assert (state.throttles[RATE].applied, state.throttles[RATE].request_id) == ("500", 0)


CORDON = ThrottleKey("broker", "1", CORDONED_LOG_DIRS)


def cordoning(value: str = "*") -> ExecutionOptions:
    return ExecutionOptions(cordons=((1, value),))


def test_a_cordon_is_in_force_before_the_first_step_and_stays_when_all_is_done() -> None:
    rig = Rig(Yard({"t": [(1, 2, 3)]}))
    rig.yard.settings = {CORDON: "/d"}
    rig.submit(("t", 0, (4, 2, 3)), options=cordoning())
    until_asked(rig)
    assert rig.yard.settings == {CORDON: "*"}
    rig.settle()
    assert (rig.outcomes(), rig.yard.settings) == ({T0: Outcome.DONE}, {CORDON: "*"})
    assert not rig.core.state.throttles, "nothing is owed"
    (execution,) = executions(rig.journal)
    assert execution.cordons == {1: "/d"}
    # An undo is an execution with the former value.
    rig.submit(("t", 0, (1, 2, 3)), options=cordoning(execution.cordons[1]))
    rig.settle()
    assert rig.yard.settings == {CORDON: "/d"}
    assert executions(rig.journal)[-1].cordons == {1: "*"}


def test_a_cordon_is_taken_back_when_a_move_is_turned() -> None:
    rig = planned({"t": [(1, 2, 3)]}, ("t", 0, (4, 2, 3)), options=cordoning())
    until_asked(rig)
    assert rig.yard.settings == {CORDON: "*"}
    rig.command(CommandKind.ROLL_BACK)
    rig.settle()
    assert rig.yard.settings == {}
    assert rig.yard.partitions[T0].replicas == (1, 2, 3)
    assert executions(rig.journal)[-1].cordons == {}


def test_a_rollback_cancels_by_null_where_a_target_would_name_a_cordoned_broker() -> None:
    rig = planned({"t": [(1, 2, 3)]}, ("t", 0, (4, 2, 3)), options=cordoning())
    until_asked(rig)
    rig.command(CommandKind.ROLL_BACK)
    rig.settle(catching_up=False)
    assert rig.asked == [(T0, (4, 2, 3)), (T0, None), (T0, (1, 2, 3))], "a cancel does not keep the order"
    assert rig.outcomes() == {T0: Outcome.ROLLED_BACK}
    assert (rig.yard.partitions[T0].replicas, rig.yard.settings) == ((1, 2, 3), {})


def test_moves_away_from_two_cordoned_brokers_have_one_step() -> None:
    rig = planned(
        {"t": [(1, 2), (3, 4)]},
        ("t", 0, (3, 4)),
        ("t", 1, (4, 3)),
        options=ExecutionOptions(cordons=((1, "*"), (2, "*"))),
    )
    rig.settle()
    assert sorted(rig.asked) == [(T0, (3, 4)), (TopicPartition("t", 1), (4, 3))]


def test_a_cordon_of_others_is_theirs_and_a_dead_broker_gets_none() -> None:
    rig = Rig(Yard({"t": [(1, 2, 3)]}))
    rig.yard.settings = {CORDON: "*"}
    rig.submit(("t", 0, (4, 2, 3)), options=cordoning())
    rig.settle()
    assert executions(rig.journal)[-1].cordons == {}
    rig = Rig(Yard({"t": [(1, 2, 3)]}))
    rig.yard.up.discard(1)
    rig.submit(("t", 0, (4, 2, 3)), options=cordoning())
    rig.settle()
    assert rig.yard.settings == {}


@pytest.mark.parametrize("before", [None, "/d"])
def test_a_cordon_that_stays_is_known_until_an_order_or_an_undo_ends_it(before: str | None) -> None:
    rig = Rig(Yard({"t": [(1, 2, 3)]}))
    rig.yard.settings = {CORDON: before} if before else {}
    rig.submit(("t", 0, (4, 2, 3)), options=cordoning())
    rig.settle()
    (execution,) = executions(rig.journal)
    rig.start()
    assert rig.core.state.cordoned() == {1: execution.plans[0]}, "a restart knows it"
    assert rig.yard.settings == {CORDON: "*"}
    undoing = len(rig.journal)
    rig.command(CommandKind.UNCORDON, brokers=(1,))
    rig.crash()  # The order is durable, so the next process restores the setting.
    assert [key.setting for key in rig.core.state.owed()] == [CORDONED_LOG_DIRS]
    rig.settle()
    assert rig.yard.settings == ({CORDON: before} if before else {})
    assert (rig.core.state.cordoned(), executions(rig.journal)[0].cordons) == ({}, {})
    del rig.journal[undoing:]
    rig.yard.settings = {CORDON: "*"}
    rig.start()
    rig.submit(("t", 0, (1, 2, 3)), options=cordoning(before or ""))
    rig.settle()
    assert rig.core.state.cordoned() == {}


@pytest.mark.parametrize("kind", [CommandKind.STOP, CommandKind.ROLL_BACK])
def test_an_undo_that_is_turned_leaves_the_cordon_that_an_order_lifts(kind: CommandKind) -> None:
    """A stranger's find: the broker was cordoned again "by another tool", and nothing of Shunter lifted that."""
    rig = planned({"t": [(1, 2, 3)]}, ("t", 0, (4, 2, 3)), options=cordoning())
    rig.settle()
    drain = executions(rig.journal)[0].plans[0]
    rig.start()
    rig.submit(("t", 0, (1, 2, 3)), options=cordoning(""))
    until(rig, lambda: rig.yard.settings.get(CORDON) != "*", 40, "the cordon is lifted")
    assert rig.core.state.cordoned() == {}, "so no order has to lift it"
    rig.command(kind)
    rig.settle()
    assert rig.yard.settings == {CORDON: "*"}
    assert not [notice for notice in rig.notices if notice.kind == "throttle-theirs-again"]
    assert rig.core.state.cordoned() == {1: drain}
    assert [dict(each.cordons) for each in executions(rig.journal)] == [{1: ""}, {}]
    rig.start()
    rig.command(CommandKind.UNCORDON, brokers=(1,))
    rig.settle()
    assert (rig.yard.settings, rig.core.state.cordoned()) == ({}, {})
    assert [dict(each.cordons) for each in executions(rig.journal)] == [{}, {}]


def test_the_room_of_a_broker_whose_cordon_is_lifted_is_known() -> None:
    """A stranger's find: an undo copied to a disk that its --disk-share did not allow."""
    rig = Rig(Yard({"t": [(1, 2, 3)]}))
    rig.yard.settings = {CORDON: "*"}
    rig.yard.spaces = {"/d": LogDirSpace(100 * SIZE, 50 * SIZE)}
    rig.submit(("t", 0, (4, 2, 3)))
    rig.settle()
    rig.submit(("t", 0, (1, 2, 3)), options=ExecutionOptions(cordons=((1, ""),), disk_share=0.01))
    rig.settle(rounds=200)
    assert "waits for disk: log dir /d of broker 1 has" in rig.core.state.moves[T0].waits.text


def test_an_undo_lifts_the_cordon_of_its_drain_at_once() -> None:
    """An outsider's find: for half a minute all moves of an undo waited "for their throttle to be in force"."""
    rig = planned({"t": [(1, 2, 3)]}, ("t", 0, (4, 2, 3)), options=cordoning())
    rig.settle()
    assert rig.yard.settings == {CORDON: "*"}
    rig.start()
    rig.submit(("t", 0, (1, 2, 3)), options=cordoning(""))
    until(rig, lambda: rig.yard.settings[CORDON] != "*", 40, "ten seconds are enough")
    rig.settle()
    assert rig.outcomes() == {T0: Outcome.DONE}


def test_a_cordon_that_others_changed_is_theirs_when_an_order_ends_it() -> None:
    rig = planned({"t": [(1, 2, 3)]}, ("t", 0, (4, 2, 3)), options=cordoning())
    rig.settle()
    rig.yard.settings = {CORDON: "/e"}
    rig.start()
    rig.command(CommandKind.UNCORDON, brokers=(1,))
    rig.settle()
    assert rig.yard.settings == {CORDON: "/e"}
    reply = rig.replies[rig.command(CommandKind.UNCORDON, brokers=(1,))]
    assert str(reply).count("no drain of this journal cordoned broker 1")


def test_a_cordon_of_a_drain_under_way_is_ended_by_an_order_and_kept_when_another_plan_joins() -> None:
    rig = planned({"t": [(1, 2, 3), (2, 3)]}, ("t", 0, (4, 2, 3)), options=cordoning())
    until_asked(rig)
    rig.submit(("t", 1, (3, 2)))
    for _ in range(3):
        rig.settle(rounds=1)
        assert rig.yard.settings == {CORDON: "*"}
    rig.command(CommandKind.UNCORDON, brokers=(1,))
    rig.settle()
    assert rig.yard.settings == {}
    assert rig.outcomes() == {T0: Outcome.DONE, TopicPartition("t", 1): Outcome.DONE}


def test_a_plan_that_ends_a_cordon_is_not_judged_by_it() -> None:
    rig = Rig(Yard({"t": [(1, 2, 3)]}))
    rig.yard.spaces = {path: LogDirSpace(100 * SIZE, 50 * SIZE, cordoned=True) for path in rig.yard.paths}
    rig.submit(("t", 0, (4, 1)), options=ExecutionOptions(cordons=((4, ""), (1, ""))))
    rig.settle()
    assert rig.outcomes() == {T0: Outcome.DONE}
    rig = planned({"t": [(1, 2, 3)]}, ("t", 0, (1, 2, 4)), options=cordoning())
    rig.settle()
    assert rig.asked == [], "broker 1 would be cordoned before the step"


@pytest.mark.parametrize("options", [ExecutionOptions(throttle=30_000), ExecutionOptions()], ids=["limit", "no limit"])
@pytest.mark.parametrize(
    "theirs",
    [{RATE: "20000"}, {RATE: "90000"}, {FOLLOWERS: "*"}],
    ids=["lower rate", "higher rate", "list of every replica"],
)
def test_a_pause_holds_nothing_by_a_rate_that_replicas_in_sync_may_be_under(
    options: ExecutionOptions, theirs: dict[ThrottleKey, str]
) -> None:
    """An outsider's find: a pause put ordinary replication, which somebody's `*` lists, under 1,024 bytes a second."""
    yard = Yard({"t": [(1, 2)]})
    yard.settings |= theirs
    rig = Rig(yard)
    rig.submit(("t", 0, (4, 2)), options=options)
    until_asked(rig)
    rates = {yard.settings.get(RATE)}
    token = rig.command(CommandKind.PAUSE)
    for _ in range(30):
        rig.settle(catching_up=False, rounds=1)
        rates.add(yard.settings.get(RATE))
    assert "1024" not in rates
    assert yard.partitions[T0].adding == (), "the copy is cancelled"
    reply = rig.replies[token]
    assert isinstance(reply, CommandReply)
    assert "1 copy is cancelled" in reply.text
    told = [notice.text for notice in rig.notices if notice.kind == "copy-put-off"]
    assert told
    assert "by somebody else's throttle" in told[0]
    rig.command(CommandKind.RESUME)
    rig.settle()
    assert rig.outcomes() == {T0: Outcome.DONE}
    assert yard.settings == theirs


def test_a_lower_rate_that_a_raised_limit_leaves_in_force_is_theirs_again() -> None:
    """An outsider's find: it counted as the executor's, and `throttles clear` refused to lift it."""
    yard = Yard({"t": [(1, 2)]})
    yard.settings[RATE] = "20000"
    rig = Rig(yard)
    rig.submit(("t", 0, (4, 2)), options=ExecutionOptions(throttle=10_000))
    until_asked(rig)
    assert rig.yard.settings[RATE] == "10000"
    rig.command(CommandKind.LIMIT, rate=30_000)
    rig.settle(catching_up=False, rounds=40)
    assert rig.yard.settings[RATE] == "20000"
    assert RATE not in rig.core.state.throttles
    del rig.yard.settings[RATE]  # As by `shunter throttles clear`.
    rig.settle(catching_up=False, rounds=120)
    assert rig.yard.settings[RATE] == "30000", "the executor's rate takes its place"
    rig.settle()
    assert RATE not in rig.yard.settings


def held_without_a_limit(listed: str = "0:4") -> Rig:
    """A plan without a throttle, beside others' rates of 10 B/s at brokers 4 and 5, and a list of topic t alone."""
    yard = Yard({"t": [(1, 2, 3)], "u": [(1, 2, 3)]})
    yard.settings = {
        ThrottleKey("topic", "t", FOLLOWER_REPLICAS): listed,
        ThrottleKey("broker", "4", FOLLOWER_RATE): "10",
        ThrottleKey("broker", "5", FOLLOWER_RATE): "10",
    }
    rig = Rig(yard)
    rig.submit(("t", 0, (4, 2, 3)), ("u", 0, (5, 2, 3)))
    rig.settle(catching_up=False, rounds=100)
    return rig


@pytest.mark.parametrize(("listed", "holds"), [("*", True), ("0:4", True), ("1:4", False), ("0:2", False), ("", False)])
def test_without_a_limit_others_rates_hold_the_copies_that_their_lists_name(listed: str, *, holds: bool) -> None:
    rig = held_without_a_limit(listed)
    held = ThrottleKey("broker", "4", FOLLOWER_RATE)
    assert rig.core.book.lower_in_force == ({held: 10} if holds else {})
    told = [notice.text for notice in rig.notices if notice.kind == "throttle-lower"]
    what = "somebody else's throttle holds broker 4 to 10 B/s: it stays, and `shunter throttles clear` removes it"
    assert told == ([what] if holds else [])
    assert rig.core.state.throttles == {}
    del rig.yard.settings[held]
    rig.settle(catching_up=False, rounds=60)
    assert rig.core.book.lower_in_force == {}


def test_a_pause_of_ours_is_not_told_as_somebody_elses_throttle() -> None:
    rig = held_without_a_limit()
    rig.yard.settings = {}
    rig.settle(catching_up=False, rounds=60)  # It is read that they are gone.
    rig.command(CommandKind.PAUSE, TopicPartition("u", 0))
    rig.notices.clear()
    rig.settle(catching_up=False, rounds=100)
    assert any(key.name == "5" for key in rig.core.state.throttles), "the paused copy is held"
    assert rig.core.book.lower_in_force == {}
    rig.command(CommandKind.RESUME)
    rig.settle(catching_up=False, rounds=100)
    assert rig.core.book.lower_in_force == {}
    assert [notice for notice in rig.notices if notice.kind == "throttle-lower"] == []


def test_who_may_not_read_others_throttles_moves_all_the_same_and_is_told_once() -> None:
    class Denied(Rig):
        def _carry_out(self, work: Request | Read) -> ev.Event:
            if isinstance(work, ReadSettings) and work.of_others:
                return ev.AdminFailed(0, "others", "DescribeConfigs is denied", retriable=False)
            return super()._carry_out(work)

    rig = Denied(Yard({"t": [(1, 2, 3)]}))
    rig.submit(("t", 0, (4, 2, 3)))
    rig.settle(catching_up=False, rounds=100)
    (told,) = [notice.text for notice in rig.notices if notice.kind == "admin-failed"]
    assert told == "whether somebody else's throttle holds these copies is not known: DescribeConfigs is denied"
    rig.settle()
    assert rig.outcomes() == {T0: Outcome.DONE}
