"""A cluster under a controller that behaves like KRaft's, and a rig that drives the executor's core against it.

A partition and its reassignment are the simulation's (`SimulatedPartition`).
"""

from collections.abc import Callable, Iterable
from uuid import UUID

from lab.simulation.executor.partition import SimulatedPartition
from shunter.core.executor import events as ev
from shunter.core.executor.machine import Executor
from shunter.core.executor.ready import (
    AlterLogDirs,
    AlterReassignments,
    AlterSettings,
    ElectLeaders,
    Finish,
    JournalBatch,
    ListReassignments,
    ObserveLogDirs,
    ObserveTopics,
    Read,
    ReadSettings,
    Ready,
    Reply,
    Request,
)
from shunter.core.throttles import CORDONED_LOG_DIRS, RATES, UNLIMITED
from shunter.errors import ErrorCode
from shunter.model.execution import (
    Command,
    CommandKind,
    ElectionBegun,
    ExecutionOptions,
    JournalEntry,
    LogDirSpace,
    MoveOrder,
    ObservedPartition,
    ObservedTopic,
    OngoingReassignment,
    Outcome,
    ReplicaSize,
    StepBegun,
    ThrottleKey,
    ThrottleRemembered,
)
from shunter.model.notice import Notice
from shunter.model.partition import Replicas, TopicPartition

SIZE = 1_000


def in_sync(tp: TopicPartition, replicas: Replicas) -> SimulatedPartition:
    return SimulatedPartition(tp, replicas, replicas, replicas[0], SIZE)


class Yard:
    """Brokers, partitions, settings, and the controller's rules."""

    def __init__(self, partitions: dict[str, list[Replicas]], brokers: Iterable[int] = (1, 2, 3, 4, 5, 6)) -> None:
        self.brokers = set(brokers)
        self.up = set(self.brokers)
        self.strands = False
        self.needs_all: bool | None = None
        self.broken: dict[int, tuple[str, ...]] = {}
        """Whether a replica that another target drops stays among those being added, as on Kafka 4.3.1 and 4.4.0."""
        self.topic_ids = {name: UUID(int=index + 1) for index, name in enumerate(sorted(partitions))}
        self.partitions = {
            (tp := TopicPartition(name, number)): in_sync(tp, replicas)
            for name, listed in partitions.items()
            for number, replicas in enumerate(listed)
        }
        self.settings: dict[ThrottleKey, str] = {}
        self.controller = 1
        self.made = len(partitions)
        self.refuse: dict[TopicPartition, ErrorCode] = {}
        self.refuse_elections: dict[TopicPartition, ErrorCode] = {}
        self.racks: dict[int, str | None] = {}
        self.min_isr: dict[str, int] = {}
        self.without_log: set[int] = set()
        """Brokers that make no replica and say nothing of a log dir that failed."""
        self.wanted_dirs: dict[tuple[int, TopicPartition], str] = {}
        self.log_dirs: dict[tuple[int, TopicPartition], str] = {}
        self.spaces = {"/d": LogDirSpace(100 * SIZE, 50 * SIZE)}
        self.paths = ("/d", "/d1", "/fast", "/nowhere")
        """The log dirs of every broker. A move to `/nowhere` is refused, as to a log dir that fails."""

    # The controller's acts.

    def alter(self, tp: TopicPartition, target: Replicas | None, *, keeps: bool = False) -> ErrorCode:
        partition = self.partitions.get(tp)
        if partition is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if tp in self.refuse:
            return self.refuse[tp]
        if target is None:
            code = partition.cancel()
        elif keeps and len(target) != len(set(partition.replicas) - set(partition.removing)):
            return ErrorCode.INVALID_REPLICATION_FACTOR
        else:
            new = {broker for broker in target if broker not in partition.replicas}
            if not new <= self.up or len(set(target)) != len(target) or self.cordoned().intersection(target):
                return ErrorCode.INVALID_REPLICA_ASSIGNMENT
            partition.reassign(target, kraft=True, strands=self.strands)
            code = ErrorCode.NONE
        self._settle(partition)
        return code

    def cordon(self, *brokers: int) -> None:
        """Cordon all log dirs of these brokers, and of no others."""
        self.settings = {key: value for key, value in self.settings.items() if key.setting != CORDONED_LOG_DIRS}
        self.settings.update((ThrottleKey("broker", str(broker), CORDONED_LOG_DIRS), "*") for broker in brokers)

    def cordoned(self) -> set[int]:
        """Brokers whose log dirs are all cordoned. Kafka 4.4 takes no target that names one."""
        found = self.settings.items()
        return {int(key.name) for key, value in found if key.setting == CORDONED_LOG_DIRS and value == "*"}

    def _settle(self, partition: SimulatedPartition) -> None:
        """Complete the reassignment if it can be completed, and elect a leader if there is none."""
        if partition.completable():
            partition.complete()
        partition.elect(self.up, 0)

    def elect_preferred(self, tp: TopicPartition) -> ErrorCode:
        partition = self.partitions.get(tp)
        if partition is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if tp in self.refuse_elections:
            return self.refuse_elections[tp]
        return partition.elect_preferred(self.up, 0)

    # Events in the yard.

    def catch_up(self, tp: TopicPartition) -> None:
        """One live replica that is out of sync comes into sync."""
        partition = self.partitions.get(tp)
        if partition is None or partition.leader < 0:
            return
        for broker in partition.replicas:
            if broker in self.up and broker not in partition.isr and broker not in self.without_log:
                partition.isr = (*partition.isr, broker)
                partition.have[broker] = SIZE
                break
        self._settle(partition)

    def kill(self, broker: int) -> None:
        self.up.discard(broker)
        for partition in self.partitions.values():
            if broker in partition.isr and len(partition.isr) > 1:
                partition.isr = tuple(member for member in partition.isr if member != broker)
            self._settle(partition)

    def revive(self, broker: int) -> None:
        self.up.add(broker)
        for partition in self.partitions.values():
            partition.elect(self.up, 0)

    def delete(self, topic: str) -> None:
        self.partitions = {tp: found for tp, found in self.partitions.items() if tp.topic != topic}
        self.topic_ids.pop(topic, None)

    def make(self, topic: str, listed: list[Replicas]) -> None:
        self.made += 1
        self.topic_ids[topic] = UUID(int=1000 + self.made)
        for number, replicas in enumerate(listed):
            tp = TopicPartition(topic, number)
            self.partitions[tp] = in_sync(tp, replicas)

    # Answers to reads.

    def ongoing(self) -> dict[TopicPartition, OngoingReassignment]:
        return {tp: found.ongoing() for tp, found in self.partitions.items() if found.in_motion}

    def topic(self, name: str) -> ObservedTopic | None:
        if name not in self.topic_ids:
            return None
        seen = {
            tp.partition: ObservedPartition(found.replicas, found.isr, found.leader)
            for tp, found in self.partitions.items()
            if tp.topic == name
        }
        return ObservedTopic(self.topic_ids[name], seen, self.min_isr.get(name, 1))

    def replicas(self) -> dict[TopicPartition, Replicas]:
        return {tp: found.replicas for tp, found in self.partitions.items()}


def in_force(own: dict[ThrottleKey, str | None]) -> dict[ThrottleKey, str | None]:
    """Effective values: a rate that nobody set has Kafka's default."""
    return {key: str(UNLIMITED) if found is None and key.setting in RATES else found for key, found in own.items()}


class Rig:
    """The executor's core, its journal, and what is under way between it and the yard."""

    def __init__(self, yard: Yard) -> None:
        self.yard = yard
        self.now_ms = 1_000_000
        self.journal: list[JournalEntry] = []
        self.pending: list[Request | Read] = []
        self.notices: list[Notice] = []
        self.replies: dict[int, Reply] = {}
        self.finish: Finish | None = None
        self.asked: list[tuple[TopicPartition, Replicas | None]] = []
        self.elected: list[TopicPartition] = []
        self.last_token = 0
        self.before: dict[ThrottleKey, str] = dict(yard.settings)
        self.start()

    def start(self) -> None:
        """Let a new process read the journal."""
        self.core = Executor()
        self.pending = []
        self.finish = None
        self.wake_at_ms: int | None = None
        self.tell(ev.JournalLoaded(tuple(self.journal), "yard"))

    def crash(self, *, carried_out: Iterable[bool] = ()) -> None:
        """Let the process die; requests under way to the cluster may still arrive there."""
        for work, arrives in zip(self.pending, carried_out, strict=False):
            if arrives:
                self._carry_out(work)
        self.start()

    def tell(self, event: ev.Event, *, write: bool = True) -> None:
        """Handle an event and all that follows at once. Without `write` the process dies before the journal's write."""
        while True:
            ready = self.core.handle(ev.Envelope(self.now_ms, "test", event))
            self._take(ready)
            if ready.writes is None:
                return
            if not write:
                self.start()
                return
            self._append(ready.writes)
            event = ev.JournalWritten(ready.writes.batch_id)

    def _append(self, batch: JournalBatch) -> None:
        assert batch.entries[0].sequence == len(self.journal) + 1
        self.journal.extend(batch.entries)

    def _take(self, ready: Ready) -> None:
        for request in ready.requests:
            self._check_durable(request)
        self.pending += [*ready.requests, *ready.reads]
        self.notices += ready.notices
        self.replies.update(ready.replies)
        self.wake_at_ms = ready.wake_at_ms
        self.finish = ready.finish

    def _check_durable(self, request: Request) -> None:
        """Check that nothing is asked for that the journal doesn't have."""
        if isinstance(request, AlterReassignments):
            begun = {entry.record.tp: entry.record for entry in self.journal if isinstance(entry.record, StepBegun)}
            for tp, replicas in request.targets:
                assert replicas == (None if begun[tp].cancels else begun[tp].after)
        if isinstance(request, ElectLeaders):
            known_moves = {entry.record.tp for entry in self.journal if isinstance(entry.record, ElectionBegun)}
            assert set(request.partitions) <= known_moves
        if isinstance(request, AlterSettings):
            known = {entry.record.key for entry in self.journal if isinstance(entry.record, ThrottleRemembered)}
            assert {key for key, _value in request.settings} <= known

    def deliver(self, index: int = 0, *, lost: bool = False) -> None:
        """Carry out one pending request or read, and bring back its answer; `lost`: only a failure comes back."""
        self.now_ms += 1
        work = self.pending.pop(index % len(self.pending))
        event = self._carry_out(work)
        if lost:
            what = {ListReassignments: "list", ObserveTopics: "topics", ObserveLogDirs: "log-dirs"}
            name = what.get(type(work), "settings")
            keys = getattr(work, "keys", ())
            event = ev.AdminFailed(getattr(work, "request_id", 0), name, "the connection was lost", True, keys)
        self.tell(event)

    def _carry_out(self, work: Request | Read) -> ev.Event:
        yard = self.yard
        match work:
            case AlterReassignments():
                self.asked += work.targets
                keeps = work.keeps_factor
                results = {tp: (yard.alter(tp, replicas, keeps=keeps), "") for tp, replicas in work.targets}
                return ev.ReassignmentsAnswered(work.request_id, results)
            case AlterSettings():
                for key, value in work.settings:
                    if value is None:
                        yard.settings.pop(key, None)
                    else:
                        yard.settings[key] = value
                return ev.SettingsAltered(work.request_id)
            case AlterLogDirs():
                yard.wanted_dirs.update(((broker, tp), path) for broker, tp, path in work.replicas)
                answers = {
                    (broker, tp): ErrorCode.LOG_DIR_NOT_FOUND
                    if path == "/nowhere"
                    else ErrorCode.NONE
                    if broker in yard.partitions[tp].replicas
                    else ErrorCode.REPLICA_NOT_AVAILABLE
                    for broker, tp, path in work.replicas
                }
                return ev.LogDirsAltered(work.request_id, answers)
            case ElectLeaders():
                self.elected += work.partitions
                return ev.LeadersElected(
                    work.request_id, {tp: (yard.elect_preferred(tp), "") for tp in work.partitions}
                )
            case ListReassignments():
                return ev.ReassignmentsListed(yard.ongoing(), self.now_ms)
            case ObserveTopics():
                topics = {name: yard.topic(name) for name in work.topics} or {"": None}
                up = {broker: yard.racks.get(broker) for broker in sorted(yard.up)}
                return ev.TopicsObserved(topics, up, yard.controller, self.now_ms, needs_all=yard.needs_all)
            case ObserveLogDirs():
                sizes = {
                    (broker, tp): ReplicaSize(
                        yard.partitions[tp].have.get(broker) or SIZE, yard.log_dirs.get((broker, tp), "/d")
                    )
                    for broker, tps in work.partitions
                    for tp in tps
                    if tp in yard.partitions and broker not in yard.without_log
                }
                spaces = {
                    (broker, path): space._replace(cordoned=True) if broker in yard.cordoned() else space
                    for broker, _tps in work.partitions
                    for path in yard.paths
                    if (space := yard.spaces.get(path, LogDirSpace(-1, -1)))
                }
                brokers = tuple(broker for broker, _ in work.partitions)
                broken = {broker: yard.broken[broker] for broker in brokers if broker in yard.broken}
                return ev.LogDirsObserved(
                    sizes, spaces, brokers, self.now_ms, asked=dict(work.partitions), broken=broken
                )
            case ReadSettings():
                own = {key: yard.settings.get(key) for key in work.keys}
                return ev.SettingsRead(own, in_force(own), work.of_others)

    def pass_time(self, milliseconds: int) -> None:
        self.now_ms += milliseconds
        self.tell(ev.TimePassed())

    def submit(
        self, *moves: tuple[str, int, Replicas], options: ExecutionOptions | None = None, elect: bool = False
    ) -> int:
        self.last_token += 1
        orders = tuple(MoveOrder(TopicPartition(topic, number), target, elect=elect) for topic, number, target in moves)
        event = ev.PlanSubmitted(f"plan-{self.last_token}", orders, options or ExecutionOptions(), self.last_token)
        self.tell(event)
        return self.last_token

    def command(
        self,
        kind: CommandKind,
        *partitions: TopicPartition,
        rate: int | None = None,
        force: bool = False,
        brokers: Replicas = (),
    ) -> int:
        self.last_token += 1
        command = Command(kind, partitions, rate, "test", brokers, force=force)
        self.tell(ev.CommandReceived(command, self.last_token))
        return self.last_token

    def settle(self, *, catching_up: bool = True, rounds: int = 400, until_ms: int = 250) -> None:
        """Carry everything out, in order, until nothing is left to be done."""
        for _round in range(rounds):
            while self.pending:
                self.deliver()
            if self.finish is not None:
                return
            if catching_up:
                for tp in list(self.yard.partitions):
                    self.yard.catch_up(tp)
            self.pass_time(until_ms)

    def outcomes(self) -> dict[TopicPartition, Outcome | None]:
        return {tp: move.outcome for tp, move in self.core.state.moves.items()}


class LateRig(Rig):
    """Brokers show the settings and replicas that a test sets, if it does; a topic that is gone has no settings."""

    shown: dict[ThrottleKey, str] | None = None
    silent: str | None = None
    """A broker that neither reports its settings nor changes them."""
    topic_shown: ObservedTopic | None = None
    silent_disks: frozenset[int] = frozenset()
    """Brokers that do not report their log dirs."""

    def _carry_out(self, work: Request | Read) -> ev.Event:
        if isinstance(work, ObserveTopics) and self.topic_shown is not None:
            return ev.TopicsObserved({"t": self.topic_shown}, dict.fromkeys(self.yard.up), 1, self.now_ms)
        if isinstance(work, ObserveLogDirs):
            work = ObserveLogDirs(tuple(each for each in work.partitions if each[0] not in self.silent_disks))
        if isinstance(work, ReadSettings) and any(key.name == self.silent for key in work.keys):
            what = "others" if work.of_others else "settings"
            return ev.AdminFailed(0, what, "not answered", retriable=True, settings=work.keys)
        if isinstance(work, ReadSettings) and self.shown is not None:
            own = {key: self.shown.get(key) for key in work.keys}
            return ev.SettingsRead(own, in_force(own), work.of_others)
        if isinstance(work, AlterSettings):
            known = {*self.yard.topic_ids, *(str(broker) for broker in self.yard.up)} - {self.silent}
            gone = {key for key, _value in work.settings if key.name not in known}
            kept = AlterSettings(work.request_id, tuple(item for item in work.settings if item[0] not in gone))
            super()._carry_out(kept)
            told = dict.fromkeys(gone, "UnknownTopicOrPartitionError")
            return ev.SettingsAltered(work.request_id, told, frozenset(gone))
        return super()._carry_out(work)


def until(rig: Rig, reached: Callable[[], bool], turns: int, told: str) -> None:
    for _turn in range(turns):
        if reached():
            return
        if rig.pending:
            rig.deliver()
        else:
            rig.pass_time(250)
    raise AssertionError(told)


def until_asked(rig: Rig, count: int = 1) -> None:
    until(rig, lambda: len(rig.asked) >= count, 80, "nothing was asked for")


def until_begun(rig: Rig, number: int) -> None:
    """Go on until the journal has the step and no request for it was sent."""
    until(
        rig,
        lambda: any(isinstance(entry.record, StepBegun) and entry.record.number == number for entry in rig.journal),
        400,
        "the step was not begun",
    )


def go_on(rig: Rig, turns: int) -> None:
    for _turn in range(turns):
        if rig.pending:
            rig.deliver()
        else:
            rig.pass_time(250)


def planned(
    topics: dict[str, list[Replicas]], *moves: tuple[str, int, Replicas], options: ExecutionOptions | None = None
) -> Rig:
    """A rig on a yard with these topics, and a plan of these moves that was handed in."""
    rig = Rig(Yard(topics))
    rig.submit(*moves, options=options)
    return rig
