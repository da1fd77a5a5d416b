"""Work that crashed a controller is not tried again at once: a real process with a deliberate bug, and ZooKeeper."""

import json
from pathlib import Path

import pytest

from lab.testbed.controller import ShunterController
from lab.testbed.waiting import wait_until

CRASHES = "/admin/shunter/crashes"
FINE = "/brokers/topics/fine/partitions/0/state"


class PoisonedController(ShunterController):
    """Runs `poisoned_controller.py`."""

    def _prepare(self, port):
        python, _, _, *arguments = super()._prepare(port)
        return [python, str(Path(__file__).with_name("poisoned_controller.py")), *arguments]


@pytest.fixture
def place(corner):
    """A client of a cluster with two topics whose only broker does not exist."""
    _, client = corner
    for topic in ("fine", "poison"):
        text = {"version": 1, "partitions": {"0": [1]}}
        client.create(f"/brokers/topics/{topic}", json.dumps(text).encode(), makepath=True)
    led = {"version": 1, "controller_epoch": 0, "leader": 1, "leader_epoch": 0, "isr": [1]}
    client.create(FINE, json.dumps(led).encode(), makepath=True)
    return client


def crashes(client):
    return json.loads(client.get(CRASHES)[0])["crashes"]


def leader_of_fine(client):
    return json.loads(client.get(FINE)[0])["leader"]


def test_the_next_controller_leaves_what_ended_the_last_one_alone(corner, place, tmp_path):
    controller = PoisonedController(tmp_path / "controller", corner[0])
    try:
        controller.launch()
        wait_until(lambda: not controller.alive, what="the bug ended it", timeout_s=60)
        assert controller.process.exit_status == 70
        (crash,) = crashes(place)
        assert crash["suspects"] == [{"kind": "partition", "name": "poison-0"}]
        assert (crash["times"], crash["until_ms"] - crash["at_ms"]) == (1, 60_000)
        assert "a deliberate bug" in crash["error"]

        controller.launch()
        wait_until(lambda: leader_of_fine(place) == -1, what="it decides about the other topic", timeout_s=60)
        told = controller.log_tail(10_000)
        assert "Set aside for" in told
        assert "partition poison-0" in told
        assert controller.alive
        controller.stop()
        assert controller.process.exit_status == 0

        # After its time the work is tried again, and set aside for twice as long.
        text = {"version": 1, "crashes": [{**crash, "until_ms": crash["at_ms"]}]}
        place.set(CRASHES, json.dumps(text).encode())
        controller.launch()
        wait_until(lambda: not controller.alive, what="the bug ended it again", timeout_s=60)
        (crash,) = crashes(place)
        assert (crash["times"], crash["until_ms"] - crash["at_ms"]) == (2, 120_000)
    finally:
        controller.stop()


def test_a_record_of_a_newer_version_is_left_alone(corner, place, tmp_path):
    newer = json.dumps({"version": 2, "crashes": "in another form"}).encode()
    place.create(CRASHES, newer, makepath=True)
    controller = PoisonedController(tmp_path / "controller", corner[0])
    try:
        controller.launch()
        wait_until(lambda: not controller.alive, what="the bug ended it", timeout_s=60)
        assert place.get(CRASHES)[0] == newer
        assert "nothing is set aside: /admin/shunter/crashes: version 2 is unknown" in controller.log_tail(10_000)
    finally:
        controller.stop()
