"""One test class, in a Java of its own, with one of the two controllers."""

from __future__ import annotations

import os
import subprocess
import sys
from enum import Enum
from pathlib import Path

from shunter.testbed.apache_tests.jars import agent_jar
from shunter.testbed.apache_tests.results import CaseOutcome, Result, read_reports
from shunter.testbed.java import java_executable

HEAP = "-Xmx1g"
TIMEOUT_S = 2_400.0
LOGGING = """log4j.rootLogger=WARN, FILE
log4j.appender.FILE=org.apache.log4j.FileAppender
log4j.appender.FILE.File={log}
log4j.appender.FILE.layout=org.apache.log4j.PatternLayout
log4j.appender.FILE.layout.ConversionPattern=[%d] %p %m (%c)%n
"""


class JudgedController(Enum):
    """Whose controller a run judges."""

    APACHE = "apache"
    SHUNTER = "shunter"
    """As it comes: moves go by steps."""
    AT_ONCE = "shunter-all-at-once"
    """With `strategy=all-at-once`, as Apache's controller moves partitions."""

    @property
    def environment(self) -> dict[str, str]:
        """Environment of the controller: it reads settings from there."""
        return {"SHUNTER_STRATEGY": "all-at-once"} if self is JudgedController.AT_ONCE else {}


def run_class(name: str, judged: JudgedController, jars: list[Path], folder: Path) -> dict[str, Result]:
    """Run a test class, or one method of it (`CLASS#METHOD`), and read how its tests ended.

    Args:
        name: Of class or method; a method with arguments has their types in brackets.
        folder: Gets reports, the brokers' log and the controllers' log of this run.

    Returns:
        Results by test. A class that can't be run at all has one result, under the class' own name.
    """
    folder.mkdir(parents=True, exist_ok=True)
    logging = folder / "log4j.properties"
    logging.write_text(LOGGING.format(log=folder / "brokers.log"))
    agent = agent_jar(jars)
    command = [
        str(java_executable()),
        HEAP,
        f"-javaagent:{agent}",
        f"-Dshunter.tests.controller={'apache' if judged is JudgedController.APACHE else 'shunter'}",
        f"-Dshunter.tests.python={sys.executable}",
        f"-Dshunter.tests.logs={folder}",
        f"-Dlog4j.configuration=file:{logging}",
        *("-cp", ":".join(str(path) for path in [agent, *jars])),
        "org.junit.platform.console.ConsoleLauncher",
        "execute",
        f"--select-{'method' if '#' in name else 'class'}={name}",
        *("--reports-dir", str(folder / "reports")),
        *("--details", "tree", "--disable-banner", "--disable-ansi-colors"),
    ]
    try:
        with (folder / "console.txt").open("w") as console:
            subprocess.run(
                command,
                stdout=console,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env={**os.environ, **judged.environment},
                timeout=TIMEOUT_S,
                check=False,
            )
        return read_reports(folder / "reports")
    except subprocess.TimeoutExpired:
        return {name: Result(CaseOutcome.FAILED, f"the class did not end within {TIMEOUT_S:.0f} s")}
    except FileNotFoundError as missing:
        return {name: Result(CaseOutcome.FAILED, f"{missing}; see {folder / 'console.txt'}")}
