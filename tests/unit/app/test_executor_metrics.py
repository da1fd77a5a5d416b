"""An executor's metrics: one page from one view, and an endpoint that is not ready before the journal was read."""

from __future__ import annotations

from dataclasses import replace

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from lab.testbed.ports import free_port
from shunter.app.executor.metrics import ExecutionPage, metrics_served
from shunter.errors import DriverError
from shunter.views.execution import ExecutionView, MoveRow

ROW = MoveRow("t-0", "moving", "forward", (1, 2), (1, 2), (3, 2), (1, 2, 3), 1, "", "broker 3 is full", 100, 25, 0)
VIEW = ExecutionView(
    at_ms=5_000,
    cluster_id="abc",
    plan_id="p",
    running=True,
    limit=None,
    counts={"moving": 1, "done": 3},
    total_bytes=100,
    copied_bytes=25,
    bytes_per_s=None,
    left_ms=60_000,
    low_ms=50_000,
    high_ms=90_000,
    held="",
    rollback_bytes=7,
    brokers_down=(4, 5),
    silent_ms=1_500,
    throttles_left=6,
    owed="",
    moves=(ROW,),
)


def samples(page: bytes) -> dict[tuple[str, str], float]:
    """Values by name without its beginning, and the label beside the cluster's id."""
    return {
        (
            sample.name.removeprefix("shunter_executor_"),
            sample.labels.get("state") or sample.labels.get("bound", ""),
        ): sample.value
        for family in text_string_to_metric_families(page.decode())
        for sample in family.samples
        if sample.labels["cluster_id"] == "abc"
    }


def test_what_is_known_is_told_and_what_is_not_has_no_sample() -> None:
    page = ExecutionPage()
    page.see(VIEW)
    told = samples(page.render()[1])
    assert told["moves", "done"] == 3
    assert (told["stuck_moves", ""], told["done_share", ""], told["brokers_down", ""]) == (1, 0.25, 2)
    assert [told["left_seconds", bound] for bound in ("low", "middle", "high")] == [50, 60, 90]
    assert (told["silent_seconds", ""], told["throttles_set", ""]) == (1.5, 6)
    assert not {name for name, _label in told} & {"bytes_per_second", "throttle_bytes_per_second"}
    page.see(replace(VIEW, limit=1_000, bytes_per_s=9.5))
    told = samples(page.render()[1])
    assert (told["throttle_bytes_per_second", ""], told["bytes_per_second", ""]) == (1_000, 9.5)


async def test_it_is_ready_once_there_is_something_to_tell() -> None:
    port = free_port()
    async with metrics_served(port) as see, httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
        early = await client.get("/ready")
        nothing = await client.get("/metrics")
        see(VIEW)
        ready = await client.get("/ready")
        with pytest.raises(DriverError, match=str(port)):
            async with metrics_served(port):
                pass
    assert (early.status_code, ready.status_code) == (503, 200)
    assert "abc" in ready.text
    assert "shunter_executor" not in nothing.text
