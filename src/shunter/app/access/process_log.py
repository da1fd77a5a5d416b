"""The log of a process for people, on standard error. What repeats is counted, so that nothing can fill a disk."""

from __future__ import annotations

import logging
import sys
import time
from collections import Counter

A_MINUTE = 20
"""Messages of one kind (one logger, one text before its values) that are shown in a minute."""
OF_A_LIBRARY = 1
"""The same for kafka-python: each of its clients tells each failed connection, for as long as a broker is away."""
KINDS = 1_000


class Repeats(logging.Filter):
    """Lets a few messages of a kind pass in a minute; the next one that passes says how many were left out."""

    def __init__(self) -> None:
        super().__init__()
        self._minute = 0
        self._seen: Counter[tuple[str, str]] = Counter()
        self._left_out: Counter[tuple[str, str]] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        """See `logging.Filter`."""
        minute = int(record.created // 60)
        if minute != self._minute:
            self._minute, seen = minute, self._seen
            self._left_out = Counter({kind: more for kind, count in seen.items() if (more := count - _most(kind)) > 0})
            self._seen = Counter()
        kind = (record.name, str(record.msg))
        if kind not in self._seen and len(self._seen) >= KINDS:
            kind = ("", "")
        self._seen[kind] += 1
        if self._seen[kind] > _most(kind):
            return False
        if more := self._left_out.pop(kind, 0):
            record.msg = f"{record.msg} ({more} more like this in the minute before)"
        return True


def _most(kind: tuple[str, str]) -> int:
    return OF_A_LIBRARY if kind[0].startswith("kafka.") else A_MINUTE


def is_for_operators(record: logging.LogRecord) -> bool:
    """Whether a record is not kafka-python's hint to its developers that one of its own tasks took 0.1 s."""
    return not (record.name.startswith("kafka.") and "blocking the event loop" in str(record.msg))


def log_to_stderr() -> None:
    """Show warnings and errors, each kind a few times a minute."""
    handler = logging.StreamHandler(sys.stderr)
    formatter = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    handler.addFilter(is_for_operators)
    handler.addFilter(Repeats())
    logging.getLogger().addHandler(handler)
