"""A controller's channels to the simulated brokers: as `drivers.channels`, without bytes and sockets.

The order of requests, which request supersedes which, how many are sent ahead, what is sent again after a lost
connection and what is discarded with a bounced broker are the driver's own code (`drivers.backlog`) or follow it line
by line.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from lab.simulation.event_loop import ProcessLoop
from lab.simulation.network import Delays, Link
from lab.simulation.scheduler import MS, SECOND, Scheduler, Timer
from shunter.core.controller.events import BrokerIdentified, ConnectionChanged, Event, RequestAnswered
from shunter.core.controller.ready import ConnectBrokers, Request, SendUpdateMetadata
from shunter.drivers.brokers.backlog import Backlog, QueuedRequest, merge_updates
from shunter.drivers.brokers.channels import GONE_AFTER_SECONDS, REQUEST_SECONDS
from shunter.errors import ErrorCode
from shunter.model.broker import Broker
from shunter.model.partition import BrokerId, TopicPartition

if TYPE_CHECKING:
    from lab.simulation.brokers.broker import SimulatedBroker
    from lab.simulation.rules.safety import Safety


IN_FLIGHT = 5
BACKLOG = 64
RETRY_US = 150 * MS


class Body:
    """A request in place of its bytes. The backlog never looks into it."""

    __slots__ = ("request",)

    def __init__(self, request: Request) -> None:
        """Hold it."""
        self.request = request


class DecidedRequest(NamedTuple):
    """A request as it was decided: by which controller, and with the broker epoch that the controller knew."""

    request: Any
    sender: str
    broker_epoch: int


Answered = Callable[[ErrorCode, Mapping[TopicPartition, ErrorCode]], None]


class SimulatedChannels:
    """Implements `drivers.seams.BrokerChannels`."""

    def __init__(
        self,
        name: str,
        scheduler: Scheduler,
        loop: ProcessLoop,
        post: Callable[[Event], None],
        brokers: Mapping[BrokerId, SimulatedBroker],
        delays: Callable[[BrokerId], Delays],
        observer: Safety,
        looks_us_up: Callable[[BrokerId], bool | None] = lambda _: None,
    ) -> None:
        """Begin without connections.

        Args:
            looks_us_up: whether a broker looks the controller up in ZooKeeper, by its ApiVersions; None: not asked.
        """
        self.name = name
        self.scheduler = scheduler
        self.loop = loop
        self.post = post
        self.world = brokers
        self.delays = delays
        self.observer = observer
        self.looks_us_up = looks_us_up
        self.channels: dict[BrokerId, Channel] = {}
        self.isolated = False
        """Whether no broker can be reached."""

    def send(self, request: Request) -> None:
        """Queue a request."""
        if isinstance(request, ConnectBrokers):
            self._connect(request.brokers)
            return
        self.observer.request_handed_out(self.name, request)
        body = Body(request)
        for broker in request.brokers if isinstance(request, SendUpdateMetadata) else (request.broker,):
            channel = self.channels.get(broker)
            if channel is not None:
                channel.queue(QueuedRequest(body, (request.request_id,), 0.0))  # type: ignore[arg-type]

    def merged(self, bodies: tuple[Any, ...]) -> Any:
        """One body for several metadata updates."""
        return Body(merge_updates(tuple(body.request for body in bodies)))

    def drop(self, broker: BrokerId) -> None:
        """The connection to a broker breaks."""
        channel = self.channels.get(broker)
        if channel is not None:
            channel.lost()

    def isolate(self) -> None:
        """All connections break, and none is made until `rejoin`."""
        self.isolated = True
        for channel in self.channels.values():
            channel.lost()

    def rejoin(self) -> None:
        """Brokers can be reached again."""
        self.isolated = False

    @property
    def reached(self) -> list[BrokerId]:
        """The brokers to which there has been a connection for a second. The controller may not have heard of newer ones."""
        since_us = self.scheduler.now_us - SECOND
        return [broker for broker, channel in self.channels.items() if channel.connected_since(since_us)]

    def swallow(self, broker: BrokerId) -> None:
        """The connection to a broker stops to carry anything, and neither end is notified."""
        channel = self.channels.get(broker)
        if channel is not None:
            channel.swallow()

    def close(self) -> None:
        """Retire all channels: the controller's process has ended."""
        for channel in self.channels.values():
            channel.retire()
        self.channels.clear()

    def _connect(self, brokers: tuple[Broker, ...]) -> None:
        live = {broker.id: broker for broker in brokers}
        for broker_id, channel in tuple(self.channels.items()):
            successor = live.get(broker_id)
            if successor is None or successor.epoch != channel.broker.epoch:
                del self.channels[broker_id]
                channel.retire()
            else:
                channel.broker = successor
        for broker in brokers:
            if broker.id not in self.channels and broker.id in self.world:
                self.channels[broker.id] = Channel(broker, self)


class Channel:
    """The channel to one broker during one registration."""

    def __init__(self, broker: Broker, owner: SimulatedChannels) -> None:
        """Begin to connect."""
        self.broker = broker
        self._owner = owner
        self._backlog = Backlog(BACKLOG, owner.merged)
        self._flying: deque[QueuedRequest] = deque()
        self._up: Link | None = None
        self._down: Link | None = None
        self._retired = False
        self._reachable = True
        self._patience: Timer | None = None
        self._opened_us = 0
        self._wait_for_it()
        self._open()

    def queue(self, entry: QueuedRequest) -> None:
        """Queue an entry."""
        self._backlog.append(entry)
        self._pump()

    def connected_since(self, moment_us: int) -> bool:
        """Whether there has been a connection since that moment."""
        return self._up is not None and self._opened_us <= moment_us

    def length(self) -> int:
        """How many requests wait or are in flight."""
        return len(self._backlog) + len(self._flying)

    def retire(self) -> None:
        """Discard everything that waits, and cut the connection."""
        self._retired = True
        self._backlog.clear()
        self._flying.clear()
        self._forget_patience()
        if self._up is not None:
            self._up.cut()
        self._close()

    def lost(self) -> None:
        """The connection breaks."""
        if self._up is None:
            return
        self._up.cut()
        self._close()
        self._wait_for_it()
        self._owner.scheduler.after(RETRY_US, self._open)

    def _wait_for_it(self) -> None:
        """Report the broker as unreachable unless there is a connection within `GONE_AFTER_SECONDS`."""
        self._forget_patience()
        self._patience = self._owner.scheduler.after(int(GONE_AFTER_SECONDS * SECOND), self._tell_reachable, False)

    def _forget_patience(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _tell_reachable(self, reachable: bool) -> None:
        self._forget_patience()
        if reachable != self._reachable and not self._retired:
            self._reachable = reachable
            told = ConnectionChanged(self.broker.id, self.broker.epoch, reachable)
            self._owner.loop.deliver(self._owner.post, told)

    def _time(self, up: Link) -> None:
        """Drop the connection when its oldest request has no answer in time."""
        if self._up is not up:
            return
        now_s = self._owner.scheduler.now_us / SECOND
        waited_s = now_s - self._flying[0].sent_at if self._flying else 0.0
        if waited_s >= REQUEST_SECONDS:
            self.lost()
        else:
            self._owner.scheduler.after(int((REQUEST_SECONDS - waited_s) * SECOND) + 1, self._time, up)

    def swallow(self) -> None:
        """Silently lose what is under way on this connection, and all that is sent on it later."""
        if self._up is not None and self._down is not None:
            self._up.close()
            self._down.close()

    def _close(self) -> None:
        if self._down is not None:
            self._down.close()
        self._up = self._down = None

    def _open(self) -> None:
        if self._retired or self._owner.loop.dead or self._up is not None:
            return
        scheduler = self._owner.scheduler
        owner = self._owner
        if owner.isolated or owner.loop.paused or not owner.world[self.broker.id].accepting:
            scheduler.after(RETRY_US, self._open)
            return
        delays = self._owner.delays(self.broker.id)
        self._up, self._down = Link(scheduler, delays), Link(scheduler, delays)
        self._opened_us = scheduler.now_us
        self._backlog.restore(self._flying)
        self._flying.clear()
        self._tell_reachable(True)
        looks_us_up = self._owner.looks_us_up(self.broker.id)
        if looks_us_up is not None:
            identified = BrokerIdentified(self.broker.id, self.broker.epoch, looks_us_up)
            self._owner.loop.deliver(self._owner.post, identified)
        scheduler.after(int(REQUEST_SECONDS * SECOND), self._time, self._up)
        self._pump()

    def _pump(self) -> None:
        while self._up is not None and len(self._flying) < IN_FLIGHT and self._backlog.may_send(self._flying):
            entry = self._backlog.take()
            self._flying.append(entry)
            broker = self._owner.world[self.broker.id]
            decided = DecidedRequest(entry.body.request, self._owner.name, self.broker.epoch)
            entry.sent_at = self._owner.scheduler.now_us / SECOND
            self._up.send(self._arrived, decided, entry, self._down, broker.incarnation)

    def _arrived(self, decided: DecidedRequest, entry: QueuedRequest, down: Link, incarnation: int) -> None:
        broker = self._owner.world[self.broker.id]
        if not broker.accepting or broker.incarnation != incarnation:
            self.lost()  # The process at the other end has ended, and its sockets are closed.
            return

        def answered(error: ErrorCode, errors: Mapping[TopicPartition, ErrorCode]) -> None:
            down.send(self._answered, entry, error, errors)

        broker.take_control_request(decided, answered)

    def _answered(self, entry: QueuedRequest, error: ErrorCode, errors: Mapping[TopicPartition, ErrorCode]) -> None:
        self._owner.loop.deliver(self._take_answer, entry, error, errors)

    def _take_answer(self, entry: QueuedRequest, error: ErrorCode, errors: Mapping[TopicPartition, ErrorCode]) -> None:
        if self._retired or not self._flying or self._flying[0] is not entry:
            return
        self._flying.popleft()
        for request_id in entry.request_ids:
            self._owner.post(RequestAnswered(request_id, self.broker.id, error, errors))
        self._pump()
