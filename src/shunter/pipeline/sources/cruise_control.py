"""Cruise Control's samples, as its sample store keeps them. NOT VERIFIED against a running Cruise Control.

Written from its published layout (PartitionMetricSample.toBytes, BrokerMetricSample.toBytes); big-endian, KB and MB are
powers of 1,024.

A partition sample: version (1 byte: 0 or 1), broker id (int32), then doubles: CPU, disk (MB), bytes in (KB/s), bytes out
(KB/s), and in version 1 also produce rate, fetch rate, messages in (1/s), replication bytes in and out; then time
(int64, milliseconds), partition (int32), the topic's name in UTF-8.

A broker sample: version (1 byte: 4 or 5), broker id (int32), the host's name (int16 length, UTF-8), 13 doubles (CPU; KB/s
from producers, to consumers, of replication in and out; messages and requests per second; idle handlers; MB on disk;
requests by topic), time (int64, milliseconds), both queues (int32), 21 doubles of latencies, and in version 5 their
percentiles, 20 more. Its writer leaves bytes behind the last field (a version 4 sample has the percentiles too, as
zeros), and its reader ignores them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from shunter.errors import FormatError
from shunter.pipeline.ingest.validation import RAW
from shunter.pipeline.lake.schemas import LEADER
from shunter.pipeline.sources.tables import check_parquet

if TYPE_CHECKING:
    import pyarrow as pa

KIB, MIB = 1_024, 1_048_576
WINDOW_SECONDS = 120
"""Cruise Control samples every two minutes by default (`metric.sampling.interval.ms`)."""

_LAST_MS = 253_402_300_799_000
"""The last moment of the year 9999."""
_WHAT = "Cruise Control sample"
_HEAD = struct.Struct(">bi")
_DOUBLES = {0: 4, 1: 9}
_TAIL = struct.Struct(">qi")
_BROKER_VERSIONS = (4, 5)
_BROKER_HEAD = struct.Struct(">bih")
_BROKER_LOADS, _BROKER_TIMES, _BROKER_RANKS = struct.Struct(">13dq2i"), struct.Struct(">21d"), struct.Struct(">20d")


class PartitionSample(NamedTuple):
    """One partition in one window: MB on disk, KB per second, messages per second (None in version 0)."""

    broker_id: int
    disk: float
    bytes_in: float
    bytes_out: float
    messages_in: float | None
    time_ms: int
    partition: int
    topic: str


class BrokerSample(NamedTuple):
    """One broker in one window: rates per second (KB), MB on disk, milliseconds; percentiles are None in version 4."""

    broker_id: int
    host: str
    time_ms: int
    cpu: float
    bytes_in: float
    bytes_out: float
    replication_bytes_in: float
    replication_bytes_out: float
    messages_in: float
    produce_requests: float
    fetch_requests: float
    follower_fetch_requests: float
    handler_idle: float
    disk: float
    request_queue: int
    response_queue: int
    produce_ms_mean: float
    produce_ms_max: float
    produce_ms_p999: float | None
    fetch_ms_mean: float
    fetch_ms_max: float
    fetch_ms_p999: float | None
    flush_ms_mean: float
    flush_ms_max: float
    flush_ms_p999: float | None


def decode_partition_sample(raw: bytes) -> PartitionSample:
    """Read a partition sample.

    Raises:
        FormatError: another version, or fewer bytes than its version has.
    """
    if len(raw) < _HEAD.size:
        raise FormatError(_WHAT, f"{len(raw)} bytes are too few")
    version, broker_id = _HEAD.unpack_from(raw)
    if version not in _DOUBLES:
        raise FormatError(_WHAT, f"version {version} is not understood; 0 and 1 (partitions), 4 and 5 (brokers) are")
    count = _DOUBLES[version]
    topic_at = _HEAD.size + 8 * count + _TAIL.size
    if len(raw) <= topic_at:
        raise FormatError(_WHAT, f"{len(raw)} bytes are too few for version {version}")
    values = struct.unpack_from(f">{count}d", raw, _HEAD.size)
    time_ms, partition = _TAIL.unpack_from(raw, _HEAD.size + 8 * count)
    messages = values[6] if version == 1 else None
    topic = _text(raw[topic_at:], "topic")
    return PartitionSample(broker_id, values[1], values[2], values[3], messages, time_ms, partition, topic)


def decode_broker_sample(raw: bytes) -> BrokerSample:
    """Read a broker sample.

    Raises:
        FormatError: another version, or fewer bytes than its version has.
    """
    if len(raw) < _BROKER_HEAD.size:
        raise FormatError(_WHAT, f"{len(raw)} bytes are too few")
    version, broker_id, named = _BROKER_HEAD.unpack_from(raw)
    if version not in _BROKER_VERSIONS:
        raise FormatError(_WHAT, f"version {version} is no broker sample; 4 and 5 are")
    if named < 0:
        raise FormatError(_WHAT, f"the length of its host's name is {named}")
    loads_at = _BROKER_HEAD.size + named
    times_at = loads_at + _BROKER_LOADS.size
    ranks_at = times_at + _BROKER_TIMES.size
    if len(raw) < ranks_at + (_BROKER_RANKS.size if version == 5 else 0):
        raise FormatError(_WHAT, f"{len(raw)} bytes are too few for version {version}")
    host = _text(raw[_BROKER_HEAD.size : loads_at], "host")
    loads, times = _BROKER_LOADS.unpack_from(raw, loads_at), _BROKER_TIMES.unpack_from(raw, times_at)
    ranks: tuple[float | None, ...] = (None,) * 20
    if version == 5:
        ranks = _BROKER_RANKS.unpack_from(raw, ranks_at)
    # Latencies come as (max, mean), percentiles as (50th, 99.9th), produce, fetch and follower's fetch each: first of
    # the time in the queue, then of the whole request, then of the part on this broker; log flushes are last.
    latencies = (
        times[7], times[6], ranks[7],
        times[9], times[8], ranks[9],
        times[20], times[19], ranks[19],
    )  # fmt: skip
    return BrokerSample._make((broker_id, host, loads[13], *loads[:11], loads[14], loads[15], *latencies))


def _text(raw: bytes, what: str) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise FormatError(_WHAT, f"its {what} is not UTF-8: {error.reason}") from error


def read_cruise_control(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Read Parquet files with a binary column `value`: the sample store's topics, dumped as they are.

    Grain: one row per record; columns value and file.

    Raises:
        FormatError: there is no binary column `value`.
    """
    check_parquet(paths)
    frame = spark.read.parquet(*paths)
    kinds = dict(frame.dtypes)
    if kinds.get("value") != "binary":
        raise FormatError(", ".join(paths), f"has no binary column value (found: {kinds})")
    return frame.select("value", F.col("_metadata.file_path").alias("file"))


def partition_samples(records: DataFrame, *, cluster: str, window_seconds: int = WINDOW_SECONDS) -> DataFrame:
    """Decode the partition samples among records, and name records that are not samples at all.

    Grain: one row per record that is not a broker sample; columns of `validation.RAW`. Rates become amounts of a
    window.
    """
    decoded = _decoded(records.where(~_of_a_broker()), _PARTITION)
    amount = {name: F.round(F.col(name) * KIB * window_seconds) for name in ("bytes_in", "bytes_out")}
    columns = {
        **_common(cluster, window_seconds), "topic_id": F.lit(None).cast("string"), "topic": F.col("topic"),
        "partition": F.col("partition"), "role": F.lit(LEADER),
        **{name: column.try_cast("bigint") for name, column in amount.items()},
        "messages_in": F.round(F.col("messages_in") * window_seconds).try_cast("bigint"),
    }  # fmt: skip
    return decoded.select(*(columns[name].alias(name) for name in RAW))


def broker_samples(records: DataFrame, *, cluster: str, window_seconds: int = WINDOW_SECONDS) -> DataFrame:
    """Decode the broker samples among records.

    Grain: one row per record that begins like a broker sample; columns of `broker_samples` but for the batch's, and file,
    reader_rule, reader_detail.
    """
    decoded = _decoded(records.where(_of_a_broker()), _BROKER)
    rates = ("bytes_in", "bytes_out", "replication_bytes_in", "replication_bytes_out")
    per_second = {"messages_in_rate": "messages_in"} | {
        f"{name}_rate": name for name in ("produce_requests", "fetch_requests", "follower_fetch_requests")
    }
    kept = [name for name, _ in _BROKER.fields if name not in (*rates, *per_second.values(), "time_ms", "disk")]
    columns = {
        **{name: F.col(name) for name in kept},
        **{f"{name}_rate": F.col(name) * KIB for name in rates},
        **{name: F.col(source) for name, source in per_second.items()},
        "processors": F.lit(None).cast("double"),
        **_common(cluster, window_seconds),
    }
    return decoded.select(*(column.alias(name) for name, column in columns.items()))


def _common(cluster: str, window_seconds: int) -> dict[str, Column]:
    # The number is checked before it becomes a timestamp: a timestamp that Spark can't hold would end the whole batch.
    is_time = F.col("time_ms").between(window_seconds * 1000, _LAST_MS)
    no_time = F.concat(F.lit("time is "), F.col("time_ms"), F.lit(": no milliseconds since 1970"))
    return {
        "cluster_id": F.lit(cluster), "broker_id": F.col("broker_id"),
        "window_start": F.when(is_time, F.timestamp_millis(F.col("time_ms") - window_seconds * 1000)),
        "window_seconds": F.lit(window_seconds), "size_bytes": F.round(F.col("disk") * MIB).try_cast("bigint"),
        "source": F.lit("cruise_control"), "file": F.col("file"),
        "reader_rule": F.when(F.col("flaw").isNotNull(), F.lit("not_readable")).when(~is_time, F.lit("not_a_time")),
        "reader_detail": F.coalesce("flaw", F.when(~is_time, no_time)),
    }  # fmt: skip


def _of_a_broker() -> Column:
    version = F.hex(F.substring("value", 1, 1))
    return F.coalesce(version.isin(*(f"{version:02X}" for version in _BROKER_VERSIONS)), F.lit(False))


class _Kind(NamedTuple):
    """A decoder, and the columns that it gives, with Spark's word for each type."""

    decode: Callable[[bytes], PartitionSample | BrokerSample]
    fields: tuple[tuple[str, str], ...]


def _typed(names: Sequence[str], **others: str) -> tuple[tuple[str, str], ...]:
    return tuple((name, others.get(name, "double")) for name in (*names, "flaw", "file"))


_PARTITION = _Kind(
    decode_partition_sample,
    _typed(
        PartitionSample._fields,
        broker_id="int", time_ms="bigint", partition="int", topic="string", flaw="string", file="string",
    ),
)  # fmt: skip
_BROKER = _Kind(
    decode_broker_sample,
    _typed(
        BrokerSample._fields,
        broker_id="int", host="string", time_ms="bigint", request_queue="int", response_queue="int", flaw="string",
        file="string",
    ),
)  # fmt: skip


def _decoded(records: DataFrame, kind: _Kind) -> DataFrame:
    # No native function reads a double out of bytes.
    return records.mapInArrow(partial(_decode, kind), ", ".join(f"{name} {word}" for name, word in kind.fields))


def _decode(kind: _Kind, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa  # noqa: PLC0415  on the executor

    words = {"int": pa.int32(), "bigint": pa.int64(), "double": pa.float64(), "string": pa.string()}
    schema = pa.schema([(name, words[word]) for name, word in kind.fields])
    for batch in batches:
        rows: list[dict[str, object]] = []
        for value, file in zip(batch.column("value").to_pylist(), batch.column("file").to_pylist(), strict=True):
            row: dict[str, object] = dict.fromkeys(schema.names)
            try:
                row.update(kind.decode(value or b"")._asdict())
            except FormatError as error:
                row["flaw"] = error.rule
            rows.append({**row, "file": file})
        yield pa.RecordBatch.from_pylist(rows, schema=schema)
