"""`shunter plan`, from the outside."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from shunter.app.exit_codes import ExitCode
from shunter.cli import main


def skewed(brokers: int = 6, partitions: int = 90) -> dict[str, Any]:
    """A cluster of three racks whose last three brokers are empty."""
    rows = [
        {"topic": f"t{at % 5}", "partition": at // 5, "replicas": [1 + at % 3, 1 + (at + 1) % 3], "size": 100 + at % 7}
        for at in range(partitions)
    ]
    return {"brokers": {str(b): f"rack-{b % 3}" for b in range(1, brokers + 1)}, "partitions": rows}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "yard.json"
    path.write_text(json.dumps(skewed()), encoding="utf-8")
    return path


def run(*arguments: str):
    return CliRunner().invoke(main, ["plan", *arguments])


def applied(cluster: dict[str, Any], plan: dict[str, Any]) -> dict[str, Any]:
    after = {(row["topic"], row["partition"]): row for row in cluster["partitions"]}
    for change in plan["partitions"]:
        key = (change["topic"], change["partition"])
        after[key] = after[key] | {"replicas": change["replicas"]}
    return cluster | {"partitions": list(after.values())}


def test_the_plan_goes_to_standard_output_and_its_summary_to_standard_error(source: Path) -> None:
    result = run("--from", str(source))
    assert result.exit_code == 0
    plan = json.loads(result.stdout)
    assert plan["version"] == 1
    assert plan["partitions"]
    assert set(plan["partitions"][0]) == {"topic", "partition", "replicas", "original_replicas"}
    was = {(row["topic"], row["partition"]): row["replicas"] for row in skewed()["partitions"]}
    assert all(row["original_replicas"] == was[row["topic"], row["partition"]] for row in plan["partitions"])
    for part in ("6 brokers in 3 racks, 90 partitions, 180 replicas", "disk", "replicas to copy", "lower bound"):
        assert part in result.stderr


def test_planning_the_result_again_changes_nothing(source: Path) -> None:
    plan = json.loads(run("--from", str(source)).stdout)
    source.write_text(json.dumps(applied(skewed(), plan)), encoding="utf-8")
    result = run("--from", str(source))
    assert json.loads(result.stdout) == {"version": 1, "partitions": []}
    assert "0 replicas to copy" in result.stderr


def test_caps_are_kept_and_said(source: Path) -> None:
    result = run("--from", str(source), "--max-bytes-percent", "5", "--max-moves", "3")
    moved = json.loads(result.stdout)["partitions"]
    before = {(row["topic"], row["partition"]): set(row["replicas"]) for row in skewed()["partitions"]}
    assert sum(len(set(row["replicas"]) - before[row["topic"], row["partition"]]) for row in moved) <= 3
    assert "this plan stops short of that" in result.stderr
    assert "not done: broker" in result.stderr
    assert "the cap on bytes or moves is spent" in result.stderr


def test_a_drained_broker_is_named_no_more(source: Path) -> None:
    result = run("--from", str(source), "--scope", "drain", "--brokers", "1")
    after = applied(skewed(), json.loads(result.stdout))
    assert all(1 not in row["replicas"] for row in after["partitions"])
    assert "leaves a drained broker" in result.stderr


def test_the_linear_programme_is_asked_for(source: Path) -> None:
    result = run("--from", str(source), "--bound", "lp")
    assert result.exit_code == 0
    bounds = [line for line in result.stderr.splitlines() if line.startswith("lower bound ")]
    assert len(bounds) == 2
    assert "(disk, replicas and leaders together, by a linear programme)" in bounds[1]


def test_every_move_is_explained_where_asked(source: Path, tmp_path: Path) -> None:
    path = tmp_path / "why.jsonl"
    assert run("--from", str(source), "--explain", str(path)).exit_code == 0
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    moves = [row for row in rows if row["row"] == "move"]
    assert moves
    known = (
        "its broker had too much: disk (2.00 of the mean where it was",
        "exchanged for another replica: disk (2.00",
    )
    assert all(row["reason"].startswith(known) for row in moves)
    assert [row["broker"] for row in rows if row["row"] == "broker"] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--scope", "drain", "--brokers", "99"), "the cluster has no broker 99"),
        (("--scope", "change-replication", "--replication", "9"), "replication factor 9 needs 9 brokers"),
        (("--max-bytes-percent", "-1"), "max bytes percent -1.0 is negative"),
        (("--aims", "speed"), "aim 'speed' is unknown"),
        (("--exclude-topics", "nope"), "the cluster has no topic 'nope'"),
        (("--explain", "/nowhere/at/all"), "/nowhere/at/all: can't be written"),
    ],
)
def test_a_request_that_no_plan_can_serve_is_refused(source: Path, arguments: tuple[str, ...], said: str) -> None:
    result = run("--from", str(source), *arguments)
    assert result.exit_code == (ExitCode.JOURNAL if "--explain" in arguments else ExitCode.REFUSED)
    assert said in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("scope", "option"),
    [
        ("drain", "--brokers"),
        ("fill", "--brokers"),
        ("demote", "--brokers"),
        ("replace", "--brokers"),
        ("replace --brokers 1", "--replacements"),
        ("change-replication", "--replication"),
        ("topics", "--wanted"),
        ("empty-disks", "--disk-limit-percent"),
    ],
)
@pytest.mark.parametrize("live", [False, True])
def test_a_scope_without_an_option_that_it_needs_is_a_wrong_command_line(
    source: Path, scope: str, option: str, *, live: bool
) -> None:
    """An outsider's find: change-replication without --replication ended with 7, as a plan that is refused."""
    at = ("--bootstrap-server", "127.0.0.1:1") if live else ("--from", str(source))
    result = run(*at, "--scope", *scope.split())
    assert result.exit_code == ExitCode.USAGE
    assert f"--scope {scope.split(maxsplit=1)[0]} needs {option}" in result.stderr


@pytest.mark.parametrize("more", ["--to 4", "--partitions t1-0", "--partitions t1-0 --to 4 --wanted w.toml"])
def test_partitions_picked_by_hand_need_their_brokers_and_no_file(source: Path, more: str) -> None:
    result = run("--from", str(source), "--scope", "topics", *more.split())
    assert (result.exit_code, "or else --partitions with --to" in result.stderr) == (ExitCode.USAGE, True)


def test_partitions_picked_by_hand_go_to_the_brokers_that_were_named(source: Path) -> None:
    result = run("--from", str(source), "--scope", "topics", "--partitions", "t0,t1-2", "--to", "4,5,6")
    moved = json.loads(result.stdout)["partitions"]
    names = {f"{row['topic']}-{row['partition']}" for row in moved}
    assert names == {"t1-2", *(f"t0-{number}" for number in range(18))}
    assert all(set(row["replicas"]) < {4, 5, 6} for row in moved)
    assert run("--from", str(source), "--scope", "topics", "--partitions", "t0-99", "--to", "4").stderr == (
        "shunter: move: there is no topic and no partition 't0-99'\n"
    )


def test_a_broker_that_is_down_gets_nothing_by_hand_either(source: Path) -> None:
    cluster = skewed()
    cluster["brokers"] = {broker: {"rack": rack, "live": broker != "4"} for broker, rack in cluster["brokers"].items()}
    source.write_text(json.dumps(cluster), encoding="utf-8")
    result = run("--from", str(source), "--scope", "topics", "--partitions", "t0-0", "--to", "4")
    assert (result.exit_code, json.loads(result.stdout)["partitions"]) == (ExitCode.PARTLY, [])
    assert "are not among those wanted; broker 4 is dead" in result.stderr


def test_json_has_the_plan_its_figures_and_the_reason_of_each_copy(source: Path) -> None:
    words = ("--from", str(source), "--scope", "drain", "--brokers", "1")
    result = run(*words, "--json")
    told = json.loads(result.stdout)
    assert told["plan"] == json.loads(run(*words).stdout)
    assert len(told["copies"]) == told["moves"] > 0
    assert sum(copy["size"] for copy in told["copies"]) == told["bytes"]
    assert all(copy["reason"].startswith("leaves a drained broker (1.67 of the mean") for copy in told["copies"])
    assert 0 < told["bound_percent"] <= told["bytes_percent"]
    assert result.stderr == ""


@pytest.mark.parametrize(
    ("words", "scopes"),
    [
        ("--scope drain --brokers 1 --replication 2", "--replication is for --scope change-replication"),
        ("--brokers 1", "--brokers is for --scope drain or fill or replace or demote or disks"),
        ("--scope offline --topics t", "--topics is for --scope change-replication"),
    ],
)
def test_an_option_of_another_scope_is_not_ignored(source: Path, words: str, scopes: str) -> None:
    result = run("--from", str(source), *words.split())
    assert result.exit_code == ExitCode.USAGE
    assert scopes in result.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("no json", "is not JSON"),
        ('{"brokers": {}, "partitions": []}', "key 'brokers' is empty"),
        ('{"brokers": {"1": null}, "partitions": [{}]}', "brokers.1: rack is None"),
    ],
)
def test_bad_input_names_the_file(source: Path, text: str, said: str) -> None:
    source.write_text(text, encoding="utf-8")
    result = run("--from", str(source))
    assert result.exit_code == ExitCode.JOURNAL
    assert f"shunter: {source}: " in result.stderr
    assert said in result.stderr


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    result = run("--from", str(tmp_path / "none.json"))
    assert result.exit_code == ExitCode.JOURNAL
    assert "can't be read" in result.stderr


def test_planning_imports_neither_spark_nor_the_wire_nor_zookeeper(source: Path) -> None:
    program = (
        "import sys\n"
        "from shunter.cli import main\n"
        f"main(['plan', '--from', {str(source)!r}], standalone_mode=False)\n"
        "heavy = sorted({'pyspark', 'kio', 'kazoo', 'kafka', 'scipy', 'pandas'} & set(sys.modules))\n"
        "print('heavy:', heavy, file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert "heavy: []" in done.stderr


def test_the_documented_summary_is_what_the_command_says(tmp_path: Path, monkeypatch) -> None:
    page = (Path(__file__).parents[3] / "docs" / "planning.md").read_text(encoding="utf-8")
    given = page.split("```json\n")[1].split("```")[0]
    shown = page.split("    $ shunter plan --from yard.json > plan.json\n")[1]
    monkeypatch.chdir(tmp_path)
    Path("yard.json").write_text(given, encoding="utf-8")
    told = run("--from", "yard.json").stderr
    assert shown.startswith("".join(f"    {line}\n" for line in told.splitlines()))


def test_a_plan_that_apaches_tool_refuses_says_so(tmp_path: Path) -> None:
    brokers = {"1": {"live": False}, "2": {"rack": None}, "3": {"rack": None}}
    row = {"topic": "t", "partition": 0, "replicas": [3, 1, 2], "size": 1, "isr": [3, 2], "leader": 3}
    source = tmp_path / "yard.json"
    source.write_text(json.dumps({"brokers": brokers, "partitions": [row]}), encoding="utf-8")
    result = run("--from", str(source), "--scope", "demote", "--brokers", "3", "--ignore-racks")
    assert json.loads(result.stdout)["partitions"][0]["replicas"] == [2, 1, 3]
    assert "Apache's tool refuses a whole plan that names it" in result.stderr


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ("--scope drain --brokers 1 --max-moves 1", ExitCode.PARTLY),
        ("--scope change-replication --replication 3 --max-moves 1", ExitCode.PARTLY),
        ("--scope drain --brokers 1", ExitCode.DONE),
        ("--max-moves 1", ExitCode.DONE),
    ],
)
def test_a_plan_that_leaves_undone_what_its_scope_asks_ends_with_1_whether_it_is_carried_out_or_not(
    source: Path, words: str, status: ExitCode
) -> None:
    """An outsider's find: `plan --scope drain` ended with 0 beside "not done", where `drain` ends with 1."""
    result = run("--from", str(source), *words.split())
    assert result.exit_code == status, result.stderr
    assert ("not done" in result.stderr) == ("--max-moves" in words)
    assert json.loads(result.stdout)["partitions"], "what can be done is planned all the same"


def test_a_dry_run_of_a_file_is_refused_by_name(source: Path) -> None:
    """An outsider's find: --dry-run without --execute did nothing, and said nothing."""
    result = run("--from", str(source), "--dry-run")
    assert result.exit_code == ExitCode.USAGE
    assert "--execute and --dry-run need a live cluster, not a file" in result.stderr


def test_a_plan_as_of_a_time_whose_tables_are_gone_is_refused_before_spark_starts():
    pytest.importorskip("pyspark")
    done = CliRunner().invoke(main, ["pipeline", "plan", "--as-of", "2025-01-01"])
    assert done.exit_code == 2
    assert "--as-of 2025-01-01: tables can be read as they were 30 days ago at the most" in done.stderr
