"""`./test --soak`: both yards at work side by side, and the table of what grew."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import Event

from lab.demo.account import ProvedOrNot
from lab.demo.stage import clients_log
from lab.soak.controlled import ControlledSoak
from lab.soak.gauges import Gauges, Judged, table_of
from lab.soak.served import ServedSoak
from lab.soak.yard import Soak

EVERY_S = 10.0
INTERRUPTED = 130


def main(arguments: Sequence[str]) -> int:
    """Soak for so many minutes; the exit status: 0 only if nothing grew without a bound and nothing was lost."""
    parser = argparse.ArgumentParser(prog="./test --soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="how long the work goes on (default: 60)")
    parser.add_argument("--seed", type=int, default=1, help="of the random work (default: 1)")
    parser.add_argument("--out", type=Path, help="a new folder for the table, the samples and the logs")
    asked = parser.parse_args(arguments)
    out = asked.out or Path(tempfile.mkdtemp(prefix="shunter-soak-"))
    out.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # SIGTERM, like ctrl-C, ends all parts in order.
    try:
        with clients_log(out / "clients.log"):
            held = _soak(out, asked.seed, asked.minutes)
    except KeyboardInterrupt:
        _tell(out, f"interrupted; everything that was started has been stopped. Logs are in {out}")
        return INTERRUPTED
    if held:  # The clusters' data is of interest only after a failure.
        shutil.rmtree(out / "work", ignore_errors=True)
    return 0 if held else 1


def _soak(out: Path, seed: int, minutes: float) -> bool:
    _tell(out, f"seed {seed}, {minutes:g} minutes; starting two clusters. Everything is written to {out}")
    served = ServedSoak(out, seed, minutes)
    controlled = ControlledSoak(out, seed, minutes)
    with ExitStack() as stack:
        for yard in (served, controlled):
            stack.enter_context(yard)
        gauges = _gauges(served, controlled)
        stack.callback(gauges.write, out / "samples.csv")  # Also after a failure.
        _measure(gauges, (served, controlled), minutes)
        rows = gauges.judged()
        _tell(out, f"\n{table_of(rows)}\n\n{served.told()}\n{controlled.told()}\n")
        checks = [*served.finish(), *controlled.finish()]
    return _is_well(out, rows, checks)


def _gauges(served: ServedSoak, controlled: ControlledSoak) -> Gauges:
    return Gauges(
        lambda: {**served.processes(), **controlled.processes()},
        {
            "journal": lambda: served.files("journal"),
            "service's folder": lambda: served.files("state"),
            "write-ahead logs": lambda: served.files("write-ahead logs"),
            "service's log": lambda: served.files("log"),
            "controllers' logs": controlled.logs,
        },
        controlled.cluster.zookeeper.connect_string,
    )


def _measure(gauges: Gauges, yards: Sequence[Soak], minutes: float) -> None:
    """Measure while the yards work; ends early if one of them fails.

    Raises:
        PartFailed: a part of a yard did not come back.
    """
    over = Event()
    until = time.monotonic() + minutes * 60
    with ThreadPoolExecutor(len(yards)) as threads:
        working: list[Future[None]] = [threads.submit(yard.work, over) for yard in yards]
        try:
            while time.monotonic() < until and not any(each.done() for each in working):
                gauges.look()
                over.wait(EVERY_S)
        finally:
            over.set()
    for each in working:
        each.result()


def _is_well(out: Path, rows: Sequence[Judged], checks: Sequence[ProvedOrNot]) -> bool:
    for check in checks:
        _tell(out, f"{'ok    ' if check.holds else 'FAILED'} {check.claim}: {check.found}")
    growing = [row for row in rows if not row.holds]
    for row in growing:
        _tell(out, f"FAILED {row.series.of} {row.series.what} {row.growth.verdict}, and no bound is known")
    return not growing and all(check.holds for check in checks)


def _tell(out: Path, text: str) -> None:
    print(text, flush=True)  # noqa: T201 - the command's output
    with (out / "table.txt").open("a", encoding="utf-8") as file:
        file.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
