"""`python -m lab.testbed`: fetch the jars of the testbed, so that no test and no demo waits for them later."""

from __future__ import annotations

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from lab.testbed.artifacts import KRAFT_VERSION, ZOOKEEPER_MODE_VERSION, ensure_kafka, zookeeper_classpath
from lab.testbed.java import java_executable
from shunter.errors import DriverError


def tell(message: str) -> None:
    """Write a line of progress to standard error, which leaves standard output to the caller."""
    sys.stderr.write(f"{message}\n")
    sys.stderr.flush()


def main(versions: list[str]) -> int:
    """Fetch and check the named versions of Kafka, or those that demo and tests need; the exit status."""
    started = time.monotonic()
    try:
        java_executable()
        zookeeper_classpath()
        # A download mostly waits for the registry's answers, so several in parallel take no longer than one.
        with ThreadPoolExecutor() as pool:
            list(pool.map(partial(ensure_kafka, progress=tell), versions or [ZOOKEEPER_MODE_VERSION, KRAFT_VERSION]))
    except DriverError as error:
        tell(str(error))
        return 1
    tell(f"real parts are ready, {time.monotonic() - started:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
