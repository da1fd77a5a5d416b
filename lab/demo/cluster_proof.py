"""The claims of the demo on KRaft, checked through the Admin API by a client that is not the executor's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType

from lab.demo.account import ProvedOrNot
from shunter.model.partition import ReplicaAssignment, TopicPartition


def assignments_of(admin: KafkaAdminClient, topics: Sequence[str]) -> dict[TopicPartition, ReplicaAssignment]:
    """The assignments of the partitions from the cluster, with replicas that are being added and removed."""
    ongoing = admin.list_partition_reassignments()
    moving = {
        TopicPartition(tp.topic, tp.partition): (tuple(found["adding_replicas"]), tuple(found["removing_replicas"]))
        for tp, found in ongoing.items()
    }
    found: dict[TopicPartition, ReplicaAssignment] = {}
    for topic in admin.describe_topics(list(topics)):
        for partition in topic["partitions"]:
            tp = TopicPartition(topic["name"], partition["partition_index"])
            adding, removing = moving.get(tp, ((), ()))
            found[tp] = ReplicaAssignment(tuple(partition["replica_nodes"]), adding, removing)
    return found


def check_nothing_ongoing(admin: KafkaAdminClient) -> ProvedOrNot:
    """Check that the cluster lists no reassignment."""
    ongoing = sorted(f"{tp.topic}-{tp.partition}" for tp in admin.list_partition_reassignments())
    return ProvedOrNot("the cluster lists no reassignment", not ongoing, ", ".join(ongoing[:5]) or "none")


def check_throttles(admin: KafkaAdminClient, topics: Sequence[str], brokers: Sequence[int]) -> ProvedOrNot:
    """Check that no throttle is left at any topic or broker."""
    resources = [ConfigResource(ConfigResourceType.TOPIC, topic) for topic in topics]
    resources += [ConfigResource(ConfigResourceType.BROKER, str(broker)) for broker in brokers]
    described: Mapping[str, Any] = admin.describe_configs(resources, config_filter="modified")
    left = [
        f"{kind} {name} {setting}"
        for kind, by_name in sorted(described.items())
        for name, settings in sorted(by_name.items())
        for setting in sorted(settings)
        if "throttled" in setting
    ]
    return ProvedOrNot("no throttle is left over", not left, ", ".join(left[:5]) or "none")


def check_journal(status: Mapping[str, Any]) -> ProvedOrNot:
    """Check that by the journal nothing is under way, no throttle is owed, and no executor drives it."""
    closed = not status["running"] and not status["throttles_left"] and status["holder"] is None
    counts = ", ".join(f"{count} {state.replace('_', ' ')}" for state, count in sorted(status["counts"].items()))
    return ProvedOrNot("the journal is closed", closed, counts)
