"""A Kafka cluster in ZooKeeper mode. It starts ZooKeeper, a controller, and brokers, in this order."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from kazoo.client import KazooClient

from lab.testbed import tools
from lab.testbed.artifacts import ZOOKEEPER_MODE_VERSION, ensure_kafka
from lab.testbed.ivy import Progress, silent
from lab.testbed.kafka import KafkaBroker
from lab.testbed.probes import brokers_known_at
from lab.testbed.waiting import wait_until
from lab.testbed.zookeeper import ZooKeeperServer


class ZooKeeperCluster:
    """ZooKeeper and brokers as one context manager. Brokers start in parallel, each on a port that the kernel chooses.

    Brokers that find no controller elect one of themselves. `before_brokers` is called after ZooKeeper has started
    and before the brokers start, so that Shunter's controller can be there first. What it enters into the stack that
    it gets ends after the brokers have stopped (they need the controller for their controlled shutdown) and before
    ZooKeeper.
    """

    def __init__(
        self,
        folder: Path,
        *,
        broker_ids: Sequence[int] = (1, 2, 3),
        zookeeper: ZooKeeperServer | None = None,
        chroot: str = "",
        version: str = ZOOKEEPER_MODE_VERSION,
        versions: Mapping[int, str] | None = None,
        racks: Mapping[int, str] | None = None,
        properties: Mapping[str, object] | None = None,
        broker_properties: Mapping[int, Mapping[str, object]] | None = None,
        heap_mib: int = 192,
        java_options: Sequence[str] = (),
        before_brokers: Callable[[ZooKeeperCluster, ExitStack], object] | None = None,
        metadata_timeout_s: float = 60.0,
        progress: Progress = silent,
    ) -> None:
        """Describe the cluster; nothing starts yet.

        Args:
            folder: For the folders of ZooKeeper and the brokers.
            broker_ids: Ids of the brokers that start with the cluster.
            zookeeper: A running server to share, which is not stopped; None for one of its own.
            chroot: Path in ZooKeeper, such as "/yard"; made if absent. Needed by clusters that share a server.
            version: Kafka's version; see `artifacts.ensure_kafka`.
            versions: Other versions of single brokers, by id.
            racks: By broker id, for all or for none: Apache places no replicas if only some brokers have a rack.
            properties: More settings for each broker's server.properties.
            broker_properties: More settings for single brokers, by id.
            heap_mib: Largest heap of each broker, in MiB.
            java_options: More options for each broker's Java.
            before_brokers: See the class.
            metadata_timeout_s: How long to wait until each broker knows all brokers, in seconds; 0 for not at all, if
                the controller is not there yet or can't be trusted.
            progress: Gets a line for each step.
        """
        self.folder = folder
        self.chroot = chroot
        self.version = version
        self.brokers: dict[int, KafkaBroker] = {}
        self._broker_ids = tuple(broker_ids)
        self._shared_zookeeper = zookeeper
        self._own_zookeeper: ZooKeeperServer | None = None
        self._versions = dict(versions or {})
        self._racks = dict(racks or {})
        self._properties = dict(properties or {})
        self._broker_properties = {broker: dict(own) for broker, own in (broker_properties or {}).items()}
        self._heap_mib = heap_mib
        self._java_options = tuple(java_options)
        self._before_brokers = before_brokers
        self._metadata_timeout_s = metadata_timeout_s
        self._progress = progress
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def zookeeper(self) -> ZooKeeperServer:
        """The cluster's ZooKeeper server, its own or the shared one."""
        if self._shared_zookeeper is not None:
            return self._shared_zookeeper
        if self._own_zookeeper is None:
            self._own_zookeeper = ZooKeeperServer(self.folder / "zookeeper")
        return self._own_zookeeper

    @property
    def zookeeper_connect(self) -> str:
        """`HOST:PORT` and the chroot."""
        return self.zookeeper.connect_string + self.chroot

    @property
    def bootstrap(self) -> str:
        """Addresses of all live brokers, separated by commas, for clients."""
        return ",".join(broker.bootstrap for broker in self.brokers.values() if broker.alive)

    def start(self) -> None:
        """Start ZooKeeper, call `before_brokers`, start the brokers, and wait until each answers and knows all others.

        Raises:
            PartFailed: A part did not start; the message holds its log's tail. All parts have been stopped.
        """
        versions = {self.version, *self._versions.values()}
        for version in sorted(versions):
            ensure_kafka(version, progress=self._progress)
        with ExitStack() as stack:
            if self._shared_zookeeper is None:
                self._progress("starting ZooKeeper")
                stack.enter_context(self.zookeeper)
            self._make_chroot()
            if self._before_brokers is not None:
                self._before_brokers(self, stack)
            stack.callback(self._stop_brokers)
            self.add_brokers(*self._broker_ids)
            self._stack = stack.pop_all()

    def stop(self) -> None:
        """Stop brokers, what `before_brokers` entered, and ZooKeeper if it is not shared, in this order."""
        self._stack.close()

    def add_brokers(self, *broker_ids: int) -> None:
        """Start more brokers, in parallel, and wait until each answers and knows all live brokers.

        Raises:
            PartFailed: One did not start or does not know the others in time.
        """
        added = [self._broker(broker_id) for broker_id in broker_ids]
        for broker in added:
            self._progress(f"starting {broker.name} (Kafka {broker.version})")
            self.brokers[broker.broker_id] = broker
            broker.launch()
        for broker in added:
            broker.wait_ready()
        if self._metadata_timeout_s > 0:
            self.wait_for_metadata()

    def wait_for_metadata(self) -> None:
        """Wait until each live broker names all live brokers to its clients, as the controller told it.

        Raises:
            PartFailed: One does not within the bound.
        """
        living = {broker.broker_id for broker in self.brokers.values() if broker.alive}
        for broker in self.brokers.values():
            if broker.alive:
                wait_until(
                    lambda broker=broker: living <= brokers_known_at(broker.port),  # type: ignore[misc]
                    what=f"{broker.name} knows brokers {sorted(living)}",
                    timeout_s=self._metadata_timeout_s,
                )

    def kafka_tool(
        self,
        main_class: str,
        *arguments: str,
        timeout_s: float = 60.0,
        input_text: str = "",
    ) -> subprocess.CompletedProcess[str]:
        """Run a Kafka tool to its end; see `tools.kafka_tool`. `--bootstrap-server` is not added."""
        return tools.kafka_tool(main_class, *arguments, timeout_s=timeout_s, input_text=input_text)

    def _broker(self, broker_id: int) -> KafkaBroker:
        replication = min(3, len(self._broker_ids))
        common: dict[str, object] = {
            "offsets.topic.replication.factor": replication,
            "transaction.state.log.replication.factor": replication,
            "transaction.state.log.min.isr": min(2, replication),
        }
        return KafkaBroker(
            broker_id,
            self.zookeeper_connect,
            self.folder / f"broker-{broker_id}",
            version=self._versions.get(broker_id, self.version),
            rack=self._racks.get(broker_id),
            heap_mib=self._heap_mib,
            java_options=self._java_options,
            properties=common | self._properties | self._broker_properties.get(broker_id, {}),
        )

    def _make_chroot(self) -> None:
        if self.chroot:
            client = KazooClient(self.zookeeper.connect_string)
            client.start()
            try:
                client.ensure_path(self.chroot)
            finally:
                client.stop()
                client.close()

    def _stop_brokers(self) -> None:
        for broker in reversed(self.brokers.values()):
            broker.stop()
