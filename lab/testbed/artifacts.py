"""The cache of real parts: Kafka's jars, pinned and checked, fetched once for all testbeds on a machine."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from lab.testbed import ivy
from lab.testbed.failures import PartFailed, PartMissing
from lab.testbed.ivy import MavenExclusion, MavenModule, Progress, silent
from lab.testbed.java import pyspark_jars
from shunter.drivers.host.cache import cache_folder

ZOOKEEPER_MODE_VERSION = os.environ.get("SHUNTER_TEST_ZOOKEEPER_MODE_VERSION", "3.9.2")
KRAFT_VERSION = os.environ.get("SHUNTER_TEST_KRAFT_VERSION", "4.4.0")
"""The newest Kafka of each mode. The environment names others, for instance for `./test --matrix`."""
TOOLS_VERSION = "3.9.2"
"""Apache's own tools, whatever the brokers' version."""
TIERED_VERSION = "4.3.1"
"""The newest Kafka whose test classes, with a tiered storage in a local folder, are published."""
# The log bindings of Apache's own distributions. Without one, brokers write no log.
RELOAD4J = (MavenModule("org.slf4j", "slf4j-reload4j", "1.7.36"),)
LOG4J2 = (
    MavenModule("org.apache.logging.log4j", "log4j-slf4j-impl", "2.24.3"),
    MavenModule("org.apache.logging.log4j", "log4j-core", "2.24.3"),
)
EXCLUSIONS = (
    # kafka-tools depends on all of Connect and its web server, for tools that are not run here.
    MavenExclusion("org.apache.kafka", "connect-runtime"),
    MavenExclusion("org.apache.kafka", "connect-api"),
    MavenExclusion("org.apache.kafka", "connect-json"),
    # The log binding of older brokers. With two bindings slf4j picks one by chance.
    MavenExclusion("org.slf4j", "slf4j-log4j12"),
    MavenExclusion("log4j", "log4j"),
    # Mockito's extension depends on these, and JUnit's console has them inside, in its own version.
    MavenExclusion("org.junit.jupiter", "junit-jupiter-api"),
    MavenExclusion("org.junit.platform", "junit-platform-commons"),
    MavenExclusion("org.opentest4j", "opentest4j"),
    MavenExclusion("org.apiguardian", "apiguardian-api"),
)
CHECKSUMS = Path(__file__).with_name("checksums")
STAMP = ".verified.json"
LOCK_POLL_S = 0.2


class JarSet(NamedTuple):
    """Jars that are fetched, pinned and kept together: in the cache's folder KIND/VERSION, pinned in KIND-VERSION.txt."""

    kind: str
    title: str
    version: str
    modules: tuple[MavenModule, ...]


def ensure_kafka(
    version: str,
    *,
    cache: Path | None = None,
    checksums: Path = CHECKSUMS,
    progress: Progress = silent,
    allow_unverified: bool = False,
) -> Path:
    """The folder with the jars of a Kafka version and its tools, fetched if the cache does not have them.

    Several processes may call it at once: one fetches, the others wait for it. A later call never takes the rest of an
    interrupted download for a complete one.

    Args:
        version: Such as "3.9.2".
        cache: See `cache_folder`.
        checksums: Folder of the pinned checksums, one file for each version, lines as `sha256sum` writes them.
        progress: Gets a line about every second while something is fetched or waited for.
        allow_unverified: Take a version that has no pinned checksums.

    Raises:
        PartMissing: The version has no pinned checksums, or Java or pyspark is missing.
        PartFailed: The download failed, or a jar is not the one that was pinned.
    """
    jars = JarSet("kafka", "Kafka", version, kafka_modules(version))
    return ensure_jars(jars, cache=cache, checksums=checksums, progress=progress, allow_unverified=allow_unverified)


def ensure_jars(
    jars: JarSet,
    *,
    cache: Path | None = None,
    checksums: Path = CHECKSUMS,
    progress: Progress = silent,
    allow_unverified: bool = False,
) -> Path:
    """The folder with a set of jars, fetched if need be; arguments and errors as those of `ensure_kafka`."""
    pinned = pinned_checksums(jars.version, checksums, kind=jars.kind)
    if pinned is None and not allow_unverified:
        known = ", ".join(
            sorted(path.stem.removeprefix(f"{jars.kind}-") for path in checksums.glob(f"{jars.kind}-*.txt"))
        )
        raise PartMissing(
            f"{jars.title} {jars.version} has no pinned checksums in {checksums} (there are: {known}); "
            "name one of these, or allow unverified jars"
        )
    root = cache if cache is not None else cache_folder()
    folder = root / jars.kind / jars.version
    name = f"{jars.kind}-{jars.version}"
    with _locked(root / "locks" / name, f"{jars.title} {jars.version}", progress):
        if not _is_whole(folder, pinned, progress):
            _fetch(jars, folder, root / "fetching" / name, pinned, progress)
    return folder


def pinned_checksums(version: str, folder: Path = CHECKSUMS, *, kind: str = "kafka") -> dict[str, str] | None:
    """Jar name to sha256 (hexadecimal) for a version of a set of jars; None if the version is not pinned."""
    path = folder / f"{kind}-{version}.txt"
    if not path.exists():
        return None
    lines = (line.split() for line in path.read_text().splitlines())
    return {name: digest for digest, name in lines}


def checksum_lines(folder: Path) -> str:
    """The text of a checksums file for the jars of `folder`, as `sha256sum *.jar` writes it."""
    return "".join(f"{sha256_of(jar)}  {jar.name}\n" for jar in sorted(folder.glob("*.jar")))


def kafka_classpath(version: str, *, progress: Progress = silent) -> tuple[Path, ...]:
    """The class path of Kafka's servers and tools, fetched if need be; see `ensure_kafka`."""
    return (ensure_kafka(version, progress=progress) / "*",)


def zookeeper_classpath() -> tuple[Path, ...]:
    """The class path of the ZooKeeper server that the pyspark wheel carries, with a log binding.

    Raises:
        PartMissing: pyspark is not installed, or carries other jars than expected.
    """
    return pyspark_jars(
        "zookeeper",
        "zookeeper-jute",
        # ZooKeeper's errors name neither, but it does not start without the first, nor serve without the second.
        "metrics-core",
        "snappy-java",
        "slf4j-api",
        "log4j-slf4j2-impl",
        "log4j-api",
        "log4j-core",
        # For its port with TLS.
        "netty-buffer",
        "netty-codec",
        "netty-codec-base",
        "netty-common",
        "netty-handler",
        "netty-resolver",
        "netty-transport",
        "netty-transport-classes-epoll",
        "netty-transport-native-unix-common",
        "netty-tcnative-classes",
    )


def local_tiered_storage(*, progress: Progress = silent) -> Path:
    """The jar with Apache's tiered storage in a local folder, of `TIERED_VERSION`; see `ensure_kafka`."""
    module = MavenModule("org.apache.kafka", "kafka-storage", TIERED_VERSION, "test")
    jars = JarSet("tiered-storage", "Apache's local tiered storage", TIERED_VERSION, (module,))
    return ensure_jars(jars, progress=progress) / f"kafka-storage-{TIERED_VERSION}-test.jar"


def kafka_modules(version: str) -> tuple[MavenModule, ...]:
    """The modules to fetch from Maven Central to run a Kafka version and its tools."""
    binding = LOG4J2 if int(version.split(".", maxsplit=1)[0]) >= 4 else RELOAD4J
    return (
        MavenModule("org.apache.kafka", "kafka_2.13", version),
        MavenModule("org.apache.kafka", "kafka-tools", version),
        *binding,
    )


@contextmanager
def _locked(path: Path, title: str, progress: Progress) -> Iterator[None]:
    """Hold a lock between processes. It is released when its holder ends, in any way."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        started = last_told = time.monotonic()
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                now = time.monotonic()
                if now - last_told >= ivy.PROGRESS_INTERVAL_S:
                    last_told = now
                    progress(f"{title}: waiting for another process that fetches it, {now - started:.0f} s")
                time.sleep(LOCK_POLL_S)
        yield


def _fetch(
    asked: JarSet,
    folder: Path,
    work: Path,
    pinned: Mapping[str, str] | None,
    progress: Progress,
) -> None:
    title = f"fetching {asked.title} {asked.version}"
    expected_jars = len(pinned) if pinned is not None else None
    shutil.rmtree(work / "jars", ignore_errors=True)
    descriptor = ivy.module_descriptor(asked.modules, EXCLUSIONS)
    jars = ivy.retrieve(title, descriptor, work, expected_jars=expected_jars, progress=progress)
    if pinned is not None and (wrong := _differences(jars, pinned)):
        # The next call has to fetch the bytes again, and not find them in Ivy's cache.
        shutil.rmtree(work, ignore_errors=True)
        raise PartFailed(f"{asked.title} {asked.version} as fetched is not what was pinned: " + "; ".join(wrong))
    _write_stamp(jars, pinned)
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    jars.rename(folder)
    shutil.rmtree(work, ignore_errors=True)
    progress(f"{asked.title} {asked.version}: {len(list(folder.glob('*.jar')))} jars in {folder}")


def _is_whole(folder: Path, pinned: Mapping[str, str] | None, progress: Progress) -> bool:
    """Whether the cached jars are the pinned ones. Files that have not changed since the last check are not read."""
    if not (folder / STAMP).exists():
        return False
    if (folder / STAMP).read_text() == _stamp(folder, pinned):
        return True
    progress(f"checking the jars in {folder}")
    if pinned is None or _differences(folder, pinned):
        return False
    _write_stamp(folder, pinned)
    return True


def _differences(folder: Path, pinned: Mapping[str, str]) -> list[str]:
    """Differences of the jars in `folder` from the pinned ones, one sentence each."""
    present = {jar.name: jar for jar in sorted(folder.glob("*.jar"))}
    missing = [f"{name} is missing" for name in sorted(pinned) if name not in present]
    unknown = [f"{name} is not pinned" for name in present if name not in pinned]
    digests = {name: sha256_of(jar) for name, jar in present.items() if name in pinned}
    changed = [
        f"{name} has sha256 {digest}, pinned is {pinned[name]}"
        for name, digest in digests.items()
        if digest != pinned[name]
    ]
    return missing + unknown + changed


def _stamp(folder: Path, pinned: Mapping[str, str] | None) -> str:
    """A record of what was verified: the pins, and each jar's size (bytes) and modification time (ns)."""
    seen = {jar.name: (jar.stat().st_size, jar.stat().st_mtime_ns) for jar in sorted(folder.glob("*.jar"))}
    pins = hashlib.sha256(json.dumps(pinned, sort_keys=True).encode()).hexdigest()
    return json.dumps({"pins": pins, "jars": seen}, sort_keys=True)


def _write_stamp(folder: Path, pinned: Mapping[str, str] | None) -> None:
    unfinished = folder / f"{STAMP}.new"
    unfinished.write_text(_stamp(folder, pinned))
    unfinished.replace(folder / STAMP)


def sha256_of(path: Path) -> str:
    """The sha256 of a file, hexadecimal."""
    with path.open("rb") as jar:
        return hashlib.file_digest(jar, "sha256").hexdigest()
