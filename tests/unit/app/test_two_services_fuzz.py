"""Two services on two hosts, cut off, healed, killed and restarted at random: never two drivers, and no word is lost."""

import asyncio
import os
import time
from collections.abc import Iterable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from service_orders import order
from service_world import Clock
from words_world import SESSION_MS, Service, SharedYard

from shunter.core.keeper.cluster_facts import WordsPlace
from shunter.model.keeper import DEFAULTS, Condition, GuardRails, KeeperPolicy, Mode
from shunter.model.service import (
    OPEN,
    IntentKind,
    KeptIntent,
    OrderKind,
    OrderRefused,
    ProposalState,
    Refusal,
    ServiceOrder,
    Signature,
)

STEPS = 60
LONG_S = float(os.environ.get("SHUNTER_FUZZ_SECONDS", "200"))
OFF = {each: replace(watch, mode=Mode.OFF) for each, watch in DEFAULTS.items()}
ACTS = {
    each: replace(DEFAULTS[each], mode=Mode.ACT, minutes=0)
    for each in (Condition.DRAIN, Condition.DISK_BAND, Condition.REPLICAS_BAND)
}
POLICY = KeeperPolicy({**OFF, **ACTS}, GuardRails())
ABOUT = {
    IntentKind.DRAIN: ("1", "2"),
    IntentKind.FREEZE_TOPIC: tuple(f"x{number}" for number in range(8)),
    IntentKind.HOLD: ("drain", "rebalance", "fill"),
}


class Fuzz:
    """One world, two services, and what people were promised."""

    def __init__(self, seed: int, folder: Path, stack: AsyncExitStack) -> None:
        self.random = Random(seed)
        rows = [tuple(self.random.sample((1, 2, 3), 2)) for _ in range(6)]
        self.world = SharedYard(Clock(), rows=[*rows], random=Random(seed))
        self.folder = folder
        self.stack = stack
        self.services: dict[str, Service] = {}
        self.promised: dict[tuple[str, str], bool | None] = {}
        """By kind and subject of an intent: it is in force, it is not, or nobody was promised anything."""
        self.paused: bool | None = False
        self.turned = False
        """A rollback or a stop was given, or perhaps given."""
        self.words = 0
        self.trail: list[str] = []

    async def begin(self, name: str) -> None:
        service = Service(self.world, name, self.folder / name, POLICY)
        self.services[name] = await self.stack.enter_async_context(service)

    def check(self) -> None:
        assert self.world.strayed == [], self.trail
        assert len(set(self.world.submitted)) == len(self.world.submitted), "no plan is begun twice"
        plans = {self.world.moves[at].plan for at in self.world.open}
        assert len(plans) <= 1, ("two services carry plans out", plans, self.trail)

    async def step(self) -> None:
        kind = self.random.choices(
            ("order", "look", "time", "copy", "cut", "heal", "kill", "unread", "doubt", "steal"),
            (30, 12, 10, 5, 5, 8, 3, 2, 3, 3),
        )[0]
        name = self.random.choice(("a", "b"))
        service, world = self.services[name], self.world
        world.clock.ms += 1  # No two proposals are of one moment: their ids have it.
        self.trail.append(f"{kind} {name}")
        if kind == "order":
            await self.order(service)
        elif kind == "look":
            await service.look()
        elif kind == "time":
            world.pass_time(self.random.choice((1_000, 5_000, SESSION_MS // 2, SESSION_MS + 1)))
        elif kind == "copy":
            world.copy()
        elif kind == "cut":
            world.cut(name)
        elif kind == "heal":
            world.heal(name)
        elif kind == "kill":
            await service.kill()
            await self.begin(name)
        elif kind == "unread":
            world.log.unread = not world.log.unread
        elif kind == "steal":
            world.claim = None  # As by `--take-over-cluster`: who had it learns that with its next heartbeat.
        elif kind == "doubt":
            world.log.doubtful = self.random.choice((0.0, 0.0, 0.1, 0.4))
        world.tell()
        for _ in range(self.random.choice((1, 5, 30))):
            await asyncio.sleep(0)
        self.check()

    async def order(self, service: Service) -> None:
        if self.random.random() < 0.2:
            await self.turn(service)
            return
        if self.random.random() < 0.2:
            await self.switch(service)
            return
        intent = self.random.choice([*ABOUT])
        about = self.random.choice(ABOUT[intent])
        gives = self.random.random() < 0.6
        key = (intent.value, about)
        asked = order(intent, about) if gives else order(OrderKind.WITHDRAW, intent.value, about)
        try:
            done = await service.desk.carry_out(asked, Signature("anna", key=str(self.random.random())))
        except OrderRefused as refused:
            self.trail.append(f"{asked.kind.value} {about} refused: {refused}")
            # A write whose outcome is not known was promised to nobody.
            self.promised[key] = None if refused.refusal is Refusal.STORE else self.promised.get(key, False)
        else:
            alone = "this host alone has that" in done.text
            self.trail.append(f"{asked.kind.value} {about} {'kept' if alone else 'promised'} by {service.owner}")
            self.promised[key] = None if alone else gives
            self.words += 1

    async def turn(self, service: Service) -> None:
        """A rollback withdraws drains, or holds scopes: whatever it says, nobody was promised that they stay."""
        kind = self.random.choice((OrderKind.ROLL_BACK, OrderKind.STOP))
        for key in [*self.promised]:
            if key[0] in ("drain", "hold"):
                self.promised[key] = None
        for about in ABOUT[IntentKind.HOLD]:
            self.promised[("hold", about)] = None
        try:
            done = await service.desk.carry_out(ServiceOrder(kind, "yard"), Signature("ben"))
        except OrderRefused as refused:
            self.trail.append(f"{kind.value} refused: {refused}")
            self.turned |= refused.refusal is Refusal.STORE
        else:
            self.trail.append(f"{kind.value} by {service.owner}: {done.text}")
            self.turned = True

    async def switch(self, service: Service) -> None:
        kind = self.random.choice((OrderKind.PAUSE, OrderKind.RESUME))
        try:
            done = await service.desk.carry_out(ServiceOrder(kind), Signature("ben"))
        except OrderRefused as refused:
            self.trail.append(f"{kind.value} refused: {refused}")
            self.paused = None if refused.refusal is Refusal.STORE else self.paused
            return
        self.trail.append(f"{kind.value} by {service.owner}: {done.text}")
        doubtful = any(
            word in done.text
            for word in (
                "kept on this host",
                "this host alone has that",
                "not durable",
                "stays in force",
                "not in the cluster yet",
                "may have paused",
            )
        )
        # A pause that the other host keeps may come to the cluster later, whatever this one lifts.
        switches = [each.keeper.switch for each in self.services.values()]
        unsent = any(each is not None and each.unsent for each in switches)
        self.paused = None if doubtful or unsent else kind is OrderKind.PAUSE

    async def settle(self) -> Service:
        """All is healed: one service drives, and the other one stands by with the same words."""
        try:
            return await self.settled()
        except TimeoutError:
            told = [
                (
                    each.owner,
                    each.keeper.reconciled,
                    each.shared.place,
                    each.shared.why,
                    each.keeper.facts(),
                    each.driving,
                )
                for each in self.services.values()
            ]
            raise AssertionError((told, self.world.claim, self.trail)) from None

    async def settled(self) -> Service:
        world = self.world
        world.log.unread, world.log.doubtful = False, 0.0
        for name in self.services:
            world.heal(name)
        async with asyncio.timeout(60):
            while True:
                world.pass_time(1_000)
                world.tell()
                for _ in range(20):
                    await asyncio.sleep(0)
                drivers = [
                    each for each in self.services.values() if each.keeper.reconciled and each.keeper.words_known
                ]
                others = [each for each in self.services.values() if each not in drivers]
                if len(drivers) == 1 and len(others) == 1 and others[0].shared.place is WordsPlace.READ:
                    driver, other = drivers[0].keeper, others[0].keeper
                    if (driver.intents, driver.switch) == (other.intents, other.switch) or same(driver, other):
                        return drivers[0]

    def verify(self, driver: Service) -> None:
        keeper = driver.keeper
        there = {(each.kind.value, each.about) for each in keeper.intents}
        for key, promised in self.promised.items():
            assert promised is None or (key in there) is promised, "\n".join([f"{key} {promised} {there}", *self.trail])
        paused = keeper.switch is not None and not keeper.switch.lifted
        assert self.paused is None or paused is self.paused, "\n".join([str(keeper.switch), *self.trail])
        begun = [each for each in keeper.proposals.values() if each.state is ProposalState.RUNNING]
        assert len(begun) <= 1
        if self.world.open:
            assert begun, "moves under way are some proposal's"

    async def drained(self, driver: Service) -> None:
        """What was promised comes about: a broker that is to be drained is empty in the end, and stays so."""
        keeper, world = driver.keeper, self.world
        wanted = drains(keeper.intents)
        held = any(each.kind.value == "hold" for each in keeper.intents)
        if keeper.switch is not None or held or len(wanted) != 1:
            return
        (broker,) = wanted
        for passed in range(100):  # On a busy machine the store's threads take more passes.
            for _ in range(6):
                world.pass_time(10_000)
            for service in self.services.values():
                await service.look()
            world.copy()
            for _ in range(20):
                await asyncio.sleep(0)
            if drains(keeper.intents) != wanted:
                # A rollback or stop given before all was healed withdraws it only when its plan's fate is read.
                assert self.turned, (wanted, keeper.intents, self.trail)
                return
            if passed >= 7 and not any(broker in row for row in world.rows):
                return
        raise AssertionError("\n".join([f"{broker} is not drained: {world.rows}", *self.trail]))


def drains(intents: Iterable[KeptIntent]) -> set[int]:
    return {int(each.about) for each in intents if each.kind is IntentKind.DRAIN}


def same(one: object, other: object) -> bool:
    """Whether two keepers have the same words, in whatever order they list them."""
    mine, its = (sorted(map(str, each.intents)) for each in (one, other))  # type: ignore[attr-defined]
    return mine == its and one.switch == other.switch  # type: ignore[attr-defined]


async def fuzz(seed: int, folder: Path) -> int:
    async with AsyncExitStack() as stack:
        run = Fuzz(seed, folder, stack)
        for name in ("a", "b"):
            await run.begin(name)
        for _ in range(STEPS):
            await run.step()
        driver = await run.settle()
        run.verify(driver)
        assert all(each.state in OPEN for each in driver.keeper.proposals.values())
        await run.drained(driver)
        run.check()
        return run.words


@pytest.mark.parametrize("seed", range(6))
def test_no_word_is_lost(tmp_path: Path, seed: int) -> None:
    asyncio.run(fuzz(seed, tmp_path))


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_no_word_is_lost_for_minutes(tmp_path: Path) -> None:
    ends = time.monotonic() + LONG_S
    seed, words = 1_000, 0
    while time.monotonic() < ends:
        folder = tmp_path / str(seed)
        folder.mkdir()
        words += asyncio.run(fuzz(seed, folder))
        seed += 1
    print(f"{seed - 1_000} worlds, {words} words")
    assert words > 500
