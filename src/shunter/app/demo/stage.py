"""What all demos play with: topics on brokers 1 and 2, clients that never stop, and where everything shall go."""

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

from shunter.app.demo.account import MovesSeen, Screen
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
WAITS_SHOWN = 3


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


def moves_seen(
    view: Mapping[str, Any],
    counts: Mapping[str, int],
    rows: Iterable[Mapping[str, Any]],
    traffic: Traffic,
    started: float,
    controller: str,
) -> MovesSeen:
    """The executor's own account of itself, as demos show it.

    Args:
        view: What it tells of all moves together.
        counts: Moves by their state.
        rows: The moves.
        traffic: What clients do meanwhile.
        started: When the demo began (monotonic, seconds).
        controller: Who carries the moves out.
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
    """Where a demo keeps its parts and their logs. `held`: everything that it claims was true."""

    path: Path
    held: bool = False


@contextmanager
def demo_folder(screen: Screen) -> Iterator[DemoFolder]:
    """A folder for one demo and its logs. It goes if all held; else people are told where it is."""
    folder = DemoFolder(Path(tempfile.mkdtemp(prefix="shunter-demo-")))
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # It ends everything in order.
    try:
        with _clients_log(folder.path / "clients.log"):
            yield folder
    finally:
        if folder.held:
            shutil.rmtree(folder.path, ignore_errors=True)
        else:
            screen.detail(f"logs are in {folder.path}")


@contextmanager
def _clients_log(path: Path) -> Iterator[None]:
    """What client libraries say of brokers that come and go stands in a file, and not between the demo's lines."""
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
