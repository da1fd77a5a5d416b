"""How long a partition is without a leader when its leader and the controller die at once: Shunter's standby, Apache's.

    python lab/benchmarks/controller_failover.py [--rounds 5] [--session-ms 6000]

Real ZooKeeper and real Kafka 3.9 brokers run on this machine; with Shunter also an active controller and a standby.
Each round kills (SIGKILL, at the same moment) the active controller and the broker that leads a new topic. With
Apache both are one process, the broker that is the controller. The table has the wall time from the kill until
ZooKeeper has another controller, until ZooKeeper has another leader of every partition of the topic, and until a
surviving broker returns these leaders to clients. All sessions have the same timeout, and most of the time is spent
waiting for their expiry.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from kafka import KafkaAdminClient
from kafka.admin import NewTopic
from kafka.errors import KafkaError
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException

from lab.testbed.cluster import ZooKeeperCluster
from lab.testbed.controller import ShunterController
from lab.testbed.failures import PartFailed
from lab.testbed.server import Server
from lab.testbed.waiting import wait_until

BROKERS = (1, 2, 3)
PARTITIONS = 8
BOUND_SECONDS = 120
EVENTS = ("another controller", "another leader in ZooKeeper", "clients are told")

Round = tuple[float, float, float, int]
"""Seconds until each of the events, and the broker id of the new controller."""


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=tuple(SIDES), help="one of the two")
    parser.add_argument("--session-ms", type=int, default=6_000, help="of controllers and brokers alike")
    return parser.parse_args()


@contextmanager
def watching(connect: str) -> Iterator[KazooClient]:
    """A ZooKeeper client for the benchmark."""
    client = KazooClient(connect, timeout=30)
    client.start()
    try:
        yield client
    finally:
        client.stop()
        client.close()


def document(client: KazooClient, path: str) -> dict[str, object]:
    """A znode's JSON; empty if the znode does not exist."""
    with suppress(KazooException):
        return dict(json.loads(client.get(path)[0]))
    return {}


def controller_of(client: KazooClient) -> object:
    """The controller's broker id and the time of its election; None: there is none."""
    found = document(client, "/controller")
    return (found.get("brokerid"), found.get("timestamp")) if found else None


def leaders_of(client: KazooClient, topic: str) -> list[object]:
    """The leader of each partition, as ZooKeeper has it."""
    paths = (f"/brokers/topics/{topic}/partitions/{number}/state" for number in range(PARTITIONS))
    return [document(client, path).get("leader", -1) for path in paths]


def told_leaders(admin: KafkaAdminClient, topic: str) -> list[int]:
    """The leader of each partition, as a broker returns it to clients."""
    with suppress(KafkaError):
        return [each["leader_id"] for found in admin.describe_topics([topic]) for each in found["partitions"]]
    return []


def one_round(cluster: ZooKeeperCluster, client: KazooClient, topic: str, victims: list[Server], leader: int) -> Round:
    """Make the topic, kill the victims, and measure."""
    survivor = next(broker for id_, broker in cluster.brokers.items() if id_ != leader)
    others = [id_ for id_ in BROKERS if id_ != leader]
    with_topic = KafkaAdminClient(bootstrap_servers=survivor.address)

    def made() -> bool:
        with suppress(KafkaError, RuntimeError):
            with_topic.create_topics(
                [NewTopic(topic, -1, -1, replica_assignments={n: [leader, *others] for n in range(PARTITIONS)})]
            )
        return leaders_of(client, topic) == [leader] * PARTITIONS

    try:
        wait_until(made, what=f"{topic} is led by broker {leader}", timeout_s=BOUND_SECONDS)
        before = controller_of(client)
        began = time.monotonic()
        for victim in victims:
            victim.kill()
        reached: list[float] = []
        looks: tuple[Callable[[], bool], ...] = (
            lambda: controller_of(client) not in {None, before},
            lambda: all(each in others for each in leaders_of(client, topic)),
            lambda: bool(told := told_leaders(with_topic, topic)) and all(each in others for each in told),
        )
        for look, what in zip(looks, EVENTS, strict=True):
            wait_until(look, what=what, timeout_s=BOUND_SECONDS)
            reached.append(time.monotonic() - began)
        return reached[0], reached[1], reached[2], active_of(client)
    finally:
        with_topic.close()


def apaches(folder: Path, session_ms: int, rounds: int) -> Iterator[Round]:
    """Rounds with brokers only: one of them is the controller, and leads the topic of each round."""
    with (
        ZooKeeperCluster(folder, broker_ids=BROKERS, properties=properties(session_ms)) as cluster,
        watching(cluster.zookeeper_connect) as client,
    ):
        for number in range(rounds):
            active = active_of(client)
            broker = cluster.brokers[active]
            yield one_round(cluster, client, f"failover-{number}", [broker], active)
            broker.start()
            cluster.wait_for_metadata()


def shunters(folder: Path, session_ms: int, rounds: int) -> Iterator[Round]:
    """Rounds with an active Shunter and a standby; broker 1 leads the topic of each round."""
    controllers: dict[int, ShunterController] = {}

    def start(cluster: ZooKeeperCluster, stack: ExitStack) -> None:
        for id_ in (1_000, 1_001):
            options = ("--takeover", "preempt", "--set", f"session-timeout-ms={session_ms}")
            made = ShunterController(
                folder / f"shunter-{id_}", cluster.zookeeper_connect, broker_id=id_, options=options
            )
            controllers[id_] = made
            stack.callback(made.stop)
        controllers[1_000].start()
        join(controllers[1_001], controllers[1_000])

    with (
        ZooKeeperCluster(
            folder, broker_ids=BROKERS, properties=properties(session_ms), before_brokers=start
        ) as cluster,
        watching(cluster.zookeeper_connect) as client,
    ):
        for number in range(rounds):
            active = controllers[active_of(client)]
            yield one_round(cluster, client, f"failover-{number}", [active, cluster.brokers[1]], 1)
            # If a broker was elected first, the standby takes the controllership from it.
            wait_until(lambda: active_of(client) in controllers, what="a Shunter leads", timeout_s=BOUND_SECONDS)
            join(active, controllers[active_of(client)])
            cluster.brokers[1].start()
            cluster.wait_for_metadata()


def active_of(client: KazooClient) -> int:
    """The controller's broker id; -1: there is none."""
    return int(str(document(client, "/controller").get("brokerid", -1)))


def join(controller: ShunterController, other: ShunterController) -> None:
    """Start a controller beside another: it takes the seat, and the other becomes its standby."""
    controller.start()
    wait_until(lambda: "standing by:" in other.log_tail(1), what="the other stands by", timeout_s=BOUND_SECONDS)


def properties(session_ms: int) -> dict[str, object]:
    """The properties of all brokers."""
    return {"zookeeper.session.timeout.ms": session_ms, "offsets.topic.replication.factor": 1}


SIDES: dict[str, tuple[str, Callable[[Path, int, int], Iterator[Round]]]] = {
    "shunter": ("Shunter, with a standby", shunters),
    "apache": ("Apache", apaches),
}


def main() -> None:
    """Measure both, and print a table."""
    asked = arguments()
    load = os.getloadavg()[0]
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, load {load:.1f}; sessions of {asked.session_ms} ms, "
        f"{asked.rounds} rounds, {PARTITIONS} partitions; median (lowest to highest) of seconds since the kill"
    )
    print(f"| controller | {' | '.join(EVENTS)} | from controller to leader | controllers |")
    print("| --- | ---: | ---: | ---: | ---: | --- |")
    for side, (name, measure) in SIDES.items():
        if asked.only not in {None, side}:
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                found = list(measure(Path(folder), asked.session_ms, asked.rounds))
            except PartFailed as failure:
                print(f"| {name} | failed: {failure} |")
                continue
        *columns, controllers = zip(*found, strict=True)
        columns.append(tuple(each[1] - each[0] for each in found))
        cells = (f"{statistics.median(each):.2f} ({min(each):.2f} to {max(each):.2f})" for each in columns)
        print(f"| {name} | {' | '.join(cells)} | {', '.join(map(str, controllers))} |", flush=True)


if __name__ == "__main__":
    main()
