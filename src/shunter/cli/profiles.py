"""The source of an option's value: command line, environment, settings file, default. And the cluster that is meant."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from shunter.app.executor.session import Target
from shunter.app.exit_codes import ExitCode
from shunter.app.profiles import SETTINGS, Profiles, read_profiles, settings_file, variable_of
from shunter.app.targets import target_of
from shunter.cli.execution.display import say_json
from shunter.cli.leaving import told_error
from shunter.errors import SettingsError, ShunterError

_PROFILES = "shunter.profiles"
_NAMED = "shunter.cluster"
_UNKNOWN = "shunter.unknown"
_VARIABLES = {parameter: variable_of(setting) for setting, parameter in SETTINGS.items()}
_GIVEN = (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)
_WORST_FIRST = (
    ExitCode.CLUSTER, ExitCode.HELD, ExitCode.JOURNAL, ExitCode.USAGE, ExitCode.REFUSED, ExitCode.PARTLY,
    ExitCode.TURNED, ExitCode.LEFT, ExitCode.DONE,
)  # fmt: skip
"""Exit statuses, the worst first: the worst one counts if several clusters were looked at."""


_OF_FILE = "A cluster of the settings file, instead of --bootstrap-server."


def settable(command: Callable[..., Any], told: str = _OF_FILE) -> Callable[..., Any]:
    """Let those options of a command that are settings take values from environment and file; and add `--cluster`.

    This decorator goes above the options of a command.
    """
    for parameter in getattr(command, "__click_params__", ()):
        if parameter.name in _VARIABLES:
            parameter.envvar = _VARIABLES[parameter.name]
            # Read first: `_take_settings` needs to know whether the command line names a bootstrap server.
            parameter.is_eager = parameter.name == "bootstrap_server"
    return click.option(
        "--cluster",
        metavar="NAME",
        envvar="SHUNTER_CLUSTER",
        is_eager=True,
        expose_value=False,
        callback=_take_settings,
        shell_complete=_names,
        help=told,
    )(command)


def _take_settings(context: click.Context, _parameter: click.Parameter, cluster: str | None) -> None:
    """Take values from the settings file for options that the command line leaves out."""
    try:
        profiles = read_profiles()
        named = context.get_parameter_source("bootstrap_server") is ParameterSource.COMMANDLINE
        # --bootstrap-server goes before SHUNTER_CLUSTER, which may name another cluster.
        own = profiles.clusters.get(cluster, {}) if cluster and not named else {}
    except SettingsError as error:
        raise click.UsageError(str(error)) from error
    context.meta[_PROFILES] = (profiles, cluster if own else None)
    context.meta[_NAMED] = cluster or ""
    context.meta[_UNKNOWN] = bool(cluster and not named and cluster not in profiles.clusters)
    context.default_map = {**profiles.common, **own}


def the_bootstrap(bootstrap: str | None, *, required: bool = True) -> str:
    """The bootstrap server that was named.

    Raises:
        click.UsageError: none was named, or two were.
    """
    context = click.get_current_context()
    if context.meta.get(_UNKNOWN):  # A service may know the name although the settings file does not.
        profiles, _cluster = context.meta[_PROFILES]
        try:
            profiles.of(named_cluster())
        except SettingsError as error:
            raise click.UsageError(str(error)) from error
    source, profile = context.get_parameter_source("bootstrap_server"), context.get_parameter_source("cluster")
    if source is profile is ParameterSource.COMMANDLINE:
        raise click.UsageError("--cluster and --bootstrap-server both name a cluster: leave one out")
    if source is ParameterSource.ENVIRONMENT and profile in _GIVEN:
        raise click.UsageError(
            "--cluster (or SHUNTER_CLUSTER) and SHUNTER_BOOTSTRAP_SERVER both name a cluster: unset one"
        )
    if required and bootstrap is None:
        service = ", or --service (SHUNTER_SERVICE) of a running service" if "service" in context.params else ""
        told = f"Missing option '--bootstrap-server' (HOST:PORT), or --cluster with a name from {settings_file()}"
        raise click.UsageError(told + service)
    return bootstrap or ""


def named_cluster() -> str:
    """The name that `--cluster` has; "": none."""
    return str(click.get_current_context().meta.get(_NAMED, ""))


def is_from_file(name: str) -> bool:
    """Whether an option's value is from the environment or the settings file."""
    source = click.get_current_context().get_parameter_source(name)
    return source in (ParameterSource.ENVIRONMENT, ParameterSource.DEFAULT_MAP)


def is_on_command_line(name: str) -> bool:
    """Whether an option was given on the command line."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


def _names(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Names of clusters, for the shell's completion."""
    with suppress(ShunterError):
        return [CompletionItem(name) for name in sorted(read_profiles().clusters) if name.startswith(begun)]
    return []


# ---- a fleet


def fleet_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Let a command look at all clusters; hands it `fleet`."""
    told = "Look at every cluster of the settings file in turn; the worst exit status counts."
    return click.option("--all", "fleet", is_flag=True, help=told)(command)


def for_each_cluster(target: Target, look: Callable[[Target], int], *, as_json: bool) -> int:
    """Look at every cluster of the settings file; a cluster that fails does not hinder the next.

    Raises:
        SettingsError: the file names no cluster, or the command names one.
    """
    profiles = read_profiles()
    if target.bootstrap:
        raise SettingsError(
            "--all looks at every cluster of the settings file: leave out --cluster and --bootstrap-server"
        )
    if not profiles.clusters:
        raise SettingsError(f"--all: {profiles.path} names no cluster: [cluster.NAME] adds one")
    codes = [_look(profiles, name, look, as_json=as_json) for name in profiles.clusters]
    return int(worst_of(codes))


def worst_of(codes: Collection[int]) -> ExitCode:
    """The exit status that counts if several clusters were looked at."""
    return next(code for code in _WORST_FIRST if code in codes)


def _look(profiles: Profiles, name: str, look: Callable[[Target], int], *, as_json: bool) -> int:
    if as_json:
        say_json({"event": "cluster", "cluster": name})
    else:
        click.echo(f"== {name}")
    try:
        return look(target_of(profiles, name))
    except ShunterError as error:
        return told_error(error)


# ---- `shunter config`


def told_source(context: click.Context, name: str) -> str:
    """Where an option's value came from, for people."""
    source = context.get_parameter_source(name)
    profiles, cluster = context.meta.get(_PROFILES, (None, None))
    if source is ParameterSource.COMMANDLINE:
        return "command line"
    if source is ParameterSource.ENVIRONMENT:
        return f"environment, {_VARIABLES[name]}"
    if source is ParameterSource.DEFAULT_MAP and profiles is not None:
        own = cluster is not None and name in profiles.clusters[cluster]
        return f"{profiles.path}, [cluster.{cluster}]" if own else str(profiles.path)
    return "default"


__all__ = [
    "fleet_option",
    "for_each_cluster",
    "is_from_file",
    "is_on_command_line",
    "named_cluster",
    "settable",
    "the_bootstrap",
    "told_source",
    "worst_of",
]
