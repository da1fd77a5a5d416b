"""Logins to brokers: by a token that all connections share, and again before a session ends."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from fake_broker import FakeBroker
from kio.index import load_response_schema

from shunter.core.controller.events import RequestAnswered
from shunter.core.controller.ready import ConnectBrokers, SendUpdateMetadata
from shunter.core.controller_check import Cause
from shunter.drivers.brokers.access import BrokerAccess
from shunter.drivers.brokers.channels import Channels
from shunter.drivers.brokers.connection import BrokerConnection
from shunter.drivers.brokers.relay import Relay
from shunter.drivers.election.check import ask
from shunter.drivers.listener.handlers.messages import filled
from shunter.drivers.security.shared_tokens import SharedTokens
from shunter.errors import DriverError, FormatError
from shunter.model.broker import Broker, Endpoint
from shunter.model.security.listeners import (
    BearerLogin,
    ClientCredentials,
    ListenerSecurity,
    SaslLogin,
    SaslSettings,
    Secret,
    SecurityProtocol,
    SecuritySettings,
    TokenFile,
)
from token_endpoint import TokenEndpoint

LOGINS = 36


class Guarded(FakeBroker):
    """A broker that requires a login; it answers tokens as `hears` does."""

    def __post_init__(self):
        super().__post_init__()
        self.session_ms = 0
        self.hears = lambda token: {}
        self.relayed = {17: self._handshake, LOGINS: self._authenticate}

    @property
    def broker(self):
        return Broker(self.id, self.epoch, (Endpoint("GUARDED", "SASL_PLAINTEXT", "127.0.0.1", self.port),))

    def told(self, api_key):
        return [heard for heard in self.heard if heard.api_key == api_key]

    def _handshake(self, message, version):
        return filled(load_response_schema(17, version), {"error_code": 0, "mechanisms": [message.mechanism]})

    def _authenticate(self, message, version):
        answer = {"error_code": 0, "auth_bytes": b"", "session_lifetime": self.session_ms}
        return filled(load_response_schema(36, version), answer | self.hears(bytes(message.auth_bytes)))


def access(login):
    guarded = ListenerSecurity(SecurityProtocol.SASL_PLAINTEXT, sasl=SaslSettings(("PLAIN",), login=login))
    return BrokerAccess(SecuritySettings({"GUARDED": guarded}, "GUARDED"), {})


PASSWORD = SaslLogin("PLAIN", "me", Secret("p"))


@asynccontextmanager
async def guarded():
    broker = await Guarded(1).start()
    try:
        yield broker
    finally:
        await broker.stop()


@pytest.fixture
def endpoint():
    with TokenEndpoint({"me": "planted"}) as serving:
        yield serving


def by_endpoint(endpoint, secret="planted"):
    return BearerLogin(ClientCredentials(endpoint.url, "me", Secret(secret), None), {"logicalCluster": "lkc-1"})


async def test_a_token_is_shown_and_what_is_told_besides(endpoint):
    async with guarded() as broker:
        connection = await BrokerConnection.open(broker.broker.endpoints[0], access=access(by_endpoint(endpoint)))
        connection.close()
        (shown,) = broker.told(LOGINS)
        said = bytes(shown.message.auth_bytes)
        assert said.startswith(b"n,,\x01auth=Bearer ey")
        assert said.endswith(b"\x01logicalCluster=lkc-1\x01\x01")
        assert connection.renew_at is None


async def test_a_token_that_a_broker_refuses_is_told_without_it(endpoint):
    async with guarded() as broker:

        def refuse(token):
            if token != b"\x01":
                return {"auth_bytes": b'{"status":"invalid_token"}'}
            return {"error_code": 58, "error_message": '{"status":"invalid_token"}'}

        broker.hears = refuse
        with pytest.raises(FormatError, match=r"login at 127.*as me: the broker refuses it: .*invalid_token") as told:
            await BrokerConnection.open(broker.broker.endpoints[0], access=access(by_endpoint(endpoint)))
        assert "ey" not in str(told.value)
        assert len(broker.told(LOGINS)) == 2, "it is told that we heard"


async def test_without_a_token_a_broker_is_not_bothered(endpoint):
    async with guarded() as broker:
        with pytest.raises(FormatError, match=r"as me: no token: .*answers 401: invalid_client") as told:
            await BrokerConnection.open(
                broker.broker.endpoints[0], access=access(by_endpoint(endpoint, "planted-and-wrong"))
            )
        assert "planted" not in str(told.value)
        assert not broker.heard


async def test_a_check_tells_a_refused_login_from_other_failures():
    async with guarded() as broker:
        broker.hears = lambda _: {"error_code": 58, "error_message": "no such user"}
        found = await ask(broker.broker, "GUARDED", (), asyncio.Semaphore(1), access(PASSWORD))
    assert found.cause is Cause.LOGIN
    assert "as me: the broker refuses it: no such user" in found.unreachable


async def test_many_connections_ask_once(endpoint):
    tokens = SharedTokens(by_endpoint(endpoint))
    assert len(set(await asyncio.gather(*(tokens.token() for _ in range(50))))) == 1
    assert len(endpoint.asked) == 1


async def test_nobody_waits_for_another_token_while_there_is_a_good_one(endpoint):
    now = [1_000_000.0]
    tokens = SharedTokens(by_endpoint(endpoint), lambda: now[0])
    first = await tokens.token()
    endpoint.status = 503
    now[0] += 0.9 * endpoint.lives_s
    assert await tokens.token() == first
    now[0] += 0.2 * endpoint.lives_s
    with pytest.raises(DriverError, match="answers 503"):
        await tokens.token()
    asked = len(endpoint.asked)
    for _ in range(20):
        with pytest.raises(DriverError, match="answers 503"):
            await tokens.token()
    assert len(endpoint.asked) == asked, "an issuer in trouble is not asked each time"


async def test_whoever_does_not_wait_leaves_the_answer_to_others(endpoint):
    tokens = SharedTokens(by_endpoint(endpoint))
    impatient = asyncio.create_task(tokens.token())
    await asyncio.sleep(0)
    impatient.cancel()
    assert await tokens.token()
    assert len(endpoint.asked) == 1


async def test_a_token_in_a_file_is_read_at_each_login(tmp_path):
    path = tmp_path / "token"
    tokens = SharedTokens(BearerLogin(TokenFile(str(path)), {}))
    for text in ("one", "two"):
        path.write_text(text)
        assert await tokens.token() == text


async def test_a_channel_logs_in_again_on_the_same_connection_before_its_session_ends():
    async with guarded() as broker:
        broker.session_ms = 1_000  # Brokers accept the next login after a second.
        answered = asyncio.Event()

        def post(event):
            if isinstance(event, RequestAnswered):
                answered.set()

        channels = Channels(9, post, access=access(PASSWORD))
        channels.send(ConnectBrokers((broker.broker,)))

        async def update(number):
            answered.clear()
            channels.send(SendUpdateMetadata(number, (1,), 5, 7, (broker.broker,), (), {}, False))
            async with asyncio.timeout(40):
                await answered.wait()

        await update(1)
        await broker.until(lambda: len(broker.told(LOGINS)) == 2)
        await update(2)
        await broker.until(lambda: len(broker.told(LOGINS)) == 3)
        await channels.close()
        assert broker.connections == channels.stats.connections == 1
        assert channels.stats.lost == 0
        assert [heard.api_key for heard in broker.heard][:6] == [17, 36, 6, 17, 36, 6]


async def test_while_an_answer_is_due_no_channel_logs_in_again():
    async with guarded() as broker:
        broker.session_ms = 1_000
        channels = Channels(9, lambda event: None, access=access(PASSWORD))
        channels.send(ConnectBrokers((broker.broker,)))
        await broker.until(lambda: len(broker.told(LOGINS)) == 1)
        broker.answering.clear()
        for number in (1, 2, 3):
            channels.send(SendUpdateMetadata(number, (1,), 5, 7, (broker.broker,), (), {}, False))
        with pytest.raises(TimeoutError):
            await broker.until(lambda: len(broker.told(17)) > 1, seconds=1.5)
        broker.answering.set()
        await broker.until(lambda: len(broker.told(LOGINS)) == 2)
        await channels.close()
        assert [heard.api_key for heard in broker.heard][:7] == [17, 36, 6, 6, 6, 17, 36]
        assert broker.connections == 1


async def test_a_relays_connection_ends_before_its_session_does():
    async with guarded() as broker:
        broker.session_ms = 1_000
        made = {"error_code": 0, "producer_id": 5, "producer_epoch": 0}
        broker.relayed[22] = lambda _, version: filled(load_response_schema(22, version), made)
        relay = Relay(lambda: (broker.broker,), access(PASSWORD))
        frame = b"\x00\x16\x00\x00\x00\x00\x00\x07\xff\xff\xff\xff\x00\x00\x00\x01"
        await relay.pass_on(frame, None)
        (pool,) = relay._pools.values()
        async with asyncio.timeout(40):
            await pool[0].closed()
        await relay.pass_on(frame, None)
        await relay.close()
        assert broker.connections == 2
        assert [heard.connection for heard in broker.told(22)] == [1, 2]
