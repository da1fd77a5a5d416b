"""A Shunter controller process: the real loop, seat, election, store, watches and machine, in a simulated world."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from uuid import UUID

from lab.simulation.brokers.channels import SimulatedChannels
from lab.simulation.event_loop import ProcessLoop
from lab.simulation.scheduler import SECOND
from lab.simulation.zookeeper.session import SimulatedKazoo
from shunter.core.controller.events import Envelope, Event, ReplyToken
from shunter.core.controller.machine import ControllerMachine
from shunter.core.controller.ready import Ready, Reply
from shunter.drivers.election.loop import ControllerLoop
from shunter.drivers.election.seat import ControllerSeat
from shunter.drivers.host.supervision import Supervisor
from shunter.drivers.listener.handlers.brokers import alter_partition, controlled_shutdown
from shunter.drivers.listener.handlers.context import Call, Node
from shunter.drivers.zookeeper.client import ZooKeeperClient
from shunter.errors import ErrorCode, InvariantViolation, RequestRejected
from shunter.model.broker import Broker, Endpoint
from shunter.model.notice import Notice
from shunter.model.partition import BrokerId, LeaderAndIsr, TopicPartition
from shunter.model.settings import ControllerSettings, Takeover
from shunter.wire.alter_partition import (
    ISR_EPOCHS_SINCE,
    TOPIC_IDS_SINCE,
    AlterPartitionRequest,
    AlterPartitionResult,
    IsrChange,
    TopicIsrChanges,
)

if TYPE_CHECKING:
    from lab.simulation.world import World


CALL_TIMEOUT_MS = 20_000
ALTER_PARTITION_VERSION = 3
BY_NAME_VERSION = 1


class SkewedClock:
    """A process's wall clock. Its error is fixed at the start of the process, as in `drivers.clock`."""

    def __init__(self, world: World, skew_ms: int) -> None:
        """Remember the clock's error."""
        self._scheduler = world.scheduler
        self._skew_ms = skew_ms

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        return self._scheduler.now_ms + self._skew_ms


class ObservedMachine(ControllerMachine):
    """The machine, observed by the checkers."""

    def __init__(
        self, settings: ControllerSettings, observe: Callable[[ObservedMachine, Envelope, Ready], None]
    ) -> None:
        """Begin as the machine does."""
        super().__init__(settings)
        self._observe = observe

    def handle(self, envelope: Envelope) -> Ready:
        """Handle an event, and pass it and its `Ready` to the checkers."""
        ready = super().handle(envelope)
        self._observe(self, envelope, ready)
        return ready


class Service(Supervisor):
    """Ends its process when one of its tasks fails, as `app.controller` does. The process is started again later."""

    def __init__(self, end: Callable[[BaseException], None]) -> None:
        """Begin without tasks."""
        super().__init__()
        self._end = end

    def fail(self, failure: BaseException) -> None:
        """End the process because of a failure."""
        if self.failure is None:
            self._end(failure)
        super().fail(failure)


class ShunterProcess:
    """One controller process with the broker id `broker_id`. It can be started, paused, killed and started again."""

    def __init__(self, world: World, broker_id: int, takeover: Takeover) -> None:
        """Begin stopped."""
        self.world = world
        self.id = broker_id
        self.takeover = takeover
        self.name = f"shunter {broker_id}"
        self.running = False
        self.starts = 0
        self.decided_live: frozenset[BrokerId] = frozenset()
        self.decided_offline: dict[TopicPartition, frozenset[BrokerId]] = {}
        self.decided_us = 0
        self.epochs: dict[BrokerId, int] = {}
        self.learned_us: dict[BrokerId, int] = {}
        """When it learned of each broker's present registration."""
        self._build()

    def _build(self) -> None:
        world = self.world
        self.loop = ProcessLoop(world.scheduler, self.name, world.process_failed)  # type: ignore[abstract]
        self.machine = ObservedMachine(world.settings_of(self.id, self.takeover), self._observe)
        self.control = ControllerLoop(
            self.machine, SkewedClock(world, world.draw_skew_ms()), on_notice=self._take_notice
        )
        self.channels = SimulatedChannels(
            self.name,
            world.scheduler,
            self.loop,
            self.control.post,
            world.brokers,
            world.delays,
            world.safety,
            world.looks_controllers_up,
        )
        self.kazoo: SimulatedKazoo | None = None
        client = ZooKeeperClient("simulated", kazoo_client=self._make_kazoo)
        registration = Broker(self.id, 0, (Endpoint("PLAINTEXT", "PLAINTEXT", "shunter", 9000 + self.id),))
        self.service = Service(self._must_end)
        self.seat = ControllerSeat(
            client,
            registration,
            self.control.post,
            takeover=self.takeover,
            cool_down_seconds=5.0,
            supervisor=self.service,
        )
        self.control.attach(self.seat.store, self.channels)
        self.control.on_resigned = self.seat.give_back

    def _make_kazoo(self, **_: Any) -> SimulatedKazoo:
        world = self.world
        self.kazoo = SimulatedKazoo(
            world.scheduler,
            world.tree,
            self.loop,
            world.zookeeper_delays,
            world.shape.controller_session_us,
            lambda session: world.session_opened(session, self.name),
            world.refused,
        )
        return self.kazoo

    # ---- start to end

    def start(self) -> None:
        """Start the process."""
        if self.running:
            return
        if self.starts:
            self._build()
        self.starts += 1
        self.running = True
        self.loop.deliver(self._begin)

    def _begin(self) -> None:
        working = self.loop.create_task(self.control.run())
        self.service.watch(working)
        starting = self.loop.create_task(self.seat.start())
        self.service.watch_for_errors(starting)
        self._tasks = [working, starting]

    def _must_end(self, failure: BaseException) -> None:
        if isinstance(failure, InvariantViolation):
            self.world.process_failed(self.name, failure.__cause__ or failure)
            return
        self.world.coverage.count("controller", "ended by itself")
        self.world.scheduler.note(f"{self.name} ends: {failure}")
        self.world.scheduler.after(0, self._start_again, self.starts)

    def _start_again(self, start: int) -> None:
        if self.starts == start:
            self.kill()
            self.world.scheduler.after(2 * SECOND, self.start)

    def kill(self) -> None:
        """SIGKILL: none of its code runs again. Its session lasts until it expires."""
        if not self.running:
            return
        self.running = False
        self.loop.kill()
        self.channels.close()
        assert self.kazoo is not None
        self.kazoo.drop()
        self.kazoo.silent()
        self.world.controller_stopped(self.name)

    def pause(self) -> None:
        """SIGSTOP, or a long garbage collection."""
        if self.running and not self.loop.paused:
            self.loop.pause()
            assert self.kazoo is not None
            self.kazoo.silent()

    def resume(self) -> None:
        """Go on, with what the process knew before."""
        if self.running and self.loop.paused:
            assert self.kazoo is not None
            self.kazoo.heard()
            self.loop.resume()

    def step_down(self) -> None:
        """SIGTERM: give the controllership back, then end."""
        if self.running and not self.loop.paused:
            self.loop.deliver(self._resign)

    def _resign(self) -> None:
        self._resigning = self.loop.create_task(self._close())

    async def _close(self) -> None:
        await self.control.close()
        await self.seat.close()
        self.running = False
        self.loop.kill()
        self.channels.close()
        self.world.controller_stopped(self.name)

    @property
    def active(self) -> bool:
        """Whether the process believes to be the controller."""
        return self.running and self.machine.state.active

    # ---- requests

    def ask(self, make_event: Callable[[ReplyToken], Event], told: Callable[[Reply | ErrorCode], None]) -> None:
        """Ask the core as an RPC handler does; `told` gets the reply, or an error code if there is none."""
        self.loop.deliver(self._ask, make_event, told)

    def _ask(self, make_event: Callable[[ReplyToken], Event], told: Callable[[Reply | ErrorCode], None]) -> None:
        async def work() -> None:
            try:
                if not self.machine.view.active:
                    raise RequestRejected(ErrorCode.NOT_CONTROLLER, "a standby")
                told(await self.control.callers.submit(make_event, CALL_TIMEOUT_MS))
            except RequestRejected as refused:
                told(refused.error_code)

        self._keep(self.loop.create_task(work()))

    def tell(self, event: Event) -> None:
        """Hand the core an event that has no reply."""
        self.loop.deliver(self.control.post, event)

    def alter_partition(
        self, broker: int, epoch: int, proposals: Any, told: Callable[[AlterPartitionResult], None]
    ) -> None:
        """Take an AlterPartition through the real handler."""
        request, version = _alter_request(self, broker, epoch, proposals)

        async def work() -> None:
            try:
                told(await alter_partition(request, _call(self, request, version)))
            except RequestRejected as refused:
                told(AlterPartitionResult(refused.error_code))

        self.loop.deliver(lambda: self._keep(self.loop.create_task(work())))

    def controlled_shutdown(self, broker: int, epoch: int, told: Callable[[SimpleNamespace], None]) -> None:
        """Take a ControlledShutdown through the real handler."""
        request = SimpleNamespace(broker_id=broker, broker_epoch=epoch)
        self.loop.deliver(self._handle, controlled_shutdown, request, told)

    def serve(self, handler: Any, request: Any, told: Callable[[Any], None]) -> None:
        """Take a client's request through the real handler; `told` gets the answer, or the refusal."""

        async def work() -> None:
            try:
                told(await handler(request, _call(self, request)))
            except RequestRejected as refused:
                told(refused)

        self.loop.deliver(lambda: self._keep(self.loop.create_task(work())))

    def _handle(self, handler: Any, request: Any, told: Callable[[SimpleNamespace], None]) -> None:
        async def work() -> None:
            try:
                told(SimpleNamespace(**await handler(request, _call(self, request))))
            except RequestRejected as refused:
                told(SimpleNamespace(error_code=refused.error_code, topics=[], remaining_partitions=[]))

        self._keep(self.loop.create_task(work()))

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks = [each for each in self._tasks if not each.done()]
        self._tasks.append(task)

    # ---- for the checkers

    def _observe(self, machine: ObservedMachine, envelope: Envelope, ready: Ready) -> None:
        if not self.loop.dead:
            if ready.resigned.startswith("we have reached none"):
                self.world.coverage.count("isolation", "resigned")
                if self.channels.reached:
                    told = f"{self.name} resigns and reaches brokers {self.channels.reached}"
                    self.world.safety.violate("who reaches a broker keeps the seat", told)
            self.world.machine_handled(self, machine, envelope, ready)

    def _take_notice(self, notice: Notice) -> None:
        self.world.coverage.count("notice", notice.kind)
        if notice.kind == "not-owed":
            self.world.not_owed.add(notice.about)
        if notice.kind == "reconciled":
            self.world.coverage.count("reconciliation", notice.text)
        if notice.kind == "record-closed":
            self.world.coverage.count("reconciliation", notice.text)


class _Call(Call):
    """A request to a handler, without bytes: its answer stays values."""

    __slots__ = ()

    def answer(self, **values: Any) -> dict[str, Any]:
        return values


def _call(process: ShunterProcess, request: Any, version: int | None = None) -> _Call:
    nobody: Any = None
    version = getattr(request, "version", ALTER_PARTITION_VERSION) if version is None else version
    parsed: Any = SimpleNamespace(message=request, version=version, client_id=None)
    node = Node(process.machine.view, process.control.callers, relay=nobody, api_ranges=dict)
    return _Call(node, parsed, "PLAINTEXT", "simulated")


def _alter_request(
    process: ShunterProcess, broker: int, epoch: int, proposals: Any
) -> tuple[AlterPartitionRequest, int]:
    """An AlterPartition as the server would decode it, and its version, on which topic ids and broker epochs depend."""
    by_topic: dict[tuple[str, UUID | None], list[Any]] = {}
    for proposal in proposals:
        topic_id = process.world.brokers[broker].topic_id(proposal.tp)
        by_topic.setdefault((proposal.tp.topic, topic_id), []).append(proposal)
    # Brokers fall back to names as soon as one of the topics has no id.
    by_id = all(topic_id is not None for _, topic_id in by_topic)
    version = min(process.world.shape.alter_version, ALTER_PARTITION_VERSION if by_id else BY_NAME_VERSION)
    with_ids, with_epochs = version >= TOPIC_IDS_SINCE, version >= ISR_EPOCHS_SINCE
    topics = tuple(
        TopicIsrChanges(
            None if with_ids else name,
            topic_id if with_ids else None,
            tuple(
                IsrChange(
                    proposal.tp.partition,
                    proposal.leader_epoch,
                    tuple((member, member_epoch if with_epochs else -1) for member, member_epoch in proposal.isr),
                    False,
                    proposal.partition_epoch,
                )
                for proposal in of_topic
            ),
        )
        for (name, topic_id), of_topic in by_topic.items()
    )
    return AlterPartitionRequest(broker, epoch, topics), version


def altered_results(answer: AlterPartitionResult, proposals: Any) -> dict[tuple[str, int], LeaderAndIsr | ErrorCode]:
    """Results of an AlterPartition answer by (topic, partition). A topic with only an id is known by its position."""
    left = [proposal.tp for proposal in proposals]
    found: dict[tuple[str, int], LeaderAndIsr | ErrorCode] = {}
    for topic in answer.topics:
        name = left[0].topic if topic.name is None else topic.name
        for number, result in topic.partitions:
            left.remove(TopicPartition(name, number))
            found[name, number] = result if isinstance(result, ErrorCode) else LeaderAndIsr(*result[:4])
    return found
