"""Scope disks from a snapshot: the facts of log dirs are those of every other scope."""

from __future__ import annotations

import json

import pytest

from shunter.app.planning.disks import plan_seen
from shunter.core.planning.request import PlanRefused
from shunter.model.inventory import BrokerDisks, Disk, DiskReplica, Inventory, InventoryBroker, InventoryPartition

A, B, FAILED = Disk("/a", 1_000, 900), Disk("/b", 1_000, 900), Disk("/c", None, None, failed=True)


def broker(number: int, *log_dirs: Disk, silent: bool | None = None) -> InventoryBroker:
    return InventoryBroker(number, "host", None, None, None, log_dirs=log_dirs or None, silent=silent)


HEAPED = tuple(DiskReplica("t", at, "/a", 100) for at in range(4))
SEEN = Inventory(
    "yard",
    0,
    (broker(1, A, B, FAILED), broker(2, A), broker(3, silent=True)),
    tuple(InventoryPartition("t", None, at, (2, 1), (2, 1), 2, 0, 1, 1, ()) for at in range(4)),
    ((1, "log dir /c failed"), (3, "it does not answer within 3 s")),
    (BrokerDisks(1, (A, B, FAILED), HEAPED),),
)


def test_each_fact_of_a_log_dir_is_told_and_obeyed() -> None:
    made = plan_seen(SEEN, (), (), 0.1, 0.2)
    rows = json.loads(made.reassignment)["partitions"]
    assert {tuple(row["log_dirs"]) for row in rows} == {("any", "/b")}
    assert len(rows) == 2
    assert made.plan.undone == (("broker 2 stays as it is", "it has no other log dir that works"),)
    failed, silent = made.notes
    assert failed.startswith("/c of broker 1 is left out: it failed")
    assert silent == "broker 3 did not report its log dirs: it does not answer within 3 s"


def test_a_broker_that_told_nothing_can_not_be_asked_for() -> None:
    with pytest.raises(PlanRefused, match="broker 3 reported no log dirs"):
        plan_seen(SEEN, (3,), (), 0.1, 0.2)
