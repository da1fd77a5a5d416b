"""Refusals on a listener, by logins, networks and ACLs; tests of a secured cluster are in tests/real."""

import runpy
from contextlib import asynccontextmanager
from ipaddress import ip_network
from pathlib import Path
from uuid import UUID

import pytest
from rpc_world import RpcWorld, partition, rpc_world, topic

from shunter.core.authorizer import AclAuthorizer, NetworkAuthorizer, Requester
from shunter.core.controller.events import ProducerIdsRequested
from shunter.core.controller.ready import ProducerIdsReply
from shunter.drivers.brokers.relay import PASSED_ON
from shunter.drivers.listener.connection import OF_LOGINS
from shunter.drivers.listener.gate import ListenerGate, kafkas_address
from shunter.drivers.listener.handlers.dispatch import HANDLERS
from shunter.drivers.listener.server import RpcServer, parse_listener
from shunter.drivers.listener.visible_topics import REQUESTERS, VisibleTopics
from shunter.errors import ErrorCode
from shunter.model.security.acl import Acl, AclResource, Operation, Permission, ResourcePattern, ResourceType
from shunter.model.security.listeners import ListenerSecurity, SaslSettings, Secret, SecurityProtocol
from shunter.model.security.principal import ANONYMOUS, Principal
from shunter.wire.framing import request_frame_head

CLUSTER_FAILED, TOPIC_FAILED = 31, 29
ELSEWHERE = (ip_network("10.0.0.0/8"),)
HERE = (ip_network("127.0.0.0/8"),)
TABLE = runpy.run_path(str(Path(__file__).parents[3] / "scripts" / "document-rights"))
EVERY = sorted(HANDLERS.keys() | PASSED_ON.keys())
PLAIN = ListenerSecurity(SecurityProtocol.SASL_PLAINTEXT, sasl=SaslSettings(("PLAIN",), {"ann": Secret("a")}))


def with_acls(*acls):
    authorizer = AclAuthorizer()
    authorizer.replace(
        {
            ResourcePattern(kind, name, prefixed): [Acl(ANONYMOUS, "127.0.0.1", operation, Permission.ALLOW)]
            for kind, name, prefixed, operation in acls
        }
    )
    return authorizer


async def test_networks_say_who_acts_as_a_broker_and_who_administers():
    async with rpc_world(authorizer=NetworkAuthorizer(ELSEWHERE, HERE)) as w:
        refused = await w.ask(67, 0, broker_id=1, broker_epoch=1)
        assert refused.error_code == CLUSTER_FAILED
        assert not w.core.events
        assert w.node.stats.denied == {"ClusterAction": 1}
    async with rpc_world(authorizer=NetworkAuthorizer(HERE, ELSEWHERE)) as w:
        w.core.answers[ProducerIdsRequested] = lambda event: ProducerIdsReply(ErrorCode.NONE, 7, 1)
        assert (await w.ask(67, 0, broker_id=1, broker_epoch=1)).producer_id_start == 7
        refused = await w.ask(45, 0, timeout=1_000, topics=())
        assert refused.error_code == CLUSTER_FAILED
        assert (await w.ask(46, 0, timeout=1_000, topics=None)).error_code == 0, "reading is for all"
        made = await w.ask(
            19,
            5,
            topics=[{"name": "t", "num_partitions": 1, "replication_factor": 1, "assignments": (), "configs": ()}],
            timeout=1_000,
            validate_only=False,
        )
        assert [each.error_code for each in made.topics] == [TOPIC_FAILED]
        assert len(w.core.events) == 1, "nothing but the first"


async def test_a_refused_reassignment_has_the_error_at_each_partition():
    """Apache's clients look there; without it their tool reports too few results instead of the missing right."""
    async with rpc_world(authorizer=NetworkAuthorizer(HERE, ELSEWHERE)) as w:
        asked = [{"partition_index": number, "replicas": [1]} for number in (0, 3)]
        topics = [{"name": "t", "partitions": asked}, {"name": "empty", "partitions": []}]
        refused = await w.ask(45, 0, timeout=1_000, topics=topics)
        assert refused.error_code == CLUSTER_FAILED
        found = [
            (each.name, [(p.partition_index, p.error_code) for p in each.partitions]) for each in refused.responses
        ]
        assert found == [("t", [(0, CLUSTER_FAILED), (3, CLUSTER_FAILED)])]
        assert refused.responses[0].partitions[0].error_message == "Cluster authorization failed."


async def test_metadata_shows_what_somebody_may_see_by_name_and_by_id():
    authorizer = with_acls((ResourceType.TOPIC, "mine", True, Operation.READ))
    async with rpc_world(authorizer=authorizer) as w:
        w.add_broker(1)
        for number, name in enumerate(("mine", "mine-2", "theirs"), 1):
            w.add_topic(topic(name, number, partition((1,), 1)))
        everything = await w.ask(3, 12, topics=None, include_topic_authorized_operations=True)
        assert [each.name for each in everything.topics] == ["mine", "mine-2"]
        assert {each.topic_authorized_operations for each in everything.topics} == {1 << 3 | 1 << 8}
        ids = [{"name": None, "topic_id": UUID(int=number)} for number in (1, 3, 9)]
        by_id = (await w.ask(3, 12, topics=ids)).topics
        assert [(each.name, each.error_code) for each in by_id] == [("mine", 0), (None, TOPIC_FAILED), (None, 100)]
        named = (await w.ask(3, 9, topics=[{"name": name} for name in ("theirs", "nowhere", "mine-3")])).topics
        assert [each.error_code for each in named] == [TOPIC_FAILED, TOPIC_FAILED, TOPIC_FAILED]
        authorizer.update(ResourcePattern(ResourceType.TOPIC, "mine", True), ())
        assert (await w.ask(3, 12, topics=None)).topics == (), "what was asked before is not remembered"


async def test_whoever_may_not_describe_a_topic_is_not_told_the_name_of_an_id():
    async with rpc_world(authorizer=with_acls((ResourceType.TOPIC, "mine", False, Operation.DESCRIBE))) as w:
        for number, name in enumerate(("mine", "theirs"), 1):
            w.add_topic(topic(name, number, partition((1,), 1)))
        asked = [{"name": None, "topic_id": UUID(int=number)} for number in (1, 2)]
        gone = await w.ask(20, 6, topics=asked, timeout=1_000)
        told = {(each.name, each.topic_id.int, each.error_code) for each in gone.responses}
        assert told == {("mine", 1, TOPIC_FAILED), (None, 2, TOPIC_FAILED)}
        assert not w.core.events


async def test_an_anonymous_client_of_a_cluster_with_acls_has_nothing_passed_on():
    async with rpc_world(authorizer=with_acls()) as w:
        described = await w.ask(
            32,
            2,
            resources=[{"resource_type": 2, "resource_name": "t", "configuration_keys": None}],
            include_synonyms=False,
        )
        assert [each.error_code for each in described.results] == [TOPIC_FAILED]
        assert (await w.ask(38, 1, renewers=(), max_lifetime=-1)).error_code == 64
        assert w.relay.passed_on == 0
        client = await w.client()
        client.send(2, 1, replica_id=-1, topics=())
        assert await client.closed(), "ListOffsets has no place for the error"


def test_addresses_are_written_as_permissions_name_them():
    assert kafkas_address("::1") == "0:0:0:0:0:0:0:1"
    assert kafkas_address("fe80::a1%eth0") == "fe80:0:0:0:0:0:0:a1"
    assert kafkas_address("10.0.0.1") == "10.0.0.1"


@asynccontextmanager
async def login_world():
    world = RpcWorld()
    world.server = RpcServer(world.node, None, gate_of=lambda name: ListenerGate(name, PLAIN))
    world.listeners = await world.server.listen([parse_listener("PEOPLE://127.0.0.1:0")])
    try:
        yield world
    finally:
        await world.close()


async def test_before_a_login_only_what_belongs_to_it_is_answered():
    async with login_world() as w:
        for api_key in EVERY:
            if api_key in OF_LOGINS:
                continue
            client = await w.client()
            client.writer.write(request_frame_head(api_key, 0, 1, "x", 4) + bytes(4))
            assert await client.closed(), api_key
        asked = await w.client()
        assert (await asked.ask(18, 0)).api_keys
        assert (await asked.ask(17, 1, mechanism="PLAIN")).error_code == 0
        assert (await asked.ask(36, 2, auth_bytes=b"\0ann\0a")).error_code == 0
        assert w.core.events == [], "nobody was heard"


NOWHERE = NetworkAuthorizer((ip_network("10.9.0.0/16"),), (ip_network("10.9.0.0/16"),))
ASKED = {
    7: (3, {"broker_id": 1, "broker_epoch": 1}),
    43: (2, {"election_type": 0, "topic_partitions": None, "timeout": 1_000}),
    45: (0, {"timeout": 1_000, "topics": ()}),
    51: (0, {"deletions": [{"name": "carl", "mechanism": 1}], "upsertions": ()}),
    56: (3, {"broker_id": 1, "broker_epoch": 1, "topics": ()}),
    57: (1, {"timeout": 1_000, "feature_updates": (), "validate_only": True}),
    67: (0, {"broker_id": 1, "broker_epoch": 1}),
}


@pytest.mark.parametrize("api_key", sorted(ASKED))
async def test_in_plain_text_networks_judge_whoever_acts_or_administers(api_key):
    version, values = ASKED[api_key]
    assert "networks" in TABLE["in_plain_text"](api_key)
    async with rpc_world(authorizer=NOWHERE) as w:
        answer = await w.ask(api_key, version, **values)
        assert "error_code=<ErrorCode.cluster_authorization_failed" in repr(answer), answer
        assert w.core.events == []
        assert (await w.ask(60, 0, include_cluster_authorized_operations=False)).error_code == 0, "to look is free"


class Counting(AclAuthorizer):
    """Counts how often it is asked about each requester."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: dict[Requester, int] = {}

    def allows(self, requester: Requester, operation: Operation, resource: AclResource) -> bool:
        self.asked[requester] = self.asked.get(requester, 0) + 1
        return super().allows(requester, operation, resource)


def requester(number: int) -> Requester:
    return Requester(Principal("User", str(number)), "10.0.0.1")


async def test_a_requester_that_asks_often_is_not_dropped_for_new_ones() -> None:
    authorizer = Counting()
    visible = VisibleTopics(authorizer)
    often = requester(0)
    for number in range(1, 3 * REQUESTERS):
        assert await visible.among(["t"], often) == []
        await visible.among(["t"], requester(number))
    assert authorizer.asked[often] == 1
    await visible.among(["t"], requester(1))
    assert authorizer.asked[requester(1)] == 2, "who asked longest ago was dropped"


async def test_changed_permissions_are_asked_for_again() -> None:
    authorizer = Counting()
    visible = VisibleTopics(authorizer)
    assert await visible.among(["t", "u"], requester(0)) == []
    allowed = Acl(Principal("User", "0"), "*", Operation.DESCRIBE, Permission.ALLOW)
    authorizer.replace({ResourcePattern(ResourceType.TOPIC, "u", False): [allowed]})
    assert await visible.among(["t", "u"], requester(0)) == ["u"]
