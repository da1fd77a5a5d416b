"""Fixtures for all rooms. Real servers start once for a session, and only if a test asks for them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, settings

from shunter.testbed.ports import free_port as free_port_of_the_kernel
from shunter.testbed.zookeeper import ZooKeeperServer

# Two cores carry whole clusters beside the properties: a slow example says nothing about the code.
CALM = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("quick", max_examples=60, **CALM)
settings.register_profile("deep", max_examples=2000, **CALM)
settings.load_profile("quick")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tell what the tests with Spark took: in the default run they are to stay below four minutes."""
    reports = [report for group in terminalreporter.stats.values() for report in group]
    marked = [report for report in reports if isinstance(report, pytest.TestReport) and "spark" in report.keywords]
    if marked:
        seconds = sum(report.duration for report in marked)
        terminalreporter.write_line(f"tests with Spark: {seconds:.0f} s of it, on {len(os.sched_getaffinity(0))} cores")


@pytest.fixture(autouse=True)
def umask_as_it_was() -> Iterator[None]:
    """A command that a test runs in this process makes its files private; the next test's files are as usual."""
    before = os.umask(0o022)
    os.umask(before)
    yield
    os.umask(before)


@pytest.fixture
def free_port() -> int:
    """A port that was free a moment ago."""
    return free_port_of_the_kernel()


@pytest.fixture
def work_dir(tmp_path: Path) -> Path:
    """A folder for one test's servers; kept, with their logs, if the test fails."""
    return tmp_path


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    """One ZooKeeper server for all tests of a session; stay below your own `chroot`, and leave it running."""
    with ZooKeeperServer(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


@pytest.fixture
def chroot() -> str:
    """A path that no other test uses; nothing is there yet."""
    return f"/test-{uuid4().hex[:12]}"
