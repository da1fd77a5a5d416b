"""Throttles that an ended execution owes: to which brokers and topics, and for how long it waits to give them back.

Only a broker itself can change its settings. So a dead broker's throttles stay in the journal when the execution is
closed. The executor that drives the journal when the broker is back gives them back, or an operator strikes them off
(`shunter throttles forget`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from shunter.core.executor.state import ExecutorState
from shunter.core.throttles import RATES
from shunter.model.execution import ThrottleKey
from shunter.model.partition import BrokerId

BOUNCE_MS = 60_000
"""A broker that has been down for less than this may be restarting: the execution waits for its settings."""


def waited_until_ms(state: ExecutorState, idle_since_ms: int, now_ms: int) -> int | None:
    """Until when an execution waits to give its last throttles back; None: no longer, their brokers are down.

    Args:
        state: A state with no open move, and with throttles that are not given back.
        idle_since_ms: Since when no move is open.
        now_ms: The time.
    """
    cluster = state.cluster
    due = idle_since_ms + BOUNCE_MS
    if cluster.brokers and all(is_down(state, key) for key in state.throttles):
        # A broker that this process never saw alive has been down since before it began.
        down = [cluster.down_since_ms.get(int(key.name)) for key in state.throttles]
        due = min(due, max((since + BOUNCE_MS for since in down if since is not None), default=now_ms))
    return due if now_ms < due else None


def own_rates(state: ExecutorState, now_ms: int) -> frozenset[tuple[BrokerId, float]]:
    """Rates that brokers may show, and that are this journal's own: broker and bytes per second."""
    held = {key: throttle.ours for key, throttle in state.throttles.items()}
    late = {
        key: {value for value in given.ours if given.may_be_shown(value, now_ms)}
        for key, given in state.given_back.items()
    }
    return frozenset(
        (int(key.name), float(value))
        for found in (held, late)
        for key, values in found.items()
        if key.setting in RATES
        for value in values
    )


def is_down(state: ExecutorState, key: ThrottleKey) -> bool:
    """Whether a setting belongs to a broker that is down: only the broker itself could change it."""
    return key.kind == "broker" and int(key.name) not in state.cluster.brokers


def told_debts(keys: Iterable[ThrottleKey]) -> str:
    """The brokers and topics that throttles are owed to, in words; "" where there are none."""
    brokers = sorted({int(key.name) for key in keys if key.kind == "broker"})
    told = [f"broker {broker}" for broker in brokers]
    told += [f"topic {name}" for name in sorted({key.name for key in keys if key.kind == "topic"})]
    return ", ".join(told)


def told_way_out(keys: Iterable[ThrottleKey], *, driven: bool = False, live: Collection[BrokerId] | None = None) -> str:
    """How owed throttles are given back or struck off, in words.

    `driven`: an executor at work gives them back. `live`: brokers that are up; None: it is not known.
    """
    owing = {int(key.name) for key in keys if key.kind == "broker"}
    brokers = sorted(owing.difference(live or ()))
    resumed = "an executor gives them back when it can: `shunter resume`, or with the next plan"
    if driven:
        resumed = "whoever drives this gives them back when it can"
    if owing and not brokers:
        turn = "the executor's next turn gives them back"
        return turn if driven else f"{turn}: `shunter resume`, or with the next plan"
    if not brokers:
        return resumed
    named = " ".join(f"--broker {broker}" for broker in brokers)
    return f"{resumed}; `shunter throttles forget {named}` strikes them off if that never comes back"
