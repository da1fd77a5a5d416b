"""Waits for real parts: always for a condition, always with a bound."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from lab.testbed.failures import PartFailed

POLL_INTERVAL_S = 0.05

# A bound is there to detect a hang, not slowness. On a busy machine this factor makes every bound longer.
PATIENCE = float(os.environ.get("SHUNTER_TEST_PATIENCE", "1"))


def wait_until(
    condition: Callable[[], bool],
    *,
    what: str,
    timeout_s: float,
    interval_s: float = POLL_INTERVAL_S,
) -> float:
    """Poll `condition` until it holds.

    Args:
        condition: Called every `interval_s` seconds; its exceptions go to the caller.
        what: The condition in words, for the error, such as "ZooKeeper answers on 127.0.0.1:2181".
        timeout_s: The bound, in seconds; it is multiplied by `SHUNTER_TEST_PATIENCE`.
        interval_s: Time between two calls, in seconds.

    Returns:
        Seconds waited.

    Raises:
        PartFailed: The bound was reached.
    """
    bound_s = timeout_s * PATIENCE
    started = time.monotonic()
    while not condition():
        waited = time.monotonic() - started
        if waited >= bound_s:
            raise PartFailed(f"waited {waited:.1f} s (bound {bound_s:g} s) in vain until {what}")
        time.sleep(interval_s)
    return time.monotonic() - started


def stays(condition: Callable[[], bool], *, for_s: float, interval_s: float = POLL_INTERVAL_S) -> bool:
    """Whether `condition` holds at every look for a while.

    Args:
        condition: Called every `interval_s` seconds; its exceptions go to the caller.
        for_s: How long, in seconds. `SHUNTER_TEST_PATIENCE` does not apply, because more could happen in a longer time.
        interval_s: Time between two calls, in seconds.
    """
    until = time.monotonic() + for_s
    while condition():
        if time.monotonic() >= until:
            return True
        time.sleep(interval_s)
    return False
