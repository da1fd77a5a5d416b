"""`shunter steps`, from the outside."""

import json

import pytest
from click.testing import CliRunner

from shunter.cli import main


def run(*arguments: str):
    return CliRunner().invoke(main, ["steps", *arguments])


def test_the_json_is_the_documented_shape():
    result = run("--replicas", "0,1,2", "--target", "3,4,5", "--leader", "0", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == {
        "steps": [
            {"dropped": [], "added": [3], "replicas": [0, 1, 2, 3], "leader": 0},
            {"dropped": [1], "added": [4], "replicas": [0, 2, 3, 4], "leader": 0},
            {"dropped": [2], "added": [5], "replicas": [0, 3, 4, 5], "leader": 0},
            {"dropped": [0], "added": [], "replicas": [3, 4, 5], "leader": 3},
        ]
    }


def test_a_dead_replica_goes_first_and_is_not_in_sync():
    result = run("--replicas", "0,1,2", "--target", "3,4,5", "--leader", "0", "--dead", "2", "--json")
    assert [step["dropped"] for step in json.loads(result.stdout)["steps"]] == [[], [2], [1], [0]]


def test_a_replica_out_of_sync_goes_first():
    result = run("--replicas", "0,1,2", "--target", "3,4,5", "--isr", "0,1", "--json")
    assert [step["dropped"] for step in json.loads(result.stdout)["steps"]] == [[], [2], [1], [0]]


def test_a_move_that_can_not_reach_its_target_says_for_whom_it_waits():
    result = run("--replicas", "0", "--target", "1", "--dead", "1", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == {
        "steps": [],
        "waiting": {
            "reason": "dead",
            "brokers": [1],
            "text": "waits for broker 1 to come back: dead, and part of the target",
        },
    }


def test_people_see_each_change_and_what_a_rollback_costs():
    result = run("--replicas", "0,1,2", "--target", "3,4,5", "--leader", "0")
    lines = [line.split() for line in result.stdout.splitlines()]
    assert ["1", "+3", "(0,", "1,", "2,", "3)", "0", "is", "instant"] in lines
    assert ["2", "-1", "+4", "(0,", "2,", "3,", "4)", "0", "copies", "1", "replica"] in lines
    assert ["4", "-0", "(3,", "4,", "5)", "3", "copies", "3", "replicas"] in lines
    assert "4 steps, 3 replicas copied." in result.stdout


def test_people_see_all_at_once_and_a_mere_order():
    assert "+3 +4 +5" in run("--replicas", "0,1,2", "--target", "3,4,5", "--all-at-once").stdout
    assert "order" in run("--replicas", "0,1,2", "--target", "2,1,0").stdout
    assert "Nothing to do: (0, 1) is the target already." in run("--replicas", "0,1", "--target", "0,1").stdout


def test_people_see_what_a_move_waits_for_and_that_nobody_leads():
    result = run("--replicas", "0,1", "--target", "2", "--dead", "0,1")
    assert "none" in result.stdout
    assert "Then it waits for brokers 0, 1 to come back" in result.stdout
    assert "Then it waits for brokers 0, 1" in run("--replicas", "0,1", "--target", "2", "--isr", "").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--replicas", "0,1,1", "--target", "2"), "replicas [0, 1, 1] for --replicas repeat broker 1"),
        (("--replicas", "0,1", "--target", "2,2"), "replicas [2, 2] for --target repeat broker 2"),
        (("--replicas", "0,1", "--target", "-2"), "replicas [-2] for --target name broker -2"),
        (("--replicas", "", "--target", "2"), "replicas [] for --replicas are empty"),
        (("--replicas", "0,1", "--target", ""), "replicas [] for --target are empty"),
        (("--replicas", "0,x", "--target", "2"), "'x' in '0,x' is not a broker id"),
        (("--replicas", "0,,1", "--target", "2"), "'' in '0,,1' is not a broker id"),
        (("--replicas", "0,1.5", "--target", "2"), "'1.5' in '0,1.5' is not a broker id"),
        (("--replicas", "0,9999999999", "--target", "2"), "broker id 9999999999 is too great"),
        (("--replicas", "0," + "9" * 9000, "--target", "2"), "is too great"),
        (("--replicas", "0,1", "--target", "2", "--leader", "2"), "--leader 2 is not in --replicas [0, 1]"),
        (("--replicas", "0,1", "--target", "2", "--leader", "x"), "'x' is not a valid integer"),
        (("--replicas", "0,1", "--target", "2", "--leader", "0", "--dead", "0"), "a dead broker leads nothing"),
        (("--replicas", "0,1", "--target", "2", "--leader", "0", "--isr", "1"), "a leader is always in sync"),
        (("--replicas", "0,1", "--target", "2", "--isr", "0,5"), "--isr [0, 5] names broker 5, which is not in"),
        (("--replicas", "0,1", "--target", "2", "--dead", "1,1"), "for --dead repeat broker 1"),
        (("--replicas", ",".join(map(str, range(101))), "--target", "2"), "--replicas has 101 brokers: at most 100"),
        (("--target", "2"), "Missing option '--replicas'"),
    ],
)
def test_bad_input_is_refused_with_status_2_and_a_reason(arguments, message):
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert result.stdout == ""
