"""A controller that can't take the seat names the obstacle."""

import urllib.error
import urllib.request

import pytest

from lab.testbed.controller import ShunterController
from lab.testbed.waiting import wait_until


def obstacle(yard, folder, broker_id):
    """The obstacle that a further controller with this id logs."""
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


def test_a_listener_that_no_broker_looks_for_is_told_before_it_is_needed(yard, tmp_path, free_port):
    """A standby that could never lead says so while another controller leads, and is not ready."""
    further = ShunterController(
        tmp_path,
        yard.cluster.zookeeper_connect,
        broker_id=1001,
        options=("--set", "listener=CLIENTS://127.0.0.1:0", "--set", f"metrics-port={free_port}"),
    )
    further.launch()
    told = "could not take over: brokers would not find us: inter.broker.listener.name is PLAINTEXT"
    try:
        wait_until(lambda: told in further.log_tail(), what="it says so", timeout_s=40)
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"http://127.0.0.1:{free_port}/ready", timeout=10)
        with refused.value as answer:
            assert answer.code == 503
            assert answer.read().decode().startswith(told)
    finally:
        further.stop()
    assert further.process.exit_status == 0
    assert "session expired" not in further.log_tail(), "a session that we end has not expired"
    assert "ZooKeeper session closed" in further.log_tail()
