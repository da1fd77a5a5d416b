"""An account of moves from a journal: bytes, seconds, stalls with their causes, rates, and the plan's own word."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "core" / "executor"))
from apache_yard import Rig, Yard

from shunter.formats.journal import encode_line
from shunter.model.execution import CommandKind
from shunter.model.partition import TopicPartition
from shunter.pipeline.lake.account_schemas import PLAN_LOADS, SCHEDULES
from shunter.pipeline.reports.account import (
    account_moves,
    account_plans,
    account_rates,
    account_stalls,
    account_steps,
    read_journals,
)
from shunter.views.move_story import tell_story

pytestmark = pytest.mark.spark

T0 = 1_738_368_000_000


class Journal:
    """Writes entries in the form of the executor's journal."""

    def __init__(self):
        self.lines = []

    def add(self, second, kind, **fields):
        entry = {
            "cluster_id": "c1",
            "journal": "j",
            "sequence": len(self.lines) + 1,
            "at": T0 + second * 1000,
            "kind": kind,
        }
        self.lines.append(json.dumps({**entry, "cause": "e", **fields}))
        return self


def written():
    journal = Journal()
    journal.add(0, "plan-accepted", plan_id="p1")
    for tp, size in (("my-topic-0", 1000), ("my-topic-1", 500), ("my-topic-2", 5)):
        journal.add(0, "move-accepted", tp=tp, original=[1, 2], target=[3, 2], strategy="incremental", size_bytes=size)
    journal.add(5, "step-begun", tp="my-topic-0", number=1, before=[1, 2], after=[1, 2, 3], reason="add 3")
    journal.add(5, "step-accepted", tp="my-topic-0", number=1)
    journal.add(25, "step-finished", tp="my-topic-0", number=1, replicas=[1, 2, 3], isr=[1, 2, 3], copied_bytes=1000)
    journal.add(29, "step-begun", tp="my-topic-0", number=2, before=[1, 2, 3], after=[3, 2], reason="drop 1")
    journal.add(30, "step-finished", tp="my-topic-0", number=2, replicas=[3, 2], isr=[3, 2], copied_bytes=0)
    journal.add(30, "move-closed", tp="my-topic-0", outcome="done", reason="", replicas=[3, 2], copied_bytes=1000)
    journal.add(30, "step-begun", tp="my-topic-1", number=1, before=[1, 2], after=[1, 2, 3], reason="add 3")
    journal.add(31, "move-paused", tp="my-topic-1", paused=True)
    journal.add(41, "move-paused", tp="my-topic-1", paused=False)
    journal.add(51, "step-dropped", tp="my-topic-1", number=1, reason="broker 3 died")
    journal.add(
        60, "move-closed", tp="my-topic-1", outcome="rolled_back", reason="asked", replicas=[1, 2], copied_bytes=200
    )
    journal.add(60, "rate-observed", broker=3, bytes_per_s=50, limited=True)
    return journal


@pytest.fixture(scope="module")
def journal(spark, tmp_path_factory):
    path = tmp_path_factory.mktemp("journal") / "j.jsonl"
    path.write_text("\n".join(written().lines) + "\n")
    return read_journals(spark, [str(path)]).cache()


def test_moves_with_their_bytes_and_stalls(journal):
    found = {row["partition"]: row for row in account_moves(journal).collect()}
    first = found[0]
    assert (first["topic"], first["plan_id"], first["outcome"], first["steps"]) == ("my-topic", "p1", "done", 2)
    assert (first["planned_bytes"], first["copied_bytes"], first["seconds"], first["stalled_seconds"]) == (
        1000,
        1000,
        25.0,
        4.0,
    )
    second = found[1]
    assert (second["outcome"], second["copied_bytes"], second["seconds"]) == ("rolled_back", 200, 30.0)
    assert second["stalled_seconds"] == 10.0 + 9.0
    assert (found[2]["outcome"], found[2]["started_at"], found[2]["copied_bytes"]) == (None, None, None)


def test_each_stall_has_its_cause(journal):
    found = {(row["partition"], row["cause"], row["seconds"]) for row in account_stalls(journal).collect()}
    assert found == {
        (0, "waiting for its turn", 5.0),
        (0, "between steps", 4.0),
        (1, "waiting for its turn", 30.0),
        (1, "paused", 10.0),
        (1, "step dropped: broker 3 died", 9.0),
    }


def test_steps_and_the_rates_between_brokers(journal):
    steps = account_steps(journal)
    found = [(row["partition"], row["number"], row["source"], row["added"], row["removed"], row["finished"], row["seconds"], row["copied_bytes"]) for row in steps.orderBy("begun_sequence").collect()]  # fmt: skip
    assert found == [
        (0, 1, 1, [3], [], True, 20.0, 1000),
        (0, 2, 1, [], [1], True, 1.0, None),
        (1, 1, 1, [3], [], False, 21.0, None),
    ]
    rates = account_rates(steps).collect()
    assert [(row["source"], row["target"], row["steps"], row["bytes"], row["rate_p50"]) for row in rates] == [
        (1, 3, 1, 1000, 50.0)
    ]


def test_plans_against_truth(spark, journal):
    schedules = spark.createDataFrame(
        [("c1", "p1", "as planned", 1.0, 1, 40.0, 45.0, 50.0, 1505.0, "x", *([None] * 5))], SCHEDULES.schema
    )
    loads = spark.createDataFrame(
        [
            ("c1", "p1", broker, "r", "disk", before, after)
            for broker, before, after in ((1, 30.0, 20.0), (2, 10.0, 20.0))
        ],
        PLAN_LOADS.schema,
    )
    ended = account_moves(journal).where("partition < 2")
    plan = account_plans(ended, schedules, loads).collect()[0]
    assert (plan["moves"], plan["done"], plan["seconds"], plan["planned_seconds"]) == (2, 1, 60.0, 45.0)
    assert plan["eta_error"] == pytest.approx(-0.25)
    assert plan["imbalance_removed"] == 10.0
    assert plan["bytes_per_imbalance"] == 120.0
    running = account_plans(account_moves(journal), schedules, loads).collect()[0]
    assert (running["moves"], running["seconds"], running["eta_error"]) == (3, None, None)


def read(spark, path, lines):
    path.write_text("\n".join(lines) + "\n")
    return read_journals(spark, [str(path)])


def stalls(journal):
    return stalls_in(account_stalls(journal))


def stalls_in(found):
    return [(row["cause"], row["seconds"]) for row in found.orderBy("began_at").collect()]


def paused_twice(resumed, **fields):
    """A move that is paused before its first step and between two steps."""
    journal = Journal()
    journal.add(0, "move-accepted", tp="t-0", original=[1], target=[2], size_bytes=10)
    journal.add(4, "move-paused", tp="t-0", paused=True)
    journal.add(14, resumed, tp="t-0", **fields)
    journal.add(20, "step-begun", tp="t-0", number=1, before=[1], after=[1, 2], reason="add 2")
    journal.add(50, "step-finished", tp="t-0", number=1, replicas=[1, 2], isr=[1, 2], copied_bytes=10)
    journal.add(52, "move-paused", tp="t-0", paused=True)
    journal.add(55, resumed, tp="t-0", **fields)
    journal.add(60, "step-begun", tp="t-0", number=2, before=[1, 2], after=[1], reason="drop 2")
    journal.add(70, "step-finished", tp="t-0", number=2, replicas=[1], isr=[1])
    journal.add(70, "move-closed", tp="t-0", outcome="rolled-back", reason="", replicas=[1], copied_bytes=10)
    return journal


@pytest.mark.parametrize(
    ("resumed", "fields"), [("move-paused", {"paused": False}), ("direction-changed", {"direction": "back"})]
)
def test_a_pause_ends_when_the_move_goes_on_or_is_turned(spark, tmp_path, resumed, fields):
    journal = read(spark, tmp_path / "j.jsonl", paused_twice(resumed, **fields).lines)
    assert stalls(journal) == [
        ("waiting for its turn", 4.0),
        ("paused", 10.0),
        ("waiting for its turn", 6.0),
        ("between steps", 2.0),
        ("paused", 3.0),
        ("between steps", 5.0),
    ]
    (move,) = account_moves(journal).collect()
    assert (move["seconds"], move["stalled_seconds"]) == (50.0, 10.0), "both count from the first step on"


def test_an_election_that_waits_is_a_stall_with_its_own_cause(spark, tmp_path):
    journal = Journal()
    journal.add(0, "move-accepted", tp="t-0", original=[1, 2], target=[2, 1], size_bytes=10, led_by=1)
    journal.add(0, "step-begun", tp="t-0", number=1, before=[1, 2], after=[2, 1], reason="order")
    journal.add(1, "step-finished", tp="t-0", number=1, replicas=[2, 1], isr=[1, 2])
    journal.add(3, "election-begun", tp="t-0", leader=2)
    journal.add(43, "move-closed", tp="t-0", outcome="done", reason="", replicas=[2, 1], copied_bytes=0)
    told = [("between steps", 2.0), ("election of its leader", 40.0)]
    assert stalls(read(spark, tmp_path / "j.jsonl", journal.lines)) == told


def test_an_entry_in_between_does_not_cut_a_stall(spark, tmp_path):
    journal = Journal()
    journal.add(0, "move-accepted", tp="t-0", original=[1], target=[2], size_bytes=10)
    journal.add(0, "step-begun", tp="t-0", number=1, before=[1], after=[1, 2], reason="add 2")
    journal.add(10, "step-finished", tp="t-0", number=1, replicas=[1, 2], isr=[1, 2], copied_bytes=10)
    journal.add(15, "direction-changed", tp="t-0", direction="back")
    journal.add(20, "step-begun", tp="t-0", number=2, before=[1, 2], after=[1], reason="drop 2")
    assert stalls(read(spark, tmp_path / "j.jsonl", journal.lines)) == [("between steps", 10.0)]


def test_a_step_goes_on_while_another_plan_takes_its_move(spark, tmp_path):
    journal = Journal()
    journal.add(0, "move-accepted", tp="t-0", original=[1], target=[2], size_bytes=10)
    journal.add(0, "step-begun", tp="t-0", number=1, before=[1], after=[1, 2], reason="add 2")
    journal.add(10, "move-accepted", tp="t-0", original=[1], target=[3], size_bytes=10)
    journal.add(40, "step-finished", tp="t-0", number=1, replicas=[1, 2], isr=[1, 2], copied_bytes=10)
    assert stalls(read(spark, tmp_path / "j.jsonl", journal.lines)) == []


def test_a_move_that_another_plan_takes_over_ends_there_as_superseded(spark, tmp_path):
    journal = Journal()
    journal.add(0, "plan-accepted", plan_id="p1")
    for tp in ("t-0", "t-1", "t-2"):
        journal.add(0, "move-accepted", tp=tp, original=[1], target=[2], size_bytes=10)
    journal.add(5, "step-begun", tp="t-0", number=1, before=[1], after=[1, 2], reason="add 2")
    journal.add(15, "step-finished", tp="t-0", number=1, replicas=[1, 2], isr=[1, 2], copied_bytes=10)
    journal.add(20, "move-closed", tp="t-1", outcome="done", reason="", replicas=[2])
    journal.add(30, "plan-accepted", plan_id="p2")
    for tp in ("t-0", "t-1", "t-2"):
        journal.add(30, "move-accepted", tp=tp, original=[1], target=[3], size_bytes=10)
    journal.add(40, "move-closed", tp="t-0", outcome="done", reason="", replicas=[3], copied_bytes=20)
    read_back = read(spark, tmp_path / "j.jsonl", journal.lines).cache()
    ended = f"(unix_millis(ended_at) - {T0}) / 1000"
    moves = account_moves(read_back).orderBy("partition", "accepted_sequence")
    found = moves.selectExpr("partition", "plan_id", "outcome", ended, "seconds", "stalled_seconds").collect()
    assert [tuple(row) for row in found] == [
        (0, "p1", "superseded", 30.0, 25.0, 15.0),
        (0, "p2", "done", 40.0, None, 0.0),
        (1, "p1", "done", 20.0, None, 0.0),
        (1, "p2", None, None, None, 0.0),
        (2, "p1", "superseded", 30.0, None, 0.0),
        (2, "p2", None, None, None, 0.0),
    ]
    reasons = {row["reason"] for row in moves.where("outcome = 'superseded'").collect()}
    assert reasons == {"the partition's move was accepted anew"}
    of_first = account_stalls(read_back).where(f"partition = 0 and began_at < timestamp_millis({T0 + 30_000})")
    assert stalls_in(of_first) == [("waiting for its turn", 5.0), ("between steps", 15.0)]


def test_bytes_of_moves_that_take_one_another_over_are_counted_once(spark, tmp_path):
    """The journal's closing entry carries what all of them copied."""
    journal = Journal()

    def accept(at, plan, target):
        journal.add(at, "plan-accepted", plan_id=plan)
        journal.add(at, "move-accepted", tp="t-0", original=[1], target=target, size_bytes=10)

    def copy(at, number, copied):
        journal.add(at, "step-begun", tp="t-0", number=number, before=[1], after=[1, 2], reason="")
        journal.add(at + 1, "step-finished", tp="t-0", number=number, replicas=[1, 2], isr=[1, 2], copied_bytes=copied)

    accept(0, "p1", [2])
    copy(1, 1, 10)
    accept(3, "p2", [3])
    accept(4, "p3", [4])
    copy(5, 2, 20)
    accept(7, "p4", [5])
    copy(8, 3, 40)
    journal.add(10, "move-closed", tp="t-0", outcome="done", reason="", replicas=[5], copied_bytes=70)
    accept(20, "p5", [6])
    journal.add(30, "move-closed", tp="t-0", outcome="done", reason="", replicas=[6], copied_bytes=80)
    moves = account_moves(read(spark, tmp_path / "j.jsonl", journal.lines)).orderBy("accepted_sequence")
    found = [tuple(row) for row in moves.select("plan_id", "copied_bytes").collect()]
    assert found == [("p1", 10), ("p2", None), ("p3", 20), ("p4", 40), ("p5", 80)]


def stories() -> dict[str, Rig]:
    """Executions of one move, each with its journal."""
    orders: dict[str, tuple[CommandKind, ...]] = {
        "under way": (),
        "done": (),
        "paused": (CommandKind.PAUSE,),
        "resumed": (CommandKind.PAUSE, CommandKind.RESUME),
        "paused and rolled back": (CommandKind.PAUSE, CommandKind.ROLL_BACK),
        "paused and stopped": (CommandKind.PAUSE, CommandKind.STOP),
        "left": (CommandKind.LEAVE,),
    }
    made: dict[str, Rig] = {}
    for name, given in orders.items():
        rig = made[name] = Rig(Yard({"t": [(1, 2, 3)]}))
        rig.submit(("t", 0, (4, 5, 3)))
        rig.settle(catching_up=False, rounds=12)
        for kind in given:
            rig.now_ms += 60_000
            rig.command(kind)
        if name not in ("under way", "paused"):
            rig.now_ms += 60_000
            rig.settle()
    return made


def told_by_the_page(rig: Rig) -> tuple[list[object], list[object]]:
    """Steps and pauses of the move's story."""
    of_move = [entry for entry in rig.journal if getattr(entry.record, "tp", None) == TopicPartition("t", 0)]
    shared = [entry for entry in rig.journal if getattr(entry.record, "tp", None) is None]
    story = tell_story(1, (1,), of_move, shared, None)
    finished = {"done": True, "dropped": False}
    steps = [
        (step.number, finished.get(step.state), step.begun_at_ms, step.ended_at_ms, step.reason)
        for step in story.steps
        if step.begun_at_ms is not None
    ]
    pauses = [(event.at_ms, event.until_ms) for event in story.events if event.kind == "paused"]
    return list(steps), [pause for pause in pauses if pause[1] is not None]


def test_the_account_and_the_page_tell_the_same_story(spark, tmp_path):
    rigs = stories()
    lines = [
        json.dumps({**json.loads(encode_line(entry).body), "cluster_id": "c1", "journal": name, "sequence": entry.sequence})
        for name, rig in rigs.items()
        for entry in rig.journal
    ]  # fmt: skip
    journal = read(spark, tmp_path / "j.jsonl", lines).cache()
    steps: dict[str, list[object]] = {name: [] for name in rigs}
    pauses: dict[str, list[object]] = {name: [] for name in rigs}
    begun, began, ended = (f"unix_millis({name}_at)" for name in ("begun", "began", "ended"))
    found = account_steps(journal).orderBy("begun_sequence")
    for name, *step in found.selectExpr("journal", "number", "finished", begun, ended, "reason").collect():
        steps[name].append(tuple(step))
    found = account_stalls(journal).where("cause = 'paused'").orderBy("began_at")
    for name, *pause in found.selectExpr("journal", began, ended).collect():
        pauses[name].append(tuple(pause))
    told = {name: told_by_the_page(rig) for name, rig in rigs.items()}
    assert steps == {name: page[0] for name, page in told.items()}
    assert pauses == {name: page[1] for name, page in told.items()}
    assert {name for name, found in pauses.items() if found} == {
        "resumed",
        "paused and rolled back",
        "paused and stopped",
    }
    endings = {name: [step[1] for step in found] for name, found in steps.items()}
    assert endings["under way"] == [None]
    assert endings["left"] == [False]
    assert False in endings["paused and rolled back"]
