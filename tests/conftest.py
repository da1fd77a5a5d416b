"""Fixtures for all rooms. A real server starts once in a session, and only if a test needs it."""

import os
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, settings

from lab.testbed.ports import free_port as free_port_of_the_kernel
from lab.testbed.zookeeper import ZooKeeperServer

# Whole clusters run at the same time on two cores, so a slow example says nothing about the code.
CALM = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("brief", max_examples=15, **CALM)
settings.register_profile("quick", max_examples=60, **CALM)
settings.register_profile("deep", max_examples=2000, **CALM)
settings.load_profile("quick")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the time of the tests with Spark, which have to stay below four minutes in the default run."""
    reports = [report for group in terminalreporter.stats.values() for report in group]
    marked = [report for report in reports if isinstance(report, pytest.TestReport) and "spark" in report.keywords]
    if marked:
        seconds = sum(report.duration for report in marked)
        terminalreporter.write_line(f"tests with Spark: {seconds:.0f} s of it, on {len(os.sched_getaffinity(0))} cores")


@pytest.fixture(autouse=True)
def umask_as_it_was() -> Iterator[None]:
    """Restore the umask, because a command that a test runs in this process sets it to make its files private."""
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
    """One ZooKeeper server for all tests of a session. A test stays below its own `chroot`, and leaves it running."""
    with ZooKeeperServer(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


@pytest.fixture
def chroot() -> str:
    """A path that no other test uses; nothing is there yet."""
    return f"/test-{uuid4().hex[:12]}"
