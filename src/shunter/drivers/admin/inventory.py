"""Takes a snapshot of a live cluster through the Admin API (kafka-python): assignments, racks, sizes, offsets, configs."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from kafka import TopicPartition
from kafka import errors as kafka_errors

from shunter.core.throttles import FOLLOWER_RATE, LEADER_RATE, LISTS, UNLIMITED, held_followers, held_to, is_slow
from shunter.drivers.admin.answers import in_words, translated
from shunter.drivers.admin.client import ANSWERS_WITHIN_S, SHUNNED_FOR_S, connected
from shunter.drivers.admin.cluster import AGAIN_S, UNSENT_FOR_S, who_answers
from shunter.drivers.admin.log_dirs import describe_log_dirs, unlisted
from shunter.drivers.admin.metadata import MetadataObserver, live_brokers
from shunter.drivers.admin.settings import MIN_INSYNC, effective
from shunter.errors import DriverError
from shunter.model.inventory import (
    BrokerDisks,
    Disk,
    DiskReplica,
    Inventory,
    InventoryBroker,
    InventoryPartition,
)

_CLEANUP = "cleanup.policy"
_EARLIEST, _LATEST = -2, -1
_UNTOLD = (kafka_errors.IncompatibleBrokerVersion, kafka_errors.UnsupportedVersionError)
_NO_OFFSET = (
    kafka_errors.NotLeaderForPartitionError,
    kafka_errors.UnknownTopicOrPartitionError,
    kafka_errors.LeaderNotAvailableError,
    kafka_errors.ReplicaNotAvailableError,
    kafka_errors.KafkaStorageError,
    kafka_errors.OffsetNotAvailableError,
)
"""A leader moved, a topic was deleted, a log dir failed; or a leader elected while its ISR was below min.insync.replicas
does not know its high watermark (78), perhaps for as long as the incident lasts."""
_AT_ONCE = 5_000
"""Partitions per request: keeps every answer well under a broker's frame limit."""

Answer = TypeVar("Answer")
Sizes = dict[tuple[str, int], list[tuple[int, int]]]
Spaces = dict[int, tuple[int | None, int | None, int]]
Assigned = Mapping[tuple[str, int], Collection[int]]


class _Changing(NamedTuple):
    """Replicas that a reassignment under way adds and removes."""

    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


def take_inventory(configuration: Mapping[str, Any], *, offsets: bool = True) -> Inventory:
    """Read a cluster once. Blocks; asks each broker for its log dirs and each leader for its offsets.

    Args:
        configuration: kafka-python's names (`bootstrap_servers`, security).
        offsets: Whether first and last offsets of partitions are read, which no plan needs.

    Raises:
        DriverError: no broker answers (raised within seconds), or the login is refused.
    """
    client = connected(configuration)
    give_up_s = time.monotonic() + UNSENT_FOR_S
    try:
        while True:
            try:
                return _take(client, offsets=offsets)
            except (kafka_errors.KafkaError, RuntimeError, OSError) as error:
                failure = translated("reading the cluster", "Describe on Cluster and Topic", error)
                if not failure.retriable:
                    raise failure from error
                if time.monotonic() >= give_up_s:
                    raise DriverError(f"{failure}; {who_answers(configuration, client)}", retriable=True) from error
            time.sleep(AGAIN_S)
    finally:
        client.close()


def _take(client: Any, *, offsets: bool) -> Inventory:
    began = time.time()
    silent = client.shun_silent(ANSWERS_WITHIN_S, SHUNNED_FOR_S)
    described = client.describe_cluster()
    topics, changing = _changing_around(client, lambda: [t for t in client.describe_topics() if t["error_code"] == 0])
    up = list(live_brokers(described))
    assigned = {
        (str(topic["name"]), int(part["partition_index"])): tuple(map(int, part["replica_nodes"]))
        for topic in topics
        for part in topic["partitions"]
    }
    sizes, spaces, disks, unanswered, log_dirs = _log_dirs(client, up, assigned, silent)
    up = _holders(up, spaces, {node for nodes in assigned.values() for node in nodes})
    led = [
        TopicPartition(str(topic["name"]), int(partition["partition_index"]))
        for topic in topics
        for partition in topic["partitions"]
        if int(partition["leader_id"]) >= 0
    ]
    starts, ends = (_offsets(client, led if offsets else [], which) for which in (_EARLIEST, _LATEST))
    rates, untold = _rates(client, [broker for broker in up if broker not in silent])
    wanted = (MIN_INSYNC, _CLEANUP, *(LISTS if rates else ()))
    settings = effective(client, [str(topic["name"]) for topic in topics], wanted)
    held = held_to(rates, settings.values())
    followed = {
        broker: held_followers(broker, settings) if is_slow(rates[broker].get(FOLLOWER_RATE)) else () for broker in held
    }
    # Plans need it beside replicas that are offline alone.
    offline = any(part.get("offline_replicas") for topic in topics for part in topic["partitions"]) or any(
        each.failed for seen in log_dirs.values() for each in seen
    )
    needs_all = MetadataObserver().controller_of(client, described)[1] if offline else None
    registered = [
        InventoryBroker(
            int(broker["broker_id"]),
            str(broker["host"]),
            broker.get("rack") or None,
            *spaces.get(int(broker["broker_id"]), (None, None, 0))[:2],
            fenced=broker.get("is_fenced"),
            log_dirs=log_dirs.get(int(broker["broker_id"])),
            silent=int(broker["broker_id"]) in silent or None,
            needs_all=needs_all,
            throttle=held.get(int(broker["broker_id"])),
            held_followers=followed.get(int(broker["broker_id"])),
        )
        for broker in sorted(described["brokers"], key=lambda broker: int(broker["broker_id"]))
    ]
    brokers = tuple(broker for broker in registered if broker.id in up)
    fenced = tuple(broker for broker in registered if broker.fenced)
    damaged = frozenset(broker for broker, seen in log_dirs.items() if any(each.failed for each in seen))
    partitions = tuple(
        _partition(topic, found, sizes, starts, ends, settings, changing, damaged)
        for topic in sorted(topics, key=lambda topic: str(topic["name"]))
        for found in sorted(topic["partitions"], key=lambda found: int(found["partition_index"]))
    )
    taken_at_ms = int((began + time.time()) / 2 * 1000)
    seen = unanswered, disks, fenced, untold
    return Inventory(str(described["cluster_id"]), taken_at_ms, brokers, partitions, *seen)


def _rates(client: Any, brokers: Sequence[int]) -> tuple[dict[int, dict[str, str | None]], tuple[tuple[int, str], ...]]:
    """Rates of throttles by broker that has one, and the brokers that tell none, with the reason."""
    rates: dict[int, dict[str, str | None]] = {}
    untold: list[tuple[int, str]] = []
    for broker, told in client.described_by_each(brokers, (LEADER_RATE, FOLLOWER_RATE), ANSWERS_WITHIN_S).items():
        if isinstance(told, Exception):
            untold.append((broker, str(told) if isinstance(told, DriverError) else in_words(told)))
        elif any(value not in (None, str(UNLIMITED)) for value in told.values()):
            rates[broker] = told
    return rates, tuple(sorted(untold))


def _changing_around(client: Any, read: Callable[[], Answer]) -> tuple[Answer, dict[tuple[str, int], _Changing]]:
    """Read something, and on both sides of it the replicas that reassignments add and remove, by partition.

    So a replica that was being added when the metadata were read is known as such, even if its reassignment began or
    ended just then. A cluster that does not tell its reassignments shows none.
    """
    before = _changing(client)
    answer = read()
    after = _changing(client)
    none = _Changing()
    return answer, {
        key: _Changing(
            *(
                tuple(sorted({*one, *other}))
                for one, other in zip(before.get(key, none), after.get(key, none), strict=True)
            )
        )
        for key in before.keys() | after
    }


def _changing(client: Any) -> dict[tuple[str, int], _Changing]:
    try:
        found = client.list_partition_reassignments()
    except (*_UNTOLD, kafka_errors.AuthorizationError):
        return {}
    return {
        (str(tp.topic), int(tp.partition)): _Changing(
            tuple(map(int, each["adding_replicas"])), tuple(map(int, each["removing_replicas"]))
        )
        for tp, each in found.items()
    }


def _holders(up: Sequence[int], spaces: Spaces, assigned: Collection[int]) -> list[int]:
    """Leave out nodes that can't hold replicas: Shunter's controller is registered as a broker, but has no log dir.

    Old brokers show no log dirs to a client that lacks the right to see them. If no broker shows a log dir, all stay.
    """
    bare = {broker for broker, (_, _, log_dirs) in spaces.items() if log_dirs == 0 and broker not in assigned}
    if len(bare) == len(spaces):
        return list(up)
    return [broker for broker in up if broker not in bare]


def _partition(
    topic: Mapping[str, Any],
    found: Mapping[str, Any],
    sizes: Sizes,
    starts: Mapping[tuple[str, int], int],
    ends: Mapping[tuple[str, int], int],
    settings: Mapping[str, Mapping[str, str | None]],
    changing: Mapping[tuple[str, int], _Changing],
    damaged: Collection[int],
) -> InventoryPartition:
    name, number = str(topic["name"]), int(found["partition_index"])
    under_way = changing.get((name, number), _Changing())
    identity = topic.get("topic_id")
    no_id = identity is None or set(str(identity)) <= {"0", "-"}
    told = tuple(found.get("offline_replicas") or ())
    settled = (*found["isr_nodes"], *under_way.adding, *under_way.removing, *told)
    holders = (broker for broker, _size in sizes.get((name, number), ()))
    return InventoryPartition(
        topic=name,
        topic_id=None if no_id else str(identity),
        partition=number,
        replicas=tuple(found["replica_nodes"]),
        isr=tuple(found["isr_nodes"]),
        leader=int(found["leader_id"]),
        start_offset=starts.get((name, number)),
        end_offset=ends.get((name, number)),
        min_insync=int(settings[name][MIN_INSYNC] or 1),
        sizes=tuple(sorted(sizes.get((name, number), ()))),
        offline=(*told, *unlisted(found["replica_nodes"], settled, damaged, holders)),
        cleanup_policy=settings[name][_CLEANUP],
        adding=under_way.adding,
        removing=under_way.removing,
    )


def _log_dirs(
    client: Any, brokers: Sequence[int], assigned: Assigned, silent: Collection[int] = ()
) -> tuple[Sizes, Spaces, tuple[BrokerDisks, ...], tuple[tuple[int, str], ...], dict[int, tuple[Disk, ...]]]:
    sizes: Sizes = {}
    log_dirs: dict[int, tuple[Disk, ...]] = {}
    spaces: Spaces = {}
    disks: list[BrokerDisks] = []
    unanswered: list[tuple[int, str]] = []
    for broker in brokers:
        if broker in silent:
            unanswered.append((broker, f"it does not answer within {ANSWERS_WITHIN_S:.0f} s"))
            continue
        try:
            found = describe_log_dirs(client, broker, None)
        except kafka_errors.AuthorizationError:
            raise
        except kafka_errors.KafkaError as error:
            unanswered.append((broker, in_words(error)))
            continue
        log_dirs[broker] = tuple(map(_disk, found))
        failed = [each.path for each in log_dirs[broker] if each.failed]
        if failed:
            unanswered.append((broker, f"log dir {', '.join(failed)} failed"))
        if len(found) > 1:
            disks.append(_disks(broker, found, assigned))
        spaces[broker] = (*_space(log_dirs[broker]), len(found))
        for log_dir in found:
            for topic in log_dir["topics"]:
                for partition in topic["partitions"]:
                    if not partition["is_future_key"]:
                        key = str(topic["name"]), int(partition["partition_index"])
                        sizes.setdefault(key, []).append((broker, int(partition["partition_size"])))
    return sizes, spaces, tuple(disks), tuple(unanswered), log_dirs


def _disks(broker: int, found: Sequence[Mapping[str, Any]], assigned: Assigned) -> BrokerDisks:
    """Return a broker's log dirs and their replicas. A replica on its way to a log dir counts as there already."""
    places: dict[tuple[str, int], DiskReplica] = {}
    coming = 0
    for log_dir in found:
        path = str(log_dir["log_dir"])
        for topic in log_dir["topics"]:
            for part in topic["partitions"]:
                key = str(topic["name"]), int(part["partition_index"])
                if broker not in assigned.get(key, ()):
                    continue  # The replica is being deleted.
                replica = DiskReplica(*key, path, int(part["partition_size"]))
                if part["is_future_key"]:
                    coming += 1
                    places[key] = replica
                else:
                    places.setdefault(key, replica)
    return BrokerDisks(broker, tuple(map(_disk, found)), tuple(places.values()), coming)


def _disk(log_dir: Mapping[str, Any]) -> Disk:
    """A log dir as its broker describes it. Replicas on their way to it count: Kafka counts them when it chooses."""
    total, usable = int(log_dir.get("total_bytes", -1)), int(log_dir.get("usable_bytes", -1))
    known = total >= 0 and usable >= 0
    return Disk(
        str(log_dir["log_dir"]),
        total if known else None,
        usable if known else None,
        failed=log_dir["error_code"] != 0,
        cordoned=log_dir.get("is_cordoned"),
        replicas=sum(len(topic["partitions"]) for topic in log_dir["topics"]),
    )


def _space(log_dirs: Sequence[Disk]) -> tuple[int | None, int | None]:
    """Total and usable bytes of all log dirs together; None if one of them failed or does not say."""
    known = [(each.total_bytes, each.usable_bytes) for each in log_dirs if not each.failed]
    if not log_dirs or len(known) < len(log_dirs) or any(None in each for each in known):
        return None, None
    return sum(int(total or 0) for total, _ in known), sum(int(usable or 0) for _, usable in known)


def _offsets(client: Any, partitions: Sequence[TopicPartition], which: int) -> dict[tuple[str, int], int]:
    found: dict[tuple[str, int], int] = {}
    for first in range(0, len(partitions), _AT_ONCE):
        some = partitions[first : first + _AT_ONCE]
        found.update(_known_offsets(client, some, which))
    return found


def _known_offsets(client: Any, some: Sequence[TopicPartition], which: int) -> dict[tuple[str, int], int]:
    """Read offsets of partitions; without those that their leaders can't tell now, which a later snapshot can have.

    One such partition fails the whole request, so the request is halved until it stands alone.
    """
    try:
        answered = client.list_partition_offsets(dict.fromkeys(some, which))
    except _NO_OFFSET:
        if len(some) == 1:
            return {}
        half = len(some) // 2
        return _known_offsets(client, some[:half], which) | _known_offsets(client, some[half:], which)
    return {(tp.topic, tp.partition): int(answer.offset) for tp, answer in answered.items()}
