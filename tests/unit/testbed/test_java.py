"""The testbed's parts: Java, pinned artifacts, the set-up script and its command; errors say what is missing."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from lab.testbed.__main__ import main
from lab.testbed.artifacts import (
    CHECKSUMS,
    KRAFT_VERSION,
    ZOOKEEPER_MODE_VERSION,
    ensure_kafka,
    kafka_modules,
    pinned_checksums,
)
from lab.testbed.failures import PartMissing
from lab.testbed.java import find_java, pyspark_jars

ROOT = Path(__file__).parents[3]
ORDINARY = ("bash", "cat", "dirname", "env", "grep", "head", "rm", "sed")


def java_that_says(folder: Path, told: str) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{told}' >&2\n")
    program.chmod(0o755)
    return program


def test_java_home_comes_first(tmp_path: Path) -> None:
    home = java_that_says(tmp_path / "home", 'openjdk version "21.0.2" 2024-01-16')
    path = java_that_says(tmp_path / "path", 'openjdk version "17.0.15" 2025-04-15')
    assert find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(path.parent)}) == home
    assert find_java({"PATH": str(path.parent)}) == path


def test_a_java_home_that_is_too_old_does_not_hide_a_good_one(tmp_path: Path) -> None:
    java_that_says(tmp_path / "home", 'java version "1.8.0_402"')
    path = java_that_says(tmp_path / "path", 'openjdk version "17" 2021-09-14')
    assert find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(path.parent)}) == path


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ('openjdk version "11.0.22" 2024-01-16', r"java is Java 11\. Java 17 or later"),
        ("what?", "tells no version"),
    ],
)
def test_an_unfit_java_is_named_with_the_way_to_a_better(tmp_path: Path, told: str, expected: str) -> None:
    path = java_that_says(tmp_path, told)
    with pytest.raises(PartMissing, match=expected) as caught:
        find_java({"PATH": str(path.parent)})
    assert "apt-get install openjdk-17-jre-headless" in str(caught.value)


def test_no_java_is_said(tmp_path: Path) -> None:
    with pytest.raises(PartMissing, match="neither JAVA_HOME nor PATH leads to a java"):
        find_java({"PATH": str(tmp_path)})
    with pytest.raises(PartMissing, match=r"bin/java \(from JAVA_HOME\) does not exist"):
        find_java({"PATH": str(tmp_path), "JAVA_HOME": str(tmp_path)})


def test_the_wheels_jars_are_found_by_name_and_not_by_prefix() -> None:
    zookeeper, log = pyspark_jars("zookeeper", "log4j-api")
    assert zookeeper.name.startswith("zookeeper-3.9.")
    assert log.exists()
    with pytest.raises(PartMissing, match="should be exactly one jar of no-such-part"):
        pyspark_jars("no-such-part")


def test_a_version_without_pins_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PartMissing, match=r"Kafka 3\.4\.99 has no pinned checksums .*3\.9\.1, .*4\.4\.0"):
        ensure_kafka("3.4.99", cache=tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("version", [ZOOKEEPER_MODE_VERSION, KRAFT_VERSION])
def test_the_versions_in_use_are_pinned_with_all_that_was_asked_for(version: str) -> None:
    pinned = pinned_checksums(version)
    assert pinned is not None
    names = {re.sub(r"-[0-9.]+\.jar$", "", jar) for jar in pinned}  # Kafka may bring a newer log4j than that asked for.
    assert {module.name for module in kafka_modules(version)} <= names
    assert {f"kafka_2.13-{version}.jar", f"kafka-tools-{version}.jar"} <= pinned.keys()
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in pinned.values())


def test_pins_are_written_as_sha256sum_writes_them() -> None:
    for path in CHECKSUMS.iterdir():
        names = [line[66:] for line in path.read_text().splitlines()]
        assert names == sorted(names)
        assert all(re.fullmatch(r"[0-9a-f]{64}  \S+\.jar", line) for line in path.read_text().splitlines())


class Machine:
    """A machine with a shell's ordinary tools, and otherwise only with programs that a test installs."""

    def __init__(self, folder: Path, *, user_id: int) -> None:
        self.programs = folder / "bin"
        self.programs.mkdir()
        for name in ORDINARY:
            (self.programs / name).symlink_to(shutil.which(name) or pytest.fail(f"{name} is missing here"))
        self.install("id", f"echo {user_id}")
        self.checkout = folder / "checkout"
        shutil.copytree(ROOT / "scripts", self.checkout / "scripts")

    def install(self, name: str, script: str) -> None:
        (self.programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (self.programs / name).chmod(0o755)

    def bootstrap(self) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.checkout / "scripts" / "bootstrap.sh"],
            env={"PATH": str(self.programs)},
            cwd="/",
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )


@pytest.mark.parametrize("found", ["nothing", "Java 11"])
def test_a_missing_java_is_named_with_the_way_to_get_it(tmp_path: Path, found: str) -> None:
    machine = Machine(tmp_path, user_id=1000)
    if found == "Java 11":
        machine.install("java", "echo 'openjdk version \"11.0.22\" 2024-01-16' >&2")
    done = machine.bootstrap()
    assert done.returncode == 2
    assert "Java 17 or later is missing" in done.stderr
    assert "apt-get install openjdk-17-jre-headless" in done.stderr


def test_root_on_debian_gets_java_installed(tmp_path: Path) -> None:
    machine = Machine(tmp_path, user_id=0)
    machine.install(
        "apt-cache", 'case "$2" in openjdk-21*) echo "  Candidate: 21.0";; *) echo "  Candidate: (none)";; esac'
    )
    machine.install("chmod", f'exec {shutil.which("chmod")} "$@"')
    java = machine.programs / "java"
    machine.install(
        "apt-get",
        f'echo "apt-get $*"; [ "$1" = install ] || exit 0\n'
        f"printf '#!/bin/sh\\necho openjdk version \\\\\"21.0.2\\\\\" >&2\\n' > {java}; chmod +x {java}",
    )
    done = machine.bootstrap()
    assert "apt-get update" in done.stderr
    assert "apt-get install -y -q --no-install-recommends openjdk-21-jre-headless" in done.stderr
    assert "Java 17 or later is missing" not in done.stderr
    # The script goes on, and finds that this machine has no Python.
    assert "Python 3.11 or later is missing" in done.stderr


def test_a_python_that_is_missing_or_too_old_is_named(tmp_path: Path) -> None:
    machine = Machine(tmp_path, user_id=1000)
    machine.install("java", "echo 'openjdk version \"17.0.15\" 2025-04-15' >&2")
    machine.install("python3", "exit 1")
    done = machine.bootstrap()
    assert done.returncode == 2
    assert "Python 3.11 or later is missing" in done.stderr
    assert not (machine.checkout / ".venv").exists()


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        (["--help"], 0, "versions of Kafka to fetch"),
        (["nonsense"], 2, "'nonsense' is no version of Kafka such as"),
        (["3.9.1", "--frobnicate"], 2, "--frobnicate"),
    ],
)
def test_words_that_are_no_versions_end_with_a_sentence(arguments, status, told, capsys):
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == status
    assert told in "".join(capsys.readouterr())
