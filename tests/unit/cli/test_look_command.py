"""`shunter status`, `watch` and `history`: without the cluster, and about what nothing moves."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner, Result

from shunter.app.executor.journals import JournalPlace
from shunter.app.exit_codes import ExitCode
from shunter.cli import main
from shunter.cli.execution import look
from shunter.cli.execution.look import _show_moves
from shunter.cli.execution.named_moves import Wanted
from shunter.core.executor.estimates.rates import Meter
from shunter.core.executor.state import ExecutorState, Move
from shunter.model.execution import LeaseHolder, ObservedPartition, ObservedTopic
from shunter.model.partition import TopicPartition
from shunter.model.reassignment import Strategy
from shunter.views.execution import view_execution

CLOSED = "127.0.0.1:1"
"""Nothing listens there."""


def said(*arguments: str) -> Result:
    return CliRunner().invoke(main, [*arguments])


def test_a_status_without_the_cluster_still_tells_what_the_journal_says(undriven: Path) -> None:
    done = said("status", "--journal", str(undriven), "--bootstrap-server", CLOSED)
    assert done.exit_code == ExitCode.CLUSTER
    assert "the cluster did not answer: everything below is from the journal alone" in done.stderr
    assert f"shunter: no broker answers: {CLOSED} refuses connections: nothing listens there" in done.stderr
    assert "  t-0 [1, 2] → [3, 2] (forward, pending)" in done.output
    as_json = json.loads(said("status", "--journal", str(undriven), "--bootstrap-server", CLOSED, "--json").stdout)
    assert as_json["unasked"].startswith(f"no broker answers: {CLOSED} refuses")
    assert [move["partition"] for move in as_json["moves"]] == ["t-0"]


def test_the_journal_of_a_cluster_that_does_not_answer_is_found_by_its_servers(
    undriven: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHUNTER_STATE", str(undriven.parent))
    view = undriven.with_name(undriven.name + ".view")
    view.write_bytes(orjson.dumps({"bootstrap": f"127.0.0.1:2,{CLOSED}"}))
    done = said("status", "--bootstrap-server", CLOSED)
    assert done.exit_code == ExitCode.CLUSTER
    assert f"journal {undriven}" in done.output
    assert "t-0 [1, 2] → [3, 2]" in done.output
    past = said("history", "--bootstrap-server", CLOSED)
    assert (past.exit_code, "  1  20" in past.output) == (ExitCode.CLUSTER, True)
    assert f"this is the last journal that was known, {undriven}: no broker answers" in past.output
    view.write_bytes(orjson.dumps({"bootstrap": "127.0.0.1:2"}))
    other = said("status", "--bootstrap-server", CLOSED)
    assert other.exit_code == ExitCode.CLUSTER
    assert f"`shunter status --offline --journal FILE` shows a journal of this host: {undriven}" in other.output
    assert "t-0 [" not in other.output


def test_an_executor_that_stands_still_is_named_with_the_ways_out(standing: Path) -> None:
    pid = os.getpid()
    told = f"process {pid} has not renewed its lease since 2"
    way_out = f"it runs, so it waits for something, or hangs; see in its log why, or end it (kill {pid}), then repeat"
    status = said("status", "--offline", "--journal", str(standing))
    assert f"{told}" in status.stdout
    assert way_out in status.stdout
    assert "driven by" not in status.stdout
    assert "`shunter resume` goes on" not in status.stdout
    as_json = json.loads(said("status", "--offline", "--journal", str(standing), "--json").stdout)
    assert (as_json["holder"], as_json["standing"]["process"]) == (None, pid)
    paused = said("pause", "--journal", str(standing), "--bootstrap-server", CLOSED)
    assert paused.exit_code == ExitCode.HELD
    assert told in paused.stderr
    watched = said("watch", "--journal", str(standing), "--bootstrap-server", CLOSED)
    assert watched.exit_code == ExitCode.LEFT
    assert told in watched.stderr


def test_what_nothing_moves_is_told_and_is_no_success(undriven: Path) -> None:
    journal = ("--offline", "--journal", str(undriven))
    unknown = said("status", "nosuch-1", *journal)
    assert unknown.exit_code == ExitCode.REFUSED
    assert "  nosuch-1: the journal knows no move of it" in unknown.output
    topic = said("status", "--topic", "typo", *journal)
    assert (topic.exit_code, "topic typo: the journal knows no move of it" in topic.output) == (ExitCode.REFUSED, True)
    some = said("status", "t-0", "nosuch-1", *journal)
    assert some.exit_code == ExitCode.PARTLY
    assert "t-0 [1, 2] → [3, 2]" in some.output
    assert said("status", "--topic", "t", *journal).exit_code == ExitCode.DONE
    told = json.loads(said("status", "nosuch-1", *journal, "--json").stdout)
    assert (told["moves"], told["counts"], list(told["unknown"])) == ([], {}, ["nosuch-1"])


def test_a_plan_of_which_nothing_moves_is_told(undriven: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    for topic, code in (("t", ExitCode.DONE), ("u", ExitCode.REFUSED)):
        entry = {"topic": topic, "partition": 0, "replicas": [1]}
        plan.write_text(json.dumps({"version": 1, "partitions": [entry, {**entry, "partition": 1}]}))
        done = said("status", "--plan", str(plan), "--offline", "--journal", str(undriven))
        assert (done.exit_code, "the plan: the journal knows no move" in done.output) == (code, code != ExitCode.DONE)


def test_history_tells_every_throttle(undriven: Path) -> None:
    at = ("--journal", str(undriven), "--bootstrap-server", CLOSED)
    assert "throttle 5.0 MB/s, then 2.0 MB/s" in said("history", *at).output
    assert "5000000,2000000" in said("history", *at, "--output", "plain").output
    assert json.loads(said("history", *at, "--json").stdout)["throttles"] == [5_000_000, 2_000_000]


def test_why_a_move_is_stuck_stands_once_with_its_move(capsys: pytest.CaptureFixture[str]) -> None:
    """An outsider's find: `status orders-3` said it twice."""
    state, tp = ExecutorState(running=True), TopicPartition("t", 0)
    state.moves[tp] = Move(tp, None, (1,), (5,), Strategy.INCREMENTAL, 1_000, (), False, 0, current=(1,))
    state.cluster.brokers = {1: None}
    state.cluster.topics["t"] = ObservedTopic(None, {0: ObservedPartition((1,), (1,), 1)})
    view = view_execution(state, Meter(), None, 1_000)
    for wanted in (Wanted((), (), ()), Wanted((tp,), (), ())):
        _show_moves(view, wanted)
        first, _row, why = capsys.readouterr().out.splitlines()
        assert first.endswith("no end: 1 stuck · down: broker 5")
        assert why.startswith("    it can't end without broker 5, which is down and part of its target; `shunter")


def test_moves_that_are_stuck_for_reasons_of_their_own_are_counted_together(capsys: pytest.CaptureFixture[str]) -> None:
    """An outsider's find: "no end: 1 stuck; 1 stuck"."""
    state = ExecutorState(running=True)
    state.cluster.brokers = {1: None}
    state.cluster.topics["t"] = ObservedTopic(None, dict.fromkeys((0, 1), ObservedPartition((1,), (1,), 1)))
    for number in (0, 1):
        tp = TopicPartition("t", number)
        state.moves[tp] = Move(tp, None, (1,), (5 + number,), Strategy.INCREMENTAL, 1_000, (), False, 0, current=(1,))
    _show_moves(view_execution(state, Meter(), None, 1_000), Wanted((), (), ()))
    assert capsys.readouterr().out.splitlines()[0].endswith("no end: 2 stuck · down: broker 5, 6")


def test_a_watch_says_once_that_nothing_was_seen_yet(monkeypatch: pytest.MonkeyPatch, undriven: Path) -> None:
    """An outsider's find: `watch` began with "idle", and with it again each second, while the executor read."""
    holders = iter([LeaseHolder("one", "h", 1, 0)] * 4)
    empty = view_execution(ExecutorState(), Meter(), None, 0)
    views = (replace(empty, at_ms=at_ms) for at_ms in range(1, 9))

    async def holder_of(_target: object) -> tuple[JournalPlace, LeaseHolder | None]:
        return JournalPlace(undriven), next(holders, None)

    monkeypatch.setattr(look, "holder_of", holder_of)
    monkeypatch.setattr(look, "read_view", lambda _place: next(views))
    monkeypatch.setattr(look, "WATCH_EVERY_S", 0)
    done = said("watch", "--journal", str(undriven), "--bootstrap-server", CLOSED)
    assert done.stdout == ""
    assert done.stderr.count("no move was seen yet") == 1
    assert done.stderr.endswith("no executor drives it, and 1 move is open: `shunter resume` goes on\n")
