"""Files that are for one user alone: those that we make, and those with passwords that we are given."""

from __future__ import annotations

import logging
import os
import stat
from functools import cache
from pathlib import Path

_LOG = logging.getLogger(__name__)


def keep_to_ourselves() -> None:
    """From now on files that this process makes are 0600, and folders 0700; what is there already stays as it is."""
    os.umask(0o077)


@cache
def tell_readers(path: Path) -> None:
    """Say so, once in a process, where others on this machine can read a file with passwords or a key."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return
    if mode & (stat.S_IRGRP | stat.S_IROTH):
        _LOG.warning("%s may be read by others on this machine, and holds passwords or a key: chmod 600 %s", path, path)
