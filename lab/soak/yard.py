"""What both yards have in common: random work, brokers that die and return, and clients that count what was acknowledged."""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from threading import Event
from types import TracebackType
from typing import NamedTuple, Self

from kafka import KafkaAdminClient
from kafka.admin import NewTopic
from kafka.errors import KafkaError

from lab.demo.account import ProvedOrNot
from lab.demo.proof import check_records
from lab.demo.traffic import Traffic, read_everything
from lab.testbed.failures import PartFailed
from lab.testbed.server import Server
from shunter.errors import DriverError, RequestRejected
from shunter.model.partition import TopicPartition
from shunter.model.service import OrderRefused

COUNTED, HEAVY = "counted", "heavy"
"""Topics: producers write to the first all the time; the second has most of the bytes."""
BROKERS = (1, 2, 3)
PARTITIONS = {COUNTED: 3, HEAVY: 9}
HEAVY_RECORDS = 40
WRITES_EVERY_S = 0.25
# Kafka lets a whole fetch through now and then, however small the throttle is: smaller fetches make moves last.
PROPERTIES = {"min.insync.replicas": 1, "replica.fetch.max.bytes": 2**16, "replica.fetch.response.max.bytes": 2**16}
MOST_TOPICS = 4
PAUSE_S = (0.5, 3.5)
DEAD_S = (5.0, 25.0)
DEATHS = (0.1, 0.28)
"""When processes of Shunter's are killed, as shares of the time: after that they live long enough to be judged."""
SETTLED_WITHIN_S = 300.0
READ_WITHIN_S = 180.0


class Work(NamedTuple):
    """A kind of random work, and how often it is chosen. It returns False if there was nothing to do."""

    weight: float
    do: Callable[[], bool]


class Soak(ABC):
    """One cluster with its work. A context manager: everything that it started has ended afterwards."""

    name: str

    def __init__(self, out: Path, seed: int, minutes: float) -> None:
        """Describe it; nothing starts yet. `out`: the work is told in a file there, all else is in a folder below."""
        self.folder = out / "work" / self.name
        self._log = out / f"{self.name}.log"
        self.chance = random.Random(f"{self.name} {seed}")
        self.stack = ExitStack()
        self.tally: Counter[tuple[str, str]] = Counter()
        self.topics: list[str] = []
        """Topics that were made beside the fixed ones, and not deleted yet."""
        self._numbers = 0
        self._deaths = [share * minutes * 60 for share in DEATHS]
        self._dead: tuple[Server, float] | None = None
        self._traffic: Traffic | None = None

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.folder.mkdir(parents=True)
            self.start(stack)
            self.stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stack.close()

    # ---- of each yard

    @property
    @abstractmethod
    def bootstrap(self) -> str:
        """Addresses of the brokers."""

    @property
    @abstractmethod
    def servers(self) -> Sequence[Server]:
        """The brokers."""

    @abstractmethod
    def start(self, stack: ExitStack) -> None:
        """Start all parts; `stack` ends them."""

    @abstractmethod
    def processes(self) -> Mapping[str, int]:
        """The ids of Shunter's processes that live, by name."""

    @abstractmethod
    def works(self) -> Mapping[str, Work]:
        """The kinds of work, beside topics and brokers."""

    @abstractmethod
    def kill_process(self) -> None:
        """Kill a process of Shunter's, and start it again."""

    @abstractmethod
    def settle(self) -> list[ProvedOrNot]:
        """Let everything come to its end, and check that no move was lost."""

    # ---- of both

    def furnish(self, stack: ExitStack) -> None:
        """Make and fill the topics, and begin to write."""
        with closing(self.admin()) as admin:
            for topic, count in PARTITIONS.items():
                admin.create_topics([self._new(topic, count)])
        full = Traffic(self.bootstrap, _partitions(HEAVY))
        try:
            full.preload(HEAVY_RECORDS)
        finally:
            full.stop()
        self._traffic = Traffic(self.bootstrap, _partitions(COUNTED), pause_s=WRITES_EVERY_S)
        stack.callback(self._traffic.stop)
        self._traffic.start()

    def admin(self) -> KafkaAdminClient:
        """A client of the cluster; the caller closes it."""
        return KafkaAdminClient(bootstrap_servers=self.bootstrap.split(","))

    def work(self, over: Event) -> None:
        """Work until it is over.

        Raises:
            PartFailed: a part did not come back.
        """
        began = time.monotonic()
        while not over.wait(self.chance.uniform(*PAUSE_S)):
            now = time.monotonic() - began
            if self._dead is not None and now >= self._dead[1]:
                self._revive()
            elif self._deaths and now >= self._deaths[0]:
                self._deaths.pop(0)
                self.kill_process()
                self.note("kill of a process", "done")
            else:
                self._work_once(now)

    def note(self, what: str, outcome: str, told: object = "") -> None:
        """Count a piece of work, and write it down."""
        self.tally[what, outcome] += 1
        with self._log.open("a", encoding="utf-8") as log:
            log.write(f"{time.strftime('%H:%M:%S')} {what}: {outcome} {told}\n")

    def finish(self) -> list[ProvedOrNot]:
        """End the work by one more kill: everything settles, and what was acknowledged is read back."""
        self.kill_process()
        self._revive()
        settled = self.settle()
        assert self._traffic is not None
        self._traffic.stop()
        found = read_everything(self.bootstrap, _partitions(COUNTED), READ_WITHIN_S)
        checks = [*settled, *check_records(self._traffic.acks, found)]
        return [ProvedOrNot(f"{self.name}: {each.claim}", each.holds, each.found) for each in checks]

    def told(self) -> str:
        """What was done, a line for each kind of work."""
        kinds = sorted({what for what, _outcome in self.tally})
        lines = []
        for kind in kinds:
            counts = [f"{count} {how}" for (what, how), count in sorted(self.tally.items()) if what == kind]
            lines.append(f"  {kind}: {', '.join(counts)}")
        return "\n".join([f"{self.name}:", *lines])

    def _work_once(self, now: float) -> None:
        works = {
            **self.works(),
            "topic": Work(1, self._change_topics),
            "kill of a broker": Work(0.5, lambda: self._kill_broker(now)),
        }
        (kind,) = self.chance.choices(list(works), [each.weight for each in works.values()])
        try:
            self.note(kind, "done" if works[kind].do() else "nothing to do")
        except PartFailed:
            raise
        except (OrderRefused, RequestRejected) as refused:
            self.note(kind, "refused", refused)
        # kafka-python raises a plain RuntimeError for NOT_CONTROLLER from the node that brokers name.
        except (DriverError, KafkaError, RuntimeError, OSError) as failed:
            self.note(kind, "unanswered", f"{type(failed).__name__}: {failed}")

    def _kill_broker(self, now: float) -> bool:
        if self._dead is not None:
            return False
        server = self.chance.choice(list(self.servers))
        server.kill()
        self._dead = (server, now + self.chance.uniform(*DEAD_S))
        return True

    def _revive(self) -> None:
        if self._dead is not None:
            self._dead[0].start()
            self._dead = None

    def _change_topics(self) -> bool:
        with closing(self.admin()) as admin:
            if len(self.topics) == MOST_TOPICS or (self.topics and self.chance.random() < 0.4):
                # It counts as gone even if no answer comes: then it may be there, or not.
                gone = self.topics.pop(self.chance.randrange(len(self.topics)))
                admin.delete_topics([gone])
            else:
                self._numbers += 1
                made = f"passing-{self._numbers}"
                admin.create_topics([self._new(made, self.chance.randint(1, 4))])
                self.topics.append(made)
        return True

    def _new(self, topic: str, count: int) -> NewTopic:
        alive = [broker for broker, server in zip(BROKERS, self.servers, strict=True) if server.alive]
        placed = {number: self.chance.sample(alive, 2) for number in range(count)}
        return NewTopic(topic, -1, -1, replica_assignments=placed)


def _partitions(topic: str) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic, number) for number in range(PARTITIONS[topic]))
