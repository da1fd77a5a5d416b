"""The jars that the tests need beside Kafka: Apache's test classes, JUnit, and a compiler for the agent."""

from __future__ import annotations

import hashlib
import subprocess
import zipfile
from pathlib import Path

from lab.testbed.artifacts import CHECKSUMS, JarSet, ensure_jars, ensure_kafka
from lab.testbed.failures import PartFailed
from lab.testbed.ivy import MavenModule, Progress
from lab.testbed.java import java_executable
from shunter.drivers.host.cache import cache_folder

VERSION = "3.9.1"
AGENT = Path(__file__).with_name("agent")
COMPILER = "ecj-*.jar"
MANIFEST = "Manifest-Version: 1.0\nPremain-Class: shunter.agent.ShunterAgent\n"
TEST_CLASSES = (
    "kafka_2.13",
    "kafka-clients",
    "kafka-group-coordinator",
    "kafka-metadata",
    "kafka-raft",
    "kafka-server",
    "kafka-server-common",
    "kafka-storage",
    "kafka-storage-api",
    "kafka-tools",
)
"""Modules of Kafka whose published test classes (classifier `test`) are needed."""
OTHERS = (
    MavenModule("org.junit.platform", "junit-platform-console-standalone", "1.10.2"),
    MavenModule("org.mockito", "mockito-core", "5.10.0"),
    MavenModule("org.mockito", "mockito-junit-jupiter", "5.10.0"),
    MavenModule("org.hamcrest", "hamcrest", "2.2"),
    MavenModule("org.bouncycastle", "bcpkix-jdk18on", "1.75"),
    # The Java on this machine may have no compiler.
    MavenModule("org.eclipse.jdt", "ecj", "3.33.0"),
)


def apache_test_jars() -> JarSet:
    """The set of jars that is pinned."""
    kafka = tuple(MavenModule("org.apache.kafka", name, VERSION, "test") for name in TEST_CLASSES)
    return JarSet("apache-tests", "Apache's tests of Kafka", VERSION, kafka + OTHERS)


def class_path(progress: Progress) -> list[Path]:
    """Jars of Kafka and of its tests, fetched and checked if need be.

    Raises:
        PartMissing, PartFailed: See `artifacts.ensure_kafka`.
    """
    tests = ensure_jars(apache_test_jars(), checksums=CHECKSUMS, progress=progress)
    kafka = ensure_kafka(VERSION, progress=progress)
    return [*sorted(tests.glob("*.jar")), *sorted(kafka.glob("*.jar"))]


def agent_jar(jars: list[Path]) -> Path:
    """The agent as a jar: compiled once for each state of its sources.

    Raises:
        PartFailed: The compiler refused the sources; the message has its output.
    """
    sources = sorted(AGENT.glob("*.java"))
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    folder = cache_folder() / "apache-tests-agent" / digest
    jar = folder / "agent.jar"
    if jar.exists():
        return jar
    classes = folder / "classes"
    classes.mkdir(parents=True, exist_ok=True)
    [compiler] = [path for path in jars if path.match(COMPILER)]
    joined = ":".join(str(path) for path in jars)
    command = [str(java_executable()), "-jar", str(compiler), "-17", "-nowarn", "-cp", joined, "-d", str(classes)]
    ended = subprocess.run([*command, *map(str, sources)], capture_output=True, text=True, check=False)
    if ended.returncode:
        raise PartFailed(f"the agent of Apache's tests can't be compiled:\n{ended.stdout}{ended.stderr}")
    unfinished = jar.with_suffix(".new")
    with zipfile.ZipFile(unfinished, "w") as archive:
        archive.writestr("META-INF/MANIFEST.MF", MANIFEST)
        for compiled in sorted(classes.rglob("*.class")):
            archive.write(compiled, compiled.relative_to(classes))
    unfinished.replace(jar)
    return jar
