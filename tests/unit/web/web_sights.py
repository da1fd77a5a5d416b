"""Clusters of any size, judged by the real keeper, for a yard: what the page shows of them is what a service would."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from web_yard import GB, TB, Yard

from shunter.app.evaluation.observation import sighting_of
from shunter.app.service.thinking import LookQuestion, think
from shunter.core.keeper.cluster_facts import ClusterFacts, OpenExecution, Reach, ServiceRole
from shunter.core.keeper.sighting import Sighting
from shunter.model.check_up import CheckedBroker, CheckedJournal, CheckUp
from shunter.model.inventory import Inventory, InventoryBroker, InventoryPartition
from shunter.model.keeper import KeeperPolicy
from shunter.model.service import KeptProposal, ProposalState
from shunter.views.keeper_picture import Surrounding, dressed, view_moves

sys.path.insert(0, str(Path(__file__).parents[1] / "core" / "keeper"))
from keeper_clusters import AT_ONCE

LONG = "com.example.payments.settlement.reconciliation.events.v2.europe-west.compacted.by-merchant"


def sighting(
    brokers: int, topics: dict[str, int], at_ms: int, *, dead: tuple[int, ...] = (), skew: int = 0, racks: int = 3
) -> Sighting:
    """Brokers from 1 on, and topics by their number of partitions, three replicas each; some have fewer.

    `skew`: how many times as often as others the first two brokers get a replica.
    """
    ids = [*range(1, brokers + 1), *((1, 2) * skew)]
    partitions: list[InventoryPartition] = []
    at = 0
    for topic, count in topics.items():
        for number in range(count):
            at += 1
            spread = [ids[(at * 7 + at // 8 + step * (1 + at % 5)) % len(ids)] for step in range(3)]
            picked = dict.fromkeys([*spread, *ids[at % len(ids) :], *ids])
            replicas = tuple(picked)[: min({3: 2, 5: 1}.get(at % 8, 3), brokers)]
            lost = tuple(each for each in replicas if each in dead)
            held = tuple(each for each in replicas if each not in dead)
            size = (1 + at % 9) * GB // 2
            partitions.append(
                InventoryPartition(
                    topic,
                    None,
                    number,
                    replicas,
                    held,
                    held[0] if held else -1,
                    0,
                    1,
                    2,
                    tuple((each, size) for each in held),
                    lost,
                )
            )
    held_by = dict.fromkeys(ids, 0)
    for each in partitions:
        for broker, size in each.sizes:
            held_by[broker] += size
    total = max(TB, 2 * max(held_by.values(), default=0))
    live = tuple(
        InventoryBroker(each, f"host{each}", f"rack-{'abcdefgh'[each % racks]}", total, total - held_by[each])
        for each in range(1, brokers + 1)
        if each not in dead
    )
    seen = CheckUp("yard", 1, "Apache (KRaft)", tuple(CheckedBroker(b.id, None, "4.1") for b in live), (), {}, ())
    return sighting_of(Inventory("yard", at_ms, live, tuple(partitions)), seen, CheckedJournal("j"), ())


def keep(yard: Yard, name: str, seen: Sighting, policy: KeeperPolicy = AT_ONCE) -> tuple[KeptProposal, ...]:
    """Let a yard's cluster be this one, as the keeper judges it; returns the proposals, which wait for approval."""
    thought = think(LookQuestion(name, seen, policy, None, (), {}))
    made = tuple(replace(each, state=ProposalState.WAITING) for each in thought.changed)
    yard.kept[name] = list(made)
    yard.seen[name] = seen
    execution = yard.facts[name].execution or OpenExecution(0)
    yard.facts[name] = facts = ClusterFacts(
        name,
        yard.now_ms(),
        Reach.ANSWERS,
        observation=thought.observation,
        role=ServiceRole.DRIVES,
        execution=execution,
        proposals=tuple(replace(each, changes=()) for each in made),
    )
    page = dressed(thought.page, Surrounding(facts))
    moves = yard.published.moves(name)
    if not execution.open:
        moves = view_moves(None, {}, thought.moves, facts)
    yard.published.show(name, page, replace(moves, situation=page.row.situation))
    return made
