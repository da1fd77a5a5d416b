"""`shunter pipeline do`: several stages in a row, on one Spark."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import click

from shunter.cli.pipeline.options import complaining, settings_of

_APART = frozenset({"collect", "collect-prometheus", "do", "package", "run"})
"""Commands that are no stage: they need no Spark, or do all stages by themselves."""


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("stages", nargs=-1, required=True, type=click.UNPROCESSED, metavar="STAGE [OPTION]... [STAGE]...")
@click.pass_context
@complaining
def do(ctx: click.Context, stages: tuple[str, ...]) -> None:
    """Do several stages in a row on one Spark, which starts once; each stage with its own options.

    All options are read before Spark starts. The first stage that fails ends the row, with its exit status. A file or
    folder that is named like a stage is written ./model.

    \b
    Examples:
      shunter pipeline do ingest snapshots --kind snapshots model plan --out plans schedule report
    """  # noqa: D301 - click's own mark for a block that is not to be wrapped
    from shunter.app.pipeline.stages import KAFKA_SOURCE, spark_session  # noqa: PLC0415

    group = ctx.parent.command if ctx.parent is not None else None
    assert isinstance(group, click.Group), "this command is one of a group"
    row = cut(stages, {name: one for name, one in group.commands.items() if name not in _APART})
    asked = [command.make_context(command.name, list(words), parent=ctx.parent) for command, words in row]
    streams = any(one.params.get("topic") is not None for one in asked)
    read = [path for one in asked for name in ("paths", "journals") for path in one.params.get(name, ())]
    packages, beside = ((KAFKA_SOURCE,), None) if streams else ((), read)
    with spark_session(settings_of(ctx), packages=packages, beside=beside):
        for one in asked:
            with one:
                one.command.invoke(one)


def cut(words: Sequence[str], stages: Mapping[str, click.Command]) -> list[tuple[click.Command, list[str]]]:
    """Cut a command line at the names of stages; a name that is the value of an option begins no stage.

    Raises:
        UsageError: the first word is no stage.
    """
    row: list[tuple[click.Command, list[str]]] = []
    is_value = False
    for word in words:
        if word in stages and not is_value:
            row.append((stages[word], []))
            continue
        if not row:
            raise click.UsageError(f"{word!r} is no stage; stages are {', '.join(stages)}")
        command, own = row[-1]
        own.append(word)
        is_value = not is_value and word in _with_a_value(command)
    return row


def _with_a_value(command: click.Command) -> Collection[str]:
    options = [one for one in command.params if isinstance(one, click.Option)]
    return {name for one in options if not one.is_flag and not one.count for name in one.opts}
