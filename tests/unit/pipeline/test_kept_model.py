"""The lake's newest model as the service reads it: without Spark, each file once, with clear errors."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

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


def keep(root: Path, table: str, rows: list[dict[str, Any]], name: str = "part-0.parquet") -> Path:
    folder = root / table / "cluster_id=c%2F1"
    folder.mkdir(parents=True, exist_ok=True)
    schema = None
    if table == "load_model":
        kinds = pa.timestamp("us", tz="UTC"), pa.float64()
        schema = pa.schema(
            [("topic_id", pa.string()), ("partition", pa.int32()), ("role", pa.string()), ("windows", pa.int64()),
             ("covered_seconds", pa.int64()), ("last_window", kinds[0]), ("bytes_in_p95", kinds[1]), ("bytes_out_p95", kinds[1])]
        )  # fmt: skip
    parquet.write_table(pa.Table.from_pylist(rows, schema=schema), folder / name)
    return folder / name


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


def test_it_is_read_again_only_after_it_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    models = KeptModels(tmp_path)
    assert models.of("c/1") == LoadModel()
    path = keep(tmp_path, "load_model", [modelled(0, "leader", 5.0, 7.0)])
    first = models.of("c/1")
    assert first.rates[("id", 0)].bytes_in == 5.0
    assert models.of("c/1") is first
    keep(tmp_path, "load_model", [modelled(0, "leader", 6.0, 7.0)])
    os.utime(path, (1, 1))
    assert models.of("c/1").rates[("id", 0)].bytes_in == 6.0


def test_what_can_not_be_read_is_told(tmp_path: Path) -> None:
    path = keep(tmp_path, "load_model", [modelled(0, "leader", 5.0, 7.0)])
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(FormatError, match=r"cluster_id=c%2F1: can't be read"):
        KeptModels(tmp_path).of("c/1")
    parquet.write_table(pa.table({"topic_id": ["id"]}), path)
    with pytest.raises(FormatError, match=r"has no column partition: make the model anew"):
        KeptModels(tmp_path).of("c/1")
    (tmp_path / "load_model" / "_delta_log").mkdir()
    with pytest.raises(FormatError, match="is a Delta table"):
        KeptModels(tmp_path).of("c/1")
