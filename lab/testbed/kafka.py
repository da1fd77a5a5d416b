"""A Kafka broker in ZooKeeper mode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from kazoo.client import KazooClient

from lab.testbed.artifacts import ZOOKEEPER_MODE_VERSION, kafka_classpath
from lab.testbed.java import QUICK_START, java_command
from lab.testbed.ports import LOOPBACK
from lab.testbed.probes import kafka_answers
from lab.testbed.server import Server, logging_options, properties_text
from lab.testbed.tools import uses_log4j2
from lab.testbed.waiting import wait_until

MAIN_CLASS = "kafka.Kafka"
SESSION_TIMEOUT_MS = 6_000
PORT = "{port}"
"""A placeholder in `listeners` of `properties`: the port of the plaintext listener on which the broker is probed."""
# Settings that make a broker small and quick, and do not change its behaviour.
SMALL_AND_QUICK: Mapping[str, object] = {
    "num.network.threads": 2,
    "num.io.threads": 3,
    "background.threads": 2,
    "num.recovery.threads.per.data.dir": 1,
    "log.cleaner.dedupe.buffer.size": 2 * 2**20,
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.num.partitions": 3,
    "group.initial.rebalance.delay.ms": 0,
    # With the default a stop would take 15 s while there is no controller.
    "controlled.shutdown.retry.backoff.ms": 500,
}


def kafka_command(
    version: str,
    configuration: Path,
    heap_mib: int,
    tuning: Sequence[str] = QUICK_START,
    options: Sequence[str] = (),
) -> Sequence[str]:
    """The command line of a Kafka server, in either mode; `tuning` and `options` as in `java_command`.

    Raises:
        PartMissing, PartFailed: See `artifacts.ensure_kafka`.
    """
    return java_command(
        MAIN_CLASS,
        [str(configuration)],
        classpath=kafka_classpath(version),
        heap_mib=heap_mib,
        options=(*logging_options(log4j2=uses_log4j2(version), level="INFO"), *options),
        tuning=tuning,
    )


class KafkaBroker(Server):
    """One broker in ZooKeeper mode (2.8 to 3.9); its data outlives a stop, a kill and a restart."""

    def __init__(
        self,
        broker_id: int,
        zookeeper_connect: str,
        folder: Path,
        *,
        version: str = ZOOKEEPER_MODE_VERSION,
        rack: str | None = None,
        port: int | None = None,
        heap_mib: int = 192,
        properties: Mapping[str, object] | None = None,
        java_tuning: Sequence[str] = QUICK_START,
        java_options: Sequence[str] = (),
        start_timeout_s: float = 120.0,
    ) -> None:
        """Describe the broker; nothing starts yet.

        Args:
            broker_id: Its id.
            zookeeper_connect: `HOST:PORT`, with a chroot if there is one.
            folder: A folder of its own; made if absent.
            version: Kafka's version; see `artifacts.ensure_kafka`.
            rack: Its rack, if it has one.
            port: None for one that the kernel chooses.
            heap_mib: Largest heap, in MiB.
            properties: More settings for server.properties; they replace those that are set here.
            java_tuning: Options for Java's garbage collector and compiler; `java.AS_IN_PRODUCTION` for measurements.
            java_options: More options for its Java, such as the path of its JAAS file.
            start_timeout_s: Bound for each start, in seconds.
        """
        super().__init__(f"broker-{broker_id}", folder, port=port, start_timeout_s=start_timeout_s)
        self.broker_id = broker_id
        self.zookeeper_connect = zookeeper_connect
        self.version = version
        self.rack = rack
        self._heap_mib = heap_mib
        self._java_tuning = tuple(java_tuning)
        self._java_options = tuple(java_options)
        self._properties = dict(properties or {})

    @property
    def bootstrap(self) -> str:
        """`HOST:PORT` for clients."""
        return self.address

    @property
    def data_folder(self) -> Path:
        """The log dir: one folder for each replica, `TOPIC-PARTITION`."""
        return self.folder / "data"

    def launch(self) -> None:
        """Start the process without waiting for its answer, once ZooKeeper has dropped its former registration.

        A broker that finds its former registration ends at once, so after a SIGKILL this waits up to the session
        timeout.

        Raises:
            PartFailed: The broker runs already, or its former registration stays.
        """
        if not self.alive:
            self._wait_unregistered()
        super().launch()

    def _wait_unregistered(self) -> None:
        # kazoo logs a warning about a chroot that does not exist yet, so the chroot is made part of the path.
        servers, _, chroot = self.zookeeper_connect.partition("/")
        path = f"{'/' + chroot if chroot else ''}/brokers/ids/{self.broker_id}"
        client = KazooClient(servers)
        client.start(timeout=self.start_timeout_s)
        try:
            wait_until(
                lambda: client.exists(path) is None,
                what=f"ZooKeeper at {self.zookeeper_connect} has dropped {path} of a former life of {self.name}",
                timeout_s=self.start_timeout_s,
            )
        finally:
            client.stop()
            client.close()

    def _prepare(self, port: int) -> Sequence[str]:
        self.data_folder.mkdir(parents=True, exist_ok=True)
        settings: dict[str, object] = {
            "broker.id": self.broker_id,
            "listeners": f"PLAINTEXT://{LOOPBACK}:{port}",
            "zookeeper.connect": self.zookeeper_connect,
            "zookeeper.session.timeout.ms": SESSION_TIMEOUT_MS,
            "log.dirs": self.data_folder,
            **({"broker.rack": self.rack} if self.rack is not None else {}),
            **SMALL_AND_QUICK,
            **self._properties,
        }
        settings["listeners"] = str(settings["listeners"]).replace(PORT, str(port))
        configuration = self.folder / "server.properties"
        configuration.write_text(properties_text(settings))
        return kafka_command(self.version, configuration, self._heap_mib, self._java_tuning, self._java_options)

    def _serves(self, port: int) -> bool:
        return kafka_answers(port)
