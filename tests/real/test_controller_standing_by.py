"""A controller that can't have the seat says who is in the way."""

import pytest

from shunter.testbed.controller import ShunterController
from shunter.testbed.waiting import wait_until

pytestmark = pytest.mark.real


def obstacle(yard, folder, broker_id):
    """What a further controller with this id says that it waits for."""
    further = ShunterController(folder, yard.cluster.zookeeper_connect, broker_id=broker_id)
    further.launch()
    try:
        wait_until(lambda: "standing by: " in further.log_tail(), what="it says what is in the way", timeout_s=40)
        return further.log_tail().split("standing by: ")[1].splitlines()[0]
    finally:
        further.stop()
        assert further.process.exit_status == 0


def test_the_id_of_a_live_broker(yard, tmp_path):
    told = obstacle(yard, tmp_path, 1)
    assert told.startswith(
        f"broker id 1 is taken by the broker at 127.0.0.1:{yard.cluster.brokers[1].port} (session 0x"
    )
    assert told.endswith("give us another --broker-id")


def test_the_id_of_a_controller_that_lives(yard, tmp_path):
    told = obstacle(yard, tmp_path, yard.controller.broker_id)
    pid = yard.controller.process.pid
    assert told.startswith(f"the Shunter process {pid} is the controller with our broker id 1000 (session 0x")


def test_another_controller(yard, tmp_path):
    assert obstacle(yard, tmp_path, 1001) == f"broker {yard.controller.broker_id} is the controller"
