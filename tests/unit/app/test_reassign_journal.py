"""What is seen of a controller's moves becomes a journal that the pipeline accounts for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from shunter.app.executor.journal_export import as_json_lines
from shunter.app.reassign.journal import JournalLines, MoveFollower
from shunter.app.reassign.session import MoveUnderWay
from shunter.errors import FormatError
from shunter.model.partition import Replicas, TopicPartition

TP = TopicPartition("orders", 3)
SIZE = 100


def seen(*replicas: int, target: Replicas = (3, 4), phase: str = "moving") -> MoveUnderWay:
    return MoveUnderWay(TP, replicas, (), (), target, (1, 2), phase, "")


def told(*looks: MoveUnderWay | None, place: Replicas = (3, 4)) -> list[dict[str, Any]]:
    follower = MoveFollower()
    entries: list[dict[str, Any]] = []
    for row in looks:
        rows = [] if row is None else [row]
        entries += follower.look(rows, {TP: SIZE}, {} if rows else {TP: place})
    assert (len(follower) == 0) == (looks[-1] is None)
    return entries


def test_a_move_in_steps() -> None:
    entries = told(seen(1, 2), seen(1, 2, 3), seen(1, 2, 3), seen(1, 3, 4), None)
    assert [
        (entry["kind"], entry.get("before"), entry.get("after"), entry.get("copied_bytes")) for entry in entries
    ] == [
        ("move-accepted", None, None, None),
        ("step-begun", (1, 2), (1, 2, 3), None),
        ("step-finished", None, (1, 2, 3), SIZE),
        ("step-begun", (1, 2, 3), (1, 3, 4), None),
        ("step-finished", None, (1, 3, 4), SIZE),
        ("move-closed", None, (3, 4), 2 * SIZE),
    ]
    assert entries[0] == {
        "kind": "move-accepted", "tp": "orders-3", "original": (1, 2), "target": (3, 4), "size_bytes": SIZE,
    }  # fmt: skip
    assert [entry["number"] for entry in entries if "number" in entry] == [1, 1, 2, 2]


@pytest.mark.parametrize(
    ("place", "outcome"), [((3, 4), "done"), ((1, 2), "rolled_back"), ((1, 2, 3), "stopped"), ((), "gone")]
)
def test_how_a_move_ended_is_seen_by_where_it_is(place: Replicas, outcome: str) -> None:
    back = seen(1, 2, 3, target=(1, 2), phase="rolling_back")
    assert told(seen(1, 2, 3), back, None, place=place)[-1]["outcome"] == outcome


def test_a_pause_and_another_target_in_flight() -> None:
    entries = told(seen(1, 2, 3), seen(1, 2, 3, phase="paused"), seen(1, 2, 3, target=(5, 1)), None, place=(5, 1))
    kinds = [(entry["kind"], entry.get("paused", entry.get("outcome"))) for entry in entries]
    assert kinds == [
        ("move-accepted", None),
        ("step-begun", None),
        ("move-paused", True),
        ("step-finished", None),
        ("move-closed", "superseded"),
        ("move-accepted", None),
        ("step-begun", None),
        ("step-finished", None),
        ("move-closed", "done"),
    ]


def test_its_lines_are_what_an_account_reads_and_it_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "yard.jsonl"
    for at, plan_id in ((1_000, "p1"), (2_000, None)):
        lines = JournalLines(path, "c1", plan_id, at)
        lines.write(at + 5, told(seen(1, 2), None))
        lines.close()
    with as_json_lines([str(path)]) as read:
        assert read == (str(path),)
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    assert [entry["sequence"] for entry in entries] == list(range(1, len(entries) + 1))
    assert [entry["plan_id"] for entry in entries if entry["kind"] == "plan-accepted"] == ["p1", "yard-2000"]
    path.write_text("anything else\n")
    with pytest.raises(FormatError, match="its last line is not a journal entry"):
        JournalLines(path, "c1", None, 0)
