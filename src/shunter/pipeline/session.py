"""One place that opens Spark: on this machine, or on whatever master `spark-submit` says."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlparse

from pyspark import __version__
from pyspark.sql import SparkSession

_KAFKA_SOURCES = {"4.1": "4.1.3", "4.2": "4.2.0"}
_MINOR = ".".join(__version__.split(".")[:2])
KAFKA_SOURCE = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{_KAFKA_SOURCES.get(_MINOR, '4.2.0')}"
"""Spark's own Kafka source, for the Spark that is installed."""

_ZONE = "spark.sql.session.timeZone"
FIXED = {
    # Times are UTC everywhere; a session in local time would shift every partition folder.
    _ZONE: "UTC",
    # collect_list per replica holds a few thousand numbers; Spark's fallback to sorting at 128 keys costs twice the time.
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "1000000",
    # Several folders are written side by side; else every task sorts its rows again by folder.
    "spark.sql.maxConcurrentOutputFileWriters": "64",
    "spark.sql.parquet.compression.codec": "zstd",
}
DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
ON_THIS_MACHINE = {
    # Delta's own work on a table's log is small here. By default it is cut into 50 tasks, and that of VACUUM into 10,000.
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",
}

# By default the JVM does not compile methods of more than 8,000 bytes. The method that Spark generates for judging rows
# has 10,000, so it was interpreted, row by row. (The parallel collector is for throughput. Pauses do not matter here,
# and lists of a million replicas are made and thrown away.)
JAVA = "-XX:+UseParallelGC -XX:-DontCompileHugeMethods"
SMALL_BYTES = 16 << 20
SMALL = {
    # A hundred tiny queries: compiling them costs more than running them.
    "spark.sql.codegen.wholeStage": "false",
    # Adaptive execution runs each shuffle and each broadcast of a query as a job of its own.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.leafNodeDefaultParallelism": "1",
}
"""For inputs on this machine of at most `SMALL_BYTES`."""
# With only the quick compiler the JVM has 48 MB for compiled code by default. Spark fills that within a minute, and then
# the JVM interprets.
SMALL_JAVA = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=512m -XX:+UseSerialGC"
LARGEST_METHOD = {"spark.sql.codegen.hugeMethodLimit": "8000"}
"""For JVMs that Shunter does not start: Spark generates several small methods instead of one that is not compiled."""
REMOTE = "spark.remote"
"""Names a Spark Connect server, `sc://HOST:PORT`. Spark is open there already, and has been given Delta."""
LOGGING = Path(__file__).parent / "log4j2.properties"
JAVA_OPTIONS = "spark.driver.extraJavaOptions"


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """How Spark is opened. `master` None leaves it to spark-submit; memory in Spark's notation.

    `small`: all that is read is small, and Spark runs on this machine.
    """

    name: str = "shunter"
    master: str | None = None
    memory: str | None = None
    shuffle_partitions: int | None = None
    ivy_cache: Path | None = None
    packages: tuple[str, ...] = ()
    jars: tuple[Path, ...] = ()
    web_page: bool = False
    small: bool = False
    conf: Mapping[str, str] = field(default_factory=dict)


def is_small(places: Iterable[str]) -> bool:
    """Whether files and folders of this machine hold at most `SMALL_BYTES` together. Of another place it is not known."""
    held = 0
    for place in places:
        url = urlparse(place)
        if url.scheme not in ("", "file") or any(sign in place for sign in "*?[{"):
            return False
        path = Path(unquote(url.path) if url.scheme else place)
        for each in (path, *path.rglob("*")):
            with suppress(OSError):
                held += each.stat().st_size
            if held > SMALL_BYTES:
                return False
    return True


def open_session(settings: SessionSettings) -> SparkSession:
    """Open (or join) the session. `settings.conf` overrides all choices but UTC."""
    builder = SparkSession.builder.appName(settings.name)
    if settings.master is not None:
        builder = builder.master(settings.master)
    for name, value in spark_settings(settings).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def spark_settings(settings: SessionSettings) -> dict[str, str]:
    """The configuration that Spark is opened with."""
    if REMOTE in settings.conf:
        return {**FIXED, **LARGEST_METHOD, **settings.conf, _ZONE: FIXED[_ZONE]}
    chosen = FIXED | DELTA
    chosen["spark.ui.enabled"] = str(settings.web_page).lower()
    # A terminal shows Shunter's own progress; Spark's bar would write over it.
    chosen["spark.ui.showConsoleProgress"] = "false"
    if settings.memory is not None:
        chosen["spark.driver.memory"] = settings.memory
    if settings.packages:
        chosen["spark.jars.packages"] = ",".join(settings.packages)
    if settings.jars:
        chosen["spark.jars"] = ",".join(str(jar) for jar in settings.jars)
    if settings.ivy_cache is not None:
        chosen["spark.jars.ivy"] = str(settings.ivy_cache)
    local = re.fullmatch(r"local(?:\[(\d+|\*)[^\]]*\])?", settings.master or "")
    small = settings.small and local is not None
    if local is not None:
        cores = {None: 1, "*": os.cpu_count() or 1}.get(local[1]) or int(local[1])
        chosen |= {**ON_THIS_MACHINE, "spark.sql.shuffle.partitions": str(cores), **(SMALL if small else {})}
        # Hadoop sets file modes itself and ignores the process's umask. On a cluster the modes are the cluster's
        # choice.
        chosen["spark.hadoop.fs.permissions.umask-mode"] = "077"
    else:
        chosen.update(LARGEST_METHOD)
    if settings.shuffle_partitions is not None:
        chosen["spark.sql.shuffle.partitions"] = str(settings.shuffle_partitions)
    chosen.update(settings.conf)
    java = settings.conf.get(JAVA_OPTIONS, SMALL_JAVA if small else JAVA)
    # In a zip of Shunter there is no such file, and spark-submit's logging is the user's choice anyway.
    quiet = f"-Dlog4j2.configurationFile={LOGGING.as_uri()} " if LOGGING.is_file() else ""
    chosen[JAVA_OPTIONS] = quiet + java
    chosen[_ZONE] = FIXED[_ZONE]
    return chosen
