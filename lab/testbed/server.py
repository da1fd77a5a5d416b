"""The common part of all servers of the testbed: a folder, a port that the kernel chooses, a process."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from lab.testbed.failures import PartFailed, PortStolen
from lab.testbed.ports import LOOPBACK, free_port
from lab.testbed.process import ManagedProcess

LOGGING = Path(__file__).with_name("logging")
START_ATTEMPTS = 3


def logging_options(*, log4j2: bool, level: str) -> tuple[str, ...]:
    """Options for Java that make a server or a tool log at `level` and above to standard error."""
    configuration = (
        f"-Dlog4j2.configurationFile={(LOGGING / 'log4j2.properties').as_uri()}"
        if log4j2
        else f"-Dlog4j.configuration={(LOGGING / 'log4j.properties').as_uri()}"
    )
    return (configuration, f"-Dshunter.log.level={level}")


def properties_text(properties: Mapping[str, object]) -> str:
    """A Java properties file; booleans in Java's spelling."""
    lines = (f"{name}={str(value).lower() if isinstance(value, bool) else value}" for name, value in properties.items())
    return "".join(line.replace("\\", "\\\\") + "\n" for line in lines)


class Server(ABC):
    """One server process. It can be started, waited for, stopped, killed, paused, and restarted on its port and data.

    As a context manager it starts (if it is not up) and stops.
    """

    def __init__(self, name: str, folder: Path, *, port: int | None, start_timeout_s: float) -> None:
        """Describe the server; nothing starts yet.

        Args:
            name: Name of its log, and of the server in errors.
            folder: A folder of its own, for configuration, data and log.
            port: None for one that the kernel chooses at the first launch, and that is kept.
            start_timeout_s: Bound for each start, in seconds.
        """
        self.name = name
        self.folder = folder
        self.start_timeout_s = start_timeout_s
        self._port = port
        self._port_is_fixed = port is not None
        self._has_served = False
        self._process: ManagedProcess | None = None

    def __enter__(self) -> Self:
        if not self.alive:
            self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    @abstractmethod
    def _prepare(self, port: int) -> Sequence[str]:
        """Write the configuration for `port` and return the command line."""

    @abstractmethod
    def _serves(self, port: int) -> bool:
        """Whether the server answers on `port`."""

    def _environment(self) -> Mapping[str, str] | None:
        """The whole environment of the process; None for that of this process."""
        return None

    @property
    def port(self) -> int:
        """The port on the loopback.

        Raises:
            PartFailed: The server was never launched, so it has none yet.
        """
        if self._port is None:
            raise PartFailed(f"{self.name} was never launched, so it has no port yet")
        return self._port

    @property
    def address(self) -> str:
        """`HOST:PORT`."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def alive(self) -> bool:
        """Whether the process runs (or is paused)."""
        return self._process is not None and self._process.alive

    @property
    def process(self) -> ManagedProcess:
        """The process of the present or last start.

        Raises:
            PartFailed: The server was never launched.
        """
        if self._process is None:
            raise PartFailed(f"{self.name} was never launched")
        return self._process

    def launch(self) -> None:
        """Start the process without waiting; `wait_ready` has to follow. For starting several servers at once.

        Raises:
            PartFailed: It runs already.
        """
        if self.alive:
            raise PartFailed(f"{self.name} runs already as process {self.process.pid}")
        if self._port is None:
            self._port = free_port()
        command = self._prepare(self._port)
        self._process = ManagedProcess(self.name, command, self.folder, environment=self._environment())
        self._process.start()

    def wait_ready(self) -> float:
        """Wait until the launched server answers; start it again if another process took its port meanwhile.

        Returns:
            Seconds waited.

        Raises:
            PortStolen: The port was fixed from outside and is taken.
            PartFailed: It ended, or does not answer within its bound; the message holds the log's tail.
        """
        started = time.monotonic()
        attempts = 1
        while True:
            rest_s = started + self.start_timeout_s - time.monotonic()
            try:
                self.process.wait_ready(
                    lambda: self._serves(self.port), what=f"it answers on {self.address}", timeout_s=max(rest_s, 0.0)
                )
            except PortStolen:
                if not self._may_try_again(attempts):
                    raise
                attempts += 1
                self.launch()
            else:
                self._has_served = True
                return time.monotonic() - started

    def start(self) -> float:
        """Launch and wait until the server answers.

        Returns:
            Seconds that it took.

        Raises:
            PartFailed: See `wait_ready`.
        """
        started = time.monotonic()
        self.launch()
        try:
            self.wait_ready()
        except BaseException:
            self.kill()
            raise
        return time.monotonic() - started

    def stop(self, timeout_s: float = 15.0) -> None:
        """Ask the server to end in order (SIGTERM); SIGKILL after `timeout_s` seconds. No effect if it has ended."""
        if self._process is not None:
            self._process.stop(timeout_s)

    def kill(self) -> None:
        """End the server at once (SIGKILL). No effect if it has ended."""
        if self._process is not None:
            self._process.kill()

    def pause(self) -> None:
        """Pause the server (SIGSTOP)."""
        self.process.pause()

    def resume(self) -> None:
        """Resume a paused server (SIGCONT)."""
        self.process.resume()

    def restart(self) -> float:
        """Stop it if it runs, and start it on the same port and data.

        Returns:
            Seconds that the start took.

        Raises:
            PartFailed: See `wait_ready`.
        """
        self.stop()
        return self.start()

    def log_tail(self, lines: int = 40) -> str:
        """The last lines of the log of the present or last start."""
        return self.process.log_tail(lines)

    def _may_try_again(self, attempts: int) -> bool:
        """Prepare another attempt after a port was stolen: on a new port, or on the old one after the server served."""
        if self._has_served:
            # Another connection may hold the port for a moment; clients wait for the server on this port.
            return attempts < START_ATTEMPTS * 3
        if self._port_is_fixed:
            return False
        self._port = None
        return attempts < START_ATTEMPTS
