"""The cache of parts: which versions are accepted, and how they are pinned."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lab.testbed.artifacts import (
    CHECKSUMS,
    KRAFT_VERSION,
    ZOOKEEPER_MODE_VERSION,
    ensure_kafka,
    kafka_modules,
    pinned_checksums,
)
from lab.testbed.failures import PartMissing


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
