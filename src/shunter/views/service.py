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
"""What a cluster's `state` can be. `standby`: another instance drives it. `starting`: it was not looked at yet."""


@dataclass(frozen=True, slots=True)
class ClusterHealth:
    """How the service stands with one cluster. `since_ms`: since when the state is what it is."""

    state: str = "starting"
    since_ms: int = 0
    trouble: str = ""
    """Why it is no better: what the cluster answered, or who drives it."""
    looked_at_ms: int | None = None
    """When it was looked at last with success."""
    journal_trouble: str = ""
    """Why nothing can be carried out though the cluster answers; "": it can."""


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
    """The greatest distance of a broker from the mean in bytes of replicas, a share: 0.2 is 20 %."""
    disk_used: float | None = None
    """The share in use on the fullest broker."""
    runway_days: float | None = None
    """Days until the first broker's disks are full at the growth that looks saw."""
    runway_why: str = ""
    """Why there is no `runway_days`."""
    conditions: int = 0
    moves_open: int = 0
    share: float | None = None
    """How much of what moves is done, 0 to 1."""
    left_ms: int | None = None
    proposals_waiting: int = 0
    paused: KillSwitch | None = None


@dataclass(frozen=True, slots=True)
class FleetView:
    """All clusters. `version` grows with every change of anything that the service shows."""

    version: int
    at_ms: int
    instance: str
    """Which process tells: host and process id."""
    clusters: tuple[FleetRow, ...]
    paused: KillSwitch | None = None
    """The kill switch of the whole fleet."""
    store_trouble: str = ""
    """What is wrong with the service's own store, and what that means; "": nothing."""
    policy_trouble: str = ""
    """Why the policy file as it is now is not in force; "": it is."""


@dataclass(frozen=True, slots=True)
class KeptBrokerView:
    """A broker. `disk_total` and `disk_usable` are of its log dirs (Kafka 3.3 on)."""

    id: int
    rack: str | None
    live: bool
    replica_bytes: int
    disk_total: int | None
    disk_usable: int | None
    replicas: int
    leaders: int
    """Partitions that it leads now."""
    preferred: int
    """Partitions that it is the preferred leader of."""
    offline: int
    """Replicas of it that are offline."""
    receives: int = 0
    """Open moves that bring something here."""
    gives: int = 0
    drained: bool = False
    demoted: bool = False
    frozen: bool = False
    replaced_by: int | None = None
    """The broker that takes its place."""
    added: bool = False
    """It is to get its share."""
    safe_to_remove: bool = False
    """It is drained or replaced and holds nothing, and nothing is on its way to it."""


@dataclass(frozen=True, slots=True)
class KeptConditionView:
    """A condition that holds, what it may do by the policy, and why nothing is done now."""

    condition: ConditionView
    mode: str
    why_no_action: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicGist:
    """A topic. `bytes`: of all its replicas."""

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
    """What the last look would plan, the most urgent first; those with an id are in the list of proposals."""
    intents: tuple[KeptIntent, ...] = ()
    """Those given to the service; those of the policy file are in `policy`."""
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
    """Up to when the rates are from by which bytes in and out and processors are judged; None: there are none."""
    rates_unused: str = ""
    """Why the load model of the lake is not used; "": it is, or the policy file names no lake."""


MOST_TOPICS = 200
MOST_NAMED = 100


@dataclass(frozen=True, slots=True)
class MoveView:
    """One move. `whose`: "ours" or "another's"; fields that another's move has no answer to are None or empty."""

    partition: str
    whose: str
    state: str
    """pending, moving, paused, or how it ended; of another's: moving."""
    direction: str
    original: tuple[int, ...]
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    target: tuple[int, ...]
    step: tuple[int, ...] | None
    """What the step under way wants."""
    steps: int
    """Steps that were begun, this one included."""
    total_bytes: int | None
    copied_bytes: int | None
    rollback_bytes: int | None
    waits: str
    stuck: str


@dataclass(frozen=True, slots=True)
class MovesView:
    """What moves in a cluster. The ETA is told for all of ours together: steps of one wait for those of others.

    `left_ms`, `low_ms`, `high_ms`: its middle and its interval of 80 %; where there is none, `why_no_eta` says why.
    """

    version: int
    at_ms: int
    proposal: str
    """The id of the proposal that is being carried out; "": none, or a plan that was handed in."""
    moves: tuple[MoveView, ...] = ()
    """Ours that are open, those of others, then ours that have ended in this execution."""
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
    """What a rollback of all that is open would copy, at most."""
    paused: KillSwitch | None = None
    silent_ms: int = 0
    """For how long the cluster has not answered the executor; 0: it does."""


@dataclass(frozen=True, slots=True)
class ControllerView:
    """One controller process of Shunter's."""

    url: str
    """Where it serves metrics, as the policy file names it."""
    status: ControllerStatus | None
    """None: it is not known how it stands."""
    trouble: str = ""
    """Why it is not known."""


@dataclass(frozen=True, slots=True)
class ControllersView:
    """Shunter's controllers of a cluster, in the order of the policy file; none: the file names none."""

    at_ms: int
    controllers: tuple[ControllerView, ...] = ()


@dataclass(frozen=True, slots=True)
class KeptProposalView:
    """A proposal with what it would cost. `wanted_votes`: how many people have to approve it."""

    proposal: KeptProposal
    wanted_votes: int
    least_ms: int | None = None
    """The least time that its copies take, at the throttle of the policy; None: there is no throttle to reckon with."""


@dataclass(frozen=True, slots=True)
class TimelineView:
    """What happened, the oldest first. `more`: there is more before the first of these."""

    version: int
    events: tuple[HistoryEvent, ...]
    more: bool = False


def render(view: object) -> bytes:
    """Any view of this module as JSON: dataclasses and named tuples become objects, enums their values.

    Raises:
        TypeError: something in it is no part of a view.
    """
    return orjson.dumps(view, default=_plain)


def service_json(view: object) -> Any:
    """The same as what JSON can hold: objects, lists, strings and numbers.

    Raises:
        TypeError: something in it is no part of a view.
    """
    return orjson.loads(render(view))


def _plain(value: object) -> object:
    """What orjson does not know by itself."""
    names = getattr(value, "_fields", None)
    if names is not None:
        return {name: getattr(value, name) for name in names}
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset):
        return sorted(value)
    raise TypeError(f"{type(value).__name__} is no part of a view")
