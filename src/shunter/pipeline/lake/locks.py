"""Locks, so that one process at a time derives a cluster's tables.

Model, hours and outlooks are replaced folder by folder: two processes at the same time would mix their folders.

```
ROOT/locks/CLUSTER@3.json           the third time that it was taken: by which process, since when, until when
ROOT/locks/CLUSTER@3.released.json  that process has released it
```

A number is created once, as in the log, so that of several processes that want a cluster one gets it. The lock of all
clusters is `*`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import quote, unquote

import orjson

from shunter.errors import DriverError, FormatError
from shunter.pipeline.lake.stores import Store

ALL = "*"
LEASE = timedelta(hours=6)
"""After this time a lock is void: no stage takes so long, and its process may have been killed."""
_RELEASED = ".released.json"
_SUFFIX = ".json"
_KEPT = 4


@dataclass(frozen=True, slots=True)
class LockHolder:
    """The holder of a lock. `machine` and `process` let another process of that machine see that it has ended."""

    stage: str
    machine: str
    process: int


@dataclass(frozen=True, slots=True)
class _Held:
    holder: LockHolder
    since: datetime
    until: datetime

    def told(self, cluster: str) -> str:
        which = "all clusters" if cluster == ALL else f"cluster {cluster}"
        who = f"`{self.holder.stage}` (process {self.holder.process} on {self.holder.machine})"
        return f"{which}: {who} is at it since {self.since:%Y-%m-%d %H:%M} UTC"


class ClusterLocks:
    """The locks of one lake."""

    def __init__(
        self, store: Store, place: str, clock: Callable[[], datetime], is_gone: Callable[[LockHolder], bool]
    ) -> None:
        """Take a store.

        Args:
            place: The name of the locks' folder in errors.
            clock: Returns the current time, UTC.
            is_gone: Whether a holder's process is known to have ended.
        """
        self._store = store
        self._place = place
        self._clock = clock
        self._is_gone = is_gone

    @contextlib.contextmanager
    def held(self, clusters: Sequence[str], holder: LockHolder) -> Iterator[None]:
        """Hold the locks of clusters (none named: all) while the context lasts.

        Raises:
            DriverError: another process holds one of them; the message names it.
        """
        wanted = sorted(set(clusters)) or [ALL]
        taken: list[tuple[str, int]] = []
        try:
            # One by one, so that the locks already taken are released if the next one can't be taken.
            taken.extend((cluster, self._take(cluster, holder)) for cluster in wanted)
            # First take the lock, then look at others: of two processes that take `*` and a cluster at the same time,
            # at least one sees the other.
            mine = {cluster for cluster, _ in taken}
            for other in self._others(wanted):
                if other not in mine:
                    self._refuse_if_held(other)
            yield
        finally:
            for cluster, number in taken:
                self._release(cluster, number)

    def _others(self, wanted: Sequence[str]) -> list[str]:
        """Other locks that exclude the wanted ones."""
        if wanted != [ALL]:
            return [ALL]
        return sorted({unquote(name.partition("@")[0]) for name in self._store.names("")} - {ALL})

    def _take(self, cluster: str, holder: LockHolder) -> int:
        number = self._refuse_if_held(cluster) + 1
        now = self._clock()
        told = {
            "stage": holder.stage, "machine": holder.machine, "process": holder.process, "since": now, "until": now + LEASE,
        }  # fmt: skip
        if not self._store.create(_name(cluster, number), orjson.dumps(told)):
            self._refuse_if_held(cluster)
            raise DriverError(f"{self._place}: cluster {cluster} was taken just now: run it again", retriable=True)
        return number

    def _refuse_if_held(self, cluster: str) -> int:
        """Refuse if another process holds the lock; else return the newest number of the lock."""
        number = self._newest(cluster)
        held = self._holder(cluster, number) if number else None
        if held is not None and self._clock() < held.until and not self._is_gone(held.holder):
            way = f"wait for it; a lock of a process that was killed on another machine ends by itself at {held.until:%H:%M} UTC"
            raise DriverError(f"{self._place}: {held.told(cluster)}: {way}", retriable=True)
        return number

    def _newest(self, cluster: str) -> int:
        begins = _name(cluster, None)
        stems = (name.removeprefix(begins).split(".")[0] for name in self._store.names("") if name.startswith(begins))
        return max((int(stem) for stem in stems if stem.isdigit()), default=0)

    def _holder(self, cluster: str, number: int) -> _Held | None:
        if self._store.read(_name(cluster, number, _RELEASED)) is not None:
            return None
        raw = self._store.read(_name(cluster, number))
        if raw is None:
            return None
        try:
            told = orjson.loads(raw)
            holder = LockHolder(told["stage"], told["machine"], told["process"])
            return _Held(holder, datetime.fromisoformat(told["since"]), datetime.fromisoformat(told["until"]))
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(f"{self._place}/{_name(cluster, number)}", f"is no lock: {error!r}") from error

    def _release(self, cluster: str, number: int) -> None:
        self._store.create(_name(cluster, number, _RELEASED), b"{}")
        for old in range(max(1, number - 2 * _KEPT), number - _KEPT):
            for suffix in (_SUFFIX, _RELEASED):
                self._store.delete(_name(cluster, old, suffix))


def _name(cluster: str, number: int | None, suffix: str = _SUFFIX) -> str:
    """The file of a lock; without a number, the prefix of all files of a cluster's lock."""
    begins = f"{quote(cluster, safe='')}@"
    return begins if number is None else f"{begins}{number}{suffix}"
