"""Quality of the data, the day on which a broker is full, use by topic: compared with figures counted by hand."""

import json
import re
import shutil
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql.types import StructField, StructType

from shunter.app.pipeline.outlook import Anomaly, Quality, append_events, read_owners
from shunter.cli.pipeline.options import as_json
from shunter.errors import DriverError, FormatError
from shunter.pipeline.lake.kept_reports import KeptReports
from shunter.pipeline.lake.outlook_schemas import RUNWAY, SHOWBACK
from shunter.pipeline.lake.schemas import BROKER_LOADS, BROKERS, DAILY, REJECTS, REPLICAS, SAMPLES
from shunter.pipeline.lake.tables import Lake
from shunter.pipeline.load.sizes import daily_sizes
from shunter.pipeline.reports.anomalies import anomalies
from shunter.pipeline.reports.disk_growth import runway
from shunter.pipeline.reports.quality import data_quality
from shunter.pipeline.reports.usage import showback

pytestmark = pytest.mark.spark

NOTEBOOK = Path(__file__).parents[2] / "docs" / "pipeline.ipynb"
FIRST = date(2025, 1, 22)
GB = 10**9


def frame(spark, table, rows):
    """Rows of a table; columns that are not given are null."""
    schema = StructType([StructField(field.name, field.dataType) for field in table.schema])
    return spark.createDataFrame([tuple(row.get(name) for name in table.columns) for row in rows], schema)


def replica(day, topic, partition, broker, position, size):
    taken = datetime.combine(FIRST + timedelta(days=day), datetime.min.time()) + timedelta(hours=1)
    return {
        "cluster_id": "yard", "taken_at": taken, "topic_id": f"id-{topic}", "topic": topic, "partition": partition,
        "broker_id": broker, "position": position, "is_leader": position == 0, "in_sync": True, "size_bytes": size,
        "date": taken.date(), "ingest_id": "i",
    }  # fmt: skip


def rolled_up(day, topic, partition, broker, role, **amounts):
    begun = FIRST + timedelta(days=day)
    return {
        "cluster_id": "yard", "topic_id": f"name:{topic}", "topic": topic, "partition": partition, "broker_id": broker,
        "role": role, "window_start": datetime.combine(begun, datetime.min.time()), "window_seconds": 86_400, "windows": 24,
        "schema_version": 1, "date": begun, **amounts,
    }  # fmt: skip


@pytest.fixture(scope="module")
def seen(spark):
    """Twelve days: topic `pay.in` grows by 2 GB a day on brokers 1 and 2, `logs-x` is a saw on broker 2; 1 is in rack a."""
    replicas = [
        row
        for day in range(12)
        for row in (
            replica(day, "pay.in", 0, 1, 0, (100 + 2 * day) * GB),
            replica(day, "pay.in", 0, 2, 1, (100 + 2 * day) * GB),
            replica(day, "logs-x", 0, 2, 0, (10 + 5 * (day % 3)) * GB),
        )
    ]
    brokers = [
        {
            "cluster_id": "yard", "taken_at": datetime(2025, 2, 2, 1), "broker_id": broker, "rack": rack, "date": date(2025, 2, 2),
            "disk_total_bytes": 500 * GB, "disk_usable_bytes": usable * GB, "ingest_id": "i",
        }
        for broker, rack, usable in ((1, "a", 100), (2, "b", 45))
    ]  # fmt: skip
    days = [
        row
        for day in range(12)
        for row in (
            rolled_up(day, "pay.in", 0, 1, "leader", bytes_in=2 * GB, bytes_out=6 * GB),
            rolled_up(day, "pay.in", 0, 2, "follower", bytes_in=2 * GB),
            rolled_up(day, "logs-x", 0, 2, "leader", bytes_in=0),
        )
    ]
    return frame(spark, REPLICAS, replicas), frame(spark, BROKERS, brokers), frame(spark, DAILY, days)


def test_the_day_on_which_a_broker_is_full(seen):
    replicas, brokers, days = seen
    found = runway(daily_sizes(replicas, days), brokers, headroom_percent=2.0).collect()
    told = {(row["kind"], row["name"]): row for row in found}
    assert sorted(told) == [("broker", "1"), ("broker", "2"), ("topic", "logs-x"), ("topic", "pay.in")]
    one, two = told["broker", "1"], told["broker", "2"]
    assert (one["growth_bytes_per_day"], one["room_bytes"], one["days"]) == (pytest.approx(2 * GB), 90 * GB, 12)
    # 90 GB at 2 GB a day.
    assert (one["full_at"], one["full_earliest"], one["full_latest"]) == (date(2025, 3, 19),) * 3
    assert one["held_back_error"] == pytest.approx(0, abs=1e-9)
    # The saw on this broker is not growth, but its next tooth may need some of the 35 GB.
    assert two["growth_bytes_per_day"] == pytest.approx(2 * GB, rel=0.15)
    assert date(2025, 2, 13) <= two["full_at"] <= date(2025, 2, 21)
    saw = told["topic", "logs-x"]
    assert (saw["growth_low"] < 0, saw["full_latest"]) == (True, None), "perhaps never"
    assert saw["full_at"] > date(2025, 5, 1)
    # pay.in alone fills broker 2, which has half of it.
    assert (told["topic", "pay.in"]["room_bytes"], told["topic", "pay.in"]["full_at"]) == (70 * GB, date(2025, 2, 19))


def test_who_stored_wrote_read_and_carried_what(seen, tmp_path):
    replicas, brokers, days = seen
    (tmp_path / "owners.json").write_text(json.dumps({"pay.*": "payments", "pay.in": "others"}))
    owners = read_owners(tmp_path / "owners.json")
    newest = replicas.where("taken_at = '2025-02-02 01:00:00'")
    found = showback(daily_sizes(replicas, days), days, brokers, newest, owners).collect()
    told = {(str(row["month"]), row["topic"]): row for row in found}
    assert len(told) == len(found) == 4
    pay = told["2025-01-01", "pay.in"]
    assert (pay["owner"], pay["prefix"], pay["days"], pay["idle"]) == ("payments", "pay", 10, False)
    assert pay["stored_bytes"] == pytest.approx(2 * 109 * GB)
    assert (pay["written_bytes"], pay["read_bytes"], pay["cross_rack_bytes"]) == (20 * GB, 60 * GB, 20 * GB)
    logs = told["2025-02-01", "logs-x"]
    assert (logs["owner"], logs["prefix"], logs["idle"], logs["read_bytes"], logs["cross_rack_bytes"]) == (None, "logs", True, None, 0)  # fmt: skip
    (tmp_path / "owners.json").write_text("[1]")
    with pytest.raises(FormatError, match="is not a JSON object of patterns and owners"):
        read_owners(tmp_path / "owners.json")


def test_data_quality_of_each_day(spark, seen):
    replicas, _, _ = seen

    def window(day, hours, *, partition=0, role="leader", rate=True, broker=1, topic_id="name:pay.in", source="json"):
        begun = FIRST + timedelta(days=day)
        return {
            "cluster_id": "yard", "topic_id": topic_id, "topic": "pay.in", "partition": partition, "broker_id": broker,
            "role": role, "window_start": datetime.combine(begun, datetime.min.time()), "window_seconds": hours * 3600,
            "bytes_in": 5 if rate else None, "size_bytes": 7, "source": source, "schema_version": 1, "date": begun, "ingest_id": "i",
        }  # fmt: skip

    samples = [
        window(10, 6), window(10, 6, role="follower"), window(10, 24, partition=1, rate=False), window(11, 6),
        # Snapshots cover the same six hours. On day 11 three replicas of unknown role report the same figures.
        window(10, 6, topic_id="id-pay.in", source="snapshots"),
        *(window(11, 6, partition=1, role="unknown", broker=broker) for broker in (1, 2, 3)),
    ]  # fmt: skip
    aside = [{"cluster_id": "yard", "date": FIRST + timedelta(days=10), "rule": "negative"}]
    found = data_quality(frame(spark, SAMPLES, samples), replicas, frame(spark, REJECTS, aside))
    told = {(row["date"] - FIRST).days: row for row in found.collect()}
    assert sorted(told) == list(range(12))
    whole = told[10]
    # pay.in-0 and -1 by samples, logs-x-0 by its snapshot; six hours of one of three.
    assert (whole["partitions"], whole["with_rates"], whole["windows"], whole["rejected"]) == (3, 1, 4, 1)
    assert (whole["coverage"], whole["snapshots"]) == (pytest.approx(6 / 72), 1)
    assert str(whole["rates_until"]) == "2025-02-01 06:00:00"
    today = told[11]
    assert (today["coverage"], today["partitions"], today["with_rates"]) == (pytest.approx(2 / 3), 3, 2)
    assert (told[0]["with_rates"], told[0]["coverage"], told[0]["rates_until"]) == (0, 0, None)


def test_the_page_reads_what_spark_wrote_with_its_units(seen, tmp_path):
    replicas, brokers, days = seen
    sizes = daily_sizes(replicas, days)
    lake = Lake(str(tmp_path))
    lake.write(runway(sizes, brokers, headroom_percent=2.0), RUNWAY)
    newest = replicas.where("taken_at = '2025-02-02 01:00:00'")
    lake.write(showback(sizes, days, brokers, newest), SHOWBACK)
    reports = KeptReports(tmp_path)
    assert {each.name: (each.rows, each.trouble) for each in reports.gists("yard") if each.written_ms} == {
        "runway": (4, ""),
        "showback": (4, ""),
    }
    page = reports.page("runway", "yard", "", 0, 10)
    names = [each.name for each in page.columns]
    assert page.rows[0][:2] == ("broker", "2"), "the one that is full first"
    assert [dict(zip(names, row, strict=True))["full_at"] for row in page.rows if row[1] == "1"] == ["2025-03-19"]
    units = {each.name: (each.unit, each.told) for each in page.columns}
    assert units["size_bytes"] == ("bytes", "size of the broker's or topic's logs on the newest day")
    months = reports.page("showback", "yard", "PAY", 0, 10)
    place = [each.name for each in months.columns].index("month")
    assert [row[place] for row in months.rows] == ["2025-02-01", "2025-01-01"]


def test_what_is_not_as_it_was(spark, seen, tmp_path):
    replicas, _, days = seen
    # On the tenth day pay.in-0 is read at 30 MB/s for an hour, and all of it five times over; on the last one it loses a third.
    rows = [row.asDict() | {"bytes_in_peak": 2e6, "bytes_out_peak": 6e6} for row in days.collect()]
    for row in rows:
        if row["topic"] == "pay.in" and row["role"] == "leader":
            row |= {"bytes_in": 100 * GB, "bytes_out": 300 * GB}
            if row["date"] == FIRST + timedelta(days=9):
                row |= {"bytes_out": 1_500 * GB, "bytes_out_peak": 30e6}
    held = [row.asDict() for row in replicas.collect()]
    for row in held:
        if row["topic"] == "pay.in" and row["date"] == FIRST + timedelta(days=11):
            row["size_bytes"] -= 40 * GB
    loads = [
        {
            "cluster_id": "yard", "broker_id": 2, "last_window": datetime(2025, 2, 2), "explained_bytes_in": 0.5,
            "explained_bytes_out": 1.05, "cpu_p95": 0.9, "handler_idle_p05": 0.5,
        },
        {"cluster_id": "yard", "broker_id": 1, "last_window": datetime(2025, 2, 2), "cpu_p95": 0.1, "handler_idle_p05": 0.5},
    ]  # fmt: skip
    days, replicas = frame(spark, DAILY, rows), frame(spark, REPLICAS, held)
    found = anomalies(days, daily_sizes(replicas, days), frame(spark, BROKER_LOADS, loads)).collect()
    told = {(row["kind"], row["name"]): row for row in found}
    assert sorted(told) == [
        ("broker", "broker 2"), ("fan-out", "pay.in"), ("hot-out", "pay.in-0"), ("looked", ""),
        ("shrinks", "broker 1"), ("shrinks", "broker 2"), ("shrinks", "pay.in"),
    ]  # fmt: skip
    assert len(found) == len(told)
    hot = told["hot-out", "pay.in-0"]
    assert ((hot["date"] - FIRST).days, hot["value"], hot["usual"]) == (9, 30e6, 6e6)
    assert hot["what"] == "30.0 MB/s are read from it; on the days before it was 6.0 at most"
    assert (told["fan-out", "pay.in"]["value"], told["fan-out", "pay.in"]["usual"]) == (15, 3)
    assert told["shrinks", "pay.in"]["value"] == 2 * 82 * GB
    assert told["shrinks", "pay.in"]["usual"] == pytest.approx(2 * 98 * GB, rel=0.03)
    assert told["broker", "broker 2"]["what"] == (
        "the samples of the partitions that it leads make 50% of its own count of bytes in; "
        "its processors are 90% busy (95th percentile)"
    )
    assert told["looked", ""]["date"] == FIRST + timedelta(days=11)

    path = tmp_path / "events.jsonl"
    one = Anomaly("yard", "hot-out", "pay.in-0", hot["date"], 30e6, 6e6, "hot", new=True)
    for new in (True, False, True):
        append_events([one._replace(new=new)], path, datetime(2025, 2, 3, tzinfo=UTC))
    first, again = map(json.loads, path.read_text().splitlines())
    assert first == again
    assert (first["specversion"], first["type"], first["subject"]) == ("1.0", "shunter.anomaly.hot-out", "pay.in-0")
    assert first["data"] == {"date": "2025-01-31", "value": 30e6, "usual": 6e6, "what": "hot"}
    with pytest.raises(DriverError, match="Is a directory"):
        append_events([one], tmp_path, datetime(2025, 2, 3, tzinfo=UTC))


def test_the_notebook_uses_only_what_is_promised():
    source = "\n".join(line for cell in json.loads(NOTEBOOK.read_text())["cells"] for line in cell["source"])
    assert re.findall(r"(?:from|import) shunter\S*", source) == ["from shunter.pipeline"]


@pytest.mark.long
def test_the_notebook_runs(spark):
    """Run each cell of the notebook in order, in the tests' session, which the notebook joins."""
    notebook = json.loads(NOTEBOOK.read_text())
    names = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    shutil.rmtree(names["folder"])
    done = names["done"]
    assert (done.ingested.good, done.ingested.rejected, done.modelled.with_rates) == (64, 0, 4)
    assert [(one.cluster_id, one.status, one.moves) for one in done.planned.clusters] == [("yard", "planned", 1)]
    assert [one.scenario for one in done.scheduled.scenarios] == ["as planned", "traffic x 1.5"]
    assert [tuple(row) for row in names["model"]] == [
        (partition, "rates", 16, 1000.0, pytest.approx(2 / 24, rel=0.1)) for partition in range(4)
    ]
    assert [(row["partitions"], row["with_rates"]) for row in names["quality"]] == [(4, 4)] * 8
    assert [(row["kind"], row["name"], row["full_at"]) for row in names["growth"]] == [
        ("broker", "1", None), ("broker", "2", None), ("topic", "orders", None)
    ]  # fmt: skip
    assert [row["growth_bytes_per_day"] for row in names["growth"]] == pytest.approx([3e9, 1e9, 4e9])


def test_the_stages_are_exported_and_bring_no_spark_before_they_are_asked_for():
    said = "import sys, shunter.pipeline as p; assert 'pyspark' not in sys.modules; print(all(callable(getattr(p, n)) for n in p.__all__))"
    done = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, check=False)
    assert done.stdout == "True\n", done.stderr


def test_outcomes_as_json():
    one = Quality("yard", date(2025, 2, 1), 3, 1, 0.5, 0, datetime(2025, 2, 1, 6, tzinfo=UTC), None)
    assert json.loads(as_json({"clusters": (one,)}))["clusters"] == [
        {
            "cluster_id": "yard", "date": "2025-02-01", "partitions": 3, "with_rates": 1, "coverage": 0.5, "rejected": 0,
            "rates_until": "2025-02-01T06:00:00+00:00", "snapshot_at": None,
        }
    ]  # fmt: skip


def test_every_stage_says_as_json_what_it_did():
    from shunter.cli.pipeline.group import pipeline

    stages = {
        "account", "anomalies", "clean", "compact", "ingest", "model", "plan", "quality", "runway", "schedule", "showback",
        "what-if",
    }  # fmt: skip
    assert {
        name for name, stage in pipeline.commands.items() if any(one.name == "json" for one in stage.params)
    } == stages
    assert CliRunner().invoke(pipeline, ["runway", "--days", "2"]).exit_code == 2
