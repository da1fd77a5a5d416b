"""`shunter reassign`: ask Shunter's controller to move partitions; stop, roll back, pause and watch its moves."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import click

from shunter.app.executor import Target
from shunter.app.reassign.journal import WatchedMoves
from shunter.app.reassign.session import (
    TURNS,
    MoveUnderWay,
    ReassignRefused,
    ReassignSession,
    ThrottleLoan,
    named_partitions,
    read_orders,
)
from shunter.app.throttle_loan import LoanTaken
from shunter.cli.execute import carry_out_file, run
from shunter.cli.execution_display import say_json, told_bytes, told_ms
from shunter.cli.execution_options import parse_partitions, parse_rate
from shunter.cli.execution_plan import show_dry_run
from shunter.errors import DriverError, ShunterError
from shunter.model.execution import ExecutionOptions, MoveOrder, ThrottleKey
from shunter.model.partition import TopicPartition
from shunter.model.reassignment import Intervention, Strategy

POLL_SECONDS = 1.0
REFUSED, CLUSTER = 7, 3
PLAN = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group("reassign")
def reassign() -> None:
    """Move partitions by Shunter's controller, and turn its moves: stop, roll back, pause, resume."""


def _session(command: Callable[..., Any]) -> Callable[..., Any]:
    """Hand a connected session to a command; what goes wrong is said in one sentence."""

    @click.option("--bootstrap-server", required=True, help="HOST:PORT, several with commas.")
    @click.option("--command-config", type=PLAN, help="Client properties file, as Apache's tools take it.")
    @functools.wraps(command)
    def wrapped(*, bootstrap_server: str, command_config: Path | None, **rest: Any) -> None:
        try:
            with ReassignSession(bootstrap_server, command_config) as session:
                status = command(session=session, **rest)
        except DriverError as error:
            click.echo(f"shunter: {error}", err=True)
            raise SystemExit(CLUSTER) from None
        except ShunterError as error:
            click.echo(f"shunter: {error}", err=True)
            raise SystemExit(REFUSED) from None
        raise SystemExit(status or 0)

    return wrapped


def _journal_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Let what is watched be written down."""
    path = click.Path(dir_okay=False, path_type=Path)
    told = click.option("--journal", type=path, help="Write what is seen here; `shunter pipeline account` reads it.")
    named = click.option("--plan-id", help="What the journal calls the plan: the id that `shunter pipeline plan` gave.")
    return told(named(command))


# ---- plan, execute


@reassign.command("plan")
@click.option("--bootstrap-server", required=True, help="HOST:PORT, several with commas.")
@click.option("--command-config", type=PLAN, help="Client properties file, as Apache's tools take it.")
@click.option("--incremental/--all-at-once", default=True, help="One new replica at a time, or all.")
@click.option("--bandwidth", help="Bytes per second that a broker can carry; learnt without it.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.argument("plan", type=PLAN)
def plan_command(
    *,
    bootstrap_server: str,
    command_config: Path | None,
    incremental: bool,
    bandwidth: str | None,
    as_json: bool,
    plan: Path,
) -> None:
    """Show what a plan would do: steps, bytes, time, and what a rollback would cost at each point. Touches nothing."""

    async def work() -> int:
        strategy = Strategy.INCREMENTAL if incremental else Strategy.ALL_AT_ONCE
        options = ExecutionOptions(strategy=strategy, bandwidth=parse_rate(bandwidth) if bandwidth else 0)
        target = Target(bootstrap_server, command_config, None)
        await show_dry_run(target, read_orders(plan), options, as_json=as_json)
        return 0

    run(work())


@reassign.command("execute")
@_session
@click.option("--incremental/--all-at-once", default=None, help="One new replica at a time, or all; as configured.")
@click.option("--throttle", help="Bytes per second and broker for moves (50M, 1G).")
@click.option(
    "--force", is_flag=True, help="Take targets below min.insync.replicas; relax the floor of moves it holds up."
)
@click.option("--wait", is_flag=True, help="Watch until all is done, and put throttles back then.")
@click.option("--yes", is_flag=True, help="Don't ask, where the controller is not Shunter's.")
@_journal_options
@click.argument("plan", type=PLAN)
def execute_command(
    *,
    session: ReassignSession,
    incremental: bool | None,
    throttle: str | None,
    force: bool,
    wait: bool,
    yes: bool,
    journal: Path | None,
    plan_id: str | None,
    plan: Path,
) -> int:
    """Submit a plan file. Null or empty replicas roll a partition back. Exit status 1: some were refused.

    Under any other controller this is `shunter execute` with the same plan, throttle and journal.
    """
    if not session.is_shunters():
        if force or plan_id is not None:
            raise click.UsageError("--force and --plan-id are for Shunter's controller, and this cluster has another")
        _execute_from_outside(session, plan, incremental=incremental, throttle=throttle, journal=journal, yes=yes)
    if journal is not None and not wait:
        raise click.UsageError("--journal tells of what is watched: add --wait")
    asked = read_orders(plan)
    orders, refused = session.fitting(asked)
    strategy = None if incremental is None else Strategy.INCREMENTAL if incremental else Strategy.ALL_AT_ONCE
    loan = None if throttle is None else _throttle(session, orders, parse_rate(throttle))
    try:
        refused |= session.execute(orders, strategy, forced=force)
        for tp, why in sorted(refused.items()):
            click.echo(f"{tp}: refused: {why}")
        click.echo(f"{len(asked) - len(refused)} of {len(asked)} partitions taken on")
        if wait:
            taken = [order.tp for order in orders if order.tp not in refused]
            try:
                with _journal(session, journal, plan_id) as written:
                    _watch(session, taken, written, as_json=False, loan=loan)
            finally:
                _give_back(loan)
        elif loan is not None:
            click.echo("Throttles stay until `shunter throttles clear`: the journal knows what was there before.")
    finally:
        if loan is not None:
            loan.leave()
    return 1 if refused else 0


def _execute_from_outside(
    session: ReassignSession,
    plan: Path,
    *,
    incremental: bool | None,
    throttle: str | None,
    journal: Path | None,
    yes: bool,
) -> NoReturn:
    click.echo("the controller is not Shunter's: moving from here, as `shunter execute` does", err=True)
    session.close()
    options = ExecutionOptions(
        strategy=Strategy.ALL_AT_ONCE if incremental is False else Strategy.INCREMENTAL,
        throttle=None if throttle is None else parse_rate(throttle),
    )
    target = Target(session.bootstrap, session.properties_file, journal)
    run(carry_out_file(plan, target, options, dry_run=False, as_json=False, yes=yes))


def _throttle(session: ReassignSession, orders: Sequence[MoveOrder], rate: int) -> ThrottleLoan:
    """Set throttles under the journal's lease.

    Raises:
        ReassignRefused: one is refused: what was set is given back, and nothing is moved.
    """
    loan = session.throttle_loan()
    try:
        taken = _taken(loan, session.wanted_throttles(orders, rate))
        if taken.refused:
            loan.give_back()
            key, why = min(taken.refused.items())
            raise ReassignRefused(f"throttles of {key.kind} {key.name} were refused, so nothing was moved: {why}")
    except BaseException:
        loan.leave()
        raise
    for name, why in {f"{key.kind} {key.name}": why for key, why in taken.late.items()}.items():
        click.echo(f"throttles of {name}: {why}", err=True)
    click.echo(f"throttled to {told_bytes(rate)}/s and broker")
    return loan


def _taken(loan: ThrottleLoan, wanted: Mapping[ThrottleKey, str]) -> LoanTaken:
    try:
        return loan.take(wanted)
    except ShunterError:
        with contextlib.suppress(ShunterError):
            loan.give_back()
        raise


def _give_back(loan: ThrottleLoan | None) -> None:
    if loan is None:
        return
    failed = loan.give_back()
    for name, why in {f"{key.kind} {key.name}": why for key, why in failed.items()}.items():
        click.echo(f"throttle left behind, `shunter throttles clear` gives it back: {name}: {why}", err=True)
    if not failed:
        click.echo("throttles are as they were before")


# ---- looking


@reassign.command("status")
@_session
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.argument("partitions", nargs=-1)
def status_command(*, session: ReassignSession, as_json: bool, partitions: tuple[str, ...]) -> int:
    """Show moves under way: where they stand, what they wait for, what a rollback would copy."""
    rows = session.rows(parse_partitions(partitions) if partitions else None)
    progress = session.progress(rows)
    if as_json:
        say_json({"moves": [_as_json(row) for row in rows], "progress": progress._asdict()})
        return 0
    for row in rows:
        click.echo(_line(row))
    if not rows:
        click.echo("Nothing moves.")
        return 0
    back = "is instant" if not progress.rollback_bytes else f"copies {told_bytes(progress.rollback_bytes)}"
    click.echo(
        f"{len(rows)} moves, {told_bytes(progress.fetched_bytes)} of {told_bytes(progress.wanted_bytes)} fetched;"
        f" a rollback {back}"
    )
    return 0


@reassign.command("list")
@_session
@click.option("--json", "as_json", is_flag=True, help="Print the plan JSON that execute takes.")
def list_command(*, session: ReassignSession, as_json: bool) -> int:
    """List moves under way, pending ones too; under any controller."""
    rows = session.rows()
    if as_json:
        entries = [{"topic": row.tp.topic, "partition": row.tp.partition, "replicas": row.target} for row in rows]
        say_json({"version": 1, "partitions": entries} if rows else {})
    else:
        for row in rows:
            click.echo(_line(row))
    return 0


@reassign.command("watch")
@_session
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@_journal_options
@click.argument("partitions", nargs=-1)
def watch_command(
    *,
    session: ReassignSession,
    as_json: bool,
    journal: Path | None,
    plan_id: str | None,
    partitions: tuple[str, ...],
) -> int:
    """Follow moves until nothing moves any more. Ctrl-C ends the watching alone."""
    chosen = list(parse_partitions(partitions)) if partitions else None
    with _journal(session, journal, plan_id) as written:
        _watch(session, chosen, written, as_json=as_json)
    return 0


def _journal(
    session: ReassignSession, path: Path | None, plan_id: str | None
) -> contextlib.AbstractContextManager[WatchedMoves | None]:
    return contextlib.nullcontext() if path is None else WatchedMoves(session, path, plan_id)


def _watch(
    session: ReassignSession,
    partitions: list[TopicPartition] | None,
    journal: WatchedMoves | None,
    *,
    as_json: bool,
    loan: ThrottleLoan | None = None,
) -> None:
    started, told = time.monotonic(), ""
    first: tuple[float, int] | None = None
    while True:
        if loan is not None:
            loan.renew()
        rows = session.rows(partitions)
        unsettled = journal is not None and journal.look(rows)
        if not rows and not unsettled:
            break
        if not rows:
            time.sleep(POLL_SECONDS)
            continue
        progress = session.progress(rows)
        now = time.monotonic()
        first = first or (now, progress.fetched_bytes)
        gained, passed = progress.fetched_bytes - first[1], now - first[0]
        left_ms = (
            int((progress.wanted_bytes - progress.fetched_bytes) / (gained / passed) * 1000) if gained > 0 else None
        )
        if as_json:
            say_json({"event": "progress", **progress._asdict(), "left_ms": left_ms})
        else:
            waiting = next((row for row in rows if row.waiting and "to catch up" not in row.waiting), None)
            line = f"{len(rows)} moves, {told_bytes(progress.fetched_bytes)} of {told_bytes(progress.wanted_bytes)}"
            line += f", this step ends in {told_ms(left_ms)}" if left_ms is not None else ""
            line += f"; {waiting.tp} {waiting.waiting}" if waiting is not None else ""
            if line != told:
                click.echo(line)
                told = line
        time.sleep(POLL_SECONDS)
    if not as_json:
        click.echo(f"nothing moves any more, after {told_ms(int((time.monotonic() - started) * 1000))}")


@reassign.command("verify")
@_session
@click.argument("plan", type=PLAN)
def verify_command(*, session: ReassignSession, plan: Path) -> int:
    """Compare a plan with the cluster. Exit status 0: all is where the plan says; 1: not, or not yet."""
    orders = read_orders(plan)
    moving = {row.tp: row for row in session.rows()}
    partitions = session.cluster.partitions([order.tp for order in orders])
    differing = 0
    for order in orders:
        known = partitions.get(order.tp)
        if order.tp in moving:
            told = f"is still being moved: {_line(moving[order.tp])}"
        elif known is None:
            told = "does not exist"
        elif known.replicas != order.target:
            told = f"is on {list(known.replicas)}, not on {list(order.target)}, and nothing moves it"
        else:
            continue
        differing += 1
        click.echo(f"{order.tp} {told}")
    click.echo(f"{len(orders) - differing} of {len(orders)} partitions are where the plan says")
    return 1 if differing else 0


# ---- turning


def _turn(name: str, about: str) -> None:
    @reassign.command(name, help=about)
    @_session
    @click.option("--all", "everything", is_flag=True, help="Everything that moves.")
    @click.option("--topic", "topics", multiple=True, help="All moves of a topic; repeat for several.")
    @click.option("--plan", type=PLAN, help="What of this plan moves.")
    @click.option("--yes", is_flag=True, help="Don't ask, even where data has to be copied back.")
    @click.argument("partitions", nargs=-1)
    def command(
        *,
        session: ReassignSession,
        everything: bool,
        topics: tuple[str, ...],
        plan: Path | None,
        yes: bool,
        partitions: tuple[str, ...],
    ) -> int:
        if sum(map(bool, (everything, topics, plan, partitions))) != 1:
            raise click.UsageError("name partitions, or one of --all, --topic and --plan")
        session.require_shunter()
        chosen = list(parse_partitions(partitions))
        if plan is not None:
            chosen = named_partitions(session.rows(), read_orders(plan))
            if not chosen:
                click.echo("Nothing of it moves.")
                return 0
        mode = TURNS[name]
        if mode is Intervention.ROLL_BACK and not _agreed(session, chosen, topics, yes=yes):
            return REFUSED
        results = session.turn(mode, chosen, topics)
        for tp, why in sorted(results.items()):
            if why is not None:
                click.echo(f"{tp}: {why}")
        done = sum(why is None for why in results.values())
        click.echo(f"{done} of {len(results)} partitions: {name} taken on")
        return 0 if done == len(results) else 1


def _agreed(session: ReassignSession, chosen: list[TopicPartition], topics: tuple[str, ...], *, yes: bool) -> bool:
    """Say what a rollback copies before it is begun; ask where that is not nothing."""
    rows = [row for row in session.rows(chosen or None) if not topics or row.tp.topic in topics]
    cost = session.progress(rows).rollback_bytes
    if not cost:
        return True
    click.echo(
        f"{told_bytes(cost)} have to be copied back: originals that were dropped are gone from disk."
        " `pause`, `stop` or a lower throttle give relief at once."
    )
    return yes or click.confirm("Roll back?")


_turn("stop", "End moves where they stand: what is in sync stays, what is not goes; nothing is reverted.")
_turn("rollback", "Bring the original replicas back, in their order; says before what has to be copied.")
_turn("pause", "Let moves stand still: what is being fetched stops, and nothing is forgotten.")
_turn("resume", "Let paused moves go on from where they stood.")


def _line(row: MoveUnderWay) -> str:
    phase = f"{row.phase.replace('_', ' ')}, " if row.phase else ""
    original = f" from {list(row.original)}" if row.original else ""
    waiting = f"; {row.waiting}" if row.waiting else ""
    return f"{row.tp}: {phase}on {list(row.replicas)}, to {list(row.target)}{original}{waiting}"


def _as_json(row: MoveUnderWay) -> dict[str, object]:
    return {"partition": str(row.tp), **{name: value for name, value in row._asdict().items() if name != "tp"}}
