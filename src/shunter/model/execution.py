"""An execution: moves driven from outside through the Admin API, and what its journal says about them.

The journal is a list of entries; the state of an execution is the fold over them, at work and after a crash alike.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, TypeAlias
from uuid import UUID

from shunter.model.limits import Window
from shunter.model.partition import BrokerId, Replicas, TopicPartition
from shunter.model.reassignment import Strategy


class Direction(Enum):
    """The direction of a move."""

    FORWARD = "forward"
    """To the target."""
    STOP = "stop"
    """To rest: in-sync additions stay (KIP-455's draft)."""
    BACK = "back"
    """To the original replicas in their order (KIP-236)."""


class Outcome(Enum):
    """How a move ended."""

    DONE = "done"
    STOPPED = "stopped"
    ROLLED_BACK = "rolled_back"
    LEFT = "left"
    """An operator had it left as it is; a step that the cluster took on goes on there."""
    SUPERSEDED = "superseded"
    """Another tool changed or cancelled the move: the cluster's present assignment counts."""
    FOREIGN = "foreign"
    """Another tool was moving the partition already, and the move wasn't taken over."""
    GONE = "gone"
    """The topic was deleted or created again, or the partition does not exist."""
    REFUSED = "refused"
    """The cluster refuses the move, and will refuse it again."""

    @property
    def told(self) -> str:
        """The outcome in words for people: `rolled back`."""
        return self.value.replace("_", " ")


class Order(Enum):
    """The order in which moves start. Several orders are chained: the first that distinguishes two moves decides."""

    UNDER_MIN_ISR_FIRST = "under-min-isr-first"
    UNDER_REPLICATED_FIRST = "under-replicated-first"
    LONGEST_FIRST = "longest-first"
    SMALLEST_FIRST = "smallest-first"


class CommandKind(Enum):
    """The orders that an operator may give a running execution."""

    STOP = "stop"
    ROLL_BACK = "roll_back"
    PAUSE = "pause"
    RESUME = "resume"
    LIMIT = "limit"
    RELAX = "relax"
    """Relax the floor now instead of after `relax_after_ms`."""
    LEAVE = "leave"
    """End moves at once where they are, and leave to the cluster the steps that it took on."""
    BOUND = "bound"
    """Change how many copies there may be at a time."""
    FORGET = "forget"
    """Strike off the throttles that are owed to brokers which don't come back."""
    UNCORDON = "uncordon"
    """Give brokers back the `cordoned.log.dirs` that they had before a drain cordoned them."""


class Command(NamedTuple):
    """An operator's order. `partitions` empty: all. `bytes_per_s` is for LIMIT alone; None lifts the limit.

    `brokers` is for FORGET (those that don't come back) and UNCORDON. `bounds` is for BOUND alone: names of `BOUNDS` with new
    values. `key` identifies this order: the process that gave it finds by the key whether the journal has it.
    `force` is for STOP and ROLL_BACK alone: see `DirectionChanged.forced`.
    """

    kind: CommandKind
    partitions: tuple[TopicPartition, ...] = ()
    bytes_per_s: int | None = None
    given_by: str = ""
    brokers: Replicas = ()
    bounds: tuple[tuple[str, int], ...] = ()
    key: str = ""
    force: bool = False


DISK_SHARE = 0.95
"""How full copies may make a log dir, if nothing else was said: a broker whose disk is full ends."""


@dataclass(frozen=True, slots=True)
class ExecutionOptions:
    """The options of an execution. 0 means no bound where a bound is meant; times are milliseconds.

    Bounds count copies, so a step of three new replicas counts three times. A step that exceeds a bound by itself begins
    when nothing else counts towards that bound. `max_concurrent` is of the whole cluster, `max_in` and `max_out` are of
    what one broker receives and sends.
    `window`: when steps may begin.
    `disk_share` is the greatest share of a log dir that copies may fill, whoever fills the rest (1.0: not looked at).
    `bandwidth` is bytes per second that a broker can carry for moves; 0: learnt.
    """

    strategy: Strategy = Strategy.INCREMENTAL
    throttle: int | None = None
    throttle_floor: int | None = None
    """Least rate that adaptation may reach; None: the throttle is not adapted."""
    log_dir_throttle: int | None = None
    max_concurrent: int = 0
    max_in: int = 0
    max_out: int = 0
    max_per_rack: int = 0
    max_per_log_dir: int = 0
    orders: tuple[Order, ...] = (Order.UNDER_MIN_ISR_FIRST, Order.UNDER_REPLICATED_FIRST, Order.LONGEST_FIRST)
    disk_share: float = DISK_SHARE
    bandwidth: int = 0
    window: Window | None = None
    relax_after_ms: int = 600_000
    take_over: bool = False
    force: bool = False
    """Take targets that have fewer replicas than min.insync.replicas."""
    cordons: tuple[tuple[BrokerId, str], ...] = ()
    """Values of `cordoned.log.dirs` (KIP-1066) that brokers get before the first step; `*` cordons all log dirs.

    They stay when the execution is done, until `UNCORDON`. If it is stopped or rolled back, each broker gets its former
    value back.
    """
    pause_rate: int = 1_024
    """Bytes per second that a paused move may still copy: it keeps its copied bytes, and causes almost no load."""


BOUNDS = ("max_concurrent", "max_in", "max_out", "max_per_rack", "max_per_log_dir")
"""Fields of `ExecutionOptions` that bound copies, and that may change while they run; 0: no bound."""


class MoveOrder(NamedTuple):
    """One partition of a plan: its target, log dirs and strategy. `target` () cancels the partition's move.

    `planned_from`: its replicas when the plan was made; (): the plan does not say. `elect`: the first replica of the
    target shall lead at the end. The target may be the replicas that the partition has: then the election is all.
    """

    tp: TopicPartition
    target: Replicas
    strategy: Strategy | None = None
    log_dirs: tuple[tuple[BrokerId, str], ...] = ()
    planned_from: Replicas = ()
    elect: bool = False


class ThrottleKey(NamedTuple):
    """One setting of one resource: kind is 'broker' or 'topic'; setting is Kafka's name of it."""

    kind: str
    name: str
    setting: str


class PlanAccepted(NamedTuple):
    """A plan was taken on; its moves follow. `refused`: how many of its partitions were not taken on."""

    plan_id: str
    cluster_id: str
    options: ExecutionOptions
    refused: int = 0


class MoveAccepted(NamedTuple):
    """One partition's move. `original` keeps its replicas' ORDER from before its first step.

    `size_bytes` is the leader's at acceptance; unless `sized`, it was unknown, and 0 stands here. `adopted`: the move ran already, and the order of `original` is a guess.
    `placing`: brokers that had the replica in another log dir than the plan names, and copy it there. `origins`: the
    log dir of each original replica, where the plan names log dirs and the broker has several; a rollback brings the
    replica back there. `led_by`: who led at acceptance, if the first replica of the target shall lead at the end; None:
    the plan asks for no election.
    """

    tp: TopicPartition
    topic_id: UUID | None
    original: Replicas
    target: Replicas
    strategy: Strategy
    size_bytes: int
    log_dirs: tuple[tuple[BrokerId, str], ...] = ()
    adopted: bool = False
    placing: Replicas = ()
    origins: tuple[tuple[BrokerId, str], ...] = ()
    led_by: BrokerId | None = None
    sized: bool = True


class StepBegun(NamedTuple):
    """A step is about to be asked for: from `before` to exactly `after`. `cancels`: null replicas are sent."""

    tp: TopicPartition
    number: int
    before: Replicas
    after: Replicas
    reason: str
    cancels: bool = False


class StepAccepted(NamedTuple):
    """The cluster's controller took the step on."""

    tp: TopicPartition
    number: int


class StepFinished(NamedTuple):
    """The step's replicas were seen, with this ISR, and no reassignment is under way. `copied_bytes`: 0 if not seen."""

    tp: TopicPartition
    number: int
    replicas: Replicas
    isr: Replicas
    copied_bytes: int = 0


class StepDropped(NamedTuple):
    """The step will not be pursued: another one takes its place, or the cluster refused it."""

    tp: TopicPartition
    number: int
    reason: str


class CopySight(Enum):
    """How a move's copy between two log dirs of a broker was seen."""

    RUNS = "runs"
    """The broker copies the replica to the log dir that the move wants."""
    LOST = "lost"
    """It does not any more, because a log dir failed or its broker restarted, or it was given up for a while."""
    CANCELLED = "cancelled"
    """Another tool cancelled it. That holds: it is not asked for again."""


class CopySeen(NamedTuple):
    """A move's copy between two log dirs of a broker was seen for the first time, or seen to have ended too early."""

    tp: TopicPartition
    broker: BrokerId
    sight: CopySight


class ElectionBegun(NamedTuple):
    """The election of the partition's first replica, `leader`, is about to be asked for."""

    tp: TopicPartition
    leader: BrokerId


class DirectionChanged(NamedTuple):
    """A move was turned: stop or roll back.

    `forced`: its step is cancelled as soon as one of the replicas before it is live and in sync, however many of them
    min.insync.replicas asks for.
    """

    tp: TopicPartition
    direction: Direction
    forced: bool = False


class MovePaused(NamedTuple):
    """A move was paused (True) or goes on (False)."""

    tp: TopicPartition
    paused: bool


class FloorRelaxed(NamedTuple):
    """From now on this move may go on with fewer replicas in sync (docs/decisions/0102-floor.md)."""

    tp: TopicPartition


class MoveClosed(NamedTuple):
    """The end of a move, with its replicas, and how many bytes were copied for it (0: not seen)."""

    tp: TopicPartition
    outcome: Outcome
    reason: str
    replicas: Replicas
    copied_bytes: int = 0


class ThrottleRemembered(NamedTuple):
    """A setting as it was before this executor touched it; None: it was not set at this resource."""

    key: ThrottleKey
    value: str | None


class ThrottleSet(NamedTuple):
    """A setting is about to be given this value."""

    key: ThrottleKey
    value: str


class ThrottleRestored(NamedTuple):
    """A setting has its former value again; or, if `left`, another tool changed it since, and it stays so.

    `forgotten`: a person struck it off at a broker that is down. What that broker shows later is nobody's.
    """

    key: ThrottleKey
    left: bool = False
    forgotten: bool = False


class LimitChanged(NamedTuple):
    """The rate in force, bytes per second; None: no limit. `reason` says who or what changed it."""

    bytes_per_s: int | None
    reason: str


class BoundsChanged(NamedTuple):
    """How many copies there may be from now on: fields of the options, and their values."""

    bounds: tuple[tuple[str, int], ...]
    reason: str


class CommandTaken(NamedTuple):
    """An operator's order was understood; its effects are entries of their own."""

    command: Command


class RateObserved(NamedTuple):
    """The rate at which a broker received copies, bytes per second, while some ran. `limited`: by a throttle."""

    broker: BrokerId
    bytes_per_s: int
    limited: bool


class SizeObserved(NamedTuple):
    """The size that the leader of a move's partition told after acceptance: it was unknown, or has changed a lot."""

    tp: TopicPartition
    size_bytes: int


class ExecutionClosed(NamedTuple):
    """All moves ended. Throttles that could not be given back stay remembered: they are owed to their brokers."""

    summary: str


JournalRecord: TypeAlias = (
    PlanAccepted
    | MoveAccepted
    | StepBegun
    | StepAccepted
    | StepFinished
    | StepDropped
    | CopySeen
    | ElectionBegun
    | DirectionChanged
    | MovePaused
    | FloorRelaxed
    | MoveClosed
    | ThrottleRemembered
    | ThrottleSet
    | ThrottleRestored
    | LimitChanged
    | BoundsChanged
    | CommandTaken
    | RateObserved
    | SizeObserved
    | ExecutionClosed
)


class JournalEntry(NamedTuple):
    """One line of the journal. `sequence` grows by one without gaps; `cause` names the event that led to the entry."""

    sequence: int
    at_ms: int
    cause: str
    record: JournalRecord


LOAN = "loan-"
"""The prefix of the owner's name of a lease whose process only sets throttles for the controller's moves. It takes no
orders."""


class LeaseHolder(NamedTuple):
    """The process that drives the journal, and until when."""

    owner: str
    host: str
    process: int
    expires_at_ms: int
    address: str = ""
    """Where its service is reached, if it is one that says so."""

    @property
    def takes_orders(self) -> bool:
        """Whether the process is an executor, which takes orders from other shells."""
        return not self.owner.startswith(LOAN)

    def __str__(self) -> str:
        at = f"{self.address} of {self.host}, process {self.process}"
        return f"{at if self.address else f'process {self.process} on {self.host}'} (lease {self.owner})"


class ObservedPartition(NamedTuple):
    """A partition as metadata show it; `leader` -1: none."""

    replicas: Replicas
    isr: Replicas
    leader: BrokerId
    offline: Replicas = ()


@dataclass(frozen=True, slots=True)
class ObservedTopic:
    """A topic as metadata show it. `topic_id` is None before Kafka 2.8."""

    topic_id: UUID | None
    partitions: dict[int, ObservedPartition] = field(default_factory=dict[int, ObservedPartition])
    min_isr: int = 1


class OngoingReassignment(NamedTuple):
    """One partition in an answer to ListPartitionReassignments."""

    replicas: Replicas
    adding: Replicas
    removing: Replicas

    @property
    def target(self) -> Replicas:
        """The replicas at the end: without the removing ones, then those to be added that are not written yet."""
        kept = tuple(broker for broker in self.replicas if broker not in self.removing)
        return kept + tuple(broker for broker in self.adding if broker not in self.replicas)

    @property
    def written(self) -> bool:
        """Whether additions are among the replicas. Shunter's controller lists moves that wait for their turn, too."""
        return all(broker in self.replicas for broker in self.adding)

    @property
    def stranded(self) -> bool:
        """Whether a replica is being added and removed at once: Kafka 4.3.1 and 4.4.0 never end such a reassignment."""
        return any(broker in self.removing for broker in self.adding)

    @property
    def original(self) -> Replicas:
        """The replicas before the move, as far as is known: without the adding ones; the order is a guess."""
        return tuple(broker for broker in self.replicas if broker not in self.adding)


class ReplicaSize(NamedTuple):
    """One replica on one broker: bytes, its log dir, and whether it is a future replica (log-dir move under way)."""

    bytes: int
    log_dir: str
    future: bool = False


class LogDirSpace(NamedTuple):
    """A log dir's bytes; -1: the broker does not say (before 3.3). `cordoned`: it gets no new replicas (KIP-1066)."""

    total: int
    usable: int
    cordoned: bool = False
