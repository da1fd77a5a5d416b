"""Replication throttles: which process sets one, which one removes it, and which settings a move needs.

A throttle is a rate at a broker (`RATES`) and a list of replicas at a topic (`LISTS`); Kafka slows down a copy whose
replica is listed and whose broker has a rate.

| set by | settings | removed by |
| --- | --- | --- |
| the executor (`core/executor/throttling/throttles.py`) | `desired_settings`, for every open move; journalled before | the executor, as soon as no move needs it, or the process that drives the journal next: `shunter resume` |
| `shunter kafka-reassign-partitions --execute --throttle` (`app/drop_in/throttles.py`) | `limited` and `log_dirs_limited`, as Apache's tool; keeps no record, as Apache's tool | its `--verify` and `--cancel`: `cleared` |
| another tool (Apache's), or a person | anything | `shunter throttles clear`: settings that are in no journal are deleted |

The controller sets no throttle, and `shunter submit` refuses one: nothing would take it away. A journalled setting is given back as it was, unless another tool changed it since:
then its new value stays. Another tool's value that throttles as much as Shunter's, or more, stays (`respectful`): it
may guard the brokers. Shunter's lists put its moves under such a rate, so dry runs, notices and the ETA name it (`told_lower`).
Without a throttle Shunter sets no list: then they name the rates that others' lists put its copies under
(`lower_anyway`, read by `core/executor/throttling/others.py`). Somebody's list `*` puts ordinary replication under Shunter's rate: `told_shared`.
Apache's tool overwrites it, and so does its drop-in. A plan knows which brokers others' throttles hold (`held_to`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from shunter.core.wording import named, told_brokers, told_bytes, told_rate
from shunter.model.execution import ThrottleKey
from shunter.model.inventory import OF_USE_BYTES_PER_S
from shunter.model.partition import BrokerId, Replicas, TopicPartition

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LOG_DIR_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"
CORDONED_LOG_DIRS = "cordoned.log.dirs"
"""No throttle, but a broker's setting that an execution changes by the same rules: journalled, and given back."""
ALL_LOG_DIRS = "*"
UNLIMITED = 2**63 - 1
"""Kafka's own value of a rate that is not set."""
RATES = (LEADER_RATE, FOLLOWER_RATE, LOG_DIR_RATE)
LISTS = (LEADER_REPLICAS, FOLLOWER_REPLICAS)


FETCH_BYTES = 10_485_760
"""The most that one fetch brings: Kafka's default of `replica.fetch.response.max.bytes`."""
QUOTA_S = 11
"""Kafka holds a fetch back while the rate of this long exceeds a throttle: `replication.quota.window.num` windows of 1 s."""
LOWEST_RATE = 1_048_576 / QUOTA_S
"""Bytes per second that pass under any throttle: in that time one fetch, of `replica.fetch.max.bytes` of a partition."""


def told_bursts(bytes_per_s: int | None) -> str:
    """That copies run ahead of a throttle at first; "": there is none.

    Measured on Kafka 4.4.0: at 400 kB/s 21 MB at once from two brokers, then 4.6 MB every 11.5 s; at 2 MB/s 46 MB within
    2 s into two brokers, and next to nothing in the ten seconds after that.
    """
    if bytes_per_s is None:
        return ""
    ahead = max(FETCH_BYTES, bytes_per_s * QUOTA_S)
    return (
        f"a throttle of {told_rate(bytes_per_s)} holds on average over {QUOTA_S} s: a broker may send and receive up to "
        f"{told_bytes(ahead)} at once at first, as fast as the network carries it; while the rate is used up, acks=all may "
        "wait for a replica that was just copied, where a step changes its leader (30 s at most, by replica.lag.time.max.ms)"
    )


class CopyEnds(NamedTuple):
    """The brokers that send a partition, and those that receive it."""

    sources: frozenset[BrokerId]
    destinations: frozenset[BrokerId]


def traffic_of(
    under_way: Mapping[TopicPartition, CopyEnds],
    proposed: Mapping[TopicPartition, Replicas],
    current: Mapping[TopicPartition, Replicas],
) -> dict[TopicPartition, CopyEnds]:
    """All movements that will run: those under way, and the proposed ones.

    Source: Apache Kafka 3.9, `ReassignPartitionsCommand.calculateProposedMoveMap`.
    """
    traffic = dict(under_way)
    for tp, replicas in proposed.items():
        sources = traffic[tp].sources if tp in traffic else frozenset(current[tp])
        traffic[tp] = CopyEnds(sources, frozenset(replicas) - sources)
    return traffic


def limited(traffic: Mapping[TopicPartition, CopyEnds], rate: int) -> dict[ThrottleKey, str]:
    """The settings that hold moves between brokers to a rate in bytes per second: topics first, then brokers.

    Source: Apache Kafka 3.9, `calculateLeaderThrottles`, `calculateFollowerThrottles`.
    """
    leaders: dict[str, set[str]] = {}
    followers: dict[str, set[str]] = {}
    for tp, (sources, destinations) in traffic.items():
        leaders.setdefault(tp.topic, set()).update(f"{tp.partition}:{broker}" for broker in sources)
        followers.setdefault(tp.topic, set()).update(f"{tp.partition}:{broker}" for broker in destinations - sources)
    wanted: dict[ThrottleKey, str] = {}
    for topic in sorted(leaders):
        wanted[ThrottleKey("topic", topic, LEADER_REPLICAS)] = ",".join(sorted(leaders[topic]))
        wanted[ThrottleKey("topic", topic, FOLLOWER_REPLICAS)] = ",".join(sorted(followers[topic]))
    for broker in sorted({broker for one in traffic.values() for broker in one.sources | one.destinations}):
        for setting in (LEADER_RATE, FOLLOWER_RATE):
            wanted[ThrottleKey("broker", str(broker), setting)] = str(rate)
    return wanted


def log_dirs_limited(brokers: Iterable[BrokerId], rate: int) -> dict[ThrottleKey, str]:
    """The settings that hold moves between log dirs of brokers to a rate in bytes per second."""
    return {ThrottleKey("broker", str(broker), LOG_DIR_RATE): str(rate) for broker in sorted(set(brokers))}


def settings_of(brokers: Iterable[BrokerId], topics: Iterable[str]) -> list[ThrottleKey]:
    """Every throttle that these brokers and topics can have."""
    keys = [ThrottleKey("topic", topic, setting) for topic in topics for setting in LISTS]
    return keys + [ThrottleKey("broker", str(broker), setting) for broker in brokers for setting in RATES]


def cleared(brokers: Iterable[BrokerId], topics: Iterable[str]) -> dict[ThrottleKey, str | None]:
    """The change that removes every throttle of these brokers and topics."""
    return dict.fromkeys(settings_of(brokers, topics))


def respectful(key: ThrottleKey, wanted: str, before: str | None, effective: str | None) -> str | None:
    """The value to set, given the values of others; None: leave their value, which throttles as wanted or more.

    Args:
        key: The setting.
        wanted: The value that Shunter would set if there were no other.
        before: The value at the resource itself before Shunter's.
        effective: The value in force before Shunter's, from wherever (a cluster-wide default, server.properties).
    """
    if key.setting in LISTS:
        if before is None or not before.strip():
            return wanted
        if before.strip() == "*":
            return None
        entries = [entry.strip() for entry in (before + "," + wanted).split(",") if entry.strip()]
        merged = ",".join(dict.fromkeys(entries))
        return None if merged == before else merged
    theirs = effective if before is None else before
    if key.setting == CORDONED_LOG_DIRS:
        return None if (theirs or "") == wanted else wanted
    if theirs is not None and theirs.strip().isdigit() and int(theirs) <= int(wanted):
        return None
    return wanted


def lower_than(
    wanted: Mapping[ThrottleKey, str],
    own: Mapping[ThrottleKey, str | None],
    effective: Mapping[ThrottleKey, str | None],
) -> dict[ThrottleKey, int]:
    """Others' rates that are lower than the wanted ones, bytes per second; arguments as for `respectful`."""
    theirs = {key: own.get(key) or effective.get(key) or "" for key in wanted if key.setting in RATES}
    return {key: int(rate) for key, rate in theirs.items() if rate.isdigit() and int(rate) < int(wanted[key])}


_SIDES = {LEADER_RATE: " (as leader)", FOLLOWER_RATE: " (as follower)"}
_RATE_OF = {LEADER_REPLICAS: LEADER_RATE, FOLLOWER_REPLICAS: FOLLOWER_RATE}


def of_live(settings: Mapping[ThrottleKey, str], live: Collection[BrokerId]) -> dict[ThrottleKey, str]:
    """The settings that can be asked for: a dead broker does not tell its own, and nothing is copied there."""
    return {key: value for key, value in settings.items() if key.kind != "broker" or int(key.name) in live}


def lower_anyway(
    wanted: Mapping[ThrottleKey, str],
    own: Mapping[ThrottleKey, str | None],
    effective: Mapping[ThrottleKey, str | None],
) -> dict[ThrottleKey, int]:
    """As `lower_than`, of copies without a throttle of ours: only rates hold whose replicas somebody's list names.

    `wanted`: the settings for `UNLIMITED`, so that its lists are the replicas that are copied.
    """
    found: set[ThrottleKey] = set()
    for key in wanted.keys() & own.keys():
        theirs = {entry.strip() for entry in (own[key] or "").split(",")}
        if key.setting in LISTS and theirs != {""}:
            entries = [entry for entry in wanted[key].split(",") if entry in theirs or "*" in theirs]
            found |= {ThrottleKey("broker", entry.partition(":")[2], _RATE_OF[key.setting]) for entry in entries}
    lower = lower_than(wanted, own, effective)
    return {key: rate for key, rate in lower.items() if key in found or key.setting == LOG_DIR_RATE}


def is_slow(rate: str | None) -> bool:
    """Whether a setting's value is a rate that holds a broker to less than is of use."""
    return rate is not None and rate.isdigit() and int(rate) < OF_USE_BYTES_PER_S


def is_listed(own: Mapping[ThrottleKey, str | None], tp: TopicPartition, rate: ThrottleKey) -> bool:
    """Whether somebody's list names a partition's replica on a broker, so that the broker's `rate` holds it.

    `own`: the topics' lists as they are.
    """
    replicas = LEADER_REPLICAS if rate.setting == LEADER_RATE else FOLLOWER_REPLICAS
    listed = own.get(ThrottleKey("topic", tp.topic, replicas)) or ""
    return not {"*", f"{tp.partition}:{rate.name}"}.isdisjoint(entry.strip() for entry in listed.split(","))


def held_to(
    rates: Mapping[BrokerId, Mapping[str, str | None]], lists: Iterable[Mapping[str, str | None]]
) -> dict[BrokerId, int]:
    """The lowest rate that holds each broker, bytes per second: it has the rate, and a list names replicas of it.

    Args:
        rates: By broker, its effective rates by setting.
        lists: Of each topic, its lists by setting.
    """
    listed: dict[str, set[str]] = {setting: set() for setting in LISTS}
    for of_topic in lists:
        for setting, found in listed.items():
            found.update(entry.rpartition(":")[2].strip() for entry in (of_topic.get(setting) or "").split(","))
    held = {
        broker: [
            int(value)
            for setting, rate in _RATE_OF.items()
            if (value := own.get(rate) or "").isdigit() and {"*", str(broker)} & listed[setting]
        ]
        for broker, own in rates.items()
    }
    return {broker: min(found) for broker, found in held.items() if found and min(found) < UNLIMITED}


def held_followers(broker: BrokerId, lists: Mapping[str, Mapping[str, str | None]]) -> tuple[str, ...]:
    """The partitions whose replica on a broker a list names as a throttled follower, `topic-0`, or `topic-*` for all.

    `lists`: by topic, its lists by setting.
    """
    entries = (
        (topic, entry.strip())
        for topic, own in lists.items()
        for entry in (own.get(FOLLOWER_REPLICAS) or "").split(",")
    )
    named = {(topic, entry.partition(":")) for topic, entry in entries}
    return tuple(sorted(f"{topic}-{which}" for topic, (which, _, on) in named if which == "*" or on == str(broker)))


def told_unknown_throttles(untold: Iterable[tuple[BrokerId, str]]) -> list[str]:
    """That it is not known of some brokers whether a throttle holds them, a sentence for each reason."""
    brokers: dict[str, list[BrokerId]] = {}
    for broker, why in untold:
        brokers.setdefault(why, []).append(broker)
    known = "is not known, so the plan takes it for none"
    return [f"whether a throttle holds {told_brokers(found)} {known}: {why}" for why, found in brokers.items()]


def shared_lists(wanted: Iterable[ThrottleKey], own: Mapping[ThrottleKey, str | None]) -> frozenset[str]:
    """Topics of which somebody's list names every replica, so that ordinary replication is under our rate too."""
    return frozenset(key.name for key in wanted if key.setting in LISTS and (own.get(key) or "").strip() == "*")


def told_shared(topics: Collection[str]) -> str:
    """A sentence about topics of which all replicas are listed, and the ways out; "": there are none."""
    if not topics:
        return ""
    which = f"topic{'s' if len(topics) > 1 else ''} {named(sorted(topics))} list{'' if len(topics) > 1 else 's'}"
    told = f"{which} all replicas as throttled (somebody's `*`): ordinary replication shares the limit"
    return f"{told}; `shunter throttles clear` takes it away, or give a higher limit"


def told_rates(lower: Mapping[ThrottleKey, int]) -> str:
    """Rates of brokers in words: `broker 1 to 10 B/s, broker 2 to 1.0 kB/s (as leader)`."""
    rates: dict[tuple[str, str], set[int]] = {}
    for key, rate in lower.items():
        rates.setdefault((key.kind, key.name), set()).add(rate)
    told = {
        f"{key.kind} {key.name} to {told_rate(rate)}{_SIDES.get(key.setting, '') if len(rates[key.kind, key.name]) > 1 else ''}"
        for key, rate in lower.items()
    }
    return named(sorted(told))


def told_lower(lower: Mapping[ThrottleKey, int], own: Mapping[ThrottleKey, str | None], *, limited: bool = True) -> str:
    """A sentence about others' lower rates, and how they are lifted; "": there are none. `limited`: we have one too."""
    if not lower:
        return ""
    ways = ["`shunter throttles clear` removes it"] if any(own.get(key) for key in lower) else []
    if not all(own.get(key) for key in lower):
        ways.append("a rate that is not set at the broker itself is in the cluster's default or in `server.properties`")
    less = ", less than ours" if limited else ""
    return f"somebody else's throttle holds {told_rates(lower)}{less}: it stays, and {', and '.join(ways)}"


def cordons_for(knowing: Mapping[BrokerId, bool]) -> tuple[tuple[tuple[BrokerId, str], ...], str]:
    """The settings that cordon brokers, and which of them can't be cordoned, in words; "": none of them.

    Args:
        knowing: By broker: whether it knows `cordoned.log.dirs` (KIP-1066).
    """
    ignorant = [str(broker) for broker, knows in knowing.items() if not knows]
    told = f"broker {', '.join(ignorant)} can't be cordoned: {CORDONED_LOG_DIRS} came with Kafka 4.3"
    return tuple((broker, ALL_LOG_DIRS) for broker, knows in knowing.items() if knows), told if ignorant else ""


def told_cordon(broker: BrokerId, value: str) -> str:
    """What an execution makes of a broker's `cordoned.log.dirs` before it moves anything."""
    if value != ALL_LOG_DIRS:
        return f"broker {broker} gets its former {CORDONED_LOG_DIRS} back first: {value or 'none'}"
    ends = f"until `shunter undrain {broker}` or `undo`; `stop` and `rollback` end it"
    return f"broker {broker} is cordoned first: it gets no new replicas {ends}"


def is_theirs(found: str | None, before: str | None, ours: Collection[str]) -> bool:
    """Whether another tool gave a setting its value: it is neither the value before Shunter's, nor one of Shunter's."""
    return found != before and found not in ours


class Loan(NamedTuple):
    """A journalled setting: its value before Shunter's (None: not set), and the values that Shunter has set."""

    before: str | None
    ours: Collection[str]


def repay(
    loans: Mapping[ThrottleKey, Loan], own: Mapping[ThrottleKey, str | None]
) -> tuple[dict[ThrottleKey, str | None], list[ThrottleKey]]:
    """How settings are given back: the values to write, and the settings that another tool has changed and keeps."""
    left = [key for key, loan in loans.items() if is_theirs(own[key], loan.before, loan.ours)]
    return {key: loan.before for key, loan in loans.items() if key not in left}, left
