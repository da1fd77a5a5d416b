"""`./demo`: the main job on real parts of this machine."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from pathlib import Path

import click
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from lab.demo import (
    Account,
    MovesSeen,
    ProvedOrNot,
    SequelAccount,
    ServedAccount,
    run_demo,
    run_kraft_demo,
    run_secured_demo,
    run_served_demo,
)  # fmt: skip
from shunter.errors import ShunterError

PLAIN_EVERY_S = 3.0


class TerminalScreen:
    """Shows the demo: a live panel on a terminal, plain lines elsewhere; understandable without colour."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._started = time.monotonic()
        self._live: Live | None = None
        self._last_plain = -PLAIN_EVERY_S

    def _stamp(self) -> str:
        return f"{time.monotonic() - self._started:6.1f} s"

    def close(self) -> None:
        """Leave the last panel standing."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def step(self, text: str) -> None:
        """Show that a step of the demo begins."""
        self.close()
        self._console.print(f"[bold]{self._stamp()}  {text}[/bold]", highlight=False, soft_wrap=True)

    def detail(self, text: str) -> None:
        """Show a detail of the step."""
        self.close()
        self._console.print(f"{self._stamp()}    {text}", highlight=False, markup=False, soft_wrap=True)

    def progress(self, progress: MovesSeen) -> None:
        """Show how far the moves have got."""
        if not self._console.is_terminal:
            now = time.monotonic()
            if now - self._last_plain >= PLAIN_EVERY_S:
                self._last_plain = now
                self._console.print(
                    f"{self._stamp()}    {plain(progress)}", highlight=False, markup=False, soft_wrap=True
                )
            return
        if self._live is None:
            self._live = Live(console=self._console, refresh_per_second=4)
            self._live.start()
        self._live.update(_panel(progress))

    def account(self, account: Account) -> None:
        """The end of the first half, on one screen."""
        self.close()
        self._console.print(_account(account))

    def sequel(self, account: SequelAccount) -> None:
        """The end of the second half, on one screen."""
        self.close()
        self._console.print(_sequel(account))
        self._console.print(f"report: {account.report}", highlight=False, markup=False, soft_wrap=True)

    def served(self, account: ServedAccount) -> None:
        """The end of the demo of the service, on one screen."""
        self.close()
        table = Table.grid(padding=(0, 2))
        for name, told in account.rows:
            table.add_row(name, told)
        self._console.print(_verdict(table, account.checks, holds=account.holds))


def plain(progress: MovesSeen) -> str:
    """One line for a log."""
    rate = "rate not known yet" if progress.rate_bytes_per_s is None else f"{progress.rate_bytes_per_s / 1e6:.1f} MB/s"
    eta = "ETA not known yet" if progress.eta_s is None else f"ETA {progress.eta_s:.0f} s"
    waits = f"; {progress.waits[0]}" if progress.waits else ""
    return (
        f"{progress.done}/{progress.partitions} partitions, {progress.moving} moving, {progress.pending} pending, "
        f"{progress.bytes_copied / 1e6:.0f}/{progress.bytes_total / 1e6:.0f} MB, {rate}, {eta}, "
        f"{progress.acked:,} records acked{waits}"
    )


def _panel(progress: MovesSeen) -> Panel:
    table = Table.grid(padding=(0, 2))
    table.add_row("partitions", ProgressBar(progress.partitions, progress.done, width=40), _parts(progress))
    told = f"{progress.bytes_copied / 1e6:.0f} of {progress.bytes_total / 1e6:.0f} MB"
    table.add_row("bytes", ProgressBar(max(1, progress.bytes_total), progress.bytes_copied, width=40), told)
    rate = "not known yet" if progress.rate_bytes_per_s is None else f"{progress.rate_bytes_per_s / 1e6:.1f} MB/s"
    eta = "not known yet" if progress.eta_s is None else f"{progress.eta_s:.0f} s"
    table.add_row("rate", rate, f"ETA {eta}")
    table.add_row("clients", f"{progress.acked:,} records acknowledged", f"{progress.consumed:,} consumed")
    waits = Text("\n".join(progress.waits) or "nothing waits", style="dim")
    return Panel(Group(table, waits), title=f"moving, {progress.elapsed_s:.0f} s", title_align="left")


def _parts(progress: MovesSeen) -> str:
    return f"{progress.done} done, {progress.moving} moving, {progress.pending} pending of {progress.partitions}"


def _account(account: Account) -> Panel:
    table = Table.grid(padding=(0, 2))
    table.add_row("moved", f"{account.moved} partitions, {account.bytes_copied / 1e6:.0f} MB, {account.moving_s:.1f} s")
    table.add_row("stopped", account.stopped)
    table.add_row("rolled back", account.rolled_back)
    table.add_row("records acknowledged", f"{account.records_acked:,}")
    table.add_row("longest ack gap", f"{account.longest_ack_gap_s:.2f} s")
    table.add_row(f"{account.killed} back after", f"{account.back_s:.1f} s")
    return _verdict(table, account.checks, holds=account.holds)


def _sequel(account: SequelAccount) -> Panel:
    table = Table.grid(padding=(0, 2))
    expected = "nothing" if account.planned_s is None else f"{account.planned_s:.1f} s expected"
    took = "nothing was executed" if account.took_s is None else f"{account.took_s:.1f} s taken, {expected}"
    table.add_row("moved", f"{account.copies} partitions, {account.bytes_copied / 1e6:.0f} MB, {took}")
    table.add_row("shares of the mean", f"{account.before} before")
    table.add_row("", f"{account.after} after")
    table.add_row("records acknowledged", f"{account.records_acked:,} meanwhile")
    table.add_row("first snapshot to report", f"{account.seconds:.0f} s")
    return _verdict(table, account.checks, holds=account.holds)


def _verdict(table: Table, checks: Iterable[ProvedOrNot], *, holds: bool) -> Panel:
    table.add_row("", "")
    for check in checks:
        mark = "[green]true [/green]" if check.holds else "[bold red]FALSE[/bold red]"
        table.add_row(mark, f"{check.claim} ({check.found})")
    return Panel(table, title="all of it held" if holds else "NOT all of it held", title_align="left")


@click.command()
@click.option("--kraft", is_flag=True, help="Use a KRaft cluster (4.1) and the executor instead of the controller.")
@click.option(
    "--secured", is_flag=True, help="Use a cluster with SASL_SSL, SCRAM and ACLs, the controller and the executor."
)
@click.option(
    "--serve",
    "serves",
    is_flag=True,
    help="Show the service: it keeps a KRaft cluster (4.1) in balance, with its page.",
)
@click.option("--open", "opens", is_flag=True, help="With --serve: open the page in a browser.")
@click.option("--keep", is_flag=True, help="Leave the cluster running at the end, and say how to use it.")
@click.option("--no-pipeline", is_flag=True, help="Leave the second half out.")
@click.option(
    "--report",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("demo-report.html"),
    show_default=True,
    help="The file for the report of the second half.",
)
def demo(*, kraft: bool, secured: bool, serves: bool, opens: bool, keep: bool, no_pipeline: bool, report: Path) -> None:
    """Show the main job on real parts of this machine: ZooKeeper, four Apache brokers, and Shunter's controller.

    The demo moves every partition of two brokers to two others while producers with acks=all and a consumer run. It
    kills the controller with SIGKILL in the middle, stops one move, rolls another one back, and proves that nothing
    was lost.

    Then it runs `shunter pipeline run` on the same cluster, which is out of balance now. The pipeline takes snapshots,
    models, plans, schedules, moves, accounts and writes a report. The brokers' shares are measured before and after.

    With --kraft the cluster has its own controller, and Shunter's executor does the first half from outside. The
    executor is the process that is killed. There is no second half.

    With --secured everything is under SASL_SSL, SCRAM-SHA-512 and ACLs. The controller moves and is killed. Then the
    executor moves everything back, as a user who may only move, and is killed. Users without rights are refused.

    With --serve the service keeps a KRaft cluster, and the address of its page is printed. The service sees that the
    cluster is out of balance and proposes a plan, which is approved through the HTTP API and carried out. The service
    is killed and goes on. A broker dies and is healed. Another broker is drained until it is safe to remove.

    Exit status: 0 only if every claim was true.

    \b
    Examples:
      ./demo --no-pipeline --keep
      ./demo --kraft
      ./demo --secured
      ./demo --serve --open
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    if secured + kraft + serves > 1:
        raise click.UsageError("--kraft, --secured and --serve: choose one of them")
    if secured and keep:
        raise click.UsageError("--secured does not go with --keep")
    if opens and not serves:
        raise click.UsageError("--open is for --serve")
    screen = TerminalScreen(Console())
    try:
        if secured:
            status = run_secured_demo(screen)
        elif serves:
            status = run_served_demo(screen, keep=keep, opens=opens)
        elif kraft:
            status = run_kraft_demo(screen, keep=keep)
        else:
            status = run_demo(screen, keep=keep, report=None if no_pipeline else report)
    except ShunterError as error:
        screen.close()
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        screen.close()
        click.echo("interrupted; everything that was started has been stopped", err=True)
        status = 130
    finally:
        screen.close()
    sys.exit(status)
