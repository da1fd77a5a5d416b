"""The common parts of all demos: topics on brokers 1 and 2, clients that never stop, and the targets of moves."""

from __future__ import annotations

import logging
import shutil
import signal
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafka import KafkaAdminClient
from kafka.admin import NewTopic

from lab.demo.account import MovesSeen, Screen
from lab.demo.traffic import Traffic
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
WAITS_SHOWN = 3


def all_partitions() -> tuple[TopicPartition, ...]:
    """All partitions that are written and moved."""
    return tuple(TopicPartition(topic, number) for topic in TOPICS for number in range(PARTITIONS))


def original_of(tp: TopicPartition) -> Replicas:
    """A partition's original replicas. Each broker leads half of the partitions."""
    turned = tp.partition % 2
    return (FROM[turned], FROM[1 - turned])


def target_of(tp: TopicPartition) -> Replicas:
    """A partition's target."""
    turned = tp.partition % 2
    return (TO[turned], TO[1 - turned])


def create_topics(admin: KafkaAdminClient) -> None:
    """Make the topics, with every replica at its original broker."""
    placed = {
        topic: {number: list(original_of(TopicPartition(topic, number))) for number in range(PARTITIONS)}
        for topic in TOPICS
    }
    admin.create_topics([NewTopic(topic, -1, -1, replica_assignments=found) for topic, found in placed.items()])


def start_traffic(screen: Screen, bootstrap: str, stack: ExitStack, client: Mapping[str, Any] | None = None) -> Traffic:
    """Fill the topics and start the clients; `stack` stops them. `client` is their configuration."""
    traffic = Traffic(bootstrap, all_partitions(), client=client)
    stack.callback(traffic.stop)
    traffic.preload(PRELOADED_RECORDS)
    traffic.start()
    screen.detail(f"{traffic.acked:,} records in; acks=all producers and a consumer keep running")
    return traffic


def moves_seen(
    view: Mapping[str, Any],
    counts: Mapping[str, int],
    rows: Iterable[Mapping[str, Any]],
    traffic: Traffic,
    started: float,
    controller: str,
) -> MovesSeen:
    """A look at the moves from the executor's own view, for the display.

    Args:
        view: The executor's figures for all moves together.
        counts: The number of moves by state.
        rows: The moves.
        traffic: The clients.
        started: When the demo began (monotonic, seconds).
        controller: The address to show beside the moves.
    """
    moving = counts.get("moving", 0) + counts.get("paused", 0)
    pending = counts.get("pending", 0)
    waits = [f"{row['partition']}: {row['waits']}" for row in rows if row["state"] == "moving" and row["waits"]]
    return MovesSeen(
        elapsed_s=time.monotonic() - started,
        partitions=sum(counts.values()),
        done=sum(counts.values()) - moving - pending,
        moving=moving,
        pending=pending,
        bytes_copied=int(view["copied_bytes"]),
        bytes_total=int(view["total_bytes"]),
        rate_bytes_per_s=view["bytes_per_s"],
        eta_s=None if view["left_ms"] is None else view["left_ms"] / 1000,
        acked=traffic.acked,
        consumed=traffic.consumed,
        waits=tuple(waits[:WAITS_SHOWN]),
        controller=controller,
    )


@dataclass(slots=True)
class DemoFolder:
    """A folder with a demo's parts and their logs. `held`: every claim was true."""

    path: Path
    held: bool = False


@contextmanager
def demo_folder(screen: Screen) -> Iterator[DemoFolder]:
    """A folder for one demo and its logs. It is deleted if every claim held; else its path is shown."""
    folder = DemoFolder(Path(tempfile.mkdtemp(prefix="shunter-demo-")))
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # SIGTERM, like ctrl-C, stops all parts in order.
    try:
        with clients_log(folder.path / "clients.log"):
            yield folder
    finally:
        if folder.held:
            shutil.rmtree(folder.path, ignore_errors=True)
        else:
            screen.detail(f"logs are in {folder.path}")


@contextmanager
def clients_log(path: Path) -> Iterator[None]:
    """Write the log lines of client libraries to a file, so that they don't disturb the demo's output."""
    handler = logging.FileHandler(path, delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    clients = [logging.getLogger(name) for name in ("kafka", "kazoo")]
    for logger in clients:
        logger.setLevel(logging.WARNING)
        logger.propagate = False
        logger.addHandler(handler)
    try:
        yield
    finally:
        for logger in clients:
            logger.removeHandler(handler)
            logger.propagate = True
        handler.close()
