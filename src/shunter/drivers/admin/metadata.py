"""Topics and brokers by the cluster's metadata: from the broker that is least late, and compared with other brokers.

A broker's metadata never go back, but after thousands of moves some brokers are late by seconds.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafka import errors as kafka_errors

from shunter.drivers.admin.answers import TopicsSeen, topic_seen
from shunter.drivers.admin.client import FIRST_OF_4_3, is_shunters
from shunter.drivers.admin.settings import min_insync
from shunter.errors import DriverError
from shunter.model.execution import ObservedTopic
from shunter.model.partition import BrokerId, TopicPartition

SETTINGS_FRESH_S = 60.0
"""A topic's min.insync.replicas is read again after this time."""
QUORUM_FRESH_S = 5.0
VERSION_FRESH_S = 60.0
ASKED_FOR_AGREEMENT = 3
"""This many other brokers have to report the same replicas before a plan is accepted."""


def live_brokers(described: Mapping[str, Any]) -> dict[BrokerId, str | None]:
    """Return live brokers and their racks, by id, from an answer to DescribeCluster; Shunter's controller is one."""
    return {
        int(broker["broker_id"]): broker.get("rack")
        for broker in sorted(described["brokers"], key=lambda broker: int(broker["broker_id"]))
        if not broker.get("is_fenced", False)
    }


@dataclass(slots=True)
class MetadataObserver:
    """Reads metadata, and remembers values that need not be read at every turn. Its calls block."""

    min_isr: dict[str, tuple[float, int]] = field(default_factory=dict[str, tuple[float, int]])
    controller: tuple[float, BrokerId] = (-1e9, -1)
    quorum: bool | None = None
    """Whether the cluster has a KRaft quorum; None: not known yet."""
    needs_all: tuple[float, BrokerId, bool | None] = (-1e9, -1, None)
    """When the controller's version was read, which controller that was, and what follows for `TopicsSeen.needs_all`."""
    addresses: tuple[str, ...] = ()
    """Addresses of all brokers at the last reading: the brokers that were named at the start may die."""

    def observe(self, client: Any, names: Sequence[str], *, sure: bool) -> TopicsSeen:
        """Read the metadata of topics, and which brokers are up.

        Args:
            client: If its `pinned` is None, a broker is chosen here.
            names: Of topics.
            sure: Ask other brokers as well.

        Raises:
            DriverError: brokers disagree: ask again.
        """
        topics: dict[str, ObservedTopic | None] = dict.fromkeys(names)
        if client.pinned is None:
            client.pinned = self._least_late(client)
        if names:
            found = client.describe_topics(list(names))
            present = [str(topic["name"]) for topic in found if topic["error_code"] == 0]
            min_isr = self._min_isr(client, present)
            for topic in found:
                topics[str(topic["name"])] = topic_seen(topic, min_isr)
        described = client.describe_cluster()
        self.addresses = tuple(f"{broker['host']}:{broker['port']}" for broker in described["brokers"])
        brokers = live_brokers(described)
        _doubt(client, [name for name, topic in topics.items() if topic is None], brokers)
        if sure:
            _agree(client, topics, brokers)
        return TopicsSeen(topics, brokers, *self.controller_of(client, described))

    def _least_late(self, client: Any) -> BrokerId | None:
        """Choose the broker to ask for metadata.

        In ZooKeeper mode it is the controller. In KRaft it is the quorum's leader if that is a live broker, else the
        broker that has read most of the metadata log.
        """
        described = client.describe_cluster()
        live = live_brokers(described)
        if self._controller(client, int(described["controller_id"])) < 0 or not self.quorum:
            controller = int(described["controller_id"])
            return controller if controller in live else None
        try:
            partition = client.describe_metadata_quorum()["topics"][0]["partitions"][0]
        except (kafka_errors.KafkaError, LookupError):
            return None
        read = {
            int(replica["replica_id"]): int(replica["log_end_offset"])
            for replica in (*partition["current_voters"], *partition["observers"])
        }
        leader = int(partition["leader_id"])
        if leader in live:
            return leader
        return max(sorted(live), key=lambda broker: read.get(broker, -1), default=None)

    def controller_of(self, client: Any, described: Mapping[str, Any]) -> tuple[BrokerId, bool | None]:
        """Return the controller (-1: not known), and `TopicsSeen.needs_all`, by an answer to DescribeCluster."""
        controller = self._controller(client, int(described["controller_id"]))
        return controller, self._needs_all(client, controller, live_brokers(described))

    def _controller(self, client: Any, said: BrokerId) -> BrokerId:
        """Return the controller; in KRaft the quorum's leader, because brokers there name any broker as controller."""
        if self.quorum is False:
            return said
        asked_at, known = self.controller
        now = time.monotonic()
        if now - asked_at < QUORUM_FRESH_S:
            return known
        try:
            quorum = client.describe_metadata_quorum()
            known, self.quorum = int(quorum["topics"][0]["partitions"][0]["leader_id"]), True
        except (kafka_errors.IncompatibleBrokerVersion, kafka_errors.UnsupportedVersionError):
            self.quorum = False
            return said
        except (kafka_errors.KafkaError, LookupError):
            known = -1
        self.controller = (now, known)
        return known

    def _needs_all(self, client: Any, controller: BrokerId, live: Collection[BrokerId]) -> bool | None:
        """See `TopicsSeen.needs_all`: by the version of the controller if it is a broker, else by the one in force."""
        now, (read_at, of, known) = time.monotonic(), self.needs_all
        if of == controller and now - read_at < VERSION_FRESH_S:
            return known
        try:
            if not self.quorum:
                known = None if self.quorum is None or is_shunters(client) else True
            elif controller in live:
                newest = client.newest_metadata_version(controller)
                known = None if newest is None else newest < FIRST_OF_4_3
            else:  # The other nodes may be newer than the version in force.
                known = False if (client.metadata_version() or 0) >= FIRST_OF_4_3 else None
        except (kafka_errors.KafkaError, LookupError):
            known = None
        self.needs_all = (now, controller, known)
        return known

    def _min_isr(self, client: Any, names: Iterable[str]) -> dict[str, int]:
        now = time.monotonic()
        known = self.min_isr
        due = [name for name in names if name not in known or now - known[name][0] > SETTINGS_FRESH_S]
        if due:
            known.update({name: (now, value) for name, value in min_insync(client, due).items()})
        return {name: known[name][1] for name in names}


def _doubt(client: Any, absent: Sequence[str], brokers: Iterable[BrokerId]) -> None:
    """Ask another broker about absent topics: under load a new topic is known to some brokers seconds before others.

    Raises:
        DriverError: another broker knows a topic that the pinned broker does not know: ask again.
    """
    others = [broker for broker in sorted(brokers) if broker != client.pinned]
    for broker in others[:1] if absent and client.pinned is not None else ():
        known = client.known_to(broker, absent)
        if known:
            told = f"broker {broker} knows topic {known[0]}, and broker {client.pinned} does not yet"
            raise DriverError(f"Metadata: {told}", retriable=True)


def _agree(client: Any, topics: Mapping[str, ObservedTopic | None], brokers: Iterable[BrokerId]) -> None:
    """Ask other brokers for the replicas too: after thousands of moves any broker may be late by seconds.

    Raises:
        DriverError: another broker reports other replicas: ask again.
    """
    told = {
        TopicPartition(name, number): partition.replicas
        for name, topic in topics.items()
        if topic is not None
        for number, partition in topic.partitions.items()
    }
    names = sorted({tp.topic for tp in told})
    others = [broker for broker in sorted(brokers) if broker != client.pinned]
    for broker in others[:ASKED_FOR_AGREEMENT] if names else ():
        for tp, replicas in client.replicas_at(broker, names).items():
            if told.get(tp, replicas) != replicas:
                where = f"broker {broker} tells replicas {list(replicas)} of {tp}"
                raise DriverError(f"Metadata: {where}, and another broker {list(told[tp])}", retriable=True)
