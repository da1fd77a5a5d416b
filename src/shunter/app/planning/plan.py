"""Plan from a file: read it, plan it, return Kafka's reassignment JSON and a summary. No JVM, no network."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from shunter.core.planning.balance import plan
from shunter.core.planning.bounds import Bound, byte_bound, joint_bound
from shunter.core.planning.cluster import ClusterLoad, Resource
from shunter.core.planning.explain import Summary, broker_changes, move_reasons, summarise
from shunter.core.planning.moves import BalancedPlan
from shunter.core.planning.request import BALANCING, EMPTYING, PlanRefused, PlanRequest, Scope
from shunter.core.planning.wishes import picked_wishes
from shunter.core.wording import counted, named, told_brokers
from shunter.errors import FormatError, SettingsError
from shunter.formats.plan_files import PlanInput, read_plan_input, write_moves, write_reassignment
from shunter.formats.topic_wishes import decode_wishes
from shunter.model.partition import BrokerId

SCOPES = tuple(scope.value for scope in Scope if scope is not Scope.FILLING_DISKS)
"""All scopes but FILLING_DISKS, which only the service can ask for, because only it has seen how sizes grow."""
FLEET_SCOPES = tuple(scope for scope in SCOPES if Scope(scope) not in {Scope.OFFLINE, Scope.TOPICS, Scope.DISKS})
"""Scopes that can be planned for many clusters at once."""
AIMS = {
    "disk": Resource.DISK,
    "bytes-in": Resource.BYTES_IN,
    "bytes-out": Resource.BYTES_OUT,
    "processors": Resource.PROCESSORS,
    "replicas": Resource.REPLICAS,
    "leaders": Resource.LEADERS,
    "leader-bytes-in": Resource.LEADER_BYTES_IN,
    "topics": None,
}
_UNBOUND = {Scope.DEMOTE, Scope.OFFLINE, Scope.TOPICS}
"""Scopes whose copies follow from the request, so that a lower bound would say nothing."""
DISKS = Scope.DISKS.value
"""The scope that moves replicas between log dirs of their brokers: `app/planning/disks.py` plans it."""
BOUNDS = ("bytes", "lp", "none")
_NAMED = 20
SIZE_BYTES = 1_024
"""Bytes in one unit of a plan's sizes, which are KiB, as in its input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanWords:
    """A planner's request in the units of the command line, for one cluster or many; shares are percents here."""

    scope: str = Scope.REBALANCE.value
    brokers: tuple[int, ...] = ()
    replacements: tuple[int, ...] = ()
    replication: int = 0
    topics: tuple[str, ...] = ()
    disk_limit_percent: float | None = None
    excluded_topics: tuple[str, ...] = ()
    excluded_brokers: tuple[int, ...] = ()
    band_percent: float = 10.0
    aims: tuple[str, ...] = ("disk", "bytes-in", "bytes-out", "processors", "replicas", "leaders", "leader-bytes-in")
    headroom_percent: float = 20.0
    max_replicas: int | None = None
    max_bytes_percent: float | None = None
    max_moves: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions(PlanWords):
    """The options of a plan, with those for a single cluster."""

    ignore_racks: bool = False
    bound: str = "bytes"
    wanted: Path | None = None
    """TOPICS: the file with the wanted state of each topic."""
    picked: tuple[str, ...] = ()
    """TOPICS: topics and partitions that were picked by hand, as `orders` and `orders-3`."""
    to: tuple[int, ...] = ()
    """TOPICS: the brokers that may hold `picked`."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A finished plan: Kafka's reassignment JSON, the summary, and the plan itself."""

    reassignment: bytes
    summary: Summary
    brokers: int
    racks: int
    partitions: int
    plan: BalancedPlan

    @property
    def for_apaches_tool(self) -> tuple[str, ...]:
        """What a person has to know who wants to carry the plan out by Apache's tool; (): nothing."""
        brokers, names = self.plan.beside_down()
        if not brokers:
            return ()
        which = counted(len(names), "partition keeps", "partitions keep")
        kept = f"{which} a replica on {told_brokers(brokers)}, which {'is' if len(brokers) == 1 else 'are'} down ({named(names, _NAMED)})"
        refusal = f'refuses a whole plan that names it ("Unknown broker id {brokers[0]}")'
        return (f"{kept}: Apache's tool {refusal}; `shunter execute` carries it out",)

    def to_json(self, notes: Sequence[str]) -> dict[str, Any]:
        """The documented shape. A bound of null: none was asked for, or no plan reaches all bands."""
        told = self.summary
        copies = (each._asdict() for each in move_reasons(self.plan))
        return {
            "event": "plan",
            "moves": told.moves,
            "bytes": round(told.bytes_moved * SIZE_BYTES),
            "bytes_percent": told.bytes_percent,
            "bound_percent": told.bound_percent,
            "bound_rests_on": told.bound_rests_on,
            "joint_bound_percent": told.joint_percent,
            "leader_changes": told.leader_changes,
            "copies": [{**each, "size": round(each["size"] * SIZE_BYTES)} for each in copies],
            "undone": told.undone,
            "notes": [*self.plan.notes, *notes],
        }


_BROKERS = (Scope.DRAIN, Scope.FILL, Scope.REPLACE, Scope.DEMOTE)
_OPTIONS: Mapping[str, tuple[str, tuple[Scope, ...], tuple[Scope, ...]]] = {
    "brokers": ("--brokers", _BROKERS, (*_BROKERS, Scope.DISKS)),
    "replacements": ("--replacements", (Scope.REPLACE,), (Scope.REPLACE,)),
    "replication": ("--replication", (Scope.CHANGE_REPLICATION,), (Scope.CHANGE_REPLICATION,)),
    "topics": ("--topics", (), (Scope.CHANGE_REPLICATION,)),
    "disk_limit_percent": ("--disk-limit-percent", EMPTYING, EMPTYING),
    "wanted": ("--wanted", (), (Scope.TOPICS,)),
    "picked": ("--partitions", (), (Scope.TOPICS,)),
    "to": ("--to", (), (Scope.TOPICS,)),
}
"""By field: its option, the scopes that need it, and those that have it."""
_DEFAULTS = {each.name: each.default for each in fields(PlanOptions)}


def see_options_fit(options: PlanWords) -> None:
    """Check that a request has the options that its scope needs, and none of another scope.

    Raises:
        SettingsError: it names the option.
    """
    scope = Scope(options.scope)
    for name, (option, needing, having) in _OPTIONS.items():
        given = getattr(options, name, _DEFAULTS[name]) != _DEFAULTS[name]
        if scope in needing and not given:
            raise SettingsError(f"--scope {scope.value} needs {option}")
        if given and scope not in having:
            raise SettingsError(f"{option} is for --scope {' or '.join(each.value for each in having)}")
    if isinstance(options, PlanOptions) and scope is Scope.TOPICS:
        by_hand = bool(options.picked), bool(options.to)
        if by_hand not in {(True, True), (False, False)} or all(by_hand) == (options.wanted is not None):
            raise SettingsError("--scope topics needs --wanted, or else --partitions with --to")


def plan_file(path: Path, options: PlanOptions) -> Planned:
    """Plan the cluster that a file describes.

    Raises:
        FormatError: The file can't be read or breaks a rule; the error names the row or key.
        PlanRefused: The request can't be served on this cluster.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise FormatError(str(path), f"can't be read: {error.strerror}") from None
    return plan_raw(raw, str(path), options)


def plan_raw(raw: bytes, place: str, options: PlanOptions, fenced: Collection[BrokerId] = ()) -> Planned:
    """Plan the cluster that a file's content describes.

    Args:
        raw: The content.
        place: The name of the content in errors.
        options: The options of the plan.
        fenced: Brokers that are registered and fenced, also those that the content leaves out, as they hold nothing.

    Raises:
        FormatError: the content breaks a rule; the error names the row or key.
        PlanRefused: the request can't be served on this cluster.
    """
    cluster = cluster_from(read_plan_input(raw, place, ignore_racks=options.ignore_racks))
    del raw
    request = replace(request_from(options), **_particulars(options, cluster))
    made = plan(cluster, request, {*fenced})
    return Planned(
        reassignment=write_reassignment(made.assignments(), made.elections()),
        summary=summarise(made, *_bounds(made, options.bound)),
        brokers=len(cluster.brokers),
        racks=len(cluster.racks),
        partitions=len(cluster.sizes),
        plan=made,
    )


def _particulars(options: PlanOptions, cluster: ClusterLoad) -> dict[str, Any]:
    """The fields of a request that `request_from` does not set: wishes from a file, or picked by hand."""
    if options.picked:
        names = map(cluster.topics.__getitem__, cluster.topic_of.tolist())
        known = set(zip(names, cluster.numbers.tolist(), strict=True))
        return {"wishes": picked_wishes(options.picked, options.to, known)}
    if options.wanted is None:
        return {}
    try:
        raw = options.wanted.read_bytes()
    except OSError as error:
        raise FormatError(str(options.wanted), f"can't be read: {error.strerror}") from None
    return {"wishes": decode_wishes(raw, str(options.wanted), cluster.topics)}


def cluster_from(found: PlanInput) -> ClusterLoad:
    """The planner's cluster, from a file's columns."""
    return ClusterLoad(**found._asdict())


def request_from(options: PlanWords) -> PlanRequest:
    """The planner's request, from options in the units of the command line."""
    unknown = sorted(set(options.aims) - set(AIMS))
    if unknown:
        raise PlanRefused(f"aim {unknown[0]!r} is unknown; known are {', '.join(AIMS)}")
    limit = options.disk_limit_percent
    return PlanRequest(
        scope=Scope(options.scope),
        brokers=options.brokers,
        replacements=options.replacements,
        replication=options.replication,
        topics=options.topics,
        disk_limit=None if limit is None else limit / 100,
        excluded_topics=options.excluded_topics,
        excluded_brokers=options.excluded_brokers,
        band=options.band_percent / 100,
        aims=tuple(aim for name in options.aims if (aim := AIMS[name]) is not None),
        spread_topics="topics" in options.aims,
        headroom=options.headroom_percent / 100,
        max_replicas=options.max_replicas,
        max_bytes_percent=options.max_bytes_percent,
        max_moves=options.max_moves,
    )


def _bounds(made: BalancedPlan, asked: str) -> tuple[Bound | None, Bound | None]:
    """The simple bound and, if it was asked for and is valid for the scope, the bound of the linear programme."""
    if asked == "none" or made.request.scope in _UNBOUND:
        return None, None
    simple = byte_bound(made.cluster, made.request, made.targets)
    if asked == "lp" and made.request.scope in BALANCING:
        return simple, joint_bound(made.cluster, made.targets)
    return simple, None


def write_explanation(made: Planned, path: Path) -> None:
    """Write each move with its reason, then each broker before and after, one JSON object per line.

    Raises:
        FormatError: The file can't be written.
    """
    rows: list[dict[str, Any]] = [{"row": "move", **move._asdict()} for move in move_reasons(made.plan)]
    for change in broker_changes(made.plan):
        loads = {name: {"before": before, "after": after} for name, before, after in change.loads}
        rows.append({"row": "broker", "broker": change.broker, "rack": change.rack, "loads": loads})
    rows += [{"row": "undone", "what": what, "why": why} for what, why in made.summary.undone]
    try:
        path.write_bytes(write_moves(rows))
    except OSError as error:
        raise FormatError(str(path), f"can't be written: {error.strerror}") from None


__all__ = [
    "AIMS",
    "BOUNDS",
    "DISKS",
    "FLEET_SCOPES",
    "SCOPES",
    "PlanOptions",
    "PlanWords",
    "Planned",
    "cluster_from",
    "plan_file",
    "plan_raw",
    "request_from",
    "see_options_fit",
    "write_explanation",
]
