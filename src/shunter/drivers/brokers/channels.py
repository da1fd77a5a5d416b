"""Ordered, non-blocking channels to all brokers: one connection and one queue for each broker.

Requests are sent in the order in which they were decided (`backlog` has the one exception), a few at a time ahead of
their answers. A broker handles them one after another, so answers come back in that order too. When a connection is
lost, requests that were sent and not answered are sent again, in order, on the next one. Control requests are fenced by
their epochs, so a request that a broker gets twice changes nothing. The queue of a broker that left or bounced is
dropped, because it was decided for the former registration.

Sockets are written with `sock_sendall`, which keeps a view of the shared body. asyncio's transports (in 3.11) would
copy what a socket does not accept at once, and 200 brokers times 5 MB would be a gigabyte.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from itertools import count
from typing import Any
from weakref import WeakValueDictionary

from shunter.core.controller.events import BrokerIdentified, ConnectionChanged, Event, RequestAnswered, SessionExpired
from shunter.core.controller.ready import ConnectBrokers, Request, SendUpdateMetadata
from shunter.drivers.brokers.access import PLAIN_ACCESS, BrokerAccess
from shunter.drivers.brokers.agreed_release import AgreedRelease
from shunter.drivers.brokers.backlog import Backlog, QueuedRequest, merge_updates
from shunter.drivers.brokers.bodies import Encoder, SharedBody
from shunter.drivers.brokers.channel_stats import ChannelStats, QueueStats
from shunter.drivers.brokers.connection import ApiRanges, BrokerConnection
from shunter.drivers.brokers.release import Release, release_of
from shunter.drivers.election.survey import Listeners, listeners_told, unfindable
from shunter.drivers.host.supervision import Supervise
from shunter.drivers.host.task_groups import run_together
from shunter.errors import ErrorCode, FormatError
from shunter.model.broker import Broker, Endpoint
from shunter.model.features import Protocol
from shunter.model.partition import BrokerId, TopicPartition
from shunter.wire.answers import decode_control_response
from shunter.wire.fragments import CacheSize
from shunter.wire.versions import ControlVersions, common_control_versions, control_versions, looks_controllers_up

_LOG = logging.getLogger(__name__)

RETRY_SECONDS = 0.075
"""A broker refuses connections for 0.3-0.5 s after it registered."""
GONE_AFTER_SECONDS = 1.0
"""A broker without a connection for so long is reported as unreachable. Then nothing waits for its answers."""
REQUEST_SECONDS = 30.0
"""How long a broker may take for one request (Apache: `controller.socket.timeout.ms`)."""
EAGER_RETRIES = 20
RETRY_SECONDS_AT_MOST = 2.0
"""After `EAGER_RETRIES` the pause doubles up to this: hundreds of brokers may be unreachable for hours."""


def retry_pause(attempt: int) -> float:
    """Return the seconds to wait after failed attempt number `attempt`, counted from 0."""
    doubled = max(0, attempt - EAGER_RETRIES)
    return min(RETRY_SECONDS_AT_MOST, RETRY_SECONDS * 2.0 ** min(doubled, 10))


def _report_itself(task: asyncio.Task[Any]) -> None:
    """Report a bug of a task that no supervisor watches."""
    task.add_done_callback(_report)


def _report(task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and task.exception() is not None:
        told = f"{task.get_name()} ended by a bug"
        task.get_loop().call_exception_handler({"message": told, "exception": task.exception(), "task": task})


class Channels:
    """Implements `seams.BrokerChannels`.

    Args:
        controller_id: for the field of this name in every control request.
        post: takes the events.
        listener: name of the brokers' listener to use; None: the one for controllers, or the first usable one.
        inter_broker_protocol: the newest release to use; None: the newest that all brokers support and are set to.
        in_flight: requests sent to one broker ahead of their answers.
        backlog: unsent incremental metadata updates that a slow broker may have before they are merged.
        request_seconds: how long the oldest request may be unanswered before its connection is closed; the request is
            sent again on the next connection.
        access: connects and logs in to brokers.
        own_listeners: names of this controller's listeners. If empty, no broker is asked for its listener's name.
        supervise: gets each channel's task, which only ends by being cancelled.
    """

    def __init__(
        self,
        controller_id: BrokerId,
        post: Callable[[Event], None],
        *,
        listener: str | None = None,
        inter_broker_protocol: str | None = None,
        in_flight: int = 5,
        backlog: int = 64,
        request_seconds: float = REQUEST_SECONDS,
        supervise: Supervise = _report_itself,
        access: BrokerAccess = PLAIN_ACCESS,
        own_listeners: Collection[str] = (),
    ) -> None:
        self.stats = ChannelStats()
        self.post = post
        self.access = access
        self.listener = listener
        self.preferred_listener: str | None = None
        """If `listener` is None: the listener that brokers use for their controller; None: not known yet."""
        self._own_listeners = own_listeners
        self.in_flight = in_flight
        self.backlog = backlog
        self.request_seconds = request_seconds
        self.supervise = supervise
        ceiling = control_versions(inter_broker_protocol) if inter_broker_protocol is not None else None
        self.agreed = AgreedRelease(ceiling, post)
        self._encoder = Encoder(controller_id, self.stats)
        self.turns = self._encoder.turns
        self._channels: dict[BrokerId, _Channel] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._merged: WeakValueDictionary[tuple[int, ...], SharedBody] = WeakValueDictionary()
        self._brokers: tuple[Broker, ...] = ()

    @property
    def brokers(self) -> tuple[Broker, ...]:
        """The brokers that have channels."""
        return self._brokers

    def endpoint(self, broker: Broker) -> Endpoint:
        """Choose the endpoint to connect to at a broker.

        Raises:
            FormatError: the broker has no usable listener.
        """
        told = () if self.preferred_listener is None else (self.preferred_listener,)
        return self.access.likely_endpoint(broker, self.listener, (*told, *self._own_listeners))

    @property
    def asks_for_listeners(self) -> bool:
        """Whether brokers have to be asked for their listeners' names: none could be asked before the election."""
        return self.preferred_listener is None and bool(self._own_listeners)

    def on_listeners_told(self, told: Listeners) -> None:
        """Take in a broker's listener names. If brokers could not find this controller by them, it resigns."""
        self.preferred_listener = told.names[0]
        in_the_way = unfindable(told, self._own_listeners)
        if in_the_way is not None:
            self.post(SessionExpired(in_the_way))

    def send(self, request: Request) -> None:
        """Queue a request; never blocks, never raises for a dead broker."""
        if isinstance(request, ConnectBrokers):
            self._connect(request.brokers)
            return
        body = SharedBody(request, self._encoder)
        now = time.monotonic()
        for broker in request.brokers if isinstance(request, SendUpdateMetadata) else (request.broker,):
            channel = self._channels.get(broker)
            if channel is None:
                self.stats.dropped += 1
            else:
                channel.queue(QueuedRequest(body, (request.request_id,), now))

    def is_connected(self, broker: BrokerId) -> bool:
        """Whether there is a connection to a broker now."""
        channel = self._channels.get(broker)
        return channel is not None and channel.connected

    def api_ranges(self) -> dict[BrokerId, ApiRanges]:
        """Return the APIs of each connected broker: API key -> (lowest, highest) version."""
        return {
            broker: channel.ranges for broker, channel in self._channels.items() if channel.connected and channel.ranges
        }

    def protocol(self) -> Protocol | None:
        """Return the oldest inter-broker protocol of live brokers; None until all were asked, and if none is known."""
        channels = self._channels.values()
        told = [channel.release.protocol for channel in channels if channel.release is not None]
        return min(told) if told and all(channel.asked for channel in channels) else None

    def defaults(self) -> dict[BrokerId, Mapping[str, str | None]]:
        """Return the defaults that each broker was started with, as read when its channel was opened."""
        channels = self._channels.items()
        return {broker: channel.release.defaults for broker, channel in channels if channel.release is not None}

    def queues(self) -> tuple[QueueStats, ...]:
        """Return figures of every broker's queue."""
        return tuple(self._channels[broker].queue_stats() for broker in sorted(self._channels))

    def cache_size(self) -> CacheSize:
        """Return the size of the cache of encoded metadata. Cost: O(topics)."""
        return self._encoder.cache.size()

    def resident(self) -> int:
        """Return the bytes of all encoded bodies that are held, each counted once."""
        bodies = {id(entry.body): entry.body for channel in self._channels.values() for entry in channel.waiting()}
        return sum(body.resident for body in bodies.values())

    async def close(self) -> None:
        """Close every connection and drop the queues."""
        self._connect(())
        await asyncio.gather(*self._closing, return_exceptions=True)

    def merged(self, bodies: tuple[SharedBody, ...]) -> SharedBody:
        """Return the body that replaces several metadata updates; brokers with the same unsent updates share it."""
        updates = tuple(body.request for body in bodies if isinstance(body.request, SendUpdateMetadata))
        key = tuple(update.request_id for update in updates)
        body = self._merged.get(key)
        if body is None:
            body = self._merged[key] = SharedBody(merge_updates(updates), self._encoder)
        return body

    def _connect(self, brokers: tuple[Broker, ...]) -> None:
        live = {broker.id: broker for broker in brokers}
        for broker_id, channel in tuple(self._channels.items()):
            successor = live.get(broker_id)
            if successor is None or successor.epoch != channel.broker.epoch:
                del self._channels[broker_id]
                self._retire(channel)
            else:
                channel.broker = successor
        for broker in brokers:
            if broker.id not in self._channels:
                self._channels[broker.id] = _Channel(broker, self)
        self._brokers = brokers
        self.agreed.live(live)

    def _retire(self, channel: _Channel) -> None:
        task = channel.cancel()
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


class _LoginDue(Exception):
    """The login has to be renewed now, and no request is unanswered."""


class _Channel:
    """The channel to one broker, from one registration to the next."""

    def __init__(self, broker: Broker, owner: Channels) -> None:
        self.broker = broker
        self.ranges: ApiRanges = {}
        self.release: Release | None = None
        self._tells_release = True
        self._tells_listeners = True
        self.asked = False
        """Whether the broker was asked for its release."""
        self.connected = False
        self._owner = owner
        self._backlog = Backlog(owner.backlog, owner.merged)
        self._flying: deque[QueuedRequest] = deque()
        self._work = asyncio.Event()
        self._reachable = True
        self._answers = 0
        self._patience: asyncio.TimerHandle | None = None
        self._wait_for_it()
        self._task = asyncio.create_task(self._run(), name=f"channel-{broker.id}")
        owner.supervise(self._task)

    def queue(self, entry: QueuedRequest) -> None:
        before = self._backlog.superseded
        self._backlog.append(entry)
        self._owner.stats.superseded += self._backlog.superseded - before
        self._work.set()

    def waiting(self) -> tuple[QueuedRequest, ...]:
        return (*self._flying, *self._backlog)

    def queue_stats(self) -> QueueStats:
        waiting = self.waiting()
        oldest = time.monotonic() - min(entry.queued_at for entry in waiting) if waiting else 0.0
        resident = sum(entry.body.resident for entry in waiting)
        return QueueStats(self.broker.id, self.connected, len(self._backlog), len(self._flying), oldest, resident)

    def cancel(self) -> asyncio.Task[None]:
        self._owner.stats.dropped += len(self._backlog) + len(self._flying)
        self._backlog.clear()
        self._flying.clear()
        self._forget_patience()
        task = self._task
        # The task's error refers to this object and to the last requests. Without this `del` they would be a cycle as
        # large as a cluster's state.
        del self._task
        task.cancel()
        return task

    def _wait_for_it(self) -> None:
        """Report the broker as unreachable if there is no connection for a while."""
        self._forget_patience()
        self._patience = asyncio.get_running_loop().call_later(GONE_AFTER_SECONDS, self._tell_reachable, False)

    def _forget_patience(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _tell_reachable(self, reachable: bool) -> None:
        self._forget_patience()
        if reachable != self._reachable:
            self._reachable = reachable
            if not reachable:
                self._owner.agreed.silent(self.broker.id)
            self._owner.post(ConnectionChanged(self.broker.id, self.broker.epoch, reachable))

    async def _run(self) -> None:
        fruitless = 0
        while True:
            answers = self._answers
            connection = await self._open()
            try:
                await self._serve(connection)
            except (OSError, EOFError, FormatError) as lost:
                self._owner.stats.lost += 1
                self._wait_for_it()
                _LOG.info("broker %d: connection lost: %s", self.broker.id, lost)
            finally:
                self.connected = False
                connection.close()
            self._backlog.restore(self._flying)
            self._flying.clear()
            # So a broker that closes at each request, or answers nonsense, is not asked a thousand times a second.
            fruitless = 0 if self._answers > answers else fruitless + 1
            if fruitless > 1:
                await asyncio.sleep(retry_pause(fruitless))

    async def _serve(self, connection: BrokerConnection) -> None:
        """Send and receive; before the login's session ends, log in again on the same connection (KIP-368).

        Raises:
            OSError, EOFError, FormatError: the connection is lost, or the broker refuses the login.
        """
        ways = self._write, self._read, self._time, self._wake
        while True:
            with suppress(_LoginDue):
                await run_together(*(each(connection) for each in ways))
            await connection.log_in()

    async def _wake(self, connection: BrokerConnection) -> None:
        """Wake the writer when it is time to log in again."""
        await connection.until_renewal()
        self._work.set()

    async def _open(self) -> BrokerConnection:
        """Connect and agree on versions; try again until it succeeds."""
        told = ""
        for attempt in count():
            try:
                endpoint = self._owner.endpoint(self.broker)
                connection = await self._connection(endpoint)
            except (OSError, EOFError, TimeoutError, FormatError) as failure:
                reason = str(failure) or "no answer in time"
                if reason != told:
                    told = reason
                    _LOG.info("broker %d: not connected yet: %s", self.broker.id, told)
                await asyncio.sleep(retry_pause(attempt))
                continue
            connection.turns = self._owner.turns
            self.connected = True
            self._tell_reachable(True)
            self._owner.stats.connections += 1
            self._owner.agreed.tells(self.broker.id, self._versions())
            self._owner.post(BrokerIdentified(self.broker.id, self.broker.epoch, looks_controllers_up(self.ranges)))
            return connection
        raise AssertionError("the count never ends")

    async def _ask_release(self, connection: BrokerConnection) -> None:
        """Ask for the broker's release. A broker that does not answer is not asked a second time."""
        if not self._tells_release:
            return
        try:
            self.release = await release_of(connection, self.broker.id)
        except BaseException as failure:
            self._tells_release = not isinstance(failure, TimeoutError)
            connection.close()
            raise
        finally:
            self.asked = True

    async def _connection(self, endpoint: Endpoint) -> BrokerConnection:
        """Connect once.

        Raises:
            OSError, EOFError, TimeoutError: the connection failed.
            FormatError: the broker has no usable listener, or supports no common versions.
        """
        connection = await BrokerConnection.open(endpoint, access=self._owner.access)
        self.ranges = connection.ranges
        try:
            self._versions()
        except FormatError:
            connection.close()
            raise
        if await self._is_meant_for_us(connection):
            await self._ask_release(connection)
            return connection
        connection.close()
        return await self._connection(self._owner.endpoint(self.broker))

    async def _is_meant_for_us(self, connection: BrokerConnection) -> bool:
        """Whether this connection is to the broker's listener for its controller. If necessary, ask the broker."""
        if self._owner.asks_for_listeners and self._tells_listeners:
            try:
                told = await listeners_told(connection, self.broker.id)
            except BaseException as failure:
                self._tells_listeners = not isinstance(failure, TimeoutError)
                connection.close()
                raise
            if told is not None:
                self._owner.on_listeners_told(told)
        return connection.endpoint == self._owner.endpoint(self.broker)

    def _versions(self) -> ControlVersions:
        """Return the versions that this broker supports by its software and by its own setting.

        Raises:
            FormatError: no release that Shunter knows.
        """
        versions = common_control_versions((self.ranges,))
        if versions is None:
            told = f"ApiVersions {dict(self.ranges)} fits no release from 2.2 to 3.9"
            raise FormatError(f"broker {self.broker.id}", told)
        if self.release is None:
            return versions
        return min(versions, self.release.versions, key=lambda known: known[1:])

    async def _write(self, connection: BrokerConnection) -> None:
        own = self._versions()
        while True:
            while self._holds_back(connection):
                self._work.clear()
                await self._work.wait()
            # In a frame of its own: a task that was cancelled keeps its frame, and so what it sent last.
            await self._send_next(connection, own)

    async def _send_next(self, connection: BrokerConnection, own: ControlVersions) -> None:
        entry = self._backlog.take()
        self._flying.append(entry)
        entry.sent_at = time.monotonic()
        self._owner.stats.sent(self.broker.id, entry.sent_at - entry.queued_at)
        api_key, version = entry.body.api_key, entry.body.version(self._owner.agreed.least(own))
        bodies = await entry.body.encoded(version, connection.endpoint.listener)
        entry.begin(version, [connection.next_correlation_id() for _ in bodies])
        for correlation_id, body in zip(tuple(entry.awaited), bodies, strict=True):
            await self._owner.turns.mine()
            size = await connection.send(api_key, version, correlation_id, body)
            self._owner.stats.written(api_key, size)

    def _holds_back(self, connection: BrokerConnection) -> bool:
        """Whether nothing can be sent now.

        Raises:
            _LoginDue: all requests are answered, and it is time to log in again.
        """
        if connection.is_renewal_due:
            if not self._flying:
                raise _LoginDue
            return True
        return len(self._flying) >= self._owner.in_flight or not self._backlog.may_send(self._flying)

    async def _time(self, connection: BrokerConnection) -> None:
        """Watch the time of the oldest request.

        TCP does not notice a peer that acknowledges but never answers, as a proxy whose other end is gone. And TCP
        repeats lost segments for a quarter of an hour.

        Raises:
            TimeoutError: the oldest request was not answered in time.
        """
        bound = self._owner.request_seconds
        while True:
            waited = time.monotonic() - self._flying[0].sent_at if self._flying else 0.0
            if waited >= bound:
                self._owner.stats.timeouts += 1
                raise TimeoutError(f"{connection.endpoint.host} did not answer a request within {bound:g} s")
            await asyncio.sleep(bound - waited)

    async def _read(self, connection: BrokerConnection) -> None:
        while True:
            for payload in await connection.receive():
                self._answered(payload)

    def _answered(self, payload: bytes) -> None:
        if not self._flying or not self._flying[0].awaited:
            raise FormatError(f"broker {self.broker.id}", "an answer to a request that was not sent")
        entry = self._flying[0]
        correlation_id, error, errors = decode_control_response(
            entry.body.api_key, entry.version, payload, entry.body.topic_names
        )
        if correlation_id != entry.awaited[0]:
            told = f"an answer to request {correlation_id} where {entry.awaited[0]} is due"
            raise FormatError(f"broker {self.broker.id}", told)
        entry.awaited.popleft()
        entry.note(_code(error), {tp: _code(code) for tp, code in errors.items()})
        if entry.awaited:
            return
        self._flying.popleft()
        self._answers += 1
        if self._flying:
            # The broker handles requests one after another, so the time of the next one begins now.
            self._flying[0].sent_at = time.monotonic()
        self._work.set()
        self._owner.stats.answered(entry.body.api_key, entry.error, entry.partition_errors.values())
        self._post(entry)

    def _post(self, entry: QueuedRequest) -> None:
        errors: Mapping[TopicPartition, ErrorCode] = entry.partition_errors
        for request_id in entry.request_ids:
            self._owner.post(RequestAnswered(request_id, self.broker.id, entry.error, errors))


def _code(code: ErrorCode | int) -> ErrorCode:
    """Return a broker's error; a code without a name in `ErrorCode` becomes UNKNOWN_SERVER_ERROR."""
    return code if isinstance(code, ErrorCode) else ErrorCode.UNKNOWN_SERVER_ERROR
