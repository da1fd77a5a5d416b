"""The terminal: rows and colours, questions before a change, lists of ids, and output that nobody reads."""

import io
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from shunter.app.executor.under_way import move_row
from shunter.app.exit_codes import ExitCode
from shunter.cli import main
from shunter.cli.execution.bars import Bars
from shunter.cli.execution.consent import agreed
from shunter.cli.execution.display import told_move, told_others
from shunter.cli.outlet import Outlet
from shunter.cli.tables import show_rows
from shunter.drivers.admin.reassignments import PartitionReassignment
from shunter.errors import SettingsError
from shunter.model.partition import TopicPartition
from shunter.wire.reassignments import MoveDetail

SHUNTER = [sys.executable, "-m", "shunter"]
HELP = [*SHUNTER, "--help"]
FULL = Path("/dev/full")
ROWS = [
    {"partition": "orders-0", "target": (1, 2), "phase": "moving", "paused": False},
    {"partition": "a-10", "target": (3,), "phase": "", "paused": True},
]
PLAN = '{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2]}]}'
TP = TopicPartition("mv", 2)
COMMANDS = [
    ("steps", "--target", "2", "--replicas"),
    ("plan", "--brokers"),
    ("plan", "--replacements"),
    ("plan", "--exclude-brokers"),
    ("pipeline", "plan", "--brokers"),
    ("pipeline", "plan", "--replacements"),
    ("pipeline", "plan", "--exclude-brokers"),
    ("drain",),
    ("demote",),
]


WITH_TERMINAL = (
    "import os, sys; os.setsid(); os.close(os.open(sys.argv[1], os.O_RDWR)); os.execv(sys.executable, sys.argv[2:])"
)
"""Runs a program with this terminal as its own, whatever its standard streams are."""
ASKS = (
    "from pathlib import Path\n"
    "from shunter.cli.execution.consent import agreed\n"
    "from shunter.cli.execution.options import plan_of\n"
    "print(len(plan_of(Path('-'))), agreed('told', 'Begin?', yes=False, as_json=False))"
)


def test_a_plan_from_a_pipe_leaves_the_question_to_the_terminal() -> None:
    ours, theirs = os.openpty()
    os.write(ours, b"y\n")
    command = [sys.executable, "-c", WITH_TERMINAL, os.ttyname(theirs), sys.executable, "-c", ASKS]
    done = subprocess.run(command, input=PLAN, capture_output=True, text=True, timeout=60, check=True)
    os.close(ours)
    os.close(theirs)
    assert done.stdout.endswith("1 True\n")


@pytest.mark.parametrize(
    ("plan", "status", "told"),
    [
        (PLAN, ExitCode.USAGE, "no question can be asked here (no terminal, or --json): try --dry-run, then add --yes"),
        ("", ExitCode.JOURNAL, "standard input: it is empty: the command before the pipe wrote no plan"),
        ("{}", ExitCode.JOURNAL, 'standard input: it has no "partitions"'),
    ],
)
@pytest.mark.parametrize("verb", ["execute", "submit"])
def test_a_plan_from_a_pipe_without_a_terminal(verb: str, plan: str, status: ExitCode, told: str) -> None:
    command = [*SHUNTER, verb, "-", "--bootstrap-server", "127.0.0.1:1"]
    done = subprocess.run(
        command, input=plan, capture_output=True, text=True, timeout=60, check=False, start_new_session=True
    )
    assert (done.returncode, told in done.stderr) == (status, True), done.stderr


def broken_pipe() -> int:
    """The writing end of a pipe that nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    return writing


@pytest.mark.parametrize("command", [HELP, [*SHUNTER, "execute", "--help"]], ids=["help", "help of a verb"])
def test_a_reader_that_had_enough_is_no_failure(command: list[str]) -> None:
    writing = broken_pipe()
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (ExitCode.DONE, "")


def test_a_command_that_fails_keeps_its_status_where_nobody_reads() -> None:
    writing = broken_pipe()
    command = [*SHUNTER, "status", "--offline", "--journal", "/nowhere/x.journal"]
    done = subprocess.run(command, stdout=writing, stderr=writing, timeout=60, check=False)
    os.close(writing)
    assert done.returncode == ExitCode.JOURNAL


@pytest.mark.skipif(not FULL.exists(), reason="a device of Linux")
def test_output_for_which_there_is_no_room_is_a_failure_that_says_so() -> None:
    with FULL.open("wb") as full:
        done = subprocess.run(HELP, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (
        ExitCode.PARTLY,
        "shunter: the output can't be written: No space left on device\n",
    )


def test_without_any_output_a_command_works() -> None:
    command = 'exec "$0" -m shunter --help >&- 2>&-'
    assert subprocess.run(["/bin/sh", "-c", command, sys.executable], timeout=60, check=False).returncode == 0


def test_what_goes_on_says_so_once(capsys: pytest.CaptureFixture[str]) -> None:
    writing = broken_pipe()
    outlet = Outlet(writing)
    outlet.going_on = True
    with io.TextIOWrapper(io.BufferedWriter(outlet), encoding="utf-8") as stream:
        for _line in range(3):
            stream.write("a line\n")
            stream.flush()
    os.close(writing)
    assert capsys.readouterr().err == "shunter: nobody reads the output any more: this goes on without it\n"
    assert outlet.reader_left


def test_nothing_is_lost_while_somebody_reads() -> None:
    reading, writing = os.pipe()
    with io.TextIOWrapper(io.BufferedWriter(Outlet(writing)), encoding="utf-8") as stream:
        stream.write("a line\n")
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as received:
        assert received.read() == "a line\n"


def shown(capsys: pytest.CaptureFixture[str], output: str) -> list[str]:
    show_rows(output, ROWS, lambda row: f"{row['partition']} moves")
    return capsys.readouterr().out.splitlines()


def test_each_form(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, "text") == ["orders-0 moves", "a-10 moves"]
    assert shown(capsys, "plain") == ["orders-0\t1,2\tmoving\tno", "a-10\t3\t-\tyes"]
    assert shown(capsys, "table") == [
        "partition  target  phase   paused",
        "orders-0   1,2     moving  no",
        "a-10       3       -       yes",
    ]
    assert [json.loads(line) for line in shown(capsys, "json")] == [
        {**row, "target": list(row["target"])} for row in ROWS
    ]


def test_no_rows_are_no_table(capsys: pytest.CaptureFixture[str]) -> None:
    show_rows("table", [], str)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(("value", "plain"), [("1", True), ("", False)])
def test_a_terminal_without_colour_gets_none(monkeypatch: pytest.MonkeyPatch, value: str, plain: bool) -> None:
    monkeypatch.setenv("NO_COLOR", value)
    monkeypatch.setenv("TERM", "xterm-256color")
    console: Console = Bars()._console
    assert console.no_color is plain


@pytest.mark.parametrize("more", [(), ("--json",), ("--take-over",)])
def test_a_plan_is_not_begun_unasked_where_nobody_can_be_asked(tmp_path: Path, more: tuple[str, ...]) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(PLAN)
    done = CliRunner().invoke(main, ["execute", str(plan), "--bootstrap-server", "127.0.0.1:1", *more])
    assert done.exit_code == ExitCode.USAGE, done.output
    assert "add --yes" in done.output


def test_agreeing_needs_a_terminal_or_a_word() -> None:
    assert agreed("7 GB are copied", "Begin?", yes=True, as_json=True)
    with pytest.raises(SettingsError, match=r"7 GB are copied\. No question can be asked here"):
        agreed("7 GB are copied", "Begin?", yes=False, as_json=True)


@pytest.mark.parametrize(
    ("move", "told"),
    [
        pytest.param(
            PartitionReassignment((1, 2), (2,), ()),
            "mv-2 [1] → [1, 2] (forward, moving)",
            id="a step of Shunter's that an Apache controller goes on with",
        ),
        pytest.param(
            PartitionReassignment((1, 2), (2,), (1,)),
            "mv-2 [1] → [2] (forward, moving)",
            id="a move of an Apache controller",
        ),
        pytest.param(
            PartitionReassignment(
                (1, 2), (), (2,), MoveDetail((1,), (2,), "rolling_back", "waits for broker 1", (1, 2))
            ),
            "mv-2 [1, 2] → [1] (back, rolling back): waits for broker 1",
            id="a move of Shunter's controller",
        ),
    ],
)
def test_a_move_is_told_in_a_line(move: PartitionReassignment, told: str) -> None:
    assert told_move(move_row(TP, move, {})) == told


def test_moves_are_summed_up_with_the_price_of_a_rollback() -> None:
    move = PartitionReassignment((2, 3, 4), (4,), (2,), MoveDetail((1, 2), (3, 4), "moving", "", (2, 3, 4)))
    row = move_row(TP, move, {(2, TP): 10, (3, TP): 10, (4, TP): 4})
    assert (row.current, row.step, row.total_bytes, row.copied_bytes, row.rollback_bytes) == (
        (2, 3),
        (2, 3, 4),
        10,
        4,
        10,
    )
    assert told_others([row]) == (
        "1 move is under way that the journal does not have: 4 B of 10 B; a rollback copies 10 B"
    )
    told = "2 moves are under way that the journal does not have: 8 B of 20 B; 1 can't end now"
    assert told_others([row, replace(row, stuck="it can't end without broker 5")]) == told


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize(
    ("ids", "told"),
    [
        ("3,x", "'x' in '3,x' is not a broker id: whole numbers with commas between, as in 0,1,2"),
        ("3,,7", "'' in '3,,7' is not a broker id"),
        ("1_0", "'1_0' in '1_0' is not a broker id"),
        ("9999999999", "broker id 9999999999 is too great: at most 2147483647"),
    ],
)
def test_a_list_that_can_t_be_read_is_refused_by_the_same_sentence(
    command: tuple[str, ...], ids: str, told: str
) -> None:
    ended = CliRunner().invoke(main, [*command, ids])
    assert (ended.exit_code, told in " ".join(ended.output.split())) == (2, True), ended.output
