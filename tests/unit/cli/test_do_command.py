"""`shunter pipeline do`: a row of stages on one Spark."""

import contextlib

import pytest
from click.testing import CliRunner

from shunter.cli import main
from shunter.errors import FormatError

stages = pytest.importorskip("shunter.app.pipeline.stages")
KAFKA = (stages.KAFKA_SOURCE,)


@pytest.fixture
def begun(monkeypatch):
    """The calls of stages, whose work is left out, with the session that each of them got."""
    calls = []

    class Sessions:
        opened = 0

        @classmethod
        @contextlib.contextmanager
        def open(cls, _, packages=(), beside=()):
            outer = cls.opened == 0
            if outer:
                cls.opened += 1
                calls.append(("open", packages, beside))
            yield "the session"
            if outer:
                cls.opened -= 1

    def stage(name, outcome):
        def work(spark, _, *arguments, **options):
            calls.append((name, spark, *arguments, options))
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        monkeypatch.setattr(f"shunter.app.pipeline.{name}", work)

    monkeypatch.setattr("shunter.app.pipeline.stages.spark_session", Sessions.open)
    stage("stages.ingest", stages.IngestOutcome("b1", 5, 0))
    stage("stages.model_lake", stages.Modelled(3, 3, 0, 0.5))
    stage("stages.plan", stages.FleetOutcome("p1", ()))
    stage("run.schedule", FormatError("lake", "holds no plan yet"))
    stage("run.report_lake", "report.html")
    return calls


def do(*words):
    return CliRunner().invoke(main, ["pipeline", "do", *words])


def test_stages_share_one_session_and_each_has_its_own_options(begun, tmp_path):
    ended = do("ingest", "folder", "--kind", "snapshots", "model", "--json", "plan", "--out", str(tmp_path), "report")
    assert ended.exit_code == 0, ended.output
    assert begun[0] == ("open", (), ["folder"])
    assert [name for name, *_ in begun[1:]] == ["stages.ingest", "stages.model_lake", "stages.plan", "run.report_lake"]
    assert {spark for _, spark, *_ in begun[1:]} == {"the session"}
    assert begun[1][2] == stages.Inputs(("folder",), "snapshots")
    assert begun[3][3] == tmp_path
    assert ended.stdout.splitlines()[0].startswith("batch b1: 5 rows taken")
    assert '"replicas":3' in ended.stdout


def test_the_stage_that_fails_ends_the_row_with_its_status(begun):
    ended = do("model", "schedule", "report")
    assert (ended.exit_code, "holds no plan yet" in ended.stderr) == (1, True)
    assert [name for name, *_ in begun] == ["open", "stages.model_lake", "run.schedule"]


def test_a_wrong_option_of_the_last_stage_is_refused_before_spark_starts(begun):
    assert do("model", "plan", "--walk").exit_code == 2
    assert do("walk", "model").exit_code == 2
    assert do("run", "model").exit_code == 2
    assert not begun


def test_the_value_of_an_option_is_no_stage(begun):
    assert do("model", "--cluster", "plan", "report", "--out", "model", "--tables-as", "csv").exit_code == 0
    assert [name for name, *_ in begun] == ["open", "stages.model_lake", "run.report_lake"]
    assert begun[1][2]["clusters"] == ("plan",)


def test_after_a_flag_a_stage_begins(begun):
    assert do("model", "--json", "report").exit_code == 0
    assert [name for name, *_ in begun] == ["open", "stages.model_lake", "run.report_lake"]


def test_a_stream_needs_sparks_kafka_source_from_the_start(begun, monkeypatch):
    monkeypatch.setattr("shunter.app.pipeline.stages.ingest_topic", lambda *_: stages.Streamed(0, 0, 0, ()))
    stream = ("ingest", "--bootstrap-server", "kafka1:9092", "--topic", "samples", "--checkpoint", "here")
    assert do("model", *stream).exit_code == 0
    assert begun[0] == ("open", KAFKA, None)
