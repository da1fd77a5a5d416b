"""The verbs, carried out by Shunter's controller."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

import click

from shunter.app.executor.throttle_loan import LoanTaken
from shunter.app.exit_codes import ExitCode
from shunter.app.reassign.journal import WatchedMoves
from shunter.app.reassign.session import BETWEEN_LOG_DIRS, TURNS, MoveUnderWay, ReassignSession, ThrottleLoan
from shunter.cli.execution.choosing import NOTHING_OF_IT
from shunter.cli.execution.consent import agreed
from shunter.cli.execution.display import clock_time, say_json, told_ms
from shunter.cli.execution.named_moves import look_elsewhere, missing_of
from shunter.cli.outlet import goes_on_without_output, output_lost
from shunter.core.doers import Ground, Wanted, foreign_to_controller
from shunter.core.wording import counted, told_bytes
from shunter.errors import ShunterError
from shunter.model.execution import MoveOrder, ThrottleKey
from shunter.model.partition import TopicPartition
from shunter.model.reassignment import Intervention, Strategy

POLL_SECONDS = 1.0
CAUSE = "execute"
"""The name that the journal gives to throttles that are set for the controller's moves."""


class Refused(ShunterError):
    """The controller was not asked, because a throttle that its moves need was refused."""


class Watching:
    """Watches the controller's moves: shows them, and writes them to a file if `record` names one."""

    def __init__(self, session: ReassignSession, *, record: Path | None, plan_id: str | None, as_json: bool) -> None:
        self.session, self.as_json = session, as_json
        self._record, self._plan_id = record, plan_id

    def follow(self, chosen: Callable[[MoveUnderWay], bool] | None = None, loan: ThrottleLoan | None = None) -> None:
        """Watch until none of the chosen moves is under way."""
        kept = (
            contextlib.nullcontext()
            if self._record is None
            else WatchedMoves(self.session, self._record, self._plan_id)
        )
        with kept as written:
            _watch(self.session, chosen, written, as_json=self.as_json, loan=loan)


# ---- execute


def execute(
    session: ReassignSession,
    ground: Ground,
    moves: Sequence[MoveOrder],
    *,
    strategy: Strategy | None,
    throttle: int | None,
    force: bool,
    watching: Watching | None,
    as_json: bool,
) -> int:
    """Hand a plan to the controller; returns the exit status. `watching` None: don't wait until the moves end."""
    orders, refused = session.fitting(moves)
    for order in orders:
        if order.tp in ground.journalled:
            refused[order.tp] = "the executor moves it, under its journal; --by executor can change its target"
    orders = [order for order in orders if order.tp not in refused]
    loan = None if throttle is None or not orders else _throttle(session, orders, throttle)
    try:
        refused |= session.execute(orders, strategy, forced=force)
        _say_taken(len(moves), refused, as_json=as_json)
        taken = {order.tp for order in orders if order.tp not in refused}
        if not taken:
            _give_back(loan)
        elif watching is not None:
            goes_on_without_output()
            try:
                watching.follow(lambda row: row.tp in taken, loan)
            finally:
                _give_back(loan)
        elif loan is not None:
            click.echo(
                "Throttles stay until `shunter throttles clear`; the journal knows the former settings.", err=True
            )
    finally:
        if loan is not None:
            loan.leave()
    return int(ExitCode.DONE if not refused else ExitCode.PARTLY if taken else ExitCode.REFUSED)


def _say_taken(asked: int, refused: Mapping[TopicPartition, str], *, as_json: bool) -> None:
    text = f"{asked - len(refused):,} of {counted(asked, 'partition')} taken on"
    told = [f"{tp}: {why}" for tp, why in sorted(refused.items())]
    if as_json:
        say_json(
            {"event": "order", "by": "controller", "accepted": len(refused) < asked, "text": text, "refused": told}
        )
        return
    for line in told:
        click.echo(f"not taken on: {line}")
    click.echo(text)


def _throttle(session: ReassignSession, orders: Sequence[MoveOrder], rate: int) -> ThrottleLoan:
    """Set throttles under the journal's lease. Without orders they are for everything that moves.

    Raises:
        Refused: a throttle is refused. Those that were set are given back, and nothing is moved.
    """
    loan = session.throttle_loan(CAUSE)
    try:
        taken = _taken(loan, session.wanted_throttles(orders, rate))
        if taken.refused:
            loan.give_back()
            key, why = min(taken.refused.items())
            raise Refused(f"throttles of {key.kind} {key.name} were refused, so nothing was done: {why}")
    except BaseException:
        loan.leave()
        raise
    for name, why in _by_owner(taken.late).items():
        click.echo(f"throttles of {name}: {why}", err=True)
    click.echo(f"throttled to {told_bytes(rate)}/s and broker", err=True)
    return loan


def _by_owner(settings: Mapping[ThrottleKey, str]) -> dict[str, str]:
    """One sentence for each broker or topic that has some of these settings."""
    return {f"{key.kind} {key.name}": why for key, why in settings.items()}


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
    for name, why in _by_owner(failed).items():
        click.echo(f"throttle left behind, `shunter throttles clear` restores it: {name}: {why}", err=True)
    if not failed:
        click.echo("throttles are as they were before", err=True)


def limit(session: ReassignSession, rate: int, *, as_json: bool) -> int:
    """Set the throttle of everything that moves, bytes per second and broker; 0 restores the former settings."""
    if rate:
        _throttle(session, (), rate).leave()
        text = f"limit {told_bytes(rate)}/s and broker for all that moves"
    else:
        loan = session.throttle_loan("limit")
        try:
            failed = loan.give_back_all()
        finally:
            loan.leave()
        if failed:
            key, why = min(failed.items())
            raise Refused(f"throttle of {key.kind} {key.name} stays: {why}; `shunter throttles clear` tries again")
        text = "no limit: throttles are as they were before"
    if as_json:
        say_json({"event": "order", "by": "controller", "accepted": True, "text": text})
    else:
        click.echo(text)
    return int(ExitCode.DONE)


# ---- turning


def turn(session: ReassignSession, ground: Ground, verb: str, wanted: Wanted, *, yes: bool, as_json: bool) -> int:
    """Stop, roll back, pause, resume or relax; returns the exit status."""
    spared = foreign_to_controller(ground, wanted)
    rows = session.rows()
    under_way = [row for row in rows if row.tp not in ground.journalled]
    chosen = list(wanted.partitions) if wanted.partitions else wanted.of([row.tp for row in under_way])
    if not chosen:
        accepted = wanted.everything or bool(spared)
        _say_turned(verb, {}, spared, accepted=accepted, as_json=as_json)
        return int(ExitCode.DONE if accepted else ExitCode.REFUSED)
    mode = TURNS.get(verb)
    meant = [row for row in under_way if row.tp in set(chosen)]
    if mode is Intervention.ROLL_BACK and not _agreed(session, meant, yes=yes, as_json=as_json):
        return int(ExitCode.REFUSED)
    if mode is None:
        results = _relax(session, chosen, meant)
    elif wanted.everything and not spared:
        # One request for everything: it also covers moves that begin meanwhile.
        results = session.turn(mode, None, None)
    else:
        results = session.turn(mode, chosen, None)
    accepted = not results or None in results.values()
    _say_turned(verb, results, spared, accepted=accepted, as_json=as_json)
    done = all(why is None for why in results.values())
    return int(ExitCode.DONE if done else ExitCode.PARTLY)


def _relax(
    session: ReassignSession, chosen: Collection[TopicPartition], rows: Sequence[MoveUnderWay]
) -> dict[TopicPartition, str | None]:
    """Ask again for the target of each move, with force: that relaxes the move's floor."""
    orders = [MoveOrder(row.tp, row.target) for row in rows if row.phase == "moving"]
    refused = session.execute(orders, None, forced=True)
    moving, known = {order.tp for order in orders}, {row.tp: row for row in rows}
    results: dict[TopicPartition, str | None] = {}
    for tp in chosen:
        phase = known[tp].phase.replace("_", " ") if tp in known else "not under way"
        results[tp] = (
            refused.get(tp) if tp in moving else f"it is {phase}: only a move in the phase moving can be relaxed"
        )
    return results


def _say_turned(
    verb: str,
    results: Mapping[TopicPartition, str | None],
    spared: Sequence[TopicPartition],
    *,
    accepted: bool,
    as_json: bool,
) -> None:
    failed = [f"{tp}: {why}" for tp, why in sorted(results.items()) if why is not None]
    done = len(results) - len(failed)
    text = f"{done:,} of {counted(len(results), 'partition')}: {verb} taken on" if results else NOTHING_OF_IT
    if spared:
        text += f"; {counted(len(spared), 'move of the executor is', 'moves of the executor are')} left alone: --by executor"
    if as_json:
        say_json({"event": "order", "by": "controller", "accepted": accepted, "text": text, "refused": failed})
        return
    for line in failed:
        click.echo(line)
    click.echo(text)


def _agreed(session: ReassignSession, rows: Sequence[MoveUnderWay], *, yes: bool, as_json: bool) -> bool:
    """Say how much a rollback copies before it begins; ask if that is more than nothing."""
    cost = session.progress(rows).rollback_bytes
    told = (
        f"{told_bytes(cost)} are copied again, because original replicas that were dropped are deleted from disk;"
        " `pause`, `stop` or a lower limit reduce the load at once"
    )
    return not cost or agreed(told, "Roll back?", yes=yes, as_json=as_json)


# ---- looking


def status(session: ReassignSession, wanted: Wanted, others: Sequence[str], *, as_json: bool) -> int:
    """Show moves under way: where they stand, what they wait for, what a rollback would copy, and others' throttles."""
    rows = chosen_rows(session, wanted)
    progress = session.progress(rows)
    elsewhere = look_elsewhere(missing_of(wanted, {str(row.tp) for row in rows}), None, session, told_row)
    code = elsewhere.exit_code(shown=bool(rows))
    if as_json:
        moves = [row_to_json(row) for row in rows]
        document = {"by": "controller", "moves": moves, "progress": progress._asdict(), "unknown": elsewhere.unknown}
        say_json({**document, "throttles_of_others": list(others)})
        return int(code)
    for line in (*map(told_row, rows), *elsewhere.lines, *others):
        click.echo(line)
    if not rows:
        click.echo("Nothing moves." if wanted.everything else NOTHING_OF_IT)
        return int(code)
    back = "is instant" if not progress.rollback_bytes else f"copies {told_bytes(progress.rollback_bytes)}"
    click.echo(
        f"{counted(len(rows), 'move')}, {told_bytes(progress.fetched_bytes)} of {told_bytes(progress.wanted_bytes)} fetched;"
        f" a rollback {back}"
    )
    return int(code)


def chosen_rows(session: ReassignSession, wanted: Wanted) -> list[MoveUnderWay]:
    """The moves under way that `wanted` names, by partition."""
    rows = session.rows()
    meant = set(wanted.of([row.tp for row in rows]))
    return [row for row in rows if row.tp in meant]


def _watch(
    session: ReassignSession,
    chosen: Callable[[MoveUnderWay], bool] | None,
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
        rows = [row for row in session.rows() if chosen is None or chosen(row)]
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
        left = progress.wanted_bytes - progress.fetched_bytes
        left_ms = int(left / (gained / passed) * 1000) if gained > 0 else None
        if as_json:
            say_json({"event": "progress", "by": "controller", **progress._asdict(), "left_ms": left_ms})
        else:
            waiting = next((row for row in rows if row.waiting and "to catch up" not in row.waiting), None)
            line = f"{counted(len(rows), 'move')}, {told_bytes(progress.fetched_bytes)} of {told_bytes(progress.wanted_bytes)}"
            line += f", this step ends in {told_ms(left_ms)}" if left_ms is not None else ""
            line += f"; {waiting.tp} {waiting.waiting}" if waiting is not None else ""
            if line != told:
                click.echo(f"{clock_time()} {line}")
                told = line
        if journal is None and output_lost():
            return
        time.sleep(POLL_SECONDS)
    if not as_json:
        click.echo(f"all moves have ended, after {told_ms(int((time.monotonic() - started) * 1000))}")


def told_row(row: MoveUnderWay) -> str:
    """A move under way, in a line.

    A controller that is no Shunter shows the step under way alone. Where that step only adds replicas, its target is
    what the partition is on: then the line says which replicas are being added.
    """
    if row.phase == BETWEEN_LOG_DIRS:
        return f"{row.tp}: {row.waiting}"
    phase = f"{row.phase.replace('_', ' ')}, " if row.phase else ""
    original = f" from {list(row.original)}" if row.original else ""
    waiting = f"; {row.waiting}" if row.waiting else ""
    adding = f", adding {list(row.adding)}" if row.adding and row.target == row.replicas else ""
    return f"{row.tp}: {phase}on {list(row.replicas)}{adding}, to {list(row.target)}{original}{waiting}"


def row_to_json(row: MoveUnderWay) -> dict[str, object]:
    """A move under way, for programs."""
    return {"partition": str(row.tp), **{name: value for name, value in row._asdict().items() if name != "tp"}}


__all__ = ["Refused", "Watching", "chosen_rows", "execute", "limit", "row_to_json", "status", "told_row", "turn"]
