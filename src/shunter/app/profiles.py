"""The operator's settings file: values for options that the command line leaves out, for all clusters or for one.

The command line goes before the environment, the environment before this file, and the file before defaults.
docs/settings.md describes it.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shunter.errors import SettingsError
from shunter.formats.text_files import text_of

SETTINGS = {
    "bootstrap-server": "bootstrap_server",
    "command-config": "command_config",
    "journal": "journal",
    "journal-topic": "journal_topic",
    "incremental": "incremental",
    "throttle": "throttle",
    "throttle-floor": "throttle_floor",
    "log-dir-throttle": "log_dir_throttle",
    "max-concurrent": "max_concurrent",
    "max-in": "max_in",
    "max-out": "max_out",
    "max-per-rack": "max_per_rack",
    "max-per-log-dir": "max_per_log_dir",
    "order": "orders",
    "disk-share": "disk_share",
    "headroom-percent": "headroom_percent",
    "bandwidth": "bandwidth",
    "only-between": "only_between",
    "relax-after": "relax_after",
    "output": "output",
    "service": "service",
    "token-file": "token_file",
    "ca-file": "ca_file",
}
"""The settings of the file: the name there, which is the flag's name, and the parameter's name. Flags that adopt, force
or agree (`--take-over`, `--force`, `--yes`) are not settings: they have to be given each time."""
_FILES = ("command-config", "journal", "service", "token-file", "ca-file")
_VALUES = (str, int, float, bool)


def variable_of(setting: str) -> str:
    """The environment variable of a setting: `max-in` is `SHUNTER_MAX_IN`."""
    return f"SHUNTER_{setting.replace('-', '_').upper()}"


VARIABLES = frozenset({"SHUNTER_CONFIG", "SHUNTER_CLUSTER", *map(variable_of, SETTINGS)})
"""Every environment variable that this module reads."""


def settings_file() -> Path:
    """The file's path: `$SHUNTER_CONFIG`, else `$XDG_CONFIG_HOME/shunter/config.toml`, else in `~/.config`."""
    named = os.environ.get("SHUNTER_CONFIG")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "shunter" / "config.toml"


@dataclass(frozen=True, slots=True)
class Profiles:
    """The contents of the file, by names of parameters."""

    path: Path
    common: dict[str, Any] = field(default_factory=dict[str, Any])
    clusters: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])

    def of(self, cluster: str) -> dict[str, Any]:
        """The settings of a cluster, without those for all clusters.

        Raises:
            SettingsError: the file names no such cluster.
        """
        if cluster not in self.clusters:
            known = ", ".join(sorted(self.clusters)) or "none"
            raise SettingsError(f"{self.path} names no cluster {cluster!r}; it names {known}: [cluster.NAME] adds one")
        return self.clusters[cluster]


def read_profiles() -> Profiles:
    """Read the file. A missing file is like an empty one, unless `$SHUNTER_CONFIG` names it.

    Raises:
        SettingsError: it can't be read, or has a wrong name or value; the error says which.
    """
    path = settings_file()
    try:
        document = tomllib.loads(text_of(path.read_bytes()))
    except FileNotFoundError as error:
        if os.environ.get("SHUNTER_CONFIG"):
            raise SettingsError(f"settings file {path}, which SHUNTER_CONFIG names, does not exist") from error
        return Profiles(path)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"settings file {path}: {error}") from error
    clusters = document.pop("cluster", {})
    if not isinstance(clusters, dict) or not all(isinstance(each, dict) for each in clusters.values()):
        raise SettingsError(
            f"settings file {path}: `cluster` is not a table: write [cluster.NAME] above a cluster's settings"
        )
    common = _settings(path, "", document)
    if "bootstrap_server" in common and clusters:
        raise SettingsError(
            f"settings file {path}: bootstrap-server stands above all clusters: put it under [cluster.NAME]"
        )
    return Profiles(
        path, common, {name: _settings(path, f"[cluster.{name}] ", each) for name, each in clusters.items()}
    )


def meant(name: str, known: Collection[str]) -> str:
    """A hint about an unknown name: the known name that it resembles, or all known names."""
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"


def _settings(path: Path, where: str, table: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in table.items():
        if name not in SETTINGS:
            raise SettingsError(f"settings file {path}: {where}{name} is not a setting; {meant(name, SETTINGS)}")
        values = value if isinstance(value, list) and name == "order" else [value]
        if not all(isinstance(each, _VALUES) for each in values):
            raise SettingsError(
                f"settings file {path}: {where}{name} = {value!r}: a text, a number, or true or false is wanted"
            )
        # Relative paths are relative to the settings file, not to the working directory.
        is_path = name in _FILES and "://" not in str(value)
        found[SETTINGS[name]] = str(path.parent / Path(str(value)).expanduser()) if is_path else value
    return found


__all__ = ["SETTINGS", "VARIABLES", "Profiles", "meant", "read_profiles", "settings_file", "variable_of"]
