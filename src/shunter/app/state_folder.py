"""Where Shunter keeps what it has to remember."""

from __future__ import annotations

import os
from pathlib import Path


def state_folder() -> Path:
    """Where journals live: `$SHUNTER_STATE`, else `$XDG_STATE_HOME/shunter`, else `~/.local/state/shunter`."""
    named = os.environ.get("SHUNTER_STATE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "shunter"


def service_folder() -> Path:
    """Where the service keeps what it knows, unless told otherwise."""
    return state_folder() / "service"
