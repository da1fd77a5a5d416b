"""Two services on two hosts over one cluster: its claim, its journal in a topic, its topic of words; cut and healed."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Self

from kafka import errors as kafka_errors
from service_world import Life, MortalStore, Yard, YardDriving

from lab.simulation.executor.topic import JournalTopic
from lab.simulation.scheduler import Scheduler
from shunter.app.service.driving import Driving, PlanFate
from shunter.app.service.shared_words import SharedWords
from shunter.core.executor.ready import CommandReply, PlanReply
from shunter.core.keeper.sighting import Sighting
from shunter.core.own_topics import WORDS_TOPIC as TOPIC
from shunter.drivers.admin.bootstrap_probe import NoBrokerAnswers
from shunter.drivers.journal.claimants import ClusterClaimed
from shunter.drivers.journal.compacted_topic import Clients
from shunter.drivers.service.words_topic import WordsTopic
from shunter.errors import DriverError
from shunter.formats.word_records import WordsDriver
from shunter.model.execution import Command, ExecutionOptions, MoveOrder
from shunter.model.keeper import KeeperPolicy
from shunter.model.notice import Notice
from shunter.model.service import Words

SESSION_MS = 30_000


class Log(JournalTopic):
    """The topic's records, and what the network between it and each service does."""

    def __init__(self, random: Random) -> None:
        super().__init__(Scheduler(1), lambda _entry: None)
        self.made = False
        self.denied = ""
        self.unread = False
        """Its leader is away: the topic is there, and can't be read or written."""
        self.cut: set[str] = set()
        self.doubtful = 0.0
        """How likely a request fails, perhaps after it was carried out."""
        self.random = random

    def reach(self, owner: str) -> None:
        if owner in self.cut or self.unread:
            raise kafka_errors.KafkaConnectionError("cut off")

    def guard(self) -> None:
        if self.random.random() < self.doubtful:
            raise kafka_errors.NotEnoughReplicasError


class Admin:
    """An admin client of one service."""

    def __init__(self, log: Log, owner: str) -> None:
        self._log, self._owner = log, owner
        if owner in log.cut:
            raise NoBrokerAnswers("no broker answers", retriable=True)

    def list_topics(self) -> list[str]:
        return [TOPIC] if self._log.made else ["orders"]

    def describe_cluster(self) -> dict[str, Any]:
        return {"brokers": [{"broker_id": broker} for broker in (1, 2, 3)]}

    def create_topics(self, _topics: object) -> None:
        if self._log.denied:
            raise kafka_errors.TopicAuthorizationFailedError(self._log.denied)
        self._log.made = True

    def wait_for_topics(self, _topics: object, *, timeout_ms: int) -> None:
        del timeout_ms

    def describe_topics(self, _names: Sequence[str]) -> list[dict[str, Any]]:
        return []  # Nothing is known of their replicas.

    def close(self) -> None:
        """Nothing is open."""


class LockedTopic(WordsTopic):
    """The words' topic over a log in memory, one call at a time."""

    def __init__(self, log: Log, owner: str, lock: threading.Lock) -> None:
        found = log.clients(owner)

        class Consumer(found.consumer):  # type: ignore[name-defined,misc]
            def end_offsets(self, partitions: Any, timeout_ms: int) -> Any:
                log.reach(owner)
                return super().end_offsets(partitions, timeout_ms)

        super().__init__({}, "yard", Clients(lambda _configuration: Admin(log, owner), Consumer, found.producer))
        self._lock = lock

    def read(self) -> Words | None:
        with self._lock:
            return super().read()

    def make(self) -> None:
        with self._lock:
            super().make()

    def take(self, mine: WordsDriver, local: Words) -> Words:
        self._lock.acquire()
        try:
            # The calls inside take the lock themselves.
            self._lock, outer = contextlib.nullcontext(), self._lock  # type: ignore[assignment]
            try:
                return super().take(mine, local)
            finally:
                self._lock = outer
        finally:
            self._lock.release()

    def write(self, batch: Any, now_ms: int) -> None:
        with self._lock:
            super().write(batch, now_ms)

    def take_again(self, mine: WordsDriver) -> None:
        self._lock.acquire()
        try:
            self._lock, outer = contextlib.nullcontext(), self._lock  # type: ignore[assignment]
            try:
                super().take_again(mine)
            finally:
                self._lock = outer
        finally:
            self._lock.release()


@dataclass
class Claim:
    """The claim in the cluster."""

    owner: str
    heard_ms: int


@dataclass
class SharedYard(Yard):
    """A cluster that several services look at and want to drive; the journal is in a topic, so all of them have it."""

    random: Random = field(default_factory=lambda: Random(1))
    claim: Claim | None = None
    dead: set[str] = field(default_factory=set)
    drivings: dict[str, ClaimedDriving] = field(default_factory=dict)
    strayed: list[str] = field(default_factory=list)
    """Requests of a service without the claim that reached the cluster."""

    def __post_init__(self) -> None:
        self.log = Log(self.random)
        self.lock = threading.Lock()

    def cut(self, owner: str) -> None:
        self.log.cut.add(owner)

    def heal(self, owner: str) -> None:
        self.log.cut.discard(owner)

    def away(self, owner: str) -> bool:
        return owner in self.log.cut

    def sight_of(self, owner: str) -> Sighting:
        if self.away(owner):
            raise NoBrokerAnswers("no broker answers", retriable=True)
        return self.sight()

    def pass_time(self, ms: int) -> None:
        """Time passes; who can reach the cluster keeps its claim, and learns if it has lost it."""
        self.clock.ms += ms
        for owner, driving in [*self.drivings.items()]:
            if owner in self.dead or self.away(owner):
                continue
            if self.claim is not None and self.claim.owner == owner:
                self.claim.heard_ms = self.clock.ms
            else:
                driving.gone.set()

    def seat_of(
        self, owner: str
    ) -> Callable[[Callable[[Notice], None]], contextlib.AbstractAsyncContextManager[Driving]]:
        @contextlib.asynccontextmanager
        async def take(_listener: Callable[[Notice], None]) -> AsyncIterator[Driving]:
            if self.away(owner):
                raise NoBrokerAnswers("no broker answers", retriable=True)
            holder = self.claim
            if holder is not None and holder.owner != owner and self.clock.ms - holder.heard_ms <= SESSION_MS:
                raise ClusterClaimed(holder.owner)
            self.claim = Claim(owner, self.clock.ms)
            driving = self.drivings[owner] = ClaimedDriving(self, owner)
            try:
                yield driving
            finally:
                if self.drivings.get(owner) is driving:
                    del self.drivings[owner]
                if (
                    owner not in self.dead
                    and not self.away(owner)
                    and self.claim is not None
                    and self.claim.owner == owner
                ):
                    self.claim = None

        return take


@dataclass
class ClaimedDriving(YardDriving):
    """The executor of a shared yard, in the hands of one service."""

    def __init__(self, yard: SharedYard, owner: str) -> None:
        super().__init__(yard)
        self.shared, self.owner = yard, owner

    async def granted(self) -> None:
        await asyncio.sleep(0)
        if not self.shared.away(self.owner):
            self._check()

    def _check(self) -> None:
        claim = self.shared.claim
        if claim is None or claim.owner != self.owner:
            raise ClusterClaimed("nobody" if claim is None else claim.owner, lost=True)

    def _reach(self, what: str) -> None:
        if self.owner in self.shared.dead or self.shared.away(self.owner):
            raise DriverError(f"{what}: no broker answers", retriable=True)
        self._check()
        if self.shared.claim is None or self.shared.claim.owner != self.owner:
            self.shared.strayed.append(f"{self.owner}: {what}")

    async def fates(self) -> Mapping[str, PlanFate]:
        self._reach("reading the journal")
        return await super().fates()

    async def submit(self, plan_id: str, moves: Sequence[MoveOrder], options: ExecutionOptions) -> PlanReply:
        self._reach(f"plan {plan_id}")
        return await super().submit(plan_id, moves, options)

    async def command(self, command: Command) -> CommandReply:
        self._reach(f"order {command.kind.value}")
        return await super().command(command)


class Service(Life):
    """One life of a service on a host of its own."""

    def __init__(self, yard: SharedYard, owner: str, path: Path, wanted: KeeperPolicy | None = None) -> None:
        mine = WordsDriver(owner, 1, yard.clock.ms, "kafka:journal")
        self.owner, self.ended = owner, False
        self.shared_yard = yard
        self.shared = SharedWords(lambda: LockedTopic(yard.log, owner, yard.lock), mine)
        self.shared.again_s = 0.0
        super().__init__(
            yard,
            MortalStore(path),
            wanted,
            shared=self.shared,
            seat=yard.seat_of(owner),
            look=lambda: yard.sight_of(owner),
            me=f"the service on {owner}",
        )

    async def __aenter__(self) -> Self:
        self.shared_yard.dead.discard(self.owner)
        await super().__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self.ended:
            return
        self.ended = True
        await super().__aexit__()
        await self.shared.close()

    async def kill(self) -> None:
        """End as by SIGKILL: nothing is given back, and nothing is sent any more."""
        self.shared_yard.dead.add(self.owner)
        self.shared_yard.cut(self.owner)
        await self.__aexit__()
        self.shared_yard.heal(self.owner)
