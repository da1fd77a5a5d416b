"""Child processes with a log and bounded waits, which never outlive this process."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from lab.testbed.failures import PartFailed, PortStolen
from lab.testbed.waiting import POLL_INTERVAL_S

REAPER = Path(__file__).with_name("reaper.py")
# The shell announces its own process group to the reaper before it executes the command, so the command never runs
# without the reaper knowing it. The announcement goes through standard input, because every shell can write to that,
# and few can write to a descriptor of two digits.
ANNOUNCE_AND_BECOME = 'echo "+$$" >&0 && input=$1 && shift && exec "$@" <"$input"'
STOLEN_PORT_SIGNS = ("Address already in use", "BindException", "Socket server failed to bind")
LOG_TAIL_BYTES = 64 * 1024
REAPED_WITHIN_S = 2.0


class Reaper:
    """The writing end of the pipe to the reaper process. Each Python process has one, started with its first child."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner = 0
        self._announce_to = -1
        # Kept for ever: Python warns about a Popen object that is dropped before its process has ended.
        self._process: subprocess.Popen[bytes] | None = None

    def announcement_descriptor(self) -> int:
        """The descriptor to which a child writes its process group; starts the reaper if there is none yet."""
        with self._lock:
            # A forked copy of this process needs a reaper of its own, and a reaper that was killed is replaced.
            if self._owner != os.getpid() or self._process is None or self._process.poll() is not None:
                self._start()
            return self._announce_to

    def remember(self, group: int) -> None:
        """Announce a process group from the parent, too. A child that is paused right after its start can't."""
        self._tell(f"+{group}\n")

    def forget(self, group: int) -> None:
        """Tell the reaper that a process group has ended, so that its number is free for others."""
        self._tell(f"-{group}\n")

    def _tell(self, line: str) -> None:
        with self._lock:
            if self._owner == os.getpid():
                # If the reaper was killed, only the safety net is lost.
                with contextlib.suppress(BrokenPipeError):
                    os.write(self._announce_to, line.encode())

    def _end(self) -> None:
        """Close the pipe to the reaper and wait for its end: Python warns about a Popen that is not waited for."""
        with self._lock:
            if self._owner != os.getpid() or self._process is None:
                return
            self._owner = 0
            os.close(self._announce_to)
            # If a forked copy of this process still has the pipe open, the reaper goes on for that copy.
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(REAPED_WITHIN_S)

    def _start(self) -> None:
        if self._process is None:
            atexit.register(self._end)
        reads, writes = os.pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(REAPER), str(os.getpid())],
            stdin=reads,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )
        os.close(reads)
        self._announce_to = writes
        self._owner = os.getpid()


REAPER_LINE = Reaper()


def announced(name: str, command: Sequence[str], input_path: Path = Path(os.devnull)) -> list[str]:
    """The command line that announces itself to the reaper and then runs `command` with `input_path` as its input."""
    return ["/bin/sh", "-c", ANNOUNCE_AND_BECOME, name, str(input_path), *command]


def run_bounded(
    command: Sequence[str],
    *,
    timeout_s: float,
    input_text: str = "",
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, within a bound. It never outlives this process, like all children of the testbed.

    Returns:
        Exit status (negative for a signal), standard output and standard error.

    Raises:
        PartFailed: It still ran when the bound was reached; it has been killed.
    """
    with tempfile.NamedTemporaryFile("w", prefix="shunter-input-") as input_file:
        input_file.write(input_text)
        input_file.flush()
        with subprocess.Popen(
            announced(command[0], command, Path(input_file.name)),
            stdin=REAPER_LINE.announcement_descriptor(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                out, err = process.communicate(timeout=timeout_s)
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError):  # It may have ended just now.
                    os.killpg(process.pid, signal.SIGKILL)
                out, err = process.communicate()
                told = f"{command[0]} … {command[-1]} still ran after {timeout_s:g} s and was killed"
                raise PartFailed(f"{told}; it wrote:\n{out[-2000:]}{err[-2000:]}") from None
            except BaseException:
                with contextlib.suppress(ProcessLookupError):  # It may have ended just now.
                    os.killpg(process.pid, signal.SIGKILL)
                raise
            finally:
                REAPER_LINE.forget(process.pid)
    return subprocess.CompletedProcess(list(command), process.returncode, out, err)


class ManagedProcess:
    """One child process in a session of its own, so that ctrl-C reaches only this process, which stops things in order.

    It can be started again after it has ended; the log is one file for all starts. Not thread-safe.

    Invariant: however this process ends, the child's whole process group ends, too (see `reaper`).
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        folder: Path,
        *,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Describe the process; nothing starts yet.

        Args:
            name: Unique within `folder`; names the log file `NAME.log` and the process in errors.
            command: Program and arguments.
            folder: Working directory; made if absent.
            environment: The whole environment; None for this process's own.
        """
        self.name = name
        self.command = tuple(command)
        self.folder = folder
        self.log_path = folder / f"{name}.log"
        self._environment = dict(environment) if environment is not None else None
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0

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

    @property
    def pid(self) -> int | None:
        """Process id of the present or last run; None before the first."""
        return self._process.pid if self._process is not None else None

    @property
    def alive(self) -> bool:
        """Whether the process runs (or is paused)."""
        return self._process is not None and self._polled() is None

    @property
    def exit_status(self) -> int | None:
        """Exit status of the last run, negative for a signal; None while it runs or before the first."""
        return self._polled() if self._process is not None else None

    def start(self) -> None:
        """Start the process; does not wait until it serves.

        Raises:
            PartFailed: It runs already.
        """
        if self.alive:
            raise PartFailed(f"{self.name} runs already as process {self.pid}")
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.log_path.open("ab") as log:
            self._log_start = log.tell()
            self._process = subprocess.Popen(
                announced(self.name, self.command),
                stdin=REAPER_LINE.announcement_descriptor(),
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env=self._environment,
                start_new_session=True,
            )
        REAPER_LINE.remember(self._process.pid)

    def wait_ready(self, ready: Callable[[], bool], *, what: str, timeout_s: float) -> float:
        """Wait until `ready` holds.

        Returns:
            Seconds waited.

        Raises:
            PortStolen: The process ended because its port is taken.
            PartFailed: The process ended otherwise, or the bound was reached. Both messages hold the log's tail.
        """
        started = time.monotonic()
        while not ready():
            waited = time.monotonic() - started
            if not self.alive:
                failure = PortStolen if self._port_was_stolen() else PartFailed
                raise failure(self.with_log(f"{self.name} ended with status {self.exit_status} before {what}"))
            if waited >= timeout_s:
                bound = f"{waited:.1f} s (bound {timeout_s:g} s)"
                raise PartFailed(self.with_log(f"waited {bound} in vain for {self.name} until {what}"))
            time.sleep(POLL_INTERVAL_S)
        return time.monotonic() - started

    def wait(self, timeout_s: float) -> int:
        """Wait for the process to end by itself and return its exit status.

        Raises:
            PartFailed: It still runs when the bound is reached, or was never started.
        """
        if self._process is None:
            raise PartFailed(f"{self.name} was never started, so there is no end to wait for")
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise PartFailed(self.with_log(f"{self.name} still runs after {timeout_s:g} s")) from None
        return self._ended()

    def stop(self, timeout_s: float = 10.0) -> None:
        """Ask the process to end (SIGTERM), wait up to `timeout_s` seconds, then SIGKILL. No effect if it has ended."""
        if not self.alive:
            return
        # A paused process handles SIGTERM only after SIGCONT.
        self._signal(signal.SIGTERM)
        self._signal(signal.SIGCONT)
        assert self._process is not None
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
        else:
            self._ended()

    def kill(self) -> None:
        """End the process at once (SIGKILL). No effect if it has ended."""
        if not self.alive:
            return
        self._signal(signal.SIGKILL)
        assert self._process is not None
        self._process.wait()
        self._ended()

    def pause(self) -> None:
        """Pause the process (SIGSTOP) and wait until it is stopped. Its connections stay open, and nothing answers."""
        if self.alive:
            self._signal(signal.SIGSTOP)
            assert self._process is not None
            # The signal is sent at once, but a Java with many threads stops a while later. WNOWAIT leaves the status in
            # place: if the process has ended instead, `_polled` takes it.
            os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """Resume a paused process (SIGCONT)."""
        self._signal(signal.SIGCONT)

    def log_tail(self, lines: int = 40) -> str:
        """The last lines that the process wrote in its present or last run."""
        return "\n".join(self._log_text().splitlines()[-lines:])

    def with_log(self, message: str, lines: int = 40) -> str:
        """`message` with the path of the log and its last lines."""
        return f"{message}; log: {self.log_path}\n{self.log_tail(lines)}"

    def _log_text(self) -> str:
        if not self.log_path.exists():
            return ""
        with self.log_path.open("rb") as log:
            size = log.seek(0, os.SEEK_END)
            log.seek(max(self._log_start, size - LOG_TAIL_BYTES))
            return log.read().decode(errors="replace")

    def _port_was_stolen(self) -> bool:
        text = self._log_text()
        return any(sign in text for sign in STOLEN_PORT_SIGNS)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    def _polled(self) -> int | None:
        assert self._process is not None
        if self._process.returncode is not None:
            return self._process.returncode
        return None if self._process.poll() is None else self._ended()

    def _ended(self) -> int:
        """Kill the rest of the process group, and take the group off the reaper's list."""
        assert self._process is not None
        group, status = self._process.pid, self._process.returncode
        assert status is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
        REAPER_LINE.forget(group)
        return status
