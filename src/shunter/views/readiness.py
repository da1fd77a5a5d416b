"""Whether a controller process can do its work now, and sentences that say why not: for probes and for people."""

from __future__ import annotations

from typing import NamedTuple

from shunter.core.controller.state import ClusterView


class Readiness(NamedTuple):
    """`ready` is also True for a standby that could take over; `lines` say what it does, or what keeps it from that."""

    ready: bool
    lines: tuple[str, ...]


def readiness(view: ClusterView, obstacle: str | None, troubles: tuple[str, ...]) -> Readiness:
    """Decide whether the process is ready.

    Args:
        view: what the core publishes.
        obstacle: why this process is not the controller; None if no reason is known.
        troubles: faults that make it unready, a sentence each.
    """
    if troubles:
        return Readiness(False, troubles)
    if view.active:
        return Readiness(True, (f"in charge: controller epoch {view.controller_epoch}",))
    if view.controller_epoch:
        return Readiness(False, (f"reading the cluster as the controller of epoch {view.controller_epoch}",))
    if obstacle is not None:
        return Readiness(True, (f"standing by: {obstacle}",))
    return Readiness(False, ("standing for the controllership",))
