"""The controller's store on ZooKeeper: fenced atomic batches, and reads whose answers are events.

Every multi begins with a check of `/controller_epoch`'s version. A controller that is elected later raises it, and from
then on every multi of this controller fails as a whole. Parent znodes, and znodes below those to be deleted, are looked
up before a batch that needs them.
"""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager

from shunter.core.controller.events import (
    BatchRefused,
    BatchWritten,
    ClusterLoaded,
    Elected,
    Event,
    PartitionsRead,
)
from shunter.core.controller.ready import LoadCluster, Read, WriteBatch
from shunter.drivers.zookeeper import requests as wire
from shunter.drivers.zookeeper.client import CHUNK, ZooKeeperClient, chunks
from shunter.drivers.zookeeper.reader import ClusterReader, Seen
from shunter.drivers.zookeeper.requests import (
    CheckVersion,
    Committed,
    ConnectionLost,
    Create,
    Operation,
    Put,
    Remove,
    RequestTooGreat,
    SessionLost,
    Znode,
    ZooKeeperRefused,
)
from shunter.drivers.zookeeper.store_operations import (
    MultiPlan,
    folders_to_list,
    happened,
    paths_to_find,
    plan,
    transaction,
)
from shunter.drivers.zookeeper.watches import ClusterWatches
from shunter.errors import DriverError, ErrorCode, RequestRejected
from shunter.formats.znodes import paths as znodes
from shunter.model.records import (
    CheckTopic,
    DeleteTopic,
    PutExtraReassignments,
    PutLegacyReassignments,
    PutPartition,
    PutReassignment,
    PutRegistration,
    PutTopic,
    Record,
)
from shunter.model.weights import DELETED_AT_ONCE

logger = logging.getLogger(__name__)

_CONFLICTS = {wire.BAD_VERSION, wire.NO_NODE, wire.NODE_EXISTS, wire.NOT_EMPTY}
_ATTEMPTS = 4
NO_FENCE = -2


class ZooKeeperStore:
    """Implements `drivers.seams.ControllerStore`. `begin` sets the fence of an election, `end` removes it."""

    def __init__(
        self,
        client: ZooKeeperClient,
        reader: ClusterReader,
        watches: ClusterWatches,
        seen: Seen,
        post: Callable[[Event], None],
        on_fenced: Callable[[], None],
    ) -> None:
        """Prepare; nothing is written before `begin`.

        Args:
            client: A started client.
            reader: Reads through the same client.
            watches: Armed before the cluster is read, and released after it was posted.
            seen: Shared with `watches`, which recognize this store's writes by it.
            post: Takes the answers of reads.
            on_fenced: Called when a write meets another controller epoch than its term's.
        """
        self._client = client
        self._reader = reader
        self._watches = watches
        self._seen = seen
        self._post = post
        self._on_fenced = on_fenced
        self._epoch_version = NO_FENCE
        self._reading: set[asyncio.Task[None]] = set()
        self.before_load: Callable[[], Awaitable[None]] | None = None
        """Called before the cluster is read."""

    def begin(self, elected: Elected) -> None:
        """Begin a term: every write from now on checks this election's version."""
        self.end()
        self._epoch_version = elected.epoch_version

    def end(self) -> None:
        """End the term: every write is refused without asking ZooKeeper, and reads are cancelled.

        A read under way would mix two terms, and the next term would take it for its own.
        """
        self._epoch_version = NO_FENCE
        for task in self._reading:
            task.cancel()
        self._reading.clear()

    async def read(self, read: Read) -> None:
        """Carry out a read and post its answer; if the term ends meanwhile, there is no answer."""
        if self._epoch_version == NO_FENCE:
            return
        task = asyncio.get_running_loop().create_task(self._read(read))
        self._reading.add(task)
        task.add_done_callback(self._reading.discard)
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError:
            task.cancel()
            raise
        if not task.cancelled():
            task.result()

    async def _read(self, read: Read) -> None:
        try:
            if isinstance(read, LoadCluster):
                await self._load()
            else:
                self._post(PartitionsRead(await self._reader.states(read.partitions)))
        except SessionLost:
            logger.info("a read was given up: the ZooKeeper session is over")

    async def _load(self) -> None:
        if self.before_load is not None:
            await self.before_load()
        await self._watches.arm()
        with _collector_paused():
            found = await self._reader.cluster()
        self._seen.topics = dict(found.written)
        self._seen.legacy = found.legacy_written
        self._seen.extra = found.extra_written
        self._post(ClusterLoaded(found.snapshot))
        unreadable = (path for path, _ in found.snapshot.unreadable)
        self._watches.release(found.zxid, found.snapshot.deleting_topics, unreadable)

    async def write(self, batch: WriteBatch) -> BatchWritten | BatchRefused:
        """Carry out one atomic, fenced batch; after a lost connection, first find out whether it was written.

        A batch that is larger than ZooKeeper accepts is refused as `too-great`, before it is sent.
        """
        fence = self._epoch_version
        if fence == NO_FENCE:
            return BatchRefused(batch.batch_id, "fenced")
        try:
            for record in batch.records:
                if type(record) is DeleteTopic and len(record.partitions) > DELETED_AT_ONCE:
                    await self._thin_out(record, fence)
            return await self._write(batch, fence)
        except _FencedOffError:
            if self._epoch_version == fence:
                self._on_fenced()
            return BatchRefused(batch.batch_id, "fenced")
        except SessionLost:
            return BatchRefused(batch.batch_id, "fenced")
        except RequestTooGreat as too_great:
            logger.warning("batch %d: %s", batch.batch_id, too_great)
            return BatchRefused(batch.batch_id, "too-great")
        except ZooKeeperRefused as refusal:
            # An index below 0 is the check of the fence: then nothing can be written at all.
            forbidden = refusal.code == wire.NO_AUTH and refusal.index >= 0
            # A notice reports a forbidden write once; but a leader may ask for it every second.
            logger.log(logging.DEBUG if forbidden else logging.ERROR, "batch %d failed: %s", batch.batch_id, refusal)
            return BatchRefused(batch.batch_id, "forbidden" if forbidden else "failed", told=str(refusal))

    async def amend(self, decide: Callable[[], Awaitable[Sequence[Operation]]]) -> None:
        """Write znodes that the core does not hold (decision 0050): one multi behind the fence.

        Args:
            decide: Reads the znodes and returns the operations. Called again if another process wrote them meanwhile.

        Raises:
            RequestRejected: This process is not the controller, or no longer.
            DriverError: ZooKeeper refuses, or another process was faster each time.
        """
        fence = self._epoch_version
        try:
            for _ in range(_ATTEMPTS):
                operations = await decide() if fence != NO_FENCE else ()
                if fence == NO_FENCE or fence != self._epoch_version:
                    break
                if not operations or await self._tried(operations, fence):
                    return
            else:
                raise DriverError("others wrote to it meanwhile, again and again: ask once more", retriable=True)
        except _FencedOffError:
            if self._epoch_version == fence:
                self._on_fenced()
        except SessionLost:
            pass
        raise RequestRejected(ErrorCode.NOT_CONTROLLER, "this node is not the controller any more")

    async def _tried(self, operations: Sequence[Operation], fence: int) -> bool:
        try:
            return await self._commit(operations, fence) is not None
        except ZooKeeperRefused as refusal:
            if refusal.code not in _CONFLICTS:
                raise
            return False

    async def _write(self, batch: WriteBatch, fence: int) -> BatchWritten | BatchRefused:
        for _ in range(_ATTEMPTS):
            planned = await self._plan(batch.records)
            if not planned.operations:
                return self._written(batch, planned, Committed(0, ()), fence)
            try:
                committed = await self._commit(planned.operations, fence)
            except ZooKeeperRefused as refusal:
                if refusal.code not in _CONFLICTS:
                    raise
                if refusal.code == wire.NO_NODE and type(planned.operations[refusal.index]) is Create:
                    await self._client.ensure(znodes.PERSISTENT)  # Somebody may have deleted the parent folder.
                    continue
                if refusal.index in planned.principals:
                    logger.info("batch %d met another version: %s", batch.batch_id, refusal)
                    break
                continue  # A parent, or a znode below one to be deleted, has changed since it was looked up.
            if committed is not None:
                return self._written(batch, planned, committed, fence)
        return await self._reread(batch, fence)

    async def _plan(self, records: Sequence[Record]) -> MultiPlan:
        folders = folders_to_list(records)
        children = dict(zip(folders, await self._client.children_of_many(folders), strict=True))
        wanted = paths_to_find(records, children)
        present: dict[str, bool] = {}
        made: dict[str, int] = {}
        for portion in chunks(wanted, CHUNK):
            found, _ = await self._client.get_many(portion)
            for path, znode in zip(portion, found, strict=True):
                present[path] = znode is not None
                made[path] = 0 if znode is None else znode.czxid
        return plan(records, present, children, made)

    async def _commit(self, operations: Sequence[Operation], fence: int) -> Committed | None:
        """Carry out one multi behind the fence.

        Returns:
            None if the answer was lost and the multi was not carried out, or that can no longer be found out.

        Raises:
            _FencedOffError: another controller was elected later, or the term has ended while the batch was prepared.
            ZooKeeperRefused: nothing was changed; `index` counts without the fence.
        """
        self._still(fence)  # While nobody else is elected, the epoch is still this term's, whatever the session is.
        fenced = (CheckVersion(znodes.CONTROLLER_EPOCH, fence), *operations)
        try:
            committed = await self._client.multi(fenced)
        except ConnectionLost:
            logger.warning("a batch's answer was lost with the connection: looking whether it happened")
            return await self._look_back(operations, fence)
        except ZooKeeperRefused as refusal:
            if refusal.index == 0 and refusal.code in _CONFLICTS:
                raise _FencedOffError from None
            refusal.index -= 1
            raise
        return Committed(committed.zxid, committed.versions[1:])

    async def _look_back(self, operations: Sequence[Operation], fence: int) -> Committed | None:
        """Find out whether a multi was carried out before its connection was lost.

        After the sync on the new connection, no request of the old one can still be carried out.
        """
        await self._client.sync()
        epoch = await self._client.get(znodes.CONTROLLER_EPOCH)
        if epoch is None or epoch.version != fence:
            raise _FencedOffError
        found: list[Znode | None] = []
        for portion in chunks(operations, CHUNK):
            found += (await self._client.get_many([operation.path for operation in portion]))[0]
        if not happened(operations, found):
            return None
        versions = tuple(_new_version(operation) for operation in operations)
        return Committed(transaction(operations, found), versions)

    def _written(self, batch: WriteBatch, planned: MultiPlan, committed: Committed, fence: int) -> BatchWritten:
        """Note the batch's writes, so that their watches are not taken for other processes' changes; return the answer.

        Raises:
            _FencedOffError: the term has ended meanwhile; the next term has read, or will read, what was written.
        """
        self._still(fence)
        versions: list[int] = []
        czxids: list[int] = []
        for record, principal in zip(batch.records, planned.principals, strict=True):
            versions.append(-1 if principal is None else committed.versions[principal])
            created = (type(record) is PutReassignment and record.reassignment.version < 0) or (
                type(record) is PutLegacyReassignments and record.version < 0
            )
            created = created or (type(record) is PutRegistration and principal is not None)
            czxids.append(committed.zxid if created else 0)
            if type(record) is PutTopic:
                self._seen.topics[record.topic.name] = committed.zxid
            elif type(record) is DeleteTopic:
                self._seen.topics.pop(record.name, None)
                self._seen.deleted[record.name] = committed.zxid
            elif type(record) is PutLegacyReassignments:
                self._seen.legacy = 0 if record.targets is None else committed.zxid
            elif type(record) is PutExtraReassignments:
                self._seen.extra = 0 if record.targets is None else committed.zxid
        self._watches.watch_new_topics(
            record.topic.name for record in batch.records if type(record) is PutTopic and record.topic.version < 0
        )
        self._watches.look_again(record.name for record in batch.records if type(record) is DeleteTopic)
        self._watches.look_again_at_deletions(planned.kept)
        return BatchWritten(batch.batch_id, tuple(versions), tuple(czxids))

    def _still(self, fence: int) -> None:
        """Go on only in the term of `fence`.

        Otherwise a controller that has resigned would write, and the next term would find this term's notes in `_seen`.

        Raises:
            _FencedOffError: the term has ended.
        """
        if self._epoch_version != fence:
            raise _FencedOffError

    async def _reread(self, batch: WriteBatch, fence: int) -> BatchRefused:
        """Read every topic that the batch named again, for the refusal.

        Raises:
            _FencedOffError: the term has ended meanwhile.
        """
        names = {name for record in batch.records if (name := _topic_of(record)) is not None}
        found = await self._reader.topics(names)
        legacy = extra = None
        legacy_unreadable = False
        if any(type(record) is PutLegacyReassignments for record in batch.records):
            legacy, written = await self._reader.legacy()
            self._still(fence)
            self._seen.legacy = written
            legacy_unreadable = legacy is None and written != 0
        if any(type(record) is PutExtraReassignments for record in batch.records):
            extra, written = await self._reader.extra_reassignments()
            self._still(fence)
            self._seen.extra = written
        self._still(fence)
        self._watches.look_again(record.name for record in batch.records if type(record) is DeleteTopic)
        self._watches.watch_new_topics(sorted(found.written.keys() - self._seen.topics.keys()))
        self._seen.topics.update(found.written)
        return BatchRefused(batch.batch_id, "version", found.topics, found.gone, legacy, extra, legacy_unreadable)

    async def _thin_out(self, record: DeleteTopic, fence: int) -> None:
        """Delete a large topic's states in portions before the rest.

        This is not atomic, but fenced. The topic stays in the deletion queue until the end, so that another controller
        can go on.
        """
        for portion in chunks(record.partitions, DELETED_AT_ONCE):
            folders = [f"{znodes.partitions(record.name)}/{number}" for number in portion]
            paths = [path for folder in folders for path in (f"{folder}/state", folder)]
            found: list[Znode | None] = []
            for part in chunks(paths, CHUNK):
                found += (await self._client.get_many(part))[0]
            removals = [Remove(path) for path, znode in zip(paths, found, strict=True) if znode is not None]
            if removals:
                await self._commit(removals, fence)


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Pause the garbage collector while the cluster is read, and freeze the objects that were read for this term.

    These objects make no cycles and live long. With 100,000 partitions each collection would block for 30 to 60 ms, and
    there would be half a dozen of them. `IdleCollector` frees what is left in cycles when the term is over.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        if was_enabled:
            gc.enable()


class _FencedOffError(Exception):
    """Another controller was elected later."""


def _new_version(operation: Operation) -> int:
    if type(operation) is Put:
        return operation.version + 1
    return -1 if type(operation) in {CheckVersion, Remove} else 0


def _topic_of(record: Record) -> str | None:
    if isinstance(record, PutTopic):
        return record.topic.name
    if isinstance(record, PutPartition):
        return record.tp.topic
    if isinstance(record, DeleteTopic | CheckTopic):
        return record.name
    tp = getattr(record, "tp", None)
    return None if tp is None else str(tp.topic)
