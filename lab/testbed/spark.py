"""A Spark cluster of its own: a master and workers, or a Spark Connect server, from the jars of the pyspark wheel."""

from __future__ import annotations

import http.client
import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from lab.testbed.failures import PartFailed
from lab.testbed.ivy import Progress, silent
from lab.testbed.java import java_executable, pyspark_home
from lab.testbed.ports import LOOPBACK, free_port
from lab.testbed.probes import PROBE_TIMEOUT_S, port_accepts
from lab.testbed.server import Server
from lab.testbed.waiting import wait_until

MASTER_CLASS = "org.apache.spark.deploy.master.Master"
CONNECT_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
WORKER_CLASS = "org.apache.spark.deploy.worker.Worker"
DAEMON_HEAP_MIB = 256


class SparkDaemon(Server):
    """The common part of master and worker: Spark's own launcher, which knows the options that its Java needs."""

    def __init__(self, name: str, folder: Path, *, start_timeout_s: float) -> None:
        """Describe the daemon; nothing starts yet.

        Args:
            name: Name of its log.
            folder: A folder of its own; made if absent.
            start_timeout_s: Bound for each start, in seconds.
        """
        super().__init__(name, folder, port=None, start_timeout_s=start_timeout_s)
        self.web_port = 0

    def _prepare(self, port: int) -> Sequence[str]:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.web_port = free_port()
        launcher = str(pyspark_home() / "bin" / "spark-class")
        listen = ("--host", LOOPBACK, "--port", str(port), "--webui-port", str(self.web_port))
        return [launcher, self._main_class(), *listen, *self._arguments()]

    def _environment(self) -> Mapping[str, str]:
        return os.environ | {
            "JAVA_HOME": str(java_executable().resolve().parent.parent),
            "SPARK_HOME": str(pyspark_home()),
            "SPARK_DAEMON_MEMORY": f"{DAEMON_HEAP_MIB}m",
            # By default Spark takes the next port if one is taken, and would not be found.
            "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -Dspark.port.maxRetries=0",
            "SPARK_LOCAL_IP": LOOPBACK,
            "SPARK_LOCAL_DIRS": str(self.folder / "local"),
            # Executors run the same Python as this process.
            "PYSPARK_PYTHON": sys.executable,
        }

    def _main_class(self) -> str:
        raise NotImplementedError

    def _arguments(self) -> Sequence[str]:
        raise NotImplementedError


class SparkMaster(SparkDaemon):
    """A Spark standalone master."""

    @property
    def url(self) -> str:
        """What a Spark session names as its master: `spark://HOST:PORT`."""
        return f"spark://{self.address}"

    def alive_workers(self) -> int:
        """How many workers the master has; 0 while it does not answer."""
        connection = http.client.HTTPConnection(LOOPBACK, self.web_port, timeout=PROBE_TIMEOUT_S)
        try:
            connection.request("GET", "/json/")
            return int(json.loads(connection.getresponse().read())["aliveworkers"])
        except (OSError, http.client.HTTPException, ValueError, KeyError):
            return 0
        finally:
            connection.close()

    def _serves(self, port: int) -> bool:
        return port_accepts(port) and port_accepts(self.web_port)

    def _main_class(self) -> str:
        return MASTER_CLASS

    def _arguments(self) -> Sequence[str]:
        return ()


class SparkWorker(SparkDaemon):
    """A Spark standalone worker."""

    def __init__(
        self, name: str, folder: Path, *, master_url: str, cores: int, memory_mib: int, start_timeout_s: float
    ) -> None:
        """Describe the worker; nothing starts yet.

        Args:
            name: Name of its log.
            folder: A folder of its own; made if absent.
            master_url: See `SparkMaster.url`.
            cores: Number of cores that it offers to executors.
            memory_mib: Memory that it offers to executors, in MiB.
            start_timeout_s: Bound for each start, in seconds.
        """
        super().__init__(name, folder, start_timeout_s=start_timeout_s)
        self._master_url = master_url
        self._cores = cores
        self._memory_mib = memory_mib

    def _serves(self, port: int) -> bool:
        return port_accepts(port) and port_accepts(self.web_port)

    def _main_class(self) -> str:
        return WORKER_CLASS

    def _arguments(self) -> Sequence[str]:
        offered = ("--cores", str(self._cores), "--memory", f"{self._memory_mib}M")
        return (*offered, "--work-dir", str(self.folder / "work"), self._master_url)


class SparkConnect(SparkDaemon):
    """A Spark Connect server, and Spark in the same JVM."""

    def __init__(self, folder: Path, conf: Mapping[str, str], *, start_timeout_s: float = 120.0) -> None:
        """Describe the server; nothing starts yet.

        Args:
            folder: A folder of its own; made if absent.
            conf: Configuration of its Spark, the master too.
            start_timeout_s: Bound for each start, in seconds.
        """
        super().__init__("spark-connect", folder, start_timeout_s=start_timeout_s)
        self._conf = conf

    @property
    def url(self) -> str:
        """What a session names as `spark.remote`: `sc://HOST:PORT`."""
        return f"sc://{self.address}"

    def _prepare(self, port: int) -> Sequence[str]:
        bound = {"address": LOOPBACK, "port": str(port)}
        conf = {**self._conf, **{f"spark.connect.grpc.binding.{name}": value for name, value in bound.items()}}
        options = (f"--conf={name}={value}" for name, value in conf.items())
        return [str(pyspark_home() / "bin" / "spark-submit"), "--class", CONNECT_CLASS, *options, "spark-internal"]

    def _environment(self) -> Mapping[str, str]:
        # It computes itself, so its memory and its options are those of a driver.
        return {**super()._environment(), "SPARK_DAEMON_MEMORY": "", "SPARK_DAEMON_JAVA_OPTS": ""}

    def _serves(self, port: int) -> bool:
        return port_accepts(port)


class SparkStandalone:
    """A master and its workers as one context manager."""

    def __init__(
        self,
        folder: Path,
        *,
        workers: int = 2,
        cores_per_worker: int = 1,
        memory_per_worker_mib: int = 1024,
        start_timeout_s: float = 120.0,
        progress: Progress = silent,
    ) -> None:
        """Describe the cluster; nothing starts yet.

        Args:
            folder: For the folders of master and workers.
            workers: Number of workers.
            cores_per_worker: Cores that each offers to executors.
            memory_per_worker_mib: Memory that each offers to executors, in MiB.
            start_timeout_s: Bound for each daemon's start, in seconds.
            progress: Gets a line for each step.
        """
        self.folder = folder
        self.master = SparkMaster("spark-master", folder / "master", start_timeout_s=start_timeout_s)
        self.workers: tuple[SparkWorker, ...] = ()
        self._worker_count = workers
        self._cores_per_worker = cores_per_worker
        self._memory_per_worker_mib = memory_per_worker_mib
        self._start_timeout_s = start_timeout_s
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
    def url(self) -> str:
        """What a Spark session names as its master: `spark://HOST:PORT`."""
        return self.master.url

    def start(self) -> None:
        """Start the master, then all workers in parallel, and wait until they are registered at the master.

        Raises:
            PartFailed: A part did not start; the message holds its log's tail. All parts have been stopped.
        """
        with ExitStack() as stack:
            self._progress("starting the Spark master")
            stack.enter_context(self.master)
            self._progress(f"starting {self._worker_count} Spark workers")
            self.workers = tuple(self._worker(number) for number in range(1, self._worker_count + 1))
            for worker in self.workers:
                stack.callback(worker.stop)
                worker.launch()
            for worker in self.workers:
                worker.wait_ready()
            self._wait_registered()
            self._stack = stack.pop_all()

    def stop(self) -> None:
        """Stop the workers with their executors, then the master."""
        self._stack.close()

    def _worker(self, number: int) -> SparkWorker:
        name = f"spark-worker-{number}"
        return SparkWorker(
            name,
            self.folder / name,
            master_url=self.master.url,
            cores=self._cores_per_worker,
            memory_mib=self._memory_per_worker_mib,
            start_timeout_s=self._start_timeout_s,
        )

    def _wait_registered(self) -> None:
        try:
            wait_until(
                lambda: self.master.alive_workers() == self._worker_count,
                what=f"the Spark master has {self._worker_count} workers",
                timeout_s=self._start_timeout_s,
            )
        except PartFailed as failure:
            raise PartFailed(self.master.process.with_log(str(failure))) from failure
