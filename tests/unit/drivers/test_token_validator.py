"""Tokens of OAUTHBEARER: which are valid, and the answers to a client on a real listener."""

from __future__ import annotations

import asyncio
import json
import time

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from rpc_world import RawClient, RpcWorld

from shunter.drivers.listener.gate import ListenerGate
from shunter.drivers.listener.server import RpcServer, parse_listener
from shunter.drivers.security.token_validator import ASKED_AGAIN_S, TokenValidator
from shunter.model.security.listeners import ListenerSecurity, SaslSettings, Secret, SecurityProtocol, TokenRules
from shunter.wire.sasl import SaslRefused, read_bearer

KEY, OTHER = (rsa.generate_private_key(65_537, 2_048) for _ in range(2))
CURVE = ec.generate_private_key(ec.SECP256R1())


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
