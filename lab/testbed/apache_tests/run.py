"""One run of a test class, in a Java process of its own, with one of the two controllers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from lab.testbed.apache_tests.jars import agent_jar
from lab.testbed.apache_tests.results import CaseOutcome, Result, read_feed, read_reports
from lab.testbed.java import java_executable

JAVA_OPTIONS = ("-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""A class starts dozens of short-lived clusters, so a fast start matters more than fast code."""
TIMEOUT_S = 2_400.0
BETWEEN_METHODS = re.compile(r",(?![^(]*\))")
"""A comma between two methods, not between the argument types of one."""
LOGGING = """log4j.rootLogger=WARN, FILE
log4j.appender.FILE=org.apache.log4j.FileAppender
log4j.appender.FILE.File={log}
log4j.appender.FILE.layout=org.apache.log4j.PatternLayout
log4j.appender.FILE.layout.ConversionPattern=[%d] %p %m (%c)%n
"""


class JudgedController(Enum):
    """The controller that a run judges."""

    APACHE = "apache"
    SHUNTER = "shunter"
    """With the default settings: moves go by steps."""
    AT_ONCE = "shunter-all-at-once"
    """With `strategy=all-at-once`, as Apache's controller moves partitions."""

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables with settings for the controller."""
        return {"SHUNTER_STRATEGY": "all-at-once"} if self is JudgedController.AT_ONCE else {}


def selection(name: str) -> list[str]:
    """JUnit's arguments that select a class, or methods of it (`CLASS#METHOD[,METHOD…]`)."""
    tests, _, methods = name.partition("#")
    if not methods:
        return [f"--select-class={tests}"]
    return [f"--select-method={tests}#{method}" for method in BETWEEN_METHODS.split(methods)]


class Ran(NamedTuple):
    """The results of a run. `whole`: the run was not ended before its last test."""

    results: dict[str, Result]
    whole: bool = True


def run_class(
    name: str, judged: JudgedController, jars: list[Path], folder: Path, *, within_s: float = TIMEOUT_S
) -> Ran:
    """Run a test class, or some methods of it (`CLASS#METHOD[,METHOD…]`), and read how its tests ended.

    Args:
        name: The class or methods; a method with arguments has their types in brackets.
        folder: Gets reports, the brokers' log and the controllers' log of this run.
        within_s: A class that takes longer is ended; tests that had ended before count.

    Returns:
        Results by test. A class that can't be run at all has one result, under the class' own name.
    """
    folder.mkdir(parents=True, exist_ok=True)
    logging = folder / "log4j.properties"
    logging.write_text(LOGGING.format(log=folder / "brokers.log"))
    agent = agent_jar(jars)
    command = [
        str(java_executable()),
        *JAVA_OPTIONS,
        f"-javaagent:{agent}",
        f"-Dshunter.tests.controller={'apache' if judged is JudgedController.APACHE else 'shunter'}",
        f"-Dshunter.tests.python={sys.executable}",
        f"-Dshunter.tests.logs={folder}",
        f"-Dlog4j.configuration={logging.as_uri()}",
        *("-cp", ":".join(str(path) for path in [agent, *jars])),
        "org.junit.platform.console.ConsoleLauncher",
        "execute",
        *selection(name),
        *("--reports-dir", str(folder / "reports")),
        *("--details", "testfeed", "--disable-banner", "--disable-ansi-colors"),
    ]
    try:
        with (folder / "console.txt").open("w") as console:
            subprocess.run(
                command,
                stdout=console,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env={**os.environ, **judged.environment},
                timeout=within_s,
                check=False,
            )
        return Ran(read_reports(folder / "reports"))
    except subprocess.TimeoutExpired:
        late = Result(CaseOutcome.FAILED, f"the class did not end within {within_s:.0f} s")
        return Ran(read_feed(folder / "console.txt") or {name: late}, whole=False)
    except FileNotFoundError as missing:
        return Ran({name: Result(CaseOutcome.FAILED, f"{missing}; see {folder / 'console.txt'}")})
