"""What others are told to connect to."""

import pytest

from shunter.app.controller.process import registered_endpoints
from shunter.drivers.listener.server import Listener
from shunter.errors import SettingsError
from shunter.model.security.listeners import ListenerSecurity, SecurityProtocol, SecuritySettings

PLAIN = SecuritySettings()


def test_a_listener_is_registered_where_it_listens():
    (endpoint,) = registered_endpoints((Listener("PLAINTEXT", "10.0.0.5", 9090),), (), PLAIN)
    assert (endpoint.listener, endpoint.host, endpoint.port) == ("PLAINTEXT", "10.0.0.5", 9090)


def test_an_advertised_address_takes_its_place():
    opened = (Listener("PLAINTEXT", "0.0.0.0", 9090), Listener("INTERNAL", "10.0.0.5", 9091))
    outer, inner = registered_endpoints(opened, (Listener("PLAINTEXT", "kafka.example.org", 0),), PLAIN)
    assert (outer.host, outer.port) == ("kafka.example.org", 9090)
    assert (inner.host, inner.port) == ("10.0.0.5", 9091)


def test_an_empty_host_is_registered_by_the_machines_name():
    (endpoint,) = registered_endpoints((Listener("PLAINTEXT", "", 9090),), (), PLAIN)
    assert endpoint.host not in {"", "0.0.0.0"}


@pytest.mark.parametrize(
    ("opened", "advertised", "told"),
    [
        ((Listener("PLAINTEXT", "0.0.0.0", 9090),), (), "advertised_listener=PLAINTEXT://HOST:9090"),
        ((Listener("PLAINTEXT", "a", 1),), (Listener("OUTER", "b", 2),), "no listener has that name"),
    ],
)
def test_what_nobody_could_connect_to_is_refused(opened, advertised, told):
    with pytest.raises(SettingsError, match=told):
        registered_endpoints(opened, advertised, PLAIN)


def test_two_listeners_of_one_name_are_refused():
    opened = (Listener("PLAINTEXT", "10.0.0.5", 9090), Listener("PLAINTEXT", "10.0.0.5", 9091))
    with pytest.raises(SettingsError, match=r"PLAINTEXT.*repeat"):
        registered_endpoints(opened, (), PLAIN)


def test_the_protocol_that_is_spoken_is_registered():
    secured = SecuritySettings({"INTERNAL": ListenerSecurity(SecurityProtocol.SASL_SSL)})
    opened = (Listener("INTERNAL", "10.0.0.5", 9091), Listener("PLAINTEXT", "10.0.0.5", 9090))
    assert [each.security_protocol for each in registered_endpoints(opened, (), secured)] == ["SASL_SSL", "PLAINTEXT"]
