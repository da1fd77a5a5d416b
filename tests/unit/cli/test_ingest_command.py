"""What `shunter pipeline collect` and `ingest` say of an outcome, and what they end with."""

import contextlib
import json

import pytest
from click.testing import CliRunner

from shunter.cli import main
from shunter.cli.pipeline.intake import LISTED_AT_MOST

ingest = pytest.importorskip("shunter.pipeline.ingest.batches")


@pytest.fixture
def told(monkeypatch):
    """Run `ingest` as if the pipeline had brought what is given."""

    def run(outcome, *arguments):
        monkeypatch.setattr("shunter.app.pipeline.stages.spark_session", lambda *_, **__: contextlib.nullcontext())
        monkeypatch.setattr("shunter.app.pipeline.stages.ingest", lambda *_: outcome)
        return CliRunner().invoke(main, ["pipeline", "ingest", "folder", *arguments])

    return run


def lost(number, good=1):
    files = tuple((f"file:/folder/{at:02}.json.gz", "cut off") for at in range(number))
    return ingest.IngestOutcome("b1", good, number, (("file_not_readable", number),), lost_files=files)


def test_each_file_that_was_lost_is_named(told):
    done = told(lost(2), "--kind", "json")
    assert done.exit_code == 1
    assert done.stderr.splitlines() == [
        "file:/folder/00.json.gz: nothing of it was taken: cut off",
        "file:/folder/01.json.gz: nothing of it was taken: cut off",
    ]
    as_json = told(lost(2), "--kind", "json", "--json")
    assert as_json.exit_code == 1
    assert [path for path, _ in json.loads(as_json.stdout)["lost_files"]] == [
        "file:/folder/00.json.gz",
        "file:/folder/01.json.gz",
    ]


def test_of_many_files_that_were_lost_the_first_are_named_and_the_others_counted(told):
    done = told(lost(LISTED_AT_MOST + 3))
    assert len(done.stderr.splitlines()) == LISTED_AT_MOST + 1
    assert done.stderr.endswith("and 3 more files\n")


def test_rows_that_were_put_aside_end_with_0_and_a_batch_of_nothing_with_7(told):
    assert told(ingest.IngestOutcome("b1", 5, 1, (("negative", 1),))).exit_code == 0
    assert told(lost(1, good=0)).exit_code == 7


@pytest.mark.parametrize(("kind", "hinted"), [("cruise-control", True), ("json", False)])
def test_windows_of_cruise_control_that_overlap_come_with_what_to_do(told, kind, hinted):
    overlapping = ingest.IngestOutcome("b1", 5, 5, (("time_backwards", 5),))
    done = told(overlapping, "--kind", kind, "--cluster", "c1")
    assert (done.exit_code, "--sampled-every" in done.stdout) == (0, hinted)
    assert "--sampled-every" not in told(ingest.IngestOutcome("b1", 5), "--kind", kind, "--cluster", "c1").stdout


def test_one_snapshot_needs_no_distance_to_the_next(monkeypatch):
    asked = []
    monkeypatch.setattr(
        "shunter.app.pipeline.collection.collect_every", lambda *_, **how: asked.append(how["count"]) or ()
    )
    command = ["pipeline", "collect", "--bootstrap-server", "127.0.0.1:1", "--count"]
    assert CliRunner().invoke(main, [*command, "1"]).exit_code == 0
    refused = CliRunner().invoke(main, [*command, "2"])
    assert (refused.exit_code, "--count needs --every" in refused.stderr) == (2, True)
    assert CliRunner().invoke(main, [*command, "2", "--every", "1s"]).exit_code == 0
    assert asked == [1, 2]
