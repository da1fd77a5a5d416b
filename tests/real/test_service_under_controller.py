"""The service beside Shunter's controllers: the active one, epoch, queue, lag, moves, before and after a failover."""

import pytest
from yard import HELD_BACK, Yard

from lab.demo.service_process import ServiceProcess
from lab.testbed.cluster import ZooKeeperCluster
from lab.testbed.controller import ShunterController
from lab.testbed.ports import free_port
from lab.testbed.waiting import wait_until

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(600),  # kafka-python leaves its socket to the garbage collector when a controller dies.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
POLICY = """
[cluster.yard]
bootstrap-server = "{bootstrap}"
journal = "moves.journal"
controllers = ["http://127.0.0.1:{first}", "http://127.0.0.1:{second}"]

[service]
look-seconds = 2
"""


@pytest.fixture
def ports():
    return {1000: free_port(), 1001: free_port()}


@pytest.fixture
def controllers(ports):
    """Both controllers, by id. Sessions are long, because a slow machine must not cause a failover."""
    return {}


@pytest.fixture
def yard(tmp_path, ports, controllers):
    """Two brokers, and two controllers that were started before them."""

    def start(cluster, stack):
        for broker_id, port in ports.items():
            options = ("--set", f"metrics-port={port}", "--set", "session-timeout-ms=15000", "--takeover", "preempt")
            found = ShunterController(
                tmp_path / str(broker_id), cluster.zookeeper_connect, broker_id=broker_id, options=options
            )
            if controllers:
                found.launch()  # It is a standby, so the test does not wait until it leads.
                stack.callback(found.stop)
            else:
                stack.enter_context(found)
            controllers[broker_id] = found

    with ZooKeeperCluster(
        tmp_path, broker_ids=(1, 2), before_brokers=start, properties=HELD_BACK, heap_mib=160
    ) as cluster:
        yield Yard(cluster, controllers[1000], tmp_path / "unused.toml")


def test_the_page_has_what_the_controllers_say_and_what_they_move(yard, controllers, ports, tmp_path):
    policy = POLICY.format(bootstrap=yard.bootstrap, first=ports[1000], second=ports[1001])
    service = ServiceProcess(tmp_path / "service", policy, "yard")
    try:
        service.start()

        def statuses():
            told = [each["status"] for each in service.ask("controllers")["controllers"]]
            return {each["broker_id"]: each for each in told if each is not None}

        def leader(of=(1000, 1001)):
            """The one controller that says it leads, if its id is among these. A slow machine may cause a failover."""
            active = [each for each in statuses().values() if each["active"]]
            return active[0] if len(active) == 1 and active[0]["broker_id"] in of else None

        def stands():
            found, others = leader(), [each for each in statuses().values() if not each["active"]]
            if found is None or len(others) != 1:
                return False
            told = f"standing by: broker {found['broker_id']} "
            return found["brokers"] == 2 and others[0]["ready"] and others[0]["told"][0].startswith(told)

        def moves_by_phase():
            found = leader()
            return found and found["moves"]

        wait_until(stands, what="one leads, and the other one stands by", timeout_s=90)
        moving = yard.create("orders", (1,), partitions=2)
        with yard.traffic(moving, records=60):
            yard.throttle("orders", 1_000)
            yard.move(moving, (2,))
            wait_until(lambda: moves_by_phase() == {"moving": 2}, what="both move", timeout_s=90)
            wait_until(lambda: len(service.ask("moves")["rows"]) == 2, what="the moves are listed", timeout_s=90)
            rows = service.ask("moves")["rows"]
            assert {(row["partition"], row["whose"], *row["target"]) for row in rows} == {
                ("orders-0", "external", 2),
                ("orders-1", "external", 2),
            }

            before = leader()
            assert before
            (other,) = {1000, 1001} - {before["broker_id"]}
            controllers[before["broker_id"]].kill()
            wait_until(lambda: leader(of=(other,)), what="the other one leads", timeout_s=120)
            gone = next(each for each in service.ask("controllers")["controllers"] if each["status"] is None)
            assert "does not answer" in gone["trouble"]
            after = leader()
            assert after
            assert after["controller_epoch"] > before["controller_epoch"]
            assert after["moves"] == {"moving": 2}, "it goes on with what it found"
            yard.throttle("orders", 0)
        yard.wait_moved(moving, (2,))
        wait_until(lambda: moves_by_phase() == {}, what="it moves nothing", timeout_s=60)
    finally:
        service.kill()
