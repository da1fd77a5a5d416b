"""The keeper's policy (conditions, guard rails, intents), and the memory that one look leaves for the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

from shunter.model.limits import Window

DAY_MINUTES = 24 * 60


class Mode(Enum):
    """What a condition that holds may do. A later mode includes the earlier ones."""

    OFF = "off"
    """The condition is not looked for."""
    NOTIFY = "notify"
    """People are notified of the condition."""
    PROPOSE = "propose"
    """A plan that mends it is proposed."""
    ACT = "act"
    """The plan is carried out. Only the service can do that; a single look proposes it."""


class Condition(Enum):
    """Conditions of a cluster, by their names in the policy file."""

    BROKER_DEAD = "broker-dead"
    LOG_DIR_FAILED = "log-dir-failed"
    DRAIN = "drain"
    """A broker that an intent drains still holds replicas."""
    REPLACE = "replace"
    """A broker that an intent replaces by another one still holds replicas."""
    DISK_FULL = "disk-full"
    DISK_RUNWAY = "disk-runway"
    """Disks of a broker will be full within some days, at the growth between the looks."""
    LOG_DIR_FULL = "log-dir-full"
    LOG_DIR_BAND = "log-dir-band"
    """Log dirs of a broker are filled unevenly."""
    REPLICATION = "replication"
    """A topic has another replication factor than an intent says."""
    RACKS = "racks"
    DEMOTE = "demote"
    """A broker that an intent demotes leads, or is a preferred leader."""
    ADD = "add"
    """A broker that an intent adds has less than its share."""
    BROKER_EMPTY = "broker-empty"
    DISK_BAND = "disk-band"
    BYTES_IN_BAND = "bytes-in-band"
    """This condition and the next two are judged by a load model of the pipeline, if one is used."""
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
    """The policy file names a lake, and its model is not used: it is too old, too thin, or can't be read."""

    @property
    def label(self) -> str:
        """Its name for people, in the field's words."""
        return _LABELS.get(self.value, self.value.replace("-", " "))

    @property
    def about(self) -> str:
        """What each condition of this kind is about, if several can hold at a time."""
        return _ABOUT.get(self.value, "broker")


_ABOUT = {"replication": "topic", "log-dir-full": "log dir", "moves-stuck": "partition"}
_LABELS = {
    "broker-dead": "broker down",
    "log-dir-band": "log dir skew",
    "replication": "replication factor",
    "racks": "rack placement",
    "add": "broker to fill",
    "broker-empty": "empty broker",
    "disk-band": "disk skew",
    "bytes-in-band": "bytes in skew",
    "bytes-out-band": "bytes out skew",
    "processors-band": "processor skew",
    "replicas-band": "replica skew",
    "leaders-band": "preferred leader skew",
    "leaders-away": "leader not preferred",
    "under-min-isr": "under min ISR",
    "under-replicated": "under-replicated",
    "throttles-left": "leftover throttles",
    "moves-stuck": "stuck move of another tool",
    "model-unused": "load model not used",
}


@dataclass(frozen=True, slots=True)
class Watch:
    """How one condition is watched.

    For conditions of `MEASURED`, `begin` and `end` are shares (0.2 is 20 %): the condition begins to hold beyond
    `begin`, and holds until the figure is within `end`, at which a plan aims, too. For conditions of `IN_DAYS` they are
    days: the condition begins to hold if less than `begin` are left, and holds until `end` or more are left.
    """

    mode: Mode
    minutes: int = 0
    """How long the condition has to hold before anything is proposed."""
    begin: float = 0.0
    end: float = 0.0


MENDED = tuple(Condition)[: tuple(Condition).index(Condition.LEADERS_AWAY)]
"""Conditions that a plan mends; of the others people can only be notified."""
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
"""Conditions that have the two bounds as days."""

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


class Hold(NamedTuple):
    """A person's word against a scope of plans: nothing of the scope begins until `until_ms` (None: until it is lifted)."""

    scope: str
    told: str
    """Who said it and when, and how to lift it."""
    until_ms: int | None = None


@dataclass(frozen=True, slots=True)
class GuardRails:
    """Bounds that no proposal may exceed, and what none may touch. None: no bound. `moves`: replicas to be copied."""

    moves: int | None = None
    """The most moves of one proposal."""
    bytes: int | None = None
    moves_per_day: int | None = None
    """The most moves of one proposal and, by the journal, of the 24 hours before, together."""
    bytes_per_day: int | None = None
    cool_down_minutes: int = 0
    """How long after the end of the last execution nothing is proposed."""
    cool_off_minutes: int = 0
    """How long after a person stopped an execution, or rolled it back, nothing begins."""
    windows: tuple[Window, ...] = ()
    """Empty: always."""
    frozen_topics: tuple[str, ...] = ()
    """Names, or patterns with * and ?: nothing changes in these topics, neither replicas nor order."""
    frozen_brokers: tuple[int, ...] = ()
    """No replica, and no preferred leadership, comes to these brokers or leaves them."""
    approvals: int = 1
    """How many different people have to approve a proposal."""
    declined_minutes: int = DAY_MINUTES
    """How long after a person declined a proposal nothing of its scope is proposed again."""
    no_return_minutes: int = DAY_MINUTES
    """How long after a balance took a replica from a broker no balance brings it back there."""
    gap_minutes: int = 15
    """Looks further apart say nothing about the time between: a condition's time then counts from the later look."""
    people: Mapping[str, str] = field(default_factory=dict[str, str])
    """The person of an account, by `token NAME` or `user NAME`: approvals of one person count once."""
    holds: tuple[Hold, ...] = ()
    """Given by orders, never by the policy file."""


@dataclass(frozen=True, slots=True)
class Intents:
    """An operator's lasting wishes, which every plan keeps to."""

    drain: tuple[int, ...] = ()
    """Brokers that hold nothing."""
    demote: tuple[int, ...] = ()
    """Brokers that lead nothing."""
    replication: Mapping[str, int] = field(default_factory=dict[str, int])
    """By topic: its exact number of replicas."""
    least_replication: int = 0
    """The least number of replicas of every other topic; 0: no rule."""
    replace: Mapping[int, int] = field(default_factory=dict[int, int])
    """By broker: the broker that takes over all its replicas. No other replica comes there before that is done."""
    add: tuple[int, ...] = ()
    """Brokers that get their share, once they are up and until they have it."""
    cordon: bool = False
    """Whether drained brokers are cordoned, until the intent is withdrawn (KIP-1066)."""


@dataclass(frozen=True, slots=True)
class BalanceRules:
    """What plans aim at, and how much of a broker they may fill."""

    goals: tuple[Condition, ...] = ()
    """Bands, the most important first; the others come after them, in their usual order."""
    hard: tuple[Condition, ...] = ()
    """Bands out of which no plan takes a broker, but one that heals."""
    headroom: float = 0.2
    """The share of each disk that stays free, also while data is copied."""
    max_replicas: int | None = None
    """The most replicas on one broker."""
    capacities: Mapping[int, int] = field(default_factory=dict[int, int])
    """By broker: bytes of its disks, for brokers that do not say so themselves."""


@dataclass(frozen=True, slots=True)
class KeeperPolicy:
    """The policy for one cluster."""

    watches: Mapping[Condition, Watch] = field(default_factory=lambda: DEFAULTS)
    """By condition, for every condition."""
    rails: GuardRails = GuardRails()
    intents: Intents = Intents()
    balance: BalanceRules = BalanceRules()
    observes: bool = False
    """Nothing in the cluster is changed: it is looked at, and people are notified."""

    def mode(self, condition: Condition) -> Mode:
        """What a condition may do."""
        return self.watches[condition].mode

    def proposes(self, condition: Condition) -> bool:
        """Whether a plan that mends a condition may be proposed."""
        return self.mode(condition) in (Mode.PROPOSE, Mode.ACT)


class Subject(NamedTuple):
    """A condition and what it holds of: `about` is the name of a broker, topic or other thing; "": the cluster."""

    condition: Condition
    about: str = ""


@dataclass(frozen=True, slots=True)
class Since:
    """A condition that held at the last look, and at every look since `since_ms` (milliseconds since 1970 UTC)."""

    subject: Subject
    since_ms: int
    mark: str = ""


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory of the last look. `cluster_id` is Kafka's: the memory of one cluster says nothing about another."""

    cluster_id: str
    at_ms: int
    held: tuple[Since, ...] = ()
    """By subject."""
    told: bool = True
    """False: of a service that stood by. What it saw, the service that drove has told, or it died before it could."""
