"""Whether a controller process can do its work now, and in sentences why not: for probes, and for people."""

from __future__ import annotations

from typing import NamedTuple

from shunter.core.controller.state import ClusterView


class Readiness(NamedTuple):
    """`ready` is True for a standby that could take over, too; `lines` say what it does, or what is in the way."""

    ready: bool
    lines: tuple[str, ...]


def readiness(view: ClusterView, obstacle: str | None, troubles: tuple[str, ...]) -> Readiness:
    """Sum it up.

    Args:
        view: what the core publishes.
        obstacle: why we are not the controller; None where nothing is known to be in the way.
        troubles: what must not be so; each a sentence.
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
