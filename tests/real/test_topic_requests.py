"""CreateTopics, CreatePartitions and DeleteTopics against a controller of real brokers: time and content of answers."""

import uuid
from contextlib import ExitStack

import pytest
from raw_connection import RawConnection
from yard import TOPICS

from shunter.wire.requests import CREATE_PARTITIONS, CREATE_TOPICS, DELETE_TOPICS, METADATA

UNKNOWN_TOPIC = 3
TIMEOUT_MS = 20_000


@pytest.fixture
def connection(yard):
    with RawConnection(yard.controller.port) as opened:
        yield opened


@pytest.fixture
def brokers(yard):
    """A connection to each live broker, opened before anything is asked."""
    with ExitStack() as stack:
        live = [broker for broker in yard.cluster.brokers.values() if broker.alive]
        yield [stack.enter_context(RawConnection(broker.port)) for broker in live]


def leaders(connection, name):
    """Leaders of a topic's partitions in one broker's metadata; None if it does not know the topic."""
    asked = {"topics": [{"name": name}], "allow_auto_topic_creation": False}
    (told,) = connection.ask(METADATA, 9, asked).topics
    return None if int(told.error_code) == UNKNOWN_TOPIC else [one.leader_id for one in told.partitions]


def topic_id(connection, name):
    asked = {"topics": [{"name": name, "topic_id": None}], "allow_auto_topic_creation": False}
    return connection.ask(METADATA, 12, asked).topics[0].topic_id


def told_of(connection, asked):
    response = connection.ask(METADATA, 12, {"topics": asked, "allow_auto_topic_creation": True})
    return {(each.name, each.topic_id, int(each.error_code)) for each in response.topics}


def create(connection, *topics, validate_only=False):
    whole = [{"assignments": [], "configs": [], **topic} for topic in topics]
    response = connection.ask(
        CREATE_TOPICS, 5, {"topics": whole, "timeout": TIMEOUT_MS, "validate_only": validate_only}
    )
    return {each.name: each for each in response.topics}


def grow(connection, name, count, assignments=None):
    asked = {"topics": [{"name": name, "count": count, "assignments": assignments}], "timeout": TIMEOUT_MS}
    (result,) = connection.ask(CREATE_PARTITIONS, 2, {**asked, "validate_only": False}).results
    return int(result.error_code), result.error_message


def delete(connection, *names):
    response = connection.ask(DELETE_TOPICS, 5, {"topic_names": names, "timeout": TIMEOUT_MS})
    return [int(each.error_code) for each in response.responses]


def test_whoever_is_answered_finds_the_topic_at_any_broker(yard, connection, brokers, topic):
    """Apache: "Create topics and wait until the topics have been completely created"."""
    names = [f"{topic}-{number}" for number in range(5)]
    made = create(connection, *({"name": name, "num_partitions": 6, "replication_factor": 2} for name in names))
    assert all(int(each.error_code) == 0 for each in made.values())
    for broker in brokers:
        for name in names:
            assert len(leaders(broker, name)) == 6
            assert min(leaders(broker, name)) > 0
    assert grow(connection, names[0], 9) == (0, None)
    for broker in brokers:
        assert len(leaders(broker, names[0])) == 9
        assert min(leaders(broker, names[0])) > 0
    assert delete(connection, *names) == [0] * len(names)
    for broker in brokers:
        assert [leaders(broker, name) for name in names] == [None] * len(names)


def test_topics_are_asked_for_by_id_as_at_any_broker(yard, connection, brokers, topic):
    """Java's client sends an empty name beside each id. The names of such a request are ignored."""
    made = create(connection, *({"name": f"{topic}-{n}", "num_partitions": 1, "replication_factor": 1} for n in "ab"))
    ids = dict(zip(sorted(made), (topic_id(connection, name) for name in sorted(made)), strict=True))
    (first, known), (second, other) = ids.items()
    by_id = [{"name": "", "topic_id": known}, {"name": "", "topic_id": uuid.uuid4()}, {"name": None, "topic_id": other}]
    mixed = [{"name": second, "topic_id": None}, {"name": "nobody", "topic_id": None}, {"name": "", "topic_id": known}]
    for asked in (by_id, mixed, [{"name": second, "topic_id": known}]):
        told = told_of(connection, asked)
        assert (first, known, 0) in told
        assert [told_of(broker, asked) for broker in brokers] == [told] * len(brokers)
    assert delete(connection, *made) == [0, 0]


def test_apaches_tool_is_told_in_apaches_words(yard, topic):
    bootstrap = ("--bootstrap-server", yard.bootstrap)
    # The tool validates configurations itself, with its own table. Only a server can validate an assignment.
    bad = ("--create", "--topic", topic, "--replica-assignment", "1:1000")
    refused = yard.cluster.kafka_tool(TOPICS, *bootstrap, *bad)
    assert refused.returncode != 0
    assert "1000 is the controller and holds no data" in refused.stdout + refused.stderr
    made = yard.cluster.kafka_tool(TOPICS, *bootstrap, "--create", "--topic", topic, "--config", "retention.ms=7")
    assert made.returncode == 0, made.stderr
    assert f"Created topic {topic}." in made.stdout
    yard.asked(lambda admin: admin.delete_topics([topic]))
