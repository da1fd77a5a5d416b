"""Requests that any node may answer are relayed to a live broker; this node answers its part of a mixed request."""

import asyncio

import pytest
from fake_broker import RANGES, FakeBroker
from kio.index import load_response_schema
from rpc_world import OUR_ID, rpc_world

from shunter.drivers.brokers import relay
from shunter.drivers.brokers.relay import PASSED_ON, relayed_ranges
from shunter.drivers.listener.handlers.messages import filled
from shunter.errors import ErrorCode
from shunter.model.broker import Endpoint
from shunter.wire.framing import request_frame_head

THROTTLE = "leader.replication.throttled.rate"
OTHER_THROTTLE = "follower.replication.throttled.rate"


async def with_broker(w, number=1):
    broker = await FakeBroker(number).start()
    w.fakes.append(broker)
    return broker


def coordinator_at(broker):
    def answer(request, version):
        found = {"node_id": broker.id, "host": "h", "port": 5, "error_code": 0}
        keys = getattr(request, "coordinator_keys", ())
        return filled(load_response_schema(10, version), {**found, "coordinators": [{**found, "key": k} for k in keys]})

    return answer


async def two_coordinators(w):
    """Two brokers: the one that a client of this machine is passed on to first, and the other one."""
    brokers = [await with_broker(w, 1), await with_broker(w, 2)]
    for broker in brokers:
        broker.relayed[10] = coordinator_at(broker)
    chosen = (await w.ask(10, 0, key="g")).node_id
    for broker in brokers:
        broker.heard.clear()
    return sorted(brokers, key=lambda broker: broker.id != chosen)


async def test_a_coordinator_is_found_by_a_broker_under_the_clients_own_correlation_id():
    async with rpc_world() as w:
        broker = await with_broker(w)
        broker.relayed[10] = coordinator_at(broker)
        client = await w.client()
        client.last = 2_000_000
        for version in (0, 3, 4):
            message = await client.ask(10, version, key="g", coordinator_keys=["g"])
            assert (message.coordinators[0] if version >= 4 else message).node_id == 1
        assert broker.connections == 1


async def test_the_least_loaded_broker_is_asked():
    async with rpc_world() as w:
        first, second = await two_coordinators(w)
        first.answering.clear()
        one, other = await w.client(), await w.client()
        one.send(10, 0, key="g")
        await first.until_heard(1)
        assert (await other.ask(10, 0, key="g")).node_id == second.id
        first.answering.set()
        assert (await one.receive(10, 0))[1].node_id == first.id


async def test_coordinators_are_asked_for_on_the_clients_own_listener_only():
    async with rpc_world() as w:
        broker = await with_broker(w)
        broker.relayed[10] = coordinator_at(broker)
        message = await w.ask(10, 0, listener=1, key="g")
        assert int(message.error_code) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert broker.heard == []


async def test_a_broker_without_plaintext_is_never_asked():
    async with rpc_world() as w:
        broker = await with_broker(w)
        secured = broker.broker._replace(endpoints=(Endpoint("PLAINTEXT", "SSL", "127.0.0.1", broker.port),))
        w.relay._brokers = lambda: (secured,)
        message = await w.ask(10, 0, key="g")
        assert int(message.error_code) == ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_a_broker_that_dies_while_it_is_asked_closes_nothing_else():
    async with rpc_world() as w:
        broker = await with_broker(w)
        broker.answering.clear()
        client, other = await w.client(), await w.client()
        client.send(10, 3, key="g")
        await broker.until_heard(1)
        broker.cut()
        _, message = await client.receive(10, 3)
        assert int(message.error_code) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        other.send(22, 0, transactional_id=None, transaction_timeout=1000)
        await broker.until_heard(2)
        broker.cut()
        _, message = await other.receive(22, 0)
        assert int(message.error_code) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert (await client.ask(3, 1, topics=())).controller_id == OUR_ID


async def test_a_frame_of_an_api_that_is_not_ours_is_passed_on_as_it_is():
    async with rpc_world() as w:
        broker = await with_broker(w)
        broker.relayed[22] = lambda _, version: filled(
            load_response_schema(22, version), {"error_code": 0, "producer_id": 77, "producer_epoch": 0}
        )
        message = await w.ask(22, 4, transactional_id=None, transaction_timeout=1000, producer_id=-1, producer_epoch=-1)
        assert message.producer_id == 77
        assert w.relay.passed_on == 1


def resource(kind, name, *configs):
    return {"resource_type": kind, "resource_name": name, "configs": configs, "configuration_keys": None}


def setting(name, value, operation=0):
    return {"name": name, "value": value, "config_operation": operation}


async def test_a_mixed_change_of_configs_is_split():
    async with rpc_world() as w:
        broker = await with_broker(w)
        broker.relayed[44] = lambda request, version: filled(
            load_response_schema(44, version),
            {
                "responses": [
                    {"resource_type": one.resource_type, "resource_name": one.resource_name, "error_code": 3}
                    for one in request.resources
                ]
            },
        )
        asked = [resource(4, str(OUR_ID), setting(THROTTLE, "10")), resource(2, "t", setting("retention.ms", "5"))]
        message = await w.ask(44, 1, resources=asked)
        assert {one.resource_name: int(one.error_code) for one in message.responses} == {str(OUR_ID): 0, "t": 3}
        (heard,) = broker.heard
        assert [one.resource_name for one in heard.message.resources] == ["t"]
        assert w.node.own_configs.values == {THROTTLE: "10"}


async def test_our_own_throttles_are_kept_shown_and_cleared():
    async with rpc_world() as w:
        ours = str(OUR_ID)
        await w.ask(44, 0, resources=[resource(4, ours, setting(OTHER_THROTTLE, "5"), setting(THROTTLE, "10"))])
        await w.ask(44, 0, resources=[resource(4, ours, setting(THROTTLE, "11"))], validate_only=True)
        for version in range(5):
            message = await w.ask(32, version, resources=[resource(4, ours)])
            known = {one.name: one.value for one in message.results[0].configs}
            assert known == {OTHER_THROTTLE: "5", THROTTLE: "10"}
        chosen = [{**resource(4, ours), "configuration_keys": [THROTTLE]}]
        message = await w.ask(32, 4, resources=chosen)
        assert [one.name for one in message.results[0].configs] == [THROTTLE]
        deleted = setting(THROTTLE, None, 1), setting("zookeeper.connect", None, 1)
        message = await w.ask(44, 1, resources=[resource(4, ours, *deleted)])
        assert int(message.responses[0].error_code) == 0
        assert w.node.own_configs.values == {OTHER_THROTTLE: "5"}
        await w.ask(33, 2, resources=[resource(4, ours, setting(THROTTLE, "1"))])
        assert w.node.own_configs.values == {THROTTLE: "1"}


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ([("zookeeper.connect", "x", 0)], "Cannot update these configs dynamically: Set(zookeeper.connect)"),
        (
            [(THROTTLE, "1", 0), ("background.threads", "1000", 0), ("ssl.keystore.password", "s", 0)],
            "Cannot update these configs dynamically: Set(background.threads, ssl.keystore.password)",
        ),
        ([(THROTTLE, "-5", 0)], f"Invalid value -5 for configuration {THROTTLE}: Value must be at least 0"),
        ([(THROTTLE, "ten", 0)], f"Invalid value ten for configuration {THROTTLE}: Not a number of type LONG"),
        ([(THROTTLE, str(2**63), 0)], f"Invalid value {2**63} for configuration {THROTTLE}: Not a number of type LONG"),
        ([(THROTTLE, "", 0)], f"Invalid value  for configuration {THROTTLE}: Not a number of type LONG"),
        ([(THROTTLE, None, 0)], f"Null value not supported for : {THROTTLE}"),
        ([(THROTTLE, "1", 0), (THROTTLE, "2", 0)], "Error due to duplicate config keys"),
        ([(THROTTLE, "1", 2)], f"Config value append is not allowed for config key: {THROTTLE}"),
        ([(THROTTLE, "1", 3)], f"Config value subtract is not allowed for config key: {THROTTLE}"),
        ([(THROTTLE, "1", 9)], f"broker {OUR_ID}: operations [9] are none of set, delete, append, subtract"),
    ],
)
async def test_our_own_other_settings_and_wrong_values_are_refused_in_a_brokers_words(settings, told):
    async with rpc_world() as w:
        message = await w.ask(44, 1, resources=[resource(4, str(OUR_ID), *(setting(*one) for one in settings))])
        (refused,) = message.responses
        error = ErrorCode.INVALID_CONFIG if "is not allowed" in told else ErrorCode.INVALID_REQUEST
        assert (int(refused.error_code), refused.error_message) == (error, told)
        if all(operation == 0 for _, _, operation in settings):
            whole = [resource(4, str(OUR_ID), *(setting(name, value) for name, value, _ in settings))]
            message = await w.ask(33, 2, resources=whole)
            (refused,) = message.responses
            assert (int(refused.error_code), refused.error_message) == (ErrorCode.INVALID_REQUEST, told)
        assert w.node.own_configs.values == {}


async def test_this_node_has_no_loggers_that_a_tool_could_set():
    async with rpc_world() as w:
        message = await w.ask(44, 1, resources=[resource(8, str(OUR_ID), setting("kafka.server", "DEBUG"))])
        (refused,) = message.responses
        assert int(refused.error_code) == ErrorCode.INVALID_CONFIG
        assert refused.error_message == "Logger kafka.server does not exist!"
        assert w.node.own_configs.values == {}


async def test_configs_of_others_without_a_broker_are_refused_in_their_form():
    async with rpc_world() as w:
        message = await w.ask(44, 1, resources=[resource(2, "t", setting("retention.ms", "5"))])
        (refused,) = message.responses
        assert int(refused.error_code) == ErrorCode.REQUEST_TIMED_OUT
        assert "no live broker" in refused.error_message
        both = await w.ask(32, 4, resources=[resource(2, "t"), resource(4, str(OUR_ID))])
        assert {one.resource_name: int(one.error_code) for one in both.results} == {"t": 7, str(OUR_ID): 0}


async def test_whether_a_topic_is_created_on_demand_is_asked_of_a_broker():
    async with rpc_world() as w:
        broker = await with_broker(w)

        def answer(request, version):
            codes = {"made": 5, "refused": 3}
            topics = [{"name": one.name, "error_code": codes[one.name]} for one in request.topics]
            return filled(load_response_schema(3, version), {"topics": topics, "brokers": (), "cluster_id": "c"})

        broker.relayed[3] = answer
        asked = [{"name": "made", "topic_id": None}, {"name": "refused", "topic_id": None}]
        message = await w.ask(3, 12, topics=asked, allow_auto_topic_creation=True)
        assert {one.name: int(one.error_code) for one in message.topics} == {"made": 5, "refused": 3}
        assert broker.heard[0].message.allow_auto_topic_creation
        await w.ask(3, 12, topics=asked, allow_auto_topic_creation=False)
        assert len(broker.heard) == 1


async def test_many_callers_share_a_few_connections():
    async with rpc_world() as w:
        broker = await with_broker(w)
        broker.relayed[10] = coordinator_at(broker)
        broker.answering.clear()
        clients = [await w.client() for _ in range(20)]
        for client in clients:
            client.send(10, 0, key="g")
        await broker.until_heard(4)
        broker.answering.set()
        answers = await asyncio.gather(*(client.receive(10, 0) for client in clients))
        assert {message.node_id for _, message in answers} == {1}
        assert broker.connections == 4


async def test_senders_are_spread_over_brokers_and_each_keeps_its_own():
    async with rpc_world() as w:
        for number in (1, 2, 3):
            broker = await with_broker(w, number)
            broker.relayed[10] = coordinator_at(broker)
        frame = request_frame_head(10, 0, 7, "c", 3)[4:] + b"\x00\x01g"

        async def chosen(sender):
            answer = await w.relay.pass_on(frame, "PLAINTEXT", sender=sender)
            return int.from_bytes(answer[10:14], "big")

        first = [await chosen(f"10.0.0.{number}") for number in range(30)]
        assert set(first) == {1, 2, 3}
        assert [await chosen(f"10.0.0.{number}") for number in range(30)] == first


async def test_a_broker_that_is_not_connected_or_slow_is_asked_last():
    async with rpc_world() as w:
        first, second = await two_coordinators(w)
        w.relay._is_well = lambda broker: broker != first.id
        for _ in range(3):
            assert (await w.ask(10, 0, key="g")).node_id == second.id
        assert first.heard == []


async def test_a_broker_that_refuses_the_connection_is_replaced_by_another_and_avoided():
    async with rpc_world() as w:
        first, second = await two_coordinators(w)
        await first.stop()
        assert (await w.ask(10, 0, key="g")).node_id == second.id
        await first.start()
        assert (await w.ask(10, 0, key="g")).node_id == second.id
        assert first.heard == []
        w.relay._avoided_until.clear()
        assert (await w.ask(10, 0, key="g")).node_id == first.id


def no_acl(api_key):
    def answer(_request, version):
        return filled(load_response_schema(api_key, version), {"error_code": 0, "filter_results": (), "resources": ()})

    return answer


async def asked_of_a_broker_that_hangs_up(w, api_key, version, **values):
    """Ask; the first broker gets the request and closes the connection. Return the answer, and the other broker."""
    first, second = await two_coordinators(w)
    first.answering.clear()
    second.relayed[api_key] = no_acl(api_key)
    client = await w.client()
    client.send(api_key, version, **values)
    await first.until_heard(1)
    first.cut()
    _, message = await client.receive(api_key, version)
    return message, first, second


PATTERN = {
    "resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1, "principal_filter": None,
    "host_filter": None, "operation": 1, "permission_type": 1,
}  # fmt: skip


async def test_what_only_reads_is_asked_of_another_broker():
    async with rpc_world() as w:
        message, _, second = await asked_of_a_broker_that_hangs_up(w, 29, 3, **PATTERN)
        assert int(message.error_code) == 0
        assert len(second.heard) == 1


async def test_what_may_have_been_done_is_not_repeated_and_the_client_is_told():
    async with rpc_world() as w:
        message, first, second = await asked_of_a_broker_that_hangs_up(w, 31, 3, filters=[PATTERN])
        (refused,) = message.filter_results
        assert int(refused.error_code) == ErrorCode.REQUEST_TIMED_OUT
        assert f"broker {first.id} at 127.0.0.1:{first.port}: closed by the broker" in refused.error_message
        assert second.heard == []


async def test_where_none_answers_the_error_names_brokers_and_causes():
    async with rpc_world() as w:
        brokers = await two_coordinators(w)
        for broker in brokers:
            await broker.stop()
        message = await w.ask(10, 3, key="g")
        assert int(message.error_code) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        for broker in brokers:
            assert f"broker {broker.id} at 127.0.0.1:{broker.port}: " in message.error_message
        assert "Connect call failed" in message.error_message
        message = await w.ask(29, 3, **PATTERN)
        assert int(message.error_code) == ErrorCode.REQUEST_TIMED_OUT
        assert "broker 1 at" in message.error_message


async def test_a_broker_that_is_silent_is_given_up_where_the_request_only_reads(monkeypatch):
    monkeypatch.setattr(relay, "ASKED_AGAIN_AFTER_SECONDS", 0.1)
    async with rpc_world() as w:
        first, second = await two_coordinators(w)
        first.answering.clear()
        assert (await w.ask(10, 0, key="g")).node_id == second.id
        assert len(first.heard) == 1


async def test_the_configs_of_a_broker_are_asked_of_that_broker_and_of_no_other():
    async with rpc_world() as w:
        first, second = await two_coordinators(w)
        for broker in (first, second):
            broker.relayed[32] = lambda request, version, number=broker.id: filled(
                load_response_schema(32, version),
                {
                    "results": [
                        {
                            "error_code": 0,
                            "error_message": str(number),
                            "resource_type": 4,
                            "resource_name": "",
                            "configs": (),
                        }
                        for _ in request.resources
                    ]
                },
            )
        for broker in (first, second):
            message = await w.ask(32, 4, resources=[resource(4, str(broker.id))])
            assert message.results[0].error_message == str(broker.id)
        await first.stop()
        message = await w.ask(32, 4, resources=[resource(4, str(first.id))])
        assert int(message.results[0].error_code) == ErrorCode.REQUEST_TIMED_OUT
        assert f"broker {first.id} at" in message.results[0].error_message


def test_ranges_are_those_that_all_brokers_take():
    assert relayed_ranges({}) == dict(PASSED_ON)
    ranges = relayed_ranges({1: {0: (3, 10)}, 2: {0: (0, 8), 1: (0, 1)}})
    assert ranges == {0: (3, 8)}
    assert relayed_ranges({1: RANGES}) == {}
