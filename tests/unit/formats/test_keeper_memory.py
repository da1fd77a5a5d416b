"""The file in which one look leaves its memory for the next look."""

from __future__ import annotations

import pytest

from shunter.errors import FormatError
from shunter.formats.keeper_memory import decode_memories, encode_memories
from shunter.model.keeper import Condition, Memory, Since, Subject

MEMORIES = {
    "prod": Memory(
        "id-1",
        7,
        (Since(Subject(Condition.DISK_BAND, "broker 3"), 5), Since(Subject(Condition.MOVES_STUCK, "t-0"), 6, "m")),
    ),
    "test": Memory("id-2", 8),
}


def test_what_was_written_is_read() -> None:
    assert decode_memories(encode_memories(MEMORIES), "state") == MEMORIES


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        b"{}",
        b'{"version": 1}',
        b'{"version": 1, "clusters": 3}',
        b'{"version": 1, "clusters": {"a": {"cluster_id": "x", "at_ms": "late", "held": []}}}',
        encode_memories(MEMORIES).replace(b"disk-band", b"disk-brand"),
        encode_memories(MEMORIES)[:-20],
    ],
)
def test_what_is_no_state_is_refused_with_the_way_out(raw: bytes) -> None:
    with pytest.raises(FormatError, match=r"state: is no state of `shunter serve` .*delete this one"):
        decode_memories(raw, "state")


def test_another_version_is_refused() -> None:
    with pytest.raises(FormatError, match=r"version 2 is not understood, 1 is"):
        decode_memories(b'{"version": 2}', "state")
