"""Delta Lake's jars for the Spark that is installed: fetched once from Maven Central by Ivy, and checked by SHA-256."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pyspark

from shunter.errors import DriverError

DELTA_VERSION = "4.4.0"
PINNED = {
    "delta-spark_4.1_2.13": "75a9400986853c061f5109f012547de2545a5759e5e752e5ef633dabe16a4f10",
    "delta-spark_4.2_2.13": "27d4fd8b1f879535c573ed1c718177d6a27f24d3e626ba02e216369725721ead",
    "delta-storage": "c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc",
}
"""SHA-256 of each module's jar."""
IVY_SETTINGS = "SHUNTER_IVY_SETTINGS"
_FETCH_SECONDS = 600.0
_GIVEN = ("spark.jars", "spark.jars.packages")


def brings_delta(conf: Mapping[str, str]) -> bool:
    """Whether a configuration of Spark names Delta's jars itself."""
    return any("delta-spark" in conf.get(name, "") for name in _GIVEN)


def coordinates(spark_version: str = pyspark.__version__) -> str:
    """Delta's module for a version of Spark, as `spark-submit --packages` takes it.

    Raises:
        DriverError: there is none for this version.
    """
    module = f"delta-spark_{'.'.join(spark_version.split('.')[:2])}_2.13"
    if module not in PINNED:
        known = ", ".join(name.split("_")[1] for name in PINNED if "_" in name)
        way = "install one of these, or name with --conf spark.jars=… the jars of a Delta Lake that is made for it"
        rule = f"Delta Lake {DELTA_VERSION} has no jar for it, but for Spark {known}: {way}"
        raise DriverError(f"pyspark {spark_version}: {rule}", retriable=False)
    return f"io.delta:{module}:{DELTA_VERSION}"


def delta_jars(cache: Path) -> tuple[Path, ...]:
    """Delta's jars in a folder below `cache`, fetched if need be.

    Raises:
        DriverError: they can't be fetched, or are not those that were pinned.
    """
    folder = cache / "delta" / DELTA_VERSION
    return tuple(_jar(folder, module) for module in (coordinates().split(":")[1], "delta-storage"))


def _jar(folder: Path, module: str) -> Path:
    jar = folder / f"{module}-{DELTA_VERSION}.jar"
    if not jar.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=folder) as work:
            _fetch(Path(work), module)
            (Path(work) / jar.name).replace(jar)
    if hashlib.sha256(jar.read_bytes()).hexdigest() != PINNED[module]:
        rule = "it is not the jar that was pinned; delete it, so that it is fetched anew"
        raise DriverError(f"{jar}: {rule}", retriable=False)
    return jar


def _fetch(work: Path, module: str) -> None:
    (ivy,) = (Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar")
    java = Path(os.environ["JAVA_HOME"]) / "bin" / "java" if "JAVA_HOME" in os.environ else shutil.which("java")
    settings = os.environ.get(IVY_SETTINGS)
    command = (
        str(java), "-Divy.maven.lookup.sources=false", "-Divy.maven.lookup.javadoc=false", "-jar", str(ivy),
        *(("-settings", settings) if settings else ()),
        "-dependency", "io.delta", module, DELTA_VERSION, "-notransitive", "-confs", "default",
        "-cache", str(work / "ivy"), "-retrieve", f"{work}/[artifact]-[revision].[ext]",
    )  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_FETCH_SECONDS, check=False)
        told = done.stdout[-500:] + done.stderr[-500:]
    except (OSError, subprocess.TimeoutExpired) as error:
        told = str(error)
    if not (work / f"{module}-{DELTA_VERSION}.jar").is_file():
        way = f"is Maven Central in reach? A mirror can be named by an Ivy settings file in {IVY_SETTINGS}"
        raise DriverError(f"io.delta:{module}:{DELTA_VERSION} can't be fetched: {way}. {told}", retriable=True)
