"""The documents match the code, and the package has all that spark-submit needs."""

import re
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from shunter.app.pipeline.series_labels import series_labels
from shunter.cli.pipeline.group import KINDS, Duration, pipeline
from shunter.errors import FormatError
from shunter.formats.series_labels import labels_from_file
from shunter.pipeline.sources.tables import check_parquet

ROOT = Path(__file__).parents[3]


def test_every_rule_is_documented():
    from shunter.pipeline.ingest.batches import RULES

    text = (ROOT / "docs" / "data.md").read_text()
    assert [rule for rule in RULES if f"`{rule}`" not in text] == []


def test_every_command_is_in_the_guide():
    """Their options are in docs/cli.md, which has a test of its own."""
    text = (ROOT / "docs" / "pipeline.md").read_text()
    assert [name for name in pipeline.commands if f"`{name}`" not in text] == []
    for parameter in pipeline.params:
        assert parameter.opts[0] in text


def test_the_command_knows_the_kinds_of_the_stages():
    from shunter.pipeline.ingest.kinds import KINDS as STAGES

    assert KINDS == STAGES


def test_the_recipes_commands_and_their_mapping_file_are_understood():
    """What they read is in tests/spark/test_spark_recipes.py."""
    text = (ROOT / "docs" / "recipes.md").read_text()
    commands = re.findall(r"(?m)^shunter pipeline (.+)$", text)
    assert len(commands) > 10
    for command in commands:
        name, *arguments = shlex.split(command)
        given = pipeline.commands[name].make_context(name, arguments).params
        rules = [rule.partition("=") for rule in given.get("broker_from", ())]
        labels = [label for label in given.get("cluster_labels", ()) if name == "ingest"]
        series_labels(given.get("cluster"), labels, [(label, rule) for label, _, rule in rules], (), None)
    (told,) = [labels_from_file("fleet.toml", one) for one in re.findall(r"(?s)```toml\n(.*?)```", text)]
    assert [len(one.labels) for one in told.clusters] == [2, 2]


def test_what_is_no_parquet_is_said_in_a_line(tmp_path):
    (tmp_path / "a b.csv").write_text("cluster_id,topic\n")
    with pytest.raises(FormatError, match="is no Parquet file, it begins with b'cluster_id,topic': say with --kind"):
        check_parquet([f"file:{tmp_path}/a%20b.csv"])
    (tmp_path / "good.parquet").write_bytes(b"PAR1 and so on")
    check_parquet([str(tmp_path / "good.parquet"), "hdfs://somewhere/else"])


def test_the_package_is_whole_and_the_same_each_time(tmp_path):
    from shunter.pipeline.packaging import package

    archive, _, main = package(tmp_path / "a", environment=False)
    again, _, _ = package(tmp_path / "b", environment=False)
    assert archive.read_bytes() == again.read_bytes()
    names = zipfile.ZipFile(archive).namelist()
    assert "shunter/pipeline/planning/fleet_worker.py" in names
    assert not [name for name in names if "__pycache__" in name]
    probe = f"import sys; sys.path[:] = [{str(archive)!r}, *(p for p in sys.path if 'src' not in p)]; import shunter.pipeline.planning.fleet_worker as m; print(m.__file__)"
    found = subprocess.run(
        [sys.executable, "-c", probe], env={"PATH": "/usr/bin"}, capture_output=True, text=True, check=True
    )
    assert found.stdout.startswith(str(archive))
    assert "pipeline()" in main.read_text()


def test_other_commands_do_not_bring_spark():
    probe = "import sys; import shunter.cli.pipeline.group, shunter.cli.main; print('pyspark' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert found.stdout == "False\n"


@pytest.mark.parametrize(
    ("text", "seconds"), [("30s", 30.0), ("1m", 60.0), ("2h", 7200.0), ("1d", 86400.0), ("1.5", 1.5)]
)
def test_durations(text, seconds):
    assert Duration().convert(text, None, None) == seconds


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ["collect", "--bootstrap-server", "h:1", "--every", "soon"],
            "'soon' is not a duration: write 30s, 1m, 2h or 1d",
        ),
        (["ingest"], "name files or folders, or a topic"),
        (["ingest", "--bootstrap-server", "h:1"], "a stream needs --topic and --checkpoint"),
        (["ingest", "x", "--kind", "prometheus", "--broker", "h:1=one"], "'one' is not a broker id"),
        (["ingest", "x", "--broker-from", "pod"], "--broker-from takes LABEL=REGEX"),
        (["ingest", "x", "--broker-from", "pod=kafka"], "--broker-from pod = 'kafka' has 0 groups"),
        (["ingest", "x", "--cluster-label", "a=b"], "--cluster-label LABEL=VALUE says which series are of --cluster"),
        (
            ["ingest", "x", "--cluster-label", "a", "--cluster-label", "b"],
            "say LABEL=VALUE if several tell it together",
        ),
        (["plan", "--brokers", "1,x"], "'x' in '1,x' is not a broker id"),
        (["--conf", "nothing", "model"], "--conf takes NAME=VALUE"),
    ],
)
def test_wrong_usage_is_said_and_ends_with_2(arguments, told):
    ended = CliRunner().invoke(pipeline, arguments)
    assert ended.exit_code == 2
    assert told in ended.output
