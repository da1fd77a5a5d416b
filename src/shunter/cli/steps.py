"""`shunter steps`: a move on paper. Touches no cluster."""

from __future__ import annotations

import json

import click
from rich.console import Console
from rich.table import Table

from shunter.app.planning.steps import PaperMove, PaperStep, lay_out
from shunter.cli.broker_ids import BrokerIds
from shunter.core.wording import counted
from shunter.errors import RequestRejected


@click.command()
@click.option(
    "--replicas", type=BrokerIds(), required=True, help="The partition's brokers now, the preferred leader first."
)
@click.option("--target", type=BrokerIds(), required=True, help="The partition's brokers at the end, in this order.")
@click.option("--leader", type=int, help="The broker that leads now. Default: the first live replica in sync.")
@click.option("--isr", type=BrokerIds(), help="The brokers in sync now. Default: every replica that is not dead.")
@click.option("--dead", type=BrokerIds(), default=(), help="Brokers that are dead, and stay so.")
@click.option("--all-at-once", is_flag=True, help="Add all new replicas together and keep the old ones to the end.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def steps(
    *,
    replicas: tuple[int, ...],
    target: tuple[int, ...],
    leader: int | None,
    isr: tuple[int, ...] | None,
    dead: tuple[int, ...],
    all_at_once: bool,
    as_json: bool,
) -> None:
    """Show a move of one partition on paper, step by step.

    Each new replica is assumed in sync before the next step. No cluster is needed, and none is touched.

    \b
    Example:
      shunter steps --replicas 0,1,2 --target 3,4,5 --leader 0
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    try:
        move = lay_out(replicas, target, leader=leader, isr=isr, dead=dead, all_at_once=all_at_once)
    except RequestRejected as rejected:
        raise click.UsageError(rejected.message) from rejected
    if as_json:
        click.echo(json.dumps(_as_json(move)))
    else:
        _show(move, replicas)


def _as_json(move: PaperMove) -> dict[str, object]:
    """The documented shape; `waiting` is present only if the move can't reach its target while brokers are dead."""
    shape: dict[str, object] = {
        "steps": [
            {"dropped": step.dropped, "added": step.added, "replicas": step.replicas, "leader": step.leader}
            for step in move.steps
        ]
    }
    if move.waiting is not None:
        shape["waiting"] = {"reason": move.waiting_reason, "brokers": move.waiting_brokers, "text": move.waiting}
    return shape


def _show(move: PaperMove, replicas: tuple[int, ...]) -> None:
    console = Console(highlight=False)
    if not move.steps and move.waiting is None:
        console.print(f"Nothing to do: {_listed(replicas)} is the target already.")
        return
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for heading in ("step", "change", "replicas", "leader", "a rollback from here"):
        table.add_column(heading, justify="right" if heading == "leader" else "left", overflow="fold")
    table.add_row("start", "", _listed(replicas), _leader(move.leader), "")
    for number, step in enumerate(move.steps, start=1):
        table.add_row(str(number), _change(step), _listed(step.replicas), _leader(step.leader), _rollback(step))
    console.print(table)
    copies = sum(step.copied for step in move.steps)
    console.print(f"\n{counted(len(move.steps), 'step')}, {counted(copies, 'replica')} copied.")
    if move.waiting is not None:
        console.print(f"Then it {move.waiting}.")


def _change(step: PaperStep) -> str:
    """`-1 +4`, as KAFKA-6794 writes it; `order` if nothing is dropped or added."""
    signs = [f"-{broker}" for broker in step.dropped] + [f"+{broker}" for broker in step.added]
    return " ".join(signs) or "order"


def _rollback(step: PaperStep) -> str:
    return f"copies {counted(step.rollback_copies, 'replica')}" if step.rollback_copies else "is instant"


def _leader(leader: int) -> str:
    return str(leader) if leader >= 0 else "none"


def _listed(brokers: tuple[int, ...]) -> str:
    return f"({', '.join(str(broker) for broker in brokers)})"
