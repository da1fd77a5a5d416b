"""An Apache-like controller that lives in a broker: it takes over, elects, finishes steps, cancels, supersedes, deletes.

It knows what Apache 3.9 knows: topics' adding and removing replicas and the legacy znode, and nothing of Shunter's own
records. Each decision and its write are one event here, because this controller is not the one under test.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from lab.simulation.brokers.channels import SimulatedChannels
from lab.simulation.event_loop import ProcessLoop
from lab.simulation.scheduler import MS
from lab.simulation.zookeeper.tree import Transaction
from shunter.core import election
from shunter.core.controller.events import Event, RequestAnswered
from shunter.core.controller.ready import (
    ConnectBrokers,
    SendLeaderAndIsr,
    SendStopReplica,
    SendUpdateMetadata,
    StopPartition,
    TopicSlice,
)
from shunter.drivers.zookeeper.requests import CheckVersion, Create, Operation, Put, Remove
from shunter.errors import ErrorCode
from shunter.formats.znodes import paths as znodes
from shunter.formats.znodes.admin import encode_legacy_reassignments
from shunter.formats.znodes.brokers import encode_controller
from shunter.formats.znodes.topics import encode_state, encode_topic
from shunter.model.broker import Broker
from shunter.model.partition import (
    EPOCH_DURING_DELETE,
    NO_LEADER,
    BrokerId,
    LeaderAndIsr,
    PartitionState,
    ReplicaAssignment,
    Replicas,
    TopicPartition,
)
from shunter.wire.alter_partition import AlterPartitionResult, IsrResult, TopicIsrResults

if TYPE_CHECKING:
    from lab.simulation.world import World


LOOK_US = (100 * MS, 400 * MS)

INELIGIBLE_SINCE = 2
"""The first version of AlterPartition that knows INELIGIBLE_REPLICA; in older versions another error is answered."""


class ApacheController:
    """Apache's controller, on whichever broker is elected, if one is."""

    def __init__(self, world: World) -> None:
        """Begin without a broker as controller."""
        self.world = world
        self.loop = ProcessLoop(world.scheduler, "apache", world.process_failed)  # type: ignore[abstract]
        self.host: BrokerId = -1
        self.epoch = 0
        self.terms = 0
        self.allowed = world.shape.apache_contends
        self._channels: SimulatedChannels | None = None
        self._known: dict[BrokerId, int] = {}
        """Broker epochs as of the last look: they go into its requests, and its channels are for these brokers."""
        self._request = 0
        self._deletions: dict[str, set[BrokerId]] = {}
        self._asked: dict[int, tuple[str, BrokerId]] = {}
        world.scheduler.after(world.scheduler.between(*LOOK_US), self._look)

    # ---- election

    @property
    def active(self) -> bool:
        """Whether a broker is the controller now."""
        truth = self.world.truth
        if self.host < 0:
            return False
        broker = self.world.brokers[self.host]
        return broker.running and not broker.paused and truth.controller_session == broker.session

    def broker_stopped(self, broker: BrokerId) -> None:
        """A broker's process ended."""
        if self._channels is not None:
            self._channels.drop(broker)
        if broker == self.host:
            self._retire()

    def take_over(self, *, force: bool = False) -> bool:
        """Let a broker take `/controller`; with `force`, an operator deletes the znode first."""
        tree = self.world.tree
        candidates = [
            broker for broker in self.world.brokers.values() if broker.accepting and broker.zookeeper_reachable
        ]
        if not candidates or self.active:
            return False
        broker = self.world.scheduler.random.choice(candidates)
        epoch = tree.get(znodes.CONTROLLER_EPOCH)
        if epoch is None or znodes.CONTROLLER_EPOCH in self.world.truth.garbled:
            return False
        if force and tree.get(znodes.CONTROLLER) is not None:
            tree.commit([Remove(znodes.CONTROLLER)], self.world.operator)
        done = tree.commit(
            [
                Create(znodes.CONTROLLER, encode_controller(broker.id, timestamp_ms=0), ephemeral=True),
                Put(znodes.CONTROLLER_EPOCH, b"%d" % (int(epoch.data or b"0") + 1), epoch.version),
            ],
            broker.session,
        )
        if not isinstance(done, Transaction):
            return False
        self._retire()
        self.host, self.epoch = broker.id, int(epoch.data or b"0") + 1
        self.terms += 1
        self.world.coverage.count("apache", "terms")
        self._channels = SimulatedChannels(
            f"broker {broker.id}",
            self.world.scheduler,
            self.loop,
            self._post,
            self.world.brokers,
            self.world.delays,
            self.world.safety,
        )
        self._known = {}
        self._deletions = {}
        self._asked = {}
        self._act()
        return True

    def _retire(self) -> None:
        self.host = -1
        if self._channels is not None:
            self._channels.close()
            self._channels = None

    def _look(self) -> None:
        self.world.scheduler.after(self.world.scheduler.between(*LOOK_US), self._look)
        if self.host >= 0 and self.world.truth.controller_session != self.world.brokers[self.host].session:
            self._retire()
        if self.active:
            self._act()
        elif self.allowed and self.world.tree.get(znodes.CONTROLLER) is None and self.world.scheduler.chance(0.3):
            self.take_over()

    # ---- one look at the cluster

    def _act(self) -> None:
        truth = self.world.truth
        came = [broker for broker, epoch in truth.brokers.items() if self._known.get(broker) != epoch]
        if came or set(self._known) != set(truth.brokers):
            self._known = dict(truth.brokers)
            self._send(ConnectBrokers(tuple(self._brokers())))
            self._tell_everything(came)
        self._take_legacy()
        for tp in truth.partitions():
            if tp.topic not in truth.deleting:
                self._mend(tp)
        self._delete_topics()

    def _mend(self, tp: TopicPartition) -> None:
        truth = self.world.truth
        assignment, state = truth.assignment(tp), truth.states.get(tp)
        live = set(truth.brokers)
        if assignment is None:
            return
        if state is None:
            first = election.elect_first(assignment.replicas, live)
            if first is not None:
                self._write(tp, LeaderAndIsr(first.leader, 0, first.isr), None, ())
            return
        if state.leader not in live or state.leader not in state.isr:
            elected = election.elect_for_offline(
                assignment.replicas, state.isr, live, unclean_allowed=self.world.unclean_allowed(tp)
            )
            if elected is not None:
                self._write(tp, _led(state, elected.leader, elected.isr), None, ())
            elif state.leader != NO_LEADER:
                self._write(tp, _led(state, NO_LEADER, state.isr), None, ())
            return
        isr = tuple(broker for broker in state.isr if broker in live)
        if isr != state.isr:
            self._write(tp, _led(state, state.leader, isr), None, ())
        elif assignment.in_motion and set(assignment.target) <= set(state.isr):
            self._finish(tp, assignment, state, assignment.target)

    def _finish(self, tp: TopicPartition, assignment: ReplicaAssignment, state: LeaderAndIsr, target: Replicas) -> bool:
        live = set(self.world.truth.brokers)
        isr = tuple(broker for broker in state.isr if broker in target)
        leader = state.leader
        if leader not in target:
            elected = election.elect_for_reassignment(target, isr, live)
            if elected is None:
                return False
            leader = elected.leader
        dropped = tuple(broker for broker in assignment.replicas if broker not in target)
        self._write(tp, _led(state, leader, isr), ReplicaAssignment(target), dropped)
        legacy = self.world.truth.legacy
        if legacy is not None and tp in legacy.targets:
            left = tuple((each, replicas) for each, replicas in legacy.targets.items() if each != tp)
            self._commit(
                [
                    Put(znodes.LEGACY_REASSIGNMENTS, encode_legacy_reassignments(left))
                    if left
                    else Remove(znodes.LEGACY_REASSIGNMENTS)
                ]
            )
        return True

    def _take_legacy(self) -> None:
        truth = self.world.truth
        if znodes.LEGACY_REASSIGNMENTS in truth.garbled:
            self._commit([Remove(znodes.LEGACY_REASSIGNMENTS)])  # Apache deletes a document that it can't parse.
        if truth.legacy is None:
            return
        if truth.legacy.originals:
            # Its parser refuses the whole document for the unknown field, and the znode is deleted.
            self._commit([Remove(znodes.LEGACY_REASSIGNMENTS)])
            return
        for tp, target in tuple(truth.legacy.targets.items()):
            assignment = truth.assignment(tp)
            if tp.topic in truth.deleting:
                continue
            if assignment is None or assignment.replicas == target or not set(target) <= set(truth.brokers):
                if assignment is None or not assignment.in_motion:
                    self._forget_legacy(tp)
            elif not assignment.in_motion and tp in truth.states:
                self.reassign(tp, target)

    def _forget_legacy(self, tp: TopicPartition) -> None:
        legacy = self.world.truth.legacy
        if legacy is None:
            return
        left = tuple((each, replicas) for each, replicas in legacy.targets.items() if each != tp)
        self._commit(
            [
                Put(znodes.LEGACY_REASSIGNMENTS, encode_legacy_reassignments(left))
                if left
                else Remove(znodes.LEGACY_REASSIGNMENTS)
            ]
        )

    # ---- requests

    def reassign(self, tp: TopicPartition, target: Replicas) -> bool:
        """RPC 45 with replicas, as in Apache's releases: all at once; a second request supersedes the first."""
        truth = self.world.truth
        assignment, state = truth.assignment(tp), truth.states.get(tp)
        if assignment is None or state is None or tp.topic in truth.deleting or not set(target) <= set(truth.brokers):
            return False
        self.world.forget_asked_factor(tp)
        original = assignment.original
        adding = tuple(broker for broker in target if broker not in original)
        removing = tuple(broker for broker in original if broker not in target)
        wanted = ReplicaAssignment(target + removing, adding, removing)
        dropped = tuple(broker for broker in assignment.replicas if broker not in wanted.replicas)
        isr = tuple(broker for broker in state.isr if broker in wanted.replicas)
        if state.leader not in isr:
            return False
        self._write(tp, _led(state, state.leader, isr), wanted, dropped)
        return True

    def cancel(self, tp: TopicPartition) -> bool:
        """RPC 45 with null: back to the original replicas at once, where one of them is in sync."""
        truth = self.world.truth
        assignment, state = truth.assignment(tp), truth.states.get(tp)
        if assignment is None or state is None or tp.topic in truth.deleting or not assignment.in_motion:
            return False
        return self._finish(tp, assignment, state, assignment.original)

    def alter_partition(
        self, broker: BrokerId, epoch: int, proposals: tuple[Any, ...], told: Callable[[AlterPartitionResult], None]
    ) -> None:
        """AlterPartition, as ZooKeeper-mode Apache answers it."""
        truth = self.world.truth
        if not self.active:
            told(AlterPartitionResult(ErrorCode.NOT_CONTROLLER))
            return
        if epoch < truth.brokers.get(broker, 1 << 62):
            told(AlterPartitionResult(ErrorCode.STALE_BROKER_EPOCH))
            return
        topics = tuple(
            TopicIsrResults(proposal.tp.topic, None, ((proposal.tp.partition, self._altered(broker, proposal)),))
            for proposal in proposals
        )
        told(AlterPartitionResult(ErrorCode.NONE, topics))

    def _altered(self, broker: BrokerId, proposal: Any) -> IsrResult:
        truth, tp = self.world.truth, proposal.tp
        state = truth.states.get(tp)
        isr = tuple(member for member, _ in proposal.isr)
        error = ErrorCode.NONE
        if state is None or tp.topic in truth.deleting:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif znodes.state(tp.topic, tp.partition) in truth.garbled:
            # Kinder than Apache: after Apache's answer the leader never asks again, even once the znode is repaired.
            error = ErrorCode.UNKNOWN_SERVER_ERROR
        elif proposal.leader_epoch < state.leader_epoch:
            error = ErrorCode.FENCED_LEADER_EPOCH
        elif isr == state.isr:
            error = ErrorCode.NONE
        elif proposal.partition_epoch != state.partition_epoch or state.leader != broker:
            error = ErrorCode.INVALID_UPDATE_VERSION
            if proposal.leader_epoch == state.leader_epoch:
                # Kinder than Apache: there such a leader never asks again, and no controller could repair that.
                self._write(tp, _led(state, state.leader, state.isr), None, ())
        elif not set(isr) <= set(truth.brokers):
            known = self.world.shape.alter_version >= INELIGIBLE_SINCE
            error = ErrorCode.INELIGIBLE_REPLICA if known else ErrorCode.OPERATION_NOT_ATTEMPTED
        else:
            self._write(tp, state._replace(isr=isr), None, (), quiet=True)
            state = truth.states[tp]
        if state is None or error is not ErrorCode.NONE:
            return error
        return state

    def controlled_shutdown(self, broker: BrokerId, told: Callable[[SimpleNamespace], None]) -> None:
        """ControlledShutdown: the broker keeps its leaderships, and stops as leader (the worst that Apache may do)."""
        error = ErrorCode.NONE if self.active else ErrorCode.NOT_CONTROLLER
        told(SimpleNamespace(error_code=error, remaining_partitions=[broker]))

    # ---- topic deletion

    def _delete_topics(self) -> None:
        truth = self.world.truth
        for name in tuple(truth.deleting):
            topic = truth.topics.get(name)
            if topic is None:
                self._commit([Remove(znodes.deletion(name))])
                continue
            if znodes.topic(name) in truth.garbled:
                continue
            holders = {broker for each in topic.assignments.values() for broker in each.replicas}
            done = self._deletions.setdefault(name, set())
            if holders <= done:
                self._finish_deletion(name)
                continue
            for broker in sorted(holders - done):
                if broker in truth.brokers and (name, broker) not in self._asked.values():
                    stops = tuple(
                        StopPartition(TopicPartition(name, number), EPOCH_DURING_DELETE, delete=True)
                        for number, each in topic.assignments.items()
                        if broker in each.replicas
                    )
                    self._request += 1
                    self._asked[self._request] = (name, broker)
                    self._send(SendStopReplica(self._request, broker, self.epoch, self._known.get(broker, 0), stops))

    def _finish_deletion(self, name: str) -> None:
        tree = self.world.tree
        paths: list[str] = []
        folder = znodes.partitions(name)
        for number in tree.children(folder) or ():
            paths += [f"{folder}/{number}/state", f"{folder}/{number}"]
        paths += [folder, znodes.topic(name), znodes.config("topics", name), znodes.deletion(name)]
        self._commit([Remove(path) for path in paths if tree.get(path) is not None])
        self._deletions.pop(name, None)

    def _post(self, event: Event) -> None:
        if isinstance(event, RequestAnswered):
            asked = self._asked.pop(event.request_id, None)
            if asked is not None and event.error is ErrorCode.NONE and not event.partition_errors:
                self._deletions.setdefault(asked[0], set()).add(asked[1])

    # ---- writes, and requests to brokers

    def _commit(self, operations: list[Operation]) -> bool:
        epoch = self.world.tree.get(znodes.CONTROLLER_EPOCH)
        if epoch is None or not self.active:
            return False
        session = self.world.brokers[self.host].session
        done = self.world.tree.commit([CheckVersion(znodes.CONTROLLER_EPOCH, epoch.version), *operations], session)
        return isinstance(done, Transaction)

    def _write(
        self,
        tp: TopicPartition,
        leadership: LeaderAndIsr,
        assignment: ReplicaAssignment | None,
        dropped: Replicas,
        *,
        quiet: bool = False,
    ) -> None:
        truth, tree = self.world.truth, self.world.tree
        known, topic = truth.states.get(tp), truth.topics[tp.topic]
        leadership = leadership._replace(controller_epoch=self.epoch, target_replicas=None)
        path = znodes.state(tp.topic, tp.partition)
        operations: list[Operation] = []
        if known is None:
            folders = (znodes.partitions(tp.topic), znodes.partition(tp))
            operations += [Create(folder, None) for folder in folders if tree.get(folder) is None]
            operations.append(Create(path, encode_state(leadership)))
        else:
            operations.append(Put(path, encode_state(leadership), known.partition_epoch))
        if assignment is not None:
            placed = {**topic.assignments, tp.partition: assignment}
            operations.append(
                Put(znodes.topic(tp.topic), encode_topic(topic._replace(assignments=placed)), topic.version)
            )
        if not self._commit(operations) or quiet:
            return
        after = truth.assignment(tp)
        if after is None:
            return
        before: Replicas = topic.assignments[tp.partition].replicas if known is not None else ()
        self._tell_partition(tp, after, before)
        for broker in dropped:
            if broker in truth.brokers:
                self._request += 1
                stop = StopPartition(tp, leadership.leader_epoch, delete=True)
                self._send(SendStopReplica(self._request, broker, self.epoch, self._known.get(broker, 0), (stop,)))

    def _tell_partition(self, tp: TopicPartition, assignment: ReplicaAssignment, before: Replicas) -> None:
        truth = self.world.truth
        told = TopicSlice(
            tp.topic,
            truth.topics[tp.topic].topic_id,
            ((tp.partition, PartitionState(assignment, truth.states[tp])),),
        )
        for broker in assignment.replicas:
            if broker in truth.brokers:
                self._lead(broker, (told,), frozenset(() if broker in before else (tp,)))
        self._metadata((told,), tuple(sorted(truth.brokers)))

    def _tell_everything(self, came: list[BrokerId]) -> None:
        truth = self.world.truth
        slices: dict[str, TopicSlice] = {}
        for name, topic in truth.topics.items():
            led = tuple(
                (number, PartitionState(each, truth.states[TopicPartition(name, number)]))
                for number, each in topic.assignments.items()
                if (name, number) in truth.states and name not in truth.deleting
            )
            slices[name] = TopicSlice(name, topic.topic_id, led)
        self._metadata((), tuple(broker for broker in sorted(truth.brokers) if broker not in came))
        self._metadata(tuple(slices.values()), tuple(sorted(came)))
        for broker in sorted(came):
            mine = tuple(
                _only(topic, hosted)
                for topic in slices.values()
                if (hosted := tuple(each for each in topic.partitions if broker in each[1].assignment.replicas))
            )
            self._lead(broker, mine, frozenset())

    def _metadata(self, slices: tuple[TopicSlice, ...], brokers: tuple[BrokerId, ...]) -> None:
        for broker in brokers:
            self._request += 1
            epoch = self._known.get(broker, 0)
            live = tuple(self._brokers())
            self._send(SendUpdateMetadata(self._request, (broker,), self.epoch, epoch, live, slices, {}))

    def _lead(self, broker: BrokerId, slices: tuple[TopicSlice, ...], new: frozenset[TopicPartition]) -> None:
        self._request += 1
        epoch = self._known.get(broker, 0)
        self._send(SendLeaderAndIsr(self._request, broker, self.epoch, epoch, (), slices, new))

    def _brokers(self) -> list[Broker]:
        return [Broker(broker, epoch, ()) for broker, epoch in sorted(self.world.truth.brokers.items())]

    def _send(self, request: Any) -> None:
        if self._channels is not None:
            self._channels.send(request)


def _led(state: LeaderAndIsr, leader: BrokerId, isr: Replicas) -> LeaderAndIsr:
    return state._replace(leader=leader, isr=isr, leader_epoch=state.leader_epoch + 1)


def _only(topic: TopicSlice, partitions: tuple[tuple[int, PartitionState], ...]) -> TopicSlice:
    return TopicSlice(topic.name, topic.topic_id, partitions)
