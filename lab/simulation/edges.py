"""What the outside world does to a controller beyond dying and being slow, by the names of `actions.EDGE_WEIGHTS`.

Clients send odd requests, tools write what no broker can read, brokers answer with errors or move to another endpoint,
ZooKeeper refuses, connections lose everything silently. Each method takes a PRNG of its own and returns whether it did
anything. What it breaks is mended after a while, at the latest by the end of phase one.
"""

from __future__ import annotations

from datetime import timedelta
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from uuid import UUID

from lab.simulation.brokers.broker import SimulatedBroker
from lab.simulation.brokers.poison import POISONS, is_poison
from lab.simulation.brokers.replica import Role
from lab.simulation.process import ShunterProcess
from lab.simulation.scheduler import MS, SECOND
from lab.simulation.zookeeper.session import SimulatedKazoo
from lab.simulation.zookeeper.tree import Transaction
from shunter.core.controller.events import ReassignmentChange, ReassignmentsSubmitted
from shunter.core.controller.ready import PartitionResultsReply, SendLeaderAndIsr, SendStopReplica, SendUpdateMetadata
from shunter.drivers.listener.handlers.reassignments import alter_partition_reassignments
from shunter.drivers.listener.handlers.topics import create_partitions, create_topics
from shunter.drivers.zookeeper.requests import Create, Put
from shunter.errors import ErrorCode, RequestRejected
from shunter.formats.znodes import paths as znodes
from shunter.formats.znodes.admin import encode_legacy_reassignments
from shunter.formats.znodes.configs import encode_config
from shunter.formats.znodes.topics import encode_topic
from shunter.model.partition import BrokerId, ReplicaAssignment, TopicPartition
from shunter.model.topic import Topic
from shunter.wire.alter_partition import AlterPartitionResult
from shunter.wire.reassignments import (
    AlteredPartition,
    AlteredTopic,
    AlterReassignmentsRequest,
    AlterReassignmentsResult,
)

if TYPE_CHECKING:
    from lab.simulation.world import World


TOPICS_AT_MOST = 8
PATIENCE_MS = 20_000
ANSWERS = (
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.STALE_CONTROLLER_EPOCH,
)
ASKED = (SendLeaderAndIsr, SendUpdateMetadata, SendStopReplica)
GUARDED = (
    f"{znodes.CONFIGS}/topics",
    f"{znodes.CONFIGS}/brokers",
    znodes.TOPICS,
    znodes.BROKER_IDS,
    "/admin",
    znodes.CONTROLLER_EPOCH,
)
TOO_MANY = 200_000
TOO_LARGE = 1_500_000
HARMLESS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.REASSIGNMENT_IN_PROGRESS,
}
"""Errors for other reasons, which are checked before the content of the request."""


class Edges:
    """Does to a controller what a well-behaved cluster never does."""

    def __init__(self, world: World) -> None:
        """Begin with nothing done."""
        self.world = world
        self._made = 0
        self._last_acts = ["an endpoint", "a topic"]

    def _while(self, random: Random) -> int:
        return int(random.choice((0.2, 1, 4)) * SECOND * (0.5 + random.random()))

    def _broker(self, random: Random) -> SimulatedBroker | None:
        running = [broker for broker in self.world.brokers.values() if broker.accepting]
        return random.choice(running) if running else None

    def _name(self, kind: str) -> str:
        self._made += 1
        return f"{kind}{self._made}"

    # ---- clients

    def empty_reassignment(self, random: Random) -> bool:
        """RPC 45 with an empty list of replicas, which is not null: it is refused, and cancels nothing.

        Source: Apache Kafka, `KafkaController.validateReplicas`, "Empty replica list specified in partition reassignment".
        """
        process, truth = self.world.active_process(), self.world.truth
        partitions = list(truth.records) or truth.partitions()
        if process is None or not partitions:
            return False
        tp = random.choice(partitions)
        request = AlterReassignmentsRequest(
            (AlteredTopic(tp.topic, (AlteredPartition(tp.partition, ()),)),), PATIENCE_MS
        )
        touches = self.world.operators.touches(tp)

        def told(answer: Any) -> None:
            if not isinstance(answer, AlterReassignmentsResult) or self.world.operators.touches(tp) != touches:
                return  # A cancel that came later may have ended the request while it waited.
            for topic in answer.topics:
                for result in topic.partitions:
                    if result.error not in {ErrorCode.INVALID_REPLICA_ASSIGNMENT, *HARMLESS}:
                        said = f"{tp} with an empty list is answered {result.error!r}"
                        self.world.violate("an empty list of replicas cancels nothing", said)

        process.serve(alter_partition_reassignments, request, told)
        return True

    def reorder_with_the_dead(self, random: Random) -> bool:
        """Ask for another order of replicas while one of them is dead: only added replicas have to be alive."""
        truth = self.world.truth
        chosen = [
            tp
            for tp in truth.partitions()
            if tp not in truth.records
            and (placed := truth.assignment(tp)) is not None
            and len(placed.replicas) > 1
            and not placed.in_motion
        ]
        if not chosen or self.world.apache.active:
            return False
        tp = random.choice(chosen)
        placed = truth.assignment(tp)
        assert placed is not None
        broker = self.world.brokers.get(random.choice(placed.replicas))
        if broker is None:
            return False
        broker.kill()
        after_us = self.world.shape.broker_session_us + SECOND
        self.world.scheduler.after(after_us, self._reorder, tp, tuple(reversed(placed.replicas)))
        self.world.scheduler.after(after_us + self._while(random), broker.start)
        return True

    def _reorder(self, tp: TopicPartition, target: tuple[BrokerId, ...]) -> None:
        process = self.world.active_process()
        if process is None or tp in self.world.truth.records or self.world.phase_two:
            return
        known = process.machine.state.partition(tp)
        settled = known is not None and not known.assignment.in_motion and set(known.assignment.replicas) == set(target)

        def told(reply: Any) -> None:
            results = reply.partitions if isinstance(reply, PartitionResultsReply) else ()
            placed = self.world.truth.assignment(tp)
            stayed = placed is not None and set(placed.replicas) == set(target)  # Another move may have been quicker.
            for _, error, message in results:
                if settled and stayed and error is ErrorCode.INVALID_REPLICA_ASSIGNMENT:
                    self.world.violate("only who is added has to be alive", f"{tp} to {list(target)}: {message}")

        change = ReassignmentChange(tp, target)
        self.world.operators.submit(ReassignmentsSubmitted((change,)), "reorder", told)

    def lying_originals(self, random: Random) -> bool:
        """A tool's legacy znode whose `original_replicas` never stood anywhere."""
        partitions = self.world.truth.partitions()
        if not partitions:
            return False
        tp = random.choice(partitions)
        lie = random.choice(((77, 78), (1, 77), tuple(random.sample(self.world.shape.brokers, 3))))
        targets = self.world.operators.named([(tp, tuple(random.sample(self.world.shape.brokers, 2)))])
        self.world.safety.moves.asked(tp)
        return self._commit(Create(znodes.LEGACY_REASSIGNMENTS, encode_legacy_reassignments(targets, {tp: lie})))

    def odd_alteration(self, random: Random) -> bool:
        """An AlterPartition that Apache's controller refuses; the error of the answer is checked."""
        process, broker = self.world.active_process(), self._broker(random)
        if process is None or broker is None:
            return False
        led = [each for each in broker.replicas.values() if each.role is Role.LEADER]
        if not led:
            return False
        return self._alter(process, broker, random.choice(led), random)

    def _alter(self, process: ShunterProcess, broker: SimulatedBroker, replica: Any, random: Random) -> bool:
        kind = random.choice(("no epoch", "future epoch", "future partition epoch"))
        epoch = {"no epoch": -1, "future epoch": broker.epoch + 1_000_000}.get(kind, broker.epoch)
        ahead = 1_000 if kind == "future partition epoch" else 0
        proposal = SimpleNamespace(
            tp=replica.tp,
            leader_epoch=replica.leader_epoch,
            partition_epoch=replica.partition_epoch + ahead,
            isr=((broker.id, broker.epoch),),
        )

        def told(answer: AlterPartitionResult) -> None:
            for topic in answer.topics:
                for _, found in topic.partitions:
                    self._altered(kind, replica.tp, found if isinstance(found, ErrorCode) else ErrorCode.NONE)

        process.alter_partition(broker.id, epoch, (proposal,), told)
        self.world.coverage.count("odd alteration", kind)
        return True

    def _altered(self, kind: str, tp: TopicPartition, error: ErrorCode) -> None:
        """Judge the answer. Source: `KafkaController.tryProcessAlterPartition`: an exact broker epoch, no newer epochs."""
        if kind == "future partition epoch" and error is not ErrorCode.NONE:
            if error is ErrorCode.INVALID_UPDATE_VERSION:
                self.world.violate("Apache's refusals", f"{tp}: {kind} is answered {error.name}")
            return
        self.world.violate("Apache's refusals", f"AlterPartition of {tp} with {kind} is answered {error.name}")

    def poisonous_topic(self, random: Random) -> bool:
        """CreateTopics with a configuration that no broker can read."""
        process = self.world.active_process()
        if process is None or len(self.world.truth.topics) >= TOPICS_AT_MOST:
            return False
        name, value = random.choice(POISONS)
        topic = _new_topic(self._name("p"), 1, 1, {name: value})

        def told(answer: Any) -> None:
            for each in () if isinstance(answer, RequestRejected) else answer["topics"]:
                # The topic is placed before its configuration is checked, as Apache does; placing needs live brokers.
                if each["error_code"] not in {
                    ErrorCode.INVALID_CONFIG,
                    ErrorCode.INVALID_REPLICATION_FACTOR,
                    *HARMLESS,
                }:
                    said = f"{name}={value!r} is answered {each['error_code']!r}"
                    self.world.violate("what can't be read is refused", said)

        request = SimpleNamespace(topics=[topic], validate_only=False, timeout=timedelta(seconds=20))
        process.serve(create_topics, request, told)
        return True

    def poison_by_tool(self, random: Random) -> bool:
        """A script writes a topic with an unreadable configuration into ZooKeeper, and repairs it later."""
        if len(self.world.truth.topics) >= TOPICS_AT_MOST:
            return False
        name, (key, value) = self._name("p"), random.choice(POISONS)
        factor = min(2, len(self.world.shape.brokers))
        placed = {
            number: ReplicaAssignment(tuple(random.sample(self.world.shape.brokers, factor))) for number in range(2)
        }
        self.world.scheduler.after(self._while(random) + SECOND, self._cure, name)
        return self.world.put_topic(name, placed, {key: value}, UUID(int=random.getrandbits(128)))

    def _cure(self, name: str) -> None:
        path = znodes.config("topics", name)
        if self.world.tree.get(path) is not None:
            # Settings that others made meanwhile stay. None of this is announced.
            known = self.world.truth.configs.get(name, {})
            self._commit(
                Put(path, encode_config({key: each for key, each in known.items() if not is_poison({key: each})}))
            )

    def too_large(self, random: Random) -> bool:
        """A request too large for a transaction: far too many partitions, or configurations of more than a megabyte."""
        process = self.world.active_process()
        if process is None:
            return False
        kind = random.choice(("configuration", "partitions", "growth"))
        if kind == "growth":
            names = list(self.world.truth.topics)
            if not names:
                return False
            grown = SimpleNamespace(name=random.choice(names), count=TOO_MANY, assignments=None)
            request = SimpleNamespace(topics=[grown], validate_only=False, timeout=timedelta(seconds=20))
            process.serve(create_partitions, request, lambda answer: self._refused(kind, answer, "results"))
        else:
            large = {"follower.replication.throttled.replicas": "1:1," * (TOO_LARGE // 4) + "1:1"}
            configs = large if kind == "configuration" else {}
            topic = _new_topic(self._name("l"), TOO_MANY if kind == "partitions" else 1, 1, configs)
            request = SimpleNamespace(topics=[topic], validate_only=False, timeout=timedelta(seconds=20))
            process.serve(create_topics, request, lambda answer: self._refused(kind, answer, "topics"))
        self.world.coverage.count("too large", kind)
        return True

    def _refused(self, kind: str, answer: Any, field: str) -> None:
        for each in () if isinstance(answer, RequestRejected) else answer[field]:
            if each["error_code"] is ErrorCode.NONE:
                self.world.violate("what is too large is refused", f"{kind} is answered without an error")

    # ---- brokers

    def auto_create(self, random: Random) -> bool:
        """A broker makes an internal topic; now and then while another one is down."""
        victim = self._broker(random)
        if victim is None or random.random() < 0.6:
            return self._auto_create(random, random.randint(1, len(self.world.shape.brokers)))
        victim.kill()
        after_us, every = self.world.shape.broker_session_us + SECOND, len(self.world.shape.brokers)
        self.world.scheduler.after(after_us, self._auto_create_later, random, every)
        self.world.scheduler.after(after_us + self._while(random), victim.start)
        return True

    def _auto_create_later(self, random: Random, factor: int) -> None:
        self._auto_create(random, factor)

    def _auto_create(self, random: Random, factor: int) -> bool:
        """Place a topic over all that are live in a broker's metadata, the controller among them.

        Source: Apache Kafka 3.9, `AutoTopicCreationManager`, `AdminZkClient.getBrokerMetadatas`, `AdminUtils`.
        """
        broker = self._broker(random)
        if broker is None or not broker.live or not broker.zookeeper_reachable:
            return False
        if len(self.world.truth.topics) >= TOPICS_AT_MOST:
            return False
        racks = {number: each.rack for number, each in broker.live.items()}
        if any(racks.values()) and not all(racks.values()):
            real = [number for number in racks if number in self.world.brokers]
            if all(racks[number] for number in real):
                told = f"broker {broker.id} can't place a topic: of {racks} only some have a rack"
                self.world.violate("brokers can place topics", told)
            return False
        if len(racks) < factor:
            return False
        placed = {
            number: ReplicaAssignment(tuple(random.sample(sorted(racks), factor)))
            for number in range(random.randint(1, 3))
        }
        topic_id = UUID(int=random.getrandbits(128))
        topic = Topic(self._name("auto"), topic_id, placed)
        done = self.world.tree.commit(
            [
                Create(znodes.config("topics", topic.name), encode_config({})),
                Create(znodes.topic(topic.name), encode_topic(topic)),
            ],
            broker.session,
        )
        if isinstance(done, Transaction):
            self.world.asked_factors[topic_id] = factor, len(placed)
            self.world.auto_created.add(topic_id)
            if random.random() < 0.3:
                self.world.faults.apache_takes_over(random)  # Apache may elect any replica, even a former controller.
        return isinstance(done, Transaction)

    def topic_beside_failed_directory(self, random: Random) -> bool:
        """A log dir fails, and a moment later a topic is made on that broker."""
        broker = self._broker(random)
        if broker is None or len(self.world.truth.topics) >= TOPICS_AT_MOST:
            return False
        if not broker.failed_directories:
            broker.fail_directory(random.randrange(2))
            self.world.scheduler.after(12 * SECOND, self.world.faults.mend_disks, broker)
        others = [number for number in self.world.shape.brokers if number != broker.id]
        placed = {0: ReplicaAssignment((random.choice(others), broker.id)), 1: ReplicaAssignment((broker.id,))}
        topic_id = UUID(int=random.getrandbits(128))
        self.world.scheduler.after(
            random.randrange(100, 3_000) * MS, self._put_topic, self._name("n"), placed, topic_id
        )
        return True

    def _put_topic(self, name: str, placed: dict[int, ReplicaAssignment], topic_id: UUID) -> None:
        self.world.put_topic(name, placed, {}, topic_id)

    def answers_errors(self, random: Random) -> bool:
        """A broker answers control requests with an error (its ACLs were changed; a bug), and carries none out."""
        broker = self._broker(random)
        if broker is None:
            return False
        error = random.choice(ANSWERS)
        kinds = ASKED if random.random() < 0.5 else (random.choice(ASKED),)
        broker.refuses_with = dict.fromkeys(kinds, error)
        self.world.scheduler.after(self._while(random), broker.refuses_with.clear)
        return True

    def endpoint_moves(self, random: Random) -> bool:
        """A broker's listeners are reconfigured while it runs."""
        broker = self._broker(random)
        return broker is not None and broker.move_endpoint(10_000 + random.randrange(10_000))

    def racks_change(self, random: Random) -> bool:
        """Restart brokers one after the other: all with new racks, all without a rack, or one in another rack."""
        world, brokers = self.world, self.world.shape.brokers
        kind = random.choice(("new", "none", "another")) if any(world.racks.values()) else "new"
        racks: dict[BrokerId, str | None] = dict.fromkeys(brokers)
        if kind == "new":
            racks = {broker: f"s{random.randrange(2)}" for broker in brokers}
        elif kind == "another":
            racks = {random.choice(brokers): f"r{random.randrange(3)}"}
        world.racks.update(racks)
        for place, broker in enumerate(racks):
            world.scheduler.after(place * random.randrange(1, 3) * SECOND, self._restart, world.brokers[broker])
        return True

    def _restart(self, broker: SimulatedBroker) -> None:
        broker.stop_cleanly()
        self.world.scheduler.after(500 * MS, broker.start)

    # ---- ZooKeeper and the network

    def zookeeper_refuses(self, random: Random) -> bool:
        """Wrong ACLs keep a controller from reading or writing some znodes, until the ACLs are repaired."""
        process = self.world.active_process() or random.choice(list(self.world.processes.values()))
        if not process.running or process.kazoo is None:
            return False
        prefix = random.choice(GUARDED)
        reads = random.random() < (0.2 if prefix == znodes.BROKER_IDS else 0.5)
        length_us = self._while(random)
        everybody = [each.kazoo for each in self.world.processes.values() if each.running and each.kazoo is not None]
        for kazoo in everybody if random.random() < 0.5 else [process.kazoo]:
            forbidden = kazoo.forbidden_reads if reads else kazoo.forbidden_writes
            forbidden.append(prefix)
            self.world.scheduler.after(length_us, forbidden.clear)
        self.world.scheduler.note(f"zookeeper refuses {process.name} {prefix}")
        if random.random() < 0.5 or (prefix == znodes.BROKER_IDS and not reads):
            self.world.faults.controller_deposed(random)
        return True

    def zookeeper_throttles(self, random: Random) -> bool:
        """The server is overloaded, and refuses requests of a controller.

        Source: Apache ZooKeeper 3.6, `RequestThrottler`, `Code.THROTTLEDOP`: no part of such a request is carried out.
        """
        process = self.world.active_process() or random.choice(list(self.world.processes.values()))
        if not process.running or process.kazoo is None:
            return False
        process.kazoo.throttled = random.choice((0.2, 0.7, 1.0))
        self.world.scheduler.after(self._while(random), self._serve_all, process.kazoo)
        if random.random() < 0.3:
            self.world.faults.controller_deposed(random)
        return True

    def _serve_all(self, kazoo: SimulatedKazoo) -> None:
        kazoo.throttled = 0.0

    def channel_swallows(self, random: Random) -> bool:
        """A firewall forgets a controller's connection to a broker: it silently carries nothing any longer."""
        broker = self._broker(random)
        if broker is None:
            return False
        for process in self.world.processes.values():
            process.channels.swallow(broker.id)
        return True

    # ---- the end of phase one, and of phase two

    def mend_all(self) -> None:
        """Mend everything that these actions broke."""
        for broker in self.world.brokers.values():
            broker.refuses_with = {}
        for process in self.world.processes.values():
            if process.kazoo is not None:
                process.kazoo.forbidden_reads.clear()
                process.kazoo.forbidden_writes.clear()
                process.kazoo.throttled = 0.0
        for name in self.world.poisoned():
            self._cure(name)

    def last_act(self) -> list[str]:
        """When the world is at rest: move an endpoint while a connection loses everything silently; then make a topic.

        In a busy cluster requests about other changes carry the new endpoint along. Here no other request is sent.
        """
        if not self.world.shape.identified or not self._last_acts:
            return []
        act = self._last_acts.pop(0)
        self.world.scheduler.note(f"the last act: {act}")
        first, *others = self.world.brokers.values()
        if act == "a topic":
            self._auto_create(Random(self.world.seed), len(self.world.shape.brokers))
            return [act]
        if any(action.kind == "channel_swallows" for action in self.world.actions):
            for process in self.world.processes.values():
                process.channels.swallow(others[0].id)
        first.move_endpoint(first.port + 20_000)
        return [act]

    def _commit(self, operation: Create | Put) -> bool:
        return isinstance(self.world.tree.commit([operation], self.world.operator), Transaction)


def _new_topic(name: str, partitions: int, factor: int, configs: dict[str, str]) -> SimpleNamespace:
    """One topic of a CreateTopics, as kio would give it."""
    return SimpleNamespace(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        assignments=[],
        configs=[SimpleNamespace(name=key, value=value) for key, value in configs.items()],
    )
