"""Java is found, or the error says what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.testbed.failures import PartMissing
from lab.testbed.java import find_java, pyspark_jars


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
