"""What the clusters of both modes have in common: topics under load, moves that last, and what is judged at the end."""

from __future__ import annotations

import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from kafka import KafkaAdminClient
from kafka.admin import NewTopic
from kafka.errors import KafkaError

from lab.demo.account import ProvedOrNot
from lab.demo.cluster_proof import assignments_of
from lab.demo.traffic import Traffic
from lab.testbed.failures import PartFailed
from lab.testbed.process import run_bounded
from lab.testbed.server import Server
from lab.testbed.waiting import wait_until
from shunter.errors import DriverError
from shunter.model.partition import Replicas, TopicPartition

BROKERS = (1, 2, 3, 4)
ORIGINAL, TARGET = (1, 2, 3), (4, 3, 2)
LEADER, ADDED = 1, 4
"""The broker that leads each partition and is removed, and the one that is added."""
PARTITIONS = 4
RECORDS = 20
"""Of 60,000 bytes in each partition, before the moves begin."""
RATE_BYTES_PER_S = 120_000
# Kafka lets a whole fetch through now and then, however small the throttle is: smaller fetches make moves last.
PROPERTIES = {"min.insync.replicas": 2, "replica.fetch.max.bytes": 2**16, "replica.fetch.response.max.bytes": 2**16}
COMMAND_WITHIN_S = 90.0
TAKEN_WITHIN_S = 240.0
ENDS_WITHIN_S = 300.0


class Fault(NamedTuple):
    """A fault: what breaks, for how many seconds, and what mends it."""

    name: str
    strike: Callable[[], object]
    held_s: float
    mend: Callable[[], object]


class FaultedCluster(ABC):
    """One cluster. A context manager: everything that it started has ended afterwards."""

    title: str
    """Of its table."""

    def __init__(self, folder: Path) -> None:
        """Describe it; nothing starts yet."""
        self.folder = folder
        self.topic = ""
        self._numbers = 0
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.folder.mkdir(parents=True)
            self.start(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    # ---- of each mode

    @property
    @abstractmethod
    def bootstrap(self) -> str:
        """Addresses of the brokers."""

    @property
    @abstractmethod
    def brokers(self) -> Mapping[int, Server]:
        """The brokers by id."""

    @abstractmethod
    def start(self, stack: ExitStack) -> None:
        """Start all parts; `stack` ends them."""

    @abstractmethod
    def faults(self) -> Sequence[Fault]:
        """The rows of the table."""

    @abstractmethod
    def begin(self, plan: Path) -> None:
        """Begin the moves of a plan, slowly."""

    @abstractmethod
    def hurry(self) -> None:
        """Lift what makes the moves slow."""

    @abstractmethod
    def command(self, verb: str) -> Sequence[str]:
        """The rest of a verb's command line: which moves it is about."""

    @abstractmethod
    def is_over(self) -> bool:
        """Whether Shunter says that nothing moves any more."""

    @abstractmethod
    def left_over(self) -> Sequence[ProvedOrNot]:
        """Whether anything is left of moves that have ended."""

    # ---- of both

    def admin(self) -> KafkaAdminClient:
        """A client of the cluster; the caller closes it."""
        return KafkaAdminClient(bootstrap_servers=self.bootstrap.split(","))

    def furnish(self) -> tuple[TopicPartition, ...]:
        """Make a topic for the next cell and fill it; its partitions."""
        self._numbers += 1
        self.topic = self._made(f"cell-{self._numbers}", PARTITIONS)
        partitions = tuple(TopicPartition(self.topic, number) for number in range(PARTITIONS))
        filled = Traffic(self.bootstrap, partitions)
        try:
            filled.preload(RECORDS)
        finally:
            filled.stop()
        return partitions

    def committed(self) -> str:
        """Make a topic for transactions beside that of the cell; it does not move."""
        return self._made(f"{self.topic}-committed", 2)

    def _made(self, topic: str, partitions: int) -> str:
        made = NewTopic(topic, -1, -1, replica_assignments={at: list(ORIGINAL) for at in range(partitions)})
        with closing(self.admin()) as admin:
            admin.create_topics([made])
        return topic

    def plan(self) -> Path:
        """Write the plan of the cell."""
        path = self.folder / f"{self.topic}.json"
        moves = [{"topic": self.topic, "partition": number, "replicas": TARGET} for number in range(PARTITIONS)]
        path.write_text(json.dumps({"version": 1, "partitions": moves}), encoding="utf-8")
        return path

    def turn(self, verb: str, *arguments: str) -> None:
        """Give an order as from another shell, again and again until it is taken or nothing moves any more.

        Raises:
            PartFailed: it was not taken in time.
        """
        told: list[str] = []

        def taken() -> bool:
            asked = run_bounded(self.shunter(verb, *arguments), timeout_s=COMMAND_WITHIN_S)
            told[:] = [asked.stdout + asked.stderr]
            return asked.returncode == 0 or self._is_quiet()

        try:
            wait_until(taken, what=f"{verb} is taken", timeout_s=TAKEN_WITHIN_S, interval_s=2)
        except PartFailed as failed:
            raise PartFailed(f"{failed}; its last answer: {told}") from failed

    def shunter(self, verb: str, *arguments: str) -> list[str]:
        """A command line."""
        return [sys.executable, "-m", "shunter", verb, *arguments, *self.command(verb)]

    def moving(self) -> bool:
        """Whether a partition of the cell is being reassigned, by a client that is not Shunter's."""
        with closing(self.admin()) as admin:
            return any(each.in_motion for each in assignments_of(admin, [self.topic]).values())

    def wait_over(self) -> None:
        """Wait until Shunter and the cluster say that nothing moves.

        Raises:
            PartFailed: something still moves.
        """
        wait_until(self._is_quiet, what="nothing moves any more", timeout_s=ENDS_WITHIN_S, interval_s=1)

    def _is_quiet(self) -> bool:
        try:
            return self.is_over() and not self.moving()
        except (DriverError, KafkaError, RuntimeError, OSError):
            return False

    def ended_in(self, allowed: Collection[Replicas] | None) -> ProvedOrNot:
        """Whether each partition has one of these assignments, in order; None: any whole one of the move's brokers."""
        with closing(self.admin()) as admin:
            found = assignments_of(admin, [self.topic])
        wrong = [
            f"{tp}: {each}"
            for tp, each in sorted(found.items())
            if each.in_motion
            or (each.replicas not in allowed if allowed is not None else len(set(each.replicas)) < len(ORIGINAL))
        ]
        return ProvedOrNot("each partition is where it has to be", not wrong, "; ".join(wrong) or f"{len(found)}")

    def wait_well(self) -> None:
        """Wait until all replicas are in sync again, so that the next cell begins with a healthy cluster.

        Raises:
            PartFailed: they are not in time.
        """

        def well() -> bool:
            try:
                with closing(self.admin()) as admin:
                    parts = [part for topic in admin.describe_topics() for part in topic["partitions"]]
            except (KafkaError, RuntimeError, OSError):
                return False
            return all({*part["isr_nodes"]} == {*part["replica_nodes"]} for part in parts)

        wait_until(well, what="all replicas are in sync", timeout_s=ENDS_WITHIN_S, interval_s=1)

    # ---- faults of both

    def of_brokers(self) -> list[Fault]:
        """Faults of brokers that both modes have."""
        added, leads = self.brokers[ADDED], self.brokers[LEADER]
        return [
            Fault("SIGKILL of the broker that is added", added.kill, 8, added.start),
            Fault("SIGKILL of the leader that is removed", leads.kill, 8, leads.start),
            Fault("SIGSTOP of the broker that is added", added.pause, 25, added.resume),
            Fault("SIGSTOP of the leader that is removed", leads.pause, 25, leads.resume),
            Fault("SIGKILL of all brokers", self._kill_all, 8, self.start_dead),
            Fault("a rolling restart", lambda: self._restart(leads), 0, self._roll),
            Fault("the added broker comes back empty", lambda: self._empty(added), 3, added.start),
        ]

    def start_dead(self) -> None:
        """Start the brokers that are dead, side by side."""
        dead = [each for each in self.brokers.values() if not each.alive]
        for each in dead:
            each.launch()
        for each in dead:
            each.wait_ready()

    def _kill_all(self) -> None:
        for each in self.brokers.values():
            each.kill()

    def _roll(self) -> None:
        for each in [*self.brokers.values()][1:]:
            self._restart(each)

    def _restart(self, server: Server) -> None:
        server.restart()

    def _empty(self, server: Server) -> None:
        """Kill a broker, and remove all logs of topics from its log dirs."""
        server.kill()
        for log in server.folder.glob(f"*/{self.topic}-*"):
            for file in sorted(log.rglob("*"), reverse=True):
                file.unlink() if file.is_file() else file.rmdir()
            log.rmdir()
