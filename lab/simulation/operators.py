"""Operators and tools, by the names of `actions.OPERATIONS`. Every method returns whether it did anything."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any
from uuid import UUID

from lab.simulation.scheduler import MS, SECOND
from lab.simulation.zookeeper.tree import Transaction
from shunter.core.controller.events import (
    ElectionRequested,
    NewTopic,
    PartitionsSubmitted,
    ProducerIdsRequested,
    ReassignmentChange,
    ReassignmentsSubmitted,
    SettingsChanged,
    TopicDeletionsSubmitted,
    TopicsSubmitted,
)
from shunter.core.controller.ready import PartitionResultsReply, ProducerIdsReply, Reply
from shunter.drivers.zookeeper.requests import Create, Put, Remove
from shunter.errors import ErrorCode
from shunter.formats.znodes import paths as znodes
from shunter.formats.znodes.admin import encode_legacy_reassignments, encode_partitions
from shunter.formats.znodes.configs import ConfigChange, encode_config, encode_config_change
from shunter.formats.znodes.requests import encode_request
from shunter.formats.znodes.topics import encode_state, encode_topic
from shunter.model.partition import BrokerId, ReplicaAssignment, Replicas, TopicPartition
from shunter.model.reassignment import Intervention, Phase, Strategy
from shunter.model.settings import ControlRequestEpoch

if TYPE_CHECKING:
    from lab.simulation.world import World


TOPICS_AT_MOST = 6
NO_TARGETS: Mapping[TopicPartition, Replicas] = {}


class Operators:
    """Sends requests to the present controller, or writes znodes."""

    def __init__(self, world: World) -> None:
        """Begin."""
        self.world = world
        self._created = 0
        self._touches: dict[TopicPartition, int] = {}
        self._at_start: Intervention | None = None

    def _partition(self, random: Random) -> TopicPartition | None:
        partitions = self.world.truth.partitions()
        moving = [tp for tp in partitions if tp in self.world.truth.records]
        if moving and random.random() < 0.4:
            return random.choice(moving)
        return random.choice(partitions) if partitions else None

    def _target(self, random: Random, tp: TopicPartition) -> Replicas:
        """Draw a target: random brokers; now and then one replica fewer or more than the original."""
        assignment = self.world.truth.assignment(tp)
        size = len(assignment.original) if assignment is not None else 1
        size = max(1, min(len(self.world.shape.brokers), size + random.choice((0, 0, 0, -1, 1))))
        return tuple(random.sample(self.world.shape.brokers, size))

    def _told(
        self, about: str, reply: Reply | ErrorCode, targets: Mapping[TopicPartition, Replicas] = NO_TARGETS
    ) -> None:
        if isinstance(reply, ErrorCode):
            self.world.coverage.count("answer", f"{about}: {reply.name}")
            return
        self.world.scheduler.note(f"answered {about}")
        if isinstance(reply, PartitionResultsReply):
            for tp, error, message in reply.partitions:
                self.world.coverage.count("answer", f"{about}: {error.name}")
                if error is ErrorCode.NONE and tp in targets:
                    self.world.safety.moves.answered(tp, targets[tp], message)

    def submit(
        self, event: ReassignmentsSubmitted, about: str, judge: Callable[[Reply | ErrorCode], None] | None = None
    ) -> bool:
        """Send a request to the present controller; `judge` gets the answer."""
        process = self.world.active_process()
        if process is None:
            return False
        contested = {change.tp for change in event.changes if self.world.safety.moves.waiting(change.tp)}
        touched = self._touch(event)
        for change in event.changes:
            if change.replicas:
                self.world.safety.moves.requested(change.tp, change.replicas)
                self.world.safety.cancels.named(change.tp, change.replicas)
            if change.replicas and change.tp in self.world.truth.records:
                self.world.safety.moves.asked(change.tp)
        cancels = {change.tp: change.intervention for change in event.changes if not change.replicas}
        if event.cancel_all or event.cancel_topics:
            cancels.update(dict.fromkeys(self.world.truth.records, event.intervention))
        for tp, mode in cancels.items():
            if (mode or self.world.shape.settings.cancel_mode) is Intervention.STOP:
                self.world.safety.moves.asked(tp)  # A stop may end a rollback before the original is reached.

        def with_token(token: int) -> ReassignmentsSubmitted:
            return ReassignmentsSubmitted(
                event.changes, event.cancel_topics, event.cancel_all, event.intervention, reply_to=token
            )

        targets = {
            change.tp: change.replicas for change in event.changes if change.replicas and change.tp not in contested
        }
        follow = self.world.safety.cancels.submitted((process.name, process.starts), event)

        def told(reply: Reply | ErrorCode) -> None:
            follow(reply)
            self._told(about, reply, self._undisturbed(targets, touched))
            if judge is not None:
                judge(reply)

        process.ask(with_token, told)
        return True

    def _touch(self, event: ReassignmentsSubmitted) -> Mapping[TopicPartition, int]:
        """Count the requests for each partition. Two requests for one partition may become one write."""
        whole = event.cancel_all or event.cancel_topics
        for tp in self.world.truth.partitions() if whole else [change.tp for change in event.changes]:
            self._touches[tp] = self._touches.get(tp, 0) + 1
        return dict(self._touches)

    def touches(self, tp: TopicPartition) -> int:
        """How many requests there were for a partition."""
        return self._touches.get(tp, 0)

    def _undisturbed(
        self, targets: Mapping[TopicPartition, Replicas], touched: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, Replicas]:
        return {tp: target for tp, target in targets.items() if self._touches[tp] == touched[tp]}

    # ---- moves

    def reassign(self, random: Random) -> bool:
        """Move one partition."""
        tp = self._partition(random)
        if tp is None:
            return False
        target = self._target(random, tp)
        if self.world.apache.active:
            return self.world.apache.reassign(tp, target)
        strategy = random.choice((None, None, *Strategy))
        change = ReassignmentChange(tp, target, strategy, forced=random.random() < 0.5)
        return self._submit_perhaps_twice(ReassignmentsSubmitted((change,)), "reassign", random)

    def _submit_perhaps_twice(self, event: ReassignmentsSubmitted, about: str, random: Random) -> bool:
        """Now and then a client's connection breaks, and it repeats a request that has arrived already."""
        done = self.submit(event, about)
        if done and random.random() < 0.06:
            self.world.scheduler.after(random.randrange(1, 300) * MS, self._ask_again, event, about)
            self.world.coverage.count("operation", "asked twice")
        return done

    def reassign_many(self, random: Random) -> bool:
        """Move many at once."""
        partitions = self.world.truth.partitions()
        chosen = random.sample(partitions, random.randint(0, len(partitions)))
        changes = tuple(ReassignmentChange(tp, self._target(random, tp), forced=random.random() < 0.5) for tp in chosen)
        return bool(changes) and self.submit(ReassignmentsSubmitted(changes), "reassign")

    def _ask_again(self, event: ReassignmentsSubmitted, about: str) -> None:
        self.submit(event, about)

    def cancel(self, random: Random) -> bool:
        """Stop one, or roll it back."""
        tp = self._partition(random)
        if tp is None:
            return False
        if self.world.apache.active:
            return self.world.apache.cancel(tp)
        change = ReassignmentChange(tp, None, intervention=random.choice((None, *Intervention)))
        return self._submit_perhaps_twice(ReassignmentsSubmitted((change,)), "cancel", random)

    def change_mind(self, random: Random) -> bool:
        """Move many, and cancel or pause some or all of them at once, while nearly all of them still wait."""
        partitions = self.world.truth.partitions()
        chosen = random.sample(partitions, random.randint(0, len(partitions)))
        changes = tuple(ReassignmentChange(tp, self._target(random, tp), forced=True) for tp in chosen)
        if not changes or not self.submit(ReassignmentsSubmitted(changes), "reassign"):
            return False
        mode = random.choice((None, Intervention.STOP, Intervention.ROLL_BACK, Intervention.PAUSE))
        if random.random() < 0.5:
            return self.submit(ReassignmentsSubmitted((), cancel_all=True, intervention=mode), "cancel")
        cancels = tuple(ReassignmentChange(tp, None, intervention=mode) for tp in chosen if random.random() < 0.5)
        return self.submit(ReassignmentsSubmitted(cancels), "cancel")

    def roll_back_from(self, broker: BrokerId) -> None:
        """Roll back every move that has a broker among its originals."""
        records = self.world.truth.records.items()
        moving = [tp for tp, record in records if broker in record.original and record.phase is Phase.MOVING]
        if moving and not self.world.apache.active:
            changes = tuple(ReassignmentChange(tp, None, intervention=Intervention.ROLL_BACK) for tp in moving)
            self.submit(ReassignmentsSubmitted(changes), "cancel")

    def cancel_topic(self, random: Random) -> bool:
        """Cancel all moves of a topic."""
        tp = self._partition(random)
        mode = random.choice((None, *Intervention))
        return tp is not None and self.submit(
            ReassignmentsSubmitted((), cancel_topics=(tp.topic,), intervention=mode), "cancel"
        )

    def cancel_all(self, random: Random) -> bool:
        """Cancel everything."""
        mode = random.choice((None, *Intervention))
        return self.submit(ReassignmentsSubmitted((), cancel_all=True, intervention=mode), "cancel")

    def cancel_at_start(self, random: Random) -> bool:
        """Begin moves under Apache's controller, depose it, and cancel everything as soon as Shunter is elected."""
        apache = self.world.apache
        if not apache.active and not apache.take_over(force=True):
            return False
        for tp in self.world.truth.partitions():
            if random.random() < 0.7:
                apache.reassign(tp, self._target(random, tp))
        self._at_start = random.choice((Intervention.STOP, Intervention.ROLL_BACK))
        self.world.scheduler.after(random.randrange(1, 2_000) * MS, self._remove, znodes.CONTROLLER)
        return True

    def started(self) -> None:
        """A Shunter controller was elected, and has not reconciled all moves yet: send the cancel that is due."""
        mode, self._at_start = self._at_start, None
        if mode is not None and not self.world.phase_two:
            self.submit(ReassignmentsSubmitted((), cancel_all=True, intervention=mode), "cancel")

    def legacy_znode(self, random: Random) -> bool:
        """Write `/admin/reassign_partitions` as Apache's tool does; refused while it is there."""
        return self._legacy(random, originals=False)

    def legacy_with_originals(self, random: Random) -> bool:
        """Write it with KIP-236's `original_replicas`."""
        return self._legacy(random, originals=True)

    def _legacy(self, random: Random, *, originals: bool) -> bool:
        partitions = self.world.truth.partitions()
        chosen = random.sample(partitions, min(len(partitions), random.randint(1, 3)))
        targets = self.named([(tp, self._target(random, tp)) for tp in chosen])
        known = {
            tp: assignment.original for tp in chosen if (assignment := self.world.truth.assignment(tp)) is not None
        }
        for tp in chosen:
            self._touches[tp] = self._touches.get(tp, 0) + 1
            self.world.safety.moves.asked(tp)
        data = encode_legacy_reassignments(targets, known if originals else None)
        return self._commit(Create(znodes.LEGACY_REASSIGNMENTS, data))

    def resume(self, random: Random) -> bool:
        """Resume paused moves."""
        del random
        return self.submit(ReassignmentsSubmitted((), cancel_all=True, intervention=Intervention.RESUME), "resume")

    def extra_znode(self, random: Random) -> bool:
        """Write KIP-236's `/admin/reassign_partitions_extra`."""
        return self._commit(Create(znodes.EXTRA_REASSIGNMENTS, encode_legacy_reassignments(self.targets(random))))

    def request_znode(self, random: Random) -> bool:
        """Write one of KIP-236's request znodes."""
        data = encode_request(self.targets(random), legacy=False)
        return self._commit(Create(znodes.REASSIGNMENT_REQUEST_PREFIX, data, sequential=True))

    def two_tools(self, random: Random) -> None:
        """Ask for one partition in two ways at once: a request znode, and the legacy znode with another target."""
        tp = self._partition(random)
        if tp is None:
            return
        asked = self.named([(tp, self._target(random, tp)), (tp, self._target(random, tp))])
        self._touches[tp] = self._touches.get(tp, 0) + 2
        self.world.safety.moves.asked(tp)
        request = encode_request(asked[:1], legacy=False)
        self._commit(Create(znodes.REASSIGNMENT_REQUEST_PREFIX, request, sequential=True))
        self._commit(Create(znodes.LEGACY_REASSIGNMENTS, encode_legacy_reassignments(asked[1:])))

    def draft_target(self, random: Random) -> bool:
        """Write `targetReplicas` into a state, as the tool of KIP-455's draft does. The next controller reads it."""
        tp = self._partition(random)
        state = self.world.truth.states.get(tp) if tp is not None else None
        if tp is None or state is None:
            return False
        ((_, target),) = self.named([(tp, self._target(random, tp))])
        self.world.safety.moves.asked(tp)
        return self._commit(
            Put(znodes.state(tp.topic, tp.partition), encode_state(state._replace(target_replicas=target)))
        )

    def cancel_znode(self, random: Random) -> bool:
        """Write KIP-236's `/admin/reassign_cancel`, and remove it later, because no controller does."""
        done = self._commit(Create(znodes.CANCEL, b""))
        self.world.scheduler.after(random.randrange(1, 6) * SECOND, self._remove, znodes.CANCEL)
        return done

    def _remove(self, path: str) -> None:
        if self.world.tree.get(path) is not None:
            self.world.tree.commit([Remove(path)], self.world.operator)

    def targets(self, random: Random) -> list[tuple[TopicPartition, Replicas]]:
        """Draw some partitions with targets, to be written into a znode."""
        partitions = self.world.truth.partitions()
        chosen = random.sample(partitions, min(len(partitions), random.randint(1, 3)))
        for tp in chosen:
            self._touches[tp] = self._touches.get(tp, 0) + 1
            self.world.safety.moves.asked(tp)
        return self.named([(tp, self._target(random, tp)) for tp in chosen])

    def named(self, targets: list[tuple[TopicPartition, Replicas]]) -> list[tuple[TopicPartition, Replicas]]:
        """Register targets that are written into a znode, where they wait for the next controller."""
        for tp, target in targets:
            self.world.safety.moves.requested(tp, target, lasting=True)
            self.world.safety.cancels.named(tp, target)
        return targets

    def change_settings(self, random: Random) -> bool:
        """Change a controller's settings at run time."""
        process = self.world.active_process()
        if process is None:
            return False
        changed = replace(
            process.machine.settings,
            max_concurrent=random.choice((0, 1, 3)),
            strategy=random.choice(tuple(Strategy)),
            control_request_epoch=random.choice(tuple(ControlRequestEpoch)),
        )
        process.tell(SettingsChanged(changed))
        return True

    def let_go(self) -> None:
        """Phase two: remove the cancel znode, and resume paused moves, every 5 s."""
        self._remove(znodes.CANCEL)
        self.world.scheduler.after(5 * SECOND, self.let_go)
        if any(record.phase is Phase.PAUSED for record in self.world.truth.records.values()):
            self.resume(Random(0))

    # ---- other requests of brokers

    def allocate_producer_ids(self, random: Random) -> bool:
        """A broker asks for producer ids. No id may be given twice."""
        process = self.world.active_process()
        broker = random.choice(list(self.world.brokers.values()))
        if process is None or not broker.accepting:
            return False
        process.ask(lambda token: ProducerIdsRequested(broker.id, broker.epoch, token), self._given)
        return True

    def _given(self, reply: Reply | ErrorCode) -> None:
        if isinstance(reply, ProducerIdsReply) and reply.error is ErrorCode.NONE:
            self.world.safety.producer_ids_given(reply.first, reply.length)

    def announce_isr(self, random: Random) -> bool:
        """A broker below 2.7 announces an ISR that it wrote by itself."""
        tp = self._partition(random)
        if tp is None or tp not in self.world.truth.states:
            return False
        path = f"{znodes.ISR_CHANGES}/isr_change_"
        return self._commit(Create(path, encode_partitions((tp,)), sequential=True))

    # ---- topics

    def create_topic(self, random: Random) -> bool:
        """CreateTopics, or a tool's znode."""
        self._created += 1
        name = f"n{self._created}"
        if len(self.world.truth.topics) >= TOPICS_AT_MOST:
            return False
        topic_id = UUID(int=random.getrandbits(128))
        process = self.world.active_process()
        factor = random.randint(1, 3)
        if process is None or random.random() < 0.5:
            brokers = self.world.shape.brokers
            placed = {
                number: ReplicaAssignment(tuple(random.sample(brokers, min(factor, len(brokers)))))
                for number in range(random.randint(1, 3))
            }
            return self.world.put_topic(name, placed, {}, topic_id if random.random() < 0.8 else None)
        new = NewTopic(name, topic_id, random.randint(1, 3), factor, {}, {}, random.getrandbits(16))
        process.ask(lambda token: TopicsSubmitted((new,), False, token), lambda reply: self._told("create", reply))
        return True

    def recreate_topic(self, random: Random) -> bool:
        """Create a topic with the name of a deleted one."""
        names = [f"t{number}" for number in range(3)]
        name = random.choice(names)
        if name in self.world.truth.topics:
            return False
        placed = {0: ReplicaAssignment(tuple(random.sample(self.world.shape.brokers, 2)))}
        return self.world.put_topic(name, placed, {}, UUID(int=random.getrandbits(128)))

    def replace_topic(self, random: Random) -> bool:
        """A script: delete a topic, and create another one of its name as soon as it is gone, under any controller."""
        tp = self._partition(random)
        if tp is None or not self._commit(Create(znodes.deletion(tp.topic), None)):
            return False
        placed = {0: ReplicaAssignment(tuple(random.sample(self.world.shape.brokers, 2)))}
        self._make_anew(tp.topic, placed, UUID(int=random.getrandbits(128)), 100)
        return True

    def _make_anew(self, name: str, placed: dict[int, ReplicaAssignment], topic_id: UUID, attempts: int) -> None:
        if not self.world.put_topic(name, placed, {}, topic_id) and attempts and not self.world.phase_two:
            self.world.scheduler.after(SECOND // 10, self._make_anew, name, placed, topic_id, attempts - 1)

    def delete_topic(self, random: Random) -> bool:
        """DeleteTopics."""
        tp, process = self._partition(random), self.world.active_process()
        if tp is None or process is None:
            return False
        process.ask(
            lambda token: TopicDeletionsSubmitted((tp.topic,), token), lambda reply: self._told("delete", reply)
        )
        return True

    def delete_by_znode(self, random: Random) -> bool:
        """Queue a topic for deletion as a tool on ZooKeeper does; now and then one that does not exist."""
        tp = self._partition(random)
        name = f"n{random.randint(1, self._created + 1)}" if tp is None or random.random() < 0.2 else tp.topic
        return self._commit(Create(znodes.deletion(name), None))

    def grow_topic(self, random: Random) -> bool:
        """CreatePartitions."""
        tp, process = self._partition(random), self.world.active_process()
        if tp is None or process is None:
            return False
        total = len(self.world.truth.topics[tp.topic].assignments) + 1
        if total > 6:
            return False
        growing = self.world.growing

        def told(reply: Any) -> None:
            growing[tp.topic] -= 1
            self._told("grow", reply)

        growing[tp.topic] += 1
        process.ask(lambda token: PartitionsSubmitted({tp.topic: (total, None)}, False, token), told)
        return True

    def change_config(self, random: Random) -> bool:
        """Change a topic's configuration, and announce it."""
        tp = self._partition(random)
        if tp is None:
            return False
        configs = dict(self.world.truth.configs.get(tp.topic, {}))
        if random.random() < 0.8:
            configs["min.insync.replicas"] = str(random.choice((1, 1, 2)))
        else:
            configs["unclean.leader.election.enable"] = random.choice(("true", "false"))
            if configs["unclean.leader.election.enable"] == "false":
                # A controller that has not read the change yet may still make an unclean election.
                self.world.unclean_asked.update(
                    each for each in self.world.truth.partitions() if each.topic == tp.topic
                )
                self.world.scheduler.after(30 * SECOND, self._forbid, tp.topic)
        name = znodes.config("topics", tp.topic)
        if not self._commit(Put(name, encode_config(configs))):
            return False
        announcement = encode_config_change(ConfigChange("topics", tp.topic))
        return self._commit(
            Create(f"{znodes.CONFIG_CHANGES}/{znodes.CONFIG_CHANGE_PREFIX}", announcement, sequential=True)
        )

    def _forbid(self, topic: str) -> None:
        self.world.unclean_asked = {tp for tp in self.world.unclean_asked if tp.topic != topic}

    # ---- elections

    def elect_preferred(self, random: Random) -> bool:
        """ElectLeaders, for one partition or for all."""
        tp, process = self._partition(random), self.world.active_process()
        if process is None or tp is None:
            return False
        partitions = None if random.random() < 0.5 else (tp,)
        process.ask(
            lambda token: ElectionRequested(partitions, reply_to=token), lambda reply: self._told("elect", reply)
        )
        return True

    def elect_by_znode(self, random: Random) -> bool:
        """Write `/admin/preferred_replica_election`."""
        tp = self._partition(random)
        return tp is not None and self._commit(Create(znodes.PREFERRED_ELECTION, encode_partitions((tp,))))

    def elect_unclean(self, random: Random) -> bool:
        """ElectLeaders, unclean: the operator accepts the loss of records."""
        tp, process = self._partition(random), self.world.active_process()
        if process is None or tp is None:
            return False
        self.world.unclean_asked.add(tp)
        process.ask(
            lambda token: ElectionRequested((tp,), unclean=True, reply_to=token),
            lambda reply: self._told("elect", reply),
        )
        return True

    # ---- other writers of znodes

    def touch_state(self, random: Random) -> bool:
        """Rewrite a state unchanged: only its version changes."""
        tp = self._partition(random)
        state = self.world.truth.states.get(tp) if tp is not None else None
        if tp is None or state is None:
            return False
        return self._commit(Put(znodes.state(tp.topic, tp.partition), encode_state(state)))

    def foreign_assignment(self, random: Random) -> bool:
        """Reorder a partition's replicas in the topic's znode, as another tool."""
        tp = self._partition(random)
        if tp is None:
            return False
        topic = self.world.truth.topics[tp.topic]
        assignment = topic.assignments[tp.partition]
        shuffled = tuple(random.sample(assignment.replicas, len(assignment.replicas)))
        placed = {**topic.assignments, tp.partition: assignment._replace(replicas=shuffled)}
        return self._commit(Put(znodes.topic(tp.topic), encode_topic(topic._replace(assignments=placed))))

    def _commit(self, operation: Create | Put) -> bool:
        return isinstance(self.world.tree.commit([operation], self.world.operator), Transaction)
