"""Notifies a service manager by systemd's protocol: the process serves, is alive, or stops.

Datagrams go to the UNIX socket that `NOTIFY_SOCKET` names. A timer of the event loop sends them, so a loop that hangs
sends none, and systemd restarts the process (`WatchdogSec=`). Without the variable nothing is sent.

Source: sd_notify(3) and sd_watchdog_enabled(3), whose protocol is stable and needs no library.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping

LOG = logging.getLogger(__name__)
TURN_SECONDS = 1.0
"""How often readiness is checked and reported."""
PATIENCE_MICROSECONDS = 30_000_000
"""How much longer systemd is asked to wait while the process is not ready: a restart would not remove the reason."""


class ServiceManager:
    """Notifies the service manager. Use it from one event loop."""

    def __init__(
        self, environment: Mapping[str, str], pid: int, ready: Callable[[], tuple[bool, tuple[str, ...]]]
    ) -> None:
        """Read the environment; nothing is sent yet.

        Args:
            environment: with `NOTIFY_SOCKET`, `WATCHDOG_USEC` and `WATCHDOG_PID`, as systemd sets them.
            pid: of this process; a watchdog for another process is ignored.
            ready: returns whether the process serves, and lines that say what it does or what is in the way.
        """
        self._address = environment.get("NOTIFY_SOCKET", "")
        self._ready = ready
        self._seconds = TURN_SECONDS
        self._watched = False
        if environment.get("WATCHDOG_PID", str(pid)) == str(pid):
            told = environment.get("WATCHDOG_USEC", "")
            if told.isascii() and told.isdigit() and int(told) > 0:
                self._watched = True
                # A third of the allowed time, so that a turn that is late by as much is not taken for a hang.
                self._seconds = min(TURN_SECONDS, int(told) / 3_000_000)
        self._socket: socket.socket | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._served = False
        self._status = ""
        self._failed = False

    def start(self) -> None:
        """Begin to send notifications, on the running loop."""
        if not self._address:
            return
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self._socket.setblocking(False)
        self._turn()

    def stop(self) -> None:
        """Report that the process stops. Turns go on until `close`, because stopping may take some seconds."""
        self._tell("STOPPING=1")

    def close(self) -> None:
        """Send nothing more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _turn(self) -> None:
        told: list[str] = []
        ready, lines = self._ready()
        serves = self._served or ready
        if not serves:
            told.append(f"EXTEND_TIMEOUT_USEC={PATIENCE_MICROSECONDS}")
        elif not self._served:
            told.append("READY=1")
        status = ("" if ready else "not ready: ") + "; ".join(lines).replace("\n", " ")
        if status != self._status:
            told.append(f"STATUS={status}")
        if self._watched:
            told.append("WATCHDOG=1")
        if told and self._tell(*told):
            # Noted only after a success: a message that could not be sent is sent again in the next turn.
            self._served, self._status = serves, status
        self._timer = asyncio.get_running_loop().call_later(self._seconds, self._turn)

    def _tell(self, *lines: str) -> bool:
        """Send one datagram; return whether it was sent."""
        if self._socket is None:
            return False
        # A name that begins with @ is in Linux's abstract namespace; such an address begins with a zero byte.
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        try:
            self._socket.sendto("\n".join(lines).encode(), address)
        except OSError as error:
            if not self._failed:
                LOG.warning("the service manager at NOTIFY_SOCKET=%s can't be told: %s", self._address, error)
            self._failed = True
            return False
        self._failed = False
        return True
