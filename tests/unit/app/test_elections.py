"""Elections after moves of Shunter's controller: asked for, checked by what the cluster shows, told."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, cast

import pytest

from shunter.app.executor import elections
from shunter.drivers.admin.answers import TopicsSeen
from shunter.errors import DriverError, ErrorCode
from shunter.model.execution import ObservedPartition, ObservedTopic
from shunter.model.partition import Replicas, TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Cluster:
    """Two partitions that broker 2 leads; the first election gets no answer, the second one is carried out."""

    def __init__(self) -> None:
        self.leader = 2
        self.asked: list[set[TopicPartition]] = []

    async def observe_topics(self, _names: Sequence[str]) -> TopicsSeen:
        partitions = {
            0: ObservedPartition((1, 2), (1, 2), self.leader),
            1: ObservedPartition((2, 1), (1, 2), 2),
        }
        return TopicsSeen({"t": ObservedTopic(None, partitions, 1)}, {1: None, 2: None}, 1)

    async def elect_preferred(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, tuple[ErrorCode, str]]:
        self.asked.append(set(partitions))
        if len(self.asked) == 1:
            raise DriverError("lost", retriable=True)
        self.leader = 1
        return dict.fromkeys(partitions, (ErrorCode.NONE, ""))


async def _elect(cluster: Cluster, wanted: dict[TopicPartition, Replicas]) -> dict[TopicPartition, str]:
    return await elections._elect(cast("Any", cluster), wanted)


async def test_a_lost_answer_is_asked_again_and_the_cluster_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elections, "AGAIN_S", 0.01)
    cluster = Cluster()
    assert await _elect(cluster, {T0: (1, 2)}) == {}
    assert cluster.asked == [{T0}, {T0}]


async def test_a_partition_that_is_elsewhere_or_gone_is_left_alone() -> None:
    cluster = Cluster()
    gone = TopicPartition("t", 7)
    refused = await _elect(cluster, {T1: (1, 2), gone: (1, 2)})
    assert refused == {T1: "its replicas are [2, 1]", gone: "it does not exist"}
    assert cluster.asked == []


async def test_who_leads_already_is_not_asked_for() -> None:
    cluster = Cluster()
    assert await _elect(cluster, {T1: (2, 1)}) == {}
    assert cluster.asked == []
