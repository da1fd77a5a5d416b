"""The pipeline once more in plain Python, for the property suite: lists, sets of seconds, loops. Shares no code with it.

Made cases: a cluster whose every minute is known, sources that tell of it in files, and an order in which those come.
"""

from __future__ import annotations

import itertools
import json
import math
import random
from dataclasses import dataclass, field

T0 = 1_738_368_000 + 23 * 3600 + 50 * 60
"""Ten minutes before midnight, so that cases cross it."""
BROKERS = (1, 2, 3)


@dataclass
class World:
    """One cluster: what was written to each partition in each minute, in messages of 100 bytes."""

    name: str
    minutes: int
    topics: dict[str, int]
    """Partitions by topic."""
    rates: dict[tuple[str, int], list[int]]
    replicas: dict[tuple[str, int], list[int]]

    def size(self, partition, minute):
        return 1_000 + 100 * sum(self.rates[partition][:minute])


@dataclass
class Op:
    """One command: what it reads, and what happens to it. `inside`: another one that runs while it is at work."""

    kind: str
    files: list[tuple[str, str]] = field(default_factory=list)
    crashes: bool = False
    twice: bool = False
    inside: Op | None = None


def made(seed, *, most_ops=8):
    """A world and the commands of one case."""
    rng = random.Random(seed)
    worlds = []
    for name in ["yard", "other"][: rng.choice([1, 1, 2])]:
        topics = {f"t{n}": rng.randrange(1, 3) for n in range(rng.randrange(1, 3))}
        keys = [(topic, number) for topic, count in topics.items() for number in range(count)]
        minutes = rng.randrange(6, 21)
        rates = {key: [rng.randrange(0, 50) for _ in range(minutes)] for key in keys}
        worlds.append(World(name, minutes, topics, rates, {key: rng.sample(BROKERS, 2) for key in keys}))
    ops = [op for world in worlds for op in (*snapshot_ops(rng, world), *table_ops(rng, world))]
    rng.shuffle(ops)
    # Both kinds come in every case.
    ops = sorted(ops[:most_ops], key=lambda _: rng.random())
    for op in ops:
        op.crashes, op.twice = rng.random() < 0.3, rng.random() < 0.2
    if len(ops) > 2 and rng.random() < 0.7:
        inner = ops.pop()
        ops[-1].inside = inner
        inner.inside = None
    for _ in range(rng.randrange(0, 3)):
        ops.insert(rng.randrange(1, len(ops) + 1), Op(rng.choice(["compact", "clean"])))
    return worlds, ops


def snapshot_ops(rng, world):
    """Snapshots at some minutes; some in two files, some cut off, some in one command with others."""
    moments = sorted(rng.sample(range(world.minutes + 1), rng.randrange(2, 5)))
    files = []
    for minute in moments:
        lines = snapshot(world, minute)
        name = f"{world.name}-{minute}"
        if rng.random() < 0.3:
            files.append((f"{name}-cut.jsonl", "".join(lines[: rng.randrange(1, len(lines))])))
        files.append((f"{name}.jsonl", "".join(lines)))
        if rng.random() < 0.3:
            files.append((f"{name}-again.jsonl", "".join([lines[0], *reversed(lines[1:])])))
    rng.shuffle(files)
    cut = rng.randrange(0, len(files))
    return [Op("snapshots", part) for part in (files[:cut], files[cut:]) if part]


def snapshot(world, minute):
    every = {"version": 1, "cluster_id": world.name, "taken_at_ms": (T0 + 60 * minute) * 1000}
    brokers = [
        {"id": broker, "host": "h", "rack": f"r{broker}", "disk_total_bytes": 10**12, "disk_usable_bytes": 10**11}
        for broker in BROKERS
    ]
    lines = [{"kind": "cluster", **every, "brokers": brokers, "unanswered": [], "partitions": len(world.rates)}]
    for (topic, number), replicas in world.replicas.items():
        size = world.size((topic, number), minute)
        lines.append(
            {
                "kind": "partition", **every, "topic": topic, "topic_id": f"id-{topic}", "partition": number,
                "replicas": replicas, "isr": replicas, "leader": replicas[0], "start_offset": 0,
                "end_offset": size // 100, "min_insync": 1,
                "sizes": [{"broker": broker, "bytes": size} for broker in replicas],
            }
        )  # fmt: skip
    return [json.dumps(line) + "\n" for line in lines]


def table_ops(rng, world):
    """Windows of a minute, and some of five that lie across them; files that have windows in common."""
    ops = []
    for at in range(rng.randrange(1, 4)):
        rows = []
        for (topic, number), minutes in world.rates.items():
            first = rng.randrange(0, world.minutes)
            last = min(world.minutes, first + rng.randrange(1, 9))
            rows += [(topic, number, 60 * minute, 60, 100 * minutes[minute]) for minute in range(first, last)]
            if rng.random() < 0.3:
                rows.append((topic, number, 60 * rng.randrange(0, world.minutes) + 30, 300, 777_000))
        rows += rng.sample(rows, len(rows) // 4)
        rng.shuffle(rows)
        text = "".join(
            json.dumps(
                {
                    "cluster_id": world.name, "topic": topic, "partition": number, "role": "leader",
                    "broker_id": world.replicas[topic, number][0], "window_start": T0 + start, "window_seconds": seconds,
                    "bytes_in": amount, "bytes_out": 3 * amount,
                }
            )
            + "\n"
            for topic, number, start, seconds, amount in rows
        )  # fmt: skip
        ops.append(Op("json", [(f"{world.name}-table-{at}.json", text)]))
    return ops


class Plain:
    """What the lake has to hold after each command."""

    def __init__(self, worlds):
        self.worlds = {world.name: world for world in worlds}
        self.taken = set()
        self.snapshots = {world.name: set() for world in worlds}
        self.windows = {}
        """(cluster, topic id or name, partition, broker, role) → [(start, seconds, in, out, size, source)]."""

    def run(self, op):
        new = [text for _, text in op.files if text not in self.taken]
        self.taken |= set(new)
        if op.kind == "json":
            rows = [json.loads(line) for text in dict.fromkeys(new) for line in text.splitlines()]
            found = {}
            for row in rows:
                key = (row["cluster_id"], "name:" + row["topic"], row["partition"], row["broker_id"], row["role"])
                window = (
                    row["window_start"] - T0,
                    row["window_seconds"],
                    row["bytes_in"],
                    row["bytes_out"],
                    None,
                    "json",
                )
                found.setdefault(key, set()).add(window)
            self.keep(found)
        elif op.kind == "snapshots":
            self.take_snapshots(new)

    def take_snapshots(self, texts):
        coming = {}
        for text in texts:
            head, *lines = [json.loads(line) for line in text.splitlines()]
            if len(lines) == head["partitions"]:
                coming.setdefault(head["cluster_id"], set()).add(head["taken_at_ms"] // 1000 - T0)
        for name, moments in coming.items():
            known, world = set(self.snapshots[name]), self.worlds[name]
            timeline = sorted(known | moments)
            found = {}
            for a, b in itertools.pairwise(timeline):
                if known and min(known) <= a and b <= max(known):
                    continue
                for (topic, number), replicas in world.replicas.items():
                    size = world.size((topic, number), b // 60)
                    amount = size - world.size((topic, number), a // 60)
                    for place, broker in enumerate(replicas):
                        key = (name, "id-" + topic, number, broker, "leader" if place == 0 else "follower")
                        found.setdefault(key, set()).add((a, b - a, amount, None, size, "snapshots"))
            self.keep(found)
            self.snapshots[name] |= moments

    def keep(self, found):
        for key, windows in found.items():
            held = self.windows.setdefault(key, [])
            covered = {second for start, seconds, *_ in held for second in range(start, start + seconds)}
            for window in sorted(windows, key=lambda window: window[0]):
                seconds = set(range(window[0], window[0] + window[1]))
                if not seconds & covered:
                    covered |= seconds
                    held.append(window)

    def model(self):
        """Replica and role → figures, names brought to ids where a snapshot has them."""
        series = {}
        for (cluster, topic, *rest), windows in self.windows.items():
            named = "id-" + topic[5:] if topic.startswith("name:") and self.snapshots[cluster] else topic
            series.setdefault((cluster, named, *rest), []).extend(windows)
        measured = {}
        for key, windows in series.items():
            for start, seconds, *_, source in windows:
                if source == "json":
                    measured.setdefault(key[:4], set()).update(range(start, start + seconds))
        return {key: figures(windows, measured.get(key[:4], set())) for key, windows in series.items() if windows}

    def fleet(self):
        """Partition → replicas, size and 95th percentiles, of clusters that have a snapshot."""
        modelled, found = self.model(), {}
        for name, moments in self.snapshots.items():
            world = self.worlds[name]
            for (topic, number), replicas in world.replicas.items() if moments else ():
                leader = modelled.get((name, "id-" + topic, number, replicas[0], "leader"), {})
                follower = modelled.get((name, "id-" + topic, number, replicas[1], "follower"), {})
                rate = leader.get("in_p95")
                found[name, topic, number] = (
                    replicas, float(world.size((topic, number), max(moments) // 60)),
                    follower.get("in_p95") if rate is None else rate, leader.get("out_p95"),
                )  # fmt: skip
        return found


def figures(windows, measured):
    rates = {"in": [], "out": []}
    amounts, times = {"in": 0, "out": 0}, {"in": 0, "out": 0}
    covered, sizes = 0, []
    for start, seconds, told_in, told_out, size, source in windows:
        hidden = source != "json" and measured & set(range(start, start + seconds))
        came, went = (None, None) if hidden else (told_in, told_out)
        if came is not None or went is not None:
            covered += seconds
        for name, amount in (("in", came), ("out", went)):
            if amount is not None:
                rates[name].append(amount / seconds)
                amounts[name] += amount
                times[name] += seconds
        if size is not None:
            sizes.append((start, size))
    span = max(start + seconds for start, seconds, *_ in windows) - min(start for start, *_ in windows)
    told = {"size": max(sizes)[1] if sizes else None, "coverage": min(1.0, covered / span), "windows": len(rates["in"])}
    for name, found in rates.items():
        found.sort()
        told[f"{name}_p95"] = found[math.ceil(len(found) * 0.95) - 1] if found else None
        told[f"{name}_max"] = found[-1] if found else None
        told[f"{name}_mean"] = amounts[name] / times[name] if found else None
    return told
