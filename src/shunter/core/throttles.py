"""Replication throttles: who sets one, who takes it away, and which settings a move needs.

A throttle is a rate at a broker (`RATES`) and a list of replicas at a topic (`LISTS`); Kafka slows down a copy whose
replica is listed and whose broker has a rate.

| who | sets | takes away |
| --- | --- | --- |
| the executor (`core/executor/throttles.py`) | what `desired_settings` says, for every open move; journalled before | itself, as soon as no move needs it, or whoever drives the journal next: `shunter resume` |
| `shunter execute --throttle`, by the controller (`app/throttle_loan.py`) | `limited`, for the plan that it hands to the controller; journalled before, in the cluster's journal | itself, at the end of `--wait`; without it, or after its death, `shunter limit none`, `shunter throttles clear`, or whoever drives the journal next |
| `shunter kafka-reassign-partitions --execute --throttle` (`app/drop_in/throttles.py`) | `limited` and `log_dirs_limited`, as Apache's tool; keeps no record, as Apache's tool | its `--verify` and `--cancel`: `cleared` |
| anybody else (Apache's tool, a person) | anything | `shunter throttles clear`: what is in no journal is deleted |

The controller sets none. A setting that is journalled is given back as it was, unless somebody else changed it since:
then it is left to them. A value of somebody else that throttles as much or more than ours stays (`respectful`); Apache's
tool overwrites it, and so does its drop-in.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from shunter.model.execution import ThrottleKey, ThrottleRemembered, ThrottleRestored, ThrottleSet
from shunter.model.partition import BrokerId, Replicas, TopicPartition

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LOG_DIR_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"
RATES = (LEADER_RATE, FOLLOWER_RATE, LOG_DIR_RATE)
LISTS = (LEADER_REPLICAS, FOLLOWER_REPLICAS)


class CopyEnds(NamedTuple):
    """Who sends and who receives a partition."""

    sources: frozenset[BrokerId]
    destinations: frozenset[BrokerId]


def traffic_of(
    under_way: Mapping[TopicPartition, CopyEnds],
    proposed: Mapping[TopicPartition, Replicas],
    current: Mapping[TopicPartition, Replicas],
) -> dict[TopicPartition, CopyEnds]:
    """All movements there will be: those under way, and the proposed ones.

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
    """What to set, given what others set; None: leave theirs, which does what we want or more.

    Args:
        key: The setting.
        wanted: What we would set alone.
        before: What was set at the resource itself before us.
        effective: What was in force before us, from wherever (a cluster-wide default, server.properties).
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
    if theirs is not None and theirs.strip().isdigit() and int(theirs) <= int(wanted):
        return None
    return wanted


def is_theirs(found: str | None, before: str | None, ours: Collection[str]) -> bool:
    """Whether somebody else gave a setting the value that it has: neither what was there before us, nor one of ours."""
    return found != before and found not in ours


class Loan(NamedTuple):
    """A journalled setting: what it was before us (None: not set), and the values that we have asked for."""

    before: str | None
    ours: Collection[str]


def borrow(
    wanted: Mapping[ThrottleKey, str],
    own: Mapping[ThrottleKey, str | None],
    effective: Mapping[ThrottleKey, str | None],
    loans: Mapping[ThrottleKey, Loan],
) -> list[ThrottleRemembered | ThrottleSet | ThrottleRestored]:
    """What is to be journalled before settings are written; the `ThrottleSet` among them are what to write.

    Args:
        wanted: What we would set alone.
        own: What is set at the resources themselves.
        effective: What is in force.
        loans: What is journalled already. A setting that somebody else changed since is theirs first.
    """
    records: list[ThrottleRemembered | ThrottleSet | ThrottleRestored] = []
    for key, value in wanted.items():
        loan = loans.get(key)
        found = own[key]
        if loan is not None and not is_theirs(found, loan.before, loan.ours):
            chosen = respectful(key, value, loan.before, loan.before)
            records += [] if chosen is None else [ThrottleSet(key, chosen)]
            continue
        if loan is not None:
            records.append(ThrottleRestored(key, left=True))
        chosen = respectful(key, value, found, effective[key])
        if chosen is not None:
            records += [ThrottleRemembered(key, found), ThrottleSet(key, chosen)]
    return records


def repay(
    loans: Mapping[ThrottleKey, Loan], own: Mapping[ThrottleKey, str | None]
) -> tuple[dict[ThrottleKey, str | None], list[ThrottleKey]]:
    """How settings are given back: what to write, and which are left to somebody else who changed them since."""
    left = [key for key, loan in loans.items() if is_theirs(own[key], loan.before, loan.ours)]
    return {key: loan.before for key, loan in loans.items() if key not in left}, left
