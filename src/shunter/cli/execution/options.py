"""Options that the commands of an execution share, and how their values are written."""

from __future__ import annotations

import asyncio
import functools
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from shunter.app.executor.journals import JournalPlace
from shunter.app.executor.session import Target, decode_plan, no_journal, read_plan
from shunter.app.profiles import variable_of
from shunter.cli.execution.consent import ask_at_the_terminal
from shunter.cli.execution.named_moves import Wanted
from shunter.cli.leaving import told_error
from shunter.cli.profiles import is_on_command_line, settable, the_bootstrap
from shunter.errors import FormatError
from shunter.model.execution import BOUNDS, DISK_SHARE, ExecutionOptions, MoveOrder, Order
from shunter.model.limits import MOST_COPIES, Window, floor_trouble, rate_trouble, read_window
from shunter.model.partition import TopicPartition
from shunter.model.reassignment import Strategy

_UNITS = {"": 1, "K": 1_000, "M": 1_000_000, "G": 1_000_000_000}


def parse_rate(text: str) -> int:
    """`50M` as bytes per second; powers of ten.

    Raises:
        click.BadParameter: it is not a number above 0 with K, M or G, or can't be meant as a rate of copies.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMG]?)(B|B/S)?", text.strip().upper())
    rate = int(float(found[1]) * _UNITS[found[2]]) if found else 0
    if rate <= 0:
        raise click.BadParameter(f"{text!r} is not a rate in bytes per second: write 50000000, 50M or 1G")
    if trouble := rate_trouble(rate):
        raise click.BadParameter(trouble)
    return rate


def parse_window(text: str) -> Window:
    """`22:00-06:00`, or `Mon-Fri 22:00-06:00 Europe/Berlin`."""
    try:
        return read_window(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def parse_partitions(texts: tuple[str, ...]) -> tuple[TopicPartition, ...]:
    """`topic-0` as partitions."""
    parsed: list[TopicPartition] = []
    for text in texts:
        topic, dash, number = text.rpartition("-")
        if not dash or not topic or not number.isdigit():
            raise click.BadParameter(f"{text!r} is not a partition: write topic-number, for instance orders-0")
        parsed.append(TopicPartition(topic, int(number)))
    return tuple(parsed)


class Written(click.ParamType[Any]):
    """A type of option whose values a function reads; an error of the function is shown with the option's name."""

    def __init__(self, name: str, read: Callable[[str], Any]) -> None:
        """Take the name that the help shows, and the function that reads a value."""
        self.name = name
        self._read = read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read a value; a value that was read already is returned unchanged."""
        if not isinstance(value, str):
            return value
        try:
            return self._read(value)
        except click.BadParameter as error:
            self.fail(error.message, param, ctx)


RATE = Written("RATE", parse_rate)
LIMIT = Written("RATE", lambda text: 0 if text.lower() == "none" else parse_rate(text))
"""A rate, or `none`, which is 0."""
WINDOW = Written("WINDOW", parse_window)
PARTITION = Written("PARTITION", lambda text: parse_partitions((text,))[0])


PLAN = click.Path(path_type=Path)
"""A plan's file; `-`: standard input. Whoever reads it says what is wrong with it, by the exit status of files (5)."""
PROPERTIES = click.Path(exists=True, dir_okay=False, path_type=Path)
NOTHING_OF_IT = "nothing that was named is being moved"
"""The answer if moves were named and none of them is under way. A name may be wrong, so this answer is a refusal."""
yes_option = click.option("--yes", is_flag=True, help="Don't ask first; needed where there is no terminal to ask on.")


def plan_of(path: Path) -> tuple[MoveOrder, ...]:
    """Read a plan from its file, or from standard input; then questions are asked at the terminal.

    Raises:
        FormatError: it can't be read, or is not a plan.
    """
    if str(path) != "-":
        return read_plan(path)
    raw = sys.stdin.buffer.read() if sys.stdin else b""
    if not raw.strip():
        raise FormatError("standard input", "it is empty: the command before the pipe wrote no plan")
    ask_at_the_terminal()
    return decode_plan(raw, "standard input")


def wanted_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add arguments and options that name moves; hands the command `wanted`."""

    @click.argument("partitions", nargs=-1, type=PARTITION)
    @click.option("--topic", "topics", multiple=True, help="All moves of a topic; repeat for several.")
    @click.option("--plan", type=PLAN, help="All moves under way of partitions in this plan.")
    @functools.wraps(command)
    def wrapped(
        *args: Any, partitions: tuple[TopicPartition, ...], topics: tuple[str, ...], plan: Path | None, **rest: Any
    ) -> Any:
        return command(*args, wanted=wanted_of(partitions, topics, plan), **rest)

    return wrapped


def wanted_of(partitions: tuple[TopicPartition, ...], topics: tuple[str, ...], plan: Path | None) -> Wanted:
    """The moves that arguments and options name.

    Raises:
        click.UsageError: they name moves in two ways.
    """
    if sum(map(bool, (topics, plan, partitions))) > 1:
        raise click.UsageError("name partitions, or --topic, or --plan: one of them")
    try:
        planned = () if plan is None else tuple(order.tp for order in plan_of(plan))
    except FormatError as error:
        sys.exit(told_error(error))
    return Wanted(partitions, topics, planned)


async def require_named_journal(target: Target, place: JournalPlace) -> None:
    """See that a journal exists if the command line names it: a misspelt name is no empty journal.

    Raises:
        FormatError: it does not exist.
    """
    named = is_on_command_line("journal") or is_on_command_line("journal_topic")
    if named and not await asyncio.to_thread(place.exists):
        raise await no_journal(target, place)


def cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add options for the cluster, the login and the journal; hands the command a `target`."""
    return _cluster_options(command, required=True)


def journal_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """As `cluster_options`, for a command that does not always need the cluster."""
    return _cluster_options(command, required=False)


def session_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add options for the cluster and the login, for a command without a journal; hands the command a `target`."""

    @settable
    @click.option("--bootstrap-server", metavar="HOST:PORT[,…]", help="Brokers to ask first.")
    @click.option("--command-config", type=PROPERTIES, help="Client properties file, as Apache's tools take it.")
    @functools.wraps(command)
    def wrapped(*args: Any, bootstrap_server: str | None, command_config: Path | None, **rest: Any) -> Any:
        return command(*args, target=Target(the_bootstrap(bootstrap_server), command_config), **rest)

    return wrapped


def carrying_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --dry-run, --json and --yes."""
    dry_run = click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
    as_json = click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
    return dry_run(as_json(yes_option(command)))


def _cluster_options(command: Callable[..., Any], *, required: bool) -> Callable[..., Any]:
    @settable
    @click.option("--bootstrap-server", metavar="HOST:PORT[,…]", help="Brokers to ask first.")
    @click.option(
        "--command-config",
        type=PROPERTIES,
        help="Client properties file, as Apache's tools take it.",
    )
    @click.option(
        "--journal",
        type=click.Path(path_type=Path),
        help="The executor's journal file. Without it: CLUSTER_ID.journal in $SHUNTER_STATE.",
    )
    @click.option("--journal-topic", help="Keep the executor's journal in this topic of the cluster, not in a file.")
    @functools.wraps(command)
    def wrapped(
        *args: Any,
        bootstrap_server: str | None,
        command_config: Path | None,
        journal: Path | None,
        journal_topic: str | None,
        **rest: Any,
    ) -> Any:
        if journal is not None and journal_topic is not None:
            raise click.UsageError("--journal and --journal-topic: name only one of them")
        target = Target(the_bootstrap(bootstrap_server, required=required), command_config, journal, journal_topic)
        return command(*args, target=target, **rest)

    return wrapped


def driver_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """`cluster_options` for a command that may drive an execution by itself."""

    @cluster_options
    @click.option(
        "--take-over-cluster",
        is_flag=True,
        help="Drive the cluster although another executor claims it. Use this only if you know that the other executor"
        " is dead, or stands still.",
    )
    @functools.wraps(command)
    def wrapped(*args: Any, target: Target, take_over_cluster: bool, **rest: Any) -> Any:
        return command(*args, target=replace(target, take_over_cluster=take_over_cluster), **rest)

    return wrapped


_BOUNDED = {
    "--max-concurrent": "The most copies at a time in the whole cluster",
    "--max-in": "The most copies that one broker receives at a time",
    "--max-out": "The most copies that one broker sends at a time",
    "--max-per-rack": "The most copies that one rack receives at a time",
    "--max-per-log-dir": "The most copies into one log dir at a time",
}


def _bounds(default: int | None, otherwise: str) -> tuple[Callable[..., Any], ...]:
    return tuple(
        click.option(
            flag, type=click.IntRange(0, MOST_COPIES), default=default, help=f"{told}; 0: no bound.{otherwise}"
        )
        for flag, told in _BOUNDED.items()
    )


def bound_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the bounds on copies that run at a time; hands the command `bounds`, with None for an unchanged bound."""

    @functools.wraps(command)
    def wrapped(*args: Any, **rest: Any) -> Any:
        return command(*args, bounds={name: rest.pop(name) for name in BOUNDS}, **rest)

    for option in reversed(_bounds(None, " Without it: unchanged.")):
        wrapped = option(wrapped)
    return wrapped


_OPTIONS = (
    click.option(
        "--incremental/--all-at-once",
        "incremental",
        default=True,
        help="Add one new replica at a time (the default), or all of them together.",
    ),
    click.option(
        "--throttle",
        type=RATE,
        help="Bytes per second that each broker may send, and receive, for moves (50M, 1G). Without it: no throttle.",
    ),
    click.option(
        "--throttle-floor",
        type=RATE,
        help="Lower the throttle while other partitions fall out of sync or brokers answer slowly, never below this."
        " Without it: the throttle is not adapted.",
    ),
    click.option(
        "--log-dir-throttle",
        type=RATE,
        help="Bytes per second and broker for moves between log dirs. Without it: no throttle.",
    ),
    *_bounds(0, ""),
    click.option(
        "--order",
        "orders",
        multiple=True,
        type=click.Choice([order.value for order in Order]),
        help="Which moves begin first; repeat it to break ties."
        " Without it: under-min-isr-first, under-replicated-first, longest-first.",
    ),
    click.option(
        "--disk-share",
        type=click.FloatRange(0.0, 1.0),
        default=DISK_SHARE,
        show_default=True,
        help="How full copies may make a log dir, whoever fills the rest; 1: room is not looked at.",
    ),
    click.option(
        "--bandwidth",
        type=RATE,
        help="Bytes per second that a broker can carry; --dry-run computes the least time from it."
        " Without it: the throttle, or the rate that the journal learnt.",
    ),
    click.option(
        "--only-between",
        type=WINDOW,
        help='Begin steps only in this window (22:00-06:00, by the local clock; or "Fri-Sun 22:00-06:00 Europe/Berlin"). Copies'
        " that run go on after the window.",
    ),
    click.option(
        "--relax-after",
        type=click.IntRange(0),
        default=600,
        help="Seconds that a move waits for replicas that are out of sync before it goes on without them.",
    ),
    click.option("--force", is_flag=True, help="Accept targets that have fewer replicas than min.insync.replicas."),
    click.option(
        "--take-over",
        is_flag=True,
        help="Adopt moves that another tool began. A rollback of such a move may restore a wrong order of replicas.",
    ),
)


LATER = {
    "Pace": (
        "max_concurrent",
        "max_out",
        "max_per_rack",
        "max_per_log_dir",
        "throttle_floor",
        "log_dir_throttle",
        "only_between",
    ),
    "Moves": ("orders", "disk_share", "bandwidth", "relax_after", "force", "take_over"),
    "Login and journal": ("command_config", "journal", "journal_topic", "take_over_cluster"),
}
"""The options of an execution that the help shows under headings, below those that people need most."""


headroom_option = click.option(
    "--headroom-percent",
    type=float,
    default=20.0,
    envvar=variable_of("headroom-percent"),
    show_default=True,
    help="How many percent of each capacity (disk, network) stay free.",
)
"""An option of plans. A command with it need not be `settable` below it: it reads its variable by itself."""


def execution_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of an execution; hands the command `options`."""

    @functools.wraps(command)
    def wrapped(*args: Any, **rest: Any) -> Any:
        taken = {name: rest.pop(name) for name in _NAMES}
        return command(*args, options=_options(taken), **rest)

    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped


_NAMES = (
    "incremental",
    "throttle",
    "throttle_floor",
    "log_dir_throttle",
    "max_concurrent",
    "max_in",
    "max_out",
    "max_per_rack",
    "max_per_log_dir",
    "orders",
    "disk_share",
    "bandwidth",
    "only_between",
    "relax_after",
    "take_over",
    "force",
)


def _options(taken: dict[str, Any]) -> ExecutionOptions:
    defaults = ExecutionOptions()
    throttle, floor = taken["throttle"], taken["throttle_floor"]
    if trouble := floor_trouble(floor, throttle):
        rule = "--throttle-floor is the lowest rate to which --throttle may be adapted: name a greater --throttle"
        raise click.UsageError(f"{trouble}: {rule}")
    return ExecutionOptions(
        strategy=Strategy.INCREMENTAL if taken["incremental"] else Strategy.ALL_AT_ONCE,
        throttle=throttle,
        throttle_floor=floor,
        log_dir_throttle=taken["log_dir_throttle"],
        max_concurrent=taken["max_concurrent"],
        max_in=taken["max_in"],
        max_out=taken["max_out"],
        max_per_rack=taken["max_per_rack"],
        max_per_log_dir=taken["max_per_log_dir"],
        orders=tuple(Order(order) for order in taken["orders"]) or defaults.orders,
        disk_share=taken["disk_share"],
        bandwidth=taken["bandwidth"] or 0,
        window=taken["only_between"],
        relax_after_ms=taken["relax_after"] * 1000,
        take_over=taken["take_over"],
        force=taken["force"],
    )
