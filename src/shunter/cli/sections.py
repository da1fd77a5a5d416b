"""Help under headings: of a group, every command with its whole first sentence; of a command, its many options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click


class Sections(click.Group):
    """A group that shows the whole first sentence of each command's help; click's own group cuts it off."""

    def __init__(self, *arguments: Any, sections: Mapping[str, tuple[str, ...]] | None = None, **options: Any) -> None:
        """Make the group; `sections` are headings with the names of commands, in the order of the help."""
        super().__init__(*arguments, **options)
        self._sections = sections

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write every command under its heading; without headings, all under `Commands`."""
        for title, names in (self._sections or {"Commands": tuple(self.list_commands(ctx))}).items():
            with formatter.section(title):
                formatter.write_dl([(name, told) for name in names if (told := self.summary_of(ctx, name)) is not None])

    def summary_of(self, ctx: click.Context, name: str) -> str | None:
        """Return the whole first sentence of a command's help; None: no such command."""
        command = self.get_command(ctx, name)
        return None if command is None else command.get_short_help_str(limit=1_000)


class ManyOptions(click.Command):
    """A command whose help shows first the options that people need most, and then the others under headings."""

    def __init__(self, *arguments: Any, sections: Mapping[str, tuple[str, ...]], **options: Any) -> None:
        """Make the command; `sections` are headings with the names of parameters. All others come first."""
        super().__init__(*arguments, **options)
        self._sections = sections

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write every option under its heading."""
        options = (each for each in self.get_params(ctx) if isinstance(each, click.Option))
        rows = {each.name: row for each in options if (row := each.get_help_record(ctx)) is not None}
        later = {name for names in self._sections.values() for name in names}
        for title, names in {"Options": tuple(rows.keys() - later), **self._sections}.items():
            if found := [row for name, row in rows.items() if name in names]:
                with formatter.section(title):
                    formatter.write_dl(found)
