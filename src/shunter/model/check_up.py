"""A cluster as a check-up sees it: raw facts about brokers, topics, moves, throttles and rights, judged elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from shunter.model.execution import ObservedPartition, OngoingReassignment, ThrottleKey
from shunter.model.partition import BrokerId, TopicPartition


class Level(Enum):
    """How bad a finding is, from nothing to do on."""

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
    """A listener that a broker advertises; `problem`: what is wrong when it is called from here ("": nothing).

    `used`: clients that came by our bootstrap servers are sent there.
    """

    name: str
    address: str
    problem: str
    used: bool = False


@dataclass(frozen=True, slots=True)
class CheckedLogDir:
    """A log dir in bytes (-1: the broker does not say); `error`: Kafka's name of its failure ("": it works)."""

    path: str
    total: int
    usable: int
    error: str = ""


@dataclass(frozen=True, slots=True)
class CheckedBroker:
    """A broker that is registered. `release`: as its APIs tell, `4.1`; "" where it did not answer."""

    broker: BrokerId
    rack: str | None
    release: str
    listeners: tuple[CheckedListener, ...] = ()
    log_dirs: tuple[CheckedLogDir, ...] = ()


@dataclass(frozen=True, slots=True)
class CheckedTopic:
    """A topic; `operations`: what we may do to it (Kafka's names in capitals); None: old brokers don't say."""

    name: str
    min_isr: int
    partitions: dict[int, ObservedPartition]
    operations: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class CheckUp:
    """All that was seen. `unread`: (what could not be read, why)."""

    cluster_id: str
    controller: BrokerId
    controlled_by: str
    """`Apache (KRaft)`, `Apache (ZooKeeper)` or `Shunter`."""
    brokers: tuple[CheckedBroker, ...]
    topics: tuple[CheckedTopic, ...]
    ongoing: dict[TopicPartition, OngoingReassignment] = field(
        default_factory=dict[TopicPartition, OngoingReassignment]
    )
    throttles: tuple[tuple[ThrottleKey, str], ...] = ()
    """Throttles that no execution will restore."""
    operations: frozenset[str] | None = None
    """What we may do to the cluster; None: old brokers don't say."""
    claim_operations: frozenset[str] | None = None
    """What we may do to the group by which executors claim a cluster."""
    clock_ahead_ms: int | None = None
    """How far the controller's clock is ahead of ours; None: it can't be seen."""
    unread: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class CheckedJournal:
    """What the journal says. `holder`: who drives it; `claimant`: who drives the cluster under another one ("": nobody)."""

    place: str
    holder: str = ""
    claimant: str = ""
    open_moves: frozenset[TopicPartition] = frozenset()
    owed_to: str = ""
    """Brokers and topics that throttles are owed to, in words."""
