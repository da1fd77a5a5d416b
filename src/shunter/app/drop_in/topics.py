"""`shunter kafka-topics --describe`: Apache 3.9's description, and KIP-455's `targetReplicas` for moving partitions.

Source: Apache Kafka 3.9, `TopicCommand`; KIP-455, "kafka-topics.sh will show an additional field, targetReplicas".
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from shunter.app.drop_in.tool import connected
from shunter.drivers.admin.blocking import BlockingAdmin
from shunter.drivers.admin.reassignments import PartitionReassignment
from shunter.errors import ShunterError
from shunter.model.partition import EligibleLeaders, TopicPartition

Echo = Callable[[str], None]


class TopicMissing(ShunterError):
    """No topic has this name, or matches this pattern."""


def describe(bootstrap: str, properties_file: Path | None, topic: str | None, echo: Echo) -> None:
    """Describe topics whose name matches `topic`, a regular expression as in Apache's tool; None: all.

    Raises:
        TopicMissing: no topic matches.
        DriverError: the cluster does not answer.
    """
    with connected(bootstrap, str(properties_file) if properties_file else None) as cluster:
        pattern = re.compile(topic.strip('"') if topic else ".*")
        names = [name for name in cluster.topic_names() if pattern.fullmatch(name)]
        if topic and not names:
            raise TopicMissing(f"Topic '{topic}' does not exist as expected")
        for line in _lines(cluster, names, cluster.list_moves()):
            echo(line)


def _lines(
    cluster: BlockingAdmin, names: list[str], moves: Mapping[TopicPartition, PartitionReassignment]
) -> Iterable[str]:
    configs = cluster.topic_settings(names)
    eligible = cluster.eligible_leaders(names)
    for topic in cluster.described(names):
        name = str(topic["name"])
        partitions = sorted(topic["partitions"], key=lambda one: int(one["partition_index"]))
        first = partitions[0] if partitions else {"replica_nodes": ()}
        factor = replication_factor(first["replica_nodes"], moves.get(TopicPartition(name, 0)))
        told = ",".join(f"{key}={value}" for key, value in configs.get(name, {}).items())
        yield (
            f"Topic: {name}\tTopicId: {_topic_id(topic['topic_id'])}\tPartitionCount: {len(partitions)}"
            f"\tReplicationFactor: {factor}\tConfigs: {told}"
        )
        for one in partitions:
            tp = TopicPartition(name, int(one["partition_index"]))
            yield _partition_line(name, one, moves.get(tp), eligible.get(tp))


def replication_factor(replicas: Sequence[int], move: PartitionReassignment | None) -> int:
    """The intended number of a partition's replicas, as Apache's tool counts them.

    Replicas that are being added don't count while any of the partition's replicas is being added or removed.
    """
    if move is None or not {*move.adding, *move.removing}.intersection(replicas):
        return len(replicas)
    return len(move.replicas) - len(move.adding)


def _partition_line(
    name: str, one: Mapping[str, Any], move: PartitionReassignment | None, eligible: EligibleLeaders | None
) -> str:
    leader = int(one["leader_id"])
    line = (
        f"\tTopic: {name}\tPartition: {one['partition_index']}\tLeader: {leader if leader >= 0 else 'none'}"
        f"\tReplicas: {_joined(one['replica_nodes'])}\tIsr: {_joined(one['isr_nodes'])}"
    )
    if move is not None:
        line += f"\tAdding Replicas: {_joined(move.adding)}\tRemoving Replicas: {_joined(move.removing)}"
        line += f"\ttargetReplicas: {_joined(move.target)}"
    elr, last_known = ("N/A", "N/A") if eligible is None else map(_joined, eligible)
    return f"{line}\tElr: {elr}\tLastKnownElr: {last_known}"


def _topic_id(value: object) -> str:
    identity = value if isinstance(value, UUID) else UUID(str(value))
    return urlsafe_b64encode(identity.bytes)[:22].decode()


def _joined(brokers: Iterable[int]) -> str:
    return ",".join(map(str, brokers))
