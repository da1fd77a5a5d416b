"""Turns what changes in ZooKeeper into events: a watch fires, its znode is read again, the event says what it is now.

Watches are armed before the cluster is read, and held back until that was posted, so that nothing falls between.
Each concern is one row of a table: a path, how it is armed, how it is read. News of our own writes is told by the
transaction (`Seen`) and goes nowhere.
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
from shunter.drivers.cluster_reader import ClusterReader, Seen, Unreadable
from shunter.drivers.supervision import Supervise
from shunter.drivers.zookeeper import CHUNK, WatchEvent, WatchKind, ZooKeeperClient, chunks
from shunter.drivers.zookeeper_requests import (
    CheckVersion,
    ConnectionLost,
    Remove,
    SessionLost,
    Znode,
    ZooKeeperRefused,
)
from shunter.formats import znodes
from shunter.formats.admin_znodes import decode_log_dir_event, decode_partitions
from shunter.formats.config_znodes import ConfigChange, decode_config_change
from shunter.model.partition import TopicPartition

logger = logging.getLogger(__name__)

_LINGER_SECONDS = 0.02
"""How long changed topics are gathered: our own writes' answers arrive meanwhile, and one read serves many."""
_TOPIC_PREFIX = f"{znodes.TOPICS}/"
_BROKER_PREFIX = f"{znodes.BROKER_IDS}/"
_REQUEST_PREFIX = f"{znodes.REASSIGNMENT_REQUESTS}/"
_CHANGED_TOPICS = "changed topics"
_WITHHELD = "what was withheld"
_FIRST_WATCHES = "the single topics and registrations"
_DELETED_AT_ONCE = 500
WITHHELD_SECONDS = 10.0
"""How often to look whether we may read what ZooKeeper withholds: no watch tells that an ACL was changed."""
AGAIN_SECONDS = 0.5
AGAIN_AT_MOST_SECONDS = 30.0
"""Seconds until a refused request to ZooKeeper is tried again: the first, doubled each time, up to the second."""


class ClusterWatches:
    """One worker reads again what changed, brokers first. Owned by the event loop."""

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
            post: Where events go.
            fence: The version of `/controller_epoch` that deletions of announcements check; None: don't delete.
            supervise: Gets the worker, which must not end while the term lasts.
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
        """The transaction that created the folder of announcements; 0: there is none."""
        self._last_preferred_election = 0
        client.listen(watches=self._on_watch)

    async def arm(self) -> None:
        """Watch everything but the single topics; what fires is kept until `release`."""
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
        """The cluster was posted: begin to post what changes, and to watch the single topics and registrations.

        Args:
            zxid: The transaction that what was posted is not older than.
            deleting: The deletion queue as posted.
            unreadable: Paths of what was left out of what was posted.
        """
        if not self._active:
            return
        self._known_deletions = set(deleting)
        # These znodes may have been there before us, and are not part of the snapshot.
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
        """What could not be read again, or watched, when it was last tried: its changes may not be known."""
        return tuple(sorted(self._refusals))

    def watch_new_topics(self, names: Iterable[str]) -> None:
        """We created these topics: watch them too."""
        self._unwatched_topics.update(dict.fromkeys(names))
        if self._unwatched_topics:
            self._mark(_CHANGED_TOPICS)

    def look_again(self, deleted: Iterable[str]) -> None:
        """We deleted these topics with their entries in the deletion queue: what has their names now is another's.

        Somebody may have made one anew, and queued it again, before we look: by its names the queue is as it was. So
        both lists are read again, after the batch's outcome was posted, and these names are news.
        """
        names = set(deleted)
        if self._active and names:
            self._known_deletions -= names
            self._mark(znodes.TOPICS)
            self._mark(znodes.DELETE_TOPICS)

    def look_again_at_deletions(self, names: Iterable[str]) -> None:
        """Topics in the deletion queue have become readable, were made anew, or are gone: their entries are looked at."""
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
        """Look at it now, unless the last look was refused: its timer looks again, later each time.

        A watch that is armed relative to a time before the change that we may not read fires at once, every time.
        """
        if concern not in self._refusals:
            self._mark(concern)

    def _mark(self, concern: str) -> None:
        self._dirty.add(concern)
        self._woken.set()

    async def _work(self, zxid: int) -> None:
        """Read again what is dirty, in the order of the table; topics that changed wait a little for company."""
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
        """Read a concern again; what is refused stays dirty, for its watch may not be armed any more."""
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
        """Arm first, then look: what changes after the look fires again.

        A watch is armed relative to the last transaction known of these topics, so that our own writes, which have
        fired already, don't fire once more.
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
            # We have deleted these while they were read, and look again for what has their names now.
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
        """Look whether we may read now what was withheld, and take it for changed then."""
        for portion in chunks(sorted(self._client.withheld), CHUNK):
            await self._client.get_many(portion)
            for path in portion:
                if path not in self._client.withheld:
                    logger.info("%s can be read again", path)
                    await self._read_at_last(path)
        self._later(WITHHELD_SECONDS, _WITHHELD)

    async def _read_at_last(self, path: str) -> None:
        """A znode that was withheld can be read. Partitions' states the core asks for by itself."""
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
        """One watch on the folder serves all requests, however many there are; what can't be read has one of its own."""
        await self._children(znodes.REASSIGNMENT_REQUESTS)
        unreadable = Unreadable()
        requests = await self._reader.requests(unreadable)
        if unreadable.found:
            for path, _ in unreadable.found:
                await self._client.exists(path, watch=True)
            requests = await self._reader.requests()  # With what was put right before it was watched.
        self._post(ReassignmentRequestsFound(requests))

    async def _read_deletions(self) -> None:
        names = set(await self._children(znodes.DELETE_TOPICS))
        new = names - self._known_deletions
        self._known_deletions = names
        if new - self._seen.topics.keys():
            try:
                await self._read_topics()  # Somebody may have created and deleted a topic since.
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
        if partitions is not None:
            self._post(ElectionRequested(partitions, queue_entry=True))

    async def _read_config_changes(self) -> None:
        """Only those announced since we came: older ones are in what was loaded. Brokers purge them, not we."""
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
        self._last_config_change = max(names)  # Not before: what is refused now is asked for again.
        if topics or brokers:
            self._post(ConfigsRead(topics, brokers))

    async def _config_changes(self) -> tuple[str, ...]:
        """Names of all announcements; where somebody made their folder anew, they are counted from 0 again."""
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
        """Brokers below 2.7 write the ISR themselves and announce it here."""
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
        """Delete announcements that were taken over; the next controller reads those again that could not be deleted."""
        fence = self._fence()
        if fence is None:
            return
        for portion in chunks(paths, _DELETED_AT_ONCE):
            try:
                await self._client.multi((CheckVersion(znodes.CONTROLLER_EPOCH, fence), *map(Remove, portion)))
            except (ConnectionLost, ZooKeeperRefused) as refusal:
                logger.info("announcements were left behind: %s", refusal)
