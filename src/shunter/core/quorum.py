"""How the metadata quorum of a KRaft cluster stands: without a majority of its voters nothing is elected or moved."""

from __future__ import annotations

from shunter.core.wording import counted
from shunter.model.check_up import Finding, Level, Quorum, Voter

LATE_MS = 10_000
"""A voter fetches about every half second. One that has not had everything for so long is behind."""


def judge_quorum(quorum: Quorum) -> Finding:
    """Say how many voters have everything, and what the others lack."""
    voters, behind = quorum.voters, [voter for voter in quorum.voters if _is_behind(voter)]
    whole = len(voters) - len(behind)
    told = f"{whole} of {counted(len(voters), 'voter')} of the metadata quorum caught up, node {quorum.leader} leads"
    if all(voter.caught_up_ms is None for voter in voters):
        leads = f"node {quorum.leader} leads {counted(len(voters), 'voter')} of the metadata quorum"
        return Finding(Level.FINE, "quorum", f"{leads}; how far they are is not told")
    if not behind:
        return Finding(Level.FINE, "quorum", told)
    told = "; ".join((told, *map(_told, behind)))
    spare = whole - (len(voters) // 2 + 1)
    if spare > 0:
        return Finding(Level.WARNING, "quorum", told, "start what is down: a majority has to be left")
    told += "; if one more is lost, nothing is elected, moved or changed any more" if spare == 0 else ""
    return Finding(Level.PROBLEM, "quorum", told, "start what is down before anything else is stopped")


def needs(quorum: Quorum, node: int) -> bool:
    """Whether a majority of the voters is gone, or may be, if this node stops."""
    nodes = {voter.node for voter in quorum.voters}
    others = sum(voter.node != node and not _is_behind(voter) for voter in quorum.voters)
    return node in nodes and others < len(nodes) // 2 + 1


def _is_behind(voter: Voter) -> bool:
    return voter.caught_up_ms is None or voter.caught_up_ms >= LATE_MS


def _told(voter: Voter) -> str:
    if voter.fetched_ms is None:
        return f"voter {voter.node} has not fetched since the leader was elected"
    if voter.fetched_ms >= LATE_MS:
        return f"voter {voter.node} last fetched {voter.fetched_ms // 1000} s ago"
    since = "since the leader was elected" if voter.caught_up_ms is None else f"for {voter.caught_up_ms // 1000} s"
    return f"voter {voter.node} fetches, and has not had everything {since}"


__all__ = ["judge_quorum", "needs"]
