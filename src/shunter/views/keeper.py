"""The keeper's view of a cluster, for command, page and API: the conditions that hold, and the proposals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # These import the planner, which takes longer to load than a whole command that only shows these views.
    from shunter.core.keeper.memory import Holding
    from shunter.core.keeper.proposals import Proposal


@dataclass(frozen=True, slots=True)
class ConditionView:
    """A condition that holds. `since_ms`: milliseconds since 1970 UTC; None: it was first seen at this observation."""

    condition: str
    about: str
    text: str
    since_ms: int | None
    minutes: int
    """For how long the condition is known to hold."""
    wanted_minutes: int
    label: str = ""
    """The condition in the field's words, as `disk skew`."""
    side: str = ""
    """`above` or `below` the threshold; "": the condition has no sides."""


@dataclass(frozen=True, slots=True)
class ProposalView:
    """A proposal. `ready`: it may begin; else it is blocked, and `held_back` says why, or `undone` why the planner finds no plan."""

    scope: str
    mode: str
    ready: bool
    conditions: tuple[str, ...]
    reasons: tuple[str, ...]
    partitions: int
    """Partitions whose replicas change, or their order."""
    moves: int
    """Replicas that are copied."""
    bytes: int
    leader_changes: int
    undone: tuple[str, ...]
    held_back: tuple[str, ...]
    behind: str = ""
    """The scope of the proposal that comes first. This one is planned after that, and has no figures before."""


def view_condition(holding: Holding) -> ConditionView:
    """The view of a condition."""
    subject = holding.sign.subject
    return ConditionView(
        subject.condition.value,
        subject.about,
        holding.sign.text,
        holding.since_ms,
        holding.minutes,
        holding.wanted_minutes,
        subject.condition.label,
        holding.sign.side,
    )


def view_proposal(proposal: Proposal) -> ProposalView:
    """The view of a proposal."""
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
