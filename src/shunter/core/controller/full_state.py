"""The whole cluster, arranged for full requests: metadata for all brokers, and the partitions that given brokers host.

One pass over the topics serves all brokers. It can be interrupted after any topic, because a start-up with hundreds of
thousands of partitions is done in slices.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from shunter.core.controller.ready import TopicSlice
from shunter.core.controller.state import ControllerState, TopicState
from shunter.model.partition import LEADER_DURING_DELETE, BrokerId, PartitionState, Replicas, TopicPartition


class FullState:
    """Gathers topics. Partitions that never had a leader are left out: brokers need not know of them yet.

    Args:
        state: has the live brokers, the topics being deleted and the failed log dirs. It must not change meanwhile.
        brokers: the brokers that `hosted` is gathered for.
    """

    __slots__ = ("_live", "_state", "hosted", "metadata", "offline")

    def __init__(self, state: ControllerState, brokers: Iterable[BrokerId] = ()) -> None:
        self._state = state
        self._live = frozenset(state.brokers)
        self.metadata: list[TopicSlice] = []
        self.offline: dict[TopicPartition, Replicas] = {}
        self.hosted: dict[BrokerId, list[TopicSlice]] = {broker: [] for broker in brokers}

    def add(self, topic: TopicState) -> None:
        """Gather one topic. If it is being deleted, it is left out of `hosted`, and its metadata say so.

        Cost: O(replicas), some 0.5 us each; this is the hot path of a start-up.
        """
        entries = tuple([entry for entry in topic.partitions.items() if entry[1].leadership is not None])
        if not entries:
            return
        whole = TopicSlice(topic.name, topic.topic_id, entries)
        note_offline(self.offline, whole, self._live, self._state.offline_replicas)
        if topic.name in self._state.deleting:
            self.metadata.append(whole._replace(partitions=tuple(map(_going, entries))))
            return
        self.metadata.append(whole)
        hosted = self.hosted
        if not hosted:
            return
        here: dict[BrokerId, list[tuple[int, PartitionState]]] = {}
        for entry in entries:
            for broker in entry[1].assignment.replicas:
                if broker in here:
                    here[broker].append(entry)
                elif broker in hosted:
                    here[broker] = [entry]
        for broker, found in here.items():
            hosted[broker].append(
                whole if len(found) == len(entries) else TopicSlice(topic.name, topic.topic_id, tuple(found))
            )


def note_offline(
    offline: dict[TopicPartition, Replicas],
    topic: TopicSlice,
    live: frozenset[BrokerId],
    failed: Mapping[TopicPartition, frozenset[BrokerId]],
) -> None:
    """Note a topic's partitions that have offline replicas: on dead brokers, or on failed log dirs of live ones."""
    name, _, partitions = topic
    for number, (assignment, _) in partitions:
        if live.issuperset(assignment.replicas) and not failed:
            continue
        tp = TopicPartition(name, number)
        on_failed = failed.get(tp, frozenset())
        gone = tuple(replica for replica in assignment.replicas if replica not in live or replica in on_failed)
        if gone:
            offline[tp] = gone


def _going(entry: tuple[int, PartitionState]) -> tuple[int, PartitionState]:
    """A partition of a topic that is being deleted, as metadata show it."""
    number, partition = entry
    leadership = partition.leadership
    if leadership is None:
        return entry
    return number, partition._replace(leadership=leadership._replace(leader=LEADER_DURING_DELETE))
