"""When an execution ends. A move that is paused, or waits for a broker, has a reason instead of an estimated end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import sqrt
from typing import NamedTuple

from shunter.core.executor.estimates.eta import (
    MODEL_ERROR,
    NORMAL_80,
    Estimate,
    bytes_left,
    estimate,
    estimate_within,
    placing_left,
    size_unknown,
)
from shunter.core.executor.estimates.rates import Meter
from shunter.core.executor.foresight.hold_ups import way_out
from shunter.core.executor.foresight.stuck import stuck
from shunter.core.executor.state import ExecutorState, Move
from shunter.core.executor.throttling.debts import is_down, told_debts
from shunter.core.executor.waits import DOUBTED, ENDLESS
from shunter.core.throttles import FOLLOWER_RATE, LEADER_RATE, LOWEST_RATE, is_listed, told_rates
from shunter.core.wording import counted
from shunter.model.execution import Direction, ThrottleKey
from shunter.model.inventory import OF_USE_BYTES_PER_S
from shunter.model.partition import TopicPartition

COUNTED = 200
"""The pace is taken from this many of the moves that ended last, if there are no bytes to estimate the end by."""
FEWEST_ENDED = 5
LEAST_MS = 3_000
SOON_MS = 1_000
STILL_MS = 30_000
"""If no byte was copied for this long (and longer, under a low throttle), an estimate from former bytes would be wrong."""
FETCH_BYTES = 2**20
"""The bytes of one partition in one fetch, by default (`replica.fetch.max.bytes`); one passes under any throttle."""
DOUBTED_MS = 5_000
"""A step that has ended is gone from the list before metadata show its end, for less than this."""
FETCHES = 3
"""This many fetches' time without a byte is longer than a throttle explains."""


class Ending(NamedTuple):
    """The estimated end of the moves that go on (None: unknown), and the reasons that hold the others."""

    estimate: Estimate | None
    held: str


def when_it_ends(state: ExecutorState, meter: Meter, now_ms: int, others: Mapping[ThrottleKey, int]) -> Ending:
    """Say when an execution ends.

    Args:
        state: The executor's state.
        meter: Samples of the bytes that were copied lately.
        now_ms: The time.
        others: Rates of other tools' throttles that hold in place of this executor's, bytes per second.
    """
    opened = state.open_moves()
    if not opened:
        return Ending(None, _told_throttles(state))
    going: list[Move] = []
    reasons: Counter[str] = Counter()
    slow: Counter[str] = Counter()
    doubted = 0
    blocked: dict[str, list[tuple[TopicPartition, str]]] = {}
    for move in opened:
        why = None if move.paused else stuck(state, move)
        if why is not None:
            blocked.setdefault(why.replace(str(move.tp), "it"), []).append((move.tp, way_out(state, move)))
        elif move.paused or move.waits.kind in ENDLESS:
            reasons["paused until `shunter resume`" if move.paused else move.waits.told] += 1
        elif move.waits is DOUBTED and move.status.doubted_ms(now_ms) >= DOUBTED_MS:
            doubted += 1
        elif rates := _slow_rates(state, meter, move, others):
            slow[rates] += 1
        else:
            going.append(move)
    held = "; ".join(
        [
            *(f"{many} {why}" for why, many in reasons.most_common(3)),
            *(f"{many} at somebody's rate, which others may share ({rates})" for rates, many in slow.most_common(1)),
            *([f"{doubted} whose step no longer runs: somebody may have cancelled it"] if doubted else []),
            *_told_blocked(blocked),
        ]
    )
    if not going:
        return Ending(None, f"{'end unknown' if slow or doubted else 'no end'}: {held}")
    if state.cluster.silent_since_ms is not None:
        return Ending(None, "the cluster does not answer")
    if all(move.direction is not Direction.FORWARD and not _left(state, meter, move) for move in going):
        # How fast moves ended that copied says nothing about these.
        return Ending(None, "; ".join(told for told in ("nothing is left to copy", held) if told))
    if unsized := sum(size_unknown(state, move) for move in going):
        told = f"end unknown: the size of {counted(unsized, 'move')} is not known yet"
        return Ending(None, "; ".join(filter(None, (told, held))))
    found = _estimate(state, meter, going, now_ms, others)
    counts_bytes = found is not None and found.remaining_bytes > 0
    if counts_bytes and (still_ms := _standing_still_ms(state, meter, others)) is not None:
        still = f"end unknown: nothing was copied for {still_ms // 1000} s"
        return Ending(None, "; ".join(told for told in (still, held) if told))
    if any(sum(placing_left(state, move).values()) for move in going):
        within = estimate_within(state, meter, going)
        waits = found is None and any(sum(bytes_left(state, move, meter.present).values()) for move in going)
        if within is None or waits:
            return Ending(None, held)
        return Ending(within if found is None else _together(found, within), held)
    if found is not None and found.left_ms < SOON_MS:
        late = "the end is overdue" if counts_bytes else "the last copies are about to be in sync"
        return Ending(None, "; ".join(told for told in (late, held) if told))
    return Ending(found, held)


def _slow_rates(state: ExecutorState, meter: Meter, move: Move, others: Mapping[ThrottleKey, int]) -> str:
    """Others' rates that hold copies of a move to less than is of use, in words; "": none does.

    Nobody knows how fast such copies are: whatever else that rate holds takes its part, and fetches come in bursts.
    """
    seen = state.cluster.partition(move.tp)
    copies = [broker for broker, left in bytes_left(state, move, meter.present).items() if left] if others else []
    keys = [ThrottleKey("broker", str(broker), FOLLOWER_RATE) for broker in copies]
    if state.limit is None:  # Under a limit its lists name every copy.
        keys = [key for key in keys if is_listed(state.others, move.tp, key)]
    if copies and seen is not None:
        keys.append(ThrottleKey("broker", str(seen.leader), LEADER_RATE))
    return told_rates({key: others[key] for key in keys if others.get(key, OF_USE_BYTES_PER_S) < OF_USE_BYTES_PER_S})


def _left(state: ExecutorState, meter: Meter, move: Move) -> int:
    """Bytes that a move has still to copy."""
    return sum(bytes_left(state, move, meter.present).values()) + sum(placing_left(state, move).values())


def _together(between: Estimate, within: Estimate) -> Estimate:
    """The end of copies between brokers and of those within brokers, which go on beside one another."""
    later = max(between, within, key=lambda each: each.left_ms)
    return later._replace(
        remaining_bytes=between.remaining_bytes + within.remaining_bytes,
        bytes_per_s=between.bytes_per_s + within.bytes_per_s,
    )


def _standing_still_ms(state: ExecutorState, meter: Meter, others: Mapping[ThrottleKey, int]) -> int | None:
    """For how long no byte was copied, if that is longer than pauses that a throttle explains; None: it is not."""
    points = meter.points()
    came = next((at for at in range(len(points) - 1, 0, -1) if points[at].bytes > points[at - 1].bytes), 0)
    begun_ms = min((move.step.begun_at_ms for move in state.stepping() if move.step is not None), default=0)
    still_ms = points[-1].at_ms - max(points[came].at_ms, begun_ms) if points else 0
    # A throttle lets a whole fetch through at once, and then nothing until the fetch is within its rate.
    rates = [*others.values(), *(() if state.limit is None else (state.limit,))]
    least_ms = FETCH_BYTES * 1000 / max(LOWEST_RATE, min(rates)) if rates else 0
    return still_ms if still_ms >= max(STILL_MS, FETCHES * least_ms) else None


def _told_throttles(state: ExecutorState) -> str:
    """The state of the throttles of an execution whose moves have ended, in words; "" if none are left."""
    down = [key for key in state.throttles if is_down(state, key)]
    told = [f"throttles of {told_debts(state.throttles.keys() - down)} are being given back"]
    told = told if len(down) < len(state.throttles) else []
    told += [f"throttles are owed to {told_debts(down)} until it is up"] if down else []
    return "; ".join(["all moves ended", *told]) if told else ""


def _told_blocked(reasons: Mapping[str, Sequence[tuple[TopicPartition, str]]]) -> Iterator[str]:
    """How many moves are stuck, and the reason that most of them have. Views read the number, so it stands last."""
    if not reasons:
        return
    many = sum(map(len, reasons.values()))
    why, moves = max(reasons.items(), key=lambda each: len(each[1]))
    most, (way, ended) = len(moves), Counter(way for _tp, way in moves).most_common(1)[0]
    first = "" if most == many else ", of which " + (f"{most} because" if most > 1 else "one because")
    of = f" (so for {ended} of them)" if ended < most else ""
    if most > 1:
        why = why.replace("it can", "they can", 1).replace("of its target", "of their targets", 1)
        why = why.replace("where it may", "where they may", 1)
    else:
        why = why.replace("where it may", f"where {moves[0][0]} may", 1)
    yield f"{many} stuck{first}: {why}; {way}{of}"


def _estimate(
    state: ExecutorState, meter: Meter, going: Sequence[Move], now_ms: int, others: Mapping[ThrottleKey, int]
) -> Estimate | None:
    by_bytes = estimate(state, meter, now_ms, moves=going, others=others)
    empty = sum(not any(bytes_left(state, move, meter.present).values()) for move in going if move.step is None)
    if by_bytes is not None and by_bytes.remaining_bytes > 0:
        by_count = estimate_by_count(state, empty, now_ms) if empty else None
        return by_bytes if by_count is None or by_count.left_ms < by_bytes.left_ms else by_count
    left = sum(sum(bytes_left(state, move, meter.present).values()) for move in going)
    by_count = None if left else estimate_by_count(state, len(going), now_ms)
    return by_bytes if by_count is None else by_count


def estimate_by_count(state: ExecutorState, left: int, now_ms: int) -> Estimate | None:
    """Estimate the end by how fast moves ended lately, for moves that copy almost nothing, or change only the order."""
    ended = sorted(move.ended.at_ms for move in state.moves.values() if move.ended is not None)[-COUNTED:]
    began = min((move.began_at_ms for move in state.moves.values() if move.began_at_ms is not None), default=now_ms)
    since = began if len(ended) < COUNTED else ended[0]
    if len(ended) < FEWEST_ENDED or now_ms - since < LEAST_MS:
        return None
    middle = left * (now_ms - since) / len(ended)
    share = min(0.9, sqrt((NORMAL_80 / sqrt(len(ended))) ** 2 + MODEL_ERROR**2))
    return Estimate(0, 0.0, int(middle), int(middle * (1 - share)), int(middle * (1 + share)))
