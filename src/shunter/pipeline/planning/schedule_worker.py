"""One cluster's schedule under one scenario: the planner's dispatcher, run with bandwidth, growth and past durations.

No Spark in here: a table of moves in, one row with nested tables out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from shunter.core.planning.cluster import ABSENT, Floats, Ints
from shunter.core.planning.request import PlanRefused
from shunter.core.planning.schedule import Bandwidth, Concurrency, Schedule, Transfers, expected_duration, schedule
from shunter.core.planning.week import HOURS, WorstHour, hour_name, quietest_start
from shunter.core.wording import counted

STRETCHES = 60
"""Into how many stretches the effect on brokers is cut."""
ASSUMED_RATE = 50e6
"""Bytes per second each way that a broker is assumed to spare for moves, if no rate was given and none was learnt."""
AS_PLANNED = "as planned"

_MOVE = pa.struct(
    [
        ("topic", pa.string()), ("partition", pa.int32()), ("source", pa.int32()), ("target", pa.int32()),
        ("bytes", pa.float64()), ("start", pa.float64()), ("end", pa.float64()),
    ]
)  # fmt: skip
_LOAD = pa.struct(
    [
        ("broker", pa.int32()), ("start", pa.float64()), ("end", pa.float64()), ("receives", pa.float64()), ("sends", pa.float64()),
    ]
)  # fmt: skip
RESULT = pa.schema(
    [
        ("cluster_id", pa.string()), ("plan_id", pa.string()), ("scenario", pa.string()), ("rate", pa.float64()),
        ("concurrency", pa.int32()), ("seconds_low", pa.float64()), ("seconds", pa.float64()), ("seconds_high", pa.float64()),
        ("bytes", pa.float64()), ("rests_on", pa.string()), ("warning", pa.string()), ("quiet_in_hours", pa.int32()), ("quiet_share", pa.float64()),
        ("now_share", pa.float64()), ("quiet", pa.string()), ("moves", pa.list_(_MOVE)),
        ("loads", pa.list_(_LOAD)),
    ]
)  # fmt: skip
RESULT_DDL = """
    cluster_id string, plan_id string, scenario string, rate double, concurrency int, seconds_low double, seconds double,
    seconds_high double, bytes double, rests_on string, warning string, quiet_in_hours int, quiet_share double, now_share double,
    quiet string,
    moves array<struct<topic: string, partition: int, source: int, target: int, bytes: double, start: double, end: double>>,
    loads array<struct<broker: int, start: double, end: double, receives: double, sends: double>>
"""


class Scenario(NamedTuple):
    """A what-if scenario: traffic times a factor, a broker lost (None: none)."""

    traffic: float = 1.0
    lost: int | None = None

    @property
    def name(self) -> str:
        """The scenario's name in tables and messages."""
        if self.lost is not None:
            return f"without broker {self.lost}"
        return AS_PLANNED if self.traffic == 1.0 else f"traffic x {self.traffic:g}"


@dataclass(frozen=True, slots=True)
class ScheduleOptions:
    """How moves run. `rate` is the throttle, `capacity` what a broker's network carries (bytes/s each way)."""

    scenarios: tuple[Scenario, ...] = (Scenario(),)
    rate: float | None = None
    capacity: float | None = None
    per_broker: int = 3
    total: int = 0
    past_ratios: tuple[float, ...] = ()
    """Real over planned duration of past plans."""
    learnt_rates: tuple[tuple[str, int, float], ...] = ()
    """(cluster, broker, bytes/s) that copies from or to a broker reached."""
    weeks: Mapping[tuple[str, int], tuple[Sequence[float], Sequence[float]]] = field(default_factory=dict)
    """By cluster and broker: what it receives and sends (bytes/s) in each of the 168 hours of a week."""
    hour: int = 0
    """The hour of the week now."""


def schedule_cluster(table: pa.Table, options: ScheduleOptions) -> list[dict[str, Any]]:
    """Schedule one cluster's moves under each scenario.

    Args:
        table: One row per copied replica: cluster_id, plan_id, topic, partition, source (the leader, null where unknown),
            other (another replica), target, bytes, growth (bytes/s appended), traffic_in and traffic_out (bytes/s that
            the target receives and the source sends already; null where unknown).
    """
    # Copies of one size are taken in the order in which they come, and Spark's rows come in any order.
    table = table.sort_by([(name, "ascending") for name in ("topic", "partition", "target")])
    return [_schedule_one(table, options, scenario) for scenario in options.scenarios]


def _schedule_one(table: pa.Table, options: ScheduleOptions, scenario: Scenario) -> dict[str, Any]:
    cluster_id, plan_id = table["cluster_id"][0].as_py(), table["plan_id"][0].as_py()
    moves, warning = _without_lost(_Moves.of(table), scenario)
    row: dict[str, Any] = {
        "cluster_id": cluster_id,
        "plan_id": plan_id,
        "scenario": scenario.name,
        "concurrency": options.per_broker,
    }
    brokers = np.unique(np.concatenate([moves.source[moves.source != ABSENT], moves.target]))
    bandwidth, rests_on = _bandwidth(cluster_id, brokers, moves, options, scenario)
    row |= {"rate": _least(bandwidth, options), "rests_on": rests_on}
    try:
        transfers = Transfers(
            np.where(moves.source == ABSENT, ABSENT, np.searchsorted(brokers, moves.source)),
            np.searchsorted(brokers, moves.target),
            moves.size,
            moves.growth * scenario.traffic,
        )
        planned = schedule(transfers, bandwidth, Concurrency(options.total, options.per_broker))
    except PlanRefused as error:
        return {**row, "warning": f"no schedule: {error}", "moves": [], "loads": []}
    if not np.isfinite(planned.makespan) or not np.isfinite(planned.end).all():
        slow = moves.name(int(np.argmax(~np.isfinite(planned.end))))
        stuck = f"{slow} grows faster than it is copied: raise the rate"
        return {
            **row,
            "warning": "; ".join(filter(None, [warning, stuck])),
            "moves": _told(moves, planned),
            "loads": [],
        }
    guess = expected_duration(planned, np.array(options.past_ratios) if options.past_ratios else None)
    return {
        **row,
        "seconds_low": guess.least,
        "seconds": guess.expected,
        "seconds_high": guess.most,
        "bytes": float((moves.size + moves.growth * scenario.traffic * (planned.end - planned.start)).sum()),
        "warning": warning,
        **_quiet(cluster_id, moves, planned, brokers, options, scenario),
        "moves": _told(moves, planned),
        "loads": _loads(moves, planned, brokers),
    }


@dataclass(frozen=True, slots=True)
class _Moves:
    topics: list[str]
    numbers: list[int]
    source: Ints
    other: Ints
    target: Ints
    size: Floats
    growth: Floats
    traffic_in: Floats
    traffic_out: Floats

    @classmethod
    def of(cls, table: pa.Table) -> _Moves:
        def whole(name: str) -> Ints:
            return np.asarray(table[name].fill_null(ABSENT).to_numpy()).astype(np.int64)

        def real(name: str, absent: float) -> Floats:
            return np.asarray(table[name].cast(pa.float64()).fill_null(absent).to_numpy())

        return cls(
            table["topic"].to_pylist(), table["partition"].to_pylist(), whole("source"), whole("other"), whole("target"),
            real("bytes", 0.0), real("growth", 0.0), real("traffic_in", np.nan), real("traffic_out", np.nan),
        )  # fmt: skip

    def name(self, at: int) -> str:
        return f"{self.topics[at]}-{self.numbers[at]}"

    def where(self, kept: Any) -> _Moves:
        at = np.flatnonzero(kept)
        return _Moves(
            [self.topics[one] for one in at], [self.numbers[one] for one in at], self.source[at], self.other[at],
            self.target[at], self.size[at], self.growth[at], self.traffic_in[at], self.traffic_out[at],
        )  # fmt: skip


def _without_lost(moves: _Moves, scenario: Scenario) -> tuple[_Moves, str | None]:
    """Leave out copies to a lost broker, and let another replica stand in for a lost source."""
    if scenario.lost is None:
        return moves, None
    waiting = moves.target == scenario.lost
    kept = moves.where(~waiting)
    kept = replace(kept, source=np.where(kept.source == scenario.lost, kept.other, kept.source))
    count = int(waiting.sum())
    return (
        kept,
        f"{counted(count, 'copy waits', 'copies wait')} until broker {scenario.lost} is back" if count else None,
    )


def _bandwidth(
    cluster_id: str, brokers: Ints, moves: _Moves, options: ScheduleOptions, scenario: Scenario
) -> tuple[Bandwidth, str]:
    learnt = {broker: rate for cluster, broker, rate in options.learnt_rates if cluster == cluster_id}
    if options.rate is not None:
        rates, rests_on = np.full(len(brokers), options.rate), f"a throttle of {_rate(options.rate)}"
    elif learnt:
        usual = float(np.median(list(learnt.values())))
        rates, rests_on = np.array([learnt.get(int(broker), usual) for broker in brokers]), "rates of past moves"
    else:
        rates, rests_on = (
            np.full(len(brokers), ASSUMED_RATE),
            f"an assumption of {ASSUMED_RATE:.0f} bytes/s: give --throttle",
        )
    sent, received = rates.copy(), rates.copy()
    if options.capacity is not None:
        rests_on += f", at most what traffic leaves of {_rate(options.capacity)}"
        for at, broker in enumerate(brokers):
            sent[at] = min(
                sent[at], options.capacity - scenario.traffic * _traffic(moves.source, moves.traffic_out, broker)
            )
            received[at] = min(
                received[at], options.capacity - scenario.traffic * _traffic(moves.target, moves.traffic_in, broker)
            )
    return Bandwidth(sent, received), rests_on


def _least(bandwidth: Bandwidth, options: ScheduleOptions) -> float:
    """The rate that all brokers have; if no copy is left to run, the rate that was asked for."""
    both = np.minimum(bandwidth.sent, bandwidth.received)
    return float(both.min()) if len(both) else options.rate or ASSUMED_RATE


def _traffic(who: Ints, traffic: Floats, broker: int) -> float:
    known = traffic[(who == broker) & np.isfinite(traffic)]
    return float(known.max(initial=0.0))


def _told(moves: _Moves, planned: Schedule) -> list[dict[str, Any]]:
    rows = zip(
        moves.topics, moves.numbers, moves.source.tolist(), moves.target.tolist(), moves.size.tolist(),
        planned.start.tolist(), planned.end.tolist(), strict=True,
    )  # fmt: skip
    return [
        {
            "topic": topic, "partition": number, "source": None if source == ABSENT else source, "target": target,
            "bytes": size, "start": start if np.isfinite(start) else None, "end": end if np.isfinite(end) else None,
        }
        for topic, number, source, target, size, start, end in rows
    ]  # fmt: skip


def _loads(moves: _Moves, planned: Schedule, brokers: Ints) -> list[dict[str, Any]]:
    """Mean rates by broker and stretch; a move's bytes are spread evenly over its time."""
    if not len(moves.size):
        return []
    edges = np.linspace(0.0, max(planned.makespan, 1e-9), STRETCHES + 1)
    rate = moves.size / np.maximum(planned.end - planned.start, 1e-9)
    overlap = np.clip(
        np.minimum(planned.end[:, None], edges[None, 1:]) - np.maximum(planned.start[:, None], edges[None, :-1]),
        0.0,
        None,
    )
    share = rate[:, None] * overlap / (edges[1] - edges[0])
    rows: list[dict[str, Any]] = []
    for broker in brokers.tolist():
        receives, sends = share[moves.target == broker].sum(axis=0), share[moves.source == broker].sum(axis=0)
        rows += [
            {"broker": broker, "start": float(edges[at]), "end": float(edges[at + 1]), "receives": float(receives[at]), "sends": float(sends[at])}
            for at in range(STRETCHES)
        ]  # fmt: skip
    return rows


def _quiet(
    cluster_id: str, moves: _Moves, planned: Schedule, brokers: Ints, options: ScheduleOptions, scenario: Scenario
) -> dict[str, Any]:
    """When the moves disturb least, and what it costs to begin now; empty if no broker's week is known."""
    ids = [int(broker) for broker in brokers]
    if not len(moves.size) or not any((cluster_id, broker) in options.weeks for broker in ids):
        return {}
    nothing = (np.zeros(HOURS), np.zeros(HOURS))
    known = [options.weeks.get((cluster_id, broker), nothing) for broker in ids]
    week = scenario.traffic * np.array([ways[way] for way in (0, 1) for ways in known])
    hours = np.arange(int(np.ceil(max(planned.makespan, 1.0) / 3_600)) + 1) * 3_600.0
    within = np.clip(
        np.minimum(planned.end[:, None], hours[None, 1:]) - np.maximum(planned.start[:, None], hours[None, :-1]),
        0.0,
        None,
    )
    added = (moves.size / np.maximum(planned.end - planned.start, 1e-9))[:, None] * within / 3_600
    ends = [moves.target == broker for broker in ids] + [moves.source == broker for broker in ids]
    copying = np.array([added[ours].sum(axis=0) for ours in ends])
    # Without a capacity all brokers are compared with one figure: an idle broker that receives copies is not a busy
    # one.
    busiest = float(week.max()) + _rate_of(options, planned, moves)
    limit = np.full(len(week), busiest if options.capacity is None else options.capacity)
    found = quietest_start(copying, week, limit, options.hour)
    of_what = (
        "of its capacity"
        if options.capacity is not None
        else "of the busiest broker's busiest hour with moves at their full rate"
    )

    def told(worst: WorstHour) -> str:
        way = "receives" if worst.row < len(ids) else "sends"
        return f"broker {ids[worst.row % len(ids)]} {way} {worst.share:.0%} {of_what} on {hour_name(worst.hour)}"

    if found.wait_hours:
        then = hour_name((options.hour + found.wait_hours) % HOURS)
        words = f"begun in {found.wait_hours} h ({then}) {told(found.then)} at most; begun now {told(found.now)}"
    else:
        words = f"no hour is quieter than this one: {told(found.now)} at most"
    return {
        "quiet_in_hours": found.wait_hours, "quiet_share": found.then.share, "now_share": found.now.share, "quiet": words,
    }  # fmt: skip


def _rate_of(options: ScheduleOptions, planned: Schedule, moves: _Moves) -> float:
    """The rate at which copies may come to or leave one broker: the given rate, else that of the fastest copy."""
    if options.rate is not None:
        return options.rate
    return float((moves.size / np.maximum(planned.end - planned.start, 1e-9)).max(initial=1.0))


def _rate(rate: float) -> str:
    return f"{rate / 1e6:,.6g} MB/s" if rate >= 1e6 else f"{rate:,.6g} bytes/s"
