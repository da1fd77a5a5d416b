"""What a service manager is told, by systemd's protocol: that we serve, that we are alive, that we stop.

Datagrams go to the unix socket that `NOTIFY_SOCKET` names. They are sent by a timer of the event loop itself, so a loop
that hangs sends none, and systemd restarts the process (`WatchdogSec=`). Without the variable nothing is sent.

Source: sd_notify(3) and sd_watchdog_enabled(3), whose protocol is stable and takes no library.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping

LOG = logging.getLogger(__name__)
TURN_SECONDS = 1.0
"""How often it is looked whether we serve, and what to tell of it."""
PATIENCE_MICROSECONDS = 30_000_000
"""We ask systemd to wait so much longer while we are not ready: a restart would not cure what is in the way."""


class ServiceManager:
    """Tells the service manager how we are. Used from one event loop."""

    def __init__(
        self, environment: Mapping[str, str], pid: int, ready: Callable[[], tuple[bool, tuple[str, ...]]]
    ) -> None:
        """Look who wants to be told; nothing is sent yet.

        Args:
            environment: with `NOTIFY_SOCKET`, `WATCHDOG_USEC` and `WATCHDOG_PID`, as systemd sets them.
            pid: ours; a watchdog of another process is not served.
            ready: whether we serve, and in lines what we do or what is in the way.
        """
        self._address = environment.get("NOTIFY_SOCKET", "")
        self._ready = ready
        self._seconds = TURN_SECONDS
        self._watched = False
        if environment.get("WATCHDOG_PID", str(pid)) == str(pid):
            told = environment.get("WATCHDOG_USEC", "")
            if told.isascii() and told.isdigit() and int(told) > 0:
                self._watched = True
                # A third of what is allowed, so that a turn that is late by as much is not taken for a hang.
                self._seconds = min(TURN_SECONDS, int(told) / 3_000_000)
        self._socket: socket.socket | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._served = False
        self._status = ""
        self._failed = False

    def start(self) -> None:
        """Begin to tell, on the running loop."""
        if not self._address:
            return
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self._socket.setblocking(False)
        self._turn()

    def stop(self) -> None:
        """Tell that we stop. Turns go on until `close`, for stopping may take some seconds."""
        self._tell("STOPPING=1")

    def close(self) -> None:
        """Tell nothing any more."""
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
            # A message that could not be sent is sent again with the next turn.
            self._served, self._status = serves, status
        self._timer = asyncio.get_running_loop().call_later(self._seconds, self._turn)

    def _tell(self, *lines: str) -> bool:
        """Send one datagram; whether it went."""
        if self._socket is None:
            return False
        # A name that begins with @ is in Linux' abstract namespace, which a zero byte stands for.
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
