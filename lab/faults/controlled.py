"""Shunter's controllers on a ZooKeeper-mode cluster of unmodified brokers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

from kafka.errors import KafkaError

from lab.demo.account import ProvedOrNot
from lab.demo.proof import Leftovers
from lab.faults.faulted import BROKERS, COMMAND_WITHIN_S, PROPERTIES, RATE_BYTES_PER_S, Fault, FaultedCluster
from lab.testbed.cluster import ZooKeeperCluster
from lab.testbed.controller import ShunterController
from lab.testbed.failures import PartFailed
from lab.testbed.process import run_bounded
from lab.testbed.server import Server
from lab.testbed.waiting import wait_until
from shunter.core.throttles import FOLLOWER_RATE, LEADER_RATE, LISTS
from shunter.drivers.admin.blocking import BlockingAdmin
from shunter.errors import DriverError
from shunter.model.execution import ThrottleKey

CONTROLLERS = (1000, 1001)
SESSION_MS = 6_000
LEADS_WITHIN_S = 90.0
BEGINS_WITHIN_S = 60.0


class ControlledCluster(FaultedCluster):
    """One ZooKeeper, four brokers, a leading controller and a standby; moves come by `shunter submit`."""

    title = "controller, ZooKeeper"

    def __init__(self, folder: Path) -> None:
        """Describe it; nothing starts yet."""
        super().__init__(folder)
        self.cluster = ZooKeeperCluster(
            folder / "kafka",
            broker_ids=BROKERS,
            properties=PROPERTIES,
            heap_mib=200,
            before_brokers=self._start_controllers,
        )
        self.controllers: dict[int, ShunterController] = {}

    @property
    def bootstrap(self) -> str:
        """Addresses of all brokers, dead ones too."""
        return ",".join(each.address for each in self.cluster.brokers.values())

    @property
    def brokers(self) -> Mapping[int, Server]:
        """The brokers."""
        return self.cluster.brokers

    def start(self, stack: ExitStack) -> None:
        """Start ZooKeeper, the controllers and the brokers."""
        stack.enter_context(self.cluster)

    def _start_controllers(self, cluster: ZooKeeperCluster, stack: ExitStack) -> None:
        for id_ in CONTROLLERS:
            options = ("--set", f"session-timeout-ms={SESSION_MS}", "--set", "takeover=preempt")
            folder = self.folder / f"controller-{id_}"
            controller = ShunterController(folder, cluster.zookeeper_connect, broker_id=id_, options=options)
            stack.callback(controller.stop)
            self.controllers[id_] = controller
            controller.start_or_stand_by(LEADS_WITHIN_S)

    def faults(self) -> Sequence[Fault]:
        """Those of brokers, and of controllers and ZooKeeper."""
        zookeeper = self.cluster.zookeeper
        return [
            Fault("SIGKILL of the controller", self._kill_leader, 8, self._start_controllers_again),
            Fault("SIGKILL of both controllers", self._kill_both, 8, self._start_controllers_again),
            Fault("SIGSTOP of the controller", self._pause_leader, 20, self._resume_all),
            Fault("SIGKILL of ZooKeeper", zookeeper.kill, 10, zookeeper.start),
            Fault("SIGSTOP of ZooKeeper", zookeeper.pause, 15, zookeeper.resume),
            *self.of_brokers(),
        ]

    def begin(self, plan: Path) -> None:
        """`shunter submit`, under a throttle."""
        wait_until(self._is_led, what="a controller leads", timeout_s=LEADS_WITHIN_S)
        self._throttle(RATE_BYTES_PER_S)
        done = run_bounded(self.shunter("submit", str(plan)), timeout_s=COMMAND_WITHIN_S)
        if done.returncode != 0:
            raise PartFailed(f"submit ended with status {done.returncode}: {done.stdout}{done.stderr}")
        wait_until(self.moving, what="moves are under way", timeout_s=BEGINS_WITHIN_S)

    def hurry(self) -> None:
        """Take the throttle away."""
        wait_until(self._unthrottled, what="the throttle is gone", timeout_s=LEADS_WITHIN_S, interval_s=1)

    def command(self, verb: str) -> Sequence[str]:
        """All moves of the cell's topic."""
        named = () if verb == "submit" else ("--topic", self.topic)
        return ("--bootstrap-server", self.bootstrap, "--yes", *named)

    def is_over(self) -> bool:
        """Whether the controller lists no move."""
        with BlockingAdmin({"bootstrap_servers": self.bootstrap.split(",")}) as client:
            return not client.list_moves()

    def left_over(self) -> Sequence[ProvedOrNot]:
        """Znodes, and roles of controllers."""
        with closing(Leftovers(self.cluster.zookeeper_connect)) as left:
            wait_until(lambda: left.check_znodes().holds, what="no znode is left", timeout_s=LEADS_WITHIN_S)
            return [left.check_znodes(), left.check_throttles([self.topic], list(BROKERS))]

    def _restart(self, server: Server) -> None:
        """A broker of ZooKeeper mode is awaited in the registry too, before the next one goes."""
        server.restart()
        wait_until(self._is_whole, what="all brokers are registered", timeout_s=LEADS_WITHIN_S, interval_s=1)

    def _is_whole(self) -> bool:
        try:
            with closing(self.admin()) as admin:
                registered = {int(each["broker_id"]) for each in admin.describe_cluster()["brokers"]}
        except (KafkaError, RuntimeError, OSError):
            return False
        return registered.issuperset(BROKERS)  # The controller is registered too.

    def _leader(self) -> ShunterController:
        wait_until(self._is_led, what="a controller leads", timeout_s=LEADS_WITHIN_S)
        return next(each for each in self.controllers.values() if each.is_leading())

    def _is_led(self) -> bool:
        return any(each.alive and each.is_leading() for each in self.controllers.values())

    def _kill_leader(self) -> None:
        self._leader().kill()

    def _kill_both(self) -> None:
        for each in self.controllers.values():
            each.kill()

    def _pause_leader(self) -> None:
        self._leader().pause()

    def _resume_all(self) -> None:
        for each in self.controllers.values():
            each.resume()

    def _start_controllers_again(self) -> None:
        for each in self.controllers.values():
            if not each.alive:
                each.start_or_stand_by(LEADS_WITHIN_S)

    def _unthrottled(self) -> bool:
        try:
            self._throttle(None)
        except DriverError:
            return False
        return True

    def _throttle(self, rate: int | None) -> None:
        settings = {ThrottleKey("topic", self.topic, each): None if rate is None else "*" for each in LISTS}
        for broker in BROKERS:
            rates = (ThrottleKey("broker", str(broker), each) for each in (LEADER_RATE, FOLLOWER_RATE))
            settings |= dict.fromkeys(rates, None if rate is None else str(rate))
        with BlockingAdmin({"bootstrap_servers": self.bootstrap.split(",")}) as client:
            if refused := client.write_settings(settings):
                raise DriverError(f"settings were refused: {refused}", retriable=True)
