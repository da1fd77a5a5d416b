"""Notifications to systemd, on a real UNIX socket."""

from __future__ import annotations

import asyncio
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from shutil import which

import pytest

from shunter.drivers.host.service_manager import ServiceManager

PID = 4711
UNITS = Path(__file__).parents[3] / "packaging" / "systemd"


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    """The socket that systemd would listen on."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.settimeout(20)
        yield listening


def environment(manager: socket.socket, **others: str) -> dict[str, str]:
    return {"NOTIFY_SOCKET": manager.getsockname(), **others}


async def heard(manager: socket.socket) -> list[str]:
    """Return the next datagram; the loop runs meanwhile."""
    return (await asyncio.to_thread(manager.recv, 4_096)).decode().splitlines()


async def test_it_is_ready_once_it_serves_and_then_alive_with_every_turn(manager: socket.socket) -> None:
    states = [(True, ("standing by: broker 1 is the controller",)), (False, ("standing",))]
    service = ServiceManager(environment(manager, WATCHDOG_USEC="30000"), PID, lambda: states[-1])
    service.start()
    assert await heard(manager) == ["EXTEND_TIMEOUT_USEC=30000000", "STATUS=not ready: standing", "WATCHDOG=1"]
    assert await heard(manager) == ["EXTEND_TIMEOUT_USEC=30000000", "WATCHDOG=1"]
    states.pop()
    while (told := await heard(manager)) == ["EXTEND_TIMEOUT_USEC=30000000", "WATCHDOG=1"]:
        pass
    assert told == ["READY=1", "STATUS=standing by: broker 1 is the controller", "WATCHDOG=1"]
    assert await heard(manager) == ["WATCHDOG=1"]
    service.stop()
    while (told := await heard(manager)) == ["WATCHDOG=1"]:
        pass
    assert told == ["STOPPING=1"]
    service.close()


async def test_a_loop_that_hangs_says_nothing(manager: socket.socket) -> None:
    service = ServiceManager(environment(manager, WATCHDOG_USEC="30000"), PID, lambda: (True, ()))
    service.start()
    assert "WATCHDOG=1" in await heard(manager)
    manager.settimeout(0)
    while True:  # Datagrams sent before are dropped; the loop does not run in here.
        try:
            manager.recv(4_096)
        except BlockingIOError:
            break
    manager.settimeout(0.5)
    with pytest.raises(TimeoutError):
        manager.recv(4_096)
    manager.settimeout(20)
    assert await heard(manager) == ["WATCHDOG=1"]
    service.close()


async def test_a_watchdog_of_another_process_is_not_served(manager: socket.socket) -> None:
    asked = environment(manager, WATCHDOG_USEC="30000", WATCHDOG_PID="1")
    service = ServiceManager(asked, PID, lambda: (True, ("in charge",)))
    service.start()
    assert await heard(manager) == ["READY=1", "STATUS=in charge"]
    service.close()


async def test_what_could_not_be_told_is_told_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    address = str(tmp_path / "notify")
    asked = {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "30000"}
    service = ServiceManager(asked, PID, lambda: (True, ("in charge",)))
    service.start()
    assert [record.getMessage() for record in caplog.records] == [
        f"the service manager at NOTIFY_SOCKET={address} can't be told: [Errno 2] No such file or directory"
    ]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(address)
        listening.settimeout(20)
        assert await heard(listening) == ["READY=1", "STATUS=in charge", "WATCHDOG=1"]
    service.close()


async def test_an_abstract_socket_and_none_at_all() -> None:
    nobody = ServiceManager({}, PID, lambda: (True, ()))
    nobody.start()
    nobody.stop()
    nobody.close()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind("")  # The kernel gives it an abstract name.
        listening.settimeout(20)
        name = "@" + listening.getsockname()[1:].decode()
        service = ServiceManager({"NOTIFY_SOCKET": name}, PID, lambda: (True, ("in charge",)))
        service.start()
        assert await heard(listening) == ["READY=1", "STATUS=in charge"]
        service.close()


@pytest.mark.skipif(which("systemd-analyze") is None, reason="systemd is not here")
@pytest.mark.parametrize(
    ("name", "kind"), [("shunter-controller.service", "notify"), ("shunter-serve.service", "exec")]
)
def test_systemd_finds_nothing_wrong_with_the_unit(name: str, kind: str, tmp_path: Path) -> None:
    text = (UNITS / name).read_text()
    assert f"Type={kind}" in text
    installed = tmp_path / name
    installed.write_text(text.replace("/opt/shunter/bin/shunter", "/bin/true"))
    verified = subprocess.run(["systemd-analyze", "verify", installed], capture_output=True, text=True, check=False)
    assert (verified.returncode, verified.stdout, verified.stderr) == (0, "", "")
