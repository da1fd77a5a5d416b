"""Cruise Control's binary samples, by its published layout. Not verified against a running one."""

import struct

import pytest

from shunter.errors import FormatError
from shunter.pipeline.sources.cruise_control import (
    BrokerSample,
    PartitionSample,
    decode_broker_sample,
    decode_partition_sample,
)


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
        (struct.pack(">bi", 9, 1) + b"x" * 500, r"version 9 is not understood; 0 and 1 \(partitions\), 4 and 5"),
        (struct.pack(">bi9dqi", 1, 1, *[0.0] * 9, 0, 0), "89 bytes are too few for version 1"),
        (struct.pack(">bi4dqi", 0, 1, *[0.0] * 4, 0, 0) + b"\xff", "not UTF-8"),
    ],
)
def test_what_is_none(raw, told):
    with pytest.raises(FormatError, match=told):
        decode_partition_sample(raw)


def broker_sample(version, *, host=b"kafka7", ranks=20, rest=b"\0\0"):
    """The value of every double is its place within its group, so that a field read from the wrong place is noticed."""
    head = struct.pack(">bih", version, 7, len(host)) + host
    loads = struct.pack(">13dq2i", *map(float, range(13)), 1_738_368_000_000, 21, 22)
    return head + loads + struct.pack(f">{21 + ranks}d", *map(float, range(100, 121 + ranks))) + rest


def test_a_broker_of_version_5():
    raw = broker_sample(5)
    # Cruise Control's writer allocates 457 bytes and the host's name.
    assert len(raw) == 457 + len("kafka7")
    assert decode_broker_sample(raw) == BrokerSample(
        broker_id=7, host="kafka7", time_ms=1_738_368_000_000,
        cpu=0.0, bytes_in=1.0, bytes_out=2.0, replication_bytes_in=3.0, replication_bytes_out=4.0, messages_in=5.0,
        produce_requests=6.0, fetch_requests=7.0, follower_fetch_requests=8.0, handler_idle=9.0, disk=10.0,
        request_queue=21, response_queue=22,
        produce_ms_mean=107.0, produce_ms_max=106.0, produce_ms_p999=128.0,
        fetch_ms_mean=109.0, fetch_ms_max=108.0, fetch_ms_p999=130.0,
        flush_ms_mean=120.0, flush_ms_max=119.0, flush_ms_p999=140.0,
    )  # fmt: skip


def test_a_broker_of_version_4_has_no_percentiles_though_bytes_follow():
    with_zeros, bare = decode_broker_sample(broker_sample(4)), decode_broker_sample(broker_sample(4, ranks=0, rest=b""))
    assert with_zeros == bare
    assert (bare.produce_ms_p999, bare.fetch_ms_p999, bare.flush_ms_p999) == (None, None, None)
    assert (bare.flush_ms_mean, bare.flush_ms_max) == (120.0, 119.0)


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (b"\x05broke", "6 bytes are too few"),
        (struct.pack(">bih", 3, 1, 0) + b"x" * 500, "version 3 is no broker sample"),
        (struct.pack(">bih", 5, 1, -1) + b"x" * 500, "the length of its host's name is -1"),
        (struct.pack(">bih", 5, 1, 32_000) + b"x" * 500, "507 bytes are too few for version 5"),
        (broker_sample(5, ranks=19, rest=b""), "too few for version 5"),
        (broker_sample(4, host=b"\xff"), "its host is not UTF-8"),
    ],
)
def test_what_is_no_broker_sample(raw, told):
    with pytest.raises(FormatError, match=told):
        decode_broker_sample(raw)
