"""`shunter completion`: the script that completes commands in a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script by which SHELL completes verbs, options, and the settings file's clusters.

    A start file of bash or zsh has `eval "$(shunter completion bash)"`, or zsh in its place; that of fish has
    `shunter completion fish | source`.

    \b
    Example:
      shunter completion bash
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    made = get_completion_class(shell)
    assert made is not None
    click.echo(made(ctx.find_root().command, {}, "shunter", "_SHUNTER_COMPLETE").source())
