"""Apache Ivy, whose jar is in the pyspark wheel, fetches Kafka's jars from Maven Central."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

from lab.testbed.failures import PartFailed
from lab.testbed.java import java_executable, pyspark_jars
from lab.testbed.process import ManagedProcess

Progress = Callable[[str], None]


def silent(_message: str) -> None:
    """A progress callback that does nothing."""


ATTEMPTS = 3
PROGRESS_INTERVAL_S = 1.0
MAVEN_CLASSIFIER = "{http://ant.apache.org/ivy/maven}classifier"
SETTINGS_VARIABLE = "SHUNTER_IVY_SETTINGS"


class MavenModule(NamedTuple):
    """A module by its Maven coordinates.

    With a classifier it stands for that one jar, without dependencies; without one it brings all its dependencies.
    """

    organisation: str
    name: str
    revision: str
    classifier: str = ""


class MavenExclusion(NamedTuple):
    """A module that is left out, even if others depend on it."""

    organisation: str
    name: str


def module_descriptor(modules: Iterable[MavenModule], exclusions: Iterable[MavenExclusion]) -> str:
    """An ivy.xml that asks for `modules` with all their run-time dependencies, except `exclusions`."""
    root = ET.Element("ivy-module", version="2.0")
    ET.SubElement(root, "info", organisation="shunter", module="testbed")
    ET.SubElement(ET.SubElement(root, "configurations"), "conf", name="default")
    dependencies = ET.SubElement(root, "dependencies")
    for module in modules:
        organisation, name, revision, classifier = module
        asked = {"org": organisation, "name": name, "rev": revision, "conf": "default->default"}
        if not classifier:
            ET.SubElement(dependencies, "dependency", asked)
            continue
        one_jar = ET.SubElement(dependencies, "dependency", asked | {"transitive": "false"})
        ET.SubElement(one_jar, "artifact", {"name": name, "type": "jar", "ext": "jar", MAVEN_CLASSIFIER: classifier})
    for exclusion in exclusions:
        ET.SubElement(dependencies, "exclude", org=exclusion.organisation, module=exclusion.name)
    return ET.tostring(root, encoding="unicode")


def retrieve(
    title: str,
    descriptor: str,
    folder: Path,
    *,
    expected_jars: int | None,
    progress: Progress,
    timeout_s: float = 1200.0,
) -> Path:
    """Fetch what `descriptor` names into `folder`/jars. After an interruption a second call goes on from there.

    A mirror or a proxy is set by an Ivy settings file named by `SHUNTER_IVY_SETTINGS`.

    Args:
        title: Names the download in messages.
        descriptor: See `module_descriptor`.
        folder: Used by no other process; keeps Ivy's own cache.
        expected_jars: For progress messages; None if it is not known.
        progress: Gets a line every second.
        timeout_s: Bound for each of three attempts, in seconds.

    Raises:
        PartFailed: Ivy failed three times; the message holds the log's tail.
    """
    jars = folder / "jars"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "ivy.xml").write_text(descriptor)
    settings = os.environ.get(SETTINGS_VARIABLE)
    (ivy_jar,) = pyspark_jars("ivy")
    command = (
        str(java_executable()),
        # Sources and documentation are not needed, and asking for them would take half of the time.
        "-Divy.maven.lookup.sources=false",
        "-Divy.maven.lookup.javadoc=false",
        # The user's own Ivy and Maven caches are not used, so the checksums are those of fetched files.
        f"-Divy.default.ivy.user.dir={folder / 'user'}",
        "-jar",
        str(ivy_jar),
        *(("-settings", settings) if settings else ()),
        *("-ivy", str(folder / "ivy.xml"), "-cache", str(folder / "ivy"), "-confs", "default"),
        *("-retrieve", f"{jars}/[artifact]-[revision](-[classifier]).[ext]"),
    )
    for attempt in range(1, ATTEMPTS + 1):
        ivy = ManagedProcess("ivy", command, folder)
        with ivy:
            status = _watched(
                title, ivy, folder / "ivy", expected_jars=expected_jars, progress=progress, timeout_s=timeout_s
            )
        if status == 0:
            return jars
        progress(f"{title}: attempt {attempt} of {ATTEMPTS} failed with status {status}")
    raise PartFailed(
        ivy.with_log(
            f"{title} can't be fetched, {ATTEMPTS} attempts failed. Is Maven Central in reach of this machine? "
            f"A mirror can be named by an Ivy settings file in {SETTINGS_VARIABLE}"
        )
    )


def _watched(
    title: str,
    ivy: ManagedProcess,
    ivy_cache: Path,
    *,
    expected_jars: int | None,
    progress: Progress,
    timeout_s: float,
) -> int | None:
    """Report progress until Ivy ends; returns its exit status, or None if the bound was reached."""
    started = last_told = time.monotonic()
    while ivy.alive:
        now = time.monotonic()
        if now - started >= timeout_s:
            return None
        if now - last_told >= PROGRESS_INTERVAL_S:
            last_told = now
            progress(f"{title}: {_fetched(ivy_cache, expected_jars)}, {now - started:.0f} s")
        time.sleep(0.1)
    return ivy.exit_status


def _fetched(ivy_cache: Path, expected_jars: int | None) -> str:
    sizes = [path.stat().st_size for path in _settled(ivy_cache, "*.jar")]
    if not sizes:
        return f"{sum(1 for _ in _settled(ivy_cache, 'ivy-*.xml'))} modules looked up"
    of_all = f" of {expected_jars}" if expected_jars is not None else ""
    return f"{len(sizes)}{of_all} jars, {sum(sizes) / 2**20:.0f} MiB"


def _settled(ivy_cache: Path, pattern: str) -> list[Path]:
    """Files that match and still exist: Ivy renames its unfinished files at any time."""
    return [path for path in ivy_cache.rglob(pattern) if path.is_file()]
