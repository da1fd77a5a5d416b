"""What both demos play with: topics on brokers 1 and 2, clients that never stop, and where everything shall go."""

from __future__ import annotations

import logging
import signal
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from kafka import KafkaAdminClient
from kafka.admin import NewTopic

from shunter.app.demo.account import Screen
from shunter.app.demo.traffic import Traffic
from shunter.model.partition import Replicas, TopicPartition

TOPICS = ("orders", "payments", "clicks")
PARTITIONS = 8
PRELOADED_RECORDS = 60
THROTTLE_BYTES_PER_S = 4_000_000
SLOW_BYTES_PER_S = 1_000_000
MOST_AT_ONCE = 6
FROM, TO = (1, 2), (3, 4)
MOVE_TIMEOUT_S = 180.0
READ_BACK_TIMEOUT_S = 120.0


def all_partitions() -> tuple[TopicPartition, ...]:
    """All partitions that are written to, and moved."""
    return tuple(TopicPartition(topic, number) for topic in TOPICS for number in range(PARTITIONS))


def original_of(tp: TopicPartition) -> Replicas:
    """Where a partition is at the beginning: both brokers lead half of them."""
    turned = tp.partition % 2
    return (FROM[turned], FROM[1 - turned])


def target_of(tp: TopicPartition) -> Replicas:
    """Where it shall be."""
    turned = tp.partition % 2
    return (TO[turned], TO[1 - turned])


def create_topics(admin: KafkaAdminClient) -> None:
    """Make the topics, every replica where it shall be first."""
    placed = {
        topic: {number: list(original_of(TopicPartition(topic, number))) for number in range(PARTITIONS)}
        for topic in TOPICS
    }
    admin.create_topics([NewTopic(topic, -1, -1, replica_assignments=found) for topic, found in placed.items()])


def start_traffic(screen: Screen, bootstrap: str, stack: ExitStack, client: Mapping[str, Any] | None = None) -> Traffic:
    """Fill the topics and let clients begin; `stack` stops them. `client` says how they come in."""
    traffic = Traffic(bootstrap, all_partitions(), client=client)
    stack.callback(traffic.stop)
    traffic.preload(PRELOADED_RECORDS)
    traffic.start()
    screen.detail(f"{traffic.acked:,} records in; acks=all producers and a consumer keep running")
    return traffic


def be_quiet() -> None:
    """Client libraries say nothing of brokers that come and go, and SIGTERM ends everything in order."""
    for name in ("kafka", "kazoo"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
