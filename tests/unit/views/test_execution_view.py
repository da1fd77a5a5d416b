"""The read models of an execution: its ETA and debts, its moves' stories, and what a history tells of services."""

import sys
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "core" / "executor"))
from apache_yard import SIZE, Rig, Yard, planned

from shunter.cli.execution.display import told_view
from shunter.core.executor.apply import apply
from shunter.core.executor.estimates.rates import Meter
from shunter.core.executor.history import executions
from shunter.core.executor.state import ExecutorState, Move, Throttle
from shunter.model.execution import (
    CommandKind,
    Direction,
    DirectionChanged,
    ExecutionOptions,
    JournalEntry,
    JournalRecord,
    MoveAccepted,
    MoveClosed,
    ObservedPartition,
    ObservedTopic,
    Outcome,
    PlanAccepted,
    StepBegun,
    StepFinished,
    ThrottleKey,
)
from shunter.model.partition import TopicPartition
from shunter.model.reassignment import Strategy
from shunter.model.service import (
    IntentKind,
    KeptIntent,
    KeptProposal,
    KillSwitch,
    ProposalState,
    Vote,
    Words,
)
from shunter.views.execution import view_execution, view_from_json, view_to_json
from shunter.views.history import told_words
from shunter.views.move_story import MoveStory, state_of, tell_story, view_execution_gist, view_past_move

T0 = TopicPartition("t", 0)
ALL = frozenset(range(1, 7))
NOW = 9_000
WAITS = KeptProposal(
    "drain-1",
    "c",
    "id",
    "drain",
    ("drain",),
    ("broker 3 is drained",),
    (),
    2,
    7,
    0,
    7,
    (),
    1_000,
    ProposalState.WAITING,
    1_000,
)
DRAIN = KeptIntent(IntentKind.DRAIN, "3", 0, "anna", 900, "old disks")
NONE = Words()


def waiting_for_a_dead_broker() -> ExecutorState:
    """One move to broker 5, which is down, and a throttle that has still to be given back to broker 9."""
    state = ExecutorState(running=True)
    state.moves[T0] = Move(T0, None, (1,), (5,), Strategy.INCREMENTAL, 1_000, (), False, 0, current=(1,))
    state.cluster.brokers = {1: None}
    state.cluster.topics["t"] = ObservedTopic(None, {0: ObservedPartition((1,), (1,), 1)})
    for broker in (1, 9):
        key = ThrottleKey("broker", str(broker), "leader.replication.throttled.rate")
        state.throttles[key] = Throttle(None, "5")
    return state


def test_it_tells_the_reason_in_place_of_an_end_and_what_is_owed() -> None:
    view = view_execution(waiting_for_a_dead_broker(), Meter(), 5, 1_000)
    assert view.left_ms is None
    assert view.held.startswith("no end: 1 stuck: it can't end without broker 5, which is down and part of its target")
    assert view.owed == "broker 9", "what a move needs is not owed yet"
    (row,) = view.moves
    assert row.stuck.endswith("`shunter rollback` or `shunter stop`, given its name, ends it")


def test_another_process_reads_the_same() -> None:
    view = view_execution(waiting_for_a_dead_broker(), Meter(), 5, 1_000)
    again = view_from_json(orjson.loads(orjson.dumps(view_to_json(view))))
    assert again is not None
    assert (again.held, again.owed, again.moves[0].stuck) == (view.held, view.owed, view.moves[0].stuck)


def executed(*sizes: int) -> ExecutorState:
    """A journal's fold with a move of (1,) to (5,) for each partition of these sizes."""
    state = ExecutorState()
    accepted = [
        MoveAccepted(TopicPartition("t", n), None, (1,), (5,), Strategy.INCREMENTAL, size, ())
        for n, size in enumerate(sizes)
    ]
    written(state, PlanAccepted("p", "c", ExecutionOptions()), *accepted, at_ms=1)
    return state


def written(state: ExecutorState, *records: JournalRecord, at_ms: int) -> float:
    for record in records:
        apply(state, JournalEntry(state.next_sequence, at_ms, "c", record))
    return view_execution(state, Meter(), None, 5).share


def step(n: int) -> tuple[JournalRecord, ...]:
    tp = TopicPartition("t", n)
    return (StepBegun(tp, 1, (1,), (5,), "+5"), StepFinished(tp, 1, (5,), (5,), 0))


def closed(n: int, outcome: Outcome) -> JournalRecord:
    return MoveClosed(TopicPartition("t", n), outcome, "why", (5,), 0)


def test_the_share_has_one_base_and_is_whole_only_at_the_end() -> None:
    """An outsider's find: an execution showed 100 %, and then 63.6 %."""
    state = executed(600, 300, 100, 0)
    shares = [
        written(state, *step(0), at_ms=2),
        written(state, closed(0, Outcome.DONE), at_ms=3),
        written(state, DirectionChanged(TopicPartition("t", 1), Direction.STOP), at_ms=4),
        written(state, closed(1, Outcome.STOPPED), at_ms=5),
        written(state, *step(2), at_ms=6),
        written(state, closed(2, Outcome.DONE), at_ms=7),
    ]
    assert shares == [0.6, 0.6, 0.9, 0.9, 0.999, 0.999], "partition 3 has nothing to copy, and is open"
    assert written(state, closed(3, Outcome.DONE), at_ms=8) == 1.0
    for n in range(4):
        state = executed(600, 300, 100, 0)
        written(state, DirectionChanged(TopicPartition("t", n), Direction.BACK), at_ms=2)
        assert view_execution(state, Meter(), None, 5).plan_bytes == 1_000, "whatever becomes of a move"


def test_what_a_later_plan_adds_is_said() -> None:
    state = executed(600)
    assert written(state, *step(0), at_ms=2) == 0.999
    more = MoveAccepted(TopicPartition("t", 9), None, (1,), (5,), Strategy.INCREMENTAL, 400, ())
    assert written(state, PlanAccepted("q", "c", ExecutionOptions()), more, at_ms=3) == 0.6
    view = view_execution(state, Meter(), None, 5)
    assert view.added_bytes == 400
    assert "400 B left of 1.0 kB (400 B of it by plans that joined)" in told_view(view)


def test_what_was_copied_before_a_later_plan_moved_the_partition_again_still_counts() -> None:
    """An outsider's find: "0.0% · 9 done, 25 moving", and the bytes of those nine were gone."""
    state = executed(600, 400)
    written(state, *step(0), closed(0, Outcome.DONE), at_ms=2)
    again = MoveAccepted(TopicPartition("t", 0), None, (5,), (6,), Strategy.INCREMENTAL, 600, ())
    assert written(state, PlanAccepted("q", "c", ExecutionOptions()), again, at_ms=3) == 0.375
    view = view_execution(state, Meter(), None, 5)
    assert view.counts == {"done": 1, "pending": 2}
    assert "1.0 kB left of 1.6 kB (600 B of it by plans that joined)" in told_view(view)


@pytest.mark.parametrize(
    "changed",
    [
        {"moves": ["t-0"]},
        {"moves": [{}]},
        {"moves": None},
        {"at_ms": "now"},
        {"counts": []},
        {"brokers_down": 5},
    ],
)
def test_what_is_no_view_is_none(changed: dict[str, object]) -> None:
    document = orjson.loads(orjson.dumps(view_to_json(view_execution(waiting_for_a_dead_broker(), Meter(), 5, 1_000))))
    assert view_from_json(document) is not None
    assert view_from_json(document | changed) is None


@pytest.mark.parametrize("changed", [{"original": 1}, {"current": None}, {"target": "1"}, {"step": 7}])
def test_a_view_whose_move_has_other_replicas_than_a_list_is_none(changed: dict[str, object]) -> None:
    document = orjson.loads(orjson.dumps(view_to_json(view_execution(waiting_for_a_dead_broker(), Meter(), 5, 1_000))))
    document["moves"][0] |= changed
    assert view_from_json(document) is None


@pytest.mark.parametrize("document", [None, [], "view", 5])
def test_json_that_is_no_object_is_no_view(document: object) -> None:
    assert view_from_json(document) is None


def of(journal: list[JournalEntry]) -> list[JournalEntry]:
    return [entry for entry in journal if getattr(entry.record, "tp", None) == T0]


def told(rig: Rig, live: frozenset[int] | None = ALL) -> MoveStory:
    shared = [entry for entry in rig.journal if getattr(entry.record, "tp", None) is None]
    return tell_story(1, (1,), of(rig.journal), shared, live)


def begun(target: tuple[int, ...] = (4, 5, 3)) -> Rig:
    """A move whose first step is under way."""
    rig = planned({"t": [(1, 2, 3)]}, ("t", 0, target))
    rig.settle(catching_up=False, rounds=12)
    return rig


def test_a_move_that_reached_its_target() -> None:
    rig = begun()
    rig.settle()
    story = told(rig)
    assert (story.state, story.replicas, story.direction) == ("done", (4, 5, 3), "forward")
    assert [(step.number, step.state, step.after) for step in story.steps] == [
        (1, "done", (1, 2, 3, 4)),
        (2, "done", (4, 5, 3)),
    ]
    assert [step.rollback_bytes for step in story.steps] == [0, 2 * SIZE], "a rollback costs what is gone from disk"
    assert set(story.steps[-1].isr) == {3, 4, 5}
    assert (story.events[0].kind, story.events[-1].kind) == ("accepted", "ended")
    steps = [event for event in story.events if event.kind == "step"]
    assert all(event.until_ms is not None and event.until_ms >= event.at_ms for event in steps)
    plan = next(entry.record for entry in rig.journal if isinstance(entry.record, PlanAccepted))
    assert story.plan == plan.plan_id


def test_a_move_under_way_says_what_is_to_come() -> None:
    story = told(begun((4, 5, 6)))
    assert [step.state for step in story.steps][:1] == ["under way"]
    assert {step.state for step in story.steps[1:]} == {"to come"}
    assert [step.number for step in story.steps] == list(range(1, len(story.steps) + 1))
    assert story.steps[-1].after == (4, 5, 6)
    assert (story.ended_at_ms, story.waits) == (None, "")


def test_what_will_be_waited_for_is_told() -> None:
    story = told(begun((4, 5, 6)), frozenset({1, 2, 3, 4, 6}))
    assert "5" in story.waits
    assert told(begun((4, 5, 6)), None).waits == "", "nobody knows who lives: all are taken for live"


def test_an_election_is_an_event_with_a_duration() -> None:
    rig = Rig(Yard({"t": [(1, 2, 3)]}))
    rig.yard.partitions[T0].leader = 2
    rig.submit(("t", 0, (1, 2, 3)), elect=True)
    rig.settle()
    (election,) = [event for event in told(rig).events if event.kind == "election"]
    assert election.text == "broker 1 is elected, for it shall lead"
    assert election.until_ms is not None
    assert told(rig).events[-1].cause == "the target is reached, and broker 1 leads"


def test_orders_are_causes_and_a_pause_has_a_duration() -> None:
    rig = begun()
    rig.command(CommandKind.PAUSE)
    rig.now_ms += 60_000
    rig.command(CommandKind.RESUME)
    rig.settle()
    story = told(rig)
    (pause,) = [event for event in story.events if event.kind == "paused"]
    assert pause.until_ms is not None
    assert pause.until_ms - pause.at_ms >= 60_000
    assert pause.cause.startswith("pause")
    assert "resume" in pause.text
    numbers = [event.number for event in story.events]
    assert numbers == list(range(1, len(numbers) + 1))
    assert [event.at_ms for event in story.events] == sorted(event.at_ms for event in story.events)


def test_a_rollback_turns_it_and_drops_the_step_under_way() -> None:
    rig = begun()
    rig.command(CommandKind.ROLL_BACK)
    rig.settle()
    story = told(rig)
    assert (story.state, story.replicas) == ("rolled-back", (1, 2, 3))
    turned = next(event for event in story.events if event.kind == "turned")
    assert "roll back" in turned.cause
    assert "dropped" in {step.state for step in story.steps}
    execution = executions(rig.journal)[0]
    assert view_execution_gist(execution).turned
    assert view_execution_gist(execution).counts == {"rolled-back": 1}


def test_a_stop_and_a_limit() -> None:
    rig = begun()
    rig.command(CommandKind.LIMIT, rate=5_000)
    rig.command(CommandKind.STOP)
    rig.settle()
    story = told(rig)
    assert story.state == "stopped"
    assert [event.text for event in story.events if event.kind == "throttle"] == [
        "the throttle became 5,000 bytes per second"
    ]
    assert told(rig).events[-1].kind == "ended"


def test_rows_agree_with_the_execution() -> None:
    rig = begun()
    open_row = view_past_move(of(rig.journal))
    assert (open_row.state, open_row.ended_at_ms) == ("moving", None)
    assert view_execution_gist(executions(rig.journal)[0]).counts == {"open": 1}
    rig.settle()
    row = view_past_move(of(rig.journal))
    move = executions(rig.journal)[0].moves[T0]
    assert (row.state, row.replicas, row.steps, row.copied_bytes) == (
        "done",
        move.current,
        move.steps,
        move.copied_bytes,
    )
    assert move.outcome is Outcome.DONE
    assert state_of(move) == "done"


def test_a_move_that_another_plan_takes_does_not_wait_while_its_step_runs() -> None:
    rig = begun()
    rig.now_ms += 60_000
    rig.submit(("t", 0, (4, 6, 3)))
    rig.settle(catching_up=False, rounds=3)
    story = told(rig)
    # At first it is looked whether somebody's throttle holds its replicas.
    assert [event.kind for event in story.events] == ["accepted", "waited", "step", "accepted"]
    assert story.steps[0].state == "under way"


def told_of_services(before: Words, after: Words) -> list[tuple[int, str, str, str]]:
    return [(each.at_ms, each.kind, each.who, each.subject) for each in told_words("c", before, after, NOW)]


def test_a_host_that_knows_nothing_tells_all_that_the_words_have_when_it_happened() -> None:
    done = replace(WAITS, state=ProposalState.DONE, changed_at_ms=5_000, votes=(Vote("ben", 2_000, True, "go"),))
    words = Words((DRAIN,), KillSwitch("c", "carl", 3_000), (done,))
    events = told_words("c", NONE, words, NOW)
    assert [(each.at_ms, each.kind, each.who, each.subject) for each in events] == [
        (900, "intend", "anna", "3"),
        (1_000, "proposed", "", "drain-1"),
        (2_000, "approve", "ben", "drain-1"),
        (3_000, "pause-all", "carl", ""),
        (5_000, "proposal-done", "", "drain-1"),
    ]
    assert {(each.cluster, each.facts["source"]) for each in events} == {
        ("c", "read from the cluster's topic of people's words")
    }
    assert told_words("c", words, words, NOW) == ()


def test_what_changed_is_told_once() -> None:
    before = Words((DRAIN,), None, (WAITS,))
    voted = replace(WAITS, votes=(Vote("ben", 2_000, False, ""),), state=ProposalState.DECLINED, changed_at_ms=2_000)
    assert told_of_services(before, Words((DRAIN,), None, (voted,))) == [
        (2_000, "decline", "ben", "drain-1"),
        (2_000, "proposal-declined", "", "drain-1"),
    ]


@pytest.mark.parametrize(
    ("states", "kinds"),
    [
        ("starting running", ["begun", "proposal-running"]),
        ("running", ["begun", "proposal-running"]),
        ("running done", ["begun", "proposal-running", "proposal-done"]),
    ],
)
def test_what_another_service_runs_was_begun(states: str, kinds: list[str]) -> None:
    """An SRE's find: a standby's history had `proposal-running`, and no `begun` before it."""
    found: list[str] = []
    now = WAITS
    for state in states.split():
        before, now = now, replace(now, state=ProposalState(state), changed_at_ms=now.changed_at_ms + 1_000)
        found += [kind for _at, kind, *_ in told_of_services(Words((), None, (before,)), Words((), None, (now,)))]
    assert found == kinds


def test_what_was_taken_back_has_no_time_and_says_so() -> None:
    before = Words((DRAIN,), KillSwitch("c", "carl", 3_000))
    events = told_words("c", before, NONE, NOW)
    assert [(each.at_ms, each.kind) for each in events] == [(NOW, "withdraw"), (NOW, "resume-all")]
    assert all("the cluster has no time of it" in each.text for each in events)
    assert "the pause was lifted by the process that took over" in events[-1].text
    by = told_words("c", before, NONE, NOW, "the service on lab-2 (process 7)")[-1].text
    assert by.startswith("the pause was lifted by the service on lab-2 (process 7); seen now")
    lifted = Words((DRAIN,), KillSwitch("c", "dora", 3_000, lifted=True))
    assert told_of_services(before, lifted) == [(NOW, "resume-all", "dora", "")]
    assert told_of_services(lifted, Words((DRAIN,))) == [], "it was told when it was lifted"
