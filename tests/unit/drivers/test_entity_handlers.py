"""AlterUserScramCredentials (51) and UpdateFeatures (57) as clients send them, before anything is written."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from rpc_world import rpc_world

from shunter.drivers.listener.handlers import dispatch
from shunter.drivers.zookeeper.feature_keeper import FeatureKeeper
from shunter.drivers.zookeeper.mutation_quotas import MutationQuotas
from shunter.drivers.zookeeper.user_configs import UserConfigs
from shunter.errors import ErrorCode


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
