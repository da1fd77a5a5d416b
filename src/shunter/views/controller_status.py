"""The status of one controller process in a few figures, for the service's page.

The page does not read the metrics for them: a scrape begins the worst lag anew, and would hide peaks from Prometheus.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import orjson

from shunter.errors import FormatError
from shunter.views.metrics import ClusterMetrics, Lag
from shunter.views.readiness import Readiness

MOST_TEXTS = 100
"""The most sentences that are read from one controller; it has a handful."""


@dataclass(frozen=True, slots=True)
class ControllerStatus:
    """One process. Figures about the cluster are 0 if the process does not lead."""

    broker_id: int
    """The id under which the process stands for the controllership."""
    active: bool
    """Whether it is the controller and has read the cluster."""
    ready: bool
    """Whether it leads or could take over."""
    told: tuple[str, ...]
    """Sentences about what it does, or what keeps it from that."""
    controller_epoch: int
    """The epoch of its last election; 0: it was never elected."""
    brokers: int
    """Live brokers, without the process itself, which is registered as a broker too."""
    partitions: int
    moves: Mapping[str, int]
    """Reassignments by phase."""
    events_waiting: int
    """Events that it has not handled yet."""
    oldest_event_s: float
    """The age of the oldest of these events, in seconds."""
    decisions_waiting: int
    """Partitions and topics that wait for their slice."""
    unreachable_brokers: int
    lag_s: float
    """How late its event loop was at the last probe, in seconds."""
    worst_lag_s: float
    """How late the loop was at worst within the last minute or a little longer, in seconds."""


def status_of(
    broker_id: int,
    stands: Readiness,
    cluster: ClusterMetrics,
    waiting: tuple[int, float, int],
    brokers: tuple[int, int],
    lag: Lag,
) -> ControllerStatus:
    """Make the status of this process.

    Args:
        broker_id: Its own id.
        stands: Whether it can do its work.
        cluster: The cluster that it leads.
        waiting: Numbers of waiting events, the age of the oldest event in seconds, and waiting decisions.
        brokers: How many other brokers are live, and to how many of these it has no connection.
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
    """The status as a JSON object with the fields of `ControllerStatus`."""
    return orjson.dumps(asdict(status))


def decode_status(raw: bytes, where: str) -> ControllerStatus:
    """Read what `encode_status` made. Fields that a later version added are left out.

    Raises:
        FormatError: it is not such an object; `where` names the address that answered.
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
        raise FormatError(where, f"does not report {lacking[0]}: is it `metrics_port` of a controller of this version?")
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
    raise FormatError(where, f"{name} = {value!r} is not such a figure")


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
