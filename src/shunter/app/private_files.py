"""Files that are for one user alone: those that we make, and those with passwords that we are given."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from shunter.errors import FormatError

_LOG = logging.getLogger(__name__)


def keep_to_ourselves() -> None:
    """From now on files that this process makes are 0600, and folders 0700; what is there already stays as it is."""
    os.umask(0o077)


def replace_file(path: Path, content: bytes | Iterable[bytes]) -> None:
    """Write a file anew: readers see the old one or the new one, never half of one. Only its owner may read it.

    Args:
        path: Its folder is made where there is none.
        content: The bytes, or parts of them that are written one after another.

    Raises:
        FormatError: it can't be written.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.unlink(missing_ok=True)
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.writelines((content,) if isinstance(content, bytes) else content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        raise FormatError(str(path), f"can't be written: {error.strerror}") from error


@cache
def tell_readers(path: Path) -> None:
    """Say so, once in a process, where others on this machine can read a file with passwords or a key."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return
    if mode & (stat.S_IRGRP | stat.S_IROTH):
        _LOG.warning("%s may be read by others on this machine, and holds passwords or a key: chmod 600 %s", path, path)
