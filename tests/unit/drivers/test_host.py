"""The host of a process: other processes, systemd, the cache, and messages for operators."""

import asyncio
import logging
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from shutil import which

import pytest
from rpc_world import RpcWorld

from shunter.drivers.host.cache import cache_folder
from shunter.drivers.host.process_identity import is_alive_here, is_dead, is_stopped, this_process
from shunter.drivers.host.service_manager import ServiceManager
from shunter.drivers.listener.server import parse_listener
from shunter.drivers.zookeeper import reader as cluster_reader
from shunter.drivers.zookeeper.client import ZooKeeperClient
from shunter.drivers.zookeeper.reader import ClusterReader
from shunter.errors import DriverError

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems have no /proc")
PID = 4711
UNITS = Path(__file__).parents[3] / "packaging" / "systemd"


def test_we_live():
    assert not is_dead(this_process())


def test_nobody_is_called_alive_who_is_elsewhere_or_somebody_else():
    us = this_process()
    assert is_alive_here(us)
    for changed in (
        {"boot_id": "elsewhere"},
        {"pid_namespace": "elsewhere"},
        {"started": 1},
        {"pid": 0},
        {"pid": 1 << 70},
    ):
        assert not is_alive_here(us._replace(**changed)), changed


@pytest.mark.parametrize(("state", "stopped"), [("T", True), ("t", True), ("S", False), ("D", False), ("Z", None)])
def test_who_is_stopped_is_told_by_proc(tmp_path, state, stopped):
    us = this_process()
    for name, text in (
        ("sys/kernel/random/boot_id", us.boot_id),
        (f"{us.pid}/stat", f"7 (a) b) {state} {'0 ' * 18}{us.started}"),
    ):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "self/ns").mkdir(parents=True)
    (tmp_path / "self/ns/pid").symlink_to(us.pid_namespace)
    assert is_stopped(us, tmp_path) is stopped
    assert is_stopped(us._replace(started=1), tmp_path) is None
    assert is_stopped(us) is False


def test_a_process_that_ended_is_dead():
    told = subprocess.run(
        [
            sys.executable,
            "-c",
            "from shunter.drivers.host.process_identity import this_process; print(*this_process(), sep='\\n')",
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    ended = type(this_process())(told[0], told[1], int(told[2]), int(told[3]))
    assert ended[:2] == this_process()[:2]
    assert is_dead(ended)


def test_another_process_with_our_pid_but_another_start_was_somebody_else():
    assert is_dead(this_process()._replace(started=1))


@pytest.mark.parametrize("field", ["boot_id", "pid_namespace"])
def test_nobody_knows_about_processes_elsewhere(field):
    assert not is_dead(this_process()._replace(started=1, **{field: "elsewhere"}))


def test_a_process_that_proc_hides_is_not_taken_for_dead(tmp_path):
    """Mounted with `hidepid=2`, `/proc` has no folder for another user's process, even though it runs."""
    for shown in ("sys/kernel/random/boot_id", "self/ns/pid"):
        (tmp_path / shown).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "sys/kernel/random/boot_id").write_text(Path("/proc/sys/kernel/random/boot_id").read_text())
    (tmp_path / "self/ns/pid").symlink_to(Path("/proc/self/ns/pid").readlink())
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as hidden:
        process = this_process()._replace(pid=hidden.pid)
        assert not is_dead(process, tmp_path)
        hidden.communicate(b"\n")
    assert is_dead(process, tmp_path), "with hidepid too, a process that has ended is known to be dead"


@pytest.mark.parametrize("pid", [0, -1, 1 << 70])
def test_a_number_that_is_no_pid_proves_nothing(pid):
    assert not is_dead(this_process()._replace(pid=pid))


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
    ("name", "kind"),
    [
        ("shunter-controller.service", "notify"),
        ("shunter-serve.service", "exec"),
        ("shunter-collect.service", "oneshot"),
    ],
)
def test_systemd_finds_nothing_wrong_with_the_unit(name: str, kind: str, tmp_path: Path) -> None:
    text = (UNITS / name).read_text()
    assert f"Type={kind}" in text
    installed = tmp_path / name
    installed.write_text(text.replace("/opt/shunter/bin/shunter", "/bin/true"))
    verified = subprocess.run(["systemd-analyze", "verify", installed], capture_output=True, text=True, check=False)
    assert (verified.returncode, verified.stdout, verified.stderr) == (0, "", "")


@pytest.mark.skipif(which("systemd-analyze") is None, reason="systemd is not here")
def test_systemd_finds_nothing_wrong_with_the_timer(tmp_path: Path) -> None:
    for path in UNITS.glob("shunter-collect.*"):
        (tmp_path / path.name).write_text(path.read_text().replace("/opt/shunter/bin/shunter", "/bin/true"))
    timer = tmp_path / "shunter-collect.timer"
    verified = subprocess.run(["systemd-analyze", "verify", timer], capture_output=True, text=True, check=False)
    assert (verified.returncode, verified.stdout, verified.stderr) == (0, "", "")


@pytest.fixture
def taken_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


async def test_a_port_in_use_is_named_with_the_way_out(taken_port):
    server = RpcWorld().server
    with pytest.raises(
        DriverError, match=f"PLAINTEXT://127.0.0.1:{taken_port} can't be opened: another process"
    ) as told:
        await server.listen([parse_listener(f"PLAINTEXT://127.0.0.1:{taken_port}")])
    assert "--listener" in str(told.value)


async def test_an_address_that_is_not_ours_is_named():
    server = RpcWorld().server
    with pytest.raises(DriverError, match=r"192\.0\.2\.1:\d+ can't be opened: no network interface of this machine"):
        await server.listen([parse_listener("PLAINTEXT://192.0.2.1:9092")])


async def test_an_unreachable_zookeeper_is_named_with_what_to_check(free_port, caplog):
    caplog.set_level(logging.INFO)
    address = f"127.0.0.1:{free_port}/kafka"
    with pytest.raises(DriverError) as told:
        await ZooKeeperClient(address).start(timeout_seconds=2.5)
    assert str(told.value) == (
        f"no ZooKeeper server answered at {address} within 2.5 s (127.0.0.1:{free_port}: Connection refused); "
        "check the address (--zookeeper), that ZooKeeper runs there, and that no firewall is in between"
    )
    assert f"waiting for ZooKeeper at {address}, 2.5 s at the most" in caplog.text


class SlowZooKeeper(logging.Handler):
    """Lists 1,000 topics of which none exists; answers only after a log line about the progress."""

    def __init__(self):
        super().__init__()
        self.told = []
        self._progress_told = asyncio.Event()

    def emit(self, record):
        self.told.append(record.getMessage())
        self._progress_told.set()

    async def children(self, path, *, watch=False):
        return (tuple(f"t{number}" for number in range(1_000)), None) if path == "/brokers/topics" else None

    async def get(self, path, *, watch=False):
        return None

    async def get_many(self, paths):
        if len(paths) > 100:
            await self._progress_told.wait()
        return [None] * len(paths), 1


async def test_a_long_read_tells_how_far_it_is(monkeypatch):
    monkeypatch.setattr(cluster_reader, "TELL_EVERY_S", 0.05)
    slow = SlowZooKeeper()
    monkeypatch.setattr(cluster_reader.logger, "level", logging.INFO)
    cluster_reader.logger.addHandler(slow)
    try:
        found = await ClusterReader(slow).cluster()
    finally:
        cluster_reader.logger.removeHandler(slow)
    assert found.snapshot.topics == ()
    assert slow.told[0].startswith("reading the cluster: 0 of 1000 topics after")


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"SHUNTER_CACHE": "/own", "XDG_CACHE_HOME": "/shared"}, Path("/own")),
        ({"SHUNTER_CACHE": "~/own"}, Path.home() / "own"),
        ({"XDG_CACHE_HOME": "/shared"}, Path("/shared/shunter")),
        ({"XDG_CACHE_HOME": "not/absolute"}, Path.home() / ".cache/shunter"),
        ({"XDG_CACHE_HOME": "", "SHUNTER_CACHE": ""}, Path.home() / ".cache/shunter"),
    ],
)
def test_the_cache_is_where_the_environment_says(environment: dict[str, str], expected: Path) -> None:
    assert cache_folder(environment) == expected
