"""AlterUserScramCredentials (51) and UpdateFeatures (57) as clients send them, before anything is written."""

from __future__ import annotations

import pytest
from rpc_world import rpc_world


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
