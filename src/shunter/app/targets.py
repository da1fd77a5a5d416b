"""The target (addresses, login and journal) of a cluster of the settings file."""

from __future__ import annotations

from pathlib import Path

from shunter.app.executor.session import Target
from shunter.app.profiles import Profiles
from shunter.errors import SettingsError


def target_of(profiles: Profiles, name: str) -> Target:
    """The target of a cluster of the settings file.

    Raises:
        SettingsError: the file names no such cluster, or no bootstrap server for it.
    """
    own = {**profiles.common, **profiles.of(name)}
    if not own.get("bootstrap_server"):
        raise SettingsError(f"{profiles.path}: [cluster.{name}] has no bootstrap-server")
    files = {key: Path(own[key]) if own.get(key) else None for key in ("command_config", "journal")}
    return Target(own["bootstrap_server"], files["command_config"], files["journal"], own.get("journal_topic"))


__all__ = ["target_of"]
