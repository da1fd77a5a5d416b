"""The composition root of `shunter controller --observe`: decide beside the controller that leads, and compare."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from shunter.app.controller.settings import ControllerConfig
from shunter.app.controller.zookeeper_security import zookeeper_access
from shunter.core.controller.events import Elected, SessionExpired
from shunter.core.controller.machine import ControllerMachine
from shunter.core.observation import DecisionDifference, Observation
from shunter.drivers.brokers.observing import Leading, ReadOnlyZooKeeper, UnsentRequests, UnwrittenStore
from shunter.drivers.election.loop import ControllerLoop
from shunter.drivers.host.clock import SystemClock
from shunter.drivers.zookeeper.client import SessionState
from shunter.errors import DriverError, InvariantViolation
from shunter.model.reassignment import Strategy

ROUND_SECONDS = 1.0
"""How often everything is compared."""
READ_SHARE = 10.0
"""The pause after a round is at least this many times as long as the round's reading."""
NOBODY = 2**31 - 1
"""The machine's broker id, which no broker has."""


def observe_controller(
    config: ControllerConfig, show: Callable[[str], None], *, seconds: float, settle_seconds: float, as_json: bool
) -> int:
    """Observe until SIGTERM or SIGINT, or for `seconds`; show each difference when it is found, and a summary.

    Returns:
        The exit status: 0 the documents explain every difference; 1 a difference is not explained; 70 a bug in Shunter.

    Raises:
        DriverError: ZooKeeper can't be reached or read, its session has ended, or Shunter leads already.
    """
    # The machine logs as if it were the controller. These lines would mislead, so only level debug shows them.
    level = logging.DEBUG if config.log_level == "debug" else logging.WARNING
    logging.basicConfig(level=level, stream=sys.stderr)
    observer = ControllerObserver(config, _Lines(show, as_json=as_json), settle_seconds)
    try:
        asyncio.run(observer.run(seconds))
    except InvariantViolation as bug:
        show(f"a bug in Shunter: {bug}")
        return 70
    return 1 if observer.unexplained else 0


class _Lines:
    """The output, for people or for programs."""

    def __init__(self, show: Callable[[str], None], *, as_json: bool) -> None:
        self._show = show
        self._as_json = as_json

    def tell(self, kind: str, text: str, **values: Any) -> None:
        """Show one line."""
        if self._as_json:
            self._show(json.dumps({"version": 1, "kind": kind, "at": round(time.time(), 3), **values}))
        else:
            self._show(f"{time.strftime('%H:%M:%S')} {text}")


class ControllerObserver:
    """One observation of one cluster. `run` lives until a signal, or until its time is over."""

    def __init__(self, config: ControllerConfig, lines: _Lines, settle_seconds: float) -> None:
        """Join the parts; nothing is opened yet."""
        decided_by = replace(
            config.controller_settings(), broker_id=NOBODY, strategy=Strategy.ALL_AT_ONCE, leader_rebalance_enable=False
        )
        self.lines = lines
        self.settle_seconds = settle_seconds
        self.unexplained = 0
        self.explained = 0
        self.machine = ControllerMachine(decided_by)
        self.observation = Observation(self.machine.state, round(settle_seconds * 1000))
        self.clock = SystemClock()
        self.loop = ControllerLoop(self.machine, self.clock)
        access = zookeeper_access(config.server_properties, config.zookeeper_config)
        self.client = ReadOnlyZooKeeper(config.zookeeper, session_timeout_ms=config.session_timeout_ms, access=access)
        self.store = UnwrittenStore(self.client, self.machine, self.observation, self.loop.post)
        self.channels = UnsentRequests(self.machine, self.loop.post)
        self.leading: Leading | None = None
        self.expired = False
        self.open_before = 0
        self.kraft_told = ""

    async def run(self, seconds: float) -> None:
        """Observe for this many seconds; 0: until SIGTERM or SIGINT.

        Raises:
            DriverError, InvariantViolation: see `observe_controller`.
        """
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        self.client.listen(states=self._on_session)
        await self.client.start()
        self.loop.attach(self.store, self.channels)
        working = asyncio.create_task(self.loop.run(), name="machine")
        began = time.monotonic()
        try:
            async with asyncio.timeout(seconds or None):
                await self._start()
                await self._rounds(working, stop)
        except TimeoutError:
            if not self.machine.view.active:
                raise DriverError(
                    "the cluster could not be read in the given time: allow more seconds", retriable=True
                ) from None
        finally:
            self.store.stop()
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
            await self.loop.close()
            await self.client.close()
        self._sum_up(time.monotonic() - began)

    async def _start(self) -> None:
        """Begin like a controller that was just elected: read everything."""
        self.leading = await self.store.leading()
        if self.leading is not None and self.leading.shunter:
            raise DriverError(
                f"broker {self.leading.broker}, the controller, is a Shunter: there is no Apache controller to compare",
                retriable=False,
            )
        self.loop.post(Elected(0 if self.leading is None else self.leading.epoch, 0), "the start")

    def _on_session(self, state: SessionState) -> None:
        self.expired |= state is SessionState.EXPIRED

    async def _rounds(self, working: asyncio.Task[None], stop: asyncio.Event) -> None:
        told = False
        while not stop.is_set():
            if working.done():
                working.result()
            if self.expired:
                raise DriverError(
                    "the ZooKeeper session has ended, and its watches with it: start again", retriable=True
                )
            took = 0.0
            if self.machine.view.active:
                if not told:
                    told = True
                    self._tell_start()
                began = time.monotonic()
                await self._round()
                took = time.monotonic() - began
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(ROUND_SECONDS, READ_SHARE * took)):
                    await stop.wait()

    def _alive(self) -> bool:
        """Whether the machine decides or still loads; False: it gave up because something could not be read."""
        machine = self.machine
        return machine.view.active or machine.loading or machine.in_turns is not None or self.loop.waiting() > 0

    async def _round(self) -> None:
        leading = await self.store.leading()
        steady = leading is not None and leading == self.leading
        if leading is not None and leading != self.leading:
            text = f"broker {leading.broker} is the controller now, with epoch {leading.epoch}"
            self.lines.tell("controller", text, broker=leading.broker, epoch=leading.epoch)
        self.leading = leading if leading is not None else self.leading
        self._tell_kraft()
        states = await self.store.states()
        told, differences = self.observation.look(states, self.clock.now_ms(), steady=steady)
        for event, cause in told:
            self.loop.post(event, cause)
        for cause, count in sorted(self.observation.newly_agreed.items()):
            self.lines.tell("agreed", f"{count} decided alike, by: {cause}", count=count, cause=cause)
        self._tell_open(len(self.observation.disputes))
        for difference in differences:
            self._tell(difference)
        if differences:
            # The machine takes over Apache's state as its own, so the consequences of one difference are not reported.
            self.loop.post(SessionExpired("a difference was found"))
            self.loop.post(Elected(0 if self.leading is None else self.leading.epoch, 0), "after a difference")

    def _tell_kraft(self) -> None:
        """Report when KRaft begins to keep decisions from being compared, and when it does so no more."""
        kraft = self.store.kraft
        if kraft != self.kraft_told:
            text = f"{kraft}: nothing is compared" if kraft else "KRaft has left this cluster: decisions are compared"
            self.lines.tell("controller", text, broker=None, epoch=None, kraft=kraft)
        self.kraft_told = kraft

    def _tell_open(self, count: int) -> None:
        """Report when the first open difference appears, and when none is left."""
        if bool(count) is not bool(self.open_before):
            text = f"open differences, which may pass: {count}" if count else "no difference is open"
            self.lines.tell("open", text, count=count)
        self.open_before = count

    def _tell_start(self) -> None:
        state = self.machine.view
        partitions = sum(len(topic.partitions) for topic in state.topics.values())
        who = "no broker is the controller"
        if self.store.kraft:
            self.kraft_told = self.store.kraft
            who = f"{self.store.kraft}: nothing is compared"
        elif self.leading is not None:
            who = f"broker {self.leading.broker} leads, epoch {self.leading.epoch}"
        counts = {"brokers": len(state.brokers), "topics": len(state.topics), "partitions": partitions}
        text = f"observing: {who}; " + ", ".join(f"{count} {name}" for name, count in counts.items())
        controller = None if self.leading is None else self.leading.broker
        values = {"controller": controller, "kraft": self.store.kraft}
        self.lines.tell("start", text, **values, settle_seconds=self.settle_seconds, **counts)

    def _tell(self, difference: DecisionDifference) -> None:
        if difference.explained:
            self.explained += 1
        else:
            self.unexplained += 1
        mark = f"explained by {difference.explained}" if difference.explained else "DIFFERENCE"
        text = (
            f"{mark}: {difference.about}: Shunter would have: {difference.ours}; Apache has: {difference.apache}; "
            f"Shunter decided by: {difference.cause}"
        )
        self.lines.tell("difference", text, **difference._asdict())

    def _sum_up(self, seconds: float) -> None:
        tally = self.observation.tally
        values = {
            "seconds": round(seconds, 1),
            "decisions": tally.decisions,
            "agreed": tally.agreed,
            "differences": self.unexplained,
            "explained": self.explained,
            "open": len(self.observation.disputes),
            "not_seen_yet": len(self.observation.pending),
            "inferred": dict(sorted(tally.inferred.items())),
            "zookeeper_reads": self.client.reads,
            "zookeeper_writes_refused": self.client.refused,
            "requests_not_sent": self.channels.count,
        }
        inferred = ", ".join(f"{count} {what}" for what, count in sorted(tally.inferred.items())) or "nothing"
        text = (
            f"observed for {seconds:.0f} s: Apache agreed in {tally.agreed} of Shunter's {tally.decisions} decisions; "
            f"{self.unexplained} differences, {self.explained} more that the documents explain, "
            f"{len(self.observation.disputes)} open at the end\n"
            f"inferred from their effects: {inferred}\n"
            f"{self.client.reads} requests to ZooKeeper, all of them reads; {self.channels.count} requests to brokers "
            "were not sent, and no connection to a broker was opened"
        )
        self.lines.tell("summary", text, **values)
