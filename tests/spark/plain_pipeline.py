"""The pipeline once more in plain Python, for the property suite: lists, sets of seconds, loops. Shares no code with it.

`plain_cases.py` makes the cases: clusters whose every minute is known, and commands whose inputs report it.
"""

from __future__ import annotations

import itertools
import json

T0 = 1_738_368_000 + 23 * 3600 + 50 * 60
"""Ten minutes before midnight, so that cases cross it."""
MIDNIGHT = 600
"""In seconds since T0."""
PEAKS = {"p50": 0.50, "p95": 0.95, "p99": 0.99}
_DERIVED = "snapshots"


class Plain:
    """The contents that the lake must have after each command."""

    def __init__(self, worlds):
        self.worlds = {world.name: world for world in worlds}
        self.taken = set()
        self.batches = False
        """Whether there is any batch, even one with only rejected rows."""
        self.snapshots = {world.name: set() for world in worlds}
        self.windows = {}
        """(cluster, topic id or name, partition, broker, role) → [(start, seconds, (in, out, messages), size, source)]."""
        self.brokers = set()
        """(cluster, broker, start) of brokers' own samples."""
        self.let_go = False
        """Whether rows from before midnight were deleted."""
        self.frozen = {}
        """Hours at that deletion. A deleted row may have counted, and hidden amounts of a window after midnight."""
        self.reopened = False
        """Whether windows came after that. Then hours after midnight are made anew from the remaining rows."""

    def run(self, op):
        new = [(text, rows) for _, text, rows in op.files if text not in self.taken]
        self.batches |= bool(new)
        if op.refused:
            return
        self.taken |= {text for text, _ in new}
        if op.kind == "snapshots":
            self.take_snapshots([text for text, _ in new])
        elif op.kind == "stream":
            for _, rows in new:
                self.take_stream(rows, op.lateness)
        elif op.kind == "retain":
            self.retain()
        elif new:
            unique = dict(new)
            self.keep(row for rows in unique.values() for row in rows)
            self.brokers |= op.brokers

    def take_stream(self, batches, lateness):
        """Rows that come behind the newest window so far by more than the lateness are late."""
        watermark = None
        for rows in batches:
            kept = self.keep(row for row in rows if watermark is None or row[5] >= watermark - lateness)
            starts = [window[0] for window in kept] + ([] if watermark is None else [watermark])
            watermark = max(starts, default=None)

    def take_snapshots(self, texts):
        coming = {}
        for text in texts:
            head, *lines = [json.loads(line) for line in text.splitlines()]
            if len(lines) == head["partitions"]:
                coming.setdefault(head["cluster_id"], set()).add(head["taken_at_ms"] // 1000 - T0)
        for name, moments in coming.items():
            known, world = set(self.snapshots[name]), self.worlds[name]
            rows = []
            for a, b in itertools.pairwise(sorted(known | moments)):
                for topic, number in world.rates:
                    size = world.size((topic, number), b // 60)
                    amount = size - world.size((topic, number), a // 60)
                    now = world.holders((topic, number), b // 60)
                    for broker in set(world.holders((topic, number), a // 60)) & set(now):
                        # The time between two known snapshots that show this replica was counted when they came.
                        showed = [at for at in known if broker in world.holders((topic, number), at // 60)]
                        if showed and min(showed) <= a and b <= max(showed):
                            continue
                        role = "leader" if broker == now[0] else "follower"
                        key = (name, "id-" + topic, number, broker, role)
                        rows.append((*key, a, b - a, (amount, None, amount // 100), size, _DERIVED))
            self.keep(rows)
            self.snapshots[name] |= moments

    def keep(self, rows):
        """The windows that overlap no earlier batch's window and none of those already kept."""
        found, kept = {}, []
        for *key, start, seconds, amounts, size, source in rows:
            if not (self.let_go and start < MIDNIGHT):
                found.setdefault(tuple(key), set()).add((start, seconds, amounts, size, source))
        for key, windows in found.items():
            held = self.windows.setdefault(key, [])
            covered = {second for start, seconds, *_ in held for second in range(start, start + seconds)}
            for window in sorted(windows, key=lambda window: window[0]):
                seconds = set(range(window[0], window[0] + window[1]))
                if not seconds & covered:
                    covered |= seconds
                    held.append(window)
                    kept.append(window)
        self.reopened |= bool(kept)
        return kept

    def retain(self):
        """Roll up, then delete rows from before midnight, and all snapshots of that day but the last one."""
        self.frozen = self.all_hours()
        self.reopened = False
        if not self.batches:
            return
        self.let_go = True
        for windows in self.windows.values():
            windows[:] = [one for one in windows if one[0] >= MIDNIGHT]
        self.brokers = {one for one in self.brokers if one[2] >= MIDNIGHT}
        for name, moments in self.snapshots.items():
            last = max((at for at in moments if at < MIDNIGHT), default=None)
            self.snapshots[name] = {at for at in moments if at >= MIDNIGHT or at == last}

    def series(self):
        """Windows by replica and role. Names become ids if a snapshot has the id; hidden amounts are left out."""
        series, measured = {}, {}
        for key, windows in self.windows.items():
            series.setdefault(self.named(key), []).extend(windows)
        for key, windows in series.items():
            for start, seconds, amounts, _, source in windows:
                for at, amount in enumerate(amounts):
                    if source != _DERIVED and amount is not None:
                        measured.setdefault((*key[:4], at), set()).update(range(start, start + seconds))
        shown = {}
        for key, windows in series.items():
            for start, seconds, amounts, size, source in windows:
                during = set(range(start, start + seconds))
                hidden = [source == _DERIVED and measured.get((*key[:4], at), set()) & during for at in range(3)]
                told = tuple(None if one else amount for one, amount in zip(hidden, amounts, strict=True))
                shown.setdefault(key, []).append((start, seconds, told, size))
        return shown

    def named(self, key):
        """A key with the topic's id, if a snapshot has it."""
        cluster, topic, *rest = key
        return (cluster, "id-" + topic[5:] if topic.startswith("name:") and self.snapshots[cluster] else topic, *rest)

    def model(self):
        """Replica and role → figures."""
        return {key: figures(windows) for key, windows in self.series().items()}

    def hours(self):
        """Replica, role and hour → amounts, how many windows, size."""
        found = {}
        for key, windows in self.series().items():
            for window in windows:
                found.setdefault((*key, (T0 + window[0]) // 3600 * 3600 - T0), []).append(window)
        told = {}
        for key, windows in found.items():
            amounts = tuple(total(window[2][at] for window in windows) for at in range(3))
            told[key] = (*amounts, len(windows), last_size(windows))
        return told

    def all_hours(self):
        """As `hours`; those from before midnight, or all, are as they were when rows were deleted."""
        if not self.let_go:
            return self.hours()
        made_anew = self.hours() if self.reopened else {}
        frozen = {self.named(key): told for key, told in self.frozen.items() if key[-1] < MIDNIGHT or not self.reopened}
        return frozen | {key: told for key, told in made_anew.items() if key[-1] >= MIDNIGHT}

    def quality(self):
        """Cluster and day (0 or 1) → partitions, partitions with rates, share of their time that has a rate."""
        found, ends = {}, {}
        for (cluster, topic, number, _, role), windows in self.windows.items():
            for start, seconds, amounts, *_ in windows:
                day = cluster, int(start >= MIDNIGHT)
                name = topic.removeprefix("id-").removeprefix("name:"), number
                covered = found.setdefault(day, {}).setdefault(name, set())
                ends[day] = max(ends.get(day, start), start + seconds)
                if role != "follower" and amounts[:2] != (None, None):
                    covered |= set(range(start, start + seconds))
        for cluster, moments in self.snapshots.items():
            for at in moments:
                for name in self.worlds[cluster].rates:
                    found.setdefault((cluster, int(at >= MIDNIGHT)), {}).setdefault(name, set())
        told = {}
        for (cluster, day), partitions in found.items():
            newest = day == max(other for name, other in found if name == cluster)
            begun = MIDNIGHT if day else MIDNIGHT - 86_400
            passed = min(86_400, max(1, ends.get((cluster, day), begun) - begun)) if newest else 86_400
            measured = sum(map(len, partitions.values()))
            rated = sum(bool(covered) for covered in partitions.values())
            told[cluster, day] = (len(partitions), rated, min(1.0, measured / (passed * len(partitions))))
        return told

    def fleet(self, peak):
        """Partition → replicas, bytes in, bytes out, size (None without a snapshot)."""
        modelled, found = self.model(), {}
        for name, moments in self.snapshots.items():
            world = self.worlds[name]
            at = max(moments) // 60 if moments else None
            for topic, number in world.rates:
                of_it = [(name, f"{prefix}{topic}", number) for prefix in ("id-", "name:")]
                told = {key[3:]: one for key, one in modelled.items() if key[:3] in of_it}
                rates = tuple(leaders(told, way, peak) for way in ("in", "out"))
                if at is not None:
                    size = float(world.size((topic, number), at))
                    found[name, topic, number] = (world.holders((topic, number), at), *rates, size)
                elif told:
                    found[name, topic, number] = (sampled(told), *rates, None)
        return found


def leaders(told, way, peak):
    """A rate from a partition's leaders, each weighted by how long it led; if there are none, from its followers."""
    for role in ("leader", "follower"):
        shown = [one for (_, as_role), one in told.items() if as_role == role and one[f"{way}_{peak}"] is not None]
        rates = sorted((one[f"{way}_{peak}"], one["covered"]) for one in shown)
        if rates and peak == "mean":
            return sum(one[f"{way}_mean"] * one["covered"] for one in shown) / sum(one["covered"] for one in shown)
        for at, (rate, _) in enumerate(rates):
            if sum(windows for _, windows in rates[: at + 1]) >= PEAKS.get(peak, 1.0) * sum(
                windows for _, windows in rates
            ):
                return rate
    return None


def sampled(told):
    """Brokers by their samples: leaders before others, and within both the broker that was seen last first."""
    ranked = sorted((role != "leader", -one["last"], broker) for (broker, role), one in told.items())
    return list(dict.fromkeys(broker for *_, broker in ranked))


def total(amounts):
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if known else None


def last_size(windows):
    """The size at the end of the window that ends last."""
    sizes = [(start + seconds, size) for start, seconds, _, size in windows if size is not None]
    return max(sizes)[1] if sizes else None


def lasting(rates, share):
    """The lowest rate that is not exceeded in that share of the seconds."""
    passed = list(itertools.accumulate(seconds for _, seconds in rates))
    return next((rate for (rate, _), seen in zip(rates, passed, strict=True) if seen >= share * passed[-1]), None)


def figures(windows):
    """The model's row of one replica in one role."""
    of_amount = [[seconds for _, seconds, amounts, _ in windows if amounts[at] is not None] for at in range(3)]
    covered = max(map(sum, of_amount))
    span = max(start + seconds for start, seconds, *_ in windows) - min(start for start, *_ in windows)
    told = {
        "size": last_size(windows),
        "covered": covered,
        "coverage": min(1.0, covered / span),
        "windows": max(map(len, of_amount)),
        "last": max(start for start, *_ in windows),
    }
    for at, name in enumerate(("in", "out", "messages")):
        known = [(amounts[at], seconds) for _, seconds, amounts, _ in windows if amounts[at] is not None]
        rates = sorted((amount / seconds, seconds) for amount, seconds in known)
        seconds = sum(seconds for _, seconds in known)
        for label, share in PEAKS.items():
            told[f"{name}_{label}"] = lasting(rates, share)
        told[f"{name}_max"] = rates[-1][0] if rates else None
        told[f"{name}_mean"] = sum(amount for amount, _ in known) / seconds if known else None
    return told
