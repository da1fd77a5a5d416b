"""How one controller process stands, in a few figures: what the service's page shows of Shunter's controllers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import orjson

from shunter.errors import FormatError
from shunter.views.metrics import Cluster, Lag
from shunter.views.readiness import Readiness

MOST_TEXTS = 100
"""Sentences that are read of one controller; it has a handful."""


@dataclass(frozen=True, slots=True)
class ControllerStatus:
    """One process. Figures are 0 where it does not lead."""

    broker_id: int
    """The id under which it stands for the controllership."""
    active: bool
    """Whether it is the controller and has read the cluster."""
    ready: bool
    """Whether it leads or could take over."""
    told: tuple[str, ...]
    """What it does, or what is in its way, in sentences."""
    controller_epoch: int
    """The epoch of its last election; 0: it was never elected."""
    brokers: int
    """Live ones; itself is left out, though it is registered as one."""
    partitions: int
    moves: Mapping[str, int]
    """Reassignments by phase."""
    events_waiting: int
    """Events that it has not looked at yet."""
    oldest_event_s: float
    """The age of the oldest of these, in seconds."""
    decisions_waiting: int
    """Partitions and topics that wait for their slice."""
    unreachable_brokers: int
    lag_s: float
    """How late its event loop was at the last probe, in seconds."""
    worst_lag_s: float
    """How late it was at the worst within the last minute, or a little longer."""


def status_of(
    broker_id: int,
    stands: Readiness,
    cluster: Cluster,
    waiting: tuple[int, float, int],
    brokers: tuple[int, int],
    lag: Lag,
) -> ControllerStatus:
    """Put it together.

    Args:
        broker_id: Its own.
        stands: Whether it can do its work.
        cluster: What it leads.
        waiting: Events, the age of the oldest in seconds, and decisions.
        brokers: How many are live beside it, and to how many of these it has no connection.
        lag: `worst_s` is of the last minute.
    """
    events, oldest_s, decisions = waiting
    return ControllerStatus(
        broker_id=broker_id,
        active=cluster.active,
        ready=stands.ready,
        told=stands.lines,
        controller_epoch=cluster.controller_epoch,
        brokers=brokers[0],
        partitions=cluster.partitions,
        moves=cluster.moves,
        events_waiting=events,
        oldest_event_s=oldest_s,
        decisions_waiting=decisions,
        unreachable_brokers=brokers[1],
        lag_s=lag.last_s,
        worst_lag_s=lag.worst_s,
    )


def encode_status(status: ControllerStatus) -> bytes:
    """As JSON, an object with the fields of `ControllerStatus`."""
    return orjson.dumps(asdict(status))


def decode_status(raw: bytes, where: str) -> ControllerStatus:
    """Read what `encode_status` made. Fields that a later version added are left out.

    Raises:
        FormatError: it is no such object; `where` says what answered.
    """
    try:
        document = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise FormatError(where, f"answers with no JSON: is it `metrics_port` of a controller? {error}") from error
    if not isinstance(document, dict):
        raise FormatError(where, "answers with no object: is it `metrics_port` of a controller?")
    names = [field.name for field in fields(ControllerStatus)]
    lacking = [name for name in names if name not in document]
    if lacking:
        raise FormatError(where, f"tells no {lacking[0]}: is it `metrics_port` of a controller of this version?")
    return ControllerStatus(**{name: _read(where, name, document[name]) for name in names})


def _read(where: str, name: str, value: Any) -> Any:
    if name == "told" and isinstance(value, list) and all(isinstance(each, str) for each in value[:MOST_TEXTS]):
        return tuple(value[:MOST_TEXTS])
    if name == "moves" and isinstance(value, dict) and all(map(_count, value.values())):
        return dict(value)
    if name in ("active", "ready") and isinstance(value, bool):
        return value
    if name.endswith("_s") and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if name not in ("told", "moves", "active", "ready") and not name.endswith("_s") and _count(value):
        return value
    raise FormatError(where, f"{name} = {value!r} is none")


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
