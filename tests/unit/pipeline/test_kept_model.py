"""The lake's newest model as the service reads it: without Spark, each file once, with clear errors."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from shunter.errors import FormatError
from shunter.model.load_model import LoadModel, PartitionRates, ProcessorModel
from shunter.pipeline.lake.kept_model import KeptModels

DAY = datetime(2026, 2, 1, 12, tzinfo=UTC)
COST = {"idling": 0.25, "received_cost": 1.0, "led_cost": 2.0, "sent_cost": 0.5}


def modelled(
    partition: int, role: str, rate_in: float | None, rate_out: float | None, windows: int = 3
) -> dict[str, Any]:
    return {
        "topic_id": "id", "partition": partition, "role": role, "windows": windows, "covered_seconds": 60 * windows,
        "last_window": DAY,
        "bytes_in_p95": rate_in, "bytes_out_p95": rate_out,
    }  # fmt: skip


def keep(root: Path, table: str, rows: list[dict[str, Any]]) -> None:
    """Replace the cluster's rows, beside another cluster's."""
    schema = None
    if table == "load_model":
        kinds = pa.timestamp("us", tz="UTC"), pa.float64()
        schema = pa.schema(
            [("topic_id", pa.string()), ("partition", pa.int32()), ("role", pa.string()), ("windows", pa.int64()),
             ("covered_seconds", pa.int64()), ("last_window", kinds[0]), ("bytes_in_p95", kinds[1]), ("bytes_out_p95", kinds[1])]
        )  # fmt: skip
    data = pa.Table.from_pylist(rows, schema=schema)
    for cluster in ("c/1", "other"):
        of_it = data.append_column("cluster_id", pa.array([cluster] * len(data), pa.string()))
        where = None if not (root / table).exists() else f"cluster_id = '{cluster}'"
        write_deltalake(root / table, of_it, partition_by=["cluster_id"], mode="overwrite", predicate=where)


def test_a_leader_knows_better_than_a_follower_and_nothing_hides_what_is_known(tmp_path: Path) -> None:
    keep(
        tmp_path,
        "load_model",
        [
            modelled(0, "leader", 5.0, 7.0),
            modelled(0, "follower", 50.0, None),
            modelled(1, "follower", 3.0, None),
            modelled(1, "unknown", None, 2.0),
            modelled(2, "leader", 1.0, 9.0),
            modelled(2, "leader", 4.0, 6.0),
            modelled(3, "leader", None, None, windows=0),
            # This replica led for a minute, in which consumers caught up.
            modelled(4, "leader", 3.0, 90.0, windows=1),
            modelled(4, "leader", 2.0, 4.0, windows=19),
        ],
    )
    keep(
        tmp_path,
        "processor_model",
        [
            {"broker_id": 1, "power": 1.5, "usable": True, **COST},
            {"broker_id": 2, "power": 0.5, "usable": True, **COST},
            {"broker_id": 3, "power": 9.0, "usable": False, **COST},
        ],
    )
    assert KeptModels(tmp_path).of("c/1") == LoadModel(
        {
            ("id", 0): PartitionRates(5.0, 7.0),
            ("id", 1): PartitionRates(3.0, 2.0),
            ("id", 2): PartitionRates(4.0, 9.0),
            ("id", 4): PartitionRates(2.0, 4.0),
        },
        round(DAY.timestamp() * 1000),
        ProcessorModel(0.25, 1e-6, 2e-6, 5e-7, {1: 1.5, 2: 0.5}),
    )
    assert KeptModels(tmp_path).of("another") == LoadModel()


def test_it_is_read_again_only_after_it_changed(tmp_path: Path) -> None:
    models = KeptModels(tmp_path)
    assert models.of("c/1") == LoadModel()
    keep(tmp_path, "load_model", [modelled(0, "leader", 5.0, 7.0)])
    first = models.of("c/1")
    assert first.rates[("id", 0)].bytes_in == 5.0
    assert models.of("c/1") is first
    keep(tmp_path, "load_model", [modelled(0, "leader", 6.0, 7.0)])
    assert models.of("c/1").rates[("id", 0)].bytes_in == 6.0


def test_what_can_not_be_read_is_told(tmp_path: Path) -> None:
    keep(tmp_path, "load_model", [modelled(0, "leader", 5.0, 7.0)])
    for path in (tmp_path / "load_model").glob("*/*.parquet"):
        path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(FormatError, match=r"load_model: can't be read"):
        KeptModels(tmp_path).of("c/1")
    other = tmp_path / "other"
    write_deltalake(
        other / "load_model", pa.table({"cluster_id": ["c/1"], "topic_id": ["id"]}), partition_by=["cluster_id"]
    )
    with pytest.raises(FormatError, match=r"has no column partition: make it anew"):
        KeptModels(other).of("c/1")
    (other / "processor_model" / "_delta_log").mkdir(parents=True)
    (other / "processor_model" / "_delta_log" / "00000000000000000000.json").write_text("no log")
    with pytest.raises(FormatError, match="processor_model: can't be read"):
        KeptModels(other).of("c/1")
