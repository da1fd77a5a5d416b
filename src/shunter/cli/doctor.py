"""`shunter doctor`: what is wrong with a cluster before anything is moved, and what to do about it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import click

from shunter.app.doctor import examine
from shunter.app.executor.session import Target
from shunter.app.exit_codes import ExitCode
from shunter.cli.execution.display import say_json
from shunter.cli.execution.options import journal_options
from shunter.cli.leaving import leave_with
from shunter.cli.profiles import fleet_option, for_each_cluster, the_bootstrap
from shunter.core.wording import counted
from shunter.model.check_up import Level
from shunter.views.findings import finding_lines, finding_values

_BAD = (Level.WARNING, Level.PROBLEM)


@click.command()
@journal_options
@fleet_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line: each finding, then the end.")
def doctor(target: Target, *, fleet: bool, as_json: bool) -> None:
    """Examine a cluster before you move anything; nothing is changed.

    It looks at brokers and each of their listeners, versions, the metadata quorum, partitions out of sync,
    min.insync.replicas against replication, disks, moves under way and who asked for them, throttles left behind,
    clocks, whether your certificate expires soon, and your permissions. Each finding says what to do about it.

    \b
    Exit status: 0 nothing is wrong; 1 there are warnings or problems; 3 the cluster does not answer.

    \b
    Examples:
      shunter doctor --bootstrap-server kafka1:9092
      shunter doctor --bootstrap-server kafka1:9092 --json
      shunter doctor --all
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped

    def look(at: Target) -> int:
        return asyncio.run(_doctor(at, as_json=as_json))

    if fleet:
        leave_with(lambda: for_each_cluster(target, look, as_json=as_json))
    leave_with(lambda: look(replace(target, bootstrap=the_bootstrap(target.bootstrap))))


async def _doctor(target: Target, *, as_json: bool) -> int:
    seen, findings = await examine(target)
    bad = [finding for finding in findings if finding.level in _BAD]
    code = ExitCode.PARTLY if bad else ExitCode.DONE
    if as_json:
        for finding in findings:
            say_json({"event": "finding", **finding_values(finding)})
        counts = {level.value: sum(finding.level is level for finding in findings) for level in Level}
        say_json({"event": "end", "exit": int(code), "cluster": seen.cluster_id, "counts": counts})
        return int(code)
    by = "not known" if seen.controller is None else seen.controller
    click.echo(
        f"cluster {seen.cluster_id}: {counted(len(seen.brokers), 'broker')}, controller {by}, {seen.controlled_by}"
    )
    for line in finding_lines(findings):
        click.echo(line)
    click.echo(
        f"{len(bad)} of {counted(len(findings), 'finding')} {'wants' if len(bad) == 1 else 'want'} something done"
        if bad
        else "nothing is wrong"
    )
    return int(code)
