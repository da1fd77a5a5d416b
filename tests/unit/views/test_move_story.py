"""The story of a move, told from the journal that the executor itself wrote."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "core" / "executor"))
from apache_yard import SIZE, Rig, Yard

from shunter.core.executor.history import executions
from shunter.model.execution import CommandKind, JournalEntry, Outcome, PlanAccepted
from shunter.model.partition import TopicPartition
from shunter.views.move_story import MoveStory, state_of, tell_story, view_execution_gist, view_past_move

T0 = TopicPartition("t", 0)
ALL = frozenset(range(1, 7))


def of(journal: list[JournalEntry]) -> list[JournalEntry]:
    return [entry for entry in journal if getattr(entry.record, "tp", None) == T0]


def told(rig: Rig, live: frozenset[int] | None = ALL) -> MoveStory:
    shared = [entry for entry in rig.journal if getattr(entry.record, "tp", None) is None]
    return tell_story(1, (1,), of(rig.journal), shared, live)


def begun(target: tuple[int, ...] = (4, 5, 3)) -> Rig:
    """A move whose first step is under way."""
    rig = Rig(Yard({"t": [(1, 2, 3)]}))
    rig.submit(("t", 0, target))
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
    assert [event.kind for event in story.events] == ["accepted", "step", "accepted"]
    assert story.steps[0].state == "under way"
