"""`shunter list`, `status`, `watch`, `history` and `verify`: a fake's cluster, no cluster, and what nothing moves."""

import json
import os
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner, Result

from shunter.app.executor import orders, status
from shunter.app.executor import reassign_session as session
from shunter.app.executor.journals import JournalPlace
from shunter.app.exit_codes import ExitCode
from shunter.cli import main
from shunter.cli.execution import look
from shunter.cli.execution.look import _show_moves
from shunter.cli.execution.named_moves import Wanted
from shunter.core.executor.estimates.rates import Meter
from shunter.core.executor.state import ExecutorState, Move
from shunter.drivers.admin.answers import TopicsSeen
from shunter.drivers.admin.blocking import LiveNode, PartitionInfo
from shunter.drivers.admin.log_dirs import LogDirsSeen
from shunter.drivers.admin.reassignments import PartitionReassignment
from shunter.model.execution import LeaseHolder, ObservedPartition, ObservedTopic
from shunter.model.log_dirs import LogDirCopies, LogDirCopy, ReplicaDir, ReplicaDirs
from shunter.model.partition import TopicPartition
from shunter.model.reassignment import Strategy
from shunter.views.execution import view_execution

T0, U0 = TopicPartition("t", 0), TopicPartition("u", 0)
MOVE = PartitionReassignment((1, 2, 3), (3,), (2,), None)
ON_1, ON_2 = LogDirCopy(U0, 1, "/a", "/b", 2, 9), LogDirCopy(U0, 2, "/a", "/c", 3, 9)
CLOSED = "127.0.0.1:1"
"""Nothing listens there."""
VERIFIED = TopicPartition("t", 0)


class Cluster:
    """A fake of an Admin client: u-0 is on brokers 1 and 2, t-0 on 1, 2 and 3."""

    def __init__(
        self,
        found: LogDirCopies,
        moves: dict[TopicPartition, PartitionReassignment],
        live: Sequence[int] = (),
        broken: Sequence[int] = (),
    ) -> None:
        self.found, self.moves, self.live, self.broken = found, moves, live, broken

    async def close(self) -> None: ...

    async def cluster_id(self) -> str:
        return "c"

    async def quorum(self) -> None: ...

    async def brokers(self) -> dict[int, str | None]:
        return {}

    async def list_moves(self, _partitions: object) -> dict[TopicPartition, PartitionReassignment]:
        return self.moves

    async def list_reassignments(self) -> dict[TopicPartition, PartitionReassignment]:
        return self.moves

    async def observe_log_dirs(self, _asked: object) -> LogDirsSeen:
        return LogDirsSeen({}, {}, {}, dict.fromkeys(self.broken, ("/bad",)), ())

    async def observe_topics(self, names: Sequence[str]) -> TopicsSeen:
        replicas = {"t": (1, 2, 3), "u": (1, 2)}
        topics = {
            name: ObservedTopic(None, {0: ObservedPartition(replicas[name], (1, 2), 1)}) if name in replicas else None
            for name in names
        }
        return TopicsSeen(topics, dict.fromkeys(self.live), 1, needs_all=False)

    async def log_dir_copies(self) -> LogDirCopies:
        return self.found


def listed(
    monkeypatch: pytest.MonkeyPatch,
    copies: tuple[LogDirCopy, ...],
    *options: str,
    verb: str = "list",
    moves: dict[TopicPartition, PartitionReassignment] | None = None,
    live: Sequence[int] = (),
    broken: Sequence[int] = (),
    claimant: str = "",
    **failed: str,
) -> Result:
    told = {int(name.removeprefix("broker_")): why for name, why in failed.items()}

    async def connect(_target: object, **_: object) -> Cluster:
        return Cluster(LogDirCopies(copies, told), moves or {}, live, broken)

    async def claimed_by(*_: object) -> str:
        return claimant

    for module in (look, status, orders):
        monkeypatch.setattr(module, "connect", connect)
    monkeypatch.setattr(status, "claimed_by", claimed_by)
    return CliRunner().invoke(main, [verb, "--bootstrap-server", "k:9092", *options])


def test_copies_between_log_dirs_are_listed_with_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    done = listed(monkeypatch, (ON_1, ON_2))
    assert (done.exit_code, done.stderr) == (ExitCode.DONE, "")
    assert done.output.splitlines() == [
        "u-0 [1, 2] → [1, 2] (forward, moving): it is copied on broker 1 from /a to /b, 2 B of 9 B",
        "u-0 [1, 2] → [1, 2] (forward, moving): it is copied on broker 2 from /a to /c, 3 B of 9 B",
    ]
    first, second = listed(monkeypatch, (ON_1, ON_2), "--output", "plain").output.splitlines()
    assert first.split("\t")[0] == second.split("\t")[0] == "u-0"
    assert "it is copied on broker 1 from /a to /b, 2 B of 9 B" in first.split("\t")


def test_as_json_they_are_part_of_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    both = (LogDirCopy(T0, 1, "/a", "/b", 2, 9), LogDirCopy(T0, 2, "/a", "/b", 2, 9), ON_2)
    assert json.loads(listed(monkeypatch, both, "--json", moves={T0: MOVE}).output)["partitions"] == [
        {"topic": "t", "partition": 0, "replicas": [1, 3], "log_dirs": ["/b", "any"]},
        {"topic": "u", "partition": 0, "replicas": [1, 2], "log_dirs": ["any", "/c"]},
    ]
    alone = json.loads(listed(monkeypatch, (), "--json", moves={T0: MOVE}).output)
    assert alone == {"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1, 3]}]}


def test_a_replica_that_is_being_deleted_is_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = (LogDirCopy(U0, 3, "/a", "/b", 2, 9), LogDirCopy(TopicPartition("gone", 0), 1, "/a", "/b", 2, 9))
    done = listed(monkeypatch, gone)
    assert (done.output, done.stderr) == ("nothing moves\n", "nothing moves\n")
    assert listed(monkeypatch, gone, "--json").output == "{}\n"


def test_what_a_broker_does_not_tell_is_not_called_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    done = listed(monkeypatch, (), broker_2="timed out")
    assert done.exit_code == ExitCode.DONE
    assert done.output == (
        "broker 2 does not tell its log dirs, so what it copies between its log dirs is not known: timed out\n"
    )


def test_a_status_has_the_journals_moves_and_all_others_in_one_form(
    monkeypatch: pytest.MonkeyPatch, undriven: Path
) -> None:
    """The journal has t-0: what the cluster says of it is a step of that move."""
    at = ("--journal", str(undriven))
    moves = {T0: MOVE, U0: PartitionReassignment((1, 2), (2,), (1,), None)}
    done = listed(monkeypatch, (), *at, verb="status", moves=moves)
    assert done.exit_code == ExitCode.DONE, done.output
    assert "\n  t-0 [1, 2] → [3, 2] (forward, pending)\n" in done.stdout
    assert (
        "1 move is under way that the journal does not have: 0 B of 0 B; a rollback is instant\n"
        "  u-0 [1] → [2] (forward, moving)\n"
    ) in done.stdout
    told = json.loads(listed(monkeypatch, (), *at, "--json", verb="status", moves=moves).stdout)
    assert [row["partition"] for row in told["moves"]] == ["t-0"]
    assert [row["partition"] for row in told["others"]] == ["u-0"]
    assert told["moves"][0].keys() == told["others"][0].keys()
    named = listed(monkeypatch, (), "u-0", "t-9", verb="status", moves=moves)
    assert named.exit_code == ExitCode.PARTLY
    assert "t-9: the cluster has no such partition" in named.stdout


def test_without_a_journal_the_status_has_the_same_form(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SHUNTER_STATE", str(tmp_path))
    done = listed(monkeypatch, (ON_1,), verb="status", moves={T0: MOVE}, broker_2="timed out")
    assert (done.exit_code, done.stdout.splitlines()[0]) == (ExitCode.DONE, "nothing was executed from here")
    assert "2 moves are under way that the journal does not have: 2 B of 9 B" in done.stdout
    assert "broker 2 does not tell its log dirs" in done.stderr
    told = json.loads(listed(monkeypatch, (ON_1,), "--json", verb="status", moves={T0: MOVE}).stdout)
    assert (told["journal"], told["moves"], len(told["others"])) == (None, [], 2)


def test_beside_a_service_the_status_names_the_journal_that_has_its_moves(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SHUNTER_STATE", str(tmp_path))

    claimant = "ann on h, process 7, since 2026-11-27 09:00:00 UTC, under journal kafka:j, at 10.0.0.1"
    done = listed(monkeypatch, (), verb="status", moves={T0: MOVE}, claimant=claimant)
    assert "nothing was executed" not in done.stdout
    assert "its journal is not read here: `shunter status --journal-topic j` reads it" in done.stdout


def test_a_watch_ends_where_nothing_moves(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SHUNTER_STATE", str(tmp_path))
    done = listed(monkeypatch, (), verb="watch")
    assert (done.exit_code, done.stdout) == (ExitCode.DONE, "all moves have ended\n")
    unknown = listed(monkeypatch, (), "nosuch-0", verb="watch")
    assert unknown.exit_code == ExitCode.REFUSED
    assert "nosuch-0: the cluster has no such partition" in unknown.stderr


@pytest.mark.parametrize(
    ("live", "broken", "told"),
    [
        ((1, 2), (), "it can't end without broker 3, which is down and part of its target; `shunter rollback t-0` "),
        ((1, 2, 3), (3,), "it may not end: log dir /bad of broker 3 failed, and if t-0 was there, the broker takes no"),
        ((1, 2, 3), (), ""),
        ((1, 3), (), ""),  # Broker 2 leaves.
    ],
)
@pytest.mark.parametrize("verb", ["list", "status", "watch"])
def test_what_holds_up_a_move_is_told_whoever_began_it(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    verb: str,
    live: tuple[int, ...],
    broken: tuple[int, ...],
    told: str,
) -> None:
    """An outsider's find: only the dry run of `submit` said so, and no view of a move that another tool began."""
    monkeypatch.setenv("SHUNTER_STATE", str(tmp_path))
    shown = iter((False, True))
    monkeypatch.setattr(look, "output_lost", lambda: next(shown))
    monkeypatch.setattr(look, "WATCH_EVERY_S", 0)
    done = listed(monkeypatch, (), verb=verb, moves={T0: MOVE}, live=live, broken=broken)
    assert (told or "end") in done.stdout if told else " end" not in done.stdout.replace("have ended", "")


def test_the_journals_own_move_is_told_alike_if_no_executor_drives_it(
    monkeypatch: pytest.MonkeyPatch, undriven: Path
) -> None:
    done = listed(monkeypatch, (), "--journal", str(undriven), verb="status", live=(1, 2))
    assert "it can't end without broker 3, which is down and part of its target; `shunter " in done.stdout


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
    way_out = f"it runs, so it waits for something, or hangs; give it a minute; if that does not help, see in its log why, or end it (kill {pid}), then repeat"
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
    assert capsys.readouterr().out.splitlines()[0].endswith("no end: 2 stuck · down: brokers 5, 6")


def test_a_watch_says_once_that_nothing_was_seen_yet(monkeypatch: pytest.MonkeyPatch, undriven: Path) -> None:
    """An outsider's find: `watch` began with "idle", and with it again each second, while the executor read."""
    holders = iter([LeaseHolder("one", "h", 1, 0)] * 4)
    empty = view_execution(ExecutorState(), Meter(), None, 0)
    views = (replace(empty, at_ms=at_ms) for at_ms in range(1, 9))

    async def holder_of(_target: object) -> tuple[JournalPlace, LeaseHolder | None]:
        return JournalPlace(undriven), next(holders, None)

    monkeypatch.setattr(look, "holder_of", holder_of)
    monkeypatch.setattr(look, "read_view", lambda _place, _holder: next(views))
    monkeypatch.setattr(look, "WATCH_EVERY_S", 0)
    done = said("watch", "--journal", str(undriven), "--bootstrap-server", CLOSED)
    assert done.stdout == ""
    assert done.stderr.count("no move was seen yet") == 1
    assert done.stderr.endswith("no executor drives it, and 1 move is open: `shunter resume` goes on\n")


class Verified:
    """A fake of `BlockingAdmin`: brokers 1 and 2 are live; each replica of t-0 is in the log dir /a of its broker."""

    def __init__(self, _configuration: Any) -> None:
        self.asked: list[int] = []

    def close(self) -> None: ...

    def nodes(self) -> tuple[LiveNode, ...]:
        return LiveNode(1, None), LiveNode(2, None)

    def list_moves(self, _partitions: object) -> dict[TopicPartition, Any]:
        return {}

    def partitions(self, tps: Collection[TopicPartition]) -> dict[TopicPartition, PartitionInfo]:
        return {tp: PartitionInfo((1, 2, 3), (1, 2, 3), 1) for tp in tps}

    def log_dirs(self, wanted: Iterable[tuple[int, TopicPartition]]) -> ReplicaDirs:
        asked = list(wanted)
        assert 3 not in [broker for broker, _tp in asked], "a broker that is not live is not waited for"
        return ReplicaDirs({key: ReplicaDir("/a", None, 7) for key in asked}, {})


@pytest.fixture(autouse=True)
def _cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "BlockingAdmin", Verified)


def verified(folder: Path, partitions: list[dict[str, Any]], *options: str) -> Result:
    plan = folder / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": partitions}))
    return CliRunner().invoke(main, ["verify", str(plan), "--bootstrap-server", "k:9092", *options])


def placed(*log_dirs: str) -> list[dict[str, Any]]:
    return [{"topic": "t", "partition": 0, "replicas": [1, 2, 3], "log_dirs": list(log_dirs)}]


def test_a_plan_is_reached_only_in_its_log_dirs(tmp_path: Path) -> None:
    there = verified(tmp_path, placed("/a", "any", "any"))
    assert (there.exit_code, there.output) == (ExitCode.DONE, "1 of 1 partition is where the plan says\n")
    other = verified(tmp_path, placed("/b", "any", "any"))
    assert other.exit_code == ExitCode.PARTLY
    assert other.output.splitlines() == [
        "t-0 on broker 1 is in /a, the plan says /b, and nothing moves it there",
        "0 of 1 partition is where the plan says",
    ]


def test_programs_are_told_the_same(tmp_path: Path) -> None:
    done = verified(tmp_path, placed("/b", "/a", "/a"), "--json")
    differs, end = map(json.loads, done.output.splitlines())
    assert (done.exit_code, end["exit"]) == (ExitCode.PARTLY, ExitCode.PARTLY)
    assert (differs["event"], differs["partition"]) == ("differs", "t-0")
    wrong, unknown = differs["log_dirs"]
    assert (wrong["broker"], wrong["wanted"], wrong["now"], wrong["coming"], wrong["bytes"]) == (1, "/b", "/a", None, 7)
    assert (unknown["broker"], unknown["wanted"], unknown["now"]) == (3, "/a", None)
    assert unknown["text"].endswith("the broker does not tell it: it is not live")
    assert differs["text"] == f"{wrong['text']}; {unknown['text']}"


def test_an_empty_plan_says_that_there_is_nothing_to_compare(tmp_path: Path) -> None:
    done = verified(tmp_path, [])
    assert (done.exit_code, done.stderr) == (ExitCode.DONE, "the plan names no partition: nothing to compare\n")


def test_on_another_host_than_the_drivers_status_says_what_it_does_not_know(
    undriven: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An SRE's find: on the former driver's host `status` named a `resume` that the service refuses, and no reason why."""
    load = status.load_journal

    def driven(place: JournalPlace) -> tuple[Any, ...]:
        entries, state, _holder, standing = load(place)
        state.moves[TopicPartition("t", 0)].paused = True
        return entries, state, LeaseHolder("one", "elsewhere", 7, 0, "https://elsewhere:1"), standing

    monkeypatch.setattr(status, "load_journal", driven)
    done = said("status", "--offline", "--journal", str(undriven))
    assert "rates, the end and what moves wait for are known to that driver alone" in done.stderr
    assert "paused until `shunter resume --service SERVICE`" in done.stdout
