"""`shunter submit`, and orders for moves that no journal has, of a cluster that a fake shows."""

import asyncio
import json
from collections.abc import Callable, Collection, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from shunter.app.executor import orders
from shunter.app.executor import reassign_session as session
from shunter.app.exit_codes import ExitCode
from shunter.cli import main
from shunter.cli.execution import submit, turn
from shunter.drivers.admin.answers import TopicsSeen
from shunter.drivers.admin.blocking import LiveNode, PartitionInfo
from shunter.drivers.admin.log_dirs import LogDirsSeen
from shunter.drivers.admin.reassignments import AlterOptions, PartitionReassignment
from shunter.errors import ErrorCode, RequestRejected
from shunter.model.execution import ObservedPartition, ObservedTopic
from shunter.model.log_dirs import ReplicaDirs
from shunter.model.partition import Replicas, TopicPartition
from shunter.model.reassignment import Intervention, Strategy
from shunter.wire.reassignments import MoveDetail

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
MOVING = MoveDetail((1, 2), (3, 2), "moving", "waits for broker 3 to catch up", (1, 2, 3))
NOBODY = RequestRejected(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "nothing is under way")
WITHOUT_3 = ObservedPartition((1, 2, 3), (1, 2), 1)
AT = ("--bootstrap-server", "k:9092")


@dataclass
class Cluster:
    """A fake of `BlockingAdmin`; all partitions are on brokers 1 and 2."""

    shunters: bool = True
    moves: dict[TopicPartition, PartitionReassignment] = field(default_factory=dict)
    sent: list[tuple[dict[TopicPartition, Replicas | None], AlterOptions]] = field(default_factory=list)
    seen: ObservedPartition = WITHOUT_3
    refusal: Exception | None = None
    """What a cancel of a move under way is answered."""

    def close(self) -> None: ...

    def run(self, work: Callable[[Any], Coroutine[Any, Any, Any]]) -> Any:
        async def cluster_id() -> str:
            return "c"

        async def list_moves(tps: Collection[TopicPartition]) -> dict[TopicPartition, PartitionReassignment]:
            return self.list_moves(tps)

        async def observe_topics(_names: object) -> TopicsSeen:
            seen = dict.fromkeys((0, 1), self.seen)
            return TopicsSeen({"t": ObservedTopic(None, seen)}, {1: None, 2: None}, 1, needs_all=False)

        async def observe_log_dirs(_asked: object) -> LogDirsSeen:
            return LogDirsSeen({}, {}, {}, {}, (1, 2))

        asked = (cluster_id, list_moves, observe_topics, observe_log_dirs)
        return asyncio.run(work(SimpleNamespace(**{each.__name__: each for each in asked})))

    def is_shunter(self) -> bool:
        return self.shunters

    def nodes(self) -> tuple[LiveNode, ...]:
        return ()

    def log_dirs(self, _wanted: object) -> ReplicaDirs:
        return ReplicaDirs({}, {})

    def list_moves(self, tps: Collection[TopicPartition] | None = None) -> dict[TopicPartition, PartitionReassignment]:
        return {tp: move for tp, move in self.moves.items() if tps is None or tp in tps}

    def partitions(self, tps: Collection[TopicPartition]) -> dict[TopicPartition, PartitionInfo]:
        return {tp: PartitionInfo((1, 2), (1, 2), 1) for tp in tps}

    def alter_moves(
        self, changes: Mapping[TopicPartition, Replicas | None], options: AlterOptions
    ) -> dict[TopicPartition, Exception | None]:
        self.sent.append((dict(changes), options))
        cancels = {tp: self.refusal if tp in self.moves else NOBODY for tp, target in changes.items() if target is None}
        return dict.fromkeys(changes) | cancels


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cluster:
    monkeypatch.setenv("SHUNTER_STATE", str(tmp_path / "state"))
    made = Cluster(moves={T0: PartitionReassignment((1, 2, 3), (3,), (1,), MOVING)})
    monkeypatch.setattr(session, "BlockingAdmin", lambda _configuration: made)

    async def connect(_target: object) -> Any:
        async def cluster_id() -> str:
            return "c"

        async def close() -> None: ...

        return SimpleNamespace(cluster_id=cluster_id, close=close)

    async def nobody(*_: object) -> str:
        return ""

    monkeypatch.setattr(orders, "connect", connect)
    for module in (turn, submit):
        monkeypatch.setattr(module, "claimed_by", nobody)
    return made


def said(*words: str) -> Result:
    return CliRunner().invoke(main, [*words, *AT])


def plan_of(folder: Path, *rows: tuple[TopicPartition, Any], **more: Any) -> str:
    entries = [{"topic": tp.topic, "partition": tp.partition, "replicas": replicas, **more} for tp, replicas in rows]
    path = folder / "plan.json"
    path.write_text(json.dumps({"version": 1, "partitions": entries}))
    return str(path)


def test_a_plan_is_one_request_with_the_strategy_that_shunters_controller_knows(
    cluster: Cluster, tmp_path: Path
) -> None:
    done = said("submit", plan_of(tmp_path, (T1, [3, 2]), (U0, None)), "--all-at-once", "--force", "--yes")
    assert done.exit_code == ExitCode.PARTLY
    assert "1 of 2 partitions taken on by the controller" in done.stdout
    assert done.stderr.startswith("not taken on: u-0: nothing is under way (NO_REASSIGNMENT_IN_PROGRESS)")
    options = AlterOptions(strategy=Strategy.ALL_AT_ONCE, intervention=Intervention.ROLL_BACK, forced=True)
    assert cluster.sent == [({T1: (3, 2), U0: None}, options)]


def test_another_controller_gets_nothing_that_it_would_misread(cluster: Cluster, tmp_path: Path) -> None:
    cluster.shunters = False
    refused = said("submit", plan_of(tmp_path, (T1, [3, 2])), "--incremental", "--yes")
    assert (refused.exit_code, cluster.sent) == (ExitCode.REFUSED, [])
    assert "the controller is not Shunter's, so it adds no replica at a time: `shunter execute` does" in refused.stderr
    assert said("submit", plan_of(tmp_path, (T1, [3, 2])), "--force", "--yes").exit_code == ExitCode.DONE
    assert cluster.sent == [({T1: (3, 2)}, AlterOptions())]


@pytest.mark.parametrize("as_json", [False, True])
def test_what_holds_up_a_submitted_move_is_told_by_the_real_run_too(
    cluster: Cluster, tmp_path: Path, *, as_json: bool
) -> None:
    cluster.shunters = False
    cluster.moves = {T1: PartitionReassignment((1, 2, 3), (3,), (1,), None)}
    done = said("submit", plan_of(tmp_path, (T1, [3, 2])), "--yes", *(["--json"] if as_json else []))
    assert done.exit_code == ExitCode.DONE
    held = json.loads(done.stdout)["held_up"] if as_json else done.stdout.splitlines()[-1]
    told = "dead brokers or log dirs hold up 1 move, t-1: it can't end without broker 3, which is down and part of its"
    assert held.startswith(told)


def test_a_target_that_it_replaces_is_told(cluster: Cluster, tmp_path: Path) -> None:
    done = said("submit", plan_of(tmp_path, (T0, [2, 1])), "--yes")
    assert (done.exit_code, len(cluster.sent)) == (ExitCode.DONE, 1)
    assert "t-0 moves already, to [3, 2]: this replaces its target" in done.stderr


@pytest.mark.parametrize(
    ("more", "options", "code", "told"),
    [
        ({"log_dirs": ["/a", "any"]}, ("--yes",), ExitCode.REFUSED, "the plan names log dirs"),
        ({"elect": True}, ("--yes",), ExitCode.REFUSED, "the plan elects leaders at the end"),
        ({"original_replicas": [7, 8]}, ("--yes",), ExitCode.REFUSED, "0 of 1 partition taken on"),
        ({}, ("--throttle", "50M", "--yes"), ExitCode.USAGE, "`shunter execute` sets one, and does"),
        ({}, (), ExitCode.USAGE, "this changes the cluster, and no question can be asked here"),
    ],
)
def test_what_a_request_can_not_do_is_refused_before_it_is_sent(
    cluster: Cluster, tmp_path: Path, more: dict[str, Any], options: tuple[str, ...], code: ExitCode, told: str
) -> None:
    done = said("submit", plan_of(tmp_path, (T1, [3, 2]), **more), *options)
    assert (done.exit_code, told in done.output) == (code, True), done.output
    assert all(not changes for changes, _options in cluster.sent)


@pytest.mark.parametrize("verb", ["stop", "rollback", "pause", "resume"])
def test_a_move_that_no_journal_has_is_turned_by_the_controller_after_a_question(cluster: Cluster, verb: str) -> None:
    unasked = said(verb, "t-0")
    assert (unasked.exit_code, cluster.sent) == (ExitCode.USAGE, [])
    assert "t-0: not in the journal, so another tool or `shunter submit` began this" in unasked.stderr
    for named in (("t-0",), ("--topic", "t"), ()):
        done = said(verb, *named, "--yes")
        assert (done.exit_code, done.stdout) == (0, f"1 of 1 partition: {verb} taken on by the controller\n")
    mode = Intervention.ROLL_BACK if verb == "rollback" else Intervention[verb.upper()]
    assert cluster.sent == [({T0: None}, AlterOptions(intervention=mode))] * 3


def test_relaxing_asks_again_with_force(cluster: Cluster) -> None:
    assert said("relax", "t-0", "--yes").exit_code == ExitCode.DONE
    assert cluster.sent == [({T0: (3, 2)}, AlterOptions(intervention=Intervention.ROLL_BACK, forced=True))]
    cluster.moves[T0] = cluster.moves[T0]._replace(detail=MOVING._replace(phase="paused"))
    done = said("relax", "t-0", "--yes")
    assert (done.exit_code, len(cluster.sent)) == (ExitCode.REFUSED, 1)
    assert "it is paused: only a move in the phase moving can be relaxed" in done.output


def test_another_controller_cancels_and_knows_no_pause(cluster: Cluster) -> None:
    cluster.shunters = False
    cluster.moves[T0] = cluster.moves[T0]._replace(detail=None)
    done = said("stop", "t-0", "--yes")
    assert (done.exit_code, cluster.sent) == (ExitCode.DONE, [({T0: None}, AlterOptions())])
    assert "the controller cancels: all new replicas go, also those in sync" in done.stderr
    paused = said("pause", "t-0", "--yes")
    assert (paused.exit_code, len(cluster.sent)) == (ExitCode.REFUSED, 1)
    assert (
        "the controller is not Shunter's: it knows no pause. dead brokers or log dirs hold up 1 move" in paused.stderr
    )
    assert "`shunter rollback t-0` cancels it; `shunter execute --take-over`" in paused.stderr
    cluster.moves[T0] = cluster.moves[T0]._replace(replicas=(1, 2), adding=(2,), removing=())
    paused = said("pause", "t-0", "--yes")
    assert "the controller is not Shunter's: it knows no pause. `shunter rollback` cancels such a move" in paused.stderr


def test_a_move_whose_only_replica_is_dead_is_told_with_the_broker_to_start_and_no_rollback(
    cluster: Cluster, tmp_path: Path
) -> None:
    """An outsider's find on 4.4.0: taken on in silence, "a rollback is instant", and Kafka refused the rollback."""
    cluster.shunters = False
    cluster.seen = ObservedPartition((5, 2), (), -1, (5,))
    cluster.moves = {T1: PartitionReassignment((5, 2), (2,), (5,), None)}
    told = (
        "t-1: it can't end without broker 5, which is down: no live broker has all records; start broker 5, which has"
    )
    out = "its data; Kafka refuses a rollback until then"
    done = said("submit", plan_of(tmp_path, (T1, [2])), "--yes")
    assert f"{told} {out}" in done.stdout
    cluster.refusal = RequestRejected(
        ErrorCode.INVALID_REPLICA_ASSIGNMENT, "it would require an unclean leader election"
    )
    refused = said("rollback", "t-1", "--yes")
    assert refused.exit_code == ExitCode.REFUSED
    assert f"{told} {out}" in refused.stdout
    relaxed = said("relax", "t-1", "--yes")
    assert f"{told} {out}" in relaxed.stderr
    assert "`shunter rollback" not in relaxed.stderr


def test_names_that_do_not_move_are_told_by_the_controller(cluster: Cluster) -> None:
    done = said("stop", "t-0", "u-0", "--yes", "--json")
    assert done.exit_code == ExitCode.PARTLY
    told = json.loads(done.stdout)
    assert (told["by"], told["accepted"]) == ("controller", True)
    assert told["refused"] == ["u-0: nothing is under way (NO_REASSIGNMENT_IN_PROGRESS)"]


@pytest.mark.parametrize("option", ["--leave", "--force"])
def test_an_option_of_the_executor_is_not_passed_over(cluster: Cluster, option: str) -> None:
    done = said("stop", "t-0", option, "--yes")
    assert (done.exit_code, cluster.sent) == (ExitCode.USAGE, [])
    assert f"{option} is an order to the executor, and its journal does not have t-0" in done.stderr


def test_what_nothing_moves_is_refused(cluster: Cluster) -> None:
    for named in (("u-0",), ("--topic", "u")):
        done = said("stop", *named, "--yes")
        assert (done.exit_code, done.stdout) == (ExitCode.REFUSED, "nothing that was named is being moved\n")
    assert cluster.sent == []


def test_steps_of_an_executor_elsewhere_are_not_turned(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def somebody(*_: object) -> str:
        return "process 7 on other"

    for module in (turn, submit):
        monkeypatch.setattr(module, "claimed_by", somebody)
    monkeypatch.setattr("shunter.app.executor.session.claimed_by", somebody)
    done = said("stop", "t-0", "--yes")
    assert (done.exit_code, cluster.sent) == (ExitCode.JOURNAL, [])
    told = "process 7 on other drives this cluster under another journal: ask there"
    assert told in done.stderr
    done = said("submit", plan_of(tmp_path, (T0, [2, 1])), "--yes")
    assert (done.exit_code, cluster.sent) == (ExitCode.REFUSED, [])
    assert told in done.stderr


def test_a_move_of_the_journal_is_not_submitted(cluster: Cluster, undriven: Path, tmp_path: Path) -> None:
    done = said("submit", plan_of(tmp_path, (T0, [2, 1]), (T1, [2, 1])), "--yes", "--journal", str(undriven))
    assert (done.exit_code, [[*changes] for changes, _options in cluster.sent]) == (ExitCode.PARTLY, [[T1]])
    assert "t-0: the executor moves it, under its journal: `shunter execute` changes its target" in done.stderr


def test_moves_of_both_kinds_are_turned_each_by_its_way(
    cluster: Cluster, undriven: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal has t-0, the cluster t-0 and u-0: u-0 goes to the controller, t-0 to the executor."""
    cluster.moves[U0] = cluster.moves[T0]
    asked: list[Any] = []

    async def driven(_target: object, command: Any, **_: object) -> int:
        asked.append(command.partitions)
        return 0

    monkeypatch.setattr(turn, "_go_on", driven)
    at = ("--journal", str(undriven))
    done = said("rollback", "t-0", "u-0", "--yes", *at)
    assert (done.exit_code, done.stdout) == (0, "1 of 1 partition: rollback taken on by the controller\n")
    assert ([changes for changes, _options in cluster.sent], asked) == ([{U0: None}], [(T0,)])
    assert said("rollback", *at).exit_code == ExitCode.DONE
    assert (len(cluster.sent), asked[1:]) == (1, [()]), "without names the journal's moves are meant"
