"""A world: brokers, ZooKeeper, controllers, producers; a plan of actions on it; and two phases.

Phase one: operators and faults; safety is checked with every event. Phase two: faults stop and everything broken is
mended. Then everything has to converge, or the world reports what it waits for.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from lab.simulation.actions import FAULT_WEIGHTS, Action
from lab.simulation.brokers.apache import ApacheController
from lab.simulation.brokers.broker import SimulatedBroker
from lab.simulation.brokers.poison import is_poison
from lab.simulation.brokers.refusals import Refusals
from lab.simulation.coverage import Coverage
from lab.simulation.edges import Edges
from lab.simulation.faults import Faults
from lab.simulation.network import Delays
from lab.simulation.operators import Operators
from lab.simulation.phases import live_through
from lab.simulation.process import ObservedMachine, ShunterProcess, altered_results
from lab.simulation.rules.edges import REFUSED_BY_ZOOKEEPER, EdgeRules
from lab.simulation.rules.machine import MachineRules
from lab.simulation.rules.safety import Safety
from lab.simulation.rules.truth import Truth
from lab.simulation.rules.violation import Violation
from lab.simulation.scheduler import MS, SECOND, Scheduler
from lab.simulation.shape import Shape
from lab.simulation.zookeeper.garbling import Garbling
from lab.simulation.zookeeper.tree import Transaction, ZooKeeperTree
from shunter.core.controller.events import Envelope
from shunter.core.controller.moves.lifecycle import Transition
from shunter.core.controller.ready import Ready
from shunter.drivers.zookeeper.requests import Create
from shunter.errors import ErrorCode
from shunter.formats.znodes import paths as znodes
from shunter.formats.znodes.brokers import encode_cluster_id
from shunter.formats.znodes.configs import encode_config
from shunter.formats.znodes.topics import encode_topic
from shunter.model.partition import BrokerId, ReplicaAssignment, TopicPartition
from shunter.model.settings import ControllerSettings, Takeover
from shunter.model.topic import Topic
from shunter.wire.alter_partition import AlterPartitionResult

CONVERGE_WITHIN_US = 240 * SECOND
LOOK_EVERY_US = 500 * MS


class World:
    """One world, from one seed."""

    def __init__(
        self,
        seed: int,
        shape: Shape,
        actions: Sequence[Action],
        find_unfinished: Callable[[World], list[str]] = lambda _: [],
    ) -> None:
        """Build it; nothing runs before `run`.

        Args:
            find_unfinished: lists what has not converged yet in phase two.
        """
        self._find_unfinished = find_unfinished
        self.seed = seed
        self.shape = shape
        self.actions = actions
        self.scheduler = Scheduler(seed)
        self.coverage = Coverage()
        self.violation: Violation | None = None
        self.acknowledged = 0
        self.phase_two = False
        self._owners: dict[int, str] = {0: "zookeeper"}
        self.truth = Truth()
        self.safety: Safety = Safety(self, self.truth)
        self.tree = ZooKeeperTree(self._committed)
        self.operator = self.tree.open_session()
        self.session_opened(self.operator, "operator")
        self.zookeeper_delays = Delays()
        self._delays: dict[BrokerId, Delays] = {}
        self.parted: set[tuple[BrokerId, BrokerId]] = set()
        self.racks = dict(zip(shape.brokers, shape.racks, strict=True)) if shape.racks else {}
        """The racks that brokers give at their next start."""
        self.unclean_asked: set[TopicPartition] = set()
        self.brokers: dict[BrokerId, SimulatedBroker] = {}
        for broker in shape.brokers:
            self._delays[broker] = Delays()
            self.brokers[broker] = SimulatedBroker(self, broker)
        self.machine_rules = MachineRules(self)
        self.processes = {number: ShunterProcess(self, number, takeover) for number, takeover in shape.controllers}
        self.apache = ApacheController(self)
        self.operators = Operators(self)
        self.faults = Faults(self)
        self.garbling = Garbling(self)
        self.edges = Edges(self)
        self.refusals = Refusals(self)
        self.edge_rules = EdgeRules(self)
        self._value = 0
        self.asked_factors: dict[UUID, tuple[int, int]] = {}
        """For topics that brokers made: the requested replication factor, and the initial number of partitions."""
        self.decided_anew: set[tuple[UUID | None, int]] = set()
        """Partitions for which a reassignment was asked for since their topic was made."""
        self.auto_created: set[UUID | None] = set()
        self.growing: Counter[str] = Counter()
        """Requests for more partitions that were not answered, by topic."""
        self.not_owed: set[str] = set()
        """Partitions for which a notice asked operators to delete a dead broker's replica by hand."""
        self.unmarked: set[BrokerId] = set()
        """Controllers whose id ZooKeeper once refused to store; the tree shows whether it has the id now."""

    # ---- questions of the parts

    def session_opened(self, session: int, owner: str) -> None:
        """Remember the owner of a session."""
        self._owners[session] = owner

    def owner_of(self, session: int) -> str:
        """The owner of a session, by name."""
        return self._owners.get(session, "nobody")

    def delays(self, broker: BrokerId) -> Delays:
        """Delays of a broker's connections."""
        return self._delays[broker]

    def slowness(self, broker: BrokerId) -> float:
        """How many times slower than usual a broker works."""
        return self._delays[broker].slow

    def connected(self, one: BrokerId, other: BrokerId) -> bool:
        """Whether two brokers reach each other."""
        return (min(one, other), max(one, other)) not in self.parted

    def min_isr(self, topic: str) -> int:
        """min.insync.replicas of a topic."""
        return int(self.truth.configs.get(topic, {}).get("min.insync.replicas", "1"))

    def rack(self, broker: BrokerId) -> str | None:
        """The rack that a broker gives at its next registration."""
        return self.racks.get(broker)

    def looks_controllers_up(self, broker: BrokerId) -> bool | None:
        """Whether a broker is so old that it looks a controller up in ZooKeeper; None: brokers are not asked."""
        return self.shape.alter_version == 0 and broker % 2 == 1 if self.shape.identified else None

    def is_poisoned(self, topic: str) -> bool:
        """Whether no broker can read a topic's configuration."""
        return is_poison(self.truth.configs.get(topic, {}))

    def poisoned(self) -> list[str]:
        """Topics whose configuration keeps brokers from starting."""
        return [name for name in self.truth.topics if self.is_poisoned(name)]

    def unclean_allowed(self, tp: TopicPartition) -> bool:
        """Whether an operator allowed a leader that is out of sync."""
        configs = self.truth.configs.get(tp.topic, {})
        return tp in self.unclean_asked or configs.get("unclean.leader.election.enable") == "true"

    def topic_id(self, name: str) -> UUID | None:
        """A topic's id."""
        topic = self.truth.topics.get(name)
        return None if topic is None else topic.topic_id

    def draw_skew_ms(self) -> int:
        """Draw the error of a process's clock."""
        return self.scheduler.random.randint(-self.shape.skew_ms, self.shape.skew_ms)

    def settings_of(self, broker_id: BrokerId, takeover: Takeover) -> ControllerSettings:
        """A controller's settings."""
        return replace(self.shape.settings, broker_id=broker_id, takeover=takeover)

    def live_in_the_eyes_of(self, writer: str, tp: TopicPartition) -> frozenset[BrokerId]:
        """Brokers that a controller believed able to serve a partition when it decided its last batch."""
        for process in self.processes.values():
            if process.name == writer:
                return process.decided_live - process.decided_offline.get(tp, frozenset())
        return frozenset(self.truth.brokers)

    def is_auto_created(self, tp: TopicPartition) -> bool:
        """Whether a broker made the partition's topic, and placed it: some of its replicas may be owed."""
        return self.topic_id(tp.topic) in self.auto_created

    def transitions_of(self, writer: str) -> Sequence[Transition]:
        """The transitions of moves in a controller's outstanding batch."""
        batches = (each.machine.outstanding for each in self.processes.values() if each.name == writer)
        return next((batch.draft.transitions for batch in batches if batch is not None), ())

    def forget_asked_factor(self, tp: TopicPartition) -> None:
        """A partition is reassigned: its topic's initial replication factor is not expected of it any longer."""
        self.decided_anew.add((self.topic_id(tp.topic), tp.partition))

    def epochs_known_to(self, writer: str) -> dict[BrokerId, int]:
        """The broker epochs that a controller knows."""
        brokers = next((each.machine.state.brokers for each in self.processes.values() if each.name == writer), {})
        return {broker.id: broker.epoch for broker in brokers.values()}

    def decided_us(self, writer: str) -> int:
        """When a controller decided its last batch."""
        return max((each.decided_us for each in self.processes.values() if each.name == writer), default=0)

    def born_anew(self, writer: str, since_us: int) -> frozenset[BrokerId]:
        """Brokers whose present registration a controller has learned of since a moment: none of them is in sync."""
        processes = [process for process in self.processes.values() if process.name == writer]
        return frozenset(
            broker for each in processes for broker, heard_us in each.learned_us.items() if heard_us >= since_us
        )

    def believes_deleting(self, sender: str, topic: str) -> bool:
        """Whether a controller is deleting a topic."""
        return any(
            process.name == sender and topic in process.machine.state.deleting for process in self.processes.values()
        )

    def is_placing(self, sender: str, tp: TopicPartition) -> bool:
        """Whether a controller is writing a partition's replicas, and has no outcome of that write yet."""
        return any(
            process.name == sender
            and (batch := process.machine.outstanding) is not None
            and tp.partition in batch.draft.assignments.get(tp.topic, {})
            for process in self.processes.values()
        )

    def active_process(self) -> ShunterProcess | None:
        """The Shunter that clients would find: of those that believe to be the controller, the newest epoch's."""
        thinking = [process for process in self.processes.values() if process.active and not process.loop.paused]
        return max(thinking, key=lambda process: process.machine.state.controller_epoch, default=None)

    # ---- calls from the parts

    def _committed(self, transaction: Transaction) -> None:
        self.scheduler.note(
            f"zk {transaction.zxid} by {self.owner_of(transaction.session)}: "
            + " ".join(f"{type(each).__name__}:{each.path}" for each in transaction.operations)
        )
        self.edge_rules.committed(transaction)
        self.safety.committed(transaction)
        self.edge_rules.placed(transaction)

    def machine_handled(
        self, process: ShunterProcess, machine: ObservedMachine, envelope: Envelope, ready: Ready
    ) -> None:
        """A machine handled an event."""
        name = type(envelope.event).__name__
        self.coverage.count("event", name)
        self.scheduler.note(
            f"{process.name} {name} -> {len(ready.requests)} {len(ready.replies)} {ready.writes is not None}"
        )
        self.machine_rules.handled(process, machine, envelope, ready)
        if machine.intake.adoption.unreconciled and machine.state.active:
            self.operators.started()

    def process_failed(self, name: str, failure: BaseException) -> None:
        """A process raised an exception that it did not catch."""
        where = "".join(traceback.format_exception(failure)[-3:])
        self.safety.violate("nothing raises", f"{name}: {type(failure).__name__}: {failure}\n{where}")

    def refused(self, process: str, path: str) -> None:
        """ZooKeeper refused a request of a process, about a path."""
        self.unmarked.update(each.id for each in self.processes.values() if path == znodes.controller_id(each.id))
        self.edge_rules.refused(process, REFUSED_BY_ZOOKEEPER)

    def broker_stopped(self, broker: BrokerId) -> None:
        """A broker's process ended: connections to it break."""
        for process in self.processes.values():
            process.channels.drop(broker)
        self.apache.broker_stopped(broker)

    def controller_stopped(self, name: str) -> None:
        """A controller's process ended."""
        self.scheduler.note(f"{name} stopped")

    def alter_partition(
        self,
        broker: SimulatedBroker,
        epoch: int,
        proposals: tuple[Any, ...],
        answered: Callable[[SimpleNamespace | None], None],
    ) -> None:
        """Carry an AlterPartition to the controller that the broker knows, and its answer back."""

        def told(answer: AlterPartitionResult) -> None:
            found = altered_results(answer, proposals)
            self.edge_rules.alterations_answered(found)
            result = SimpleNamespace(error=answer.error, partitions=found)
            self.scheduler.after(self.delays(broker.id).draw(self.scheduler), answered, result)

        self._to_controller(
            broker,
            lambda process: process.alter_partition(broker.id, epoch, proposals, told),
            lambda: self.apache.alter_partition(broker.id, epoch, proposals, told),
            lambda: answered(None),
        )

    def controlled_shutdown(self, broker: SimulatedBroker, epoch: int, answered: Callable[[int | None], None]) -> None:
        """Carry a ControlledShutdown to the controller, and back the number of partitions that the broker leads."""

        def told(answer: SimpleNamespace) -> None:
            left = len(answer.remaining_partitions) if answer.error_code is ErrorCode.NONE else None
            self.scheduler.after(self.delays(broker.id).draw(self.scheduler), answered, left)

        self._to_controller(
            broker,
            lambda process: process.controlled_shutdown(broker.id, epoch, told),
            lambda: self.apache.controlled_shutdown(broker.id, told),
            lambda: answered(None),
        )

    def _to_controller(
        self,
        broker: SimulatedBroker,
        ask: Callable[[ShunterProcess], None],
        ask_apache: Callable[[], None],
        nobody: Callable[[], None],
    ) -> None:
        delay = self.delays(broker.id).draw(self.scheduler)
        for process in self.processes.values():
            if process.name == broker.controller:
                if process.running:
                    self.scheduler.after(delay, ask, process)
                else:
                    self.scheduler.after(delay + 100 * MS, nobody)
                return
        self.scheduler.after(delay, ask_apache)

    # ---- the run

    def run(self) -> None:
        """Live through both phases; stops at the first violation."""
        self._furnish()
        for broker in self.brokers.values():
            self.scheduler.after(self.scheduler.between(0, 500 * MS), broker.start)
        for process in self.processes.values():
            self.scheduler.after(self.scheduler.between(0, SECOND), process.start)
        self.scheduler.after(self.shape.produce_us, self._produce)
        for action in self.actions:
            self.scheduler.at(action.at_us, self._act, action)
        live_through(self, self._find_unfinished, within_us=CONVERGE_WITHIN_US, look_every_us=LOOK_EVERY_US)

    def violate(self, rule: str, told: str) -> None:
        """A rule is broken."""
        self.safety.violate(rule, told)

    @property
    def checks(self) -> int:
        """How often rules were checked."""
        return self.safety.checks

    def begin_phase_two(self) -> None:
        """Mend everything, and let operators resume what is paused."""
        self.phase_two = True
        self.faults.mend_all()
        self.edges.mend_all()
        self.operators.let_go()

    def _furnish(self) -> None:
        """Create the initial znodes, with topics that have no leaders yet."""
        for path in (
            "/controller_epoch",
            "/cluster",
            "/cluster/id",
            "/admin",
            "/brokers",
            "/config",
            *znodes.PERSISTENT,
        ):
            self._ensure(path)
        self.tree.commit([Create("/admin/shunter", None)], self.operator)
        random = Random(f"topics {self.seed}")
        for name, count, factor, min_isr in self.shape.topics:
            placed = {
                number: ReplicaAssignment(tuple(random.sample(self.shape.brokers, factor))) for number in range(count)
            }
            self.put_topic(name, placed, {"min.insync.replicas": str(min_isr)}, UUID(int=random.getrandbits(128)))

    def _ensure(self, path: str) -> None:
        parts = path.strip("/").split("/")
        for depth in range(1, len(parts) + 1):
            ancestor = "/" + "/".join(parts[:depth])
            if self.tree.get(ancestor) is None:
                data = {"/controller_epoch": b"0", "/cluster/id": encode_cluster_id("simulated")}.get(ancestor)
                self.tree.commit([Create(ancestor, data)], self.operator)

    def put_topic(
        self, name: str, placed: dict[int, ReplicaAssignment], configs: dict[str, str], topic_id: UUID | None
    ) -> bool:
        """Create a topic as a tool on ZooKeeper does; returns False if it exists."""
        done = self.tree.commit(
            [
                Create(znodes.config("topics", name), encode_config(configs)),
                Create(znodes.topic(name), encode_topic(Topic(name, topic_id, placed))),
            ],
            self.operator,
        )
        return isinstance(done, Transaction)

    def _act(self, action: Action) -> None:
        self.scheduler.note(f"action {action.number} {action.kind}")
        random = Random(action.draw)
        doers = (self.faults, self.operators, self.edges, self.refusals)
        done = getattr(next(doer for doer in doers if hasattr(doer, action.kind)), action.kind)(random)
        if done:
            self.coverage.count("fault" if action.kind in FAULT_WEIGHTS else "operation", action.kind)

    def _produce(self) -> None:
        if self.phase_two and self.scheduler.now_us % 7:
            self.scheduler.after(self.shape.produce_us * 8, self._produce)
        else:
            self.scheduler.after(self.shape.produce_us, self._produce)
        partitions = self.truth.partitions()
        if not partitions:
            return
        tp = self.scheduler.random.choice(partitions)
        router = self.brokers[self.scheduler.random.choice(self.shape.brokers)]
        leadership = router.metadata.get(tp)
        leader = self.brokers.get(leadership.leader) if leadership is not None else None
        self._value += 1
        if leader is not None and router.running:
            delay = self.delays(leader.id).draw(self.scheduler)
            self.scheduler.after(delay, self._arrive, leader, tp, self._value)

    def _arrive(self, leader: SimulatedBroker, tp: TopicPartition, value: int) -> None:
        if leader.produce(tp, value):
            self.coverage.count("producer", "taken in")
        else:
            self.coverage.count("producer", "refused")
