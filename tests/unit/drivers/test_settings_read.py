"""Settings are read from brokers in portions: an answer about every topic could be too long for a frame."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from kafka.admin import ConfigResource

from shunter.drivers.admin.settings import PER_REQUEST, effective, min_insync, read_settings, topic_settings
from shunter.model.execution import ThrottleKey

TOPICS = [f"t{number:04}" for number in range(2 * PER_REQUEST + 1)]
LIST = "leader.replication.throttled.replicas"


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
