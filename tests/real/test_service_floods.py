"""The service's port is flooded without a token while its executor moves partitions of real brokers."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Self

import pytest
from executor_process import Cluster
from live_producer import fill
from serve_process import SERVED, Service
from test_keeper import PATIENCE

from lab.testbed.kraft import KRaftCluster
from lab.testbed.waiting import wait_until
from shunter.app.access.access_tokens import AccessRole, add_token
from shunter.app.executor.session import Target
from shunter.app.service.client import SOCKET, ServiceClient, ServiceServer
from shunter.app.service.stories import Stories, journal_of
from shunter.model.service import OrderKind, ServiceOrder

pytestmark = [pytest.mark.kraft, pytest.mark.long, pytest.mark.timeout(600)]

FLOOD = Path(__file__).parents[1] / "unit" / "web" / "web_flood.py"
KINDS = ("connections", "bodies", "sign-ins")
PARTITIONS = 12
PAUSE = ServiceOrder(OrderKind.PAUSE, "away")
"""No broker of that cluster answers: this order waits for the service alone."""


@contextmanager
def floods(kinds: Sequence[str], port: int) -> Iterator[None]:
    """Flood a port in several ways while the block runs."""
    flooding = [
        subprocess.Popen(
            [sys.executable, str(FLOOD), kind, str(port), "150"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for kind in kinds
    ]
    try:
        yield
    finally:
        for each in flooding:
            _, _ = each.communicate(timeout=60)


class Orders:
    """Gives an order through the socket a few times a second, and notes how long each took."""

    def __init__(self, folder: Path) -> None:
        self.took: list[float] = []
        self._service = ServiceClient(ServiceServer(folder / SOCKET))
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._give)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(60)

    def _give(self) -> None:
        while not self._over.wait(0.3):
            began = time.monotonic()
            self._service.order(PAUSE, "", f"{began}")
            self.took.append(time.monotonic() - began)


def test_orders_and_steps_are_not_later_while_the_port_is_flooded(
    kraft: KRaftCluster, service: Service, tmp_path: Path, free_port: int
) -> None:
    add_token(tmp_path / "tokens.json", "anna", AccessRole.READ, None)
    policy = SERVED.format(bootstrap=kraft.bootstrap).replace('throttle = "2K"', "max-concurrent = 1")
    (tmp_path / "keeper.toml").write_text(policy)
    service.more = ["--listen", f"127.0.0.1:{free_port}", "--tokens", str(tmp_path / "tokens.json")]
    slowest: dict[str, float] = {}
    with closing(Cluster(kraft.bootstrap)) as cluster:
        service.start()
        for topic, kinds in (("calm", ()), ("flooded", KINDS)):
            cluster.make(topic, dict.fromkeys(range(PARTITIONS), (1, 2)))
            fill(kraft.bootstrap, topic, PARTITIONS, 500_000)
            wait_until(lambda topic=topic: cluster.in_sync(topic), what="all are in sync", timeout_s=60)
            with floods(kinds, free_port), Orders(tmp_path / "s") as orders:
                service.carry_out("rebalance")
            slowest[topic] = max(orders.took)
            assert any(3 in replicas for replicas in cluster.replicas(topic).values())
            cluster.admin.delete_topics([topic])
        assert service.stop() == 0
    calm_s, flooded_s = asyncio.run(durations(tmp_path / "moves.journal"))
    print(f"an order took {slowest} s at most; the executions took {calm_s:.1f} and {flooded_s:.1f} s")
    assert slowest["flooded"] < 1.0 * PATIENCE
    assert flooded_s < (1.5 * calm_s + 5) * PATIENCE


async def durations(journal: Path) -> list[float]:
    """How long each execution took, in seconds."""
    executions = await Stories(journal_of(Target("", journal=journal), str)).executions()
    return [((each.ended_at_ms or 0) - each.began_at_ms) / 1000 for each in executions]
