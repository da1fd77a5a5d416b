"""Every API on a listener with a login, before the login; and on a plaintext listener, from networks without rights.

The table in docs/security.md says the same, by the same values.
"""

from __future__ import annotations

import runpy
from contextlib import asynccontextmanager
from ipaddress import ip_network
from pathlib import Path

import pytest
from rpc_world import RpcWorld, rpc_world

from shunter.core.authorizer import NetworkAuthorizer
from shunter.drivers.brokers.relay import PASSED_ON
from shunter.drivers.listener.connection import OF_LOGINS
from shunter.drivers.listener.gate import ListenerGate
from shunter.drivers.listener.handlers.dispatch import HANDLERS
from shunter.drivers.listener.server import RpcServer, parse_listener
from shunter.model.security.listeners import ListenerSecurity, SaslSettings, Secret, SecurityProtocol
from shunter.wire.framing import request_frame_head

TABLE = runpy.run_path(str(Path(__file__).parents[3] / "scripts" / "document-rights"))
EVERY = sorted(HANDLERS.keys() | PASSED_ON.keys())
PLAIN = ListenerSecurity(SecurityProtocol.SASL_PLAINTEXT, sasl=SaslSettings(("PLAIN",), {"ann": Secret("a")}))


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
