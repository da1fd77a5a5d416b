"""Cruise Control's partition samples, as its sample store keeps them. NOT VERIFIED against a running Cruise Control.

Written from its published layout (PartitionMetricSample.toBytes, BrokerMetricSample.toBytes). A partition sample,
big-endian: version (1 byte: 0 or 1), broker id (int32), then doubles: CPU, disk (MB), bytes in (KB/s), bytes out (KB/s),
and in version 1 also produce rate, fetch rate, messages in (1/s), replication bytes in and out; then time (int64,
milliseconds), partition (int32), the topic's name in UTF-8. Cruise Control's KB and MB are powers of 1,024.

A broker sample (version 4 or 5) has rates of a broker, not of a partition: its records are counted among the rejects.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from shunter.errors import FormatError
from shunter.pipeline.schemas import LEADER
from shunter.pipeline.validation import RAW

if TYPE_CHECKING:
    import pyarrow as pa

KIB, MIB = 1_024, 1_048_576
WINDOW_SECONDS = 120
"""Cruise Control samples every two minutes unless told otherwise (`metric.sampling.interval.ms`)."""

_HEAD = struct.Struct(">bi")
_DOUBLES = {0: 4, 1: 9}
_TAIL = struct.Struct(">qi")
_BROKER_VERSIONS = (4, 5)
_DECODED = (
    "broker_id int, disk double, bytes_in double, bytes_out double, messages_in double, time_ms bigint, partition int, "
    "topic string, flaw string, file string"
)


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


def decode_partition_sample(raw: bytes) -> PartitionSample:
    """Read a partition sample.

    Raises:
        FormatError: another version, or fewer bytes than its version has.
    """
    if len(raw) < _HEAD.size:
        raise FormatError("Cruise Control sample", f"{len(raw)} bytes are too few")
    version, broker_id = _HEAD.unpack_from(raw)
    if version in _BROKER_VERSIONS:
        raise FormatError("Cruise Control sample", f"version {version} is a broker sample: it tells of no partition")
    if version not in _DOUBLES:
        raise FormatError("Cruise Control sample", f"version {version} is not understood; 0 and 1 are")
    count = _DOUBLES[version]
    topic_at = _HEAD.size + 8 * count + _TAIL.size
    if len(raw) <= topic_at:
        raise FormatError("Cruise Control sample", f"{len(raw)} bytes are too few for version {version}")
    values = struct.unpack_from(f">{count}d", raw, _HEAD.size)
    time_ms, partition = _TAIL.unpack_from(raw, _HEAD.size + 8 * count)
    try:
        topic = raw[topic_at:].decode()
    except UnicodeDecodeError as error:
        raise FormatError("Cruise Control sample", f"its topic is not UTF-8: {error.reason}") from error
    messages = values[6] if version == 1 else None
    return PartitionSample(broker_id, values[1], values[2], values[3], messages, time_ms, partition, topic)


def read_cruise_control(spark: SparkSession, paths: Sequence[str], *, cluster: str) -> DataFrame:
    """Read samples from Parquet files with a binary column `value`: the sample store's topic, dumped as it is.

    Grain: one row per record; columns of `validation.RAW`. Rates become amounts of a window of `WINDOW_SECONDS`.

    Raises:
        FormatError: there is no binary column `value`.
    """
    frame = spark.read.parquet(*paths)
    kinds = dict(frame.dtypes)
    if kinds.get("value") != "binary":
        raise FormatError(", ".join(paths), f"has no binary column value (found: {kinds})")
    records = frame.select("value", F.col("_metadata.file_path").alias("file"))
    # No native function reads a double out of bytes.
    decoded = records.mapInArrow(_decode, _DECODED)
    amount = {name: F.round(F.col(name) * KIB * WINDOW_SECONDS) for name in ("bytes_in", "bytes_out")}
    columns = {
        "cluster_id": F.lit(cluster), "topic_id": F.lit(None).cast("string"), "topic": F.col("topic"),
        "partition": F.col("partition"), "broker_id": F.col("broker_id"), "role": F.lit(LEADER),
        "window_start": F.timestamp_millis(F.col("time_ms") - WINDOW_SECONDS * 1000),
        "window_seconds": F.lit(WINDOW_SECONDS),
        **{name: column.try_cast("bigint") for name, column in amount.items()},
        "messages_in": F.round(F.col("messages_in") * WINDOW_SECONDS).try_cast("bigint"),
        "size_bytes": F.round(F.col("disk") * MIB).try_cast("bigint"),
        "source": F.lit("cruise_control"), "file": F.col("file"),
        "reader_rule": F.when(F.col("flaw").isNotNull(), F.lit("not_readable")), "reader_detail": F.col("flaw"),
    }  # fmt: skip
    return decoded.select(*(columns[name].alias(name) for name in RAW))


def _decode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa  # noqa: PLC0415  on the executor

    names = [*PartitionSample._fields, "flaw", "file"]
    kinds = [
        pa.int32(), *[pa.float64()] * 4, pa.int64(), pa.int32(), *[pa.string()] * 3,
    ]  # fmt: skip
    schema = pa.schema(list(zip(names, kinds, strict=True)))
    for batch in batches:
        rows: list[dict[str, object]] = []
        for value, file in zip(batch.column("value").to_pylist(), batch.column("file").to_pylist(), strict=True):
            row: dict[str, object] = dict.fromkeys(names)
            try:
                row.update(decode_partition_sample(value or b"")._asdict())
            except FormatError as error:
                row["flaw"] = error.rule
            rows.append({**row, "file": file})
        yield pa.RecordBatch.from_pylist(rows, schema=schema)
