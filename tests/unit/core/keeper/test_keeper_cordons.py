"""Cordons of brokers that an intent drains: who can be cordoned, and whose cordon outlived its intent."""

from __future__ import annotations

from dataclasses import replace

import pytest
from keeper_clusters import cluster

from shunter.core.keeper.cordons import outlived, why_not_cordoned, with_cordons
from shunter.core.planning.request import Scope
from shunter.model.check_up import CheckedJournal
from shunter.model.execution import ExecutionOptions
from shunter.model.inventory import Disk
from shunter.model.keeper import Intents, KeeperPolicy

DRAINS = KeeperPolicy(intents=Intents(drain=(2, 9), cordon=True))

WAY_OUT = "take `cordon` out of the policy's intents to drain without it"


def seen(cordoned: bool | None):
    found = cluster({"t": [[1, 2], [2, 3]]})
    brokers = tuple(
        broker._replace(log_dirs=(Disk("/d", 100.0, 50.0, cordoned=cordoned),)) for broker in found.inventory.brokers
    )
    return replace(found, inventory=found.inventory._replace(brokers=brokers))


@pytest.mark.parametrize(
    ("cordoned", "scope", "policy", "told"),
    [
        (False, Scope.DRAIN, DRAINS, []),
        (None, Scope.DRAIN, replace(DRAINS, intents=Intents(drain=(2,))), []),
        (None, Scope.OFFLINE, DRAINS, []),
        (
            None,
            Scope.DRAIN,
            DRAINS,
            [f"broker 2 can't be cordoned: cordoned.log.dirs came with Kafka 4.3; {WAY_OUT}"],
        ),
    ],
)
def test_a_broker_from_before_kafka_4_3_is_named(cordoned, scope, policy, told) -> None:
    assert [*why_not_cordoned(seen(cordoned), scope, policy)] == told


def test_a_drain_cordons_live_brokers_alone_and_other_scopes_none() -> None:
    plain = ExecutionOptions(throttle=5)
    assert with_cordons(plain, "drain", seen(False), DRAINS) == replace(plain, cordons=((2, "*"),))
    assert with_cordons(plain, "rebalance", seen(False), DRAINS) is plain


def test_only_cordons_of_the_service_outlive_an_intent() -> None:
    journal = CheckedJournal("j", cordons={1: "drain-0a1b2c", 2: "drain-0a1b2c", 3: "0a1b2c3d4e5f"})
    assert outlived(journal, DRAINS) == (1,)
    assert outlived(journal, KeeperPolicy()) == (1, 2)
