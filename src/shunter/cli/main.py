"""`shunter`: the command, and its verbs."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import click

from shunter import __version__
from shunter.app.access.private_files import keep_to_ourselves
from shunter.app.exit_codes import ExitCode
from shunter.cli.outlet import failure_at_end, let_out
from shunter.cli.sections import Sections

_VERBS = {
    "bundle": "shunter.cli.bundle:bundle",
    "config": "shunter.cli.config:config",
    "controller": "shunter.cli.controller:controller",
    "demote": "shunter.cli.plan:demote",
    "doctor": "shunter.cli.doctor:doctor",
    "drain": "shunter.cli.plan:drain",
    "execute": "shunter.cli.execution.execute:execute",
    "executor": "shunter.cli.execution.execute:executor",
    "hand-back": "shunter.cli.hand_back:hand_back",
    "history": "shunter.cli.execution.history:history",
    "kafka-reassign-partitions": "shunter.cli.reassign_partitions:kafka_reassign_partitions",
    "kafka-topics": "shunter.cli.topics:kafka_topics",
    "limit": "shunter.cli.execution.turn:limit",
    "list": "shunter.cli.execution.look:list_command",
    "pause": "shunter.cli.execution.turn:pause",
    "pipeline": "shunter.cli.pipeline.group:pipeline",
    "plan": "shunter.cli.plan:plan",
    "rebalance": "shunter.cli.plan:rebalance",
    "relax": "shunter.cli.execution.turn:relax",
    "resume": "shunter.cli.execution.turn:resume",
    "rollback": "shunter.cli.execution.turn:rollback",
    "serve": "shunter.cli.service.serve:serve",
    "status": "shunter.cli.execution.look:status",
    "steps": "shunter.cli.steps:steps",
    "stop": "shunter.cli.execution.turn:stop",
    "throttles": "shunter.cli.execution.throttles:throttles",
    "token": "shunter.cli.service.token:token",
    "undo": "shunter.cli.execution.history:undo",
    "verify": "shunter.cli.execution.verify:verify",
    "watch": "shunter.cli.execution.look:watch",
    "why": "shunter.cli.why:why",
}
"""Module and name of each verb. A verb is imported when it is called: `shunter plan` starts without Spark or kio."""


_GROUPS = {
    "Plan": ("steps", "plan"),
    "Move": (
        "execute",
        "drain",
        "demote",
        "rebalance",
        "executor",
        "resume",
        "rollback",
        "stop",
        "pause",
        "limit",
        "relax",
        "undo",
    ),
    "Look": ("doctor", "status", "watch", "list", "verify", "history", "throttles", "config"),
    "Keep clusters in balance": ("serve", "token"),
    "Run a controller": ("controller", "why", "hand-back"),
    "Install it elsewhere": ("bundle",),
    "Data pipeline": ("pipeline",),
    "Apache's tools, replaced": ("kafka-reassign-partitions", "kafka-topics"),
}
"""Headings of the help, by what people do, and the verbs under each, in order."""


class _LazyGroup(Sections):
    """A group whose commands are imported when they are asked for, and whose output never ends a command."""

    def main(self, *arguments: Any, **options: Any) -> Any:
        """Run a command, as click does."""
        let_out()
        try:
            return super().main(*arguments, **options)
        except SystemExit as end:
            failure = failure_at_end()
            if not failure:
                raise
            click.echo(f"shunter: {failure}", err=True)
            sys.exit(end.code or ExitCode.PARTLY)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *_VERBS})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _VERBS:
            return super().get_command(ctx, cmd_name)
        module, name = _VERBS[cmd_name].split(":")
        command = getattr(import_module(module), name)
        assert isinstance(command, click.Command)
        return command


@click.group(
    cls=_LazyGroup,
    sections=_GROUPS,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
)
@click.version_option(__version__, prog_name="shunter")
def main() -> None:
    """Move Kafka partitions between brokers: stoppable, reversible, nothing lost."""
    keep_to_ourselves()
