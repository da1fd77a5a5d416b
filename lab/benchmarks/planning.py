"""`shunter plan` as a whole process against other planners: quality, bytes, wall time, memory.

    python lab/benchmarks/planning.py [--shapes mid,big] [--seeds 7,11,23] [--cap 5] [--no-peers]

Inputs are drawn by planning_inputs.py. Peers (kafka-utils 4.1.0, kafka-tools 0.1.9) are installed into an environment
of their own in the cache folder; if pip fails, they are left out with a message. With --cap each planner's plan is
also compared at that share of all bytes: Shunter's by its own cap, the peers' by stopping their plan there. The joint
bound is that of `shunter plan --bound lp`, in a separate run that is not part of any planner's time; the disk bound
is the scorer's.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path
from typing import Any, NamedTuple

from planning_inputs import SHAPES, Score, first_part, planning_input, score

PEERS = ("kafka-utils", "kafka-tools")
PACKAGES = ("kafka-utils==4.1.0", "kafka-tools==0.1.9", "six")
HERE = Path(__file__).resolve().parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))) / "shunter" / "planning-peers"


class Run(NamedTuple):
    """One finished process: its plan, wall and processor seconds, largest resident size in MB."""

    plan: list[dict[str, Any]]
    seconds: float
    processor: float
    megabytes: float


def run(command: list[str], timeout: float) -> Run | str:
    """Run a planner; returns a text about the failure if it fails."""
    began, used = time.perf_counter(), _processor_of_children()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as told:
        process = subprocess.Popen(command, stdout=out, stderr=told)
        try:
            usage = _wait(process, timeout)
        except TimeoutError:
            process.kill()
            process.wait()
            return f"over {timeout:.0f} s"
        seconds = time.perf_counter() - began
        if process.returncode != 0:
            told.seek(0)
            return "failed: " + told.read().decode(errors="replace").strip().splitlines()[-1][:100]
        out.seek(0)
        return Run(json.load(out)["partitions"], seconds, _processor_of_children() - used, usage / 1024)


def _processor_of_children() -> float:
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def _wait(process: subprocess.Popen[bytes], timeout: float) -> float:
    """Wait for a process; returns its largest resident size in KiB, by polling (wait4 includes the parent's)."""
    ends = time.monotonic() + timeout
    largest = 0.0
    status = Path(f"/proc/{process.pid}/status")
    while process.poll() is None:
        if time.monotonic() > ends:
            raise TimeoutError
        with contextlib.suppress(OSError, StopIteration):
            seen = next(row for row in status.read_text(encoding="ascii").splitlines() if row.startswith("VmHWM"))
            largest = max(largest, float(seen.split()[1]))
        time.sleep(0.01)
    return largest


def peers_python() -> Path | None:
    """Make the peers' environment once; prints the reason and returns None if that fails."""
    python = CACHE / "bin" / "python"
    ready = CACHE / "ready"
    if ready.exists():
        return python
    try:
        venv.create(CACHE, with_pip=True, clear=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", *PACKAGES], check=True, timeout=300)
    except (OSError, subprocess.SubprocessError) as error:
        print(f"peers are left out, their packages can't be installed: {error}", file=sys.stderr)
        return None
    ready.touch()
    return python


def ours(path: Path, *more: str) -> list[str]:
    """Build the command line of `shunter plan` as its own process."""
    start = "from shunter.cli import main; main()"
    return [sys.executable, "-c", start, "plan", "--from", str(path), *more]


def joint_bound(path: Path, timeout: float) -> float | None:
    """The linear programme's bound, as `shunter plan --bound lp` prints it; None if it prints none in time."""
    try:
        told = subprocess.run(ours(path, "--bound", "lp"), capture_output=True, text=True, timeout=timeout, check=True)
    except subprocess.SubprocessError:
        return None
    found = re.search(r"lower bound ([0-9.]+) % .*linear programme", told.stderr)
    return None if found is None else float(found[1])


def line(name: str, found: Run | str, reached: Score | None, joint: float | None = None) -> str:
    """One row of the table."""
    if isinstance(found, str) or reached is None:
        return f"| {name} | {found} | | | | | | | | | | |"
    spread = " | ".join(f"{low:.3f}-{high:.3f}" for low, high in (reached.disk, reached.replicas, reached.leaders))
    above = reached.bytes_percent - reached.bound_percent
    over_joint = "" if joint is None else f"{reached.bytes_percent - joint:+.2f}"
    return (
        f"| {name} | {found.seconds:.2f} s | {found.processor:.2f} s | {found.megabytes:.0f} MB | {spread} | {reached.rack_violations} "
        f"| {reached.moves} | {reached.bytes_percent:.2f} % | {above:+.2f} | {over_joint} |"
    )


HEAD = (
    "| planner | wall | processor | memory | disk | replicas | leaders | rack violations | moves | bytes | over the disk bound | over the joint bound |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
)


def one_input(shape: str, seed: int, asked: argparse.Namespace, python: Path | None, folder: Path) -> None:
    """Compare all planners on one input."""
    cluster = planning_input(SHAPES[shape], seed)
    path = folder / f"{shape}-{seed}.json"
    path.write_text(json.dumps(cluster), encoding="utf-8")
    joint = joint_bound(path, asked.timeout) if asked.joint else None
    least = f"at least {score(cluster, []).bound_percent:.2f} % must move for disk"
    least += "" if joint is None else f", {joint:.2f} % for disk, replicas and leaders together"
    print(f"\n{shape}, seed {seed}: {least}\n{HEAD}")
    runs: dict[str, Run | str] = {"shunter": run(ours(path), asked.timeout)}
    if python is not None:
        for peer in PEERS:
            command = [str(python), str(HERE / "planning_peers.py"), peer, str(path)]
            runs[peer] = run(command, asked.timeout)
    for name, found in runs.items():
        print(line(name, found, None if isinstance(found, str) else score(cluster, found.plan), joint), flush=True)
    if asked.cap:
        capped = run(ours(path, "--max-bytes-percent", str(asked.cap)), asked.timeout)
        print(
            line(
                f"shunter, cap {asked.cap} %", capped, None if isinstance(capped, str) else score(cluster, capped.plan)
            )
        )
        for peer in PEERS:
            found = runs.get(peer)
            if isinstance(found, Run):
                part = found._replace(plan=first_part(cluster, found.plan, asked.cap))
                print(line(f"{peer}, stopped at {asked.cap} %", part, score(cluster, part.plan)), flush=True)
    first = runs["shunter"]
    if isinstance(first, Run):
        told = [
            f"{peer} {found.seconds / first.seconds:.1f} x" for peer, found in runs.items() if isinstance(found, Run)
        ]
        print(f"wall time over shunter's: {', '.join(told[1:]) or 'no peer finished'}")
    path.unlink()


def main() -> None:
    """Print one table per input."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", default="mid,big")
    parser.add_argument("--seeds", default="7,11,23")
    parser.add_argument("--cap", type=float, default=5.0)
    parser.add_argument("--timeout", type=float, default=120.0)
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--no-joint", dest="joint", action="store_false", help="leave the linear programme out")
    asked = parser.parse_args()
    python = None if asked.no_peers else peers_python()
    with tempfile.TemporaryDirectory() as folder:
        for shape in asked.shapes.split(","):
            for seed in asked.seeds.split(","):
                one_input(shape, int(seed), asked, python, Path(folder))


if __name__ == "__main__":
    main()
