"""`shunter`: the command, and its verbs."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem

from shunter import __version__
from shunter.app.access.private_files import keep_to_ourselves
from shunter.app.exit_codes import ExitCode
from shunter.cli.extras import way_out
from shunter.cli.outlet import failure_at_end, let_out
from shunter.cli.sections import Sections
from shunter.cli.verbs import VERBS

_VERBS = {name: verb for verbs in VERBS.values() for name, verb in verbs.items()}


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
        except ModuleNotFoundError as missing:
            verb = next((word for word in sys.argv[1:] if word in _VERBS), None)
            if (told := way_out(missing, verb)) is None:
                raise
            click.echo(f"shunter: {told}", err=True)
            sys.exit(ExitCode.USAGE)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *_VERBS})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _VERBS:
            return super().get_command(ctx, cmd_name)
        module, name = _VERBS[cmd_name].place.split(":")
        command = getattr(import_module(module), name)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does; a scope that is no verb is told as such."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            from shunter.app.planning.plan import SCOPES  # noqa: PLC0415 - no command pays for this import

            if args[0] in SCOPES:
                ctx.fail(f"No such command '{args[0]}': it is a scope, `shunter plan --scope {args[0]}`.")
            raise

    def summary_of(self, ctx: click.Context, name: str) -> str | None:
        return _VERBS[name].summary if name in _VERBS else super().summary_of(ctx, name)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        return [CompletionItem(name, help=self.summary_of(ctx, name)) for name in names]


@click.group(
    cls=_LazyGroup,
    sections={title: tuple(verbs) for title, verbs in VERBS.items()},
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
)
@click.version_option(__version__, prog_name="shunter")
def main() -> None:
    """Move Kafka partitions between brokers: stoppable, reversible, nothing lost."""
    keep_to_ourselves()
