"""`python -m lab.testbed`: fetch the jars of the testbed, so that no test and no demo waits for them later."""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from lab.testbed.artifacts import KRAFT_VERSION, ZOOKEEPER_MODE_VERSION, ensure_kafka, zookeeper_classpath
from lab.testbed.java import java_executable
from shunter.errors import DriverError


def tell(message: str) -> None:
    """Write a line of progress to standard error, which leaves standard output to the caller."""
    sys.stderr.write(f"{message}\n")
    sys.stderr.flush()


def version(text: str) -> str:
    """Read a version of Kafka.

    Raises:
        ArgumentTypeError: it is none.
    """
    if re.fullmatch(r"\d+\.\d+\.\d+", text) is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no version of Kafka such as {ZOOKEEPER_MODE_VERSION}")
    return text


def main(arguments: Sequence[str]) -> int:
    """Fetch and check the named versions of Kafka, or those that demo and tests need; the exit status."""
    needed = [ZOOKEEPER_MODE_VERSION, KRAFT_VERSION]
    parser = argparse.ArgumentParser(prog="python -m lab.testbed", description="Fetch the jars of the testbed.")
    told = f"versions of Kafka to fetch (default: {' '.join(needed)})"
    parser.add_argument("versions", nargs="*", type=version, metavar="VERSION", help=told)
    versions = parser.parse_args(arguments).versions or needed
    started = time.monotonic()
    try:
        java_executable()
        zookeeper_classpath()
        # A download mostly waits for the registry's answers, so several in parallel take no longer than one.
        with ThreadPoolExecutor() as pool:
            list(pool.map(partial(ensure_kafka, progress=tell), versions))
    except DriverError as error:
        tell(str(error))
        return 1
    tell(f"real parts are ready, {time.monotonic() - started:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
