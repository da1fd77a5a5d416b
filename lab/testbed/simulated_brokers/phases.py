"""Phases of a measurement of a controller, one after another over the same simulated brokers, and their figures."""

from __future__ import annotations

import asyncio
import os
import random
import re
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lab.testbed.ports import LOOPBACK
from lab.testbed.process_figures import cpu_seconds, forget_peak, peak_mib
from lab.testbed.simulated_brokers.knowledge import UNKNOWN, KnownState
from lab.testbed.simulated_brokers.yard import Expectation, SimulatedYard
from shunter.drivers.zookeeper.requests import ConnectionLost
from shunter.errors import DriverError
from shunter.model.partition import BrokerId, Replicas, TopicPartition
from shunter.wire.versions import LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA

SETTLE_SECONDS = 1.5
_LAG_METRIC = "shunter_event_loop_lag_worst_seconds"


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of one phase. Seconds are wall time from its beginning; `cpu_s` is the controller's processor time.

    Attributes:
        complete: whether the expected requests arrived within the bound.
        everyone_s: until the last broker had got the expected metadata.
        leaders_s: until the last new leader had got its LeaderAndIsr; 0 if the phase does not wait for that.
        answered_s: until a cancel was answered; 0 if there was none.
        ends_s: until the last control request.
        cpu_s: until traffic had ended.
        refusals: control requests refused, by error code.
        load: the machine's load average at the end.
        lag_s: the longest delay of a callback in the controller's event loop; 0 if it was not asked for.
    """

    phase: str
    complete: bool
    everyone_s: float
    leaders_s: float
    answered_s: float
    ends_s: float
    cpu_s: float
    peak_mib: float
    requests: Mapping[int, int]
    bytes: int
    refusals: Mapping[int, int]
    load: float
    differences: int
    codes: Mapping[int, int] = field(default_factory=dict)
    lag_s: float = 0.0

    @property
    def all_requests(self) -> int:
        """Control requests of all kinds."""
        return sum(self.requests.values())


@dataclass(slots=True)
class _Mark:
    """The counters at the beginning of a phase."""

    at_s: float
    cpu_s: float
    requests: dict[int, int]
    bytes: int
    refusals: dict[int, int]


class Phases:
    """Runs phases against the controller process `pid`.

    Args:
        yard: a yard that is started.
        pid: id of the controller's process.
        bound_s: how long a phase may take.
        seed: for the choice of moves.
        metrics_port: metrics port of a Shunter controller on this host, for the lag of its event loop.
    """

    def __init__(
        self, yard: SimulatedYard, pid: int, *, bound_s: float = 300.0, seed: int = 1, metrics_port: int | None = None
    ) -> None:
        self.yard = yard
        self._metrics_port = metrics_port
        self.pid = pid
        self.bound_s = bound_s
        self._moved: set[int] = set()
        """Positions of partitions whose moves may be under way, or wait for their turn, since `kill_amid`."""
        self._random = random.Random(seed)  # noqa: S311 - no secret, only a choice that can be repeated

    # ---- phases

    async def start_up(self) -> Figures:
        """Wait, after the controller's start, until every broker has all metadata."""
        mark = self._begin()
        self._expect(self._everything(), _led)
        return await self._finish("start-up", mark)

    async def failover(self) -> Figures:
        """Depose the controller, which is elected again; wait until every broker has all metadata of its new term."""
        mark = self._begin()
        for broker in self.yard.living():
            self.yard.known[broker] = self.yard.catalogue.nothing()
        self._expect(self._everything(), _led)
        mark.at_s = await self.yard.depose()
        return await self._finish("failover", mark)

    async def kill(self, name: str = "kill", count: int = 1) -> Figures:
        """Kill brokers; wait until the new leaders and all other live brokers have got the new leadership."""
        mark = self._begin()
        victims, led = await self._next_victims(count)
        self._expect_new_leaders(led, victims)
        mark.at_s = time.monotonic()
        for victim in sorted(victims):
            await self.yard.kill(victim)
        return await self._finish(name, mark)

    async def revive(self) -> Figures:
        """Revive the dead brokers; wait until all know that these are in sync again, in partitions that do not move."""
        mark = self._begin()
        dead = sorted(set(self.yard.ids).difference(self.yard.living()))
        look = await self.yard.look()
        hosting: dict[int, set[BrokerId]] = {}
        for place, number in enumerate(look.truth.tolist()):
            if number != UNKNOWN and place not in look.moving and place not in self._moved:
                back = set(dead).intersection(self.yard.catalogue.states[number].replicas)
                if back:
                    hosting[place] = back
        wanted = np.zeros(len(look.truth), dtype=np.bool_)
        wanted[list(hosting)] = True
        mark.at_s = time.monotonic()
        self._expect(wanted, lambda place, state: hosting.get(place, set()).issubset(state.isr), {*self.yard.ids})
        for broker in dead:
            await self.yard.revive(broker)
        return await self._finish("revive", mark)

    async def reassign(self, count: int) -> Figures:
        """Move the last replica of `count` partitions; wait until all brokers have got the final replica sets."""
        mark = self._begin()
        targets = await self._targets(count)
        self._expect_targets(targets)
        mark.at_s = time.monotonic()
        error, codes = await self.yard.submit(dict(targets))
        return await self._finish(f"reassign {count}", mark, codes=_with(codes, error))

    async def cancel(self, count: int, after_s: float = 0.1) -> Figures:
        """Move `count` partitions, with followers that never catch up, and cancel all moves `after_s` later."""
        mark = self._begin()
        targets = await self._targets(count)
        self._catch_up(now=False)
        mark.at_s = time.monotonic()
        submitted = asyncio.create_task(self.yard.submit(dict(targets)))
        await asyncio.sleep(after_s)
        asked_s = time.monotonic()
        error, codes = await self.yard.submit(dict.fromkeys(targets))
        answered_s = time.monotonic() - asked_s
        await submitted
        figures = await self._finish(f"cancel {count}", mark, answered_s=answered_s, codes=_with(codes, error))
        self._catch_up(now=True)
        return figures

    async def begin_moves(self, count: int) -> dict[TopicPartition, Replicas]:
        """Begin `count` moves, with followers that never catch up; returns the original replicas."""
        targets = await self._targets(count)
        before = (await self.yard.look()).truth.tolist()
        self._catch_up(now=False)
        _, codes = await self.yard.submit(dict(targets))
        assert set(codes) == {0}, codes
        await self.yard.quiet(SETTLE_SECONDS, self.bound_s)
        places = self.yard.catalogue.places
        return {tp: self.yard.catalogue.states[before[places[tp]]].replicas for tp in targets}

    async def cancel_under_way(self, originals: Mapping[TopicPartition, Replicas]) -> Figures:
        """Cancel the moves of `begin_moves`; wait for the answer, and until all brokers have got the originals."""
        mark = self._begin()
        self._expect_targets(originals)
        mark.at_s = time.monotonic()
        error, codes = await self.yard.submit(dict.fromkeys(originals))
        answered_s = time.monotonic() - mark.at_s
        phase = f"cancel of {len(originals)} under way"
        figures = await self._finish(phase, mark, answered_s=answered_s, codes=_with(codes, error))
        self._catch_up(now=True)
        return figures

    async def kill_amid(self, count: int, after_s: float = 0.3) -> Figures:
        """Kill a broker `after_s` after `count` moves were submitted; measures only the news about new leaders."""
        mark = self._begin()
        targets = await self._targets(count)
        victims, led = await self._next_victims(1)
        moved = self._moved = {self.yard.catalogue.places[tp] for tp in targets}
        submitted = asyncio.create_task(self.yard.submit(dict(targets)))
        await asyncio.sleep(after_s)
        self._expect_new_leaders(led - moved, victims)
        mark.at_s = time.monotonic()
        await self.yard.kill(*victims)
        figures = await self._finish(f"kill amid {count}", mark)
        await submitted
        return figures

    # ---- expectations

    def _everything(self) -> NDArray[np.bool_]:
        return np.ones(len(self.yard.catalogue.places), dtype=np.bool_)

    def _expect(self, wanted: NDArray[np.bool_], accept: object, brokers: set[BrokerId] | None = None) -> None:
        assert callable(accept), "whether a state is what is waited for"
        self.yard.expectation = Expectation(brokers or self.yard.living(), wanted, accept)

    def _expect_new_leaders(self, led: set[int], victims: frozenset[BrokerId]) -> None:
        wanted = np.zeros(len(self.yard.catalogue.places), dtype=np.bool_)
        wanted[list(led)] = True
        others = set(self.yard.living()) - victims
        self._expect(wanted, lambda _, state: state.leader >= 0 and state.leader not in victims, others)
        names = list(self.yard.catalogue.places)
        self.yard.leaders_wanted = {names[place] for place in led}
        self.yard.leaders_told_s = 0.0

    def _expect_targets(self, targets: Mapping[TopicPartition, Replicas]) -> None:
        sets = {self.yard.catalogue.places[tp]: frozenset(replicas) for tp, replicas in targets.items()}
        wanted = np.zeros(len(self.yard.catalogue.places), dtype=np.bool_)
        wanted[list(sets)] = True
        self._expect(wanted, lambda place, state: sets.get(place) == frozenset(state.replicas))

    async def _next_victims(self, count: int) -> tuple[frozenset[BrokerId], set[int]]:
        """The live brokers that lead most, with the positions of their partitions that another replica can lead."""
        states = self.yard.catalogue.states
        led: dict[BrokerId, set[int]] = {broker: set() for broker in self.yard.living()}
        truth = (await self.yard.look()).truth.tolist()
        for place, number in enumerate(truth):
            if number != UNKNOWN and states[number].leader in led:
                led[states[number].leader].add(place)
        victims = frozenset(sorted(led, key=lambda broker: -len(led[broker]))[:count])
        lost = set().union(*(led[victim] for victim in victims))
        return victims, {place for place in lost if not victims.issuperset(states[truth[place]].isr)}

    async def _targets(self, count: int) -> dict[TopicPartition, Replicas]:
        truth = (await self.yard.look()).truth.tolist()
        names = list(self.yard.catalogue.places)
        living = self.yard.living()
        targets: dict[TopicPartition, Replicas] = {}
        for place in self._random.sample(range(len(names)), min(count, len(names))):
            replicas = self.yard.catalogue.states[truth[place]].replicas
            spare = [broker for broker in living if broker not in replicas]
            targets[names[place]] = (*replicas[:-1], self._random.choice(spare))
        return targets

    def _catch_up(self, *, now: bool) -> None:
        if self.yard.leaders is not None:
            self.yard.leaders.catch_up = now
            if now:
                self.yard.leaders.take_up()

    # ---- measuring

    def _begin(self) -> _Mark:
        tally = self.yard.tally
        self.yard.read_metadata()
        self.yard.catalogue.forget_steps()
        self.yard.expectation = None
        self.yard.leaders_wanted = set()
        self.yard.leaders_told_s = 0.0
        forget_peak(self.pid)
        self._lag_s()
        return _Mark(
            time.monotonic(),
            cpu_seconds(self.pid),
            dict(tally.requests),
            sum(tally.bytes.values()),
            dict(tally.refusals),
        )

    async def _finish(
        self, phase: str, mark: _Mark, *, answered_s: float = 0.0, codes: Mapping[int, int] | None = None
    ) -> Figures:
        tally, expectation = self.yard.tally, self.yard.expectation
        complete = await self.yard.until_met(self.bound_s)
        complete = await self.yard.quiet(SETTLE_SECONDS, self.bound_s) and complete
        cpu_s = cpu_seconds(self.pid) - mark.cpu_s
        lag_s = self._lag_s()
        told_s = self.yard.leaders_told_s
        return Figures(
            phase=phase,
            complete=complete,
            everyone_s=max(0.0, expectation.last_s - mark.at_s) if expectation is not None else 0.0,
            leaders_s=told_s - mark.at_s if told_s else 0.0,
            answered_s=answered_s,
            ends_s=max(0.0, tally.last_s - mark.at_s),
            cpu_s=cpu_s,
            peak_mib=peak_mib(self.pid),
            requests={
                api: tally.requests.get(api, 0) - mark.requests.get(api, 0)
                for api in (LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA)
            },
            bytes=sum(tally.bytes.values()) - mark.bytes,
            refusals={
                error: count - mark.refusals.get(error, 0)
                for error, count in tally.refusals.items()
                if count > mark.refusals.get(error, 0)
            },
            load=os.getloadavg()[0],
            differences=await self._differences(),
            codes=codes or {},
            lag_s=lag_s,
        )

    def _lag_s(self) -> float:
        """The longest lag of the controller's event loop since the last call."""
        if self._metrics_port is None:
            return 0.0
        try:
            with urllib.request.urlopen(f"http://{LOOPBACK}:{self._metrics_port}/metrics", timeout=30) as page:
                told = page.read().decode()
        except OSError:
            return 0.0  # The controller does not serve metrics yet.
        found = re.search(rf"^{_LAG_METRIC} (\S+)$", told, re.MULTILINE)
        assert found is not None, f"no {_LAG_METRIC} in the metrics"
        return float(found[1])

    async def _differences(self) -> int:
        try:
            return len(await self.yard.differences())
        except (DriverError, ConnectionLost):
            return -1


def _led(place: int, state: KnownState) -> bool:
    del place
    return state.leader >= 0


def _with(codes: Mapping[int, int], error: int) -> Mapping[int, int]:
    """Partitions by error; an error of the whole request counts as one partition with its code."""
    return {**codes, error: codes.get(error, 0) + 1} if error else codes
