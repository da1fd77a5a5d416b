"""The doer of a verb: Shunter's controller, or the executor under its journal.

docs/decisions/0214-one-family-of-verbs.md has the order in which it is found.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from typing import NamedTuple

from shunter.core.wording import counted, named
from shunter.errors import ShunterError
from shunter.model.partition import TopicPartition


class DoerRefused(ShunterError):
    """No doer can carry the verb out as it was asked; the message says which doer could, and how to ask."""


class Doer(Enum):
    """The doers of verbs."""

    CONTROLLER = "controller"
    EXECUTOR = "executor"


class Ground(NamedTuple):
    """The facts by which a doer is chosen.

    `shunters`: the controller is Shunter's. `driver` names the executor that drives the cluster's journal, "" for none.
    `journalled` are the moves that are open in the journal, `controlled` those that the controller lists and the
    journal does not have; both are read only if the controller is Shunter's.
    """

    shunters: bool
    driver: str = ""
    journalled: frozenset[TopicPartition] = frozenset()
    controlled: frozenset[TopicPartition] = frozenset()


class Wanted(NamedTuple):
    """The moves that a verb is about; all moves, if nothing is named."""

    partitions: tuple[TopicPartition, ...] = ()
    topics: tuple[str, ...] = ()
    planned: tuple[TopicPartition, ...] = ()
    """Partitions that a plan names; some of them may not move."""

    @property
    def everything(self) -> bool:
        """Whether nothing is named."""
        return not (self.partitions or self.topics or self.planned)

    def of(self, moves: Collection[TopicPartition]) -> list[TopicPartition]:
        """The given moves that the verb is about, sorted."""
        named = {*self.partitions, *self.planned}
        return sorted(tp for tp in moves if self.everything or tp in named or tp.topic in self.topics)


class Choice(NamedTuple):
    """A doer, and the reason for it, as the end of a sentence."""

    doer: Doer
    why: str


def asked_for(ground: Ground, asked: Doer) -> Choice:
    """The doer that the caller named.

    Raises:
        DoerRefused: the controller was named, and it is not Shunter's.
    """
    if asked is Doer.CONTROLLER and not ground.shunters:
        raise DoerRefused(
            "--by controller: the controller is not Shunter's, so it knows no stop, no pause and no steps;"
            " --by executor, or no --by, does it from outside"
        )
    return Choice(asked, f"as --by {asked.value} says")


def who_begins(ground: Ground) -> Choice:
    """The doer of a verb that begins moves."""
    if not ground.shunters:
        return Choice(Doer.EXECUTOR, "the controller is not Shunter's")
    if ground.driver:
        return Choice(Doer.EXECUTOR, f"{ground.driver} drives this cluster's journal")
    if ground.journalled:
        return Choice(
            Doer.EXECUTOR, f"its journal has {counted(len(ground.journalled), 'open move')}, which this plan joins"
        )
    return Choice(Doer.CONTROLLER, "it is Shunter's")


def who_turns(ground: Ground, wanted: Wanted) -> Choice:
    """The doer of a verb that turns or shows moves.

    Raises:
        DoerRefused: of the partitions that were named, the controller moves some and the executor others.
    """
    if not ground.shunters:
        return Choice(Doer.EXECUTOR, "the controller is not Shunter's")
    mine, theirs = wanted.of(ground.journalled), wanted.of(ground.controlled)
    if mine and theirs and wanted.partitions:
        raise DoerRefused(
            f"{named(sorted(mine))} {'is' if len(mine) == 1 else 'are'} moved by the executor, {named(sorted(theirs))} by the controller:"
            " name the ones, and then the others"
        )
    if mine:
        beside = (
            f"; {counted(len(theirs), 'move of the controller goes', 'moves of the controller go')} on beside them: --by controller"
            if theirs
            else ""
        )
        return Choice(Doer.EXECUTOR, f"its journal has {counted(len(mine), 'open move')}{beside}")
    return Choice(Doer.CONTROLLER, "it is Shunter's")


def foreign_to_controller(ground: Ground, wanted: Wanted) -> list[TopicPartition]:
    """Moves that the controller must not be asked to turn: the executor has them in its journal.

    Raises:
        DoerRefused: such a partition was named.
    """
    journalled = sorted(ground.journalled.intersection(wanted.partitions))
    if journalled:
        raise DoerRefused(f"{named(journalled)}: moved by the executor, whose step it is: --by executor turns it")
    return wanted.of(ground.journalled)


__all__ = [
    "Choice",
    "Doer",
    "DoerRefused",
    "Ground",
    "Wanted",
    "asked_for",
    "foreign_to_controller",
    "who_begins",
    "who_turns",
]
