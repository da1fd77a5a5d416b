"""The service of clusters: the orders that people give it, and the proposals, intents and history that it keeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, NamedTuple, cast

from shunter.errors import ShunterError
from shunter.model.keeper import Memory


class IntentKind(Enum):
    """The kinds of intents: what is to hold from now on, until it is withdrawn."""

    DRAIN = "drain"
    """Brokers hold no replicas."""
    DEMOTE = "demote"
    """Brokers lead no partitions."""
    REPLACE = "replace"
    """All replicas of a broker go to another one, which takes its place."""
    ADD = "add"
    """Brokers get their share, once they are up."""
    FREEZE_TOPIC = "freeze-topic"
    """Nothing of topics changes. Their names, or patterns with * and ?."""
    FREEZE_BROKER = "freeze-broker"
    REPLICATION = "replication"
    """Topics have exactly so many replicas."""
    HOLD = "hold"
    """Nothing of a scope begins by itself, because of a person's word against it."""


class OrderKind(Enum):
    """The orders that the service takes, by their names on the command line and in the API."""

    APPROVE = "approve"
    """Carry a `proposal` out, once as many people have approved it as the policy wants."""
    DECLINE = "decline"
    """Don't carry a `proposal` out, and propose nothing of its scope for a while."""
    PROPOSE = "propose"
    """Keep a plan as a proposal: its `scope`, what it is about, and rules."""
    STOP = "stop"
    """Moves end where they are: `partitions`; none named: all open moves."""
    ROLL_BACK = "rollback"
    PAUSE = "pause"
    """Moves of `partitions` stand still. None named: the kill switch: every move is paused, and nothing begins; without
    a cluster in the whole fleet."""
    RESUME = "resume"
    """Moves of `partitions` go on. None named: the kill switch is lifted, and moves paused by name
    stay paused; without a kill switch those go on."""
    LIMIT = "limit"
    """Change the throttle of moves under way (`bytes_per_s`), or how many copies may run at a time; 0: no limit."""
    INTEND = "intend"
    """Give an `intent` about brokers, topics or a scope."""
    WITHDRAW = "withdraw"
    """Take an `intent` back; a hold also if it followed from a rollback, a stop or a declined proposal."""
    CLEAR_THROTTLES = "clear-throttles"
    """Remove throttles that no execution will restore, while nothing is being moved."""


class ServiceOrder(NamedTuple):
    """One order. `cluster` is its name in the policy file; "": the whole fleet, for the kill switch alone.

    The other fields are the order's body in the API, too; each kind has some of them.
    """

    kind: OrderKind
    cluster: str = ""
    intent: IntentKind | None = None
    proposal: str = ""
    scope: str = ""
    partitions: tuple[str, ...] = ()
    """As `orders-3`; for the scope `move` also whole topics."""
    brokers: tuple[int, ...] = ()
    replacements: tuple[tuple[int, int], ...] = ()
    """(old broker, the broker that takes its place)."""
    topics: tuple[str, ...] = ()
    replicas: int | None = None
    """How many each of `topics` shall have."""
    bytes_per_s: int | None = None
    """The throttle of each broker; None: it stays; 0: none."""
    max_concurrent: int | None = None
    max_in: int | None = None
    max_out: int | None = None
    max_per_rack: int | None = None
    max_per_log_dir: int | None = None
    to: tuple[int, ...] = ()
    """The brokers that may hold what the scope `move` moves."""
    band_percent: float | None = None
    most_moves: int | None = None
    most_gigabytes: float | None = None
    without_brokers: tuple[int, ...] = ()
    """No replica comes to these brokers or leaves them."""
    without_topics: tuple[str, ...] = ()
    """Names, or patterns with * and ?: these topics do not change."""

    @property
    def body(self) -> dict[str, Any]:
        """The fields that say what the order asks for, without those that are left out."""
        given = zip(self._fields[2:], self[2:], strict=True)
        return {name: value for name, value in given if value not in (None, "", ())}

    @property
    def about(self) -> tuple[str, ...]:
        """What the order asks for, in words: `drain 3 most-moves=50`."""
        words: list[str] = []
        for name, value in self.body.items():
            if name == "replacements":
                words += [f"{old}={new}" for old, new in self.replacements]
            elif isinstance(value, tuple):
                each = [str(item) for item in cast("tuple[object, ...]", value)]
                bare = name in ("partitions", "brokers", "topics")
                words += each if bare else [f"{name.replace('_', '-')}={','.join(each)}"]
            elif isinstance(value, int | float):
                words.append(f"{name.replace('_', '-')}={value}")
            else:
                words.append(value.value if isinstance(value, Enum) else str(value))
        return tuple(words)

    @property
    def is_switch(self) -> bool:
        """Whether the order throws or lifts the kill switch."""
        return self.kind in (OrderKind.PAUSE, OrderKind.RESUME) and not self.partitions


TOKEN, USER = "token", "user"
"""The kinds of accounts by which people give orders: a token of the HTTP API, or a UNIX user at the socket."""


class Signature(NamedTuple):
    """The person who gives an order, and why. `by`: the kind of account that `who` names.

    `key`: an order with the same key is carried out once, and answered alike; "": no key.
    """

    who: str
    comment: str = ""
    key: str = ""
    by: str = TOKEN


class Refusal(Enum):
    """Why an order is not carried out."""

    INVALID = "invalid"
    """A value or a name in it makes no sense."""
    NOT_FOUND = "not-found"
    STALE = "stale"
    """The cluster changed since the proposal: look again."""
    NOT_ALLOWED = "not-allowed"
    """The policy, or the present state, does not allow it."""
    ALREADY_DECIDED = "already-decided"
    KEY_REUSED = "key-reused"
    """The idempotency key belongs to another order."""
    STANDBY = "standby"
    """Another instance drives this cluster."""
    UNREACHABLE = "unreachable"
    """The cluster does not answer."""
    STORE = "store"
    """The service can't write the order down."""


class OrderRefused(ShunterError):
    """An order is not carried out; nothing was changed."""

    def __init__(self, refusal: Refusal, message: str) -> None:
        self.refusal = refusal
        super().__init__(message)


class OrderDone(NamedTuple):
    """An order was carried out, or is durable and will be. `text` says what the order does."""

    text: str
    proposal: str = ""
    """The proposal that the order made or decided about."""
    undone: tuple[str, ...] = ()
    """Why the kill switch, or lifting it, is not in force now or not durable: sentences that name their clusters."""


class ProposalState(Enum):
    """How far a proposal has got."""

    WAITING = "waiting"
    """It waits for a person's approval, or for a second one."""
    APPROVED = "approved"
    """It is begun as soon as nothing holds it back."""
    STARTING = "starting"
    """It is being handed to the executor. The journal says whether the executor took it."""
    RUNNING = "running"
    CARRIED_OUT = "carried-out"
    """Its plan has ended as wanted. The next look shows whether the conditions that asked for it are over."""
    DONE = "done"
    """Its plan has ended as wanted, and the conditions that asked for it no longer held at the next look."""
    PARTLY = "partly"
    """It ended, and some of its moves ended otherwise than wanted, or a condition that asked for it still held."""
    TURNED = "turned"
    """It was stopped or rolled back."""
    DECLINED = "declined"
    STALE = "stale"
    """The cluster changed before it was begun. A new proposal is planned if one is still wanted."""
    REFUSED = "refused"
    """The executor took nothing of it."""

    @property
    def told(self) -> str:
        """The state in people's words, after "is"."""
        words = {"turned": "stopped or rolled back", "partly": "done in part", "carried-out": "carried out"}
        return words.get(self.value, self.value)


OPEN = (
    ProposalState.WAITING,
    ProposalState.APPROVED,
    ProposalState.STARTING,
    ProposalState.RUNNING,
    ProposalState.CARRIED_OUT,
)
"""States of proposals that are not over."""
UNBEGUN = (ProposalState.WAITING, ProposalState.APPROVED)


class LogDirChange(NamedTuple):
    """A replica that its broker copies from one of its log dirs to another one."""

    broker: int
    original: str
    target: str
    bytes: int


class PlannedChange(NamedTuple):
    """A partition that a proposal changes: its broker ids in order, `replicas` afterwards and `original` before.

    `elect`: the first of `replicas` is elected leader at the end; that may be all that changes.
    """

    topic: str
    partition: int
    replicas: tuple[int, ...]
    original: tuple[int, ...]
    log_dirs: tuple[LogDirChange, ...] = ()
    elect: bool = False


class Vote(NamedTuple):
    """One person's approval or refusal of a proposal. `by`: the kind of account that `who` names."""

    who: str
    at_ms: int
    approves: bool
    comment: str = ""
    by: str = TOKEN


class BrokerEffect(NamedTuple):
    """A broker before and after a plan: bytes of its replicas, count of replicas, count of preferred leaderships."""

    broker: int
    before: tuple[int, int, int]
    after: tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class KeptProposal:
    """A proposal with an id. Its plan never changes: a new plan is another proposal."""

    id: str
    cluster: str
    cluster_id: str
    scope: str
    conditions: tuple[str, ...]
    reasons: tuple[str, ...]
    changes: tuple[PlannedChange, ...]
    moves: int
    """Replicas that are copied."""
    bytes: int
    leader_changes: int
    rollback_bytes: int
    """Bytes that a rollback copies at the most: after the last step."""
    brokers: tuple[BrokerEffect, ...]
    made_at_ms: int
    state: ProposalState
    changed_at_ms: int
    """When it got into this state."""
    acts: bool = False
    """Whether the policy lets its conditions act: then no approval is needed."""
    votes: tuple[Vote, ...] = ()
    held_back: tuple[str, ...] = ()
    """Why it may not be begun now."""
    outcome: str = ""
    """How it ended, or why it is stale or refused."""
    undone: tuple[str, ...] = ()
    """Wishes that the planner could not fulfil."""
    partitions: int = 0
    """How many partitions it changes. `changes` has them, unless this is the gist of a proposal."""
    least_bytes: int | None = None
    """The lower bound of bytes: no plan that fulfils every wish copies less; None: no bound is known."""
    turned: str = ""
    """The word of the person who stopped it or rolled it back, once its consequence is kept; "": there was none."""

    @property
    def gist(self) -> KeptProposal:
        """The same proposal without the partitions that it changes: there may be 100,000."""
        return replace(self, changes=())


class KeptIntent(NamedTuple):
    """An intent beside those of the policy file. `about`: a broker's id, a topic or a scope.

    `value`: a replication factor; for `replace` the broker that takes over; for `hold` the minutes after which it ends,
    or 0; for other kinds 0.
    """

    kind: IntentKind
    about: str
    value: int
    who: str
    at_ms: int
    comment: str = ""


class KillSwitch(NamedTuple):
    """A person paused a cluster, or (cluster "") all of them. `kept`: partitions that were paused by name before."""

    cluster: str
    who: str
    at_ms: int
    comment: str = ""
    kept: tuple[str, ...] = ()
    lifted: bool = False
    """The kill switch is lifted, but its moves are still to be resumed."""
    fleet: bool = False
    """It was thrown for the whole fleet."""
    unsent: bool = False
    """It is kept on this host, and the cluster does not have it yet."""


@dataclass(frozen=True, slots=True)
class HistoryEvent:
    """Something that happened. `kind` is one of a few words; `subject`: the condition, proposal or partition concerned.

    `at_ms`: when it happened or began, even if it was found out later. `until_ms`: the end of an event that lasted;
    None: it was a moment, or goes on. `facts` say how the cluster stood when the event was written down.
    """

    number: int
    cluster: str
    at_ms: int
    kind: str
    text: str
    subject: str = ""
    who: str = ""
    cause: str = ""
    until_ms: int | None = None
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])


class EventSearch(NamedTuple):
    """Which events are wanted: the latest `most` of a cluster ("": of the fleet) that overlap [since_ms, until_ms).

    `until_ms` None: up to now. `before`: only events before the one with this number, as the page before needs them.
    `kind` and `who`: only events of this kind, or of this person; "": all.
    """

    cluster: str = ""
    since_ms: int = 0
    until_ms: int | None = None
    most: int = 500
    before: int | None = None
    kind: str = ""
    who: str = ""


class NotifierKind(Enum):
    """The kinds of receivers of notifications, by their names in the policy file."""

    WEBHOOK = "webhook"
    SLACK = "slack"
    ALERTMANAGER = "alertmanager"
    COMMAND = "command"
    APPRISE = "apprise"


UNANSWERED = "order-unanswered"
"""The kind of an event about an order that the executor never answered: it may be lost."""
NOTIFIED = (
    "condition",
    "condition-over",
    "proposed",
    "begun",
    "proposal-done",
    "proposal-partly",
    "proposal-turned",
    "proposal-stale",
    "proposal-refused",
    "broker-empty",
    "cluster-unreachable",
    "cluster-back",
    "not-driven",
    "driven-again",
    "policy-refused",
    "token-expires",
    "notification-failed",
    "pause-all",
    "pause-not-sent",
    "resume-not-sent",
    "resume-all",
    UNANSWERED,
)
"""Kinds of events that a receiver is notified of, unless the policy file says otherwise."""
INFORMED = ("service-began", "driver", "driver-lost")
"""Kinds of events that are for information, and sent to receivers that name them: nothing is wrong because of them."""


@dataclass(frozen=True, slots=True)
class Notifier:
    """One receiver of notifications. `command`: a program and its arguments."""

    kind: NotifierKind
    url: str = ""
    command: tuple[str, ...] = ()
    events: tuple[str, ...] = NOTIFIED
    digest_minutes: int = 5
    """After a message, later events are collected for so long and sent as one message; 0: each is sent at once."""
    headers: tuple[tuple[str, str], ...] = ()
    """Of each message that is posted."""
    secret: bytes = field(default=b"", repr=False)
    """By which messages are signed; none: they are not."""

    def wants(self, kind: str) -> bool:
        """Whether this receiver is notified of events of a kind."""
        return kind in self.events


class LookGist(NamedTuple):
    """The part of a look that is kept for long. `disks`: (broker, bytes in use, bytes in all), if a broker says so."""

    at_ms: int
    disks: tuple[tuple[int, int, int], ...]
    partitions: int
    under_replicated: int
    conditions: tuple[str, ...] = ()
    topics: tuple[tuple[str, int], ...] = ()
    """(topic, bytes of all its partitions, one replica each), of topics of which all sizes are known."""
    others: tuple[tuple[int, int], ...] = ()
    """(broker, bytes in use beside replicas), if a broker says so; below 0 if sizes were read at another moment."""


class KeyedAnswer(NamedTuple):
    """An order that came with an idempotency key. `done` None: it was begun, and its result is not known."""

    key: str
    order: str
    at_ms: int
    done: OrderDone | None


@dataclass(frozen=True, slots=True)
class Words:
    """All that people said about one cluster."""

    intents: tuple[KeptIntent, ...] = ()
    switch: KillSwitch | None = None
    proposals: tuple[KeptProposal, ...] = ()
    """Open ones with the partitions that they change, and some of those that are over."""
    answers: tuple[KeyedAnswer, ...] = ()


@dataclass(frozen=True, slots=True)
class StoreBatch:
    """One transaction of the store: all of it is written, or nothing."""

    proposals: tuple[KeptProposal, ...] = ()
    events: tuple[HistoryEvent, ...] = ()
    """The store gives them their numbers."""
    intents: tuple[tuple[str, KeptIntent], ...] = ()
    """By cluster."""
    intents_gone: tuple[tuple[str, IntentKind, str], ...] = ()
    """(cluster, kind, `about`) of each."""
    switches: tuple[KillSwitch, ...] = ()
    switches_gone: tuple[str, ...] = ()
    """Clusters."""
    memory: tuple[str, Memory] | None = None
    look: tuple[str, LookGist] | None = None
    answer: KeyedAnswer | None = None
    answer_gone: str = ""
    """A key whose order was refused."""
