"""Settings of brokers: read in portions and from every broker, and changed when brokers report them."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pytest
from kafka import errors as kafka_errors
from kafka.admin import ConfigResource
from kafka.protocol.admin import DescribeConfigsResponse

from shunter.core.throttles import FOLLOWER_RATE, LEADER_REPLICAS
from shunter.drivers.admin import settings
from shunter.drivers.admin import settings as settings_in_force
from shunter.drivers.admin.client import PinnedAdminClient
from shunter.drivers.admin.settings import (
    PER_REQUEST,
    effective,
    min_insync,
    not_seen_in_force,
    read_settings,
    told_by_each,
    topic_settings,
)
from shunter.errors import DriverError, ErrorCode
from shunter.model.execution import ThrottleKey
from shunter.model.partition import BrokerId

RATE = ThrottleKey("broker", "1", "leader.replication.throttled.rate")
LISTS = [ThrottleKey("topic", name, "leader.replication.throttled.replicas") for name in ("t", "u")]
SETTINGS: dict[ThrottleKey, str | None] = {LISTS[0]: "0:1", LISTS[1]: None, RATE: "5"}
TOPICS = [f"t{number:04}" for number in range(2 * PER_REQUEST + 1)]
LIST = "leader.replication.throttled.replicas"
T, U = (ThrottleKey("topic", name, LEADER_REPLICAS) for name in ("t", "u"))


class Brokers:
    """Two brokers; each applies a change only after it was asked so many times."""

    def __init__(self, after: Mapping[BrokerId, int]) -> None:
        self.after = dict(after)
        self.asked: list[tuple[BrokerId, tuple[ThrottleKey, ...]]] = []

    async def tell(self, broker: BrokerId, keys: Sequence[ThrottleKey]) -> Mapping[ThrottleKey, str | None]:
        self.asked.append((broker, tuple(keys)))
        if broker not in self.after:
            raise DriverError("it is dying", retriable=True)
        self.after[broker] -= 1
        return {key: SETTINGS[key] if self.after[broker] < 0 else "old" for key in keys}


async def test_every_broker_is_asked_for_its_own_and_for_one_topic_until_it_tells_them() -> None:
    brokers = Brokers({1: 2, 2: 0})
    assert await not_seen_in_force(SETTINGS, [2, 1], brokers.tell) == {}
    assert sorted(brokers.asked) == [(1, (LISTS[1], RATE))] * 3 + [(2, (LISTS[1],))]


async def test_who_does_not_answer_is_not_waited_for() -> None:
    assert await not_seen_in_force(SETTINGS, [1], Brokers({}).tell) == {}


async def test_what_is_not_applied_in_time_is_told_and_a_topic_stands_for_all() -> None:
    brokers = Brokers({1: 0, 2: 10**9})
    missing = await not_seen_in_force(SETTINGS, [1, 2], brokers.tell, within_s=2 * settings_in_force.EVERY_S)
    assert missing.keys() == set(LISTS)
    assert "broker 2 did not apply it" in missing[LISTS[0]]


async def test_what_a_node_does_not_tell_of_is_not_waited_for() -> None:
    async def silent(broker: BrokerId, keys: Sequence[ThrottleKey]) -> Mapping[ThrottleKey, str | None]:
        return {}

    assert await not_seen_in_force(SETTINGS, [1], silent) == {}


class Broker:
    """A client whose broker describes any topic; it refuses more resources at once than it could answer for."""

    def __init__(self) -> None:
        self.requests = 0

    def describe_configs(self, resources: Sequence[ConfigResource], **_options: Any) -> dict[str, dict[str, Any]]:
        assert len(resources) <= PER_REQUEST
        self.requests += 1
        settings = {
            "min.insync.replicas": {"value": "2", "config_source": "DYNAMIC_TOPIC_CONFIG"},
            "retention.ms": {"value": "1", "config_source": "DEFAULT_CONFIG"},
        }
        return {"topic": {resource.name: settings for resource in resources}}


def test_topics_are_read_in_portions() -> None:
    for read, wanted in (
        (topic_settings, {"min.insync.replicas": "2"}),
        (min_insync, 2),
        (
            partial(effective, settings=["min.insync.replicas", "cleanup.policy"]),
            {"min.insync.replicas": "2", "cleanup.policy": None},
        ),
    ):
        broker = Broker()
        assert read(broker, TOPICS) == dict.fromkeys(TOPICS, wanted)
        assert broker.requests == 3
    broker = Broker()
    keys = [ThrottleKey("topic", name, LIST) for name in TOPICS]
    assert read_settings(broker, keys).own == dict.fromkeys(keys)
    assert broker.requests == 3


def test_without_topics_no_broker_is_asked() -> None:
    broker = Broker()
    assert (topic_settings(broker, []), min_insync(broker, []), broker.requests) == ({}, {}, 0)


class ToldByEach:
    """Brokers that show t's list for so many questions (None: for ever), and u's never; others do not answer."""

    def __init__(self, shown: Mapping[BrokerId, int | None]) -> None:
        self.left = dict(shown)
        self.asked: list[tuple[BrokerId, tuple[ThrottleKey, ...]]] = []

    async def tell(self, broker: BrokerId, keys: Sequence[ThrottleKey]) -> Mapping[ThrottleKey, str | None]:
        self.asked.append((broker, tuple(keys)))
        if broker not in self.left:
            raise DriverError("it is dying", retriable=True)
        left = self.left[broker]
        self.left[broker] = None if left is None else left - 1
        return {key: "0:1" if key == T and (left is None or left > 0) else None for key in keys}


async def test_what_all_brokers_show_is_read_once() -> None:
    brokers = ToldByEach({1: None, 2: None})
    told = await told_by_each([T, U], [2, 1], brokers.tell)
    assert told.values == {T: {"0:1": (1, 2)}, U: {None: (1, 2)}}
    assert sorted(brokers.asked) == [(1, (T, U)), (2, (T, U))]


async def test_a_late_broker_is_asked_again_for_what_differs() -> None:
    brokers = ToldByEach({1: 0, 2: 2})
    told = await told_by_each([T, U], [1, 2], brokers.tell)
    assert told.values == {T: {None: (1, 2)}, U: {None: (1, 2)}}
    assert brokers.asked[2:] == [(1, (T,)), (2, (T,))] * 2


async def test_brokers_that_go_on_to_differ_are_told_apart() -> None:
    told = await told_by_each([T], [1, 2, 3], ToldByEach({1: 0, 2: None, 3: 0}).tell, within_s=2 * settings.EVERY_S)
    assert told.values == {T: {None: (1, 3), "0:1": (2,)}}


async def test_a_broker_that_does_not_answer_is_named_and_not_asked_again() -> None:
    brokers = ToldByEach({1: 0, 2: None})
    told = await told_by_each([T], [1, 2, 3], brokers.tell, within_s=settings.EVERY_S)
    assert told.silent == {3: "it is dying"}
    assert [broker for broker, _keys in brokers.asked].count(3) == 1


async def test_many_topics_are_several_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "PER_REQUEST", 1)
    brokers = ToldByEach({1: None})
    assert (await told_by_each([T, U], [1], brokers.tell)).values == {T: {"0:1": (1,)}, U: {None: (1,)}}
    assert brokers.asked == [(1, (T,)), (1, (U,))]


async def test_a_missing_right_is_an_error() -> None:
    async def denied(broker: BrokerId, keys: Sequence[ThrottleKey]) -> Mapping[ThrottleKey, str | None]:
        raise DriverError("needs DescribeConfigs on Topic t", retriable=False)

    with pytest.raises(DriverError, match="needs DescribeConfigs"):
        await told_by_each([T], [1], denied)


class Manager:
    """The library's connections: broker 1 answers, 2 refuses the connection, 3 denies the right, 4 hangs, 5 is unknown."""

    def __init__(self) -> None:
        self.sent: list[int] = []

    def run(self, work: Any, *arguments: Any) -> Any:
        return asyncio.run(work(*arguments))

    def send(self, request: Any, node_id: int) -> int:
        ((_kind, name, settings),) = request.resources
        assert (name, list(settings)) == (str(node_id), [FOLLOWER_RATE])
        if node_id == 5:
            raise kafka_errors.UnknownBrokerIdError
        self.sent.append(node_id)
        return node_id

    async def wait_for(self, broker: int, timeout_ms: float) -> Any:
        assert self.sent == [1, 2, 3, 4], "all are asked before one is waited for"
        assert timeout_ms <= 3_000
        if broker in (2, 4):
            raise {2: kafka_errors.KafkaConnectionError, 4: kafka_errors.KafkaTimeoutError}[broker]("no")
        response = DescribeConfigsResponse
        config = response.DescribeConfigsResult.DescribeConfigsResourceResult(
            name=FOLLOWER_RATE, value="20000", read_only=False, config_source=2, is_sensitive=False, synonyms=[]
        )
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED if broker == 3 else ErrorCode.NONE
        result = response.DescribeConfigsResult(
            error_code=code, error_message="", resource_type=4, resource_name=str(broker), configs=[config]
        )
        return response(throttle_time_ms=0, results=[result])


def test_all_brokers_are_asked_at_once_and_an_error_is_one_brokers_answer() -> None:
    client = PinnedAdminClient.__new__(PinnedAdminClient)
    client._manager = Manager()
    told = client.described_by_each([1, 2, 3, 4, 5], [FOLLOWER_RATE], 3.0)
    assert told[1] == {FOLLOWER_RATE: "20000"}
    assert {broker: type(error) for broker, error in told.items() if broker != 1} == {
        2: kafka_errors.KafkaConnectionError,
        3: DriverError,
        4: kafka_errors.KafkaTimeoutError,
        5: kafka_errors.UnknownBrokerIdError,
    }
