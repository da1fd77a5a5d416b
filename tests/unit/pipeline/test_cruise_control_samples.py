"""Cruise Control's binary samples, by its published layout. Not verified against a running one."""

import struct

import pytest

from shunter.errors import FormatError
from shunter.pipeline.sources.cruise_control import PartitionSample, decode_partition_sample


def test_version_1():
    raw = (
        struct.pack(">bi9dqi", 1, 7, 0.5, 100.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 1_738_368_000_000, 42)
        + "größe".encode()
    )
    assert len(raw) == 89 + len("größe".encode())
    assert decode_partition_sample(raw) == PartitionSample(7, 100.0, 2.0, 3.0, 6.0, 1_738_368_000_000, 42, "größe")


def test_version_0():
    raw = struct.pack(">bi4dqi", 0, 7, 0.5, 100.0, 2.0, 3.0, 1_738_368_000_000, 42) + b"t"
    assert len(raw) == 50
    assert decode_partition_sample(raw) == PartitionSample(7, 100.0, 2.0, 3.0, None, 1_738_368_000_000, 42, "t")


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (b"", "0 bytes are too few"),
        (struct.pack(">bi", 5, 1) + b"x" * 500, "version 5 is a broker sample"),
        (struct.pack(">bi", 9, 1) + b"x" * 500, "version 9 is not understood"),
        (struct.pack(">bi9dqi", 1, 1, *[0.0] * 9, 0, 0), "89 bytes are too few for version 1"),
        (struct.pack(">bi4dqi", 0, 1, *[0.0] * 4, 0, 0) + b"\xff", "not UTF-8"),
    ],
)
def test_what_is_none(raw, told):
    with pytest.raises(FormatError, match=told):
        decode_partition_sample(raw)
