"""Messages for operators when the controller can't start: what was tried, why it failed, what to check."""

import asyncio
import logging
import socket

import pytest
from rpc_world import RpcWorld

from shunter.drivers.listener.server import parse_listener
from shunter.drivers.zookeeper import reader as cluster_reader
from shunter.drivers.zookeeper.client import ZooKeeperClient
from shunter.drivers.zookeeper.reader import ClusterReader
from shunter.errors import DriverError


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
