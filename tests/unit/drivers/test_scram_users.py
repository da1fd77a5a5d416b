"""Logins by SCRAM while ZooKeeper answers, and while it is silent."""

import asyncio

import pytest

from shunter.drivers.zookeeper import scram_users
from shunter.drivers.zookeeper.requests import Znode
from shunter.drivers.zookeeper.scram_users import ScramUsers
from shunter.errors import DriverError
from shunter.formats.znodes.configs import encode_config
from shunter.formats.znodes.paths import config

MECHANISM = "SCRAM-SHA-256"
KEPT = "salt=c2FsdA==,stored_key=a2V5,server_key=a2V5,iterations=4096"


class ZooKeeperThatMayBeSilent:
    connected = True
    silent = False

    async def get(self, path):
        if self.silent:
            await asyncio.get_running_loop().create_future()
        if path != config("users", "ann"):
            return None
        return Znode(encode_config({MECHANISM: KEPT}), 1, 1, 0, 0, 0, 0)


async def test_who_logged_in_before_is_let_in_while_zookeeper_is_silent_and_nobody_waits_for_ever(monkeypatch):
    monkeypatch.setattr(scram_users, "READ_SECONDS", 0.05)
    users = ScramUsers()
    users.client = ZooKeeperThatMayBeSilent()
    known = await users.credential("ann", MECHANISM)
    assert known is not None
    users.client.silent = True
    async with asyncio.timeout(20):
        assert await users.credential("ann", MECHANISM) == known
        with pytest.raises(DriverError, match="has not answered"):
            await users.credential("bob", MECHANISM)
