"""An account of moves from a journal: bytes, seconds, stalls with their causes, rates, and the plan's own word."""

import json

import pytest

from shunter.pipeline.account import moves_of, plans_of, rates_of, read_journals, stalls_of, steps_of
from shunter.pipeline.account_schemas import PLAN_LOADS, SCHEDULES

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
    found = {row["partition"]: row for row in moves_of(journal).collect()}
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
    found = {(row["partition"], row["cause"], row["seconds"]) for row in stalls_of(journal).collect()}
    assert found == {
        (0, "waiting for its turn", 5.0),
        (0, "between steps", 4.0),
        (1, "waiting for its turn", 30.0),
        (1, "paused", 10.0),
        (1, "step dropped: broker 3 died", 9.0),
    }


def test_steps_and_the_rates_between_brokers(journal):
    steps = steps_of(journal)
    found = [(row["partition"], row["number"], row["source"], row["added"], row["removed"], row["finished"], row["seconds"], row["copied_bytes"]) for row in steps.orderBy("begun_sequence").collect()]  # fmt: skip
    assert found == [
        (0, 1, 1, [3], [], True, 20.0, 1000),
        (0, 2, 1, [], [1], True, 1.0, None),
        (1, 1, 1, [3], [], False, 21.0, None),
    ]
    rates = rates_of(steps).collect()
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
    ended = moves_of(journal).where("partition < 2")
    plan = plans_of(ended, schedules, loads).collect()[0]
    assert (plan["moves"], plan["done"], plan["seconds"], plan["planned_seconds"]) == (2, 1, 60.0, 45.0)
    assert plan["eta_error"] == pytest.approx(-0.25)
    assert plan["imbalance_removed"] == 10.0
    assert plan["bytes_per_imbalance"] == 120.0
    running = plans_of(moves_of(journal), schedules, loads).collect()[0]
    assert (running["moves"], running["seconds"], running["eta_error"]) == (3, None, None)
