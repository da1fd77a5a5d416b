"""The executor's one mutable container: what the journal says (durable), and what this process saw and asked (soft).

The durable part changes by applying journal entries (`apply`). The soft part changes by observations and requests. It
is lost with the process, and a new process regains it by observing the cluster.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple
from uuid import UUID

from shunter.core.executor.step_status import StepStatus, StepTrigger, status_after
from shunter.core.executor.waits import NO_WAIT, Wait
from shunter.core.own_topics import NEEDED_TOPICS
from shunter.core.throttles import ALL_LOG_DIRS, CORDONED_LOG_DIRS, is_theirs
from shunter.model.execution import (
    Direction,
    ExecutionOptions,
    LogDirSpace,
    ObservedPartition,
    ObservedTopic,
    OngoingReassignment,
    Outcome,
    ReplicaSize,
    ThrottleKey,
)
from shunter.model.partition import BrokerId, Replicas, TopicPartition
from shunter.model.reassignment import Strategy

LATE_MS = 30_000
"""How long after a change a broker may still show a setting, or a partition's replicas, as they were before."""
ABSENT_MS = 60_000
"""A broker that makes a replica shows it in a log dir sooner than this after the step began."""
ABSENT_BESIDE_A_FAILURE_MS = 10_000
"""The same, for a broker one of whose log dirs has failed: that is a likely reason for having no replica."""
LEAST_YIELD = 0.5
"""If a smaller share of a throttle's rate is copied, something other than the throttle slows the copies down."""


def yield_of(bytes_per_s: float, limit: int) -> float | None:
    """A copy's rate as a share of its throttle; None if something other than the throttle slows the copy down."""
    return min(1.0, bytes_per_s / limit) if bytes_per_s > limit * LEAST_YIELD else None


@dataclass(slots=True)
class CurrentStep:
    """The step that a move is in.

    `redirected_from`: the replicas that the former step wanted, if this step took its place. If it is not known whether
    the cluster took the former step on, also the replicas that the steps before it wanted.
    `perhaps_ended`: the replicas that the steps before the former step wanted. One of these steps may have ended unseen
    just before the former step took its place. Then a cancel leads back to the replicas of that step, not to those that
    the first step found.
    `returns`: the partition may have had the replicas in `after` before, so metadata that show them may be late.
    """

    number: int
    before: Replicas
    after: Replicas
    reason: str
    cancels: bool
    begun_at_ms: int
    accepted: bool = False
    redirected_from: tuple[Replicas, ...] = ()
    perhaps_ended: tuple[Replicas, ...] = ()
    returns: bool = False
    # Soft from here on.
    moved: bool = False
    """Metadata have shown the partition in the middle of this step, or of the step that it took the place of."""
    read_at_ms: int | None = None
    """When this process read the step in the journal; None: this process began it. Another process's answer about a
    cancel may have been that there was nothing to cancel; the journal does not say that."""
    unlisted_at_ms: int | None = None
    """When the first list without this partition was asked for; None: the last list has it."""
    goes_on: tuple[int, OngoingReassignment] | None = None
    """The metadata's time and the reassignment when the step last needed nothing; see `decisions._goes_on`."""

    def look(self, replicas: Replicas) -> None:
        """Note whether metadata show the partition in motion."""
        self.moved = self.moved or (replicas != self.before and set(self.before) <= set(replicas))

    @property
    def adding(self) -> Replicas:
        """Replicas that are copied in this step."""
        return tuple(broker for broker in self.after if broker not in self.before)

    @property
    def keeps_factor(self) -> bool:
        """Whether the step keeps the number of replicas. Of one that takes another one's place, or cancels, none is known."""
        return not (self.cancels or self.redirected_from) and len(self.after) == len(self.before)

    @property
    def copying(self) -> Replicas:
        """Replicas that may be copied now: until the cluster has this step, the steps before it may still run."""
        if self.accepted or not self.redirected_from:
            return self.adding
        former = (broker for after in self.redirected_from for broker in after if broker not in self.before)
        return tuple(dict.fromkeys((*self.adding, *former)))


class MoveEnd(NamedTuple):
    """How a move ended, why, and when."""

    outcome: Outcome
    reason: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class LogDirStatus:
    """How far a move's replicas have got into the log dirs that its plan names, and its copies out of those it does not.

    Attributes:
        since_ms: When the present order was given. A look at a replica that is older says nothing about its end.
        asked: When each broker was last asked for a log dir, or answered; not those whose replica came since.
        request_ids: The request that asked each broker last; answers to others are about a former plan's log dirs.
        done: All replicas are in their log dirs, or their brokers refused, and no unwanted copy goes on.
        refused: Brokers that refused to put their replica into its log dir, and Kafka's name of the error.
        missed: Since when a copy that the journal has is not there any more, and the replica is not where it should be.
        given_up: Log dirs that were asked for only because the replica was there, which ends a copy.
        ends: The move is about to end where it stands, so it wants no copy.
    """

    since_ms: int = 0
    asked: Mapping[BrokerId, int] = field(default_factory=dict[BrokerId, int])
    request_ids: Mapping[BrokerId, int] = field(default_factory=dict[BrokerId, int])
    done: bool = False
    refused: Mapping[BrokerId, str] = field(default_factory=dict[BrokerId, str])
    missed: Mapping[BrokerId, int] = field(default_factory=dict[BrokerId, int])
    given_up: frozenset[tuple[BrokerId, str]] = frozenset()
    ends: bool = False


class ElectionStatus(NamedTuple):
    """How far the election of a move's first replica has got. All but `begun` is soft.

    Attributes:
        begun: The journal has that it is about to be asked for.
        since_ms: When this process saw first that it is needed, by the metadata's time; None: it did not, or the move
            was paused since.
        due: It is to be asked for now.
        request_id: The request under way; 0: none.
        asks: How often this process asked.
        answered_at_ms: When the last answer came, or failed to come. Metadata from before then say nothing about it.
        again_at_ms: It is not asked for again before this moment.
        refused: Why the cluster refused it last; "": it did not.
    """

    begun: bool = False
    since_ms: int | None = None
    due: bool = False
    request_id: int = 0
    asks: int = 0
    answered_at_ms: int = -1
    again_at_ms: int = 0
    refused: str = ""


@dataclass(slots=True)
class Move:
    """One partition's move."""

    tp: TopicPartition
    topic_id: UUID | None
    original: Replicas
    target: Replicas
    strategy: Strategy
    size_bytes: int
    log_dirs: tuple[tuple[BrokerId, str], ...]
    adopted: bool
    accepted_at_ms: int
    current: Replicas
    """Its replicas when no step was under way last: at first the originals, then those after each finished step."""
    direction: Direction = Direction.FORWARD
    paused: bool = False
    relaxed: bool = False
    turned_at_ms: int | None = None
    """When the move was turned or got another target while a step ran: that step may have to be undone."""
    order: Replicas = ()
    """The order to restore after a cancel by null, which Apache's KRaft controller loses; () if it was kept."""
    again: set[BrokerId] = field(default_factory=set[BrokerId])
    """Originals that had been dropped and are wanted again, since the move was turned or given another target."""
    passed: set[frozenset[BrokerId]] = field(default_factory=set[frozenset[BrokerId]])
    """Replica sets that the move went through: metadata that show one are late, and no other tool changed it back."""
    step: CurrentStep | None = None
    steps: int = 0
    copied_bytes: int = 0
    stepped_at_ms: int = 0
    """When its last step ended: a replica that the step copied was not whole before."""
    ended: MoveEnd | None = None
    began_at_ms: int | None = None
    sized: bool = True
    """Whether `size_bytes` is known; it is 0 where it is not."""
    placing: Replicas = ()
    """Brokers that copy the partition from one of their log dirs to another."""
    origins: tuple[tuple[BrokerId, str], ...] = ()
    """The log dirs that the original replicas were in, as far as they are known."""
    placed_before: frozenset[BrokerId] = frozenset()
    """Brokers whose replicas a superseded order of this move put into a log dir."""
    asked_before: frozenset[tuple[BrokerId, str]] = frozenset()
    """The log dirs that superseded orders of this move may have asked for: their copies are this move's."""
    copies: frozenset[BrokerId] = frozenset()
    """Brokers that were seen copying to the log dir that the present order wants."""
    cancelled: frozenset[BrokerId] = frozenset()
    """Brokers whose copy another tool cancelled."""
    led_by: BrokerId | None = None
    """Who led at acceptance, if the plan wants the first replica of the target elected; None: it does not."""
    forced: bool = False
    """It was turned with force: see `DirectionChanged.forced`."""
    election: ElectionStatus = field(default_factory=ElectionStatus)
    # Soft from here on.
    status: StepStatus = field(default_factory=StepStatus)
    """How far its step has got, or that it has none. `note` alone writes it."""
    waits: Wait = NO_WAIT
    blocked_since_ms: int | None = None
    log_dir_status: LogDirStatus = field(default_factory=LogDirStatus)
    begun_within: dict[BrokerId, tuple[str, int]] = field(default_factory=dict[BrokerId, tuple[str, int]])
    """The last request that may have begun a copy within each broker: the log dir, and when it was sent or answered."""
    asking: set[int] = field(default_factory=set[int])
    """Requests for log dirs that are not answered yet."""
    answered_at_ms: int = -1
    """When the last of them was answered, or was given up."""
    heard_of_end_at_ms: int = 0
    """When its end was journalled; if another process journalled it, when this one read it: their clocks may differ."""

    def begun_before(self, now_ms: int) -> None:
        """Note that another process began the step under way, and that this process reads that now.

        Times that lie in the future are set to now: the clock was set back, and no decision shall wait for them.
        """
        if self.turned_at_ms is not None:
            self.turned_at_ms = min(self.turned_at_ms, now_ms)
        self.stepped_at_ms = min(self.stepped_at_ms, now_ms)
        self.log_dir_status = replace(self.log_dir_status, since_ms=min(self.log_dir_status.since_ms, now_ms))
        if self.step is not None:
            self.step.begun_at_ms = min(self.step.begun_at_ms, now_ms)
            self.step.read_at_ms = now_ms

    def note(self, trigger: StepTrigger, at_ms: int = 0, *, request_id: int = 0, why: str = "") -> StepStatus:
        """Move the status of its step by the table.

        Raises:
            InvariantViolation: The table has no such pair.
        """
        self.status = status_after(self.status, trigger, self.tp, at_ms=at_ms, request_id=request_id, why=why)
        return self.status

    @property
    def open(self) -> bool:
        """Whether it has not ended."""
        return self.ended is None

    def ended_lately(self, now_ms: int) -> bool:
        """Whether brokers may still show the partition as it was before this move ended."""
        return self.ended is not None and abs(now_ms - self.heard_of_end_at_ms) <= LATE_MS

    @property
    def outcome(self) -> Outcome | None:
        """How it ended; None: it is open."""
        return None if self.ended is None else self.ended.outcome

    @property
    def reason(self) -> str:
        """Why it ended so; "" while it is open."""
        return "" if self.ended is None else self.ended.reason

    @property
    def held(self) -> frozenset[BrokerId]:
        """Brokers that have a whole replica, as far as the journal knows."""
        return frozenset(self.current) | frozenset(() if self.step is None else self.step.before)

    def went_through(self, replicas: Replicas) -> bool:
        """Whether the partition had these replicas, in whatever order, at some time of this move."""
        return frozenset(replicas) in self.passed

    @property
    def copying(self) -> Replicas:
        """Replicas that may be copied now by a step of this move."""
        return () if self.step is None else self.step.copying

    @property
    def places(self) -> tuple[tuple[BrokerId, str], ...]:
        """The log dirs that its replicas shall be in: those of the plan, or on a rollback those of the originals.

        An original that neither left its broker nor was to change its log dir is where it was, and is not named. A
        replica that is not an original is dropped by the rollback, so it has no log dir here either.
        """
        return () if self.log_dir_status.ends else self._wanted_places

    @property
    def _wanted_places(self) -> tuple[tuple[BrokerId, str], ...]:
        if self.direction is Direction.STOP:
            return ()
        if self.direction is Direction.FORWARD:
            return tuple(each for each in self.log_dirs if each[0] not in self.cancelled)
        touched = self.again | self.placed_before | {broker for broker, _path in self.log_dirs}
        touched = touched.intersection(self.original) - self.cancelled
        return tuple(each for each in self.origins if each[0] in touched)

    @property
    def names_log_dirs(self) -> bool:
        """Whether one of its orders named a log dir. Most moves name none, and are passed over quickly."""
        return bool(self.log_dirs or self.asked_before)

    @property
    def asked_for(self) -> frozenset[tuple[BrokerId, str]]:
        """All log dirs that this move's orders may have asked for. A copy to one of them is its own."""
        return self.asked_before.union(self.log_dirs, self._wanted_places)

    @property
    def placed(self) -> frozenset[BrokerId]:
        """Brokers whose replica this order, or an earlier one of this move, copies from one log dir to another."""
        return self.placed_before.union(self.placing)

    @property
    def goal(self) -> Replicas:
        """The replicas that the move heads for: the target, or the originals on a rollback."""
        return self.original if self.direction is Direction.BACK else self.target

    @property
    def wanted_leader(self) -> BrokerId | None:
        """Who shall lead at the end; None: whoever leads.

        An election by Kafka makes the first replica lead. So a rollback restores the leader only if that led before.
        """
        if self.led_by is None or self.direction is Direction.STOP:
            return None
        first = self.goal[0]
        return first if self.direction is Direction.FORWARD or first == self.led_by else None


@dataclass(slots=True)
class Throttle:
    """One setting that the executor changes. `applied`: the value that the cluster confirmed to this process."""

    before: str | None
    value: str | None = None
    ours: set[str] = field(default_factory=set[str])
    """All values that the executor has asked for: a broker that is late may show any of them."""
    applied: str | None = None
    seen_at_ms: int = 0
    """When it was last seen to have that value."""
    request_id: int = 0
    retry_at_ms: int = 0
    refused_since_ms: int | None = None
    """Since when every change of it was refused; None: the last one was taken, or may have been."""
    released: bool = False
    """The entry that gives it back is being written."""
    untouched_since_ms: int | None = None
    """Since when it shows the value from before the executor's."""
    asked_at_ms: int | None = None
    """When this process last asked for a change of it, or got the answer."""

    def note_refusal(self, now_ms: int, *, refused: bool) -> None:
        """Note whether the last change of it was refused."""
        if not refused:
            self.refused_since_ms = None
        elif self.refused_since_ms is None:
            self.refused_since_ms = now_ms

    def is_late(self, value: str | None, now_ms: int) -> bool:
        """Whether another tool's value may be from before: the broker may not have learnt of the executor's change."""
        lately = self.asked_at_ms is not None and abs(now_ms - self.asked_at_ms) <= LATE_MS
        return lately and is_theirs(value, self.before, self.ours)


@dataclass(frozen=True, slots=True)
class StandingCordon:
    """A broker's `cordoned.log.dirs` that an execution changed, and left so when it was done."""

    before: str | None
    value: str
    plan_id: str


@dataclass(slots=True)
class GivenBack:
    """A setting that the executor held until lately: brokers that are late may still show one of `ours`."""

    ours: set[str]
    at_ms: int
    """When this was journalled. If another process journalled it: when this one read it, because clocks may differ."""

    def may_be_shown(self, value: str | None, now_ms: int) -> bool:
        """Whether a broker that is late may still answer with this value, which another tool may have set as well."""
        return value in self.ours and abs(now_ms - self.at_ms) <= LATE_MS


@dataclass(slots=True)
class ObservedCluster:
    """The cluster as last seen. `*_at_ms`: when that part was asked for; -1: never."""

    topics: dict[str, ObservedTopic | None] = field(default_factory=dict[str, ObservedTopic | None])
    topics_at_ms: dict[str, int] = field(default_factory=dict[str, int])
    brokers: dict[BrokerId, str | None] = field(default_factory=dict[BrokerId, str | None])
    racks: dict[BrokerId, str | None] = field(default_factory=dict[BrokerId, str | None])
    """Racks of all brokers that were ever seen: one that is down is still copied to when it comes back."""
    brokers_at_ms: int = -1
    """When brokers were last seen."""
    down_since_ms: dict[BrokerId, int] = field(default_factory=dict[BrokerId, int])
    """When a broker was first missing. It may have died before, so a time from here is at least so long."""
    up_since_ms: dict[BrokerId, int] = field(default_factory=dict[BrokerId, int])
    """When a broker was first seen, or seen again after it was missing."""
    ongoing: dict[TopicPartition, OngoingReassignment] = field(
        default_factory=dict[TopicPartition, OngoingReassignment]
    )
    listed_at_ms: int = -1
    late_at_ms: int | None = None
    """When metadata last showed a partition amid a step that the controller no longer listed; None: never."""
    silent_since_ms: int | None = None
    """Since when the cluster has not answered; None: it answers."""
    controller: BrokerId = -1
    needs_all: bool | None = None
    """Whether its controller ends a step only when the whole target is in sync, as Apache's before Kafka 4.3 (KAFKA-19975).
    Newer ones need only what the step adds. None: its version is not known."""
    sizes: dict[tuple[BrokerId, TopicPartition], ReplicaSize] = field(
        default_factory=dict[tuple[BrokerId, TopicPartition], ReplicaSize]
    )
    sizes_at_ms: dict[tuple[BrokerId, TopicPartition], int] = field(
        default_factory=dict[tuple[BrokerId, TopicPartition], int]
    )
    futures: dict[tuple[BrokerId, TopicPartition], ReplicaSize] = field(
        default_factory=dict[tuple[BrokerId, TopicPartition], ReplicaSize]
    )
    absent_at_ms: dict[tuple[BrokerId, TopicPartition], int] = field(
        default_factory=dict[tuple[BrokerId, TopicPartition], int]
    )
    """When a broker that was asked about a partition last had no replica of it that it can read."""
    spaces: dict[tuple[BrokerId, str], LogDirSpace] = field(default_factory=dict[tuple[BrokerId, str], LogDirSpace])
    """Log dirs that work, by each broker's last answer. `see_spaces` alone writes it."""
    cordoned: frozenset[BrokerId] = frozenset()
    """Brokers with all log dirs cordoned (KIP-1066), by their last answer, or whose cordon was given back since."""
    broken: dict[BrokerId, tuple[str, ...]] = field(default_factory=dict[BrokerId, tuple[str, ...]])
    """Log dirs that have failed, by each broker's last answer; without brokers that have none."""
    spaces_at_ms: dict[BrokerId, int] = field(default_factory=dict[BrokerId, int])
    """When each broker's last answer about its log dirs was asked for."""
    landed: dict[BrokerId, list[tuple[int, int]]] = field(default_factory=dict[BrokerId, list[tuple[int, int]]])
    """Copies that ended at a broker since its log dirs were looked at: when, and the bytes that the look did not see."""
    missed_since_ms: dict[BrokerId, int] = field(default_factory=dict[BrokerId, int])
    """Since when this process misses brokers that running copies go to."""
    room_wanted_ms: dict[BrokerId, int] = field(default_factory=dict[BrokerId, int])
    """Since when moves want to know the log dirs of a broker that did not tell them lately."""
    foretold: dict[Hashable, Any] = field(default_factory=dict[Hashable, Any])
    """What was foretold of moves, by all that it depends on; see `stuck._foretold`."""
    room_unknown: set[BrokerId] = field(default_factory=set[BrokerId])
    """Brokers that people were told of because their room is unknown."""

    def lost_log_dir(self, broker: BrokerId, tp: TopicPartition) -> str | None:
        """The log dir in which a replica was seen, if its broker offers other log dirs and not this one any more."""
        size = self.sizes.get((broker, tp))
        if size is None or (broker, size.log_dir) in self.spaces or all(owner != broker for owner, _ in self.spaces):
            return None
        return size.log_dir

    def keeps_none(self, broker: BrokerId, tp: TopicPartition, since_ms: int) -> bool:
        """Whether a broker has told, long after a step that is under way began then, that none of its log dirs has a replica."""
        absent_ms = self.absent_at_ms.get((broker, tp), -1)
        listed = tp in self.ongoing and absent_ms <= self.listed_at_ms  # Else somebody may have cancelled the step.
        patience_ms = ABSENT_BESIDE_A_FAILURE_MS if broker in self.broken else ABSENT_MS
        return listed and absent_ms > max(since_ms + patience_ms, self.sizes_at_ms.get((broker, tp), -1))

    def partition(self, tp: TopicPartition) -> ObservedPartition | None:
        """The partition as last seen, or None."""
        topic = self.topics.get(tp.topic)
        return None if topic is None else topic.partitions.get(tp.partition)

    def see_spaces(self, brokers: Collection[BrokerId], spaces: Mapping[tuple[BrokerId, str], LogDirSpace]) -> None:
        """Take in the log dirs of these brokers."""
        self.spaces = {key: space for key, space in self.spaces.items() if key[0] not in brokers} | dict(spaces)
        open_ones = {broker for (broker, _path), space in spaces.items() if not space.cordoned}
        self.cordoned = self.cordoned.difference(brokers) | ({broker for broker, _path in spaces} - open_ones)

    def look_again(self, brokers: Replicas, since_ms: int, now_ms: int) -> None:
        """Want the log dirs of live brokers that were not looked at since then: somebody may have cordoned them."""
        for broker in brokers:
            if broker in self.brokers and self.spaces_at_ms.get(broker, -1) < since_ms:
                self.room_wanted_ms.setdefault(broker, now_ms)

    def forget_sizes(self, topic: str) -> None:
        """Forget the sizes and log dirs of a deleted topic's replicas."""
        for known in (self.sizes, self.sizes_at_ms, self.futures, self.absent_at_ms):
            for key in [key for key in known if key[1].topic == topic]:
                del known[key]

    def min_isr(self, topic: str) -> int:
        """The topic's min.insync.replicas as last seen."""
        seen = self.topics.get(topic)
        return 1 if seen is None else seen.min_isr


@dataclass(slots=True)
class ExecutorState:
    """All that the executor knows."""

    cluster_id: str = ""
    plan_id: str = ""
    options: ExecutionOptions = field(default_factory=ExecutionOptions)
    moves: dict[TopicPartition, Move] = field(default_factory=dict[TopicPartition, Move])
    """The latest move of every partition that a plan of the open execution named; closed ones stay until its end."""
    earlier: list[Move] = field(default_factory=list[Move])
    """Moves of the open execution that had ended when a later plan moved their partition again."""
    former_moves: dict[TopicPartition, Move] = field(default_factory=dict[TopicPartition, Move])
    """Moves of the execution before this one, and of earlier ones if they ended lately: late metadata may show them."""
    throttles: dict[ThrottleKey, Throttle] = field(default_factory=dict[ThrottleKey, Throttle])
    """Settings that are not restored yet. Those that no open move needs are owed to their brokers and topics."""
    cordons: dict[ThrottleKey, StandingCordon] = field(default_factory=dict[ThrottleKey, StandingCordon])
    """Cordons that executions left behind: `UNCORDON` makes each of them a setting to be restored."""
    cordoned_by: dict[BrokerId, str] = field(default_factory=dict[BrokerId, str])
    """The plan that asked for each cordon of the execution under way, or of the last one."""
    given_back: dict[ThrottleKey, GivenBack] = field(default_factory=dict[ThrottleKey, GivenBack])
    """The last time that each setting was restored, or left to another tool."""
    limit: int | None = None
    """The limit in bytes per second, as the journal has it; None: no limit."""
    others: dict[ThrottleKey, str] = field(default_factory=dict[ThrottleKey, str])
    """Follower rates and lists that somebody else has set: they may hold ordinary replication too."""
    next_sequence: int = 1
    running: bool = False
    """A plan was accepted and its execution is not closed."""
    learnt_rates: dict[BrokerId, list[int]] = field(default_factory=dict[BrokerId, list[int]])
    """Rates at which each broker received without a throttle, bytes per second, the latest last."""
    learnt_yields: list[float] = field(default_factory=list[float])
    """Rates of throttled copies, each as a share of the throttle, the latest last."""
    cluster: ObservedCluster = field(default_factory=ObservedCluster)
    needed_topics: frozenset[str] = NEEDED_TOPICS
    """Topics that the driver needs, its journal's too: their moves come first, as without them nothing goes on."""
    _turned: tuple[int, bool] = (0, False)
    """The last result of `turned`, and `next_sequence` at that time."""

    def least_in_sync(self, move: Move) -> int:
        """The live in-sync replicas that a move may leave: the topic's min.insync.replicas, or 1 by force."""
        return 1 if move.forced else self.cluster.min_isr(move.tp.topic)

    @property
    def at_work(self) -> bool:
        """Whether a move is open. If so, a new plan joins the execution; otherwise it begins another execution."""
        return any(move.open for move in self.moves.values())

    def owed(self) -> list[ThrottleKey]:
        """Settings that are to be given back and that no open move needs."""
        moves = self.open_moves()
        needed = {("broker", str(broker)) for move in moves for broker in (*move.current, *move.goal, *move.copying)}
        needed |= {("topic", move.tp.topic) for move in moves}
        return [key for key in self.throttles if (key.kind, key.name) not in needed]

    def cordoned(self) -> dict[BrokerId, str]:
        """The brokers that an execution cordoned, as far as the journal knows, and the id of its plan."""
        set_now = {int(key.name) for key in self.throttles if key.setting == CORDONED_LOG_DIRS}
        found = {int(key.name): cordon.plan_id for key, cordon in self.cordons.items()}
        found |= {broker: plan_id for broker, plan_id in self.cordoned_by.items() if broker in set_now}
        lifts = dict(self.options.cordons) if self.at_work and not self.turned else {}
        return {broker: plan_id for broker, plan_id in found.items() if lifts.get(broker) in (None, ALL_LOG_DIRS)}

    def closed(self) -> frozenset[BrokerId]:
        """Brokers that Kafka takes in no target, as far as is known: all their log dirs are cordoned (KIP-1066).

        A broker whose cordon the execution changes counts as the execution wants it, until that is given back.
        """
        cordons = dict(self.options.cordons)
        wanted = cordons if cordons and not self.turned and self.at_work else {}
        closed: set[BrokerId] = set()
        for broker in self.cluster.cordoned.union(cordons):
            ours = self.throttles.get(ThrottleKey("broker", str(broker), CORDONED_LOG_DIRS))
            known = ALL_LOG_DIRS if broker in self.cluster.cordoned else None
            if ours is not None and ours.value is not None:
                known = ours.value
            if wanted.get(broker, known) == ALL_LOG_DIRS:
                closed.add(broker)
        return frozenset(closed)

    def is_lifted(self, broker: BrokerId, move: Move) -> bool:
        """Whether the execution gives a broker's cordon back by itself, now or once this move is turned."""
        key = ThrottleKey("broker", str(broker), CORDONED_LOG_DIRS)
        ours, given = self.throttles.get(key), self.given_back.get(key)
        if ours is None and given is not None:
            return self.cluster.spaces_at_ms.get(broker, -1) <= given.at_ms
        if ours is None or ours.before == ALL_LOG_DIRS or broker not in self.cluster.brokers:
            return False
        turned = move.direction is not Direction.FORWARD or self.turned
        return turned or broker not in dict(self.options.cordons)

    @property
    def turned(self) -> bool:
        """Whether a move of the execution was stopped or rolled back: then its cordons are taken back."""
        if self._turned[0] != self.next_sequence:
            self._turned = (
                self.next_sequence,
                any(move.direction is not Direction.FORWARD for move in self.moves.values()),
            )
        return self._turned[1]

    def open_moves(self) -> list[Move]:
        """Moves that have not ended, in order of acceptance."""
        return [move for move in self.moves.values() if move.open]

    def stepping(self) -> list[Move]:
        """Moves with a step under way."""
        return [move for move in self.moves.values() if move.step is not None and move.open]
