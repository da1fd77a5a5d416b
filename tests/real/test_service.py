"""A controller as systemd runs it: it notifies systemd when it serves, that it is alive, and that it stops."""

import os
import signal
import socket
import time
import urllib.request
from pathlib import Path

import pytest

from lab.testbed.controller import ShunterController
from lab.testbed.waiting import wait_until


@pytest.fixture
def manager(tmp_path, monkeypatch):
    """A socket like systemd's, and the variables that systemd sets in the environment."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.settimeout(60)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.setenv("WATCHDOG_USEC", "900000")
        yield listening


def heard(manager, wanted):
    """All notifications up to a line that begins so, within a minute."""
    told = []
    ends = time.monotonic() + 60
    while not any(line.startswith(wanted) for line in told):
        assert time.monotonic() < ends, told
        told += manager.recv(4_096).decode().splitlines()
    return told


def read_off(manager):
    manager.settimeout(0)
    try:
        while manager.recv(4_096):
            pass
    except BlockingIOError:
        pass


def frozen(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def test_the_service_manager_hears_of_ready_alive_and_stopping(corner, manager, tmp_path, free_port):
    controller = ShunterController(tmp_path / "controller", corner[0], options=("--set", f"metrics-port={free_port}"))
    controller.launch()
    try:
        told = heard(manager, "STATUS=in charge: controller epoch 1")
        assert told[0].startswith("EXTEND_TIMEOUT_USEC=")
        assert told.count("READY=1") == 1
        assert "WATCHDOG=1" in heard(manager, "WATCHDOG=1")
        with urllib.request.urlopen(f"http://127.0.0.1:{free_port}/health", timeout=10) as answer:
            assert answer.read() == b"alive\n"

        pid = controller.process.pid
        os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: frozen(pid), what="it is frozen", timeout_s=20)
        read_off(manager)
        manager.settimeout(2)
        with pytest.raises(TimeoutError):
            manager.recv(4_096)
        os.kill(pid, signal.SIGCONT)
        manager.settimeout(60)
        heard(manager, "WATCHDOG=1")

        os.kill(pid, signal.SIGTERM)
        heard(manager, "STOPPING=1")
        wait_until(lambda: not controller.alive, what="it ended", timeout_s=20)
        assert controller.process.exit_status == 0
    finally:
        controller.stop()
