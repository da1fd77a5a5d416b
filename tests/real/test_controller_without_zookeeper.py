"""A controller whose packets to ZooKeeper are dropped silently: its callers are answered, and it resigns in time."""

import socket
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from lab.testbed.controller import ShunterController
from lab.testbed.ports import free_port
from lab.testbed.waiting import wait_until
from lab.testbed.zookeeper import ZooKeeperServer

SESSION_S = 6
TIMEOUT_MS = 60_000
"""Longer than the session, so that the resignation is what answers."""
NOT_CONTROLLER = 41


class SilentPath:
    """A way to a server that drops everything while `cut` is set, and breaks no connection."""

    def __init__(self, target):
        self.port = free_port()
        self.cut = threading.Event()
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                one, _ = self._listener.accept()
            except OSError:
                return
            two = socket.create_connection(("127.0.0.1", self._target))
            for ends in ((one, two), (two, one)):
                threading.Thread(target=self._pump, args=ends, daemon=True).start()

    def _pump(self, source, target):
        try:
            while data := source.recv(65_536):
                if not self.cut.is_set():
                    target.sendall(data)
        except OSError:
            pass
        target.close()

    def close(self):
        self._listener.close()


def text(value):
    return struct.pack(">h", len(value)) + value.encode()


# By name: (API key, version, body, whether the header ends with tagged fields).
REQUESTS = {
    "CreateTopics": (
        19,
        4,
        struct.pack(">i", 1) + text("t") + struct.pack(">ihiii?", 1, 1, 0, 0, TIMEOUT_MS, False),
        0,
    ),
    "DeleteTopics": (20, 3, struct.pack(">i", 1) + text("t") + struct.pack(">i", TIMEOUT_MS), 0),
    "CreatePartitions": (37, 1, struct.pack(">i", 1) + text("t") + struct.pack(">iii?", 2, -1, TIMEOUT_MS, False), 0),
    "AlterUserScramCredentials": (51, 0, b"\x02\x02u\x01\x00\x01\x00", 1),
    "UpdateFeatures": (57, 0, struct.pack(">i", TIMEOUT_MS) + b"\x02\x02f" + struct.pack(">h?", 1, False) + b"\0\0", 1),
}


def asked(port, name):
    """Ask, and return the answer and after how many seconds it came."""
    api_key, version, body, flexible = REQUESTS[name]
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", port), timeout=4 * SESSION_S) as caller:
        request = struct.pack(">hhi", api_key, version, 7) + text("lab") + b"\0" * flexible + body
        caller.sendall(struct.pack(">i", len(request)) + request)
        answer = caller.recv(4096)
    return answer, time.monotonic() - began


@pytest.fixture
def cluster(tmp_path):
    """A controller behind a path that can be cut, and a standby that reaches ZooKeeper directly."""
    session = ("--set", f"session-timeout-ms={SESSION_S * 1000}")
    with ZooKeeperServer(tmp_path / "zookeeper") as server:
        path = SilentPath(server.port)
        try:
            with ShunterController(tmp_path / "old", f"127.0.0.1:{path.port}", options=session) as old:
                standby = ("--takeover", "standby")
                new = ShunterController(
                    tmp_path / "new", server.connect_string, broker_id=1001, options=(*session, *standby)
                )
                new.launch()
                try:
                    wait_until(lambda: "standing by" in new.log_tail(), what="a standby", timeout_s=30)
                    yield path, old, new
                finally:
                    path.cut.clear()
                    new.stop()
        finally:
            path.close()


def test_its_callers_are_answered_and_no_two_controllers_lead(cluster):
    """Nobody waits for ZooKeeper beyond the resignation, and that comes before ZooKeeper lets another be elected."""
    path, old, new = cluster
    path.cut.set()
    cut_s = time.monotonic()
    with ThreadPoolExecutor(len(REQUESTS)) as callers:
        answers = {name: callers.submit(asked, old.port, name) for name in REQUESTS}
        wait_until(lambda: "resigned: controller" in old.log_tail(200), what="the old one resigns", timeout_s=60)
        resigned_s = time.monotonic()
        assert resigned_s - cut_s < SESSION_S + 1
        assert "elected: controller epoch" not in new.log_tail(200), "the old one resigned first"
        for name, answer in answers.items():
            found, seconds = answer.result(timeout=2 * SESSION_S)
            assert struct.pack(">h", NOT_CONTROLLER) in found, (name, found)
            assert seconds < SESSION_S + 2, name
    wait_until(lambda: "elected: controller epoch" in new.log_tail(200), what="the standby leads", timeout_s=60)
    assert time.monotonic() - resigned_s < SESSION_S
