"""Cleaning up after a failed test of the executor, so that the next test does not fail because of it."""

import subprocess
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, suppress
from typing import Any
from weakref import WeakSet

from lab.testbed.server import Server
from lab.testbed.waiting import wait_until
from shunter.core.throttles import FOLLOWER_RATE, LEADER_RATE, LISTS
from shunter.drivers.admin.blocking import BlockingAdmin
from shunter.drivers.admin.reassignments import AlterOptions
from shunter.errors import DriverError
from shunter.model.execution import ThrottleKey

Tidied = Callable[..., AbstractContextManager[None]]
"""The fixture `tidied` of `conftest.py`."""
_STARTED: WeakSet[subprocess.Popen[Any]] = WeakSet()


def remember(process: subprocess.Popen[Any]) -> None:
    """Remember an executor that runs in the background, because it would go on moving partitions after its test."""
    _STARTED.add(process)


def end_all() -> None:
    """Kill the remembered processes that still run."""
    for process in list(_STARTED):
        process.kill()
        process.wait(30)
        _STARTED.discard(process)


def tidy_up(servers: Iterable[Server], client: Mapping[str, Any]) -> None:
    """Kill executors, start dead brokers, cancel moves, remove throttles.

    Args:
        servers: Brokers, some of which a test may have killed or paused.
        client: Settings of an Admin client for them.
    """
    end_all()
    for server in servers:
        if server.alive:
            server.resume()
        else:
            server.start()
    wait_until(lambda: _clean(client), what="nothing moves, and no throttle is set", timeout_s=120)


def _clean(client: Mapping[str, Any]) -> bool:
    """Cancel every move and remove every throttle; whether there were none. Answers may be old, so it is repeated."""
    with suppress(DriverError), BlockingAdmin(client) as admin:
        ongoing = admin.list_moves()
        admin.alter_moves(dict.fromkeys(ongoing), AlterOptions())
        found = admin.read_settings(_throttles(admin))
        nothing = dict.fromkeys(key for key, value in found.items() if value is not None)
        admin.write_settings(nothing)
        return not ongoing and not nothing
    return False


def _throttles(admin: BlockingAdmin) -> list[ThrottleKey]:
    """Every throttle that a move may have set."""
    brokers = [str(node.id) for node in admin.nodes()]
    return [ThrottleKey("broker", broker, rate) for broker in brokers for rate in (LEADER_RATE, FOLLOWER_RATE)] + [
        ThrottleKey("topic", topic, replicas) for topic in admin.topic_names() for replicas in LISTS
    ]
