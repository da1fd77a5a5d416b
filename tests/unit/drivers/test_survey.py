"""Before an election: whether brokers can be reached and would find the controller, and why not."""

import asyncio
import contextlib
import socket
import ssl
from contextlib import asynccontextmanager
from datetime import timedelta
from types import SimpleNamespace

import pytest
from fake_broker import FakeBroker
from kio.schema.describe_configs.v1.response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from kio.schema.errors import ErrorCode
from kio.static.primitive import i8, i32Timedelta
from test_seat_refusals import RefusingPlace

from certificate_cases import ROOT
from made_certificates import Made, authority, issued
from shunter.core.controller.events import Elected, SessionExpired
from shunter.core.controller.ready import ConnectBrokers, SendUpdateMetadata
from shunter.core.controller_check import Cause
from shunter.drivers.brokers.access import PLAIN_ACCESS, BrokerAccess
from shunter.drivers.brokers.channels import Channels
from shunter.drivers.election.check import ask, way_back
from shunter.drivers.election.seat import ControllerSeat
from shunter.drivers.election.survey import CONTROL_PLANE, INTER_BROKER, PROTOCOL, Listeners, Survey
from shunter.drivers.listener.server import Listener
from shunter.drivers.security.tls import TlsContexts
from shunter.model.broker import Broker, Endpoint
from shunter.model.security.listeners import (
    ClientAuth,
    KeyStore,
    ListenerSecurity,
    Secret,
    SecurityProtocol,
    SecuritySettings,
    TlsSettings,
)


def us(*names):
    return Broker(1000, 0, tuple(Endpoint(name, "PLAINTEXT", "127.0.0.1", 9000) for name in names))


class Registered:
    """Replaces the reader of registrations."""

    def __init__(self, *brokers):
        self.found = brokers

    async def brokers(self):
        return SimpleNamespace(brokers=self.found)


def configured(broker, error=ErrorCode.none, **values):
    """Make a broker answer DescribeConfigs."""
    names = {"control_plane": CONTROL_PLANE, "inter_broker": INTER_BROKER, "protocol": PROTOCOL}
    broker.ranges[32] = (1, 4)

    def answer(request, version):
        assert version == 1
        (resource,) = request.resources
        assert resource.resource_name == str(broker.id)
        configs = tuple(
            DescribeConfigsResourceResult(
                name=name, value=values.get(key), read_only=True, config_source=i8(4), is_sensitive=False, synonyms=()
            )
            for key, name in names.items()
            if name in resource.configuration_keys
        )
        result = DescribeConfigsResult(
            error_code=error, error_message=None, resource_type=i8(4), resource_name=str(broker.id), configs=configs
        )
        return DescribeConfigsResponse(throttle_time=i32Timedelta.parse(timedelta()), results=(result,))

    broker.relayed[32] = answer
    return broker


@asynccontextmanager
async def one(**values):
    broker = await configured(FakeBroker(1), **values).start()
    try:
        yield broker
    finally:
        await broker.stop()


async def judge(*brokers, names=("PLAINTEXT",), listener=None):
    survey = Survey(us(*names), listener)
    return await survey.obstacle(Registered(*brokers)), survey.found


async def test_nobody_to_ask_is_no_obstacle():
    assert await judge() == (None, None)
    assert await judge(us("PLAINTEXT")) == (None, None), "our own registration is nobody"


async def test_brokers_that_find_us():
    async with one(protocol="PLAINTEXT") as broker:
        assert await judge(broker.broker) == (None, Listeners(None, "PLAINTEXT"))
    async with one(inter_broker="INSIDE", protocol="PLAINTEXT", control_plane="CONTROL") as broker:
        told, found = await judge(broker.broker, names=("CONTROL", "INSIDE"))
        assert told is None
        assert found.names == ("CONTROL", "INSIDE")


@pytest.mark.parametrize(
    ("values", "names", "missing"),
    [
        ({"inter_broker": "INSIDE"}, ("PLAINTEXT",), "INSIDE"),
        ({"protocol": "SSL"}, ("PLAINTEXT",), "SSL"),
        ({"control_plane": "CONTROL", "inter_broker": "INSIDE"}, ("INSIDE",), "CONTROL"),
        ({"control_plane": "CONTROL", "inter_broker": "INSIDE"}, ("CONTROL",), "INSIDE"),
    ],
)
async def test_brokers_that_would_not_find_us(values, names, missing):
    async with one(**values) as broker:
        told, _ = await judge(broker.broker, names=names)
        assert told.startswith("brokers would not find us: ")
        assert f"--listener {missing}://HOST:PORT" in told


async def test_brokers_that_can_not_be_reached(free_port):
    dead = Broker(1, 1, (Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", free_port),))
    secured = Broker(2, 1, (Endpoint("SSL", "SSL", "127.0.0.1", free_port),))
    told, _ = await judge(secured)
    assert told.startswith(
        "no broker of 1 has a listener that we can use: broker 2: no listener that we can use among [SSL:SSL]"
    )
    told, _ = await judge(dead, secured)
    assert told.startswith(f"no broker of 1 can be reached: broker 1 at 127.0.0.1:{free_port}: ")
    async with one(protocol="PLAINTEXT") as broker:
        many = [Broker(id_, 1, dead.endpoints) for id_ in range(10, 20)]
        assert await judge(*many, broker.broker) == (None, Listeners(None, "PLAINTEXT"))


async def test_a_broker_that_takes_connections_and_answers_nothing_is_not_reached(monkeypatch):
    """As a frozen one, or one behind a proxy whose other end is gone: the kernel takes the connection."""
    monkeypatch.setattr("shunter.drivers.election.survey.OPEN_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        frozen = Broker(1, 1, (Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", port),))
        told, _ = await judge(frozen)
        assert told == f"no broker of 1 can be reached: broker 1 at 127.0.0.1:{port}: no answer"
        async with one(protocol="PLAINTEXT") as broker:
            assert await judge(frozen, broker.broker) == (None, Listeners(None, "PLAINTEXT"))


async def test_what_can_not_be_found_out_is_no_obstacle():
    async with one(error=ErrorCode.cluster_authorization_failed) as broker:
        assert await judge(broker.broker) == (None, None)
        del broker.ranges[32]
        assert await judge(broker.broker) == (None, None)


async def test_the_listener_that_brokers_name_is_preferred_where_they_have_it():
    both = (Endpoint("PLAINTEXT", "PLAINTEXT", "h", 1), Endpoint("CONTROL", "PLAINTEXT", "h", 2))
    channels = Channels(9, lambda _: None)
    channels.preferred_listener = "CONTROL"
    assert channels.endpoint(Broker(1, 1, both)).port == 2
    assert channels.endpoint(Broker(1, 1, both[:1])).port == 1
    channels = Channels(9, lambda _: None, listener="PLAINTEXT")
    channels.preferred_listener = "CONTROL"
    assert channels.endpoint(Broker(1, 1, both)).port == 1, "what the operator says goes first"


@asynccontextmanager
async def cold_start(own_listeners):
    """One broker with two listeners that starts after the controller; return the events that its channel posts."""
    told = {"control_plane": "CONTROL", "inter_broker": "PLAINTEXT"}
    async with one(**told) as plain, one(**told) as control:
        ports = {"OUTSIDE": 1, "PLAINTEXT": plain.port, "CONTROL": control.port}
        endpoints = tuple(Endpoint(name, "PLAINTEXT", "127.0.0.1", port) for name, port in ports.items())
        events = []
        channels = Channels(9, events.append, own_listeners=own_listeners)
        channels.send(ConnectBrokers((Broker(1, 1, endpoints),)))
        channels.send(SendUpdateMetadata(2, (1,), 5, 9, (), (), {}))
        try:
            yield plain, control, events
        finally:
            await channels.close()


async def test_a_broker_that_comes_after_its_controller_is_asked_which_listener_it_means():
    async with cold_start(("PLAINTEXT", "CONTROL")) as (plain, control, events):
        await control.until_heard(1)
        assert plain.connections == 1
        assert {heard.api_key for heard in plain.heard} == {32}, "it is asked for its settings, and hears no more"
        assert not any(isinstance(event, SessionExpired) for event in events)


async def test_who_can_not_be_found_by_brokers_that_come_later_resigns():
    async with cold_start(("PLAINTEXT",)) as (_, control, events):
        await control.until_heard(1)
        (resigned,) = [event for event in events if isinstance(event, SessionExpired)]
        assert resigned.reason.startswith("brokers would not find us: control.plane.listener.name is CONTROL")


async def test_before_an_election_the_listener_that_is_called_as_ours_is_asked_first():
    async with one(protocol="PLAINTEXT") as broker:
        (endpoint,) = broker.broker.endpoints
        outside = Endpoint("OUTSIDE", "PLAINTEXT", "127.0.0.1", 1)
        assert await judge(Broker(1, 1, (outside, endpoint))) == (None, Listeners(None, "PLAINTEXT"))


def test_who_is_unfit_does_not_stand_and_says_why():
    place = RefusingPlace()
    unfit = ["brokers would not find us"]

    async def survey(reader):
        assert (await reader.brokers()).brokers == ()
        return unfit[0] if unfit else None

    place.seat = ControllerSeat(place.seat.client, us("PLAINTEXT"), place.posted.append, survey=survey)
    place.run(place.seat.start())
    place.pass_seconds(20)
    assert place.controller() is None
    assert place.seat.troubles == ("brokers would not find us",)
    unfit.clear()
    place.pass_seconds(5)
    assert place.controller() is not None
    assert place.seat.troubles == ()


def test_who_gave_the_seat_back_because_no_broker_was_reached_stands_again_when_one_is():
    """The survey from before the term says nothing: it was a moment ago that everything was well."""
    place = RefusingPlace()
    unfit = []

    async def survey(_):
        return unfit[0] if unfit else None

    place.seat = ControllerSeat(place.seat.client, us("PLAINTEXT"), place.posted.append, survey=survey)
    place.run(place.seat.start())
    place.pass_seconds(5)
    (term,) = place.told(Elected)
    unfit.append("no broker of 3 can be reached")
    place.seat.give_back(term.controller_epoch, "we have reached none of 3 live brokers")
    place.pass_seconds(1)
    assert place.controller() is None, "others need not wait"
    place.pass_seconds(120)
    assert place.controller() is None
    assert len(place.told(Elected)) == 1
    assert place.seat.troubles == ("no broker of 3 can be reached",)
    unfit.clear()
    place.pass_seconds(5)
    assert len(place.told(Elected)) == 2


async def test_what_a_broker_does_not_say_is_logged_once(caplog):
    """A standby repeats the survey every 15 s."""
    caplog.set_level("INFO")
    async with one(error=ErrorCode.cluster_authorization_failed) as broker:
        survey = Survey(us("PLAINTEXT"), None)
        for _ in range(3):
            assert await survey.obstacle(Registered(broker.broker)) is None
    assert len([line for line in caplog.messages if "does not say" in line]) == 1


def settings(made: Made, trusted: Made = ROOT, client_auth: ClientAuth = ClientAuth.NONE) -> TlsSettings:
    return TlsSettings(
        KeyStore("PEM", text=Secret(made.pem())), KeyStore("PEM", text=Secret(trusted.public)), client_auth
    )


def hang_up(listening: socket.socket, context: ssl.SSLContext) -> None:
    """Shake hands with a client, and close; if that fails, as Java does: after the alert has arrived."""
    accepted, _ = listening.accept()
    accepted.settimeout(10)
    with context.wrap_socket(accepted, server_side=True, do_handshake_on_connect=False) as wrapped:
        with contextlib.suppress(OSError):
            wrapped.do_handshake()
        wrapped.shutdown(socket.SHUT_WR)
        with contextlib.suppress(OSError):
            while wrapped.recv(65_536):
                pass


async def asked(ours: TlsSettings, theirs: TlsSettings):
    """Ask a broker that speaks TLS by its settings, and hangs up after the handshake."""
    security = SecuritySettings({"SAFE": ListenerSecurity(SecurityProtocol.SSL, ours)}, "SAFE")
    access = BrokerAccess(security, {"SAFE": TlsContexts(ours, "listener SAFE")})
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(10)
        serving = asyncio.create_task(asyncio.to_thread(hang_up, listening, TlsContexts(theirs, "broker").server))
        broker = Broker(1, 1, (Endpoint("SAFE", "SSL", "127.0.0.1", listening.getsockname()[1]),))
        found = await ask(broker, "SAFE", (), asyncio.Semaphore(1), access)
        await serving
    return found


GOOD = issued("x", ROOT)


@pytest.mark.parametrize(
    ("ours", "theirs", "cause", "told"),
    [
        (settings(GOOD), settings(GOOD), Cause.CLOSED, "closed by the broker"),
        (
            settings(GOOD),
            settings(issued("x", authority("other"))),
            Cause.ITS_CERTIFICATE,
            "unable to get local issuer",
        ),
        (settings(GOOD), settings(issued("x", ROOT, days=(-9, -1))), Cause.ITS_CERTIFICATE, "has expired"),
        (settings(GOOD), settings(issued("x", ROOT, names=["DNS:y"])), Cause.ITS_HOST, "IP address mismatch"),
        (
            settings(issued("x", authority("other"))),
            settings(GOOD, client_auth=ClientAuth.REQUIRED),
            Cause.OUR_CERTIFICATE,
            "ALERT_UNKNOWN_CA",
        ),
    ],
)
async def test_tls_that_does_not_come_about_names_whose_certificate_it_is(ours, theirs, cause, told):
    found = await asked(ours, theirs)
    assert found.cause is cause
    assert told.lower() in found.unreachable.lower()


async def test_a_broker_without_a_listener_that_we_know_and_one_that_is_down():
    broker = Broker(1, 1, (Endpoint("SAFE", "SSL", "127.0.0.1", 1),))
    found = await ask(broker, None, (), asyncio.Semaphore(1), PLAIN_ACCESS)
    assert found.cause is Cause.NO_LISTENER
    plain = Broker(1, 1, (Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 1),))
    assert (await ask(plain, None, (), asyncio.Semaphore(1), PLAIN_ACCESS)).cause is Cause.NETWORK


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
