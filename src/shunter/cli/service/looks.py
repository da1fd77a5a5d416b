"""The commands of `shunter serve` that show a running service: its clusters, its proposals, and what happened."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click

from shunter.app.exit_codes import ExitCode
from shunter.app.service.client import ServiceClient
from shunter.cli.leaving import leave_with
from shunter.cli.service.place import service_options, the_cluster
from shunter.cli.tables import output_options, show_rows
from shunter.core.wording import counted, told_bytes, told_time
from shunter.errors import SettingsError


@click.command()
@service_options
@output_options
def status(service: ServiceClient, cluster: str, *, output: str) -> None:
    """Show how the clusters of a running service stand: what is wrong, what is being done, by whom.

    Exit status: 0 nothing is wrong; 1 something is wrong with a cluster; 2 the changed policy file is refused; 3 a
    cluster or the service does not answer; 5 the service's store can't be used.

    \b
    Example:
      shunter serve status --output table
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    leave_with(lambda: _status(service, cluster, output))


def _status(service: ServiceClient, cluster: str, output: str) -> int:
    fleet = service.fleet()
    names = [row["name"] for row in fleet["clusters"]]
    if cluster not in ("", *names):
        raise SettingsError(f"--cluster {cluster}: the service has no such cluster; it has {', '.join(names)}")
    rows = [_status_row(row) for row in fleet["clusters"] if cluster in ("", row["name"])]
    show_rows(output, rows, lambda row: _told_cluster(row, fleet["at_ms"]))
    for trouble in (fleet["store_trouble"], fleet["policy_trouble"]):
        if trouble:
            click.echo(f"shunter: {trouble}", err=True)
    found = (
        (any(row["state"] in ("unreachable", "starting") for row in rows), ExitCode.CLUSTER),
        (bool(fleet["store_trouble"]), ExitCode.JOURNAL),
        (bool(fleet["policy_trouble"]), ExitCode.USAGE),
        (any(row["severity"] in ("critical", "warning") for row in rows), ExitCode.PARTLY),
    )
    return int(next((code for holds, code in found if holds), ExitCode.DONE))


def _status_row(row: Any) -> dict[str, Any]:
    stands = row["situation"]
    told = ("severity", "headline", "doing", "state", "driver", "figures", "observed_at_ms")
    figures = ("brokers", "offline", "under_replicated", "conditions", "moves_open", "proposals_waiting")
    return {
        "cluster": row["name"],
        **{key: stands[key] for key in told},
        **{key: row[key] for key in figures},
        "paused": row["paused"]["who"] if row["paused"] else "",
        "notes": stands["notes"],
        "intents": row["intents"],
    }


def _told_cluster(row: Any, now_ms: int) -> str:
    """A cluster as the page shows it: its situation, then figures, with their age unless they are current."""
    lines = [f"{row['cluster']}: {row['severity']}: {row['headline']}", f"  {row['doing']}"]
    lines += [f"  {note}" for note in row["notes"]]
    lines += [f"  intents in force: {', '.join(row['intents'])}"] if row["intents"] else []
    if row["observed_at_ms"] is None:
        return "\n".join([*lines, "  its figures are not known"])
    age_s = max(0, now_ms - row["observed_at_ms"]) // 1000
    when = f"{age_s} s ago" if row["figures"] == "current" else f"old, of {age_s} s ago"
    figures = (
        f"{counted(row['brokers'], 'broker')}, {counted(row['offline'], 'partition')} offline, "
        f"{row['under_replicated']:,} under-replicated, {counted(row['conditions'], 'condition')}"
    )
    return "\n".join([*lines, f"  {figures} ({when})"])


@click.command()
@service_options
@click.option("--all", "ended", is_flag=True, help="List proposals that are over, too.")
@output_options
def proposals(service: ServiceClient, cluster: str, *, ended: bool, output: str) -> None:
    """List proposals: what each would move, and how far it has got.

    \b
    Example:
      shunter serve proposals --cluster prod
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped

    def work() -> int:
        found = service.proposals(the_cluster(service, cluster), ended=ended)
        figures = ("id", "state", "scope", "moves", "bytes", "least_bytes", "leader_changes", "rollback_bytes")
        keys = (*figures, "made_at_ms", "reasons", "held_back", "undone")
        rows = [
            {
                **{key: view["proposal"][key] for key in keys},
                "outcome": view["proposal"]["outcome"],
                "approvals": [vote["who"] for vote in view["proposal"]["votes"]],
                "wanted_approvals": view["wanted_votes"],
            }
            for view in found
        ]
        show_rows(output, rows, lambda row: told_proposal(row, when=" when it was planned"))
        if not rows and output == "text":
            click.echo("no proposal waits or runs")
        return int(ExitCode.DONE)

    leave_with(work)


def _bound(row: Any) -> str:
    """The least that any plan can copy, in brackets; "" if it is not known."""
    least = row["least_bytes"]
    return "" if least is None else f" (any plan that reaches all of it copies at least {told_bytes(least)})"


def told_proposal(row: Any, when: str = "") -> str:
    """A proposal: what it would copy and why, what it waits for, and how it ended."""
    size = f"{counted(row['moves'], 'replica')} to copy, {told_bytes(row['bytes'])}{_bound(row)}; a rollback copies {told_bytes(row['rollback_bytes'])}"
    seen = f"by the observation of {told_time(row['made_at_ms'])}"
    lines = [f"{row['id']} {row['state']}: {size} at the most, {seen}", *(f"  {each}" for each in row["reasons"])]
    if row["state"] == "waiting" and row.get("wanted_approvals", 0) > 1:
        who = ", ".join(row["approvals"]) or "nobody yet"
        lines.append(f"  approved by {len(row['approvals'])} of {row['wanted_approvals']}: {who}")
    lines += [f"  waits: {each}" for each in row["held_back"]]
    lines += [f"  left undone{when}: {each}" for each in row["undone"]]
    return "\n".join([*lines, *([f"  {row['outcome']}"] if row["outcome"] else [])])


@click.command()
@service_options
@click.option("--most", type=click.IntRange(1, 10_000), default=50, help="How many of the latest events are listed.")
@output_options
def events(service: ServiceClient, cluster: str, most: int, *, output: str) -> None:
    """List what happened: conditions, proposals, and orders with their givers, the oldest first.

    \b
    Example:
      shunter serve events --cluster prod --most 200
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped

    def work() -> int:
        view = service.timeline(cluster, most)
        keys = ("at_ms", "until_ms", "cluster", "kind", "subject", "who", "cause", "text")
        show_rows(output, [{key: each[key] for key in keys} for each in view["events"]], _told_event)
        since = "" if view["host_since_ms"] is None else f" since {told_time(view['host_since_ms'])}"
        told = f"the history of host {view['host']}{since}; of other hosts it has what they left in the cluster"
        click.echo(f"shunter: {told}", err=True)
        return int(ExitCode.DONE)

    leave_with(work)


def _told_event(row: Any) -> str:
    at = datetime.fromtimestamp((row["until_ms"] or row["at_ms"]) / 1000, UTC)
    cause = f" ({row['cause']})" if row["cause"] else ""
    about = f" {row['subject']}" if row["subject"] and row["subject"] not in row["text"] else ""
    return f"{at:%Y-%m-%d %H:%M:%S}Z {row['cluster'] or 'fleet'} {row['kind']}{about}: {row['text']}{cause}"


COMMANDS = (status, proposals, events)
