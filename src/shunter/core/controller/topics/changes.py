"""Topics, decided into a draft: created, grown, deleted; by request and by znode.

Refusals and their words follow Apache's `ZkAdminManager` and `AdminZkClient`, because tools and people match on them.
"""

from __future__ import annotations

from collections.abc import Mapping

from shunter.core.controller.draft import Draft, known_topic_weight
from shunter.core.controller.events import NewTopic
from shunter.core.controller.ready import TopicResult
from shunter.core.controller.state import ControllerState, TopicState
from shunter.core.controller.topics.placement import continued_from, place_partitions
from shunter.core.topic_configs import EffectiveConfig, Releases, check_topic_configs, effective_configs, shortened
from shunter.core.topic_names import illegal_name
from shunter.core.topic_policy import check_partition_policy, check_topic_policy
from shunter.errors import ErrorCode, RequestRejected
from shunter.model.broker import Broker
from shunter.model.partition import BrokerId, ReplicaAssignment, Replicas, TopicPartition
from shunter.model.records import PutDeletionMark, PutTopic
from shunter.model.settings import ControllerSettings
from shunter.model.topic import Topic
from shunter.model.weights import DECISION_AT_MOST, NAMES_AT_MOST, configs_weight, placed_weight, record_weight

CLUSTER_METADATA_TOPIC = "__cluster_metadata"
REPLICAS_AT_MOST = 32_767
"""The most replicas of one partition: Kafka's protocol has 16 bits for a replication factor."""


def candidates(state: ControllerState) -> list[Broker]:
    """Brokers that may be given replicas: the live ones, but never the controller."""
    return [state.brokers[broker] for broker in sorted(state.brokers) if broker != state.controller_id]


def create_topic(
    draft: Draft, settings: ControllerSettings, new: NewTopic, releases: Releases, *, validate_only: bool
) -> TopicResult:
    """Accept a new topic into the draft, or say why not. Its partitions get leaders in later slices."""
    cluster = draft.state.broker_configs.get("<default>", {})
    try:
        _check_name(draft, new.name)
        configs = sorted(new.configs.items())
        _check_configs_fit(new.name, configs)
        assignments = _assignments(draft.state, settings, new)
        check_topic_configs(new.configs, releases, tiered=settings.tiered_storage, cluster=cluster)
        default_min_isr = cluster.get("min.insync.replicas", str(settings.default_min_isr))
        check_topic_policy(settings.topic_policy, new.name, assignments.values(), new.configs, default_min_isr)
    except RequestRejected as refused:
        return TopicResult(new.name, refused.error_code, refused.message)
    placed = {number: ReplicaAssignment(assignments[number]) for number in sorted(assignments)}
    topic_id = None if draft.state.topic_ids is False else new.topic_id
    put = PutTopic(Topic(new.name, topic_id, placed), tuple(configs))
    if (weight := record_weight(put)) > DECISION_AT_MOST:
        return TopicResult(new.name, ErrorCode.INVALID_PARTITIONS, too_great(new.name, len(placed), weight))
    if validate_only:
        draft.weighed += weight  # Nothing is written, but it was work all the same.
        draft.note_placed(len(placed))
    else:
        draft.create(put)
    return TopicResult(
        new.name,
        ErrorCode.NONE,
        topic_id=None if validate_only else topic_id,
        partition_count=len(placed),
        replication_factor=len(assignments[0]),
        configs=_effective(new.configs, releases, settings, cluster),
    )


def _effective(
    configs: Mapping[str, str], releases: Releases, settings: ControllerSettings, cluster: Mapping[str, str]
) -> tuple[EffectiveConfig, ...]:
    ours: dict[str, str] = {}
    if settings.default_min_isr != 1:
        ours["min.insync.replicas"] = str(settings.default_min_isr)
    if settings.unclean_leader_election:
        ours["unclean.leader.election.enable"] = "true"
    return effective_configs(configs, releases, cluster=cluster, ours=ours)


def too_great(name: str, partitions: int, weight: int) -> str:
    """Say why a topic can't have as many partitions: its znode is written whole, in one request to ZooKeeper."""
    return (
        f"Topic '{shortened(name)}' can't have {partitions} partitions: its znode would take up to {weight} bytes, and "
        f"{DECISION_AT_MOST} is the most that is written at once. Use fewer partitions or replicas, or several topics."
    )


def _check_name(draft: Draft, name: str) -> None:
    if name == CLUSTER_METADATA_TOPIC:
        raise RequestRejected(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
    if why := illegal_name(name):
        raise RequestRejected(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {why}")
    if name in draft.state.deleting:
        raise RequestRejected(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' is marked for deletion.")
    if name in draft.state.topics or name in draft.new_topics:
        raise RequestRejected(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    if name in draft.state.left_out.topics:
        raise RequestRejected(
            ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists, but its znode can't be read."
        )
    if draft.names.weight_with(name) > NAMES_AT_MOST:
        told = (
            f"The names of all topics would take more than {NAMES_AT_MOST} bytes with '{name}', and brokers can't list more: "
            "delete topics, or use shorter names."
        )
        raise RequestRejected(ErrorCode.POLICY_VIOLATION, told)
    if ("." in name or "_" in name) and (other := draft.names.collision(name)) is not None:
        raise RequestRejected(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topics: {other}"
        )


def _check_configs_fit(name: str, configs: list[tuple[str, str]]) -> None:
    weight = configs_weight(name, configs)
    if weight > DECISION_AT_MOST // 2:
        told = (
            f"The configuration of topic '{name}' takes up to {weight} bytes in ZooKeeper, and "
            f"{DECISION_AT_MOST // 2} is the most that a topic may have. Set less of it."
        )
        raise RequestRejected(ErrorCode.INVALID_CONFIG, told)


def _assignments(state: ControllerState, settings: ControllerSettings, new: NewTopic) -> Mapping[int, Replicas]:
    if new.assignments:
        return _check_assignments(state, new.assignments)
    partitions = settings.default_partitions if new.partition_count == -1 else new.partition_count
    factor = settings.default_replication_factor if new.replication_factor == -1 else new.replication_factor
    if partitions < 1:
        raise RequestRejected(ErrorCode.INVALID_PARTITIONS, "Number of partitions must be larger than 0.")
    brokers = candidates(state)
    _check_factor(factor, brokers)
    weight = placed_weight(partitions, factor, brokers[-1].id)
    if weight > DECISION_AT_MOST:
        raise RequestRejected(ErrorCode.INVALID_PARTITIONS, too_great(new.name, partitions, weight))
    start, shift = new.placement_seed % len(brokers), new.placement_seed // len(brokers) % len(brokers)
    return dict(enumerate(place_partitions(brokers, partitions, factor, start=start, shift=shift)))


def _check_factor(factor: int, brokers: list[Broker]) -> None:
    if factor < 1:
        raise RequestRejected(ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0.")
    if factor > len(brokers):
        told = f"Replication factor: {factor} larger than available brokers: {len(brokers)}."
        raise RequestRejected(ErrorCode.INVALID_REPLICATION_FACTOR, told)


def _check_assignments(state: ControllerState, asked: Mapping[int, Replicas]) -> Mapping[int, Replicas]:
    """Check a new topic's assignment. As in Apache, it may name brokers that are down: they get the replica later."""
    told = None
    if len({len(replicas) for replicas in asked.values()}) != 1:
        told = "All partitions should have the same number of replicas"
    elif sorted(asked) != list(range(len(asked))):
        told = "partitions should be a consecutive 0-based integer sequence"
    for number, replicas in sorted(asked.items()) if told is None else ():
        if not replicas:
            told = f"Cannot have replication factor of 0 for partition id {number}."
        elif len(set(replicas)) != len(replicas):
            told = f"Duplicate replica assignment found: partition {number} has {_listed(replicas)}"
        elif len(replicas) > REPLICAS_AT_MOST:
            told = f"Partition {number} has {len(replicas)} replicas, and {REPLICAS_AT_MOST} is the most"
        elif min(replicas) < 0:
            told = f"Partition {number} has {_listed(replicas)}, and no broker has an id below 0"
        elif state.controller_id in replicas:
            told = (
                f"Partition {number} has {_listed(replicas)}: {state.controller_id} is the controller and holds no data"
            )
        if told is not None:
            break
    if told is not None:
        raise RequestRejected(ErrorCode.INVALID_REPLICA_ASSIGNMENT, told)
    return asked


def _listed(replicas: Replicas) -> str:
    return shortened(", ".join(map(str, replicas)))


def grow_topic(
    draft: Draft,
    settings: ControllerSettings,
    item: tuple[str, int, tuple[Replicas, ...] | None],
    *,
    validate_only: bool,
) -> TopicResult:
    """Accept more partitions for a topic into the draft, or say why not."""
    name, total, asked = item
    try:
        topic, have = _growing(draft, name, total)
        brokers = candidates(draft.state)
        first, factor = topic.partitions[0].assignment.original, _factor(draft.state, topic)
        if asked is None:
            _check_factor(factor, brokers)
        highest = brokers[-1].id if asked is None else max((max(row, default=0) for row in asked), default=0)
        added = placed_weight(total - have, factor, highest)
        weight = known_topic_weight(topic) + added
        if weight > DECISION_AT_MOST:
            raise RequestRejected(ErrorCode.INVALID_PARTITIONS, too_great(name, total, weight))
        if asked is not None:
            placed = _check_new_assignments(asked, have, total - have, factor, {broker.id for broker in brokers})
        else:
            start = continued_from(brokers, first[0] if first else 0)
            placed = place_partitions(brokers, total - have, factor, start=start, shift=start, first=have)
        check_partition_policy(settings.topic_policy, name, total)
    except RequestRejected as refused:
        return TopicResult(name, refused.error_code, refused.message)
    if validate_only:
        draft.weighed += added
    else:
        for number, replicas in enumerate(placed, start=have):
            draft.place(TopicPartition(name, number), ReplicaAssignment(replicas))
    return TopicResult(name, ErrorCode.NONE)


def _factor(state: ControllerState, topic: TopicState) -> int:
    """How many replicas each new partition of a topic gets: as many as partition 0 has and is owed (decision 0026)."""
    first = topic.partitions[0].assignment.original
    known = state.owed_replicas.get(topic.name)
    owed = known.partitions if known is not None else ()
    return next(
        (wanted for number, wanted, replicas in owed if number == 0 and set(replicas) == set(first)), len(first)
    )


def _growing(draft: Draft, name: str, total: int) -> tuple[TopicState, int]:
    """The topic that is to have more partitions, and how many it has.

    Raises:
        RequestRejected: it can't grow, or not to `total` partitions.
    """
    topic = draft.state.topics.get(name)
    if topic is None:
        raise RequestRejected(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{shortened(name)}' does not exist.")
    if name in draft.state.deleting:
        raise RequestRejected(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is queued for deletion.")
    if _is_moving(draft.state, topic):
        told = f"A partition reassignment is in progress for the topic '{name}'."
        raise RequestRejected(ErrorCode.REASSIGNMENT_IN_PROGRESS, told)
    if name in draft.state.left_out.owed_replicas:
        told = (
            f"How many replicas topic '{shortened(name)}' is owed can't be read: mend or remove"
            f" /admin/shunter/owed_replicas/{shortened(name)}, and start the controller again."
        )
        raise RequestRejected(ErrorCode.UNKNOWN_SERVER_ERROR, told)
    have = len(topic.partitions)
    if max(topic.partitions, default=0) != have - 1:
        told = f"The partitions of topic '{name}' do not count up from 0: its znode was written by somebody else."
        raise RequestRejected(ErrorCode.UNKNOWN_SERVER_ERROR, told)
    have = max(have, max(draft.assignments.get(name, ()), default=0) + 1)
    if total < have:
        told = f"Topic currently has {have} partitions, which is higher than the requested {total}."
        raise RequestRejected(ErrorCode.INVALID_PARTITIONS, told)
    if total == have:
        raise RequestRejected(ErrorCode.INVALID_PARTITIONS, f"Topic already has {have} partitions.")
    return topic, have


def _is_moving(state: ControllerState, topic: TopicState) -> bool:
    if len(state.reassignments) < len(topic.partitions):
        return any(tp.topic == topic.name for tp in state.reassignments)
    return any(TopicPartition(topic.name, number) in state.reassignments for number in topic.partitions)


def _check_new_assignments(
    asked: tuple[Replicas, ...], have: int, wanted: int, factor: int, known: set[BrokerId]
) -> tuple[Replicas, ...]:
    """Check the assignment of new partitions: its brokers have to be live, and as many as partition 0 has."""
    told = None
    unknown = sorted({broker for replicas in asked for broker in replicas} - known)
    if unknown:
        told = f"Unknown broker(s) in replica assignment: {_listed(tuple(unknown))}."
    elif len(asked) != wanted:
        told = f"Increasing the number of partitions by {wanted} but {len(asked)} assignments provided."
    uneven: list[tuple[int, int]] = []
    for number, replicas in enumerate(asked if told is None else (), start=have):
        if not replicas:
            told = f"Cannot have replication factor of 0 for partition id {number}."
        elif len(set(replicas)) != len(replicas):
            told = (
                f"Duplicate brokers not allowed in replica assignment: {_listed(replicas)} for partition id {number}."
            )
        elif len(replicas) != factor:
            uneven.append((number, len(replicas)))
        if told is not None:
            break
    if told is None and uneven:
        numbers, factors = (shortened(", ".join(str(each[side]) for each in uneven)) for side in (0, 1))
        told = (
            f"Inconsistent replication factor between partitions, partition 0 has {factor} while partitions "
            f"[{numbers}] have replication factors [{factors}], respectively."
        )
    if told is not None:
        raise RequestRejected(ErrorCode.INVALID_REPLICA_ASSIGNMENT, told)
    return asked


def mark_for_deletion(draft: Draft, settings: ControllerSettings, name: str) -> TopicResult:
    """Queue a topic for deletion, durably. Its replicas are deleted next, its znodes when that is acknowledged."""
    if not settings.delete_topics:
        return TopicResult(name, ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled.")
    topic = draft.state.topics.get(name)
    if topic is None:
        told = f"Topic `{shortened(name)}` to delete does not exist"
        return TopicResult(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, told)
    if name not in draft.state.deleting:
        draft.other_records.append(PutDeletionMark(name))
    return TopicResult(name, ErrorCode.NONE, topic_id=topic.topic_id)
