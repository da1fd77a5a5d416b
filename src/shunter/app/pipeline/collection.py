"""`shunter pipeline collect`: snapshots of a live cluster, written into a folder for `ingest`. It needs no Spark."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from shunter.app.access.private_files import replace_file
from shunter.app.client_configuration import configuration_of
from shunter.drivers.admin.inventory import take_inventory
from shunter.errors import DriverError
from shunter.formats.inventory_files import encode_inventory
from shunter.model.inventory import Inventory


def collect_once(bootstrap: str, properties: Path | None, folder: Path) -> tuple[Path, Inventory]:
    """Take one snapshot and write it atomically: a reader sees all of it, or nothing.

    Raises:
        DriverError: the cluster does not answer or does not let us in.
        FormatError, SettingsError: the properties file can't be used, or the folder can't be written to.
    """
    taken = take_inventory(configuration_of(bootstrap, properties))
    return keep_snapshot(taken, folder), taken


def keep_snapshot(taken: Inventory, folder: Path) -> Path:
    """Write a snapshot atomically: a reader sees all of it, or nothing.

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
    """Take snapshots at a steady pace, `count` of them or until `wait` ends the collection.

    Args:
        wait: Waits for this many seconds; returns True to end the collection.
        missed: Called after a round in which the cluster did not answer; then the next round is waited for. None: such
            a round ends the collection. The first round always ends it, because the address may be misspelt.

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
        # Rounds keep to the clock, not to the end of the last snapshot, so a slow snapshot does not shift those after
        # it. Rounds that a slow snapshot has missed are left out.
        if wait(every_seconds - (time.monotonic() - begun) % every_seconds):
            return
