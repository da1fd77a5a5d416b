"""Refusals on a plaintext listener, by networks and by ACLs; tests of a secured cluster are in tests/real."""

from ipaddress import ip_network
from uuid import UUID

from rpc_world import partition, rpc_world, topic

from shunter.core.authorizer import AclAuthorizer, NetworkAuthorizer
from shunter.core.controller.events import ProducerIdsRequested
from shunter.core.controller.ready import ProducerIdsReply
from shunter.drivers.listener.gate import kafkas_address
from shunter.errors import ErrorCode
from shunter.model.security.acl import Acl, Operation, Permission, ResourcePattern, ResourceType
from shunter.model.security.principal import ANONYMOUS

CLUSTER_FAILED, TOPIC_FAILED = 31, 29
ELSEWHERE = (ip_network("10.0.0.0/8"),)
HERE = (ip_network("127.0.0.0/8"),)


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
