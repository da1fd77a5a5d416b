"""Snapshots for the pipeline: the inventories of looks, kept on a schedule in the folder that `ingest` reads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from shunter.app.pipeline.collection import keep_snapshot
from shunter.app.service.words import Clocked
from shunter.core.keeper.sighting import Sighting


def snapshots_into(folder: Path | None, every_s: float, clock: Clocked) -> Callable[[Sighting], Awaitable[None]] | None:
    """A function that keeps a snapshot of one cluster if one is due; None: the policy file names no folder."""
    if folder is None:
        return None
    kept_ms: int | None = None

    async def maybe_keep(sighting: Sighting) -> None:
        nonlocal kept_ms
        now_ms = clock.now_ms()
        if kept_ms is None or abs(now_ms - kept_ms) >= every_s * 1000:  # `abs`: the clock may be set back.
            kept_ms = now_ms  # Set before the write: a failed write is tried again only when the next snapshot is due.
            await asyncio.to_thread(keep_snapshot, sighting.inventory, folder)

    return maybe_keep
