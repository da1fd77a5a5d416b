"""Turns changes in ZooKeeper into events: a watch fires, its znode is read again, and the event has the new content.

Watches are armed before the cluster is read, and held back until the cluster was posted, so that no change is missed.
Each concern is one row of a table: its path and the function that reads it. Changes that this controller wrote itself
are recognized by their transaction (`Seen`) and are not posted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence

from shunter.core.controller.events import (
    BrokersRead,
    CancelZnodeFound,
    ConfigsRead,
    ElectionRequested,
    Event,
    ExtraReassignmentsFound,
    LegacyReassignmentsFound,
    LogDirsFailed,
    PartitionsRead,
    ReassignmentRequestsFound,
    TopicDeletionsFound,
    TopicsRead,
)
from shunter.drivers.host.supervision import Supervise
from shunter.drivers.zookeeper.client import CHUNK, WatchEvent, WatchKind, ZooKeeperClient, chunks
from shunter.drivers.zookeeper.reader import ClusterReader, Seen, Unreadable
from shunter.drivers.zookeeper.requests import (
    CheckVersion,
    ConnectionLost,
    Remove,
    SessionLost,
    Znode,
    ZooKeeperRefused,
)
from shunter.formats.znodes import paths as znodes
from shunter.formats.znodes.admin import decode_log_dir_event, decode_partitions
from shunter.formats.znodes.configs import ConfigChange, decode_config_change
from shunter.formats.znodes.text import WITHHELD
from shunter.model.partition import TopicPartition

logger = logging.getLogger(__name__)

_LINGER_SECONDS = 0.02
"""How long changed topics are gathered: answers to this controller's writes arrive, and one read serves many topics."""
_TOPIC_PREFIX = f"{znodes.TOPICS}/"
_BROKER_PREFIX = f"{znodes.BROKER_IDS}/"
_REQUEST_PREFIX = f"{znodes.REASSIGNMENT_REQUESTS}/"
_CHANGED_TOPICS = "changed topics"
_WITHHELD = "what was withheld"
_FIRST_WATCHES = "the single topics and registrations"
_DELETED_AT_ONCE = 500
WITHHELD_SECONDS = 10.0
"""How often withheld znodes are read again: no watch fires when an ACL changes."""
AGAIN_SECONDS = 0.5
AGAIN_AT_MOST_SECONDS = 30.0
"""Seconds until a refused request is tried again: `AGAIN_SECONDS`, doubled each time, up to `AGAIN_AT_MOST_SECONDS`."""


class ClusterWatches:
    """One worker task reads changed znodes again, brokers first. Use it on the event loop only."""

    def __init__(
        self,
        client: ZooKeeperClient,
        reader: ClusterReader,
        seen: Seen,
        post: Callable[[Event], None],
        fence: Callable[[], int | None],
        supervise: Supervise = lambda _: None,
    ) -> None:
        """Prepare; nothing is watched before `arm`.

        Args:
            client: A started client.
            reader: Reads through the same client.
            seen: Shared with the store.
            post: Takes the events.
            fence: Returns the version of `/controller_epoch` that deletions of announcements check; None: don't delete.
            supervise: Gets the worker task, which must not end while the term lasts.
        """
        self._client = client
        self._reader = reader
        self._seen = seen
        self._post = post
        self._fence = fence
        self._supervise = supervise
        self._refusals: dict[str, int] = {}
        self._again: set[asyncio.TimerHandle] = set()
        self._concerns: dict[str, Callable[[], Awaitable[None]]] = {
            znodes.BROKER_IDS: self._read_brokers,
            znodes.TOPICS: self._read_topics,
            znodes.CANCEL: self._read_cancel,
            znodes.LEGACY_REASSIGNMENTS: self._read_legacy,
            znodes.EXTRA_REASSIGNMENTS: self._read_extra,
            znodes.REASSIGNMENT_REQUESTS: self._read_requests,
            znodes.DELETE_TOPICS: self._read_deletions,
            znodes.LOG_DIR_EVENTS: self._read_log_dir_events,
            znodes.PREFERRED_ELECTION: self._read_preferred_election,
            znodes.CONFIG_CHANGES: self._read_config_changes,
            znodes.ISR_CHANGES: self._read_isr_changes,
            _CHANGED_TOPICS: self._read_changed_topics,
            _WITHHELD: self._read_withheld,
        }
        self._by_existence = {
            znodes.CANCEL,
            znodes.LEGACY_REASSIGNMENTS,
            znodes.EXTRA_REASSIGNMENTS,
            znodes.PREFERRED_ELECTION,
        }
        self._active = False
        self._dirty: set[str] = set()
        self._woken = asyncio.Event()
        self._worker: asyncio.Task[None] | None = None
        self._changed_topics: set[str] = set()
        self._unwatched_topics: dict[str, None] = {}
        self._known_deletions: set[str] = set()
        self._last_config_change = ""
        self._config_folder = 0
        """The transaction that created the folder of announcements; 0 if the folder does not exist."""
        self._last_preferred_election = 0
        client.listen(watches=self._on_watch)

    async def arm(self) -> None:
        """Arm all watches except those of single topics and registrations. What fires is kept until `release`."""
        self.stop()
        self._active = True
        self._last_preferred_election = 0
        for path in self._concerns:
            if path in self._by_existence:
                await self._client.exists(path, watch=True)
            elif path == znodes.CONFIG_CHANGES:
                self._last_config_change = max(await self._config_changes(), default="")
            elif path.startswith("/"):
                await self._children(path)

    def release(self, zxid: int, deleting: Iterable[str], unreadable: Iterable[str] = ()) -> None:
        """The cluster was posted: begin to post changes, and to watch the single topics and registrations.

        Args:
            zxid: A transaction that the posted cluster includes.
            deleting: The deletion queue as posted.
            unreadable: Paths of the znodes that the posted cluster leaves out because they can't be read.
        """
        if not self._active:
            return
        self._known_deletions = set(deleting)
        # These znodes may exist already, and are not part of the posted cluster.
        self._dirty |= {znodes.PREFERRED_ELECTION, znodes.LOG_DIR_EVENTS, znodes.ISR_CHANGES}
        if any(path.startswith(znodes.REASSIGNMENT_REQUESTS) for path in unreadable):
            self._dirty.add(znodes.REASSIGNMENT_REQUESTS)
        self._worker = asyncio.get_running_loop().create_task(self._work(zxid), name="watches")
        self._supervise(self._worker)
        self._later(WITHHELD_SECONDS, _WITHHELD)
        self._woken.set()

    def stop(self) -> None:
        """Post nothing more."""
        self._active = False
        if self._worker is not None:
            self._worker.cancel()
            self._worker = None
        for timer in self._again:
            timer.cancel()
        self._again.clear()
        self._refusals.clear()
        self._dirty.clear()
        self._changed_topics.clear()
        self._unwatched_topics.clear()

    @property
    def refused(self) -> tuple[str, ...]:
        """Concerns whose last attempt to read or watch was refused: their changes may be unknown."""
        return tuple(sorted(self._refusals))

    def watch_new_topics(self, names: Iterable[str]) -> None:
        """Watch topics that this controller has created."""
        self._unwatched_topics.update(dict.fromkeys(names))
        if self._unwatched_topics:
            self._mark(_CHANGED_TOPICS)

    def look_again(self, deleted: Iterable[str]) -> None:
        """Look again at topics that this controller has deleted together with their entries in the deletion queue.

        Another process may have created such a topic again and queued it for deletion again: then the names in the
        queue are the same as before. So both lists are read again after the batch's outcome was posted, and these names
        count as new.
        """
        names = set(deleted)
        if self._active and names:
            self._known_deletions -= names
            self._mark(znodes.TOPICS)
            self._mark(znodes.DELETE_TOPICS)

    def look_again_at_deletions(self, names: Iterable[str]) -> None:
        """Look again at queued deletions of topics that have become readable, were created again, or are gone."""
        known = self._known_deletions.intersection(names)
        if known:
            self._known_deletions -= known
            self._mark(znodes.DELETE_TOPICS)

    def _on_watch(self, event: WatchEvent) -> None:
        if not self._active:
            return
        path = event.path
        if path in self._concerns:
            self._hear(path)
        elif path.startswith(_TOPIC_PREFIX):
            if event.kind in {WatchKind.CHANGED, WatchKind.DELETED}:
                self._changed_topics.add(path.removeprefix(_TOPIC_PREFIX))
                self._hear(_CHANGED_TOPICS)
        elif path.startswith(_BROKER_PREFIX):
            self._hear(znodes.BROKER_IDS)
        elif path.startswith(_REQUEST_PREFIX):
            self._hear(znodes.REASSIGNMENT_REQUESTS)

    def _hear(self, concern: str) -> None:
        """Read a concern now, unless its last read was refused: then a timer reads it again, later each time.

        The timer is needed because a watch on a change that may not be read fires at once whenever it is armed again
        relative to a transaction before the change.
        """
        if concern not in self._refusals:
            self._mark(concern)

    def _mark(self, concern: str) -> None:
        self._dirty.add(concern)
        self._woken.set()

    async def _work(self, zxid: int) -> None:
        """Read dirty concerns again, in the order of the table; changed topics are gathered for a short time first."""
        try:
            while True:
                if await self._tried(_FIRST_WATCHES, lambda: self._watch_all(zxid)):
                    break
                await asyncio.sleep(self._again_in(_FIRST_WATCHES))
            while True:
                await self._woken.wait()
                self._woken.clear()
                if self._dirty == {_CHANGED_TOPICS}:
                    await asyncio.sleep(_LINGER_SECONDS)
                while self._dirty:
                    concern = next(name for name in self._concerns if name in self._dirty)
                    self._dirty.discard(concern)
                    await self._attempt(concern)
        except SessionLost:
            logger.info("watching ends: the ZooKeeper session is over")

    async def _attempt(self, concern: str) -> None:
        """Read a concern again. A refused concern is read again later, because its watch may no longer be armed."""
        self._seen.deleted.clear()
        if not await self._tried(concern, self._concerns[concern]):
            self._later(self._again_in(concern), concern)

    def _later(self, seconds: float, concern: str) -> None:
        loop = asyncio.get_running_loop()
        self._again = {timer for timer in self._again if timer.when() > loop.time()}
        self._again.add(loop.call_later(seconds, self._mark, concern))

    async def _tried(self, concern: str, work: Callable[[], Awaitable[None]]) -> bool:
        try:
            await work()
        except ZooKeeperRefused as refusal:
            self._refusals[concern] = self._refusals.get(concern, 0) + 1
            told = "reading or watching %s was refused, and is tried again in %g s: %s"
            logger.warning(told, concern, self._again_in(concern), refusal)
            return False
        self._refusals.pop(concern, None)
        return True

    def _again_in(self, concern: str) -> float:
        return min(AGAIN_AT_MOST_SECONDS, AGAIN_SECONDS * 2.0 ** min(self._refusals.get(concern, 1) - 1, 10))

    async def _watch_all(self, zxid: int) -> None:
        await self._watch_brokers(zxid)
        await self._client.arm_data_watches(map(znodes.topic, sorted(self._seen.topics)), zxid)

    async def _read_brokers(self) -> None:
        found = await self._reader.brokers(watch=True)
        self._post(BrokersRead(found.brokers))
        paths = [*(znodes.broker(broker.id) for broker in found.brokers), *found.unreadable]
        await self._client.arm_data_watches(paths, found.zxid)

    async def _watch_brokers(self, zxid: int) -> None:
        names = await self._children(znodes.BROKER_IDS)
        await self._client.arm_data_watches((f"{_BROKER_PREFIX}{name}" for name in sorted(names)), zxid)

    async def _read_topics(self) -> None:
        names = set(await self._children(znodes.TOPICS))
        new = names - self._seen.topics.keys()
        gone = sorted(self._seen.topics.keys() - names)
        if new or gone:
            await self._post_topics(new, gone)

    async def _read_changed_topics(self) -> None:
        """Arm the watches first, then read: a change after the read fires again.

        Watches are armed relative to the last known transaction of these topics, so that this controller's own writes,
        whose watches have fired already, don't fire once more.
        """
        changed, self._changed_topics = self._changed_topics, set()
        unwatched, self._unwatched_topics = self._unwatched_topics, {}
        names = sorted((changed | unwatched.keys()) & self._seen.topics.keys())
        if not names:
            return
        try:
            await self._look_at_topics(names)
        except ZooKeeperRefused:
            self._changed_topics.update(names)
            raise

    async def _look_at_topics(self, names: Sequence[str]) -> None:
        since = max(self._seen.topics[name] for name in names)
        paths = [znodes.topic(name) for name in names]
        await self._client.arm_data_watches(paths, since)
        others: list[str] = []
        gone: list[str] = []
        for portion in chunks(names, CHUNK):
            found, _ = await self._client.get_many([znodes.topic(name) for name in portion])
            for name, znode in zip(portion, found, strict=True):
                if znode is None:
                    gone.append(name)
                elif znode.mzxid != self._seen.topics.get(name):
                    others.append(name)
        if others or gone:
            await self._post_topics(others, [name for name in gone if name in self._seen.topics])

    async def _post_topics(self, names: Iterable[str], gone: Sequence[str]) -> None:
        found = await self._reader.topics(names)
        if past := {name for name, zxid in found.written.items() if zxid < self._seen.deleted.get(name, 0)}:
            # This controller deleted these topics while they were read. `look_again` reads topics of the same names.
            found = found.without(past)
        lost = sorted({*gone, *(name for name in found.gone if name in self._seen.topics)})
        for name in lost:
            self._seen.topics.pop(name, None)
        known = self._seen.topics
        newer = tuple(each for each in found.topics if found.written[each.topic.name] > known.get(each.topic.name, 0))
        fresh = [name for name in found.written if name not in known]
        known.update({name: max(zxid, known.get(name, 0)) for name, zxid in found.written.items()})
        if newer or lost or found.unreadable:
            self._post(TopicsRead(newer, tuple(lost), tuple(sorted(found.unreadable))))
            self.look_again_at_deletions({*lost, *(each.topic.name for each in newer)})
        self.watch_new_topics(fresh)

    async def _read_withheld(self) -> None:
        """Try to read withheld znodes again. A znode that can be read now is treated as changed."""
        for portion in chunks(sorted(self._client.withheld), CHUNK):
            await self._client.get_many(portion)
            for path in portion:
                if path not in self._client.withheld:
                    logger.info("%s can be read again", path)
                    await self._read_at_last(path)
        self._later(WITHHELD_SECONDS, _WITHHELD)

    async def _read_at_last(self, path: str) -> None:
        """Read a znode that is no longer withheld. The core itself asks for partitions' states."""
        parent, _, name = path.rpartition("/")
        if parent == znodes.TOPICS:
            self._seen.topics.pop(name, None)
            await self._post_topics((name,), ())
        elif parent == f"{znodes.CONFIGS}/topics":
            self._post(ConfigsRead(await self._reader.configs("topics", (name,)), {}))
        elif parent == f"{znodes.CONFIGS}/brokers":
            self._post(ConfigsRead({}, await self._reader.configs("brokers", (name,))))
        elif parent == znodes.BROKER_IDS:
            self._mark(znodes.BROKER_IDS)
        elif parent == znodes.REASSIGNMENT_REQUESTS:
            self._mark(znodes.REASSIGNMENT_REQUESTS)
        elif path in self._by_existence:
            self._seen.legacy = -1 if path == znodes.LEGACY_REASSIGNMENTS else self._seen.legacy
            self._seen.extra = -1 if path == znodes.EXTRA_REASSIGNMENTS else self._seen.extra
            self._mark(path)

    async def _read_legacy(self) -> None:
        await self._client.exists(znodes.LEGACY_REASSIGNMENTS, watch=True)
        unreadable = Unreadable()
        legacy, written = await self._reader.legacy(unreadable)
        if written == self._seen.legacy:
            return
        self._seen.legacy = written
        if not unreadable.found:
            self._post(LegacyReassignmentsFound(legacy))

    async def _read_cancel(self) -> None:
        await self._client.exists(znodes.CANCEL, watch=True)
        self._post(CancelZnodeFound(await self._reader.cancel()))

    async def _read_extra(self) -> None:
        await self._client.exists(znodes.EXTRA_REASSIGNMENTS, watch=True)
        unreadable = Unreadable()
        extra, written = await self._reader.extra_reassignments(unreadable)
        if written == self._seen.extra:
            return
        self._seen.extra = written
        if not unreadable.found:
            self._post(ExtraReassignmentsFound(extra))

    async def _read_requests(self) -> None:
        """Read all requests. One watch on the folder serves them; a request that can't be read gets its own watch."""
        await self._children(znodes.REASSIGNMENT_REQUESTS)
        unreadable = Unreadable()
        requests = await self._reader.requests(unreadable)
        if unreadable.found:
            for path, _ in unreadable.found:
                await self._client.exists(path, watch=True)
            requests = await self._reader.requests()  # Some may have been corrected before they were watched.
        self._post(ReassignmentRequestsFound(requests))

    async def _read_deletions(self) -> None:
        names = set(await self._children(znodes.DELETE_TOPICS))
        new = names - self._known_deletions
        self._known_deletions = names
        if new - self._seen.topics.keys():
            try:
                await self._read_topics()  # Another process may have created a topic and queued its deletion since.
            except ZooKeeperRefused:
                self._known_deletions -= new
                raise
        if new:
            self._post(TopicDeletionsFound(tuple(sorted(new))))

    async def _read_preferred_election(self) -> None:
        await self._client.exists(znodes.PREFERRED_ELECTION, watch=True)
        znode = await self._client.get(znodes.PREFERRED_ELECTION)
        if znode is None or znode.mzxid == self._last_preferred_election:
            return
        self._last_preferred_election = znode.mzxid
        partitions = Unreadable().attempt(decode_partitions, znodes.PREFERRED_ELECTION, znode.data)
        if partitions is None:
            if znode.data is WITHHELD:
                return
            # As by Apache's controller. A tool that comes later would find the path taken.
            logger.warning("%s is removed: nobody else would remove it", znodes.PREFERRED_ELECTION)
        self._post(ElectionRequested(partitions or (), queue_entry=True))

    async def _read_config_changes(self) -> None:
        """Read changes announced since `arm`; older ones are in the loaded cluster. Brokers purge the announcements."""
        names = [name for name in await self._config_changes() if name > self._last_config_change]
        if not names:
            return
        changes: set[ConfigChange] = set()
        for path, znode in await self._entries(znodes.CONFIG_CHANGES, names):
            change = Unreadable().attempt(decode_config_change, path, znode.data)
            if change is not None:
                changes.add(change)
        topics = await self._reader.configs("topics", (each.entity for each in changes if each.entity_type == "topics"))
        brokers = await self._reader.configs(
            "brokers", (each.entity for each in changes if each.entity_type == "brokers")
        )
        self._last_config_change = max(names)  # Set only now, so that a refused read is repeated.
        if topics or brokers:
            self._post(ConfigsRead(topics, brokers))

    async def _config_changes(self) -> tuple[str, ...]:
        """Names of all announcements. If their folder was created again, they are numbered from 0 again."""
        listed = await self._client.children(znodes.CONFIG_CHANGES, watch=True)
        names, folder = ((), 0) if listed is None else (listed[0], listed[1].czxid)
        if folder != self._config_folder:
            self._config_folder, self._last_config_change = folder, ""
        return names

    async def _read_log_dir_events(self) -> None:
        names = await self._children(znodes.LOG_DIR_EVENTS)
        entries = await self._entries(znodes.LOG_DIR_EVENTS, names)
        found = {Unreadable().attempt(decode_log_dir_event, path, znode.data) for path, znode in entries}
        brokers = sorted(broker for broker in found if broker is not None)
        if brokers:
            self._post(LogDirsFailed(tuple(brokers)))
        await self._delete([path for path, _ in entries])

    async def _read_isr_changes(self) -> None:
        """Read ISR changes that brokers below 2.7 wrote themselves and announced here."""
        names = await self._children(znodes.ISR_CHANGES)
        entries = await self._entries(znodes.ISR_CHANGES, names)
        partitions: set[TopicPartition] = set()
        for path, znode in entries:
            partitions.update(Unreadable().attempt(decode_partitions, path, znode.data) or ())
        if partitions:
            self._post(PartitionsRead(await self._reader.states(partitions)))
        await self._delete([path for path, _ in entries])

    async def _children(self, path: str) -> tuple[str, ...]:
        listed = await self._client.children(path, watch=True)
        return () if listed is None else listed[0]

    async def _entries(self, parent: str, names: Iterable[str]) -> list[tuple[str, Znode]]:
        entries: list[tuple[str, Znode]] = []
        for portion in chunks([f"{parent}/{name}" for name in sorted(names)], CHUNK):
            found, _ = await self._client.get_many(portion)
            entries += [(path, znode) for path, znode in zip(portion, found, strict=True) if znode is not None]
        return entries

    async def _delete(self, paths: Sequence[str]) -> None:
        """Delete announcements that were read. Those that can't be deleted are read again by the next controller."""
        fence = self._fence()
        if fence is None:
            return
        for portion in chunks(paths, _DELETED_AT_ONCE):
            try:
                await self._client.multi((CheckVersion(znodes.CONTROLLER_EPOCH, fence), *map(Remove, portion)))
            except (ConnectionLost, ZooKeeperRefused) as refusal:
                logger.info("announcements were left behind: %s", refusal)
