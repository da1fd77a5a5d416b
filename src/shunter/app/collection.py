"""`shunter pipeline collect`: snapshots of a live cluster, written where `ingest` finds them. Needs no Spark."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from shunter.app.client_configuration import configuration_of
from shunter.app.private_files import replace_file
from shunter.drivers.admin.inventory import take_inventory
from shunter.errors import DriverError
from shunter.formats.inventory_files import encode_inventory
from shunter.model.inventory import Inventory


def collect_once(bootstrap: str, properties: Path | None, folder: Path) -> tuple[Path, Inventory]:
    """Take one snapshot and write it whole: a reader sees all of it, or nothing.

    Raises:
        DriverError: the cluster does not answer or does not let us in.
        FormatError, SettingsError: the properties file can't be used, or the folder not be written to.
    """
    taken = take_inventory(configuration_of(bootstrap, properties))
    return keep_snapshot(taken, folder), taken


def keep_snapshot(taken: Inventory, folder: Path) -> Path:
    """Write a snapshot whole: a reader sees all of it, or nothing.

    Raises:
        FormatError: the folder can't be written to.
    """
    path = folder / f"{taken.cluster_id}-{taken.taken_at_ms}.jsonl"
    replace_file(path, encode_inventory(taken))
    return path


def collect_every(
    bootstrap: str,
    properties: Path | None,
    folder: Path,
    *,
    every_seconds: float,
    count: int | None,
    wait: Callable[[float], bool],
    missed: Callable[[str], None] | None = None,
) -> Iterator[tuple[Path, Inventory]]:
    """Take snapshots at a steady pace, `count` of them or until told to end.

    Args:
        wait: Waits so many seconds; True ends the collection.
        missed: Hears of a round in which the cluster did not answer, and the next one is waited for; None ends the
            collection there. The first round always does: nobody waits for a cluster whose address is misspelt.

    Raises:
        DriverError, FormatError, SettingsError: as `collect_once`.
    """
    done = 0
    begun = time.monotonic()
    while True:
        try:
            yield collect_once(bootstrap, properties, folder)
            done += 1
        except DriverError as error:
            if missed is None or done == 0 or not error.retriable:
                raise
            missed(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} no snapshot: {error}; the next round tries again")
        if count is not None and done >= count:
            return
        # Against the clock, not against the end of the last snapshot: a slow one must not shift all that follow. What
        # was overslept is left out.
        if wait(every_seconds - (time.monotonic() - begun) % every_seconds):
            return
