"""How the keeper sees a cluster, for command, page and API: the conditions that hold, and what is proposed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # They come with the planner, which takes longer to load than what a command shows by these views takes in all.
    from shunter.core.keeper.memory import Holding
    from shunter.core.keeper.proposals import Proposal


@dataclass(frozen=True, slots=True)
class ConditionView:
    """A condition that holds. `since_ms` None: it was seen first at this look; milliseconds since 1970 UTC."""

    condition: str
    about: str
    text: str
    since_ms: int | None
    minutes: int
    """For how long it is known to hold."""
    wanted_minutes: int


@dataclass(frozen=True, slots=True)
class ProposalView:
    """A proposal. `ready`: it may be begun; else `held_back` says why not, or `undone` why the planner finds nothing."""

    scope: str
    mode: str
    ready: bool
    conditions: tuple[str, ...]
    reasons: tuple[str, ...]
    partitions: int
    """Whose replicas or order change."""
    moves: int
    """Replicas that are copied."""
    bytes: int
    leader_changes: int
    undone: tuple[str, ...]
    held_back: tuple[str, ...]
    behind: str = ""
    """The scope of the proposal that comes first: this one is planned from what that leaves, and has no figures before."""


def view_condition(holding: Holding) -> ConditionView:
    """A condition, ready to be shown."""
    subject = holding.sign.subject
    return ConditionView(
        subject.condition.value,
        subject.about,
        holding.sign.text,
        holding.since_ms,
        holding.minutes,
        holding.wanted_minutes,
    )


def view_proposal(proposal: Proposal) -> ProposalView:
    """A proposal, ready to be shown."""
    return ProposalView(
        proposal.scope.value,
        proposal.mode.value,
        proposal.ready,
        tuple(each.value for each in proposal.conditions),
        proposal.reasons,
        len(proposal.changes),
        proposal.moves,
        proposal.bytes,
        proposal.leader_changes,
        proposal.undone,
        proposal.held_back,
        "" if proposal.behind is None else proposal.behind.value,
    )
