"""Throttles that an ended execution owes: to whom they can't be given back now, and for how long that is waited for.

Only a broker itself changes its settings. So what a dead broker is owed stays in the journal when its execution is
closed; it is given back by whoever drives the journal when the broker is there again, or forgotten at an operator's word.
"""

from __future__ import annotations

from collections.abc import Iterable

from shunter.core.executor.state import ExecutorState
from shunter.model.execution import ThrottleKey

BOUNCE_MS = 60_000
"""A broker that has not been down for so long may be starting again: its settings are waited for."""


def waited_until_ms(state: ExecutorState, idle_since_ms: int, now_ms: int) -> int | None:
    """Until when the throttles that are left are waited for; None: no longer, all of them are owed to brokers that are down.

    Args:
        state: With no open move, and throttles that are not given back.
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


def is_down(state: ExecutorState, key: ThrottleKey) -> bool:
    """Whether a setting is of a broker that is not there: only the broker itself could change it."""
    return key.kind == "broker" and int(key.name) not in state.cluster.brokers


def told_debts(keys: Iterable[ThrottleKey]) -> str:
    """The brokers and topics that throttles are owed to, in words; "" where there are none."""
    brokers = sorted({int(key.name) for key in keys if key.kind == "broker"})
    told = [f"broker {broker}" for broker in brokers]
    told += [f"topic {name}" for name in sorted({key.name for key in keys if key.kind == "topic"})]
    return ", ".join(told)


def told_way_out(keys: Iterable[ThrottleKey]) -> str:
    """How owed throttles are paid, or got rid of."""
    brokers = sorted({int(key.name) for key in keys if key.kind == "broker"})
    resumed = "an executor gives them back when it can: `shunter resume`, or with the next plan"
    if not brokers:
        return resumed
    named = " ".join(f"--broker {broker}" for broker in brokers)
    return f"{resumed}; `shunter throttles forget {named}` strikes them off if that never comes back"
