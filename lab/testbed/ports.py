"""Free ports, chosen by the kernel."""

from __future__ import annotations

import socket
from contextlib import ExitStack

LOOPBACK = "127.0.0.1"


def free_ports(count: int) -> tuple[int, ...]:
    """Ask the kernel for `count` different TCP ports that are free on the loopback right now.

    All sockets stay bound until the last port is known, so one call never returns a port twice. Another process may
    take a port before the part binds it; starters notice that (`PortStolen`) and ask for a new one.
    """
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) for _ in range(count)]
        for listener in sockets:
            listener.bind((LOOPBACK, 0))
        return tuple(int(listener.getsockname()[1]) for listener in sockets)


def free_port() -> int:
    """Ask the kernel for one free TCP port on the loopback."""
    return free_ports(1)[0]
