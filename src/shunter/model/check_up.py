"""A cluster as a check-up sees it: raw facts about brokers, topics, moves, throttles and rights, judged elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from shunter.model.execution import ObservedPartition, OngoingReassignment, ThrottleKey
from shunter.model.log_dirs import LogDirCopy
from shunter.model.partition import BrokerId, EligibleLeaders, Replicas, TopicPartition
from shunter.model.security.listeners import CertificateFault

MOVES, QUORUM, FEATURES, LOG_DIRS = "moves", "the quorum", "features", "log dirs of broker "
"""How the names of parts begin. Only the controller answers the first three; the last is of a broker."""


class Level(Enum):
    """How bad a finding is; `FINE`: there is nothing to do."""

    FINE = "fine"
    NOTE = "note"
    """Worth knowing."""
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found. `check` names the check, `advice` says what to do about it ("": nothing)."""

    level: Level
    check: str
    text: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class CheckedListener:
    """A listener that a broker advertises; `problem`: what went wrong at a connection from here ("": nothing).

    `used`: clients that came by the given bootstrap servers are sent there.
    """

    name: str
    address: str
    problem: str
    used: bool = False


@dataclass(frozen=True, slots=True)
class CheckedLogDir:
    """A log dir in bytes (-1: the broker does not say); `error`: Kafka's name of its failure ("": it works).

    `cordoned`: it gets no new replicas (KIP-1066).
    """

    path: str
    total: int
    usable: int
    error: str = ""
    cordoned: bool = False


@dataclass(frozen=True, slots=True)
class CheckedBroker:
    """A broker that is registered. `release`: `4.1`, or `newer than 4.4`; "": it did not answer.

    `silent`: it is listed as live, and answers nothing; its listener says so.
    """

    broker: BrokerId
    rack: str | None
    release: str
    listeners: tuple[CheckedListener, ...] = ()
    log_dirs: tuple[CheckedLogDir, ...] = ()
    copies: tuple[LogDirCopy, ...] = ()
    """Replicas that it copies between its log dirs."""
    listed: frozenset[TopicPartition] | None = None
    """If a log dir of it has failed: the replicas that the others have."""
    silent: bool = False


class Voter(NamedTuple):
    """A voter of the metadata quorum; times in milliseconds before its leader's last answer, None: never, or not told."""

    node: int
    fetched_ms: int | None
    """Since it last asked the leader for more."""
    caught_up_ms: int | None
    """Since it last had everything."""


class Quorum(NamedTuple):
    """The metadata quorum of a KRaft cluster, as its leader tells it. `ahead_ms`: of the leader's clock; None: unknown."""

    leader: int
    voters: tuple[Voter, ...]
    ahead_ms: int | None = None


class FencedBroker(NamedTuple):
    """A broker that is registered, but whose heartbeats don't reach the controller (KIP-1073).

    `problem`: what went wrong at a connection to it from here ("": nothing, so its process answers).
    """

    broker: BrokerId
    problem: str


@dataclass(frozen=True, slots=True)
class CheckedTopic:
    """A topic; `operations`: what this client may do to it (Kafka's names in capitals); None: old brokers don't say."""

    name: str
    min_isr: int
    partitions: dict[int, ObservedPartition]
    operations: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class CheckUp:
    """Everything that was seen. `unread`: (what could not be read, why)."""

    cluster_id: str
    controller: BrokerId | None
    """None: it is not known, because nothing tells who leads the metadata quorum."""
    controlled_by: str
    """`Apache (KRaft)`, `Apache (ZooKeeper)`, `Apache` (it does not say which), or `Shunter`."""
    brokers: tuple[CheckedBroker, ...]
    topics: tuple[CheckedTopic, ...]
    ongoing: dict[TopicPartition, OngoingReassignment] = field(
        default_factory=dict[TopicPartition, OngoingReassignment]
    )
    throttles: tuple[tuple[ThrottleKey, str], ...] = ()
    """Throttles that no execution will restore."""
    partial: tuple[str, ...] = ()
    """Those of them that some brokers show and others do not, in words."""
    operations: frozenset[str] | None = None
    """What this client may do to the cluster; None: old brokers don't say."""
    claim_operations: frozenset[str] | None = None
    """What this client may do to the group by which executors claim a cluster."""
    clock_ahead_ms: int | None = None
    """How far the controller's clock is ahead of this host's; None: not known."""
    quorum: Quorum | None = None
    """The metadata quorum; None: there is none, or it does not tell."""
    unread: tuple[tuple[str, str], ...] = ()
    unanswered: tuple[str, ...] = ()
    """Those parts that no controller answered, if it did not even tell the quorum; empty: one answers."""
    certificate: CertificateFault | None = None
    """That the certificate which this client shows to brokers expires soon."""
    ended: dict[TopicPartition, OngoingReassignment] = field(default_factory=dict[TopicPartition, OngoingReassignment])
    """Reassignments that were under way before `topics` were read, and no longer after that."""
    fenced: tuple[FencedBroker, ...] = ()
    """Brokers that are registered and fenced; they are not among `brokers`."""
    eligible: dict[TopicPartition, EligibleLeaders] = field(default_factory=dict[TopicPartition, EligibleLeaders])
    """Who may lead partitions that have no leader, if the cluster tells that."""

    @property
    def copies(self) -> tuple[LogDirCopy, ...]:
        """Copies between log dirs that are under way, whoever asked for them."""
        return tuple(copy for broker in self.brokers for copy in broker.copies)

    @property
    def at_rest(self) -> bool:
        """Whether it is known that nothing is moved between brokers, or copied between log dirs."""
        unknown = any(what == MOVES or what.startswith(LOG_DIRS) for what, _why in self.unread)
        return not (self.ongoing or self.copies or unknown)

    @property
    def left_behind(self) -> tuple[tuple[ThrottleKey, str], ...]:
        """The throttles that no execution restores and no move may need, whoever set them."""
        return self.throttles if self.at_rest else ()


class OpenMove(NamedTuple):
    """An open move of a journal. `state`: pending, moving or paused; `direction` as the journal has it."""

    tp: TopicPartition
    original: Replicas
    target: Replicas
    state: str
    direction: str


@dataclass(frozen=True, slots=True)
class CheckedJournal:
    """The journal's contents. `holder`: the process that drives it ("": none).

    `claimant`: the process that drives the cluster under another journal ("": none).
    """

    place: str
    holder: str = ""
    claimant: str = ""
    owed_to: str = ""
    """Brokers and topics that throttles are owed to, in words."""
    standing: tuple[str, str] = ("", "")
    """The process that would drive it but stands still, and what to do about that ("": there is none)."""
    just_ended: frozenset[TopicPartition] = frozenset()
    """Partitions whose moves ended while the cluster was being read: it may have shown them as under way."""
    moves: tuple[OpenMove, ...] = ()
    """The open moves."""
    cordons: Mapping[BrokerId, str] = field(default_factory=dict[BrokerId, str])
    """By broker that an execution cordoned: the id of its plan."""
    topic: str = ""
    """The topic that the journal is in; "": it is in a file."""
    rates: frozenset[tuple[BrokerId, float]] = frozenset()
    """Rates of throttles at brokers that are the journal's own."""

    @property
    def open_moves(self) -> frozenset[TopicPartition]:
        """Partitions whose moves are open."""
        return frozenset(move.tp for move in self.moves)
