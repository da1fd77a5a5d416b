"""The folders of Shunter's state."""

from __future__ import annotations

import os
from pathlib import Path


def state_folder() -> Path:
    """The folder of journals: `$SHUNTER_STATE`, else `$XDG_STATE_HOME/shunter`, else `~/.local/state/shunter`."""
    named = os.environ.get("SHUNTER_STATE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "shunter"


def service_folder() -> Path:
    """The default folder of the service's state."""
    return state_folder() / "service"
