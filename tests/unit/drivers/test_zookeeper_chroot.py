"""A client with a chroot on the simulation's ZooKeeper: what `ensure` creates, and what other tasks do meanwhile."""

from __future__ import annotations

import asyncio

import pytest

from lab.simulation.event_loop import ProcessLoop
from lab.simulation.network import Delays
from lab.simulation.scheduler import SECOND, Scheduler
from lab.simulation.zookeeper.session import SimulatedKazoo
from lab.simulation.zookeeper.tree import Transaction, ZooKeeperTree
from shunter.drivers.zookeeper.client import WatchEvent, WatchKind, ZooKeeperClient
from shunter.drivers.zookeeper.requests import Create, Put
from shunter.formats.znodes import paths as znodes

CHROOT = "/yards/east"
OURS, FOREIGN = b"ours", b"foreign"


class Place:
    """A ZooKeeper with a foreign cluster at its root, and a client whose cluster is below the chroot."""

    def __init__(self) -> None:
        self.scheduler = Scheduler(1)
        self.tree = ZooKeeperTree(lambda _: None)
        self.operator = self.tree.open_session()
        self.loop = ProcessLoop(self.scheduler, "client", self._failed)
        self.client = ZooKeeperClient(f"simulated{CHROOT}", kazoo_client=self._make_kazoo)
        self.act(Create("/controller", FOREIGN))
        self.run(self.client.start())
        self.run(self.client.create_if_absent("/controller", OURS))

    def _make_kazoo(self, **_: object) -> SimulatedKazoo:
        return SimulatedKazoo(
            self.scheduler, self.tree, self.loop, Delays(), 9 * SECOND, lambda _: None, lambda *_: None
        )

    def _failed(self, name, failure):
        raise AssertionError(name) from failure

    def act(self, *operations):
        assert isinstance(self.tree.commit(operations, self.operator), Transaction)

    def run(self, work):
        """Run a coroutine in the process until nothing more happens; return its result."""
        done = []

        async def hand_over():
            done.append(await work)

        self.loop.deliver(self.loop.create_task, hand_over())
        until = self.scheduler.now_us + 3 * SECOND
        while self.scheduler.step(until):
            pass
        return done[0]

    async def beside_ensure(self, act):
        """Call `act` in each turn of the loop until `ensure` is done; return all results."""
        ensuring = asyncio.get_running_loop().create_task(self.client.ensure(znodes.PERSISTENT))
        acting = []
        while not ensuring.done():
            acting.append(asyncio.get_running_loop().create_task(act()))
            await asyncio.wait((ensuring, acting[-1]), return_when=asyncio.FIRST_COMPLETED)
        return [await each for each in acting]


@pytest.fixture
def place():
    return Place()


def test_the_chroot_and_its_parents_are_created_and_nothing_else_at_the_root(place):
    assert set(place.tree.children("/")) == {"controller", "yards"}
    assert place.tree.children("/yards") == ("east",)
    assert place.tree.get(f"{CHROOT}/brokers/ids") is not None


def test_a_read_beside_ensure_stays_below_the_chroot(place):
    found = place.run(place.beside_ensure(lambda: place.client.get("/controller")))
    assert {each.data for each in found} == {OURS}


def test_a_write_beside_ensure_stays_below_the_chroot(place):
    place.run(place.beside_ensure(lambda: place.client.multi((Put("/controller", b"written"),))))
    assert place.tree.get("/controller").data == FOREIGN
    assert place.tree.get(f"{CHROOT}/controller").data == b"written"


def test_a_watch_that_fires_beside_ensure_has_the_path_below_the_chroot(place):
    heard = []
    place.client.listen(watches=heard.append)
    place.run(place.client.get("/controller", watch=True))

    async def change():
        if not heard:
            place.act(Put(f"{CHROOT}/controller", OURS))
        await place.client.sync()

    place.run(place.beside_ensure(change))
    assert heard == [WatchEvent(WatchKind.CHANGED, "/controller")]
