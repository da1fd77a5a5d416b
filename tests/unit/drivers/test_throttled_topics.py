"""Quotas on topics (KIP-599) in requests: read from ZooKeeper, strict or not by version, reported in the answer."""

from __future__ import annotations

import pytest
from rpc_world import partition, rpc_world, topic

from shunter.core.controller.events import PartitionsSubmitted, TopicDeletionsSubmitted, TopicsSubmitted
from shunter.core.controller.ready import TopicResult, TopicResultsReply
from shunter.errors import DriverError, ErrorCode
from shunter.formats.znodes.configs import encode_config

RATE = encode_config({"controller_mutation_rate": "2"})
NONE, THROTTLED = 0, 89


def named(event):
    if isinstance(event, TopicsSubmitted):
        return [new.name for new in event.topics]
    return list(event.topics if isinstance(event, PartitionsSubmitted) else event.names)


def world(path="/config/clients/test", error=ErrorCode.NONE):
    made = rpc_world()

    class Opened:
        async def __aenter__(self):
            w = await made.__aenter__()
            w.configs[path] = RATE
            for kind in (TopicsSubmitted, PartitionsSubmitted, TopicDeletionsSubmitted):
                w.core.answers[kind] = lambda event: TopicResultsReply(
                    ErrorCode.NONE, tuple(TopicResult(name, error) for name in named(event))
                )
            w.add_topic(topic("a", 1, *[partition([1], 1)] * 30))
            w.add_topic(topic("b", 2, *[partition([1], 1)] * 30))
            return w

        async def __aexit__(self, *failure):
            return await made.__aexit__(*failure)

    return Opened()


def create(w, version, count=30, **more):
    new = [{"name": name, "num_partitions": count, "replication_factor": 1} for name in ("c", "d")]
    return w.ask(19, version, topics=new, timeout=1_000, **more)


def grow(w, version):
    return w.ask(37, version, topics=[{"name": name, "count": 60} for name in ("a", "b")], timeout=1_000)


def delete(w, version):
    asked = {"topics": [{"name": name, "topic_id": None} for name in ("a", "b")]}
    return w.ask(20, version, timeout=1_000, **(asked if version >= 6 else {"topic_names": ("a", "b")}))


def told(answer):
    results = next(getattr(answer, name) for name in ("topics", "responses", "results") if hasattr(answer, name))
    return sorted(int(one.error_code) for one in results), round(answer.throttle_time.total_seconds() * 1000)


@pytest.mark.parametrize(
    ("ask", "strict", "permissive"), [(create, 6, 5), (create, 7, 2), (grow, 3, 2), (delete, 5, 4), (delete, 6, 1)]
)
async def test_old_versions_are_told_to_wait_and_new_ones_are_refused(ask, strict, permissive):
    async with world() as w:
        assert told(await ask(w, strict)) == ([NONE, THROTTLED], 5_000)
        w.now_s += 5
        w.core.events.clear()
        assert told(await ask(w, permissive)) == ([NONE, NONE], 30_000)
        assert len(named(w.core.events[0])) == 2


async def test_refused_topics_never_reach_the_core():
    async with world() as w:
        answer = await create(w, 7)
        assert named(w.core.events[0]) == ["c"]
        refused = next(one for one in answer.topics if one.name == "d")
        assert refused.error_message is None


async def test_what_the_core_refuses_costs_nothing():
    async with world(error=ErrorCode.TOPIC_ALREADY_EXISTS) as w:
        for _ in range(2):
            assert told(await create(w, 7, count=15)) == ([36, 36], 0)


async def test_a_topic_without_a_number_costs_the_default_and_validation_nothing():
    async with world() as w:
        for _ in range(3):
            assert told(await create(w, 7, validate_only=True)) == ([NONE, NONE], 0)
        assert told(await create(w, 7, count=-1)) == ([NONE, NONE], 0)
        assert told(await create(w, 7, count=20)) == ([NONE, THROTTLED], 4_000)


@pytest.mark.parametrize("path", ["/config/users/ANONYMOUS", "/config/users/<default>/clients/test"])
async def test_quotas_of_the_user_hold_as_well(path):
    async with world(path=path) as w:
        assert told(await create(w, 7))[1] == 5_000


@pytest.mark.parametrize("data", [b"nonsense", encode_config({"controller_mutation_rate": "many"}), encode_config({})])
async def test_what_is_no_quota_refuses_nothing(data):
    async with world() as w:
        w.configs["/config/clients/test"] = data
        assert told(await create(w, 7)) == ([NONE, NONE], 0)


async def test_while_zookeeper_does_not_answer_nothing_is_refused_for_a_quota():
    async with world() as w:
        w.configs.failure = DriverError("lost", retriable=True)
        assert told(await create(w, 7)) == ([NONE, NONE], 0)
