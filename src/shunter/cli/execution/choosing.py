"""The doer of a verb, and the moves that the verb is about: shared options, and the look that chooses the doer."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.core import ParameterSource

from shunter.app.executor.journals import JournalPlace
from shunter.app.executor.orders import driven_here
from shunter.app.executor.session import Target, is_named, read_journal, read_plan
from shunter.cli.execution.options import PARTITION, PLAN
from shunter.cli.leaving import told_error
from shunter.core.doers import (
    Choice,
    Doer,
    DoerRefused,
    Ground,
    Wanted,
    asked_for,
    who_begins,
    who_turns,
)
from shunter.errors import FormatError
from shunter.model.partition import TopicPartition

if TYPE_CHECKING:
    from shunter.app.reassign.session import ReassignSession

_EXECUTORS = frozenset(
    {
        "journal", "journal_topic", "take_over_cluster", "take_over", "throttle_floor", "log_dir_throttle",
        "max_concurrent", "max_in", "max_out", "max_per_rack", "max_per_log_dir", "orders", "disk_share", "only_between",
        "relax_after", "leave",
    }
)  # fmt: skip
"""Parameters that only the executor knows: one of them on the command line chooses the executor."""
NOTHING_OF_IT = "nothing that was named is being moved"
"""The answer if moves were named and none of them is under way. A name may be wrong, so this answer is a refusal."""


class Doing(NamedTuple):
    """The doer of an order. `session` is open if the controller does it; `ground` is None if it was not looked up."""

    choice: Choice
    target: Target
    ground: Ground | None = None
    session: ReassignSession | None = None

    @property
    def by(self) -> str:
        """The doer, as JSON names it."""
        return self.choice.doer.value


def by_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --by, which chooses the doer; hands the command `by`, a doer or None."""

    @click.option(
        "--by",
        type=click.Choice([doer.value for doer in Doer]),
        help="Shunter's controller does it, or the executor, which works from outside."
        " Without it: chosen by a look at the cluster.",
    )
    @functools.wraps(command)
    def wrapped(*args: Any, by: str | None, **rest: Any) -> Any:
        return command(*args, by=None if by is None else Doer(by), **rest)

    return wrapped


def wanted_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add arguments and options that name moves; hands the command `wanted`."""

    @click.argument("partitions", nargs=-1, type=PARTITION)
    @click.option("--topic", "topics", multiple=True, help="All moves of a topic; repeat for several.")
    @click.option(
        "--plan",
        type=PLAN,
        help="All moves under way of partitions in this plan.",
    )
    @functools.wraps(command)
    def wrapped(
        *args: Any, partitions: tuple[TopicPartition, ...], topics: tuple[str, ...], plan: Path | None, **rest: Any
    ) -> Any:
        if sum(map(bool, (topics, plan, partitions))) > 1:
            raise click.UsageError("name partitions, or --topic, or --plan: one of them")
        try:
            planned = () if plan is None else tuple(order.tp for order in read_plan(plan))
        except FormatError as error:
            sys.exit(told_error(error))
        return command(*args, wanted=Wanted(partitions, topics, planned), **rest)

    return wrapped


@contextmanager
def found_out(
    target: Target,
    by: Doer | None,
    *,
    wanted: Wanted | None = None,
    only_executors: str = "",
    chosen: str = "",
    as_json: bool = False,
) -> Iterator[Doing]:
    """Find out which doer carries a verb out, and say so; `wanted` None: the verb begins moves.

    `only_executors` names a part of the request, other than an option, that only the executor can do. `chosen` says why
    the verb itself chose `by`, if the command line did not.

    Raises:
        DoerRefused: neither doer can do it as it was asked.
        DriverError: the cluster does not answer.
        FormatError: the cluster's journal can't be read.
    """
    word = only_executors or _executors_word()
    if by is Doer.EXECUTOR or (by is None and (word or is_named(target))):
        why = chosen or ("as --by executor says" if by is not None else f"only the executor has {word or '--journal'}")
        yield _told(Doing(Choice(Doer.EXECUTOR, why), target), as_json=as_json)
        return
    driven = driven_here(target.bootstrap, wanted) if by is None else None
    if driven is not None:
        place, holder = driven
        choice = Choice(Doer.EXECUTOR, f"{holder} drives this cluster's journal")
        yield _told(Doing(choice, replace(target, journal=place.path)), as_json=as_json)
        return
    if by is Doer.CONTROLLER and word:
        raise DoerRefused(f"only the executor has {word}: leave it out, or use --by executor")
    from shunter.app.reassign.session import ReassignSession  # noqa: PLC0415 - brings the client library with it

    session = ReassignSession(target.bootstrap, target.properties)
    try:
        ground, place = session.ground()
        choice = asked_for(ground, by) if by is not None else _choice(ground, wanted)
        if choice.doer is Doer.EXECUTOR:
            session.close()
            target = replace(target, journal=place.path)
        yield _told(Doing(choice, target, ground, session), as_json=as_json)
    finally:
        session.close()


def _choice(ground: Ground, wanted: Wanted | None) -> Choice:
    return who_begins(ground) if wanted is None else who_turns(ground, wanted)


def _told(doing: Doing, *, as_json: bool) -> Doing:
    if not as_json:
        click.echo(f"by the {doing.by}: {doing.choice.why}", err=True)
    return doing


def _executors_word() -> str:
    """The first option on the command line that only the executor has; "" for none."""
    context = click.get_current_context()
    for parameter in context.command.params:
        named = context.get_parameter_source(str(parameter.name)) is ParameterSource.COMMANDLINE
        if named and parameter.name in _EXECUTORS:
            return parameter.opts[0]
    return ""


def is_said(name: str) -> bool:
    """Whether an option's value is from the command line, the environment or the settings file, not the default."""
    source = click.get_current_context().get_parameter_source(name)
    return source not in (None, ParameterSource.DEFAULT)


def journalled_moves(place: JournalPlace, wanted: Wanted) -> tuple[TopicPartition, ...]:
    """The partitions of an order to the executor; topics and plans stand for those with an open move in its journal."""
    if wanted.everything or wanted.partitions or not place.exists():
        return wanted.partitions
    state, _holder = read_journal(place)
    return tuple(wanted.of([move.tp for move in state.open_moves()]))


__all__ = ["Doing", "by_option", "found_out", "is_said", "journalled_moves", "wanted_options"]
