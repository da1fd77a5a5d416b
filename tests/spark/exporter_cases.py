"""Exporters whose truth is known: what each partition gets in each second, and answers of Prometheus that report it.

A case is one cluster, made from its seed alone. Answers of many cases share files, so that one job of Spark reads them.
The truth is plain Python over the made world, and knows nothing of how the pipeline reads answers: an amount in a row must
be what the world wrote in exactly that time, and time in which an answer has everything that is needed must have a rate.
"""

from __future__ import annotations

import itertools
import json
import math
import random
from dataclasses import dataclass, field

T0 = 1_738_368_000
BYTES, READS = 100, 3
"""Bytes of a message, and how often consumers read each."""
LONG = 3
"""A distance of more than so many steps is a gap."""
NAMES = {
    "total": "kafka_server_brokertopicmetrics_{}_total",
    "count": "kafka_server_brokertopicmetrics_{}persec_count",
    "count_total": "kafka_server_BrokerTopicMetrics_{}_count_total",
    "attribute": "kafka_server_BrokerTopicMetrics_Count",
}
ATTRIBUTES = {"bytesin": "BytesInPerSec", "bytesout": "BytesOutPerSec", "messagesin": "MessagesInPerSec"}
LOGS = {"plain": "kafka_log_log_{}", "attribute": "kafka_log_Log_Value"}
LOG_ATTRIBUTES = {"size": "Size", "logendoffset": "LogEndOffset"}
POLICIES = ("delete", "delete", "compact", "compact,delete", None)
JUNK = ("NaN", "+Inf", "-Inf", "-1", "-12345", "")


@dataclass
class Case:
    """A cluster, what it gets, and how it is scraped. Times are seconds since T0."""

    seed: int
    rng: random.Random
    name: str
    brokers: list[int]
    topics: dict[str, int]
    replicas: dict[tuple[str, int], list[int]]
    rates: dict[tuple[str, int], list[int]]
    """Messages a second, by slots of `slot` seconds."""
    slot: int
    length: int
    changes: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    """When another replica becomes leader, and which."""
    restarts: dict[int, int] = field(default_factory=dict)
    """When a broker was restarted: its counters begin at 0."""
    base: dict[int, int] = field(default_factory=dict)
    tells_leaders: bool = True
    snapshots: list[int] = field(default_factory=list)
    answers: list[list[dict]] = field(default_factory=lambda: [[], [], []])
    grids: list[tuple[int, list[int], tuple]] = field(default_factory=list)
    """Answer, the times that a server has, and its labels."""
    aside: dict[str, int] = field(default_factory=dict)
    """Rows that have to be put aside, by rule, where their number is known."""
    notes: list[str] = field(default_factory=list)
    _sums: dict[tuple[str, int], list[int]] = field(default_factory=dict)

    def leader(self, key, at):
        since, other = self.changes.get(key, (math.inf, None))
        return other if at >= since else self.replicas[key][0]

    def written(self, key, since, until):
        """Messages of a partition in a time."""
        return self._so_far(key, until) - self._so_far(key, since)

    def _so_far(self, key, at):
        rates, sums = self.rates[key], self._sums.get(key)
        if sums is None:
            sums = self._sums[key] = [0, *itertools.accumulate(rate * self.slot for rate in rates)]
        whole = min(at // self.slot, len(rates) - 1)
        return sums[whole] + rates[whole] * (at - whole * self.slot)

    def led(self, key, broker, since, until):
        """Messages of a partition that came while a broker led it."""
        change = self.changes.get(key, (math.inf, None))[0]
        parts = [
            (since, min(until, change), self.replicas[key][0]),
            (max(since, change), until, self.leader(key, change)),
        ]
        return sum(self.written(key, int(a), int(b)) for a, b, leader in parts if a < b and leader == broker)

    def counter(self, topic, broker, at):
        """Messages that a broker counted of a topic since its start."""
        restart = self.restarts.get(broker)
        since, base = (restart, 0) if restart is not None and at >= restart else (0, self.base[broker])
        return base + sum(self.led(key, broker, since, at) for key in self.rates if key[0] == topic)

    def end_offset(self, key, at):
        return 1_000 + self.written(key, 0, at)

    def size(self, key, at):
        return BYTES * self.end_offset(key, at)


def made(seed):
    """One case, by its seed alone."""
    rng = random.Random(seed)
    brokers = list(range(1, rng.randrange(2, 5)))
    topics = {f"t{n}": rng.randrange(1, 4) for n in range(rng.randrange(1, 3))}
    keys = [(topic, number) for topic, count in topics.items() for number in range(count)]
    step = rng.choice([10, 15, 30, 60, 60, 60, 300])
    points = rng.randrange(6, 30)
    slot = rng.choice([1, 7, step])
    length = step * points
    # A counter that misses a scrape gives a mean over two steps: then the traffic is steady, so that the mean is the truth.
    case = Case(
        seed, rng, f"c{seed}", brokers, topics,
        {key: rng.sample(brokers, min(2, len(brokers))) for key in keys},
        {key: [rng.choice([0, rng.randrange(0, 40), rng.randrange(0, 4000)]) for _ in range(rng.choice([1, length // slot + 1]))] for key in keys},
        slot, length,
    )  # fmt: skip
    case.base = {broker: rng.choice([0, 10**6, 10**12]) for broker in brokers}
    for key in keys:
        if len(case.replicas[key]) > 1 and rng.random() < 0.15:
            case.changes[key] = rng.randrange(1, length), case.replicas[key][1]
    for broker in brokers:
        if rng.random() < 0.15:
            case.restarts[broker] = rng.randrange(1, length)
    case.tells_leaders = rng.random() < 0.75
    if not case.tells_leaders and rng.random() < 0.7:
        # A leader that snapshots name is taken for the leader before and after them too, so they frame a change.
        frame = {-step, length + step} if case.changes else set()
        case.snapshots = sorted(frame | set(rng.sample(range(-step, length + step), rng.randrange(1, 5))))
    _scrape(case, step)
    return case


def _scrape(case, step):
    """The servers' grids, with holes; then the series of each."""
    rng = case.rng
    first = rng.randrange(0, step)
    grid = list(range(first, case.length + 1, step))
    way = rng.choice(
        [
            "one",
            "one",
            "touching",
            "unaligned",
            "steps",
            "pair",
            "pair",
            "two servers",
            "same",
            "by metric",
            "jitter",
            "slower",
        ]
    )
    case.notes.append(way)
    cut = rng.randrange(1, max(2, len(grid) - 1))
    single = len(grid) < 6
    if way == "one" or single:
        parts = [(0, grid, ())]
    elif way == "touching":
        parts = [(0, grid[: cut + 1], ()), (1, grid[cut:], ())]
    elif way == "unaligned":
        later = rng.randrange(1, step)
        begin = max(0, cut - rng.randrange(0, 4))
        parts = [(0, grid[: cut + 1], ()), (1, [at + later for at in grid[begin:] if at + later <= case.length], ())]
    elif way == "steps":
        other = step * rng.choice([2, 5])
        parts = [(0, grid[: cut + 1], ()), (1, list(range(grid[cut], case.length + 1, other)), ())]
    elif way == "pair":
        parts = [(0, grid, (("prometheus_replica", "a"),)), (0, grid, (("prometheus_replica", "b"),))]
    elif way == "two servers":
        later = rng.randrange(1, step)
        parts = [(0, grid, ()), (1, [at + later for at in grid if at + later <= case.length], ())]
    elif way == "jitter":
        # Raw points of a range vector: scrapes are a little early or late.
        parts = [(0, [max(0, at + rng.randrange(-step // 10, step // 10 + 1)) for at in grid], ())]
    elif way == "slower":
        parts = [(0, [*grid[:cut], *range(grid[cut], case.length + 1, step * rng.choice([3, 5, 8]))], ())]
    else:
        parts = [(0, grid, ()), (1, grid, ())][: 1 + (way == "same")]
    for answer, times, labels in parts:
        kept = _with_holes(rng, times) if rng.random() < 0.5 else times
        if len(kept) > 1:
            case.grids.append((answer, kept, labels))
    style = {
        "names": rng.choice(list(NAMES)), "logs": rng.choice(list(LOGS)),
        "broker": rng.choice(["broker_id", "broker", "kafka_broker_id", "node_id", "instance"]),
        "cluster": rng.choice(["cluster_id", "kafka_cluster", "cluster"]),
        "reads": rng.random() < 0.6, "messages": rng.random() < 0.3, "junk": rng.random() < 0.25,
    }  # fmt: skip
    for answer, times, labels in case.grids:
        case.answers[answer] += _series(case, style, times, labels)
    _strangers(case, style)
    if way == "by metric":
        # Each metric was asked for by itself, on one grid.
        whole, case.answers[0] = case.answers[0], []
        for one in whole:
            name = (one["metric"]["__name__"] + one["metric"].get("name", "")).lower()
            case.answers[0 if "bytes" in name else 1 if "size" in name or "offset" in name else 2].append(one)
    for answer in case.answers:
        rng.shuffle(answer)


def _with_holes(rng, times):
    kept = list(times)
    for _ in range(rng.randrange(1, 3)):
        if len(kept) > 4:
            begin = rng.randrange(1, len(kept) - 1)
            del kept[begin : begin + rng.choice([1, 1, 2, 4, 6, 9])]
    return kept


def _labels(case, style, broker, extra=()):
    found = {style["cluster"]: case.name, "instance": f"kafka-{broker}:7071", "job": "kafka", **dict(extra)}
    if style["broker"] != "instance":
        found[style["broker"]] = str(broker)
    return found


def _named(names, attributes, style, metric):
    if style == "attribute":
        return {"__name__": names[style], "name": attributes[metric]}
    return {"__name__": names[style].format(metric)}


def _series(case, style, times, labels):
    """All series that one server has of a cluster."""
    found, rng = [], case.rng

    def add(metric, values):
        points = [[T0 + at, str(value)] for at, value in values]
        if style["junk"] and rng.random() < 0.2 and len(points) > 3:
            for at in rng.sample(range(1, len(points)), rng.randrange(1, 3)):
                # The scrape was good, and this series alone has a value that can't be.
                points.insert(at, [points[at][0] - 0.5, rng.choice(JUNK)])
            case.aside["not_a_number"] = case.aside.get("not_a_number", 0) + 1
        found.append({"metric": metric, "values": points})

    metrics = {
        "bytesin": BYTES,
        **({"bytesout": BYTES * READS} if style["reads"] else {}),
        **({"messagesin": 1} if style["messages"] else {}),
    }
    for broker, topic in itertools.product(case.brokers, case.topics):
        if not any(broker in case.replicas[key] for key in case.rates if key[0] == topic):
            continue
        for metric, factor in metrics.items():
            named = _named(NAMES, ATTRIBUTES, style["names"], metric)
            add(
                {**_labels(case, style, broker, labels), **named, "topic": topic},
                [(at, factor * case.counter(topic, broker, at)) for at in times],
            )
    for topic, number in case.rates:
        for broker in case.replicas[topic, number]:
            of_log = {**_labels(case, style, broker, labels), "topic": topic, "partition": str(number)}
            for metric, value in (("size", case.size), ("logendoffset", case.end_offset)):
                named = _named(LOGS, LOG_ATTRIBUTES, style["logs"], metric)
                add({**of_log, **named}, [(at, value((topic, number), at)) for at in times])
            if case.tells_leaders:
                leads = [(at, 2 * (case.leader((topic, number), at) == broker)) for at in times]
                add({**of_log, "__name__": "kafka_cluster_partition_insyncreplicascount"}, leads)
    return found


def _strangers(case, style):
    """Series that stand for something else: they must change nothing, however great their values are."""
    rng = case.rng
    for answer, times, labels in case.grids[: rng.randrange(0, 3)]:
        add = case.answers[answer].append
        broker, topic = rng.choice(case.brokers), rng.choice(list(case.topics))
        here = _labels(case, style, broker, labels)
        wild = [[T0 + at, str(rng.randrange(0, 10**15))] for at in times]
        of_log = {**here, "topic": topic, "partition": str(rng.randrange(0, case.topics[topic]))}
        for what in rng.sample(["rate", "recorded", "instance", "future", "dir", "unknown"], rng.randrange(1, 4)):
            if what == "rate" and not case.restarts and style["names"] != "attribute":
                add(
                    {
                        "metric": {
                            **here,
                            "__name__": "kafka_server_brokertopicmetrics_bytesin_oneminuterate",
                            "topic": topic,
                        },
                        "values": wild,
                    }
                )
            elif what in ("recorded", "instance"):
                name = {"recorded": "topic:{}:rate5m", "instance": "instance:{}"}[what].format(
                    NAMES["total"].format("bytesin")
                )
                add({"metric": {**here, "__name__": name, "topic": topic}, "values": wild})
                case.aside["not_readable"] = case.aside.get("not_readable", 0) + 1
            elif what == "future":
                for metric in ("kafka_log_log_size", "kafka_log_log_logendoffset"):
                    add({"metric": {**of_log, "__name__": metric, "is_future": "true"}, "values": wild})
            elif what == "dir" and len(times) > 4 and broker in case.replicas[topic, int(of_log["partition"])]:
                late = rng.randrange(1, len(times))
                for metric in LOG_ATTRIBUTES:
                    named = _named(LOGS, LOG_ATTRIBUTES, style["logs"], metric)
                    copy = [[T0 + at, str(7 * n)] for n, at in enumerate(times[late:])]
                    add({"metric": {**of_log, **named, "log_dir": rng.choice(["/a", "/z"])}, "values": copy})
            elif what == "unknown":
                add({"metric": {**here, "__name__": "go_goroutines", "topic": topic}, "values": wild})
                case.aside["not_readable"] = case.aside.get("not_readable", 0) + 1


def answers_of(cases):
    """The text of each file."""
    for number in range(3):
        result = [one for case in cases for one in case.answers[number]]
        yield json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}})


def faults_of(case, rows):
    """What is wrong with the rows of a case, in words; nothing if all is as it should be.

    Args:
        rows: (topic, partition, broker, role, start, seconds, bytes in, bytes out, messages, size, rule), start in seconds
            since T0.
    """
    faults = []
    good = [row for row in rows if row[-1] is None]
    of_rule = {}
    for row in rows:
        if row[-1] is not None:
            of_rule[row[-1]] = of_rule.get(row[-1], 0) + 1
    faults += [
        f"{rule}: {of_rule.get(rule, 0)} rows put aside, not {case.aside.get(rule, 0)}"
        for rule in ("not_readable", "not_a_number", "unknown_broker", "not_a_time")
        if of_rule.get(rule, 0) != case.aside.get(rule, 0)
    ]
    if case.tells_leaders and of_rule.get("unknown_leader"):
        faults.append("rows put aside though it is known who leads")
    by_replica = {}
    for row in good:
        by_replica.setdefault((row[0], row[1], row[2]), []).append(row)
        faults += _wrong_amounts(case, row)
    for replica, held in by_replica.items():
        for before, after in itertools.pairwise(sorted(held, key=lambda row: row[4])):
            if before[4] + before[5] > after[4] + 1:
                faults.append(f"windows of {replica} overlap: {before[4:6]} and {after[4:6]}")
    for key in case.rates:
        missing = must_be_known(case, key) - _known(good, key)
        if missing:
            faults.append(f"{key} has no rate in {len(missing)} s, such as {min(missing)}")
    return faults


def _wrong_amounts(case, row):
    topic, number, broker, role, start, seconds, came, went, messages, size, _ = row
    key, end = (topic, number), start + seconds
    if (topic, number) not in case.rates:
        yield f"a partition that is not there: {key}"
        return
    if size is not None and size != case.size(key, end):
        yield f"size of {key} on {broker} at {end}: {size}, not {case.size(key, end)}"
    written = case.written(key, start, end)
    if messages is not None and abs(messages - written) > 1:
        yield f"messages of {key} on {broker} in {start}+{seconds}: {messages}, not {written}"
    if (came, went) == (None, None):
        return
    if role != "leader" or case.leader(key, start) != broker or case.leader(key, end) != broker:
        yield f"{key} on {broker} has bytes in {start}+{seconds} and does not lead: {role}"
    restart = case.restarts.get(broker, -1)
    others = [one for one in case.rates if one[0] == topic and case.leader(one, end) == broker]
    for amount, factor in ((came, BYTES), (went, BYTES * READS)):
        if amount is None:
            continue
        if start < restart <= end:
            # The part from before the restart is lost, and the rest is split by all messages of the window.
            total = factor * sum(case.written(one, restart, end) for one in others)
            if not 0 <= amount <= total + 1:
                yield f"bytes of {key} in {start}+{seconds} with a restart: {amount}, more than {total}"
        elif abs(amount - factor * written) > 1 + 1e-6 * factor * written:
            yield f"bytes of {key} on {broker} in {start}+{seconds}: {amount}, not {factor * written}"


def _known(rows, key):
    found = set()
    for topic, number, _, _, start, seconds, came, *_ in rows:
        if (topic, number) == key and came is not None:
            found |= set(range(round(start), round(start + seconds)))
    return found


def must_be_known(case, key):
    """Seconds in which one answer alone has everything that a rate needs.

    If several servers or answers are there, the moments around each begin and end of them may be lost.
    """
    if not case.tells_leaders and not _snapshots_tell(case, key[0]):
        return set()
    known, edges = set(), set()
    for _, times, _ in case.grids:
        for (before, after), step in zip(itertools.pairwise(times), _steps(times), strict=True):
            if after - before > LONG * step:
                edges |= {before, after}
            elif not _changes_in(case, key[0], before, after):
                known |= set(range(before, after))
        edges |= {times[0], times[-1]}
    if len(case.grids) > 1:
        longest = max(
            b - a
            for _, times, _ in case.grids
            for (a, b), step in zip(itertools.pairwise(times), _steps(times), strict=True)
            if b - a <= LONG * step
        )
        for edge in edges:
            known -= set(range(edge - 2 * longest, edge + 2 * longest))
        for at in [change for one, (change, _) in case.changes.items() if one[0] == key[0]]:
            known -= set(range(at - 2 * longest, at + 2 * longest))
    return known


def _steps(times):
    """The step at each distance: the shortest of some before it, or after it if that is longer."""
    distances = [after - before for before, after in itertools.pairwise(times)]
    if max(distances) <= LONG * min(distances):
        return [min(distances)] * len(distances)
    near = [[distances[max(0, at - 5) : at], distances[at + 1 : at + 6]] for at in range(len(distances))]
    return [max(min(side) for side in sides if side) for sides in near]


def _changes_in(case, topic, before, after):
    return any(before < at <= after for key, (at, _) in case.changes.items() if key[0] == topic)


def _snapshots_tell(case, topic):
    return bool(case.snapshots) and not any(key[0] == topic for key in case.changes)


def snapshot_rows(case):
    """Rows of `replicas` for the snapshots of a case.

    Retention keeps the newest messages of some topics. What compaction leaves of a log has nothing to do with its traffic.
    """
    rng = random.Random(case.seed)
    policies = {topic: rng.choice(POLICIES) for topic in case.topics}
    kept = {topic: rng.choice([None, 500, 5_000]) for topic in case.topics}
    for at, key in itertools.product(case.snapshots, case.rates):
        topic, policy, end = key[0], policies[key[0]], case.end_offset(key, max(0, at))
        start = 0 if kept[topic] is None else max(0, end - kept[topic])
        size = rng.randrange(0, 10**12) if policy and "compact" in policy else BYTES * (end - start)
        for broker in case.replicas[key]:
            yield case.name, T0 + at, topic, key[1], broker, case.leader(key, at) == broker, size, start, end, policy


def faults_of_snapshots(case, rows):
    """What is wrong with the samples between snapshots; as `faults_of`, with rows of (topic, partition, broker, start, seconds,
    bytes in, messages, rule, detail)."""
    policies = {row[2]: row[9] for row in snapshot_rows(case)}
    expected, left_out = {}, {"compacted": set(), "unknown_policy": set()}
    for (before, after), key in itertools.product(itertools.pairwise(case.snapshots), case.rates):
        messages, policy = case.written(key, max(0, before), max(0, after)), policies[key[0]]
        if messages and policy != "delete":
            left_out["compacted" if policy else "unknown_policy"].add(key[0])
        known = policy == "delete" or messages == 0
        for broker in case.replicas[key]:
            expected[*key, broker, before, after - before] = (BYTES * messages if known else None, messages)
    found = {row[:5]: row[5:7] for row in rows if row[7] is None}
    told = {row[7]: int(row[8].split(",")[0].removeprefix("topics: ")) for row in rows if row[7] is not None}
    wanted = {rule: len(topics) for rule, topics in left_out.items() if topics}
    faults = [f"snapshots: left out {told}, not {wanted}"] if told != wanted else []
    wrong = [key for key in expected if not _near(found.get(key), expected[key])]
    faults += [f"snapshots: {key} has {found.get(key)}, not {expected[key]}" for key in wrong]
    return faults + [f"snapshots: {key} is not there" for key in found if key not in expected]


def _near(found, expected):
    return found is not None and found[1] == expected[1] and (
        found[0] == expected[0] or (None not in (found[0], expected[0]) and abs(found[0] - expected[0]) <= 1e-9 * expected[0] + 1)
    )  # fmt: skip
