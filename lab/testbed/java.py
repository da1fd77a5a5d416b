"""The Java that runs the real parts."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

from lab.testbed.failures import PartMissing

LEAST_JAVA = 17
WAY_TO_JAVA = (
    f"Java {LEAST_JAVA} or later runs ZooKeeper, Kafka and Spark. Get it with "
    "`apt-get install openjdk-17-jre-headless` (Debian, Ubuntu), `dnf install java-17-openjdk-headless` (Fedora, RHEL), "
    "`brew install openjdk@17` (macOS), or point JAVA_HOME at one"
)
# Many short-lived servers run on one small machine. The quick compiler and the smallest collector start fastest.
QUICK_START = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Xshare:auto")
AS_IN_PRODUCTION = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)
"""The options of Kafka's own start script (kafka-run-class.sh of 3.9), for measurements."""


def java_version(executable: Path) -> int:
    """The major version by `java -version`.

    Raises:
        PartMissing: The program does not run, or its output has no version.
    """
    try:
        told = subprocess.run([executable, "-version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise PartMissing(f"{executable} does not tell its version: {error}. {WAY_TO_JAVA}") from error
    found = re.search(r'version "(?:1\.)?(\d+)', told.stderr + told.stdout)
    if found is None:
        raise PartMissing(f"{executable} tells no version that we can read: {told.stderr!r}. {WAY_TO_JAVA}")
    return int(found[1])


def find_java(environment: Mapping[str, str]) -> Path:
    """The Java of `JAVA_HOME`, or else the one on `PATH`.

    Raises:
        PartMissing: There is none, or it is older than Java 17; the message says how to get one.
    """
    home = environment.get("JAVA_HOME", "")
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    candidates = ([Path(home) / "bin" / "java"] if home else []) + ([Path(on_path)] if on_path else [])
    refused: list[str] = []
    for candidate in candidates:
        if not candidate.exists():
            refused.append(f"{candidate} (from JAVA_HOME) does not exist")
            continue
        version = java_version(candidate)
        if version >= LEAST_JAVA:
            return candidate
        refused.append(f"{candidate} is Java {version}")
    found = "; ".join(refused) or "neither JAVA_HOME nor PATH leads to a java"
    raise PartMissing(f"{found}. {WAY_TO_JAVA}")


@cache
def java_executable() -> Path:
    """The Java for all parts of this process; searched once.

    Raises:
        PartMissing: See `find_java`.
    """
    return find_java(os.environ)


@cache
def pyspark_home() -> Path:
    """The folder of the installed pyspark, found without importing it: its wheel carries ZooKeeper, Ivy and Spark.

    Raises:
        PartMissing: pyspark is not installed in this Python.
    """
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise PartMissing("pyspark is not installed in this Python; its wheel carries ZooKeeper, Ivy and Spark")
    return Path(spec.origin).parent


def pyspark_jars(*prefixes: str) -> tuple[Path, ...]:
    """The jars of the pyspark wheel whose names start with each of `prefixes` followed by a version, one for each.

    Raises:
        PartMissing: The wheel has no jar for a prefix, or several.
    """
    folder = pyspark_home() / "jars"
    jars: list[Path] = []
    for prefix in prefixes:
        matching = sorted(jar for jar in folder.glob(f"{prefix}-*.jar") if jar.name[len(prefix) + 1].isdigit())
        if len(matching) != 1:
            names = [jar.name for jar in matching]
            raise PartMissing(
                f"{names} in {folder} should be exactly one jar of {prefix}; is a pyspark of pyproject.toml installed?"
            )
        jars.append(matching[0])
    return tuple(jars)


def java_command(
    main_class: str,
    arguments: Iterable[str] = (),
    *,
    classpath: Sequence[Path],
    heap_mib: int,
    options: Iterable[str] = (),
    tuning: Sequence[str] = QUICK_START,
) -> tuple[str, ...]:
    """The command line that runs `main_class`, by default in a small Java that starts quickly.

    Args:
        main_class: Fully qualified.
        arguments: For the program.
        classpath: Jars and folders; earlier ones win.
        heap_mib: Largest heap, in MiB.
        options: More options for Java itself.
        tuning: Options for Java's garbage collector and compiler.
    """
    return (
        str(java_executable()),
        *tuning,
        f"-Xmx{heap_mib}m",
        *options,
        "-cp",
        os.pathsep.join(str(entry) for entry in classpath),
        main_class,
        *arguments,
    )
