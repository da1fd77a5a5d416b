"""Records of earlier and later versions of Shunter, in the middle of a move: read, or left alone and reported."""

import json
import uuid

import pytest

from lab.demo.proof import Leftovers
from lab.testbed.waiting import wait_until
from shunter.model.partition import ReplicaAssignment

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")]

SLOW_BYTES_PER_S = 300_000
TARGET = (4, 3, 2)
FIRST_FIELDS = {
    "version", "original", "target", "strategy", "phase", "written", "accepted_at_ms", "top", "legacy", "forced",
}  # fmt: skip
"""Fields of the record's first form."""


def path_of(tp):
    return f"/admin/reassignments/{tp.topic}/{tp.partition}"


def restart(yard, rewrite):
    """Restart the controller as if it had another version. `rewrite` changes the records while no controller leads."""
    yard.controller.kill()
    rewrite()
    yard.controller.start()
    wait_until(lambda: yard.moving() is not None, what="the controller answers again", timeout_s=40)


def moved(yard, partitions):
    leftovers = Leftovers(yard.cluster.zookeeper_connect)
    try:
        wanted = dict.fromkeys(partitions, ReplicaAssignment(TARGET))
        return wanted.items() <= leftovers.assignments([partitions[0].topic]).items()
    finally:
        leftovers.close()


def test_an_upgrade_and_a_downgrade_in_the_middle_of_a_move(yard, zk):
    partitions = yard.create(f"v-{uuid.uuid4().hex[:8]}", (1, 2, 3))
    newer, older, *_ = partitions
    records = {}

    def as_other_versions():
        for tp in (newer, older):
            records[tp] = zk.get(path_of(tp))[0]
        document = json.loads(records[newer])
        later = {**document, "version": 2, "written": [document["written"]], "pace": {"bytes_per_s": 5}}
        records["later"] = json.dumps(later).encode()
        zk.set(path_of(newer), records["later"])
        first = {name: value for name, value in json.loads(records[older]).items() if name in FIRST_FIELDS}
        zk.set(path_of(older), json.dumps(first).encode())

    with yard.traffic(partitions):
        yard.throttle(newer.topic, SLOW_BYTES_PER_S)
        yard.move(partitions, TARGET)
        wait_until(lambda: yard.moving() == set(partitions), what="the moves are under way", timeout_s=20)
        restart(yard, as_other_versions)
        told = f"{path_of(newer)}: version 2 is unknown; known are 1; it is left out"
        wait_until(lambda: told in yard.controller.log_tail(10_000), what="the record is told of", timeout_s=20)
        yard.throttle(newer.topic, None)
        wait_until(lambda: moved(yard, partitions[1:]), what="the others have moved", timeout_s=90)
        assert zk.get(path_of(newer))[0] == records["later"], "what is not understood stays as it is"
        restart(yard, lambda: zk.set(path_of(newer), records[newer]))
        yard.wait_moved(partitions, TARGET)
