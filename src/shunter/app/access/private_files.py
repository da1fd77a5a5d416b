"""Files for one user alone: files that Shunter makes, and files with passwords that it is given."""

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
    """From now on this process makes files with mode 0600, and folders with 0700.

    Existing ones keep their modes, so a team that shares a journal gives it the group's rights once.
    """
    os.umask(0o077)


def replace_file(path: Path, content: bytes | Iterable[bytes]) -> None:
    """Replace a file atomically and durably. Only its owner may read it.

    Args:
        path: The file; its folder is made if it is missing.
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


def modes_for_others(status: os.stat_result, user: int) -> int:
    """The bits of a file's mode that let users read or write it who are neither its owner nor `user`.

    Kubernetes mounts a Secret as files of root that the group of the pod's user may read, so that one right is left out.
    """
    ours = stat.S_IRGRP if status.st_uid == 0 != user else 0
    return status.st_mode & (stat.S_IRWXG | stat.S_IRWXO) & ~ours


@cache
def tell_readers(path: Path) -> None:
    """Log a warning, once in a process, if other users of this machine can read a file with passwords or a key."""
    try:
        status = path.stat()
    except OSError:
        return
    if modes_for_others(status, os.geteuid()) & (stat.S_IRGRP | stat.S_IROTH):
        _LOG.warning("%s may be read by others on this machine, and holds passwords or a key: chmod 600 %s", path, path)
