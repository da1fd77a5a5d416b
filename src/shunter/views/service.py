"""The service as people see it: the fleet, a cluster, its moves, proposals and history, for page, API and command line.

Times are milliseconds since 1970 UTC, durations milliseconds, sizes bytes. None means that it is not known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from shunter.model.service import HistoryEvent, KeptIntent, KeptProposal, KillSwitch
from shunter.views.controller_status import ControllerStatus
from shunter.views.keeper import ConditionView, ProposalView

STATES = ("starting", "ok", "standby", "unreachable")
"""The states of a cluster. `standby`: another instance drives it. `starting`: it was not looked at yet."""


@dataclass(frozen=True, slots=True)
class ClusterHealth:
    """How the service stands with one cluster. `since_ms`: when it came into this state."""

    state: str = "starting"
    since_ms: int = 0
    trouble: str = ""
    """Why the state is not ok: the cluster's error, or the instance that drives the cluster."""
    looked_at_ms: int | None = None
    """When the last successful look was."""
    journal_trouble: str = ""
    """Why no plan can be carried out although the cluster answers; "": plans can be carried out."""
    words: str = ""
    """Why intents, switch, proposals and votes live on this host alone, or are not known; "": they are with the cluster."""


@dataclass(frozen=True, slots=True)
class FleetRow:
    """One cluster of the fleet. Figures are of the last look that succeeded."""

    name: str
    cluster_id: str
    health: ClusterHealth
    brokers: int = 0
    brokers_down: tuple[int, ...] = ()
    """Brokers that hold replicas and are not live."""
    partitions: int = 0
    under_replicated: int = 0
    under_min_isr: int = 0
    offline: int = 0
    """Partitions without a leader."""
    balance: float | None = None
    """The greatest distance of a broker's bytes of replicas from the brokers' mean, as a share: 0.2 is 20 %."""
    disk_used: float | None = None
    """The share in use on the fullest broker."""
    runway_days: float | None = None
    """Days until the first broker's disks are full, at the growth between looks."""
    runway_why: str = ""
    """Why there is no `runway_days`."""
    conditions: int = 0
    moves_open: int = 0
    share: float | None = None
    """How much of the open execution is done, 0 to 1."""
    left_ms: int | None = None
    proposals_waiting: int = 0
    paused: KillSwitch | None = None


@dataclass(frozen=True, slots=True)
class FleetView:
    """All clusters. `version` grows with every change of anything that the service shows."""

    version: int
    at_ms: int
    instance: str
    """The process that made the view: host and process id."""
    clusters: tuple[FleetRow, ...]
    paused: KillSwitch | None = None
    """The kill switch of the whole fleet."""
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
    replica_bytes: int
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


@dataclass(frozen=True, slots=True)
class KeptConditionView:
    """A condition that holds, its mode by the policy, and why nothing is done now."""

    condition: ConditionView
    mode: str
    why_no_action: tuple[str, ...] = ()


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
class KeptClusterView:
    """One cluster at the last look that succeeded."""

    version: int
    row: FleetRow
    brokers: tuple[KeptBrokerView, ...] = ()
    conditions: tuple[KeptConditionView, ...] = ()
    prospects: tuple[ProposalView, ...] = ()
    """Plans that the last look would propose, the most urgent first; kept proposals are in the list of proposals."""
    intents: tuple[KeptIntent, ...] = ()
    """Intents that were given to the service; those of the policy file are in `policy`."""
    policy: dict[str, Any] | None = None
    """The policy file's table for this cluster, as it was read."""
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
    """Why the load model of the lake is not used; "": it is used, or the policy file does not name a lake."""


MOST_TOPICS = 200
MOST_NAMED = 100


@dataclass(frozen=True, slots=True)
class MoveView:
    """One move. `whose`: "ours" or "another's"; fields that are not known of another's move are None or empty."""

    partition: str
    whose: str
    state: str
    """pending, moving, paused, or how it ended; another's move: moving."""
    direction: str
    original: tuple[int, ...]
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
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


@dataclass(frozen=True, slots=True)
class MovesView:
    """The moves in a cluster. There is one ETA for all moves of this execution, because steps of one wait for others.

    `left_ms`, `low_ms`, `high_ms`: the ETA and its interval of 80 %; if there is none, `why_no_eta` says why.
    """

    version: int
    at_ms: int
    proposal: str
    """The id of the proposal that is being carried out; "": none, or a plan that was handed in."""
    moves: tuple[MoveView, ...] = ()
    """Open moves of this execution, moves of others, then moves that have ended in this execution."""
    total_bytes: int = 0
    copied_bytes: int = 0
    share: float = 0.0
    bytes_per_s: float | None = None
    limit: int | None = None
    left_ms: int | None = None
    low_ms: int | None = None
    high_ms: int | None = None
    why_no_eta: str = ""
    rollback_bytes: int = 0
    """The most that a rollback of all open moves would copy."""
    paused: KillSwitch | None = None
    silent_ms: int = 0
    """For how long the cluster has not answered the executor; 0: it answers."""


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


@dataclass(frozen=True, slots=True)
class TimelineView:
    """Events of the history, the oldest first. `more`: there are events before the first of these."""

    version: int
    events: tuple[HistoryEvent, ...]
    more: bool = False


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
