"""A ZooKeeper server of the version that the pyspark wheel carries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from lab.testbed.artifacts import zookeeper_classpath
from lab.testbed.java import QUICK_START, java_command
from lab.testbed.ports import LOOPBACK
from lab.testbed.probes import zookeeper_answers
from lab.testbed.server import Server, logging_options, properties_text

MAIN_CLASS = "org.apache.zookeeper.server.ZooKeeperServerMain"
TICK_MS = 500


class ZooKeeperServer(Server):
    """One standalone ZooKeeper server; its data outlives a stop, a kill and a restart."""

    def __init__(
        self,
        folder: Path,
        *,
        name: str = "zookeeper",
        port: int | None = None,
        heap_mib: int = 128,
        force_sync: bool = False,
        properties: Mapping[str, object] | None = None,
        java_tuning: Sequence[str] = QUICK_START,
        java_options: Sequence[str] = (),
        start_timeout_s: float = 60.0,
    ) -> None:
        """Describe the server; nothing starts yet.

        Args:
            folder: A folder of its own; made if absent. name: Name of its log. port: None for one that the kernel
            chooses. heap_mib: Largest heap, in MiB. force_sync: Whether each write waits for the disk, as in
            production; for measurements of latency. Without it,
                writes survive the end of the process but not a crash of the machine.
            properties: More settings for zoo.cfg; they replace those that are set here.
            java_tuning: Options for Java's garbage collector and compiler; `java.AS_IN_PRODUCTION` for measurements.
            java_options: More options for its Java, such as the path of its JAAS file.
            start_timeout_s: Bound for each start, in seconds.
        """
        super().__init__(name, folder, port=port, start_timeout_s=start_timeout_s)
        self._heap_mib = heap_mib
        self._java_tuning = tuple(java_tuning)
        self._java_options = tuple(java_options)
        self._force_sync = force_sync
        self._properties = dict(properties or {})

    @property
    def connect_string(self) -> str:
        """`HOST:PORT`, without a chroot."""
        return self.address

    def _prepare(self, port: int) -> Sequence[str]:
        data = self.folder / "data"
        data.mkdir(parents=True, exist_ok=True)
        settings: dict[str, object] = {
            "tickTime": TICK_MS,
            "dataDir": data,
            "clientPort": port,
            "clientPortAddress": LOOPBACK,
            "admin.enableServer": False,
            "4lw.commands.whitelist": "*",
            "maxClientCnxns": 0,
            "minSessionTimeout": 2 * TICK_MS,
            # The default is 20 ticks, which is less than a production broker asks for.
            "maxSessionTimeout": 60_000,
        }
        configuration = self.folder / "zoo.cfg"
        configuration.write_text(properties_text(settings | self._properties))
        return java_command(
            MAIN_CLASS,
            [str(configuration)],
            classpath=zookeeper_classpath(),
            heap_mib=self._heap_mib,
            tuning=self._java_tuning,
            options=(
                *logging_options(log4j2=True, level="INFO"),
                f"-Dzookeeper.forceSync={'yes' if self._force_sync else 'no'}",
                "-Dzookeeper.jmx.log4j.disable=true",
                *self._java_options,
            ),
        )

    def _serves(self, port: int) -> bool:
        return zookeeper_answers(port)
