"""`./simulate`: worlds from seeds, until one breaks a rule."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import click

from lab.simulation.coverage import Coverage
from lab.simulation.kinds import KINDS, WorldKind
from lab.simulation.runs import WorldOutcome, run_seed, shrink
from shunter import __version__
from shunter.core.wording import counted

TAIL_LINES = 40


@click.command()
@click.option(
    "--world",
    "kind_name",
    type=click.Choice(list(KINDS)),
    default="controller",
    show_default=True,
    help="The controller's world (ZooKeeper, brokers) or the executor's (Admin API, journal).",
)
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="The first world's seed.")
@click.option("--seeds", type=click.IntRange(min=1), default=1, show_default=True, help="How many worlds, at most.")
@click.option("--steps", type=click.IntRange(min=0), help="Actions in each world. [drawn from its seed: 8 to 60]")
@click.option("--faults", metavar="LIST", help="Kinds of faults, with commas between; 'none' for none. [all]")
@click.option("--minutes", type=click.FloatRange(min=0, min_open=True), help="Begin no further world after this long.")
@click.option("--keep", metavar="LIST", help="Carry out only the actions with these numbers, as --shrink prints them.")
@click.option("--shrink", "shrinking", is_flag=True, help="Reduce a failing world to few actions that still fail.")
@click.option("--coverage", is_flag=True, help="Print what happened, how often, and what never happened.")
@click.option("--trace", is_flag=True, help="Print the end of each world's trace.")
def simulate(
    *,
    kind_name: str,
    seed: int,
    seeds: int,
    steps: int | None,
    faults: str | None,
    minutes: float | None,
    keep: str | None,
    shrinking: bool,
    coverage: bool,
    trace: bool,
) -> None:
    """Run simulated clusters against the real controller or executor, with faults, and check that nothing is lost.

    Each world follows from its seed alone, on virtual time, in this process; it touches no cluster. The controller's
    world has brokers, ZooKeeper, a network, several controllers and operators. The executor's world has a cluster with
    another controller, executors that die and come back, their journal, and other tools that move and throttle. The
    first world that breaks a rule ends the run, and the command that runs it again is printed.

    \b
    Exit status: 0 every world kept every rule; 1 a world broke one.

    \b
    Example:
      ./simulate --seed 1 --seeds 200 --coverage
      ./simulate --world executor --seeds 200
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    kind = KINDS[kind_name]
    chosen = _faults(faults, kind)
    kept = None if keep is None else {_number(part) for part in keep.split(",") if part.strip()}
    seen = Coverage()
    worlds = events = acknowledged = 0
    virtual = 0.0
    began = time.perf_counter()
    failed: WorldOutcome | None = None
    for number in range(seed, seed + seeds):
        if minutes is not None and worlds and time.perf_counter() - began > minutes * 60:
            break
        outcome = run_seed(number, kind=kind, steps=steps, faults=chosen, kept=kept)
        worlds, events = worlds + 1, events + outcome.events
        acknowledged, virtual = acknowledged + outcome.acknowledged, virtual + outcome.virtual_s
        seen.add(outcome.coverage)
        if trace:
            click.echo("\n".join(outcome.tail[-TAIL_LINES:]))
            click.echo(f"seed {number}: {outcome.events} events, trace {outcome.digest}")
        if outcome.violation is not None:
            failed = outcome
            break
    spent = time.perf_counter() - began
    click.echo(
        f"{counted(worlds, 'world')} (seeds {seed} to {seed + worlds - 1}): {events} events in {spent:.1f} s"
        f" ({events / max(spent, 0.001):.0f} a second), {virtual / 3600:.2f} h of virtual time,"
        f" {acknowledged} {kind.acknowledges} acknowledged"
    )
    if coverage:
        _show_coverage(seen, kind)
    if failed is not None:
        smaller = shrink(failed, kind=kind, steps=steps, faults=chosen) if shrinking else None
        _show_failure(failed, smaller, kind=kind, steps=steps, faults=faults, keep=keep)
        raise SystemExit(1)


def _faults(text: str | None, kind: WorldKind) -> tuple[str, ...]:
    if text is None:
        return tuple(kind.faults)
    named = tuple(part.strip() for part in text.split(",") if part.strip() not in {"", "none"})
    unknown = [name for name in named if name not in kind.faults]
    if unknown:
        raise click.UsageError(f"--faults names {', '.join(unknown)}; known are {', '.join(kind.faults)}")
    return named


def _number(text: str) -> int:
    if not text.strip().isdecimal():
        raise click.UsageError(f"--keep names {text.strip()!r}: write numbers of actions, as in 3,17,18")
    return int(text)


def _show_coverage(seen: Coverage, kind: WorldKind) -> None:
    for category, name, count in seen.rows():
        click.echo(f"{category:16} {count:>9}  {name}")
    gaps = seen.gaps(kind.expected)
    click.echo(f"never happened ({len(gaps)}): {', '.join(gaps) or 'nothing that is expected'}")


def _show_failure(
    failed: WorldOutcome,
    smaller: WorldOutcome | None,
    *,
    kind: WorldKind,
    steps: int | None,
    faults: str | None,
    keep: str | None,
) -> None:
    click.echo(f"seed {failed.seed} FAILED: {failed.violation}")
    click.echo("\n".join(failed.tail[-TAIL_LINES:]))
    if smaller is not None:
        keep = ",".join(str(number) for number, _ in smaller.kinds)
        click.echo(f"shrunk from {len(failed.kinds)} actions to {len(smaller.kinds)}: {smaller.violation}")
        click.echo("  " + ", ".join(f"{number} {name}" for number, name in smaller.kinds))
    world = "" if kind.name == "controller" else f" --world {kind.name}"
    command = f"./simulate{world} --seed {failed.seed}"
    command += f" --steps {steps}" if steps is not None else ""
    command += f" --faults {faults}" if faults is not None else ""
    command += f" --keep {keep}" if keep else ""
    if _git("status", "--porcelain", "--untracked-files=no", "--", ".."):
        click.echo("There are uncommitted changes: without them the command may do something else.")
    click.echo(f"again: git checkout {_commit()} && {command} --trace")


def _commit() -> str:
    """The commit that this code is from; its version if it is installed outside a repository."""
    # If the package is installed inside another repository, that repository's commit says nothing.
    tracked = _git("ls-files", Path(__file__).name)
    return (_git("rev-parse", "--short", "HEAD") if tracked else "") or f"v{__version__}"


def _git(*arguments: str) -> str:
    """The output of git in the folder of this file; "" if git fails or there is no git."""
    try:
        found = subprocess.run(
            ["git", *arguments], cwd=Path(__file__).parent, capture_output=True, text=True, check=True, timeout=10
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return found.stdout.strip()
