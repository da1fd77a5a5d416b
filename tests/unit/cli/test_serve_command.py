"""`shunter serve`: what it refuses, and what it says of clusters that do not answer. Real clusters: tests/real."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from shunter.cli import main

POLICY = '[cluster.one]\nbootstrap-server = "127.0.0.1:1"\n\n[cluster.two]\nbootstrap-server = "127.0.0.1:1"\n'


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "keeper.toml"
    path.write_text(POLICY)
    return path


def serve(*words: object) -> Result:
    return CliRunner().invoke(main, ["serve", *map(str, words)])


def test_check_reads_the_file_and_asks_no_cluster(policy: Path) -> None:
    done = serve(policy, "--check")
    assert done.exit_code == 0, done.output
    assert "one: 127.0.0.1:1, propose: broker-dead," in done.output
    assert done.output.endswith("keeper.toml is in order\n")


def test_check_reads_the_files_that_the_file_names(policy: Path) -> None:
    policy.write_text(POLICY + 'command-config = "none.properties"\n')
    done = serve(policy, "--check")
    assert done.exit_code == 5, done.output
    assert "none.properties: can't be read" in done.output
    assert "one: 127.0.0.1:1, propose" in done.output, "the others are told all the same"
    assert "in order" not in done.output


@pytest.mark.parametrize("mode", ["--check", "--once"])
def test_a_wrong_file_is_told(policy: Path, mode: str) -> None:
    policy.write_text(POLICY.replace("bootstrap-server", "bootstrap", 1))
    done = serve(policy, mode)
    assert done.exit_code == 2
    assert "bootstrap is not a key of a policy; did you mean bootstrap-server?" in done.output
    assert serve(policy.with_name("none.toml"), mode).exit_code == 5


def test_options_that_do_not_go_together_are_refused(policy: Path) -> None:
    for words in (("--check", "--once"), ("--check", "--json"), ("--state", "s"), ("--plans", "p")):
        assert serve(policy, *words).exit_code == 2, words


def test_clusters_that_do_not_answer_are_told_one_by_one(policy: Path, tmp_path: Path) -> None:
    done = serve(policy, "--once")
    assert done.exit_code == 3
    assert done.output.count("127.0.0.1:1") == 2, done.output
    assert done.output.index("== one") < done.output.index("== two")
    done = serve(policy, "--once", "--json", "--state", tmp_path / "state.json")
    assert done.exit_code == 3
    rows = [json.loads(line) for line in done.output.splitlines()]
    assert [(row["event"], row.get("cluster"), row["exit"]) for row in rows] == [
        ("error", "one", 3),
        ("error", "two", 3),
        ("end", None, 3),
    ]


def test_a_cluster_that_does_not_answer_keeps_what_was_known_of_it(policy: Path, tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    known = {"cluster_id": "x", "at_ms": 5, "held": []}
    state.write_text(json.dumps({"version": 1, "clusters": {"one": known, "gone": known}}))
    assert serve(policy, "--once", "--state", state).exit_code == 3
    assert json.loads(state.read_text())["clusters"] == {"one": known}
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_broken_state_is_told_before_any_cluster_is_asked(policy: Path, tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    state.write_text("{")
    done = serve(policy, "--once", "--state", state)
    assert done.exit_code == 5
    assert "delete this one" in done.output
    assert "== one" not in done.output
