"""One look: the conditions that hold, since when, the proposals, and the memory for the next look."""

from __future__ import annotations

from dataclasses import dataclass

from shunter.core.keeper.memory import Holding, judged, remembered, usable
from shunter.core.keeper.proposals import Proposal, propose
from shunter.core.keeper.sighting import Sighting, in_order
from shunter.core.keeper.signs import signs
from shunter.model.keeper import Condition, KeeperPolicy, Memory


@dataclass(frozen=True, slots=True)
class Judgement:
    """The result of one look."""

    holding: tuple[Holding, ...]
    """Without moves of other tools that have not stood still for long enough to be called stuck."""
    proposals: tuple[Proposal, ...]
    """The most urgent first; at most one is ready."""
    memory: Memory
    policy: KeeperPolicy
    """The policy by which the cluster was judged."""
    forgotten_minutes: int | None = None
    """The age of the memory of the look before, if it was too old to be used."""


def judge(sighting: Sighting, policy: KeeperPolicy, memory: Memory | None = None) -> Judgement:
    """Judge a cluster by its policy. Deterministic; the order in which anything was observed does not matter.

    Args:
        sighting: The cluster as seen.
        policy: The policy, with all intents.
        memory: The memory that the look before returned; None: there was none.

    Cost: a plan for each scope that mends something, and for a plan that is ready one more plan for each scope.
    """
    seen = in_order(sighting)
    cluster, now_ms = seen.inventory.cluster_id, seen.at_ms
    known = usable(memory, cluster, now_ms, policy)
    before = () if known is None else tuple(each.subject for each in known.held)
    holding = judged(known, signs(seen, policy, before), now_ms, policy)
    forgotten = memory is not None and known is None and memory.cluster_id == cluster
    return Judgement(
        tuple(each for each in holding if each.lasted or each.sign.subject.condition is not Condition.MOVES_STUCK),
        propose(seen, policy, holding),
        remembered(cluster, now_ms, holding),
        policy,
        abs(now_ms - memory.at_ms) // 60_000 if forgotten and memory is not None else None,
    )
