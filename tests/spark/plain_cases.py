"""Cases for the property suite: clusters whose every minute is known, and an order in which sources report it.

Each input comes with the rows that it means: (cluster, topic, partition, broker, role, start, seconds, (bytes in, bytes out,
messages), size, source), times in seconds since T0.
"""

from __future__ import annotations

import itertools
import json
import random
import struct
from dataclasses import dataclass, field

from plain_pipeline import T0

BROKERS = (1, 2, 3)
OUTAGE = 6
"""The steps of an outage, which the reader takes for a gap."""
NEVER = 10**9
"""A point that does not come."""


@dataclass
class World:
    """One cluster: what was written to each partition in each minute, in messages of 100 bytes; read three times as much."""

    name: str
    minutes: int
    topics: dict[str, int]
    """Partitions by topic."""
    rates: dict[tuple[str, int], list[int]]
    replicas: dict[tuple[str, int], list[int]]
    moved: dict[tuple[str, int], tuple[int, list[int]]] = field(default_factory=dict)
    """The minute from which a partition has other replicas, and these replicas."""

    def size(self, partition, minute):
        return 1_000 + 100 * self.written(partition, 0, minute)

    def written(self, partition, since, until):
        return sum(self.rates[partition][since:until])

    def holders(self, partition, minute):
        since, replicas = self.moved.get(partition, (self.minutes + 1, []))
        return replicas if minute >= since else self.replicas[partition]


@dataclass
class Op:
    """One command: its inputs, and what happens to it. `inside`: another command that runs while this one runs."""

    kind: str
    files: list[tuple[str, str, object]] = field(default_factory=list)
    """Name, content, and the rows that the content means."""
    world: World | None = None
    cluster: str | None = None
    """The option of that name."""
    many: bool = False
    crashes: bool = False
    twice: bool = False
    refused: bool = False
    """The command has the wrong options: no row is taken."""
    lateness: int = 0
    seconds: int = 0
    brokers: set[tuple[str, int, int]] = field(default_factory=set)
    inside: Op | None = None


def made(seed, *, most_ops=5):
    """Worlds and commands of one case."""
    rng = random.Random(seed)
    worlds = [made_world(rng, name) for name in ["yard", "other"][: rng.choice([1, 1, 2])]]
    ops = [
        op
        for world in worlds
        for op in (
            *snapshot_ops(rng, world), *table_ops(rng, world), *prometheus_ops(rng, world),
            *cruise_control_ops(rng, world), *stream_ops(rng, world),
        )
    ]  # fmt: skip
    rng.shuffle(ops)
    ops = ops[:most_ops]
    for op in ops:
        op.crashes, op.twice = rng.random() < 0.3, rng.random() < 0.2
    if len(ops) > 2 and rng.random() < 0.7:
        inner = ops.pop()
        inner.inside = None
        ops[-1].inside = inner
    if len(worlds) == 2:
        ops += mixed_ops(rng, worlds)
    for op in [op for op in ops if op.kind in TABLES and not op.many and op.inside is None]:
        if rng.random() < 0.15:
            wrong = Op(op.kind, op.files, op.world, cluster="elsewhere", refused=True)
            # A table without the column would be taken for the other cluster's.
            if op.cluster is None:
                ops.insert(rng.randrange(0, ops.index(op) + 1), wrong)
    for _ in range(rng.randrange(0, 3)):
        ops.insert(rng.randrange(1, len(ops) + 1), Op(rng.choice(["compact", "clean", "retain"])))
    return worlds, ops


TABLES = ("json", "csv", "parquet")


def made_world(rng, name):
    topics = {f"t{n}": rng.randrange(1, 3) for n in range(rng.randrange(1, 3))}
    keys = [(topic, number) for topic, count in topics.items() for number in range(count)]
    minutes = rng.randrange(6, 21)
    rates = {key: [rng.randrange(0, 50) for _ in range(minutes)] for key in keys}
    world = World(name, minutes, topics, rates, {key: rng.sample(BROKERS, 2) for key in keys})
    for key, (leader, follower) in world.replicas.items():
        if rng.random() < 0.3:
            third = next(broker for broker in BROKERS if broker not in (leader, follower))
            changed = rng.choice([[follower, leader], [leader, third]])
            world.moved[key] = (rng.randrange(1, minutes), changed)
    return world


def snapshot_ops(rng, world):
    """Snapshots at some minutes; some in two files, some cut off, some in one command with others."""
    moments = sorted(rng.sample(range(world.minutes + 1), rng.randrange(2, 5)))
    files = []
    for minute in moments:
        lines = snapshot(world, minute)
        name = f"{world.name}-{minute}"
        if rng.random() < 0.3:
            files.append((f"{name}-cut.jsonl", "".join(lines[: rng.randrange(1, len(lines))]), None))
        files.append((f"{name}.jsonl", "".join(lines), None))
        if rng.random() < 0.3:
            files.append((f"{name}-again.jsonl", "".join([lines[0], *reversed(lines[1:])]), None))
    rng.shuffle(files)
    cut = rng.randrange(0, len(files))
    return [Op("snapshots", part, world) for part in (files[:cut], files[cut:]) if part]


def snapshot(world, minute):
    every = {"version": 1, "cluster_id": world.name, "taken_at_ms": (T0 + 60 * minute) * 1000}
    brokers = [
        {"id": broker, "host": "h", "rack": f"r{broker}", "disk_total_bytes": 10**12, "disk_usable_bytes": 10**11}
        for broker in BROKERS
    ]
    lines = [{"kind": "cluster", **every, "brokers": brokers, "unanswered": [], "partitions": len(world.rates)}]
    for topic, number in world.rates:
        size, replicas = world.size((topic, number), minute), world.holders((topic, number), minute)
        lines.append(
            {
                "kind": "partition", **every, "topic": topic, "topic_id": f"id-{topic}", "partition": number,
                "replicas": replicas, "isr": replicas, "leader": replicas[0], "start_offset": 0,
                "end_offset": size // 100, "min_insync": 1, "cleanup_policy": "delete",
                "sizes": [{"broker": broker, "bytes": size} for broker in replicas],
            }
        )  # fmt: skip
    return [json.dumps(line) + "\n" for line in lines]


def windows(rng, world, source, *, odd=True):
    """Rows of one minute, and some of five minutes that overlap them; a quarter of the rows come twice."""
    rows = []
    for (topic, number), minutes in world.rates.items():
        first = rng.randrange(0, world.minutes)
        last = min(world.minutes, first + rng.randrange(1, 9))
        spans = [(60 * minute, 60, 100 * minutes[minute]) for minute in range(first, last)]
        if odd and rng.random() < 0.3:
            spans.append((60 * rng.randrange(0, world.minutes) + 30, 300, 777_000))
        for start, seconds, amount in spans:
            leader = world.holders((topic, number), start // 60)[0]
            size = None if source == "topic" else start
            key = (world.name, "name:" + topic, number, leader, "leader")
            rows.append((*key, start, seconds, (amount, 3 * amount, None), size, source))
    rows += rng.sample(rows, len(rows) // 4)
    rng.shuffle(rows)
    return rows


def as_object(row, *, start="s", cluster=True):
    """A row of a custom table."""
    name, topic, number, broker, role, begun, seconds, (came, went, _), size, _ = row
    told = {
        "topic": topic.removeprefix("name:"), "partition": number, "broker_id": broker, "role": role,
        "window_seconds": seconds, "bytes_in": came, "bytes_out": went, "size_bytes": size,
    }  # fmt: skip
    at = {"s": ("window_start", T0 + begun), "ms": ("window_start_ms", 1000 * (T0 + begun))}[start]
    return {**({"cluster_id": name} if cluster else {}), **told, at[0]: at[1]}


def as_table(rng, rows, kind, **how):
    objects = [as_object(row, **how) for row in rows]
    if kind != "csv":
        return "".join(json.dumps(one) + "\n" for one in objects)
    names = list(objects[0])
    rng.shuffle(names)
    return "".join(",".join(str(one[name]) for name in names) + "\n" for one in [dict(zip(names, names, strict=True)), *objects])  # fmt: skip


def table_ops(rng, world):
    """Custom tables: files with common windows, in several formats, with and without the cluster's name."""
    for at in range(rng.randrange(1, 4)):
        kind = rng.choice(TABLES)
        named = rng.random() < 0.3
        files = []
        for part in range(rng.randrange(1, 3)):
            rows = windows(rng, world, kind)
            text = as_table(
                rng, rows, kind, start=rng.choice(["s", "ms"]) if kind == "json" else "s", cluster=not named
            )
            files.append((f"{world.name}-table-{at}-{part}.{kind}", text, rows))
            if kind == "json":
                break
        yield Op(kind, files, world, cluster=world.name if named else None)


def mixed_ops(rng, worlds):
    """One file of two clusters: refused by default, taken if that is allowed."""
    rows = [row for world in worlds for row in windows(rng, world, "json")]
    file = ("mixed.json", as_table(rng, rows, "json"), rows)
    refused = [Op("json", [file], refused=True)] if rng.random() < 0.5 else []
    return [*refused, Op("json", [file], many=True)]


def stream_ops(rng, world):
    """One query's batches, with rows that come late."""
    if rng.random() < 0.5:
        return
    batches = [windows(rng, world, "topic", odd=False) for _ in range(rng.randrange(1, 3))]
    texts = [[json.dumps(as_object(row)) for row in rows] for rows in batches]
    yield Op("stream", [(f"{world.name}-stream", json.dumps(texts), batches)], world, lateness=60 * rng.randrange(0, 6))


def cruise_control_ops(rng, world):
    """Dumps of partition and broker samples."""
    if rng.random() < 0.5:
        return
    step = rng.choice([1, 2])
    first = rng.randrange(0, world.minutes)
    rows, records, brokers = [], [], set()
    for begun in range(first, min(world.minutes, first + 8 * step) - step + 1, step):
        end_ms, seconds = (T0 + 60 * (begun + step)) * 1000, 60 * step
        for topic, number in world.rates:
            broker = world.holders((topic, number), begun)[0]
            messages = world.written((topic, number), begun, begun + step)
            size = world.size((topic, number), begun + step)
            rates = (100 * messages / seconds / 1024, 300 * messages / seconds / 1024, 0, 0, messages / seconds, 0, 0)
            figures = (0.5, size / 2**20, *rates)
            records.append(struct.pack(">bi9dqi", 1, broker, *figures, end_ms, number) + topic.encode())
            key = (world.name, "name:" + topic, number, broker, "leader")
            amounts = (100 * messages, 300 * messages, messages)
            rows.append((*key, 60 * begun, seconds, amounts, size, "cruise_control"))
        for broker in rng.sample(BROKERS, 2):
            loads = (0.5, 4.0, 6.0, 10.0, 20.0, 30.0, 1.0, 2.0, 3.0, 0.9, 5.0, 0.0, 0.0)
            records.append(struct.pack(">bih1s13dq2i41d", 5, broker, 1, b"h", *loads, end_ms, 1, 2, *[2.5] * 41))
            brokers.add((world.name, broker, 60 * begun))
    if rows:
        text = json.dumps([record.hex() for record in records])
        yield Op("cruise-control", [(f"{world.name}-cc.parquet", text, rows)], world, cluster=world.name, seconds=60 * step, brokers=brokers)  # fmt: skip


def prometheus_ops(rng, world):
    """Answers of one server or of a pair, with outages, missed points and counters that are reset."""
    if rng.random() < 0.4:
        return
    first = rng.randrange(0, world.minutes)
    points = list(range(first, world.minutes + 1))
    if len(points) > OUTAGE + 3 and rng.random() < 0.4:
        gap = rng.randrange(1, len(points) - OUTAGE)
        points = [point for at, point in enumerate(points) if not gap < at < gap + OUTAGE]
    elif len(points) > 4 and not swaps(world) and rng.random() < 0.4:
        # Over two minutes with two leaders it is not known which leader received which bytes.
        points.pop(rng.randrange(1, len(points) - 1))
    if len(points) < 2:
        return
    reset = rng.choice([None, rng.choice(points)])
    # All but one of the topics may be read late, or never; a broker counts what it sends from the first time on.
    later = [point for point in points if point + 1 in points] or [NEVER]
    first_read = {topic: rng.choice([first, first, rng.choice(later), NEVER]) for topic in sorted(world.topics)[1:]}
    answers = [prometheus_answer(world, points, reset, first_read)]
    if rng.random() < 0.4:
        answers.append(prometheus_answer(world, points, reset, first_read, second_of_a_pair=True))
    if rng.random() < 0.5:
        answers = [list(itertools.chain(*answers))]
    files = []
    for at, result in enumerate(answers):
        rng.shuffle(result)
        text = json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}})
        rows = prometheus_rows(world, points, first_read) if at == 0 else []
        files.append((f"{world.name}-{at}.prometheus", text, rows))
    yield Op("prometheus", files, world, cluster=world.name)


def at_point(world, partition, point):
    """A point shows the minute that ends with it."""
    return world.holders(partition, max(0, point - 1))


def led_of(world, topic, broker, point):
    return {key for key in world.rates if key[0] == topic and at_point(world, key, point)[0] == broker}


def swaps(world):
    return any(since <= world.minutes and now[0] != world.replicas[key][0] for key, (since, now) in world.moved.items())


def prometheus_answer(world, points, reset, first_read, *, second_of_a_pair=False):
    found = []
    later = 30 if second_of_a_pair else 0

    def add(name, values, broker, **labels):
        pair = "b" if second_of_a_pair else "a"
        metric = {"__name__": name, "instance": f"kafka-{broker}:7071", "prometheus_replica": pair, **labels}
        # The second server begins later and ends earlier, so that the first has all that it has.
        shown = values[:-1] if second_of_a_pair else values
        if shown:
            told = [[T0 + 60 * point + later, str(value)] for point, value in shown]
            found.append({"metric": metric, "values": told})

    for broker, topic in itertools.product(BROKERS, world.topics):
        for measure, factor in (("bytesin", 100), ("bytesout", 300)):
            values, count = [], 10**7
            for before, point in itertools.pairwise([points[0], *points]):
                came = sum(
                    factor * world.written(key, minute, minute + 1)
                    for key in world.rates
                    if key[0] == topic
                    for minute in range(before, point)
                    if world.holders(key, minute)[0] == broker
                )
                count = came if point == reset and before != point else count + came
                values.append((point, count))
            if measure == "bytesout":
                values = [(point, count) for point, count in values if point >= first_read.get(topic, 0)]
            add(f"kafka_server_brokertopicmetrics_{measure}_total", values, broker, topic=topic)
    for topic, number in world.rates:
        labels = {"topic": topic, "partition": str(number)}
        for broker in BROKERS:
            shown = [point for point in points if broker in at_point(world, (topic, number), point)]
            if not shown:
                continue
            sizes = [(point, world.size((topic, number), point)) for point in shown]
            leads = [(point, 2 * (at_point(world, (topic, number), point)[0] == broker)) for point in shown]
            add("kafka_log_log_size", sizes, broker, **labels)
            add("kafka_log_log_logendoffset", [(point, size // 100) for point, size in sizes], broker, **labels)
            add("kafka_cluster_partition_insyncreplicascount", leads, broker, **labels)
    return found


def prometheus_rows(world, points, first_read):
    rows = []
    for (topic, number), broker in itertools.product(world.rates, BROKERS):
        shown = [point for point in points if broker in at_point(world, (topic, number), point)]
        steps = [after - before for before, after in itertools.pairwise(shown)]
        for before, point in itertools.pairwise(shown):
            seconds, gap = 60 * (point - before), point - before > 3 * min(steps)
            led = at_point(world, (topic, number), point)[0] == broker
            messages = world.written((topic, number), before, point)
            # A broker counts by topic. If it led different partitions of the topic at the window's two ends, it is not
            # known which partition the bytes belong to.
            same = led_of(world, topic, broker, before) == led_of(world, topic, broker, point)
            begins = first_read.get(topic, 0)
            # Before the first read of a topic no bytes are sent. How much was read before the first point is not known.
            sent = 0 if point < begins else 300 * messages if point > begins else None
            amounts = (100 * messages, sent, messages) if led and same else (None, None, messages)
            if gap:
                seconds, amounts = 60 * min(steps), (None, None, None)
            key = (world.name, "name:" + topic, number, broker, "leader" if led else "follower")
            rows.append(
                (*key, 60 * point - seconds, seconds, amounts, world.size((topic, number), point), "prometheus")
            )
    return rows
