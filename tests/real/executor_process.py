"""The executor as an operator runs it: a process and its journal; and a client that observes the cluster."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from kafka.admin import ConfigResource, ConfigResourceType, NewTopic
from kafka.errors import IncompatibleBrokerVersion, KafkaConnectionError, UnsupportedVersionError
from tidying import remember

from lab.testbed.waiting import wait_until
from shunter.drivers.admin.client import PinnedAdminClient
from shunter.drivers.admin.metadata import live_brokers

SHUNTER = [sys.executable, "-c", "from shunter.cli import main; main()"]
THROTTLES = (
    "leader.replication.throttled.rate",
    "follower.replication.throttled.rate",
    "leader.replication.throttled.replicas",
    "follower.replication.throttled.replicas",
)
Replicas = tuple[int, ...]
T = TypeVar("T")


class Shunter:
    """Commands of `shunter` against one cluster and one journal."""

    def __init__(
        self, bootstrap: str, journal: Path | None = None, *, topic: str = "", state: Path | None = None
    ) -> None:
        """Describe the cluster and the journal. Another state folder stands for another host."""
        self._host = [] if state is None else ["/usr/bin/env", f"SHUNTER_STATE={state}"]
        self.bootstrap = bootstrap
        self.journal = Path("/nowhere") if journal is None else journal
        self._place = ["--journal-topic", topic] if topic else ["--journal", str(self.journal)]

    def command(self, verb: str, *arguments: str) -> list[str]:
        return [*self._host, *SHUNTER, verb, *arguments, "--bootstrap-server", self.bootstrap, *self._place]

    def run(self, verb: str, *arguments: str, timeout_s: float = 90.0) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(verb, *arguments), capture_output=True, text=True, timeout=timeout_s, check=False
        )

    def look(self, verb: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a verb that uses no journal."""
        command = [*self._host, *SHUNTER, verb, *arguments, "--bootstrap-server", self.bootstrap]
        return subprocess.run(command, capture_output=True, text=True, timeout=90.0, check=False)

    def start(self, verb: str, *arguments: str) -> Running:
        return Running(self.command(verb, *arguments, "--json"))


class Running:
    """A command that runs in the background; its JSON lines are read as they come."""

    def __init__(self, command: list[str]) -> None:
        """Start it."""
        self.lines: list[dict[str, Any]] = []
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
        )
        remember(self.process)
        self.errors: list[str] = []
        self._readers = [
            threading.Thread(target=self._read, daemon=True),
            threading.Thread(target=self._hear, daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as stream:
            for line in stream:
                if line.startswith("{") and line.endswith("}\n"):
                    self.lines.append(json.loads(line))

    def _hear(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as stream:
            self.errors.extend(stream)

    @property
    def progress(self) -> dict[str, Any]:
        told = [line for line in list(self.lines) if line["event"] == "progress"]
        return told[-1] if told else {"share": 0.0, "counts": {}}

    def wait_for(self, what: Callable[[], bool], *, about: str, timeout_s: float = 60.0) -> None:
        wait_until(lambda: what() or self.process.poll() is not None, what=about, timeout_s=timeout_s)
        assert self.process.poll() is None, f"ended with {self.process.returncode}: {self.lines[-3:]} {self.errors}"

    def kill(self) -> None:
        self.process.kill()
        self.end()

    def lives_for(self, seconds: float) -> bool:
        """Whether the process still runs after so many seconds."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return True
        return False

    def end(self, timeout_s: float = 120.0) -> int:
        code = self.process.wait(timeout_s)
        for reader in self._readers:
            reader.join(10)
        return code


class Cluster:
    """The cluster as the tests see it, by a client of their own."""

    def __init__(self, bootstrap: str) -> None:
        """Connect."""
        self.admin = PinnedAdminClient(
            bootstrap_servers=bootstrap.split(",")
        )  # The library can't describe old brokers.

    def close(self) -> None:
        self.admin.close()

    def make(self, topic: str, assignments: Mapping[int, Replicas], configs: Mapping[str, str] | None = None) -> None:
        listed = {number: list(replicas) for number, replicas in assignments.items()}
        self.admin.create_topics([NewTopic(topic, replica_assignments=listed, topic_configs=dict(configs or {}))])
        self.admin.wait_for_topics([topic], timeout_ms=30_000)

    def _asked(self, ask: Callable[[], T]) -> T:
        """An answer of the cluster. While the client chooses the broker that has just died, it is asked again."""
        found: list[T] = []

        def answered() -> bool:
            with suppress(KafkaConnectionError):
                found.append(ask())
            return bool(found)

        wait_until(answered, what="a live broker answers", timeout_s=10)
        return found[0]

    def partitions(self, topic: str) -> dict[int, Mapping[str, Any]]:
        """A topic's partitions, as the library describes them."""
        (found,) = self._asked(lambda: self.admin.describe_topics([topic]))
        return {part["partition_index"]: part for part in found["partitions"]}

    def replicas(self, topic: str) -> dict[int, Replicas]:
        return {number: tuple(part["replica_nodes"]) for number, part in self.partitions(topic).items()}

    def leaders(self, topic: str) -> dict[int, int]:
        return {number: part["leader_id"] for number, part in self.partitions(topic).items()}

    def isr(self, topic: str) -> dict[int, set[int]]:
        return {number: set(part["isr_nodes"]) for number, part in self.partitions(topic).items()}

    def in_sync(self, topic: str) -> bool:
        return all(set(part["isr_nodes"]) == set(part["replica_nodes"]) for part in self.partitions(topic).values())

    def listed(self, broker: int, log_dir: Path, topic: str) -> set[int]:
        """Partitions of a topic that a broker says it has in one of its log dirs."""
        told = self._asked(
            lambda: self.admin.describe_log_dirs({topic: list(self.partitions(topic))}, brokers=[broker])
        )
        return {
            int(part["partition_index"])
            for each in told[0]["log_dirs"]
            if each["log_dir"] == str(log_dir)
            for found in each["topics"]
            for part in found["partitions"]
        }

    def live(self) -> set[int]:
        """Registered brokers that are not fenced."""
        return set(live_brokers(self._asked(self.admin.describe_cluster)))

    def controller(self) -> int:
        """The controller's id. In a KRaft cluster the quorum's leader, because there brokers name any broker."""
        try:
            quorum = self._asked(self.admin.describe_metadata_quorum)
        except (IncompatibleBrokerVersion, UnsupportedVersionError):
            return int(self._asked(self.admin.describe_cluster)["controller_id"])
        return int(quorum["topics"][0]["partitions"][0]["leader_id"])

    def moving(self, topic: str) -> set[int]:
        """Partitions of a topic that are being reassigned."""
        return {tp.partition for tp in self._asked(self.admin.list_partition_reassignments) if tp.topic == topic}

    def ongoing(self) -> int:
        return len(self._asked(self.admin.list_partition_reassignments))

    def throttles(self, brokers: tuple[int, ...], topics: tuple[str, ...]) -> dict[str, str]:
        """Every throttle that is set at a broker or topic itself."""
        resources = [ConfigResource(ConfigResourceType.BROKER, str(broker)) for broker in brokers]
        resources += [ConfigResource(ConfigResourceType.TOPIC, topic) for topic in topics]
        described = self._asked(lambda: self.admin.describe_configs(resources, config_filter="modified"))
        return {
            f"{kind} {name} {setting}": str(config["value"])
            for kind, by_name in described.items()
            for name, settings in by_name.items()
            for setting, config in settings.items()
            if setting in THROTTLES and config["config_source"].startswith("DYNAMIC")
        }

    def set_throttle(self, broker: int, rate: int) -> bool:
        """Set a leader throttle as another tool would; whether the broker took it."""
        resource = ConfigResource(ConfigResourceType.BROKER, str(broker), {THROTTLES[0]: str(rate)})
        done = self.admin.alter_configs([resource], raise_on_unknown=False, incremental=True)
        return set(done["broker"].values()) == {"OK"}


def write_plan(path: Path, topic: str, targets: Mapping[int, Replicas]) -> Path:
    """A plan file."""
    partitions = [{"topic": topic, "partition": n, "replicas": list(found)} for n, found in sorted(targets.items())]
    path.write_text(json.dumps({"version": 1, "partitions": partitions}))
    return path


def leads_nothing(cluster: Cluster, topic: str, broker: int) -> bool:
    """Whether a broker leads no partition of a topic."""
    return broker not in cluster.leaders(topic).values()
