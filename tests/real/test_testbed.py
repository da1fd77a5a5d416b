"""Real parts that do not start are told with their log, and none outlives its parent. All other tests show that they serve."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from lab.testbed import ports
from lab.testbed.cluster import ZooKeeperCluster
from lab.testbed.failures import PartFailed, PortStolen
from lab.testbed.waiting import wait_until
from lab.testbed.zookeeper import ZooKeeperServer

BOUND_S = 60.0


def has_ended(pid: int) -> bool:
    told = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return told.stdout.strip()[:1] in ("", "Z")


class TestZooKeeper:
    def test_a_setting_that_it_refuses_is_told_with_its_log(self, work_dir: Path) -> None:
        server = ZooKeeperServer(work_dir, properties={"tickTime": "often"})
        with pytest.raises(PartFailed, match=r'(?s)zookeeper ended with status 2.*NumberFormatException.*"often"'):
            server.start()
        assert not server.alive

    def test_a_port_taken_in_between_is_left_for_another(self, work_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with socket.create_server((ports.LOOPBACK, 0)) as thief:
            stolen = thief.getsockname()[1]
            named = iter([stolen])
            monkeypatch.setattr("lab.testbed.server.free_port", lambda: next(named, None) or ports.free_port())
            with ZooKeeperServer(work_dir) as server:
                assert server.port != stolen
            with pytest.raises(PortStolen):
                ZooKeeperServer(work_dir, port=stolen).start()

    def test_it_ends_with_a_parent_that_was_killed(self, work_dir: Path) -> None:
        script = (
            "import sys; from pathlib import Path; from lab.testbed.zookeeper import ZooKeeperServer\n"
            "server = ZooKeeperServer(Path(sys.argv[1])); server.start(); print(server.process.pid, flush=True)\n"
            "sys.stdin.read()"
        )
        command = [sys.executable, "-c", script, str(work_dir)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
            assert parent.stdout is not None
            pid = int(parent.stdout.readline())
            assert not has_ended(pid)
            os.kill(parent.pid, signal.SIGKILL)
            wait_until(lambda: has_ended(pid), what="the server has ended", timeout_s=BOUND_S)


def test_a_cluster_that_does_not_start_leaves_nothing_running(work_dir: Path) -> None:
    cluster = ZooKeeperCluster(work_dir, broker_ids=(1, 2), broker_properties={2: {"num.io.threads": 0}})
    with pytest.raises(PartFailed, match=r"(?s)broker-2 ended with status 1.*num\.io\.threads"):
        cluster.start()
    processes = [cluster.zookeeper.process, *(broker.process for broker in cluster.brokers.values())]
    assert not any(process.alive for process in processes)
