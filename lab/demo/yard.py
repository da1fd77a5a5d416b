"""The course of the demo: start real servers, move, kill, stop, roll back, prove."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

from kafka import KafkaAdminClient
from kafka import TopicPartition as ClientPartition
from kafka.admin import ConfigResource, ConfigResourceType

from lab.demo.account import Account, ProvedOrNot, Screen
from lab.demo.entrance import Lever, PlainLever, SecuredLever, WayIn
from lab.demo.gauge import Gauge
from lab.demo.proof import Leftovers, check_assignments, check_records
from lab.demo.secrecy import Secrecy
from lab.demo.sequel import run_sequel
from lab.demo.stage import (
    FROM,
    MOST_AT_ONCE,
    MOVE_TIMEOUT_S,
    READ_BACK_TIMEOUT_S,
    SLOW_BYTES_PER_S,
    THROTTLE_BYTES_PER_S,
    TO,
    TOPICS,
    all_partitions,
    create_topics,
    demo_folder,
    original_of,
    start_traffic,
    target_of,
)
from lab.demo.traffic import read_everything
from lab.testbed.artifacts import ZOOKEEPER_MODE_VERSION, ensure_kafka
from lab.testbed.cluster import ZooKeeperCluster
from lab.testbed.controller import ShunterController
from lab.testbed.waiting import wait_until
from shunter.core.throttles import LISTS
from shunter.errors import DriverError
from shunter.model.partition import Replicas, TopicPartition
from shunter.model.reassignment import Intervention

RATE_CONFIGS = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")


@dataclass(slots=True)
class Yard:
    """The parts of the demo, and its state."""

    screen: Screen
    folder: Path
    controller: ShunterController | None = None
    security: Secrecy | None = None
    """The cluster's security; None: it has none."""
    stack: ExitStack = field(default_factory=ExitStack)
    originals: dict[TopicPartition, Replicas] = field(
        default_factory=lambda: {tp: original_of(tp) for tp in all_partitions()}
    )
    targets: dict[TopicPartition, Replicas] = field(
        default_factory=lambda: {tp: target_of(tp) for tp in all_partitions()}
    )

    def start_controller(self, cluster: ZooKeeperCluster, stack: ExitStack) -> None:
        """Start the controller after ZooKeeper and before the brokers, so no broker becomes the controller first."""
        options: tuple[str, ...] = ("--set", f"reassignment-max-concurrent={MOST_AT_ONCE}")
        listeners: tuple[str, ...] = ()
        if self.security is not None:
            self.security.make_users(cluster.zookeeper_connect)
            options += ("--server-properties", str(self.security.server_properties))
            listeners = (self.security.listener,)
        self.controller = ShunterController(
            self.folder / "controller", cluster.zookeeper_connect, listeners=listeners, options=options
        )
        stack.enter_context(self.controller)
        self.screen.detail(f"Shunter is the controller, as broker 1000, at {self.controller.address}")

    @property
    def shunter(self) -> ShunterController:
        """The controller.

        Raises:
            DriverError: the cluster has not started.
        """
        if self.controller is None:
            raise DriverError("the controller was not started", retriable=False)
        return self.controller

    def entrance(self, cluster: ZooKeeperCluster) -> WayIn:
        """How clients connect."""
        return WayIn(cluster.bootstrap) if self.security is None else self.security.entrance

    def lever(self) -> Lever:
        """How the demo asks the controller."""
        return PlainLever(self.shunter) if self.security is None else SecuredLever(self.security.client("admin"))


def run_demo(screen: Screen, *, keep: bool, report: Path | None = None) -> int:
    """Run the whole demo; returns the exit status: 0 only if every claim was true.

    Args:
        report: The file for the report of the second half; None leaves the second half out.
    """
    with demo_folder(screen) as stage:
        folder = stage.path
        yard = Yard(screen, folder)
        screen.step(f"fetching Kafka {ZOOKEEPER_MODE_VERSION} (once; later runs find it in the cache)")
        ensure_kafka(ZOOKEEPER_MODE_VERSION, progress=screen.detail)
        screen.step("starting ZooKeeper, the controller, and four Apache brokers")
        with ZooKeeperCluster(
            folder,
            broker_ids=FROM + TO,
            before_brokers=yard.start_controller,
            properties={"min.insync.replicas": 1},
            progress=screen.detail,
        ) as cluster:
            with yard.stack:
                account = main_job(yard, cluster)
                screen.account(account)
            stage.held = account.holds
            if report is not None:
                sequel = run_sequel(screen, cluster.bootstrap, all_partitions(), folder / "sequel", report)
                screen.sequel(sequel)
                stage.held = stage.held and sequel.holds
            if keep:
                _keep(yard, cluster)
        return 0 if stage.held else 1


def main_job(yard: Yard, cluster: ZooKeeperCluster) -> Account:
    """Move everything by the controller, kill it, stop one move, roll one back, and prove."""
    screen = yard.screen
    entrance = yard.entrance(cluster)
    admin = KafkaAdminClient(bootstrap_servers=entrance.bootstrap, **entrance.admin)
    leftovers = Leftovers(cluster.zookeeper_connect)
    screen.step(f"creating {', '.join(TOPICS)} on brokers 1 and 2, and filling them")
    create_topics(admin)
    traffic = start_traffic(screen, entrance.bootstrap, yard.stack, entrance.traffic)
    gauge = Gauge(yard.shunter, yard.lever(), admin, traffic, yard.originals, yard.targets)
    started = time.monotonic()
    screen.step("moving every partition of brokers 1 and 2 to 3 and 4, one replica at a time")
    _throttle(admin, yard, THROTTLE_BYTES_PER_S)
    admin.alter_partition_reassignments({ClientPartition(*tp): list(target) for tp, target in yard.targets.items()})
    _watch(yard, gauge, lambda: gauge.progress().done * 3 >= len(yard.targets))
    # Slow down: on a busy machine the restart and the looks may take longer than the remaining moves.
    _throttle(admin, yard, SLOW_BYTES_PER_S)
    back_s = _kill_and_return(yard, gauge)
    stopped, rolled_back = _interrupt(yard, gauge)
    _throttle(admin, yard, THROTTLE_BYTES_PER_S)
    _watch(yard, gauge, lambda: not gauge.ongoing())
    moving_s = time.monotonic() - started
    _throttle(admin, yard, None)
    screen.step("reading everything back, and looking for leftovers")
    traffic.stop()
    found = read_everything(entrance.bootstrap, all_partitions(), READ_BACK_TIMEOUT_S, entrance.traffic)
    assignments = leftovers.assignments(list(TOPICS))
    checks = (
        *check_records(traffic.acks, found),
        *check_assignments(assignments, yard.targets, yard.originals, stopped, rolled_back),
        _settled(leftovers),
        leftovers.check_throttles(list(TOPICS), [*FROM, *TO]),
        ProvedOrNot("no write was refused", not traffic.failures, "; ".join(traffic.failures[:2]) or "none"),
    )
    leftovers.close()
    admin.close()
    return Account(
        moved=len(yard.targets) - 2,
        stopped=f"{stopped} at {list(assignments[stopped].replicas)}",
        rolled_back=f"{rolled_back} to {list(assignments[rolled_back].replicas)}",
        records_acked=traffic.acked,
        longest_ack_gap_s=traffic.longest_gap_s,
        moving_s=moving_s,
        killed="controller",
        back_s=back_s,
        bytes_copied=gauge.progress().bytes_copied,
        checks=checks,
    )


def _settled(leftovers: Leftovers) -> ProvedOrNot:
    """Check for leftover znodes, for up to five seconds: records may still wait for the last deletions."""
    waited = Event()
    for _ in range(50):
        check = leftovers.check_znodes()
        if check.holds:
            break
        waited.wait(0.1)
    return check


def _throttle(admin: KafkaAdminClient, yard: Yard, rate: int | None) -> None:
    rates = dict.fromkeys(RATE_CONFIGS, ("DELETE", None) if rate is None else ("SET", str(rate)))
    replicas = dict.fromkeys(LISTS, ("DELETE", None) if rate is None else ("SET", "*"))
    resources = [ConfigResource(ConfigResourceType.BROKER, str(broker), configs=rates) for broker in (*FROM, *TO)]
    resources += [ConfigResource(ConfigResourceType.TOPIC, topic, configs=replicas) for topic in TOPICS]
    # The client does not know the throttles' names, but the brokers do.
    admin.alter_configs(resources, incremental=True, raise_on_unknown=False)
    told = "taken off again" if rate is None else f"{rate / 1e6:.0f} MB/s for each broker"
    yard.screen.detail(f"replication throttle: {told}")


def _watch(yard: Yard, gauge: Gauge, over: Callable[[], bool]) -> None:
    """Show the moves until `over`.

    Raises:
        DriverError: it took longer than `MOVE_TIMEOUT_S`.
    """
    deadline = time.monotonic() + MOVE_TIMEOUT_S
    pause = Event()
    while True:
        gauge.look()
        yard.screen.progress(gauge.progress())
        if over():
            return
        if time.monotonic() > deadline:
            raise DriverError(f"the moves did not come to an end within {MOVE_TIMEOUT_S:.0f} s", retriable=False)
        pause.wait(0.5)


def _kill_and_return(yard: Yard, gauge: Gauge) -> float:
    yard.screen.step("killing the controller with SIGKILL, in the middle of it")
    killed = time.monotonic()
    yard.shunter.kill()
    yard.shunter.start()
    wait_until(gauge.look, what="the controller lists its moves again", timeout_s=60)
    back_s = time.monotonic() - killed
    yard.screen.detail(f"it is back and goes on, {back_s:.1f} s after it was killed")
    return back_s


def _interrupt(yard: Yard, gauge: Gauge) -> tuple[TopicPartition, TopicPartition]:
    yard.screen.step("stopping one move and rolling another one back, through RPC 45")
    stopped = _cancel_one(yard, gauge, Intervention.STOP)
    yard.screen.detail(f"stopped: {stopped}")
    rolled_back = _cancel_one(yard, gauge, Intervention.ROLL_BACK)
    yard.screen.detail(f"being rolled back: {rolled_back}")
    return stopped, rolled_back


def _cancel_one(yard: Yard, gauge: Gauge, mode: Intervention) -> TopicPartition:
    """Cancel the move that began last. If it is over before the request, try another one."""
    for _ in range(len(yard.targets)):
        gauge.look()
        begun = [tp for tp, replicas in gauge.ongoing().items() if replicas != yard.originals[tp]]
        if not begun:
            break
        tp = begun[-1]
        if yard.lever().cancel(tp, mode):
            return tp
    raise DriverError("all moves were over before one could be stopped and one rolled back", retriable=True)


def _keep(yard: Yard, cluster: ZooKeeperCluster) -> None:
    yard.screen.step("left running (--keep); ctrl-C ends it")
    yard.screen.detail(f"brokers: {cluster.bootstrap}")
    yard.screen.detail(f"controller: {yard.shunter.address}; ZooKeeper: {cluster.zookeeper_connect}")
    yard.screen.detail("try: shunter steps --replicas 3,4 --target 1,2 --leader 3")
    try:
        Event().wait()
    except KeyboardInterrupt:
        yard.screen.detail("ending")
