"""What the controller's version says about steps beside an offline replica: known, or unknown, and never guessed."""

from __future__ import annotations

from typing import Any

import pytest
from kafka import errors as kafka_errors

from shunter.drivers.admin.metadata import MetadataObserver
from shunter.model.features import SHUNTER_FEATURE

BEFORE, FIRST = 29, 30
"""The newest `metadata.version` of Kafka 4.2, and the first of 4.3."""


class Client:
    """A cluster of brokers 1 and 2: who leads its quorum (None: it has none), and which versions its nodes know."""

    pinned = 1

    def __init__(self, leader: int | None, newest: dict[int, int | None], in_force: int | None, features: Any = ()):
        self.leader, self.newest, self.in_force, self.features = leader, newest, in_force, features
        self.asked = 0

    def describe_cluster(self) -> dict[str, Any]:
        return {"controller_id": 1, "brokers": [{"broker_id": n, "host": "k", "port": n} for n in (1, 2)]}

    def describe_metadata_quorum(self) -> dict[str, Any]:
        if self.leader is None:
            raise kafka_errors.UnsupportedVersionError
        return {"topics": [{"partitions": [{"leader_id": self.leader}]}]}

    def newest_metadata_version(self, broker: int) -> int | None:
        self.asked += 1
        return self.newest[broker]

    def metadata_version(self) -> int | None:
        return self.in_force

    def describe_features(self, **_options: Any) -> Any:
        return self.features


@pytest.mark.parametrize(
    ("client", "needs_all"),
    [
        (Client(2, {2: FIRST}, BEFORE), False),
        (Client(2, {2: BEFORE}, BEFORE), True),
        (Client(2, {2: None}, None), None),
        (Client(3001, {}, FIRST), False),
        (Client(3001, {}, BEFORE), None),
        (Client(None, {}, None), True),
        (Client(None, {}, None, {SHUNTER_FEATURE: None}), None),
    ],
    ids=["4.3", "4.2", "untold", "apart, all 4.3", "apart, older in force", "ZooKeeper", "Shunter"],
)
def test_what_the_version_says_of_steps_beside_an_offline_replica(client: Client, *, needs_all: bool | None) -> None:
    """KAFKA-19975. Controllers that are no brokers may be newer than the version in force."""
    observer = MetadataObserver()
    assert observer.observe(client, (), sure=False).needs_all is needs_all
    asked = client.asked
    assert observer.observe(client, (), sure=False).needs_all is needs_all
    assert client.asked == asked, "it is not asked again at every look"
