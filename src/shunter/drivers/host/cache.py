"""The folder for files that can be fetched again."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return `SHUNTER_CACHE`, else `XDG_CACHE_HOME`/shunter, else ~/.cache/shunter."""
    if own := environment.get("SHUNTER_CACHE"):
        return Path(own).expanduser().absolute()
    # The XDG specification says that relative paths are ignored.
    shared = Path(environment.get("XDG_CACHE_HOME") or "")
    return (shared if shared.is_absolute() else Path.home() / ".cache") / "shunter"
