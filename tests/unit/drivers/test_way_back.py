"""How `shunter controller --check` examines whether brokers could reach the controller's listeners."""

from __future__ import annotations

from shunter.drivers.election.check import way_back
from shunter.drivers.listener.server import Listener
from shunter.model.broker import Endpoint


async def test_a_listener_that_we_reach_ourselves():
    found = await way_back(Listener("X", "127.0.0.1", 0), Endpoint("X", "PLAINTEXT", "127.0.0.1", 0))
    assert found.addresses == ("127.0.0.1",)
    assert found.unreached is None


async def test_an_advertised_address_where_nobody_listens(free_port):
    found = await way_back(Listener("X", "127.0.0.1", 0), Endpoint("X", "PLAINTEXT", "127.0.0.1", free_port))
    assert found.addresses == ("127.0.0.1",)
    assert found.unreached


async def test_a_host_that_nobody_knows():
    found = await way_back(Listener("X", "127.0.0.1", 0), Endpoint("X", "PLAINTEXT", "nobody.invalid", 9090))
    assert found.addresses == ()
