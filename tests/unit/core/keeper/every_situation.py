"""What can be known about a cluster: the product of all facts, some thousands of combinations."""

import itertools
from collections.abc import Iterator
from dataclasses import replace

from shunter.core.keeper.cluster_facts import (
    ClusterFacts,
    ClusterObservation,
    Held,
    OpenExecution,
    Reach,
    ServiceRole,
    WordsPlace,
)
from shunter.model.keeper import Condition, Hold
from shunter.model.service import KeptProposal, KillSwitch, ProposalState

NOW_MS = 1_795_400_000_000
THEM = "ben on kafka2, process 4711"
WHY_SILENT = "no broker answers"
UNCLAIMED_MS = 25_000
WHY_IDLE = "the journal is damaged"

DEAD = Held(
    Condition.BROKER_DEAD, "broker 3 is dead and holds 151 replicas", ("it has not held for long enough",), "offline"
)
BAND = Held(
    Condition.DISK_BAND, "broker 1 carries 1.31 of the mean in disk", ("another plan comes first",), "rebalance"
)
DRAIN = Held(Condition.DRAIN, "broker 2 is to be drained and holds 7 replicas", scope="drain")
LATE = Held(Condition.UNDER_REPLICATED, "3 partitions with replicas out of sync")

OBSERVED = ClusterObservation(NOW_MS - 20_000)
OBSERVATIONS = (
    None,
    OBSERVED,
    replace(OBSERVED, offline=3, under_min_isr=2, brokers_down=(3,), under_replicated=9, conditions=(DEAD, BAND, LATE)),
    replace(OBSERVED, conditions=(DRAIN,), journal_open=106, external=2, throttles_left=4),
    replace(OBSERVED, conditions=(BAND,), unattributed=5, brokers_down=(4,), down_empty=(4,)),
    replace(OBSERVED, at_ms=NOW_MS - 3_600_000, under_replicated=1, conditions=(DEAD,)),
)
DRIVERS = (
    (ServiceRole.DRIVES, "", "", OpenExecution(0)),
    (ServiceRole.DRIVES, "", "", OpenExecution(151, stuck=1)),
    (ServiceRole.DRIVES, "", "", OpenExecution(151, paused=150)),
    (ServiceRole.DRIVES, "", "", OpenExecution(102, paused=102)),
    (ServiceRole.DRIVES, "", "", OpenExecution(151, silent_since_ms=NOW_MS - 90_000)),
    (ServiceRole.DRIVES, "", "", OpenExecution(151, back=151)),
    (ServiceRole.STANDBY, THEM, "", None),
    (ServiceRole.IDLE, "", WHY_IDLE, None),
    (ServiceRole.IDLE, "", "", None),
    (ServiceRole.OBSERVES, "", "", None),
)
THROWN = KillSwitch("lab", "anna", NOW_MS - 60_000, "incident 12")
SWITCHES = ((None, False), (THROWN, False), (THROWN, True), (THROWN._replace(lifted=True), False))
HELD = Hold("offline", "held: rolled back by anna at 2026-11-23 02:12 UTC; `shunter withdraw hold offline` lifts that")
HOLDS = ((), (HELD,))
STORES = (("", False), ("the disk is full", False), ("the store is damaged", True))

WORDS = (
    (WordsPlace.TAKEN, ""),
    (WordsPlace.ALONE, "the topic may not be made"),
    (WordsPlace.READ, ""),
    (WordsPlace.UNREAD, ""),
    (WordsPlace.UNREAD, "the topic has no leader"),
)


def proposal(state: ProposalState, *conditions: str, held_back: tuple[str, ...] = ()) -> KeptProposal:
    """A proposal in a state."""
    made = KeptProposal(
        f"offline-{state.value}", "lab", "id", "offline", conditions, ("broker 3 is dead",), (), 151, 10**9, 0, 0, (),
        NOW_MS, state, NOW_MS,
    )  # fmt: skip
    return replace(made, held_back=held_back)


PROPOSALS = (
    (),
    (proposal(ProposalState.WAITING, "disk-band"),),
    (proposal(ProposalState.APPROVED, "broker-dead", held_back=("it is night",)),),
    (proposal(ProposalState.STARTING, "broker-dead"),),
    (proposal(ProposalState.RUNNING, "broker-dead"), proposal(ProposalState.WAITING, "disk-band")),
)


def every() -> Iterator[ClusterFacts]:
    """All combinations that can be: only what was observed answers, and only what is reached is current."""
    reached = ((Reach.UNSEEN, ""), (Reach.ANSWERS, ""), (Reach.SILENT, WHY_SILENT))
    parts = itertools.product(reached, OBSERVATIONS, DRIVERS, SWITCHES, PROPOSALS, STORES, WORDS, HOLDS)
    for at, ((reach, why), seen, driver, (switch, fleet), proposals, (trouble, lost), words, holds) in enumerate(parts):
        if (seen is None) == (reach is Reach.ANSWERS) or (reach is Reach.UNSEEN and seen is not None):
            continue
        role, them, idle_why, execution = driver
        unclaimed = execution is not None and execution.back > 0  # As with one execution, so with any.
        if lost and role is not ServiceRole.IDLE:
            continue  # Without its store a service drives nothing.
        if role is ServiceRole.OBSERVES and words[0] is not WordsPlace.ALONE:
            continue  # Who only observes makes no topic.
        if (words[0] is WordsPlace.TAKEN) > (role is ServiceRole.DRIVES):
            continue
        if role is ServiceRole.DRIVES and words in ((WordsPlace.READ, ""), (WordsPlace.UNREAD, "")):
            continue  # Whoever drives has taken the words, or knows why they have to be read again.
        if holds and (trouble or fleet):
            continue  # A hold does not depend on these.
        yield ClusterFacts(
            name=f"lab{at}",
            now_ms=NOW_MS,
            reach=reach,
            reach_why=why,
            observation=seen,
            role=role,
            driver=them,
            claimed_at_ms=None if execution is None else NOW_MS - (UNCLAIMED_MS if unclaimed else 3_000),
            idle_why=trouble if lost else idle_why,
            execution=execution,
            switch=switch,
            fleet_paused=fleet,
            proposals=proposals,
            holds=holds,
            store_trouble=trouble,
            store_lost=lost,
            words=words[0],
            words_why=words[1],
        )
