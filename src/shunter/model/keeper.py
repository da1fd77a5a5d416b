"""What an operator wants kept (conditions, guard rails, intents), and what one look leaves for the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

DAY_MINUTES = 24 * 60


class Mode(Enum):
    """What a condition that holds may do. A later one includes the earlier ones."""

    OFF = "off"
    """It is not looked for."""
    NOTIFY = "notify"
    """It is told."""
    PROPOSE = "propose"
    """A plan that mends it is proposed."""
    ACT = "act"
    """The plan is carried out. Only the service can do that; a single look proposes it."""


class Condition(Enum):
    """What can be wrong with a cluster, by its name in the policy file."""

    BROKER_DEAD = "broker-dead"
    LOG_DIR_FAILED = "log-dir-failed"
    DRAIN = "drain"
    """A broker that an intent drains still holds replicas."""
    REPLACE = "replace"
    """A broker that an intent replaces by another one still holds replicas."""
    DISK_FULL = "disk-full"
    DISK_RUNWAY = "disk-runway"
    """Disks of a broker will be full within some days, at the growth that looks saw."""
    LOG_DIR_FULL = "log-dir-full"
    LOG_DIR_BAND = "log-dir-band"
    """Log dirs of a broker are filled unevenly."""
    REPLICATION = "replication"
    """A topic has another replication factor than an intent says."""
    RACKS = "racks"
    DEMOTE = "demote"
    """A broker that an intent demotes is a preferred leader."""
    ADD = "add"
    """A broker that an intent adds has less than its share."""
    BROKER_EMPTY = "broker-empty"
    DISK_BAND = "disk-band"
    BYTES_IN_BAND = "bytes-in-band"
    """This one and the two below are judged by a load model of the pipeline, where one is used."""
    BYTES_OUT_BAND = "bytes-out-band"
    PROCESSORS_BAND = "processors-band"
    REPLICAS_BAND = "replicas-band"
    LEADERS_BAND = "leaders-band"
    LEADERS_AWAY = "leaders-away"
    UNDER_MIN_ISR = "under-min-isr"
    UNDER_REPLICATED = "under-replicated"
    THROTTLES_LEFT = "throttles-left"
    MOVES_STUCK = "moves-stuck"
    MODEL_UNUSED = "model-unused"
    """The policy file names a lake, and its model is not used: too old, too thin, or not to be read."""


@dataclass(frozen=True, slots=True)
class Watch:
    """How one condition is watched.

    `begin` and `end` are shares (0.2 is 20 %), for conditions of `MEASURED` alone: the condition begins to hold beyond
    `begin`, and it holds until the figure is within `end`, which is also what a plan aims at. For those of `IN_DAYS` they are
    days: it begins to hold if less than `begin` are left, and holds until `end` or more are.
    """

    mode: Mode
    minutes: int = 0
    """So long the condition has to hold before anything is proposed."""
    begin: float = 0.0
    end: float = 0.0


MENDED = tuple(Condition)[: tuple(Condition).index(Condition.LEADERS_AWAY)]
"""Conditions that a plan mends; the others can only be told."""
MEASURED = (
    Condition.DISK_FULL,
    Condition.LOG_DIR_FULL,
    Condition.LOG_DIR_BAND,
    Condition.DISK_BAND,
    Condition.BYTES_IN_BAND,
    Condition.BYTES_OUT_BAND,
    Condition.PROCESSORS_BAND,
    Condition.REPLICAS_BAND,
    Condition.LEADERS_BAND,
    Condition.LEADERS_AWAY,
)
"""Conditions that have the two bounds `begin` and `end`, as shares."""
IN_DAYS = (Condition.DISK_RUNWAY,)
"""Conditions that have them as days."""

DEFAULTS: Mapping[Condition, Watch] = MappingProxyType(
    {
        Condition.BROKER_DEAD: Watch(Mode.PROPOSE, 30),
        Condition.LOG_DIR_FAILED: Watch(Mode.PROPOSE, 10),
        Condition.DRAIN: Watch(Mode.PROPOSE),
        Condition.REPLACE: Watch(Mode.PROPOSE),
        Condition.DISK_FULL: Watch(Mode.PROPOSE, 10, 0.85, 0.75),
        Condition.DISK_RUNWAY: Watch(Mode.PROPOSE, 60, 7, 14),
        Condition.LOG_DIR_FULL: Watch(Mode.PROPOSE, 10, 0.85, 0.75),
        Condition.LOG_DIR_BAND: Watch(Mode.PROPOSE, 30, 0.3, 0.15),
        Condition.REPLICATION: Watch(Mode.PROPOSE),
        Condition.RACKS: Watch(Mode.PROPOSE, 30),
        Condition.DEMOTE: Watch(Mode.PROPOSE),
        Condition.ADD: Watch(Mode.PROPOSE),
        Condition.BROKER_EMPTY: Watch(Mode.PROPOSE, 10),
        Condition.DISK_BAND: Watch(Mode.PROPOSE, 30, 0.2, 0.1),
        Condition.BYTES_IN_BAND: Watch(Mode.PROPOSE, 30, 0.2, 0.1),
        Condition.BYTES_OUT_BAND: Watch(Mode.PROPOSE, 30, 0.2, 0.1),
        Condition.PROCESSORS_BAND: Watch(Mode.PROPOSE, 30, 0.3, 0.2),
        Condition.REPLICAS_BAND: Watch(Mode.PROPOSE, 30, 0.2, 0.1),
        Condition.LEADERS_BAND: Watch(Mode.PROPOSE, 30, 0.2, 0.1),
        Condition.LEADERS_AWAY: Watch(Mode.NOTIFY, 15, 0.1, 0.02),
        Condition.UNDER_MIN_ISR: Watch(Mode.NOTIFY),
        Condition.UNDER_REPLICATED: Watch(Mode.NOTIFY, 5),
        Condition.THROTTLES_LEFT: Watch(Mode.NOTIFY, 10),
        Condition.MOVES_STUCK: Watch(Mode.NOTIFY, 30),
        Condition.MODEL_UNUSED: Watch(Mode.NOTIFY, 60),
    }
)


@dataclass(frozen=True, slots=True)
class GuardRails:
    """What no proposal may exceed or touch. None: no bound. `moves` are replicas that are copied."""

    moves: int | None = None
    """The most of one proposal."""
    bytes: int | None = None
    moves_per_day: int | None = None
    """The most of one proposal and of what the journal says was copied in the 24 hours before, together."""
    bytes_per_day: int | None = None
    cool_down_minutes: int = 0
    """So long after the end of the last execution nothing is proposed."""
    windows: tuple[tuple[int, int], ...] = ()
    """(first minute of the day, first minute after), UTC; over midnight if the second is less. Empty: always."""
    frozen_topics: tuple[str, ...] = ()
    """Names, or patterns with * and ?: nothing of these changes, neither replicas nor order."""
    frozen_brokers: tuple[int, ...] = ()
    """No replica comes to these or leaves them, and no preferred leadership."""
    approvals: int = 1
    """So many different people have to approve a proposal."""
    declined_minutes: int = DAY_MINUTES
    """So long after somebody declined a proposal nothing of its scope is proposed again."""
    no_return_minutes: int = DAY_MINUTES
    """So long after a balance took a replica from a broker no balance brings it back there."""
    gap_minutes: int = 15
    """Looks that are further apart tell nothing of the time between: what holds then is counted anew."""


@dataclass(frozen=True, slots=True)
class Intents:
    """What an operator asked for once, and what every plan keeps to."""

    drain: tuple[int, ...] = ()
    """Brokers that hold nothing."""
    demote: tuple[int, ...] = ()
    """Brokers that lead nothing."""
    replication: Mapping[str, int] = field(default_factory=dict[str, int])
    """By topic: exactly so many replicas."""
    least_replication: int = 0
    """Every other topic has at least so many replicas; 0: no rule."""
    replace: Mapping[int, int] = field(default_factory=dict[int, int])
    """By broker: the one that takes over all it holds. Nothing else comes there before that is done."""
    add: tuple[int, ...] = ()
    """Brokers that get their share, once they are up and until they have it."""


@dataclass(frozen=True, slots=True)
class KeeperPolicy:
    """The policy for one cluster."""

    watches: Mapping[Condition, Watch] = field(default_factory=lambda: DEFAULTS)
    """One for every condition."""
    rails: GuardRails = GuardRails()
    intents: Intents = Intents()

    def mode(self, condition: Condition) -> Mode:
        """What a condition may do."""
        return self.watches[condition].mode

    def proposes(self, condition: Condition) -> bool:
        """Whether a plan that mends a condition may be proposed."""
        return self.mode(condition) in (Mode.PROPOSE, Mode.ACT)


class Subject(NamedTuple):
    """What a condition holds of: `about` names it, "" is the whole cluster."""

    condition: Condition
    about: str = ""


@dataclass(frozen=True, slots=True)
class Since:
    """A condition that held at the last look. `since_ms`: at every look since then, in milliseconds since 1970 UTC."""

    subject: Subject
    since_ms: int
    mark: str = ""


@dataclass(frozen=True, slots=True)
class Memory:
    """What the last look left. `cluster_id` is Kafka's: what was seen of one cluster says nothing of another."""

    cluster_id: str
    at_ms: int
    held: tuple[Since, ...] = ()
    """By subject."""
