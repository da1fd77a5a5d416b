"""The unsent requests to one broker, in order; a newer metadata update can take the place of older ones.

Requests keep their order, except superseded metadata updates: they are merged into ONE update that takes the place of
the OLDEST of them. So metadata may arrive earlier than decided, ahead of a LeaderAndIsr or StopReplica that was decided
before it, but never later. Early metadata are safe: a client that learns of a new leader early asks again until the
broker leads. Late metadata are not: a broker that gets a LeaderAndIsr before its first metadata does not know the
cluster.

- A full update supersedes every unsent update before it.
- If there are more than `limit` unsent incremental updates, they are merged, and the newest state of each partition
  wins. A run of updates ends where a topic appears under another topic id (it was deleted and created again): a broker
  that gets both ids in one request forgets the new one.
- A caller that waits for the answer to an update that was merged gets the answer to the merged update.
- A StopReplica that deletes is not sent before each LeaderAndIsr that was sent ahead of it has been answered
  (`may_send`). Otherwise the broker could handle both, and both would be sent again after a lost connection. Then the
  repeated LeaderAndIsr would create the deleted replica again, empty and perhaps as leader, until it is deleted again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from shunter.core.controller.ready import SendLeaderAndIsr, SendStopReplica, SendUpdateMetadata, TopicSlice
from shunter.drivers.brokers.bodies import SharedBody
from shunter.errors import ErrorCode
from shunter.model.partition import BrokerId, PartitionState, TopicPartition


@dataclass(slots=True, eq=False)
class QueuedRequest:
    """A request on its way to one broker. `queued_at` is seconds of a monotonic clock."""

    body: SharedBody
    request_ids: tuple[int, ...]
    queued_at: float
    version: int = -1
    sent_at: float = 0.0
    """When it was written, or when the entry before it was answered, whichever was later; seconds of the same clock."""
    awaited: deque[int] = field(default_factory=deque)
    """Correlation ids of requests that were sent and not answered; empty before the entry is sent."""
    error: ErrorCode = ErrorCode.NONE
    partition_errors: dict[TopicPartition, ErrorCode] = field(default_factory=dict)

    @property
    def metadata(self) -> SendUpdateMetadata | None:
        """The request, if it is a metadata update."""
        request = self.body.request
        return request if isinstance(request, SendUpdateMetadata) else None

    def begin(self, version: int, correlation_ids: Iterable[int]) -> None:
        """Note that the entry is being sent."""
        self.version = version
        self.awaited.extend(correlation_ids)

    def begin_anew(self) -> None:
        """Forget that the entry was sent."""
        self.awaited.clear()
        self.error = ErrorCode.NONE
        self.partition_errors = {}

    def note(self, error: ErrorCode, partition_errors: Mapping[TopicPartition, ErrorCode]) -> None:
        """Note an answer, or one of several answers."""
        self.error = self.error or error
        self.partition_errors.update(partition_errors)


class Backlog:
    """Unsent entries of one broker.

    Args:
        limit: how many unsent incremental updates are kept apart; with one more they are merged.
        merged: returns the body of a merged update, which is shared by brokers with the same unsent updates.
    """

    def __init__(self, limit: int, merged: Callable[[tuple[SharedBody, ...]], SharedBody]) -> None:
        self._entries: deque[QueuedRequest] = deque()
        self._limit = limit
        self._merged = merged
        self._incremental = 0
        self._updates = 0
        self.superseded = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[QueuedRequest]:
        return iter(self._entries)

    def append(self, entry: QueuedRequest) -> None:
        """Queue an entry behind all others, unless it supersedes updates before it."""
        update = entry.metadata
        if update is None:
            self._entries.append(entry)
            return
        if update.full and self._updates:
            self._supersede_all(entry)
            return
        self._entries.append(entry)
        self._count(entry, 1)
        if self._incremental > self._limit:
            self._merge_runs()

    def may_send(self, flying: Iterable[QueuedRequest]) -> bool:
        """Whether the first entry can be sent while those in `flying` are not answered yet."""
        if not self._entries:
            return False
        request = self._entries[0].body.request
        if not isinstance(request, SendStopReplica) or not any(stop.delete for stop in request.partitions):
            return True
        return not any(isinstance(entry.body.request, SendLeaderAndIsr) for entry in flying)

    def take(self) -> QueuedRequest:
        """Remove the entry that is to be sent next."""
        entry = self._entries.popleft()
        self._count(entry, -1)
        return entry

    def restore(self, entries: Iterable[QueuedRequest]) -> None:
        """Put the entries that were sent on a lost connection back, in front and in their order."""
        for entry in reversed(tuple(entries)):
            entry.begin_anew()
            self._entries.appendleft(entry)
            self._count(entry, 1)

    def clear(self) -> None:
        """Drop all entries."""
        self._entries.clear()
        self._incremental = self._updates = 0

    def _count(self, entry: QueuedRequest, change: int) -> None:
        update = entry.metadata
        if update is not None:
            self._updates += change
            self._incremental += 0 if update.full else change

    def _rebuild(self, entries: Iterable[QueuedRequest]) -> None:
        self.clear()
        for entry in entries:
            self._entries.append(entry)
            self._count(entry, 1)

    def _supersede_all(self, newest: QueuedRequest) -> None:
        updates = [entry for entry in self._entries if entry.metadata is not None]
        ids = tuple(request_id for entry in (*updates, newest) for request_id in entry.request_ids)
        standing = QueuedRequest(newest.body, ids, updates[0].queued_at)
        kept = (standing if entry is updates[0] else entry for entry in tuple(self._entries))
        self.superseded += len(updates)
        self._rebuild([entry for entry in kept if entry is standing or entry.metadata is None])

    def _merge_runs(self) -> None:
        """Merge each run of incremental updates into one, at the place of the run's first update."""
        places: dict[QueuedRequest, QueuedRequest] = {}
        gone: set[QueuedRequest] = set()
        for run in _runs(self._entries):
            if len(run) > 1:
                ids = tuple(request_id for entry in run for request_id in entry.request_ids)
                body = self._merged(tuple(entry.body for entry in run))
                places[run[0]] = QueuedRequest(body, ids, run[0].queued_at)
                gone.update(run[1:])
        self.superseded += len(gone)
        self._rebuild([places.get(entry, entry) for entry in tuple(self._entries) if entry not in gone])


def _runs(entries: Iterable[QueuedRequest]) -> Iterator[list[QueuedRequest]]:
    run: list[QueuedRequest] = []
    ids: dict[str, UUID | None] = {}
    for entry in entries:
        update = entry.metadata
        if update is None:
            continue
        if update.full:
            yield run
            run, ids = [], {}
            continue
        if any(ids.get(topic.name, topic.topic_id) != topic.topic_id for topic in update.topics):
            yield run
            run, ids = [], {}
        run.append(entry)
        ids.update((topic.name, topic.topic_id) for topic in update.topics)
    yield run


def merge_updates(updates: tuple[SendUpdateMetadata, ...]) -> SendUpdateMetadata:
    """Merge incremental updates, oldest first: the newest state of each partition, the newest brokers and epochs."""
    newest = updates[-1]
    ids: dict[str, UUID | None] = {}
    states: dict[str, dict[int, PartitionState]] = {}
    offline: dict[TopicPartition, tuple[BrokerId, ...]] = {}
    for update in updates:
        for topic in update.topics:
            ids[topic.name] = topic.topic_id
            partitions = states.setdefault(topic.name, {})
            for partition, state in topic.partitions:
                partitions[partition] = state
                offline.pop(TopicPartition(topic.name, partition), None)
        offline.update(update.offline)
    topics = tuple(TopicSlice(name, ids[name], tuple(sorted(found.items()))) for name, found in sorted(states.items()))
    return SendUpdateMetadata(
        request_id=newest.request_id,
        brokers=newest.brokers,
        controller_epoch=newest.controller_epoch,
        broker_epoch=max(update.broker_epoch for update in updates),
        live=newest.live,
        topics=topics,
        offline=offline,
    )
