"""What is said before, during and after an execution: once, about what it is, and cut where it hurts least."""

import asyncio
import io
import json
import re
import socket
from dataclasses import replace
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from rich.console import Console

from shunter.app.executor import history as past_history
from shunter.app.executor.dry_run import DryRun, PlannedMove, PlannedStep
from shunter.app.executor.journals import JournalPlace
from shunter.app.executor.session import Target
from shunter.app.executor.throttles import Cleared
from shunter.cli import main
from shunter.cli.execution import execute, history
from shunter.cli.execution.bars import drawn
from shunter.cli.execution.display import PlainLines, sentence, shortened
from shunter.cli.execution.execute import show_taken
from shunter.cli.execution.options import parse_rate
from shunter.cli.execution.plan import show_sum
from shunter.cli.execution.throttles import told_loose
from shunter.core.executor.estimates.eta import Forecast
from shunter.core.executor.history import Execution, Undoing
from shunter.core.executor.ready import MoveResult, PlanReply
from shunter.core.executor.state import Move, MoveEnd
from shunter.core.throttles import LEADER_RATE, LEADER_REPLICAS
from shunter.drivers.admin.answers import TopicsSeen
from shunter.drivers.service import words_topic
from shunter.errors import FormatError
from shunter.model.execution import (
    ExecutionOptions,
    MoveOrder,
    ObservedPartition,
    ObservedTopic,
    OngoingReassignment,
    Outcome,
    ThrottleKey,
)
from shunter.model.notice import Notice
from shunter.model.partition import TopicPartition
from shunter.model.reassignment import Strategy
from shunter.views.execution import ExecutionView, MoveRow

T0 = TopicPartition("t", 0)


@pytest.mark.parametrize(
    ("notice", "told"),
    [
        (Notice("broker-down", "broker 5", "broker 5 is gone"), "broker 5 is gone"),
        (Notice("admin-failed", "list", "ListPartitionReassignments failed"), "ListPartitionReassignments failed"),
        (Notice("floor-relaxed", "t-0", "broker 3 is out of sync"), "t-0: broker 3 is out of sync"),
    ],
)
def test_a_notice_says_once_what_it_is_about(notice: Notice, told: str) -> None:
    assert sentence(notice) == told


def test_a_plain_line_has_its_time_and_is_not_said_twice(capsys: pytest.CaptureFixture[str]) -> None:
    lines = PlainLines()
    for text in ("nobody answers", "nobody answers", "broker 5 is gone"):
        lines.notice(Notice("any", "", text))
    said = capsys.readouterr().out.splitlines()
    assert [re.sub(r"^\d\d:\d\d:\d\d ", "", line) for line in said] == ["nobody answers", "broker 5 is gone"]
    assert all(re.match(r"\d\d:\d\d:\d\d ", line) for line in said)


def test_what_is_not_taken_on_of_a_plan_is_said_before_the_first_step(capsys: pytest.CaptureFixture[str]) -> None:
    """An outsider's find: it was said at the end of the execution, hours later."""
    refused = MoveResult(TopicPartition("t", 1), "broker 9 is not a live broker")
    show_taken(PlainLines(), PlanReply(None, (MoveResult(TopicPartition("t", 0), None), refused)))
    assert capsys.readouterr().out.endswith(" t-1 was not taken on: broker 9 is not a live broker\n")
    show_taken(PlainLines(), PlanReply("nothing of the plan can be moved", (refused,)))
    assert capsys.readouterr().out == "", "the end of the session says it at once"


def test_what_holds_moves_up_is_said_when_it_begins_or_changes_and_ever_more_rarely(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """An outsider's find: a line of 400 letters about the same stuck moves every 5 s."""
    lines, long = PlainLines(), "no end: 1 stuck: it can't end without broker 1, which is down"
    row = replace(_row("t-0", "waits"), stuck="it can't end")

    def said(at_s: int, held: str) -> bool:
        view = ExecutionView(
            at_s * 1000,
            "c",
            "p",
            True,
            None,
            {"moving": 1},
            20,
            10,
            None,
            None,
            None,
            None,
            held,
            0,
            (),
            0,
            0,
            "",
            (row,),
        )
        lines.view(view)
        told = capsys.readouterr().out
        assert told
        assert (held in told) is ("held up as before: 1 move stuck" not in told)
        return held in told

    full = [at_s for at_s in range(10, 1000, 5) if said(at_s, long)]
    assert full == [10, 70, 190, 430, 910]
    assert said(1000, f"{long} and another"), "it has changed"
    assert not said(1005, f"{long} and another")


def test_a_long_name_is_cut_in_the_middle() -> None:
    name = "a" * 120 + "b" * 129
    cut = shortened(f"{name}-17")
    assert len(cut) == 48
    assert cut.startswith("aaaa")
    assert cut.endswith("bb-17")
    assert shortened("orders-3") == "orders-3"


def _row(name: str, waits: str) -> MoveRow:
    return MoveRow(name, "moving", "forward", (1, 3), (1, 3), (1, 4), None, 2, waits, "", 10, 5, 0)


@pytest.mark.parametrize("width", [40, 60, 80, 120])
@pytest.mark.parametrize("waits", ["", "waits for its turn", "waits for broker 4, which is down, and for much else"])
def test_a_narrow_terminal_shows_names_and_replicas_and_a_shorter_bar(width: int, waits: str) -> None:
    rows = tuple(_row(f"t1-{n}", waits) for n in (0, 17))
    counts = {"moving": 2}
    view = ExecutionView(0, "c", "p", True, None, counts, 20, 10, None, None, None, None, "", 0, (), 0, 0, "", rows)
    console = Console(width=width, file=io.StringIO(), force_terminal=False)
    with console.capture() as captured:
        console.print(drawn(view, width))
    lines = captured.get().splitlines()
    assert all(len(line) <= width for line in lines)
    first, second = (line for line in lines if line.startswith("t1-"))
    assert first.startswith("t1-0  ")
    assert second.startswith("t1-17 ")
    assert all("[1, 3] → [1, 4]" in line for line in (first, second))
    assert width < 60 or (waits or "moving")[:12] in first, first


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("execute", __file__, "--throttle", "5X"), "'--throttle': '5X' is not a rate"),
        (("execute", __file__, "--only-between", "9-10"), "'--only-between': '9-10' is not a window: write"),
        (("execute", __file__, "--only-between", "24:00-00:00"), "'24:00-00:00' is not a window"),
        (("execute", __file__, "--only-between", "22:00-24:59"), "'22:00-24:59' is not a window"),
        (("pause", "orders"), "'[PARTITIONS]...': 'orders' is not a partition"),
        (("limit", "5X"), "'[RATE]': '5X' is not a rate"),
    ],
)
def test_a_wrong_value_is_told_with_its_options_name(arguments: tuple[str, ...], told: str) -> None:
    done = CliRunner().invoke(main, [*arguments, "--bootstrap-server", "127.0.0.1:1"])
    assert done.exit_code == 2
    assert told in " ".join(done.output.split())


@pytest.mark.parametrize(
    ("driven", "why"),
    [
        ("", "an open move needs it, and `shunter resume`, `stop` or `rollback` restores it"),
        ("process 7 on host", "process 7 on host drives its execution, and restores it"),
    ],
)
def test_what_became_of_throttles_is_told_of_each(driven: str, why: str) -> None:
    rate, listed = ThrottleKey("broker", "1", LEADER_RATE), ThrottleKey("topic", "t", LEADER_REPLICAS)
    assert Cleared((rate, listed), (), ()).told() == [
        f"2 deleted: broker 1 {LEADER_RATE}, topic t {LEADER_REPLICAS}",
    ]
    assert Cleared((), (rate,), (listed,), driven).told() == [
        f"1 restored as before the execution: broker 1 {LEADER_RATE}",
        f"1 left, because {why}: topic t {LEADER_REPLICAS}",
    ]


def test_the_help_cuts_no_command_off() -> None:
    assert "…" not in CliRunner().invoke(main, ["--help"]).output
    assert "..." not in CliRunner().invoke(main, ["--help"]).output.replace("[ARGS]...", "")


@pytest.mark.parametrize("server", ["kafka1", "", ":9092", "kafka1:0", "kafka1:99999", "kafka1:9092,foo"])
@pytest.mark.parametrize("verb", [("throttles", "list"), ("plan",)])
def test_a_bootstrap_server_that_is_none_is_a_wrong_command_line(verb: tuple[str, ...], server: str) -> None:
    done = CliRunner().invoke(main, [*verb, "--bootstrap-server", server])
    assert done.exit_code == 2
    assert "HOST:PORT with a port from 1 to 65535" in done.output


def test_a_plan_of_a_server_that_refuses_says_so_as_an_execution_does() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        server = f"127.0.0.1:{closed.getsockname()[1]}"
    done = CliRunner().invoke(main, ["plan", "--bootstrap-server", server, "--aims", "disk"])
    assert done.exit_code == 3
    assert f"{server} refuses connections: nothing listens there" in done.output


@pytest.mark.parametrize(
    "verb",
    [("pause",), ("limit", "1M"), ("relax",), ("watch",), ("stop",), ("rollback",), ("resume",), ("status",),
     ("throttles", "forget", "--broker", "9")],
)  # fmt: skip
def test_without_a_journal_every_verb_ends_alike(verb: tuple[str, ...], tmp_path: Path) -> None:
    arguments = [*verb, "--journal", str(tmp_path / "none.journal"), "--bootstrap-server", "127.0.0.1:1"]
    done = CliRunner().invoke(main, [*arguments, *(("--offline",) if verb == ("status",) else ())])
    assert done.exit_code == 5
    assert "there is no journal" in done.output


def test_watching_open_moves_that_nobody_drives_does_not_end_well(undriven: Path) -> None:
    done = CliRunner().invoke(main, ["watch", "--journal", str(undriven), "--bootstrap-server", "127.0.0.1:1"])
    assert done.exit_code == 130
    assert "1 move is open: `shunter resume` goes on" in done.output


@pytest.mark.parametrize("consent", [(), ("--yes",)])
def test_nothing_is_struck_off_where_nothing_is_owed(undriven: Path, consent: tuple[str, ...]) -> None:
    arguments = ["throttles", "forget", "--broker", "9", "--journal", str(undriven)]
    done = CliRunner().invoke(main, [*arguments, "--bootstrap-server", "127.0.0.1:1", *consent])
    assert done.exit_code == 7
    assert done.output == "no throttle is owed to broker 9\n"


def test_a_journal_that_cannot_be_made_is_told_before_anything_is_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FormatError, match="no journal can be made there"):
        JournalPlace(tmp_path / "file" / "nope" / "x.journal").check()
    JournalPlace(tmp_path / "new" / "x.journal").check()
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_dry_run_looks_whether_its_journal_can_be_made(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text('{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1]}]}')
    arguments = ["execute", str(plan), "--dry-run", "--journal", str(plan / "x.journal")]
    done = CliRunner().invoke(main, [*arguments, "--bootstrap-server", "127.0.0.1:1"])
    assert done.exit_code == 5
    assert "no journal can be made there" in done.output


def test_a_rate_whose_unit_was_likely_forgotten_is_refused() -> None:
    for text in ("1", "1B", "0.5K"):
        with pytest.raises(click.BadParameter, match=r"give 1,000 or more, or write a unit, as in [\d.]+M"):
            parse_rate(text)
    assert [parse_rate(text) for text in ("1000", "1000 B/s", "1K")] == [1_000] * 3


def test_a_throttle_that_is_cleared_under_a_running_executor_is_followed_by_its_own() -> None:
    held = ["t-0 to [1, 2]"]
    assert (
        told_loose(1, held, driven=False) == "1 would be deleted, and this would go on without a limit: t-0 to [1, 2]"
    )
    told = (
        "1 would be deleted, and this would go on without a limit until the executor sets its own, within ten seconds"
    )
    assert told_loose(1, held, driven=True) == f"{told}, if it has one: t-0 to [1, 2]"


@pytest.mark.parametrize(("seconds", "told"), [(0.5, "at least 1 s"), (59.2, "at least 1 min")])
def test_what_takes_half_a_second_takes_no_zero_seconds(
    capsys: pytest.CaptureFixture[str], seconds: float, told: str
) -> None:
    show_sum(DryRun((), Forecast(24_600_000, seconds, 50_000_000, guessed=True), 0))
    assert told in capsys.readouterr().out


def test_room_that_nobody_knows_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    show_sum(DryRun((), Forecast(1, 1.0, 1, guessed=False), 0, (4,)))
    assert "! broker 4 does not say how much room its log dirs have" in capsys.readouterr().out


def test_what_a_dead_broker_holds_up_is_said_at_the_end_too(capsys: pytest.CaptureFixture[str]) -> None:
    why = "it can't end without broker 1, which is down and part of its target"
    moves = tuple(PlannedMove(f"t-{n}", (1, 2), (1,), 1, (), None, held_up=why if n else "") for n in range(3))
    show_sum(DryRun(moves, Forecast(1, 1.0, 1, guessed=False), 0))
    told = capsys.readouterr().out
    assert f"! dead brokers or log dirs hold up 2 moves, t-1, t-2: {why}\n" in told


def test_a_rollback_onto_a_dead_broker_and_what_is_not_taken_on_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    gone = PlannedMove("t-0", (1, 2), (2, 3), 5, (PlannedStep((2, 3), 5, 5, (1,)),), None)
    refused = PlannedMove("t-1", (), (2, 3), 0, (), "no such topic", taken=False)
    show_sum(DryRun((gone, refused), Forecast(5, 1.0, 1, guessed=False), 5))
    told = capsys.readouterr().out
    assert told.startswith("1 move (1 more not taken on), 5 B to copy")
    assert told.endswith("a rollback copies 5 B at the most, and needs broker 1, which is down\n")
    unsure = PlannedMove("t-0", (1, 2), (2, 3), 5, (PlannedStep((2, 3), 5, 5, doubts=(1,)),), None)
    show_sum(DryRun((unsure,), Forecast(5, 1.0, 1, guessed=False), 5))
    why = "and broker 1 may take no replica before a restart, because a log dir there failed"
    assert capsys.readouterr().out.endswith(f"a rollback copies 5 B at the most, {why}\n")


def test_a_topic_that_the_first_execution_makes_is_announced(capsys: pytest.CaptureFixture[str]) -> None:
    show_sum(DryRun((), Forecast(1, 1.0, 1, guessed=False), 0, makes="__consumer_offsets"))
    assert "! the cluster makes topic __consumer_offsets" in capsys.readouterr().out
    show_sum(DryRun((), Forecast(1, 1.0, 1, guessed=False), 0))
    assert "topic" not in capsys.readouterr().out


def test_what_a_cut_leaves_without_a_spare_replica_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    thin = "one replica: what it has is gone with its broker"
    moves = tuple(PlannedMove(f"t-{n}", (1, 2), (1,), 1, (), None, thin=thin if n else "") for n in range(3))
    show_sum(DryRun(moves, Forecast(1, 1.0, 1, guessed=False), 0))
    assert f"! 2 partitions are left with {thin} (t-1, t-2)\n" in capsys.readouterr().out


def test_a_cordon_is_said_by_the_dry_run_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An outsider's find: `drain --cordon --dry-run` said not a word about the cordon."""

    async def shown(*_: object, **__: object) -> bool:
        return True

    monkeypatch.setattr(execute, "show_dry_run", shown)
    options = ExecutionOptions(cordons=((3, "*"), (4, "/a"), (5, "")))
    assert execute.carry_out((), Target("k:9092"), options, execute.Carrying(dry_run=True)) == 0
    assert capsys.readouterr().err.splitlines() == [
        (
            "broker 3 is cordoned first: it gets no new replicas until `shunter undrain 3` or `undo`; `stop` and `rollback`"
            " end it"
        ),
        "broker 4 gets its former cordoned.log.dirs back first: /a",
        "broker 5 gets its former cordoned.log.dirs back first: none",
    ]


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("option", ["--yes", "--dry-run"])
def test_one_amount_is_named(monkeypatch: pytest.MonkeyPatch, option: str, *, as_json: bool) -> None:
    """An outsider's find: "10.0 MB are copied again", and three lines on "12.0 MB to copy"."""
    moved = Move(T0, None, (1, 2), (3, 2), Strategy.INCREMENTAL, 10_000_000, (), False, 0, current=(3, 2))
    moved.copied_bytes = 10_000_000

    async def undoing(*_: object) -> tuple[Execution, Undoing]:
        past = Execution(1, 0, ["p"], ExecutionOptions(), {T0: moved})
        return past, Undoing((MoveOrder(T0, (1, 2)),), (), 10_000_000)

    monkeypatch.setattr(history, "undoing", undoing)
    monkeypatch.setattr(history, "carry_out", lambda *_: 0)
    done = CliRunner().invoke(main, ["undo", "--bootstrap-server", "k:9092", option, *(["--json"] if as_json else [])])
    assert done.exit_code == 0, done.output
    if as_json:
        assert json.loads(done.stdout).get("copied_bytes") == (10_000_000 if option == "--yes" else None)
        return
    assert done.stderr.count("MB") == (option == "--yes")
    assert ("10.0 MB are copied again, by the sizes of that time" in done.stderr) == (option == "--yes")


@pytest.mark.parametrize(
    ("now", "stays"),
    [
        ((3, 2), ""),  # As the execution left it.
        ((1, 2), ""),  # Back already.
        ((3, 2, 4), "t-0 stays: it was moved again since, and is on [3, 2, 4]"),
        ((3, 2, 5), ""),  # It is being moved: the submission judges that.
        ((4, 2), "t-0 stays: it was moved again since, and is on [4, 2]"),
        ((2, 3), "t-0 stays: it was moved again since, and is on [2, 3]"),
    ],
)
def test_what_was_moved_again_is_not_counted_among_what_an_undo_copies(
    monkeypatch: pytest.MonkeyPatch, now: tuple[int, ...], stays: str
) -> None:
    """An outsider's find: "20.0 MB are copied again", and then the way back of half of them was refused."""
    moved = Move(T0, None, (1, 2), (3, 2), Strategy.INCREMENTAL, 10_000_000, (), False, 0, current=(3, 2))
    moved.ended = MoveEnd(Outcome.DONE, "", 1)

    class Cluster:
        async def observe_topics(self, _names: object) -> TopicsSeen:
            topic = ObservedTopic(None, {0: ObservedPartition(now, now, now[0])})
            return TopicsSeen({"t": topic}, dict.fromkeys((1, 2, 3, 4)), 1)

        async def list_reassignments(self) -> dict[TopicPartition, OngoingReassignment]:
            return {T0: OngoingReassignment(now, (5,), ())} if 5 in now else {}

        async def close(self) -> None:
            pass

    async def connect(_target: object) -> Cluster:
        return Cluster()

    async def past(_target: object) -> tuple[JournalPlace, tuple[Execution, ...]]:
        return JournalPlace(Path("j")), (Execution(1, 0, ["p"], ExecutionOptions(), {T0: moved}),)

    class NoWords:
        def __init__(self, *_: object) -> None:
            """Of a cluster that no service ever took."""

        def read(self) -> None:
            return None

        close = read

    monkeypatch.setattr(past_history, "connect", connect)
    monkeypatch.setattr(past_history, "past_executions", past)
    monkeypatch.setattr(words_topic, "WordsTopic", NoWords)
    _execution, wanted = asyncio.run(past_history.undoing(Target("k:9092"), None))
    assert wanted.told == ((stays,) if stays else ())
    assert wanted.copied_bytes == (0 if stays else 10_000_000)
    assert [move.target for move in wanted.moves] == ([] if stays else [(1, 2)])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("leaders",), "No such command 'leaders': it is a scope, `shunter plan --scope leaders`"),
        (
            ("status", "--service", "http://k:1"),
            "`shunter serve status --service http://k:1` shows a service's clusters",
        ),
    ],
)
def test_what_outsiders_typed_first_names_what_they_meant(words: tuple[str, ...], told: str) -> None:
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 2
    assert told in done.output
