"""A simulated Kafka 3.9 broker in ZooKeeper mode: registration, control requests, replication, ISR changes, faults."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from uuid import UUID

from lab.simulation.brokers.alterations import Alterations
from lab.simulation.brokers.channels import Answered, DecidedRequest
from lab.simulation.brokers.log import Log
from lab.simulation.brokers.replica import FetchAnswer, Replica, Role
from lab.simulation.rules.edges import REFUSED_BY_BROKER
from lab.simulation.scheduler import MS, SECOND, Timer
from lab.simulation.zookeeper.tree import Transaction
from shunter.core.controller.ready import SendLeaderAndIsr, SendStopReplica, SendUpdateMetadata, StopPartition
from shunter.drivers.zookeeper.requests import Create, Put
from shunter.errors import ErrorCode
from shunter.formats.znodes import paths as znodes
from shunter.formats.znodes.admin import encode_log_dir_event
from shunter.formats.znodes.brokers import encode_broker
from shunter.model.broker import Broker, Endpoint
from shunter.model.partition import (
    EPOCH_DURING_DELETE,
    NO_EPOCH,
    BrokerId,
    LeaderAndIsr,
    PartitionState,
    TopicPartition,
)

if TYPE_CHECKING:
    from lab.simulation.world import World


DIRECTORIES = 2
FETCH_US = (30 * MS, 60 * MS)
TICK_US = 500 * MS
LEAVE_US = 8 * SECOND
"""How long a broker that leaves waits for the controller; then it stops whatever the controller answers."""
CONTROL_US = (MS // 5, 2 * MS)
_NO_ERRORS: Mapping[TopicPartition, ErrorCode] = {}


class SimulatedBroker:
    """One broker id. `disk` outlives the broker's process; everything else does not."""

    def __init__(self, world: World, broker_id: BrokerId) -> None:
        """Begin stopped, with empty disks."""
        self.world = world
        self.scheduler = world.scheduler
        self.id = broker_id
        self.disk: dict[TopicPartition, Log] = {}
        self.failed_directories: set[int] = set()
        self.session = 0
        self.epoch = -1
        """The broker epoch of its present registration; -1 while it has none."""
        self.fence = -1
        """The last broker epoch that this process got. Requests with an older one are refused."""
        self.incarnation = 0
        self.running = False
        self.paused = False
        self.leaving = False
        self.answered_error = False
        """Whether its process has answered a whole control request with an error."""
        self.zookeeper_reachable = True
        self.registered_us = 0
        self.port = 9000 + broker_id
        self.rack: str | None = None
        """The rack of its present registration."""
        self.refuses_with: dict[type, ErrorCode] = {}
        """By kind of control request: the error that it answers instead of carrying the request out."""
        self._expiry: Timer | None = None
        self._forget_everything()

    def _forget_everything(self) -> None:
        self.replicas: dict[TopicPartition, Replica] = {}
        self.offline: set[TopicPartition] = set()
        """Replicas on a failed log dir, or that could not be made because of one. They stay offline until this process
        ends. Source: Apache 3.9, `HostedPartition.Offline`, `ReplicaManager.markPartitionOffline`."""
        self.controller_epoch = -1
        self.controller: str | None = None
        self.alive: frozenset[BrokerId] = frozenset()
        self.live: dict[BrokerId, Broker] = {}
        """The live brokers by the last UpdateMetadata: it places topics on these, and reports them to clients."""
        self.metadata: dict[TopicPartition, LeaderAndIsr] = {}
        self._control: deque[tuple[DecidedRequest, Answered]] = deque()
        self._handling = False
        self._fetchers: set[BrokerId] = set()
        self.alterations = Alterations(self)

    def topic_id(self, tp: TopicPartition) -> UUID | None:
        """The topic id in this broker's log of a partition, which may be an older topic's."""
        replica = self.replicas.get(tp)
        return None if replica is None else replica.log.topic_id

    def alter_partition(self, proposals: tuple[Any, ...], answered: Callable[[SimpleNamespace | None], None]) -> None:
        """Send an AlterPartition to the controller that this broker knows."""
        self.world.alter_partition(self, self.epoch, proposals, answered)

    # ---- its process

    @property
    def accepting(self) -> bool:
        """Whether it takes connections. For a moment after its registration it does not."""
        return self.running and not self.paused and self.epoch >= 0 and self.scheduler.now_us >= self.registered_us

    def start(self) -> None:
        """Start the process. It registers as soon as its older registration is gone."""
        if self.running:
            return
        if self.world.poisoned():
            self.scheduler.note(f"broker {self.id} can't start: a topic's configuration can't be read")
            self.world.coverage.count("broker", "did not start")
            self.scheduler.after(2 * SECOND, self.start)
            return
        self.running = True
        self.paused = self.leaving = self.answered_error = False
        self.incarnation += 1
        self.epoch = self.fence = -1
        self._forget_everything()
        self.failed_directories.clear()
        for log in self.disk.values():
            log.high_watermark = log.checkpoint
        self._register(self.incarnation)
        self._tick(self.incarnation)

    def _register(self, incarnation: int) -> None:
        if not self.running or self.incarnation != incarnation or self.epoch >= 0:
            return
        tree = self.world.tree
        if self.paused or not self.zookeeper_reachable or tree.get(znodes.broker(self.id)) is not None:
            self.scheduler.after(100 * MS, self._register, incarnation)
            return
        self.session, self.rack = tree.open_session(), self.world.rack(self.id)
        self.world.session_opened(self.session, f"broker {self.id}")
        done = tree.commit([Create(znodes.broker(self.id), self._registration(), ephemeral=True)], self.session)
        assert isinstance(done, Transaction)
        self.epoch = self.fence = done.zxid
        self.registered_us = self.scheduler.now_us + self.scheduler.between(100 * MS, 500 * MS)
        self.scheduler.note(f"broker {self.id} registers, epoch {self.epoch}")

    def _registration(self) -> bytes:
        endpoints = (Endpoint("PLAINTEXT", "PLAINTEXT", "host", self.port),)
        return encode_broker(Broker(self.id, 0, endpoints, self.rack), timestamp_ms=0)

    def move_endpoint(self, port: int) -> bool:
        """Reconfigure its listeners while it runs: `KafkaZkClient.updateBrokerInfo` sets the znode's data."""
        path = znodes.broker(self.id)
        if self.epoch < 0 or not self.zookeeper_reachable or path in self.world.truth.garbled:
            return False
        self.port = port
        return isinstance(self.world.tree.commit([Put(path, self._registration())], self.session), Transaction)

    def kill(self) -> None:
        """SIGKILL: its session lives on for a while, its disks stay."""
        if not self.running:
            return
        self.running = False
        self.world.broker_stopped(self.id)
        self._silent()

    def stop_cleanly(self) -> None:
        """The process ends and closes its session."""
        if not self.running:
            return
        self.running = False
        for log in self.disk.values():
            log.checkpoint = log.high_watermark
        self.world.broker_stopped(self.id)
        self._cancel_expiry()
        self.world.tree.close_session(self.session)

    def pause(self) -> None:
        """Pause the process (a long garbage collection)."""
        if self.running and not self.paused:
            self.paused = True
            self._silent()

    def resume(self) -> None:
        """Resume the process."""
        if self.running and self.paused:
            self.paused = False
            self._heard()
            self._work()

    def lose_zookeeper(self) -> None:
        """ZooKeeper can't be reached; the broker goes on serving."""
        self.zookeeper_reachable = False
        self._silent()

    def find_zookeeper(self) -> None:
        """ZooKeeper can be reached again."""
        self.zookeeper_reachable = True
        self._heard()

    def _silent(self) -> None:
        if self._expiry is None and self.session in self.world.tree.sessions:
            self._expiry = self.scheduler.after(self.world.shape.broker_session_us, self.expire, self.session)

    def _heard(self) -> None:
        if not self.running or self.paused or not self.zookeeper_reachable:
            return
        if self.epoch < 0:
            return  # The live session may be that of the previous process.
        if self.session in self.world.tree.sessions:
            self._cancel_expiry()
        else:
            self._register_again()

    def expire(self, session: int) -> None:
        """ZooKeeper ends its session; a running broker registers again, with another epoch."""
        self._expiry = None
        if session not in self.world.tree.sessions:
            return
        self.scheduler.note(f"zookeeper: session of broker {self.id} expires")
        self.world.tree.close_session(session)
        if self.running and not self.paused and self.zookeeper_reachable:
            self.scheduler.after(self.scheduler.between(10 * MS, SECOND), self._heard)

    def _register_again(self) -> None:
        self.epoch = -1
        self._register(self.incarnation)

    def _cancel_expiry(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None

    # ---- control requests, one at a time

    def take_control_request(self, decided: DecidedRequest, answered: Answered) -> None:
        """Queue a control request."""
        self._control.append((decided, answered))
        self._work()

    def _work(self) -> None:
        if self._control and not self._handling and self.running and not self.paused:
            self._handling = True
            delay = self.scheduler.between(*CONTROL_US) * self.world.slowness(self.id)
            self.scheduler.after(int(delay), self._handle_next, self.incarnation)

    def _handle_next(self, incarnation: int) -> None:
        if not self.running or self.incarnation != incarnation:
            return
        self._handling = False
        if self.paused or not self._control:
            return
        decided, answered = self._control.popleft()
        error, errors = self._handle(decided)
        answered(error, errors)
        self._work()

    def _handle(self, decided: DecidedRequest) -> tuple[ErrorCode, Mapping[TopicPartition, ErrorCode]]:
        request = decided.request
        refusal = self.refuses_with.get(type(request))
        if refusal is not None:
            self.world.coverage.count("broker", f"answered {refusal.name}")
            self.answered_error = True
            self.world.edge_rules.refused(f"{decided.sender} by broker {self.id}", REFUSED_BY_BROKER)
            return refusal, _NO_ERRORS
        if 0 <= request.broker_epoch < self.fence:
            self.world.coverage.count("broker", "stale broker epoch refused")
            return ErrorCode.STALE_BROKER_EPOCH, _NO_ERRORS
        if request.controller_epoch < self.controller_epoch:
            self.world.coverage.count("broker", "stale controller epoch refused")
            return ErrorCode.STALE_CONTROLLER_EPOCH, _NO_ERRORS
        self.world.safety.control_request_accepted(self, decided)
        self.controller_epoch = request.controller_epoch
        if isinstance(request, SendUpdateMetadata):
            self._update_metadata(request, decided.sender)
            return ErrorCode.NONE, _NO_ERRORS
        if isinstance(request, SendLeaderAndIsr):
            return self._leader_and_isr(request)
        assert isinstance(request, SendStopReplica)
        errors: dict[TopicPartition, ErrorCode] = {}
        for stop in request.partitions:
            error = self._stop_replica(stop, decided.sender)
            if error is not ErrorCode.NONE:
                errors[stop.tp] = error
        return ErrorCode.NONE, errors

    def _update_metadata(self, request: SendUpdateMetadata, sender: str) -> None:
        self.controller = sender
        self.live = {broker.id: broker for broker in request.live}
        self.alive = frozenset(self.live)
        for topic in request.topics:
            for number, state in topic.partitions:
                tp = TopicPartition(topic.name, number)
                leadership = state.leadership
                if leadership is None:
                    continue
                if leadership.leader == EPOCH_DURING_DELETE:
                    self.metadata.pop(tp, None)
                else:
                    self.metadata[tp] = leadership
        self.alterations.send()

    def _leader_and_isr(self, request: SendLeaderAndIsr) -> tuple[ErrorCode, Mapping[TopicPartition, ErrorCode]]:
        """Change roles. A new log whose topic's configuration can't be read ends the request there."""
        errors: dict[TopicPartition, ErrorCode] = {}
        for topic in request.topics:
            for number, state in topic.partitions:
                tp = TopicPartition(topic.name, number)
                if state.leadership is None:
                    continue
                if tp not in self.disk and self.world.is_poisoned(tp.topic):
                    self.world.coverage.count("broker", "failed at a poisoned topic")
                    self.answered_error = True
                    return ErrorCode.UNKNOWN_SERVER_ERROR, _NO_ERRORS
                new = tp in request.new
                if self.failed_directories and not new and tp not in self.disk and tp not in self.offline:
                    self.world.edge_rules.refused_as_not_new(self, tp, topic.topic_id, request.controller_epoch)
                error = self._change_role(tp, topic.topic_id, state, state.leadership, new=new)
                if error is not ErrorCode.NONE:
                    errors[tp] = error
        return ErrorCode.NONE, errors

    def _change_role(
        self, tp: TopicPartition, topic_id: Any, state: PartitionState, leadership: LeaderAndIsr, *, new: bool
    ) -> ErrorCode:
        if tp in self.offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        replica = self.replicas.get(tp)
        if replica is not None:
            if replica.log.topic_id is not None and topic_id is not None and replica.log.topic_id != topic_id:
                return ErrorCode.UNKNOWN_SERVER_ERROR
            if leadership.leader_epoch <= replica.leader_epoch:
                return ErrorCode.STALE_CONTROLLER_EPOCH
        if self.id not in state.assignment.replicas:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if replica is None:
            log = self._log_for(tp, topic_id, new=new)
            if isinstance(log, ErrorCode):
                if log is ErrorCode.KAFKA_STORAGE_ERROR:
                    self.offline.add(tp)
                return log
            replica = self.replicas[tp] = Replica(tp, log)
        elif replica.log.topic_id is None:
            replica.log.topic_id = topic_id
        replica.min_isr = self.world.min_isr(tp.topic)
        self.alterations.unsent.pop(tp, None)
        if leadership.leader == self.id:
            if replica.lead(state, leadership, self.id, self.scheduler.now_us):
                self.world.safety.leader_began(self, replica)
                self.after_progress(replica)
        elif replica.follow(state, leadership):
            self._fetch_from(leadership.leader)
        return ErrorCode.NONE

    def _log_for(self, tp: TopicPartition, topic_id: Any, *, new: bool) -> Log | ErrorCode:
        """Find the log or make it. While a log dir is failed, only a replica marked as new gets a log in another."""
        log = self.disk.get(tp)
        if log is not None and log.directory not in self.failed_directories:
            if log.topic_id is not None and topic_id is not None and log.topic_id != topic_id:
                return ErrorCode.UNKNOWN_SERVER_ERROR
            log.topic_id = log.topic_id or topic_id
            return log
        if self.failed_directories and not new:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if log is not None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        working = [number for number in range(DIRECTORIES) if number not in self.failed_directories]
        if not working:
            return ErrorCode.KAFKA_STORAGE_ERROR
        log = self.disk[tp] = Log(topic_id, working[(tp.partition + self.id) % len(working)])
        return log

    def _stop_replica(self, stop: StopPartition, sender: str) -> ErrorCode:
        if stop.tp in self.offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        replica = self.replicas.get(stop.tp)
        if replica is not None:
            if stop.leader_epoch not in {EPOCH_DURING_DELETE, NO_EPOCH} and stop.leader_epoch < replica.leader_epoch:
                self.world.coverage.count("broker", "stale StopReplica refused")
                return ErrorCode.FENCED_LEADER_EPOCH
            replica.role = Role.IDLE
            replica.waiting.clear()
        log = self.disk.get(stop.tp)
        if stop.delete:
            if log is not None and log.directory in self.failed_directories:
                return ErrorCode.KAFKA_STORAGE_ERROR
            if log is not None:
                self.world.safety.replica_deleted(self, stop, log, sender)
            self.disk.pop(stop.tp, None)
            self.replicas.pop(stop.tp, None)
            self.alterations.unsent.pop(stop.tp, None)
        return ErrorCode.NONE

    # ---- replication

    def _fetch_from(self, leader: BrokerId) -> None:
        if leader >= 0 and leader not in self._fetchers:
            self._fetchers.add(leader)
            self.scheduler.after(self.scheduler.between(*FETCH_US), self._fetch, leader, self.incarnation)

    def _fetch(self, leader: BrokerId, incarnation: int) -> None:
        if not self.running or self.incarnation != incarnation:
            return
        wanted = [
            replica
            for replica in self.replicas.values()
            if replica.leader == leader
            and replica.role is Role.FOLLOWER
            and replica.log.directory not in self.failed_directories
        ]
        if not wanted:
            self._fetchers.discard(leader)
            return
        again = int(self.scheduler.between(*FETCH_US) * self.world.slowness(self.id))
        other = self.world.brokers.get(leader)
        if self.paused or other is None or not other.running or not self.world.connected(self.id, leader):
            self.scheduler.after(3 * again, self._fetch, leader, incarnation)
            return
        asked = [(replica, replica.log.end, replica.log.last_epoch(), replica.leader_epoch) for replica in wanted]
        delay = self.world.delays(self.id).draw(self.scheduler)
        self.scheduler.after(delay, other.serve_fetches, self, asked, other.incarnation, incarnation)
        self.scheduler.after(again, self._fetch, leader, incarnation)

    def serve_fetches(
        self, follower: SimulatedBroker, asked: list[tuple[Replica, int, int, int]], incarnation: int, theirs: int
    ) -> None:
        """Answer a follower's fetch."""
        if not self.running or self.paused or self.incarnation != incarnation:
            return
        now_us = self.scheduler.now_us
        answers: list[tuple[Replica, int, int, FetchAnswer]] = []
        for replica, offset, last_epoch, leader_epoch in asked:
            ours = self.replicas.get(replica.tp)
            if ours is None or ours.log.directory in self.failed_directories:
                continue
            answer = ours.serve_fetch(follower.id, offset, last_epoch, leader_epoch, now_us)
            if answer.error:
                continue
            if answer.tells(replica.log.high_watermark):  # Leaving out an empty answer saves an event.
                answers.append((replica, offset, leader_epoch, answer))
            if answer.moved:
                self.after_progress(ours)
        if answers:
            delay = self.world.delays(follower.id).draw(self.scheduler)
            self.scheduler.after(delay, follower.take_fetched, answers, theirs)

    def take_fetched(self, answers: list[tuple[Replica, int, int, FetchAnswer]], incarnation: int) -> None:
        """Take a fetch's answer, for the replicas that are still in the state in which they asked."""
        if not self.running or self.paused or self.incarnation != incarnation:
            return
        for replica, offset, leader_epoch, answer in answers:
            if (
                replica.role is Role.FOLLOWER
                and replica.leader_epoch == leader_epoch
                and replica.log.end == offset
                and self.replicas.get(replica.tp) is replica
            ):
                replica.take_fetched(answer)

    def produce(self, tp: TopicPartition, value: int) -> bool:
        """Append a record of a producer with acks=all; returns whether the leader appended it."""
        replica = self.replicas.get(tp)
        if not self.accepting or replica is None or replica.role is not Role.LEADER:
            return False
        if replica.log.directory in self.failed_directories or replica.append(value) is None:
            return False
        self.after_progress(replica)
        return True

    def after_progress(self, replica: Replica, *, shrink: bool = False) -> None:
        """After progress of a leading replica: raise its high watermark, acknowledge records, propose another ISR."""
        if replica.role is not Role.LEADER:
            return
        now_us = self.scheduler.now_us
        if replica.raise_high_watermark(self.id, self.alive, now_us):
            self.world.safety.high_watermark_raised(self, replica)
        if replica.waiting:
            for offset, value in replica.acknowledged():
                self.world.safety.acknowledged(self, replica, offset, value)
        if replica.proposed is None and replica.tp not in self.alterations.unsent:
            wanted = replica.proposal(self.id, self.alive, now_us, shrink=shrink)
            if wanted is not None:
                self.alterations.unsent[replica.tp] = None
                replica.proposed = wanted
                self.alterations.send()

    def _tick(self, incarnation: int) -> None:
        if not self.running or self.incarnation != incarnation:
            return
        if not self.paused:
            for replica in tuple(self.replicas.values()):
                if replica.role is Role.LEADER and replica.log.directory not in self.failed_directories:
                    self.after_progress(replica, shrink=True)
            if self.scheduler.chance(0.3):
                for log in self.disk.values():
                    log.checkpoint = log.high_watermark
            self.alterations.send()
        self.scheduler.after(TICK_US, self._tick, incarnation)

    # ---- leaving, and failing disks

    def leave(self) -> None:
        """Controlled shutdown: ask the controller to move leaderships away, up to three times, then stop."""
        if self.running and not self.leaving:
            self.leaving = True
            self.scheduler.after(LEAVE_US, self._leave, 0, self.incarnation)
            self._leave(3, self.incarnation)

    def _leave(self, attempts: int, incarnation: int) -> None:
        if not self.running or self.incarnation != incarnation:
            return
        if not attempts or self.controller is None:
            self.stop_cleanly()
            return

        def told(remaining: int | None) -> None:
            if not self.running or self.incarnation != incarnation:
                return
            if remaining == 0:
                self.stop_cleanly()
            else:
                self.scheduler.after(SECOND, self._leave, attempts - 1, incarnation)

        self.world.controlled_shutdown(self, self.epoch, told)

    def fail_directory(self, number: int) -> None:
        """A log directory fails: its replicas are offline until a restart; the broker announces it."""
        if not self.running or number in self.failed_directories:
            return
        self.failed_directories.add(number)
        for replica in self.replicas.values():
            if replica.log.directory == number:
                self.offline.add(replica.tp)
                replica.role = Role.IDLE
                replica.waiting.clear()
        if len(self.failed_directories) == DIRECTORIES:
            self.kill()
            return
        if self.session in self.world.tree.sessions and self.zookeeper_reachable:
            path = f"{znodes.LOG_DIR_EVENTS}/log_dir_event_"
            self.world.tree.commit(
                [Create(path, encode_log_dir_event(self.id), ephemeral=False, sequential=True)], self.session
            )
