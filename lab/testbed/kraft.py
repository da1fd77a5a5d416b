"""A Kafka cluster in KRaft mode: brokers that are their own controllers."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from lab.testbed.artifacts import KRAFT_VERSION, ensure_kafka, kafka_classpath
from lab.testbed.failures import PartFailed, PortStolen
from lab.testbed.ivy import Progress, silent
from lab.testbed.java import java_command
from lab.testbed.kafka import SMALL_AND_QUICK, kafka_command
from lab.testbed.ports import LOOPBACK, free_ports
from lab.testbed.probes import kafka_answers
from lab.testbed.process import run_bounded
from lab.testbed.server import START_ATTEMPTS, Server, logging_options, properties_text
from lab.testbed.tools import TOOL_HEAP_MIB, uses_log4j2

STORAGE_TOOL = "kafka.tools.StorageTool"


class KRaftNode(Server):
    """One process that is both broker and controller. Its data outlives a stop, a kill and a restart."""

    def __init__(
        self,
        node_id: int,
        folder: Path,
        *,
        port: int,
        controller_ports: Mapping[int, int],
        more_ports: Mapping[str, int],
        more_protocols: Mapping[str, str],
        cluster_id: str,
        version: str,
        heap_mib: int,
        properties: Mapping[str, object],
        start_timeout_s: float,
        more_log_dirs: Sequence[str] = (),
    ) -> None:
        """Describe the node; nothing starts yet.

        Args:
            node_id: Its id, as broker and as controller.
            folder: A folder of its own; made if absent.
            port: Port of its listener for clients and brokers.
            controller_ports: Ports of all nodes' controllers, by node id.
            more_ports: Ports of more listeners for clients, by listener name.
            more_protocols: Security protocols of those listeners, by listener name.
            cluster_id: A UUID in URL-safe base64, the same for all nodes.
            version: Kafka's version; see `artifacts.ensure_kafka`.
            heap_mib: Largest heap, in MiB.
            properties: More settings for server.properties; they replace those that are set here.
            start_timeout_s: Bound for each start, in seconds.
            more_log_dirs: Names of log dirs beside `data`, in its folder.
        """
        super().__init__(f"node-{node_id}", folder, port=port, start_timeout_s=start_timeout_s)
        self.node_id = node_id
        self.version = version
        self.more_ports = dict(more_ports)
        self._more_protocols = dict(more_protocols)
        self._controller_ports = dict(controller_ports)
        self._cluster_id = cluster_id
        self._heap_mib = heap_mib
        self._properties = dict(properties)
        self._more_log_dirs = tuple(more_log_dirs)

    @property
    def bootstrap(self) -> str:
        """`HOST:PORT` for clients."""
        return self.address

    @property
    def data_folder(self) -> Path:
        """The first log dir: one folder for each replica, `TOPIC-PARTITION`, and the metadata log."""
        return self.folder / "data"

    def _prepare(self, port: int) -> Sequence[str]:
        self.folder.mkdir(parents=True, exist_ok=True)
        voters = ",".join(f"{node}@{LOOPBACK}:{voter}" for node, voter in sorted(self._controller_ports.items()))
        listeners = {"PLAINTEXT": port, "CONTROLLER": self._controller_ports[self.node_id], **self.more_ports}
        settings: dict[str, object] = {
            "node.id": self.node_id,
            "process.roles": "broker,controller",
            "controller.quorum.voters": voters,
            "controller.listener.names": "CONTROLLER",
            "listeners": ",".join(f"{name}://{LOOPBACK}:{at}" for name, at in listeners.items()),
            "listener.security.protocol.map": ",".join(
                f"{name}:{self._more_protocols.get(name, 'PLAINTEXT')}" for name in listeners
            ),
            "log.dirs": ",".join(map(str, (self.data_folder, *(self.folder / each for each in self._more_log_dirs)))),
            **SMALL_AND_QUICK,
            **self._properties,
        }
        configuration = self.folder / "server.properties"
        configuration.write_text(properties_text(settings))
        self._format(configuration)
        return kafka_command(self.version, configuration, self._heap_mib)

    def _format(self, configuration: Path) -> None:
        """Format the data folder for KRaft, once."""
        if (self.data_folder / "meta.properties").exists():
            return
        command = java_command(
            STORAGE_TOOL,
            ["format", "--cluster-id", self._cluster_id, "--config", str(configuration)],
            classpath=kafka_classpath(self.version),
            heap_mib=TOOL_HEAP_MIB,
            options=logging_options(log4j2=uses_log4j2(self.version), level="WARN"),
        )
        done = run_bounded(command, timeout_s=self.start_timeout_s)
        if done.returncode != 0:
            raise PartFailed(
                f"{self.name}: StorageTool ended with status {done.returncode}:\n{done.stdout}{done.stderr}"
            )

    def _serves(self, port: int) -> bool:
        return kafka_answers(port)


class KRaftCluster:
    """Kafka in KRaft mode with one or more nodes, all voters of a static quorum; a context manager.

    `nodes` is filled by `start` and keeps its nodes (for their logs) after `stop`.
    """

    def __init__(
        self,
        folder: Path,
        *,
        node_ids: Sequence[int] = (1,),
        version: str = KRAFT_VERSION,
        racks: Mapping[int, str] | None = None,
        properties: Mapping[str, object] | None = None,
        more_listeners: Mapping[str, str] | None = None,
        more_log_dirs: Sequence[str] = (),
        heap_mib: int = 256,
        start_timeout_s: float = 120.0,
        progress: Progress = silent,
    ) -> None:
        """Describe the cluster; nothing starts yet.

        Args:
            folder: For the nodes' folders.
            node_ids: One or three, in ascending order.
            version: Kafka's version; see `artifacts.ensure_kafka`.
            racks: By node id; a node that is not named has none.
            properties: More settings for each node's server.properties; they replace those that are set here.
            more_listeners: Names of more listeners for clients, with their security protocols.
            more_log_dirs: Names of log dirs that each node has beside `data`, in its folder.
            heap_mib: Largest heap of each node, in MiB.
            start_timeout_s: Bound for each node's start, in seconds.
            progress: Gets a line for each step.
        """
        self.folder = folder
        self.node_ids = tuple(node_ids)
        self.version = version
        self.nodes: dict[int, KRaftNode] = {}
        self._racks = dict(racks or {})
        self._properties = dict(properties or {})
        self._more_listeners = dict(more_listeners or {})
        self._more_log_dirs = tuple(more_log_dirs)
        self._heap_mib = heap_mib
        self._start_timeout_s = start_timeout_s
        self._progress = progress

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
    def bootstrap(self) -> str:
        """Addresses of all nodes, separated by commas, for clients."""
        return ",".join(node.bootstrap for node in self.nodes.values())

    def bootstrap_of(self, listener: str) -> str:
        """Addresses of one of `more_listeners` on all nodes, separated by commas."""
        return ",".join(f"{LOOPBACK}:{node.more_ports[listener]}" for node in self.nodes.values())

    def start(self) -> None:
        """Start all nodes in parallel and wait until each answers.

        With a static quorum each node's settings have all ports, so after a stolen port all nodes get new ports and
        data.

        Raises:
            PartFailed: A node did not start; the message holds its log's tail.
        """
        ensure_kafka(self.version, progress=self._progress)
        for attempt in range(1, START_ATTEMPTS + 1):
            self.nodes = self._with_new_ports(attempt)
            try:
                self._started()
            except PortStolen:
                self._kill()
                if attempt == START_ATTEMPTS:
                    raise
            except BaseException:
                self._kill()
                raise
            else:
                return

    def stop(self) -> None:
        """End all nodes one after the other, the first one last, so that there is a quorum as long as possible."""
        for node in reversed(self.nodes.values()):
            # The last nodes have no majority for a controlled shutdown, and would wait for one.
            node.stop(timeout_s=3.0)

    def _started(self) -> None:
        for node in self.nodes.values():
            self._progress(f"starting {node.name} (Kafka {self.version}, KRaft) on {node.address}")
            node.launch()
        for node in self.nodes.values():
            node.wait_ready()

    def _kill(self) -> None:
        for node in self.nodes.values():
            node.kill()

    def _with_new_ports(self, attempt: int) -> dict[int, KRaftNode]:
        count = len(self.node_ids)
        ports = free_ports((2 + len(self._more_listeners)) * count)
        controller_ports = dict(zip(self.node_ids, ports[count : 2 * count], strict=True))
        more = {
            node_id: dict(zip(self._more_listeners, ports[2 * count + index :: count], strict=True))
            for index, node_id in enumerate(self.node_ids)
        }
        # An id that begins with a dash would be taken for an option by Kafka's tools. Kafka's own ids never do.
        cluster_id = "S" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")[1:]
        replication = min(3, count)
        common: dict[str, object] = {
            "offsets.topic.replication.factor": replication,
            "transaction.state.log.replication.factor": replication,
            "transaction.state.log.min.isr": min(2, replication),
            "share.coordinator.state.topic.replication.factor": replication,
            "share.coordinator.state.topic.min.isr": min(2, replication),
            "share.coordinator.state.topic.num.partitions": 3,
            **self._properties,
        }
        suffix = "" if attempt == 1 else f"-attempt-{attempt}"
        return {
            node_id: KRaftNode(
                node_id,
                self.folder / f"node-{node_id}{suffix}",
                port=port,
                controller_ports=controller_ports,
                more_ports=more[node_id],
                more_protocols=self._more_listeners,
                cluster_id=cluster_id,
                version=self.version,
                heap_mib=self._heap_mib,
                properties=common | ({"broker.rack": self._racks[node_id]} if node_id in self._racks else {}),
                more_log_dirs=self._more_log_dirs,
                start_timeout_s=self._start_timeout_s,
            )
            for node_id, port in zip(self.node_ids, ports[:count], strict=True)
        }
