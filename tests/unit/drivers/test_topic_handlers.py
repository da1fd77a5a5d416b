"""Metadata for many clients at once, quotas on topics (KIP-599), credentials and features, as clients ask."""

import asyncio
import struct
from dataclasses import replace

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin import NewTopic as RdTopic
from kafka.admin import KafkaAdminClient
from kafka.admin import NewTopic as PythonTopic
from kafka.errors import UnknownBrokerIdError
from rpc_world import OUR_ID, partition, rpc_world, topic

from shunter.core.controller.events import PartitionsSubmitted, TopicDeletionsSubmitted, TopicsSubmitted
from shunter.core.controller.ready import TopicResult, TopicResultsReply
from shunter.drivers.listener.handlers import dispatch
from shunter.drivers.listener.metadata_answers import MetadataAnswers
from shunter.drivers.zookeeper.feature_keeper import FeatureKeeper
from shunter.drivers.zookeeper.mutation_quotas import MutationQuotas
from shunter.drivers.zookeeper.user_configs import UserConfigs
from shunter.errors import DriverError, ErrorCode
from shunter.formats.znodes.configs import encode_config
from shunter.model.partition import PartitionState, ReplicaAssignment, TopicPartition
from shunter.wire.metadata import Audience

RATE = encode_config({"controller_mutation_rate": "2"})
NONE, THROTTLED = 0, 89


async def test_a_thousand_clients_that_ask_for_everything_cost_one_look_at_the_cluster():
    async with rpc_world() as w:
        w.add_broker(1)
        w.add_broker(2)
        w.add_topic(topic("t", 1, partition([1, 2, 3], 1)))
        moment = [0]
        answers = MetadataAnswers(lambda: moment[0])
        audience = Audience(12, "PLAINTEXT")
        for number in range(3_000):
            w.add_topic(topic(f"many-{number}", 10 + number, partition([1, 2, 3], 1)))
        first, *rest = await asyncio.gather(*(answers.everything(w.state, audience) for _ in range(1_000)))
        assert all(one is first for one in rest)
        assert answers.builds == 1
        assert first.served == 3_001
        w.state.topics["t"].partitions[0] = partition([1, 2, 3], 2)
        assert await answers.everything(w.state, audience) is first
        moment[0] += 1
        second = await answers.everything(w.state, audience)
        shared = {id(piece) for piece in first.pieces} & {id(piece) for piece in second.pieces}
        assert (answers.builds, len(shared)) == (2, 3_000)


async def test_who_asks_while_the_cluster_changes_is_told_of_the_change():
    async with rpc_world() as w:
        w.add_broker(1)
        w.add_broker(2)
        w.add_topic(topic("t", 1, partition([1, 2, 3], 1)))
        moment = [0]
        answers = MetadataAnswers(lambda: moment[0])
        audience = Audience(12, "PLAINTEXT")
        for number in range(20_000):
            w.add_topic(topic(f"many-{number}", 10 + number, partition([1, 2, 3], 1)))
        early = asyncio.create_task(answers.everything(w.state, audience))
        await asyncio.sleep(0)
        assert not early.done()
        w.state.topics["t"].partitions[0] = partition([2, 3], 2, epoch=77)
        moment[0] += 1
        late = asyncio.create_task(answers.everything(w.state, audience))
        given_up = asyncio.create_task(answers.everything(w.state, audience))
        await asyncio.sleep(0)
        early.cancel()
        given_up.cancel()
        told = b"".join((await late).pieces)
        assert struct.pack(">iii", 0, 2, 77) in told


async def test_a_topic_that_no_broker_has_heard_of_is_not_told_of():
    """All its replicas are dead, so it never had a leader. Tools list topics at one node, and describe at another."""
    async with rpc_world() as w:
        w.add_broker(1)
        w.add_topic(topic("led", 1, partition([1, 2, 3], 1)))
        w.add_topic(topic("unled", 2, PartitionState(ReplicaAssignment((9,)), None)))
        answers = MetadataAnswers(lambda: 0)
        audience = Audience(12, "PLAINTEXT")
        assert (await answers.everything(w.state, audience)).served == 1
        assert (await answers.some(w.state, audience, ["led", "unled"])).keys() == {"led"}


async def test_a_partition_that_no_broker_has_heard_of_is_not_told_of():
    """Clients ask now a broker, now the controller: the number of partitions must be the same."""
    never_led = PartitionState(ReplicaAssignment((9,)), None)
    audience = Audience(12, "PLAINTEXT")
    async with rpc_world() as w:
        w.add_broker(1)
        w.add_topic(topic("t", 1, partition([1, 2, 3], 1), never_led, partition([1, 2, 3], 2)))
        w.add_topic(topic("led", 2, partition([1, 2, 3], 1), partition([1, 2, 3], 2)))

        async def told_of(name):
            answers = MetadataAnswers(lambda: 0)
            (whole,) = (await answers.some(w.state, audience, [name])).values()
            alone = await answers.everything(w.state, audience)
            assert whole in b"".join(alone.pieces)
            return whole

        short, full = await told_of("t"), await told_of("led")
        assert len(short) - len("t") == len(full) - len("led")
        # A state that can't be read may be one that brokers know: without it the partition count would flip, too.
        w.state.unreadable.add(TopicPartition("t", 1))
        assert len(await told_of("t")) > len(short)
        w.state.unreadable.add(TopicPartition("unread", 0))
        w.add_topic(topic("unread", 3, never_led))
        assert struct.pack(">h", 5) in await told_of("unread")


@pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated:DeprecationWarning")
async def test_clients_find_the_controller_only_among_the_brokers():
    """So the controller has to be in Metadata (0025). Apache's TopicCommand, tried by hand, would wait for a minute."""
    async with rpc_world() as w:
        w.add_broker(1, port=w.port)
        w.state.brokers[1] = w.state.brokers.pop(OUR_ID)._replace(id=1)
        at = f"127.0.0.1:{w.port}"

        def by_kafka_python():
            admin = KafkaAdminClient(bootstrap_servers=at)
            try:
                admin.create_topics([PythonTopic("t", 1, 1)])
            finally:
                admin.close()

        def by_librdkafka():
            admin = AdminClient({"bootstrap.servers": at})
            admin.create_topics([RdTopic("t", 1, 1)], request_timeout=1, operation_timeout=1)["t"].result(10)

        with pytest.raises(UnknownBrokerIdError):
            await asyncio.to_thread(by_kafka_python)
        with pytest.raises(KafkaException, match="waiting for controller"):
            await asyncio.to_thread(by_librdkafka)
        assert w.core.events == []


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


def upsertion(name, iterations=4096):
    return {"name": name, "mechanism": 1, "iterations": iterations, "salt": b"s", "salted_password": b"p"}


@pytest.mark.parametrize("active", [True, False])
async def test_a_node_that_is_not_the_controller_refuses_each_user_once(active):
    """A node without a ZooKeeper session is not the controller either."""
    async with rpc_world() as w:
        w.state.active = active
        asked = {"upsertions": [upsertion("bob"), upsertion("ann")], "deletions": [{"name": "bob", "mechanism": 2}]}
        answer = await w.ask(51, 0, **asked)
        assert [(one.user, int(one.error_code)) for one in answer.results] == [("ann", 41), ("bob", 41)]


@pytest.mark.parametrize("version", [0, 1])
async def test_a_node_that_is_not_the_controller_updates_no_feature(version):
    async with rpc_world() as w:
        w.state.active = False
        answer = await w.ask(57, version, feature_updates=[{"feature": "f", "max_version_level": 1}])
        assert int(answer.error_code) == 41
        assert answer.results == ()


class SilentZooKeeper:
    """A client and a store whose requests are never answered, as while ZooKeeper can't be reached."""

    def __init__(self):
        self.asked = asyncio.Event()

    async def get(self, path):
        self.asked.set()
        await asyncio.get_running_loop().create_future()

    get_many = get

    async def amend(self, decide):
        await decide()


FEATURES = {"feature_updates": [{"feature": "f", "max_version_level": 1}]}
WAITING_FOR_ZOOKEEPER = {
    "CreateTopics": (19, 4, {"topics": [{"name": "t", "num_partitions": 1, "replication_factor": 1}]}),
    "DeleteTopics": (20, 6, {"topics": [{"name": "t"}]}),
    "DeleteTopics, by name": (20, 3, {"topic_names": ["t"]}),
    "CreatePartitions": (37, 1, {"topics": [{"name": "t", "count": 2}]}),
    "AlterUserScramCredentials": (51, 0, {"upsertions": [upsertion("ann"), upsertion("bob")]}),
    "UpdateFeatures": (57, 0, FEATURES),
}


def errors_in(answer):
    parts = next((getattr(answer, name) for name in ("topics", "responses", "results") if hasattr(answer, name)), ())
    return [int(part.error_code) for part in parts] or [int(answer.error_code)]


@pytest.mark.parametrize("name", WAITING_FOR_ZOOKEEPER)
@pytest.mark.parametrize("ends", ["by its timeout", "by our resignation"])
async def test_a_request_that_waits_for_zookeeper_is_answered_all_the_same(name, ends, monkeypatch):
    """ZooKeeper's client repeats a read until it is answered, so the request's own deadline is what ends the wait."""
    api_key, version, values = WAITING_FOR_ZOOKEEPER[name]
    monkeypatch.setattr(dispatch, "GRACE_S", 0.0)
    monkeypatch.setattr(dispatch, "UNTIMED_S", 0.05)  # AlterUserScramCredentials has no timeout.
    if ends == "by our resignation":
        monkeypatch.setattr(dispatch, "UNTIMED_S", 60.0)
    timeout = {} if api_key == 51 else {"timeout": 50 if ends == "by its timeout" else 60_000}
    async with rpc_world() as w:
        silent = SilentZooKeeper()
        w.server.resources.node = replace(
            w.node,
            quotas=MutationQuotas(lambda: silent, lambda: 10.0, lambda: 4, lambda: w.now_s),
            user_configs=lambda: UserConfigs(silent, silent),
            features=lambda: FeatureKeeper(silent, silent, lambda: None),
        )
        client = await w.client()
        client.send(api_key, version, **values, **timeout)
        async with asyncio.timeout(20):
            await silent.asked.wait()
            if ends == "by our resignation":
                w.core.callers.fail_all(ErrorCode.NOT_CONTROLLER, "resigned")
            _, answer = await client.receive(api_key, version)
        expected = ErrorCode.NOT_CONTROLLER if ends == "by our resignation" else ErrorCode.REQUEST_TIMED_OUT
        assert set(errors_in(answer)) == {expected}
        assert w.core.events == []
