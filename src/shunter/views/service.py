"""The service as people see it: the fleet, a cluster, its moves, proposals and history, for page, API and command line.

Times are milliseconds since 1970 UTC, durations milliseconds, sizes bytes. None means that it is not known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from shunter.core.keeper.cluster_facts import Age
from shunter.core.keeper.situation import STATES, ClusterSeverity, ClusterSituation
from shunter.model.service import HistoryEvent, KeptIntent, KeptProposal, KillSwitch, OrderKind
from shunter.views.controller_status import ControllerStatus
from shunter.views.keeper import ConditionView, ProposalView


@dataclass(frozen=True, slots=True)
class FleetRow:
    """One cluster of the fleet. Figures are of the last observation that succeeded; None: not known."""

    name: str
    cluster_id: str
    situation: ClusterSituation
    """How the cluster stands. `figures` and `moves` say whether the other fields are of now, and of when they are."""
    brokers: int | None = None
    """Live brokers."""
    brokers_down: tuple[int, ...] = ()
    """Brokers that hold replicas and are not live."""
    partitions: int | None = None
    under_replicated: int | None = None
    """Partitions with a replica out of sync, apart from replicas that a reassignment is adding."""
    under_min_isr: int | None = None
    offline: int | None = None
    """Partitions without a leader."""
    balance: float | None = None
    """The greatest distance of a broker's bytes of replicas from the brokers' mean, as a share: 0.2 is 20 %. Brokers that
    are drained or replaced do not count."""
    balance_of: str = ""
    """Of which broker that is, and of how many brokers the mean; "": not known."""
    disk_used: float | None = None
    """The share in use on the fullest broker."""
    runway_days: float | None = None
    """Days until the first broker's disks are full, at the growth between observations."""
    runway_why: str = ""
    """Why there is no `runway_days`."""
    conditions: int | None = None
    moves_open: int | None = None
    """Open moves of the journal."""
    share: float | None = None
    """How much of the open execution is done, 0 to 1."""
    left_ms: int | None = None
    proposals_waiting: int = 0
    paused: KillSwitch | None = None
    """The kill switch of the cluster, while it is in force."""
    intents: tuple[str, ...] = ()
    """What people gave beside the policy file and that is in force, as `drain 3`."""


@dataclass(frozen=True, slots=True)
class FleetView:
    """All clusters. `version` grows with every change of anything that the service shows."""

    version: int
    at_ms: int
    instance: str
    """The process that made the view: host and process id."""
    clusters: tuple[FleetRow, ...]
    severity: ClusterSeverity
    """The worst of the clusters and of the service itself."""
    headline: str
    """How the fleet stands, in a sentence."""
    orders: tuple[OrderKind, ...] = ()
    """Orders to the whole fleet that would be carried out now."""
    why_not: str = ""
    """Why no order to the whole fleet would be carried out."""
    paused: KillSwitch | None = None
    """The kill switch of the whole fleet."""
    not_paused: tuple[str, ...] = ()
    """Clusters that the kill switch of the fleet does not pause, because another process drives them."""
    store_trouble: str = ""
    """The trouble with the service's own store, and its consequence; "": none."""
    policy_trouble: str = ""
    """Why the present policy file is not in force; "": it is."""


@dataclass(frozen=True, slots=True)
class KeptBrokerView:
    """A broker. `disk_total` and `disk_usable` are those of its log dirs (from Kafka 3.3 on)."""

    id: int
    rack: str | None
    live: bool
    replica_bytes: int | None
    """None: not known, because it did not tell its log dirs."""
    disk_total: int | None
    disk_usable: int | None
    replicas: int
    leaders: int
    """Partitions that the broker leads now."""
    preferred: int
    """Partitions whose preferred leader it is."""
    offline: int
    """Its replicas that are offline."""
    receives: int = 0
    """Open moves that bring a replica to it."""
    gives: int = 0
    drained: bool = False
    demoted: bool = False
    frozen: bool = False
    replaced_by: int | None = None
    """The broker that takes its place."""
    added: bool = False
    """An intent asks to give the broker its share."""
    safe_to_remove: bool = False
    """The broker is drained or replaced and holds no replica, and no replica is on its way to it."""
    barred: str = ""
    """Why it gets no replica: `is dead`, `is fenced` (KIP-1073), `is cordoned` (KIP-1066), …; "": nothing is known."""
    bytes_in: float | None = None
    """Bytes per second that it receives, from producers and leaders, by the load model; None: no model is used."""
    bytes_out: float | None = None
    """Bytes per second that clients read from it."""


class NotifierFigures(NamedTuple):
    """Counts of a receiver's messages since the service began. `trouble`: why the last one failed; "": it did not."""

    receiver: str
    sent: int = 0
    failed: int = 0
    left_out: int = 0
    trouble: str = ""


@dataclass(slots=True)
class ClusterCounts:
    """Counts of one cluster since the service began; they only grow."""

    observations: int = 0
    failed_observations: int = 0
    moves: Counter[str] = field(default_factory=Counter[str])
    """Moves of this service that ended, by how they ended."""
    copied_bytes: int = 0


@dataclass(frozen=True, slots=True)
class FlowView:
    """Open moves that take replicas from one broker to another. `moving`: those of them that are under way."""

    source: int
    target: int
    moves: int
    moving: int
    bytes_left: int


@dataclass(frozen=True, slots=True)
class KeptConditionView:
    """A condition that holds, its mode by the policy, how bad it is, and what is being done about it."""

    condition: ConditionView
    mode: str
    severity: ClusterSeverity
    doing: str = ""


@dataclass(frozen=True, slots=True)
class TopicGist:
    """A topic. `bytes`: size of all its replicas."""

    name: str
    partitions: int
    replication: tuple[int, ...]
    """Replication factors of its partitions, ascending, each once."""
    bytes: int
    under_replicated: int
    frozen: bool = False


@dataclass(frozen=True, slots=True)
class PartitionView:
    """A partition at the last observation."""

    partition: str
    """As `orders-3`."""
    topic: str
    replicas: tuple[int, ...]
    """In order: the first is the preferred leader."""
    isr: tuple[int, ...]
    offline: tuple[int, ...]
    """Replicas whose broker is dead, or whose log dir failed."""
    leader: int
    """-1: none."""
    bytes: int | None
    """Size of its largest replica; None: no broker reported it."""
    state: str
    """The worst of `offline`, `under min ISR`, `under-replicated` and `healthy`."""
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicsPage:
    """A page of topics."""

    observed_at_ms: int | None
    found: int
    """The number of topics that the search found; `rows` begin at `offset` of these."""
    offset: int
    rows: tuple[TopicGist, ...]
    partition: str = ""
    """The partition that the search names, as `orders-3` or `orders/3`; "": it names none."""


@dataclass(frozen=True, slots=True)
class PartitionsPage:
    """A page of partitions, by topic and number."""

    observed_at_ms: int | None
    counts: dict[str, int]
    """The number of partitions in each state that fit the search, regardless of the state that is asked for.

    A partition may be in several: without a leader, under min ISR and under-replicated.
    """
    found: int
    offset: int
    rows: tuple[PartitionView, ...]
    in_all: int = 0
    """The partitions that fit the search, in whatever state."""


@dataclass(frozen=True, slots=True)
class KeptClusterView:
    """One cluster at the last observation that succeeded."""

    version: int
    row: FleetRow
    brokers: tuple[KeptBrokerView, ...] = ()
    conditions: tuple[KeptConditionView, ...] = ()
    prospects: tuple[ProposalView, ...] = ()
    """Plans that the last observation would propose, the most urgent first; kept proposals are in the list of proposals."""
    intents: tuple[KeptIntent, ...] = ()
    """The desired state that people gave the service; that of the policy file is in `policy`."""
    policy: dict[str, Any] | None = None
    """The policy file's table for this cluster, as it was read."""
    flows: tuple[FlowView, ...] = ()
    """What this service moves between brokers now, the most first, at most `MOST_FLOWS`."""
    topics: tuple[TopicGist, ...] = ()
    """The largest ones first, at most `MOST_TOPICS`."""
    topics_in_all: int = 0
    under_replicated: tuple[str, ...] = ()
    """Partitions, at most `MOST_NAMED`."""
    under_min_isr: tuple[str, ...] = ()
    offline: tuple[str, ...] = ()
    throttles_left: tuple[str, ...] = ()
    """Throttles that no execution restores."""
    rates_until_ms: int | None = None
    """The end of the rates by which bytes in, bytes out and processors are judged; None: there are no rates."""
    rates_unused: str = ""
    """Why the pipeline's load model is not used; "": it is used, or the policy file names no tables of the pipeline."""


CURRENT = Age.CURRENT
SEVERITIES = tuple(each.value for each in ClusterSeverity)
OURS, EXTERNAL, UNKNOWN = "ours", "external", "unknown"
"""`MoveView.whose`: of a move of the service's journal, and of a move that this journal does not have."""
MOST_TOPICS = 200
MOST_NAMED = 100
MOST_FLOWS = 200


@dataclass(frozen=True, slots=True)
class MoveView:
    """One move. `whose`: `ours`, of the service's journal, whoever drives it; `external`, of another tool; or `unknown`.

    Fields that are not known are None or "": of an external move, and of any move that this service does not drive.
    Of a move that has ended, `replicas` are those that it left; who is in sync since then is not known.
    """

    partition: str
    whose: str
    state: str
    """pending, moving, paused, or how it ended; an external move: moving."""
    direction: str
    original: tuple[int, ...]
    replicas: tuple[int, ...]
    isr: tuple[int, ...] | None
    target: tuple[int, ...]
    step: tuple[int, ...] | None
    """The replicas that the step under way aims at."""
    steps: int
    """Steps that were begun, with the one under way."""
    total_bytes: int | None
    copied_bytes: int | None
    rollback_bytes: int | None
    waits: str
    stuck: str
    adding: tuple[int, ...] = ()
    """Of the replicas, those that are being added now; all others were there before, in sync or not."""


@dataclass(frozen=True, slots=True)
class MovesView:
    """The moves in a cluster. There is one ETA for all moves of this execution, because steps of one wait for others.

    `left_ms`, `low_ms`, `high_ms`: the ETA and its interval of 80 %; if there is none, `why_no_eta` says why.
    """

    version: int
    at_ms: int
    proposal: str
    """The id of the proposal that is being carried out; "": none, or a plan that was handed in."""
    situation: ClusterSituation
    """How the cluster stands. `moves` says whether these figures are of now, `moves_at_ms` of when they are."""
    moves: tuple[MoveView, ...] = ()
    """Open moves of the journal, external ones, then moves that have ended in this execution."""
    plan_bytes: int | None = None
    """The bytes of the whole plan; this and the other figures are None while this service does not drive the cluster."""
    left_bytes: int | None = None
    """Those that are still to be copied: none after a stop, whatever the plan was."""
    share: float | None = None
    copy_bytes_per_s: float | None = None
    """The rate of all copies together, as measured."""
    throttle_bytes_per_s: int | None = None
    """The throttle: bytes per second that each broker sends for moves, and receives; None: there is none."""
    bounds: Mapping[str, int] = field(default_factory=dict[str, int])
    """The most copies at a time, as `max_in` of one broker; 0: no bound. Empty while it is not known."""
    left_ms: int | None = None
    low_ms: int | None = None
    high_ms: int | None = None
    why_no_eta: str = ""
    rollback_bytes: int | None = None
    """The most that a rollback of all open moves would copy."""
    silent_ms: int | None = None
    """For how long the cluster has not answered the executor; 0: it answers."""


@dataclass(frozen=True, slots=True)
class OrderPreview:
    """What an order to moves would do now, in words. `bytes`: the most that would be copied again because of it."""

    text: str
    moves: int
    bytes: int


@dataclass(frozen=True, slots=True)
class ControllerView:
    """One controller process of Shunter's."""

    url: str
    """Where the process serves metrics, as the policy file names it."""
    status: ControllerStatus | None
    """None: the status is not known."""
    trouble: str = ""
    """Why the status is not known."""


@dataclass(frozen=True, slots=True)
class ControllersView:
    """Shunter's controllers of a cluster, in the order of the policy file; empty: the file does not name any."""

    at_ms: int
    controllers: tuple[ControllerView, ...] = ()


@dataclass(frozen=True, slots=True)
class KeptProposalView:
    """A proposal with what it would cost. `wanted_votes`: how many people have to approve it."""

    proposal: KeptProposal
    wanted_votes: int
    least_ms: int | None = None
    """The least time that its copies take, at the throttle of the policy; None: the policy has no throttle."""
    given_votes: int = 0
    """How many different people have approved it."""
    unsure: str = ""
    """Which approvals count for nobody else, because it is not known whose they are; "": all are known."""
    declined_minutes: int = 0
    """For how long its scope is held if somebody declines it."""


@dataclass(frozen=True, slots=True)
class TimelineView:
    """Events of the history, the oldest first. `more`: there are events before the first of these."""

    version: int
    events: tuple[HistoryEvent, ...]
    more: bool = False
    next: str | None = None
    """The query of the page with the events before these; null: there are none."""
    host: str = ""
    """The host that wrote this history. Of services on other hosts it has what they left in the cluster."""
    host_since_ms: int | None = None
    """Since when a service of this host writes it; null: not known."""


def render(view: object) -> bytes:
    """Any view of this module as JSON: dataclasses and named tuples become objects, enums their values.

    Raises:
        TypeError: a value in the view has a type that views do not have.
    """
    return orjson.dumps(view, default=_plain)


def service_json(view: object) -> Any:
    """The same as values that JSON can hold: objects, lists, strings and numbers.

    Raises:
        TypeError: as `render`.
    """
    return orjson.loads(render(view))


def _plain(value: object) -> object:
    """Convert types that orjson does not know."""
    names = getattr(value, "_fields", None)
    if names is not None:
        return {name: getattr(value, name) for name in names}
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset):
        return sorted(value)
    raise TypeError(f"{type(value).__name__} is no part of a view")


__all__ = [
    "CURRENT",
    "EXTERNAL",
    "MOST_FLOWS",
    "MOST_NAMED",
    "MOST_TOPICS",
    "OURS",
    "SEVERITIES",
    "STATES",
    "UNKNOWN",
    "ClusterSeverity",
    "ClusterSituation",
    "ControllerView",
    "ControllersView",
    "FleetRow",
    "FleetView",
    "FlowView",
    "KeptBrokerView",
    "KeptClusterView",
    "KeptConditionView",
    "KeptProposalView",
    "MoveView",
    "MovesView",
    "OrderPreview",
    "PartitionView",
    "PartitionsPage",
    "TimelineView",
    "TopicGist",
    "TopicsPage",
    "render",
    "service_json",
]
