"""Actions on a world from outside, by name: operators' actions and faults; and a plan of actions from a seed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from random import Random
from typing import NamedTuple

from lab.simulation.scheduler import MS

EDGE_OPERATIONS = {
    "too_large": 1,
    "poisonous_topic": 2,
    "poison_by_tool": 1,
    "odd_alteration": 5,
    "empty_reassignment": 2,
    "reorder_with_the_dead": 2,
    "lying_originals": 2,
    "topic_beside_failed_directory": 5,
    "auto_create": 3,
    "odd_creation": 3,
    "odd_growth": 2,
}
EDGE_FAULTS = {
    "channel_swallows": 3,
    "answers_errors": 7,
    "zookeeper_refuses": 7,
    "endpoint_moves": 3,
    "racks_change": 4,
    "zookeeper_throttles": 2,
}
EDGE_WEIGHTS = {**EDGE_OPERATIONS, **EDGE_FAULTS}
"""What the outside world does to a controller beyond dying and being slow (`edges`); drawn aside."""
OPERATION_WEIGHTS = {
    "reassign": 22,
    "reassign_many": 5,
    "cancel": 10,
    "change_mind": 2,
    "cancel_topic": 2,
    "cancel_all": 2,
    "legacy_znode": 4,
    "legacy_with_originals": 2,
    "resume": 4,
    "extra_znode": 2,
    "request_znode": 3,
    "cancel_znode": 1,
    "change_settings": 1,
    "allocate_producer_ids": 1,
    "announce_isr": 1,
    "create_topic": 4,
    "delete_topic": 2,
    "delete_by_znode": 1,
    "grow_topic": 2,
    "elect_preferred": 3,
    "elect_by_znode": 1,
    "elect_unclean": 1,
    "change_config": 3,
    "touch_state": 2,
    "foreign_assignment": 1,
    "recreate_topic": 1,
    "replace_topic": 2,
    "draft_target": 2,
    "cancel_at_start": 0,
    **dict.fromkeys(EDGE_OPERATIONS, 0),
}
FAULT_WEIGHTS = {
    "broker_kill": 6,
    "broker_bounce": 6,
    "broker_pause": 4,
    "broker_slow": 3,
    "broker_leave": 3,
    "broker_loses_zookeeper": 3,
    "directory_fails": 2,
    "brokers_part": 3,
    "channel_breaks": 6,
    "controller_killed": 4,
    "controller_paused": 5,
    "controller_steps_down": 2,
    "controller_deposed": 2,
    "zookeeper_connection_breaks": 6,
    "zookeeper_unreachable": 3,
    "session_expires": 3,
    "zookeeper_slow": 2,
    "apache_takes_over": 2,
    "garble": 0,
    "controller_isolated": 0,
    **dict.fromkeys(EDGE_FAULTS, 0),
}
NOTHING: Mapping[str, int] = {}
PACES_US = (100 * MS, 400 * MS, 400 * MS, 1_000 * MS)
ASIDE_WEIGHTS = {"cancel_at_start": 3, "garble": 8, "auto_create": 2}
ASIDE_OF = 7
ISOLATION_WEIGHTS = {"controller_isolated": 1}
ASIDE: Mapping[int, Mapping[str, int]] = {1: EDGE_WEIGHTS, 3: ASIDE_WEIGHTS, 4: ISOLATION_WEIGHTS}
"""Actions that are drawn aside, by `seed % ASIDE_OF`. Worlds of other seeds stay as they were before."""
NOTHING_ASIDE: Mapping[int, Mapping[str, int]] = {}
OPERATIONS = tuple(OPERATION_WEIGHTS)
FAULTS = tuple(FAULT_WEIGHTS)


class Action(NamedTuple):
    """One action on the world. `draw` seeds the choices that the action makes; `number` names it for shrinking."""

    number: int
    at_us: int
    kind: str
    draw: int


def plan_actions(
    seed: int,
    steps: int,
    faults: Collection[str],
    *,
    operations: Mapping[str, int] = OPERATION_WEIGHTS,
    breakages: Mapping[str, int] = FAULT_WEIGHTS,
    paces_us: Sequence[int] = PACES_US,
    aside: Mapping[int, Mapping[str, int]] = NOTHING_ASIDE,
) -> list[Action]:
    """Draw a plan: `steps` actions, one per pace on average, with faults of the given kinds alone.

    One world in eight has operators and no faults: the rules must also hold for what operators alone do. An action with
    a weight of 0 is never drawn here, only `aside`, by a PRNG of its own.
    """
    random = Random(f"plan {seed}")
    allowed = [fault for fault in breakages if fault in faults] if seed % 8 else []
    weights = {**operations, **{fault: breakages[fault] for fault in allowed}}
    kinds, shares = list(weights), list(weights.values())
    pace = random.choice(paces_us)
    at_us = 3_000 * MS
    actions: list[Action] = []
    for number in range(steps):
        at_us += int(random.expovariate(1 / pace))
        kind = random.choices(kinds, shares)[0]
        actions.append(Action(number, at_us, kind, random.getrandbits(32)))
    drawn = aside.get(seed % ASIDE_OF, NOTHING)
    return _with_aside(seed, actions, {kind: share for kind, share in drawn.items() if kind in weights})


def _with_aside(seed: int, actions: list[Action], weights: Mapping[str, int]) -> list[Action]:
    """Put other actions between those of a plan: about one for every four of them, and none after the last."""
    if not weights or not actions:
        return actions
    random = Random(f"aside {seed}")
    more = [
        Action(
            len(actions) + number,
            random.randint(actions[0].at_us, actions[-1].at_us),
            random.choices(list(weights), list(weights.values()))[0],
            random.getrandbits(32),
        )
        for number in range(random.randint(1, 1 + len(actions) // 2))
    ]
    return sorted([*actions, *more], key=lambda action: action.at_us)
