"""Tokens of SASL OAUTHBEARER: got and renewed by a client, and judged by a listener."""

import asyncio
import base64
import json
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import orjson
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from rpc_world import RawClient, RpcWorld

from shunter.drivers.listener.gate import ListenerGate
from shunter.drivers.listener.server import RpcServer, parse_listener
from shunter.drivers.security.bearer_tokens import BearerTokens, with_tokens
from shunter.drivers.security.published_keys import ASKED_AGAIN_S
from shunter.drivers.security.token_validator import TokenValidator
from shunter.errors import DriverError
from shunter.model.security.listeners import (
    BearerLogin,
    ClientCredentials,
    ListenerSecurity,
    SaslSettings,
    Secret,
    SecurityProtocol,
    TokenFile,
    TokenRules,
    UnsecuredToken,
)
from shunter.wire.sasl import SaslRefused, read_bearer
from token_endpoint import TokenEndpoint

KEY, OTHER = (rsa.generate_private_key(65_537, 2_048) for _ in range(2))
CURVE = ec.generate_private_key(ec.SECP256R1())


class Clock:
    """A wall clock that the test sets."""

    def __init__(self) -> None:
        """Begin at some time."""
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def endpoint() -> Iterator[TokenEndpoint]:
    with TokenEndpoint({"me": "secret"}) as serving:
        yield serving


def tokens(endpoint: TokenEndpoint, clock: Clock, secret: str = "secret") -> BearerTokens:
    source = ClientCredentials(endpoint.url, "me", Secret(secret), "kafka")
    return BearerTokens(BearerLogin(source, {"logicalCluster": "lkc-1"}), clock)


def test_a_token_is_kept_and_renewed_before_it_ends(endpoint: TokenEndpoint, clock: Clock) -> None:
    provider = tokens(endpoint, clock)
    first = provider.token()
    assert (provider.token(), len(endpoint.asked)) == (first, 1)
    assert endpoint.asked[0] == {"grant_type": ["client_credentials"], "scope": ["kafka"]}
    clock.now += 0.81 * endpoint.lives_s
    assert provider.token() != first
    assert provider.extensions() == {"logicalCluster": "lkc-1"}


def test_the_old_token_serves_to_its_end_where_there_is_no_other(endpoint: TokenEndpoint, clock: Clock) -> None:
    provider = tokens(endpoint, clock)
    first = provider.token()
    endpoint.status = 503
    clock.now += 0.9 * endpoint.lives_s
    assert [provider.token(), provider.token()] == [first, first]
    assert len(endpoint.asked) == 2, "an endpoint in trouble is not asked each time"
    clock.now += 0.2 * endpoint.lives_s
    with pytest.raises(DriverError, match="answers 503") as refused:
        provider.token()
    assert refused.value.retriable


def test_a_wrong_secret_is_final(endpoint: TokenEndpoint, clock: Clock) -> None:
    with pytest.raises(DriverError, match=r"answers 401.*invalid_client") as refused:
        tokens(endpoint, clock, "guessed").token()
    assert not refused.value.retriable


@pytest.mark.parametrize("planted", ["planted-7c1f", '{"error": "planted-7c1f", "access_token": "planted-7c1f"}'])
def test_what_an_endpoint_answers_is_never_quoted(endpoint: TokenEndpoint, clock: Clock, planted: str) -> None:
    for status in (200, 400, 503):
        endpoint.status, endpoint.answer = status, planted.encode()
        try:
            tokens(endpoint, clock).token()
        except DriverError as refused:
            told = "".join(traceback.format_exception(refused))
            assert "planted" not in told
            assert "tenant=a" not in told, "what stands behind ? may be secret"


def test_nobody_at_the_endpoint_may_pass(endpoint: TokenEndpoint, clock: Clock) -> None:
    endpoint.close()
    with pytest.raises(DriverError, match="ConnectionRefused") as refused:
        tokens(endpoint, clock).token()
    assert refused.value.retriable


@pytest.mark.parametrize(("leaves_out", "again"), [({"expires_in"}, 1), ({"expires_in", "exp"}, 2)])
def test_a_token_without_a_stated_life_says_itself_when_it_ends_or_serves_once(
    endpoint: TokenEndpoint, clock: Clock, leaves_out: set[str], again: int
) -> None:
    endpoint.leaves_out = leaves_out
    endpoint.now = clock
    provider = tokens(endpoint, clock)
    provider.token()
    provider.token()
    assert len(endpoint.asked) == again


@pytest.mark.parametrize("answer", [b"", b"[]", b"{}", b"nonsense", b'{"access_token": "a.b.c"}'])
def test_an_answer_without_a_token_is_told(endpoint: TokenEndpoint, clock: Clock, answer: bytes) -> None:
    endpoint.answer = answer
    with pytest.raises(DriverError, match="has no access_token"):
        tokens(endpoint, clock).token()


def test_a_file_is_read_each_time(tmp_path: Path) -> None:
    path = tmp_path / "token"
    provider = BearerTokens(BearerLogin(TokenFile(str(path)), {}))
    with pytest.raises(DriverError, match="can't be read"):
        provider.token()
    path.write_text("one\n")
    assert provider.token() == "one"
    path.write_text("two\n")
    assert provider.token() == "two"


def test_a_token_of_our_own_has_no_signature(clock: Clock) -> None:
    made: Any = with_tokens(
        {"sasl_oauth_token_provider": BearerLogin(UnsecuredToken("me", 60.0), {}), "client_id": "x"}
    )
    assert made["client_id"] == "x"
    assert made["sasl_oauth_token_provider"].token().endswith(".")
    header, claims, signature = BearerTokens(BearerLogin(UnsecuredToken("me", 60.0), {}), clock).token().split(".")
    assert orjson.loads(base64.urlsafe_b64decode(header + "==")) == {"alg": "none"}
    told = orjson.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
    assert told == {"sub": "me", "iat": 1_000_000.0, "exp": 1_000_060.0}
    assert signature == ""


def test_other_logins_stay_as_they_are() -> None:
    assert with_tokens({"sasl_mechanism": "PLAIN"}) == {"sasl_mechanism": "PLAIN"}


def published(**keys):
    found = []
    for name, key in keys.items():
        algorithm = (
            jwt.algorithms.RSAAlgorithm
            if hasattr(key, "private_numbers") and key is not CURVE
            else jwt.algorithms.ECAlgorithm
        )
        found.append({**algorithm.to_jwk(key.public_key(), as_dict=True), "kid": name, "use": "sig"})
    return json.dumps({"keys": found})


def claims(**more):
    now = int(time.time())
    said = {"sub": "ann", "iat": now, "exp": now + 300, "aud": "kafka", "iss": "us", **more}
    return {name: value for name, value in said.items() if value is not None}


def token(key=KEY, name="one", algorithm="RS256", **more):
    return jwt.encode(claims(**more), key, algorithm, headers={} if name is None else {"kid": name})


@pytest.fixture
def keys(tmp_path):
    path = tmp_path / "keys.json"
    path.write_text(published(one=KEY, curve=CURVE))
    return path


def rules(keys, **more):
    return TokenRules(f"file:{keys}", **{"audiences": ("kafka", "other"), "issuer": "us", **more})


async def test_a_good_token_says_who_and_until_when(keys):
    validator = TokenValidator(rules(keys))
    known = await validator.validate(Secret(token(exp=int(time.time()) + 100)))
    assert known.subject == "ann"
    assert 90 < known.ends_at - time.time() < 101
    by_curve = Secret(token(CURVE, "curve", "ES256", aud=["x", "other"]))
    assert (await validator.validate(by_curve)).subject == "ann"
    with_skew = Secret(token(exp=int(time.time()) - 10, iat=int(time.time()) - 100))
    assert (await validator.validate(with_skew)).subject == "ann", "clocks may differ by 30 s"
    named = TokenValidator(rules(keys, subject_claim="client", audiences=(), issuer=None))
    assert (await named.validate(Secret(token(client="app", sub=7, aud=None, iss="x")))).subject == "app"


BAD = {
    "expired": lambda: token(exp=int(time.time()) - 100, iat=int(time.time()) - 200),
    "ended before it began": lambda: token(exp=int(time.time()) - 10),
    "for others": lambda: token(aud="else"),
    "by others": lambda: token(iss="else"),
    "no end": lambda: token(exp=None),
    "no beginning": lambda: token(iat=None),
    "nobody": lambda: token(sub=" "),
    "no subject": lambda: token(sub=None),
    "another key": lambda: token(OTHER),
    "unknown key": lambda: token(OTHER, "other"),
    "no key named": lambda: token(name=None),
    "unsigned": lambda: jwt.encode(claims(), None, "none", headers={"kid": "one"}),
    "a secret of both": lambda: jwt.encode(claims(), "s" * 64, "HS256", headers={"kid": "one"}),
    "a key of another kind": lambda: token(CURVE, "one", "ES256"),
    "garbage": lambda: "planted.planted.planted",
    "cut": lambda: token()[:-10],
}


@pytest.mark.parametrize("kind", BAD)
async def test_what_is_wrong_with_a_token_refuses_it_and_its_text_is_told_nobody(keys, kind):
    bad = BAD[kind]()
    with pytest.raises(SaslRefused) as refused:
        await TokenValidator(rules(keys)).validate(Secret(bad))
    assert not any(len(part) > 10 and part in str(refused.value) for part in bad.split("."))


async def test_new_keys_count_when_a_token_names_them_and_lost_ones_go_on_where_none_are_to_be_had(keys):
    now = [0.0]
    validator = TokenValidator(rules(keys, refresh_ms=60_000), lambda: now[0])
    assert (await validator.validate(Secret(token()))).subject == "ann"
    keys.write_text(published(one=KEY, two=OTHER))
    new = Secret(token(OTHER, "two"))
    with pytest.raises(SaslRefused, match="no key 'two'"):
        await validator.validate(new)
    now[0] += ASKED_AGAIN_S + 1
    assert (await validator.validate(new)).subject == "ann"
    for broken in (b"{}", b"broken"):
        now[0] += 100
        keys.write_bytes(broken)
        assert (await validator.validate(new)).subject == "ann"
    keys.write_text(published(one=KEY))
    now[0] += 100
    with pytest.raises(SaslRefused, match="no key 'two'"):
        await validator.validate(new)


@pytest.mark.parametrize(
    "response",
    [
        b"",
        b"\x01",
        b"n,,\x01\x01",
        b"n,,\x01auth=Basic x\x01\x01",
        b"n,,auth=Bearer x\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"\xff" * 20,
    ],
)
def test_what_is_no_first_message_is_refused(response):
    with pytest.raises(SaslRefused, match="Invalid OAUTHBEARER client first message"):
        read_bearer(response)


@pytest.fixture
async def ask(keys):
    """Log in at a real listener by a token; return the answers."""
    world = RpcWorld()
    settings = SaslSettings(("OAUTHBEARER",), max_reauth_ms=3_600_000, tokens=rules(keys))
    security = ListenerSecurity(SecurityProtocol.SASL_PLAINTEXT, sasl=settings)
    validator = TokenValidator(rules(keys))
    server = RpcServer(world.node, None, gate_of=lambda name: ListenerGate(name, security, validator=validator))
    (listener,) = await server.listen([parse_listener("TOKENS://127.0.0.1:0")])
    clients = []

    async def log_in(*tokens):
        client = RawClient(*await asyncio.open_connection("127.0.0.1", listener.port))
        clients.append(client)
        assert (await client.ask(17, 1, mechanism="OAUTHBEARER")).error_code == 0
        answers = [await client.ask(36, 2, auth_bytes=each) for each in tokens]
        return client, answers

    yield log_in
    for client in clients:
        client.writer.close()
    await server.close()
    await world.close()


async def test_a_client_comes_in_by_a_token_and_has_to_come_again_before_it_ends(ask):
    good = token(exp=int(time.time()) + 100).encode()
    client, (answer,) = await ask(b"n,,\x01auth=Bearer " + good + b"\x01logicalCluster=a\x01\x01")
    assert (answer.error_code, answer.auth_bytes) == (0, b"")
    assert 80 < answer.session_lifetime.total_seconds() <= 100
    assert (await client.ask(60, 0)).error_code == 0
    assert (await client.ask(17, 1, mechanism="OAUTHBEARER")).error_code == 0
    again = await client.ask(36, 2, auth_bytes=b"n,a=ann,\x01auth=bearer " + good + b"\x01\x01")
    assert again.error_code == 0


async def test_a_bad_token_is_told_in_json_and_then_refused(ask):
    client, answers = await ask(b"n,,\x01auth=Bearer " + token(OTHER).encode() + b"\x01\x01", b"\x01")
    assert [int(each.error_code) for each in answers] == [0, 58]
    assert answers[0].auth_bytes == b'{"status":"invalid_token"}'
    assert answers[1].error_message == '{"status":"invalid_token"}'
    assert await client.closed()


async def test_another_authorization_id_is_refused(ask):
    _, (answer,) = await ask(b"n,a=bob,\x01auth=Bearer " + token().encode() + b"\x01\x01")
    assert "authorization id (bob) that is different from the token's principal name (ann)" in answer.error_message
