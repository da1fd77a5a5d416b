"""A service over its socket: commands of the same host read and order, and a second service stands by."""

from __future__ import annotations

import asyncio
import errno
import getpass
import socket
import sqlite3
import stat
import subprocess
import sys
from contextlib import AsyncExitStack, closing
from pathlib import Path

import orjson
import pytest
from service_orders import order
from service_world import Clock, Yard, policy

from shunter.app.access.audit_log import AuditLog
from shunter.app.evaluation.policy import read_service_file
from shunter.app.service import client as service_client
from shunter.app.service.client import SOCKET, ServiceClient, ServiceServer
from shunter.app.service.service import STORE, Thinkers, open_service, processes, take_seat
from shunter.app.service.thinking import PIECE, LookQuestion, Wish, packed, unpacked
from shunter.drivers.host import http_client
from shunter.drivers.service.store import ServiceStore
from shunter.errors import DriverError
from shunter.model.keeper import Mode
from shunter.model.service import IntentKind, OrderKind, OrderRefused, Refusal, ServiceOrder, Signature
from shunter.web.port.listening import listen_in
from shunter.web.server import serving

FILE = '[cluster.away]\nbootstrap-server = "127.0.0.1:1"\n'


def test_a_folder_whose_path_is_too_long_for_a_socket_is_told_with_the_rule(tmp_path: Path) -> None:
    with (
        pytest.raises(DriverError, match="a socket's path has at most 107 bytes: name a shorter --state-dir"),
        listen_in(tmp_path / ("x" * 100) / SOCKET),
    ):
        pass


async def asked(path: Path, *head: str) -> bytes:
    """The first line of the answer at a socket to a request with these headers."""
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write("\r\n".join(["GET /api/v1/session HTTP/1.1", "Host: localhost", *head, "", ""]).encode())
    line = await reader.readline()
    writer.close()
    return line


async def test_what_is_asked_at_the_socket(tmp_path: Path) -> None:
    (tmp_path / "k.toml").write_text(FILE)
    file = read_service_file(tmp_path / "k.toml")
    door, me = tmp_path / SOCKET, getpass.getuser()
    client = ServiceClient(ServiceServer(door))
    with pytest.raises(DriverError, match="no service serves at"):
        client.fleet()
    audit = AuditLog(tmp_path / "audit.log")
    async with (
        open_service(file, tmp_path) as (service, front),
        serving(front, None, audit, door=door),
        AsyncExitStack() as stack,
    ):
        stack.callback(audit.close)
        service.keepers["away"].topic_of_words = None  # Its cluster never answers, so it could not take any words.
        assert stat.S_IMODE(door.stat().st_mode) == 0o600
        fleet = await asyncio.to_thread(client.fleet)
        assert [row["name"] for row in fleet["clusters"]] == ["away"]
        drain = order(IntentKind.DRAIN, "3", cluster="away")
        done = await asyncio.to_thread(client.order, drain, "old disks", "k1")
        assert await asyncio.to_thread(client.order, drain, "old disks", "k1") == done
        (intent,) = service.keepers["away"].intents
        assert (intent.about, intent.who, intent.comment) == ("3", me, "old disks")
        line = orjson.loads((tmp_path / "audit.log").read_bytes().splitlines()[0])
        assert [line[each] for each in ("who", "by", "peer", "verb")] == [me, "socket", "this host", "intend"]
        with pytest.raises(OrderRefused, match="no cluster 'prod'") as refused:
            await asyncio.to_thread(list, client.moves("prod"))
        assert refused.value.refusal is Refusal.NOT_FOUND
        with pytest.raises(DriverError, match="can't be asked: str is not valid UTF-8"):
            await asyncio.to_thread(client.order, drain, "\udcff", "k2")
        told = await asyncio.to_thread(client.timeline, "away", 10)
        assert [event["kind"] for event in told["events"]] == ["intend"]
        assert b" 200 " in await asked(door)
        # A proxy would give the rights of its own user to everybody who reaches it.
        for header in ("X-Forwarded-For: 10.0.0.1", "Origin: http://localhost", "Authorization: Bearer x"):
            assert b" 403 " in await asked(door, header), header
    assert not door.exists()


async def test_a_socket_of_another_user_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Locked(socket.socket):
        def connect(self, address: object) -> None:
            raise PermissionError(errno.EACCES, f"Permission denied: {address}")

    monkeypatch.setattr(http_client.socket, "socket", Locked)
    with pytest.raises(DriverError, match="the service belongs to another user") as refused:
        ServiceClient(ServiceServer(tmp_path / SOCKET)).order(ServiceOrder(OrderKind.PAUSE), "", "k")
    assert not refused.value.retriable


async def test_a_damaged_store_is_told_and_nothing_is_driven_or_ordered(tmp_path: Path) -> None:
    (tmp_path / "k.toml").write_text(FILE)
    (tmp_path / STORE).write_bytes(b"this is no database " * 1000)
    async with open_service(read_service_file(tmp_path / "k.toml"), tmp_path) as (service, front):
        assert "is no store of the service" in front.fleet().store_trouble
        assert front.fleet().store_trouble.count("move it away") == 1
        assert service.records.lost
        with pytest.raises(OrderRefused) as refused:
            await service.desk.carry_out(order(IntentKind.DRAIN, "3", cluster="away"), Signature("anna"))
        assert refused.value.refusal is Refusal.STORE
        running = asyncio.create_task(service.run())
        async with asyncio.timeout(30):
            while front.cluster("away").row.situation.state != "unreachable":
                await front.news(front.version, 5)
        assert service.keepers["away"].known.idle_why == "", "nobody tried to drive it"
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_second_service_waits_for_the_seat(tmp_path: Path) -> None:
    told: list[str] = []
    first = await take_seat(tmp_path, told.append)
    second = asyncio.create_task(take_seat(tmp_path, told.append))
    async with asyncio.timeout(30):
        while not told:  # noqa: ASYNC110 - turns of the loop
            await asyncio.sleep(0)
        assert "this process stands by" in told[0]
        first.leave()
        (await second).leave()


def test_a_question_arrives_as_it_was_asked() -> None:
    sighting = Yard(Clock(), rows=[(1, 2)] * (PIECE + 1)).sight()
    wish = Wish("yard", sighting, policy(), order(OrderKind.PROPOSE, "drain", "3"), "anna")
    gone = packed(wish)
    assert len(gone.partitions) == 2
    arrived = unpacked(gone)
    assert arrived.sighting.inventory == sighting.inventory
    assert isinstance(arrived, Wish)
    assert (arrived.order, arrived.policy) == (wish.order, wish.policy)


def test_the_process_that_plans_ends_with_a_service_that_is_killed() -> None:
    """Found by hand: after SIGKILL of the service its children lived on."""
    program = (
        "import os, sys\nfrom shunter.app.service.service import processes\n"
        "if __name__ == '__main__':\n    pool = processes()\n    print(pool.submit(os.getpid).result(), flush=True)\n"
        "    sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as service:
        assert service.stdout is not None
        assert int(service.stdout.readline()) != service.pid
        service.kill()
        assert service.communicate(timeout=30)[0] == "", "whoever inherited its standard output has ended"


async def test_errors_come_back_from_the_process_that_plans(tmp_path: Path) -> None:
    thinkers = Thinkers(processes)
    try:
        sighting = Yard(Clock()).sight()
        wish = Wish("yard", sighting, policy(), order(OrderKind.PROPOSE, "drain", "9"), "anna")
        for _ in range(2):
            with pytest.raises(OrderRefused, match="there is no broker 9") as refused:
                await thinkers.sketch(wish)
            assert refused.value.refusal is Refusal.NOT_FOUND
        asked = order(OrderKind.PROPOSE, "drain", "2")
        made = await thinkers.sketch(Wish("yard", sighting, policy(Mode.NOTIFY), asked, "anna"))
        assert made.moves == 6
        question = LookQuestion("yard", sighting, policy(), None, (), {})
        assert (await thinkers.think(question)).page.row.name == "yard"
    finally:
        thinkers.close()


async def test_a_proposal_that_can_not_be_read_is_a_damaged_store(tmp_path: Path) -> None:
    (tmp_path / "k.toml").write_text(FILE)
    with closing(ServiceStore(tmp_path / STORE)):
        pass
    with closing(sqlite3.connect(tmp_path / STORE)) as raw:
        raw.execute("INSERT INTO proposals VALUES ('rebalance-1', 'away', 'approved', 1, 1, '{}')")
        raw.commit()
    async with open_service(read_service_file(tmp_path / "k.toml"), tmp_path) as (service, front):
        assert service.records.lost
        assert "is no proposal" in front.fleet().store_trouble


def test_an_order_to_be_given_again_names_the_key_that_was_made_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_given: object) -> None:
        raise OrderRefused(Refusal.UNREACHABLE, "prod: the executor ended: ask again with the same key")

    monkeypatch.setattr(service_client, "call_service", refuse)
    with pytest.raises(OrderRefused, match="ask again with --key made-1"):
        ServiceClient(ServiceServer(Path("s"))).order(ServiceOrder(OrderKind.PAUSE, "prod"), "", "made-1")
