"""PLAIN and SCRAM, client and server, by the examples of their RFCs. Tests with real peers are in tests/real."""

import base64
import hashlib
import hmac

import pytest

from shunter.model.security.listeners import ScramCredential, Secret
from shunter.wire.sasl import (
    SaslRefused,
    ScramClient,
    ScramServer,
    bearer_response,
    check_plain,
    plain_token,
    read_bearer,
    salted,
)

MECHANISM = "SCRAM-SHA-256"
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
PENCIL = Secret("pencil")
USERS = {"ann": Secret("pass=,word"), "bob": Secret("b")}


def credential(password=PENCIL, iterations=4096):
    key = salted(MECHANISM, password, SALT, iterations)
    stored = hashlib.sha256(hmac.digest(key, b"Client Key", "sha256")).digest()
    return ScramCredential(SALT, stored, hmac.digest(key, b"Server Key", "sha256"), iterations)


def test_a_token_is_said_as_in_rfc_7628():
    said = bearer_response("vF9dft4qmT", {"logicalCluster": "lkc-1"})
    assert said == b"n,,\x01auth=Bearer vF9dft4qmT\x01logicalCluster=lkc-1\x01\x01"
    assert read_bearer(said) == (Secret("vF9dft4qmT"), "")
    assert read_bearer(bearer_response("a.b.c==", {})).token == Secret("a.b.c==")


def test_the_exchange_of_rfc_7677():
    client, server = ScramClient(MECHANISM, "user", "rOprNGfwEbeRWgbNEkqO"), ScramServer(MECHANISM)
    assert client.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert server.hear_first(client.first()) == "user"
    challenge = server.challenge(credential(), "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    assert challenge == b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    heard = client.hear_challenge(challenge)
    final = client.final(heard, salted(MECHANISM, PENCIL, heard.salt, heard.iterations))
    assert final == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    verified = server.hear_final(final)
    assert verified == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    client.check(verified)
    with pytest.raises(SaslRefused, match="does not prove"):
        client.check(b"v=" + base64.b64encode(bytes(32)))


def exchanged(*, password=PENCIL, known=None, change=lambda final: final):
    client, server = ScramClient(MECHANISM, "a,b=c", "nonce"), ScramServer(MECHANISM)
    assert server.hear_first(client.first()) == "a,b=c"
    heard = client.hear_challenge(server.challenge(known or credential(), "more"))
    final = client.final(heard, salted(MECHANISM, password, heard.salt, heard.iterations))
    return server.hear_final(change(final))


def test_a_wrong_password_and_a_changed_message_are_refused():
    assert exchanged()
    with pytest.raises(SaslRefused, match="invalid password of user 'a,b=c'") as refused:
        exchanged(password=Secret("wrong"))
    assert refused.value.told is None, "the client hears Kafka's general words"
    for change in (
        lambda final: final.replace(b"r=noncemore", b"r=nonceless"),
        lambda final: final.replace(b"c=biws", b"c=eSws"),
        lambda final: final[:-8],
        lambda final: final.replace(b"p=", b"x=1,p="),
        lambda _: b"",
    ):
        with pytest.raises(SaslRefused):
            exchanged(change=change)


@pytest.mark.parametrize(
    ("first", "told"),
    [
        (b"y,,n=ann,r=x", "can't be read"),
        (b"p=tls-unique,,n=ann,r=x", "can't be read"),
        (b"n,,n=a\xc3\xa4,r=x", "can't be read"),
        (b"n,,n=ann,r=", "can't be read"),
        (b"n,a=bob,n=ann,r=x", "authorization id that is different"),
        (b"n,,n=id,r=x,tokenauth=true", "delegation tokens are not taken"),
    ],
)
def test_a_first_message_that_can_not_be_served(first, told):
    with pytest.raises(SaslRefused, match=told):
        ScramServer(MECHANISM).hear_first(first)


def test_nobody_logs_in_without_a_credential_or_with_a_weak_one():
    for known, told in ((None, "has no credential"), (credential(iterations=4095), "4095 iterations are below 4096")):
        server = ScramServer(MECHANISM)
        server.hear_first(b"n,a=ann,n=ann,r=x,ext=1")
        with pytest.raises(SaslRefused, match=told):
            server.challenge(known, "y")
        with pytest.raises(SaslRefused):
            server.hear_final(b"c=biws,r=xy,p=")


@pytest.mark.parametrize("challenge", [b"", b"r=other,s=QQ==,i=4096", b"r=nonce1,s=QQ==,i=x", b"r=nonce1,s=QQ==,i=1"])
def test_a_broker_that_answers_otherwise_is_not_believed(challenge):
    with pytest.raises(SaslRefused, match="the broker"):
        ScramClient(MECHANISM, "ann", "nonce").hear_challenge(challenge)


def test_plain():
    assert check_plain(plain_token("ann", USERS["ann"]), USERS) == "ann"
    assert check_plain(b"ann\0ann\0pass=,word", USERS) == "ann"
    for token, told in (
        (b"\0ann\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0nobody\0b", "Authentication failed: Invalid username or password"),
        (b"\0nobody\0", "Authentication failed: password not specified"),
        (b"\0\0b", "Authentication failed: username not specified"),
        (b"ann\0bob\0b", "Authentication failed: Client requested an authorization id that is different from username"),
        (b"ann\0b", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0\xff\0b", "Invalid SASL/PLAIN response: not UTF-8"),
    ):
        with pytest.raises(SaslRefused) as refused:
            check_plain(token, USERS)
        assert refused.value.told == told


def test_a_secret_is_printed_by_nobody():
    assert "pass=,word" not in f"{USERS} {USERS['ann']} {USERS['ann']!r}"
    assert USERS["ann"] == Secret("pass=,word") != USERS["bob"]
    assert len({Secret("x"), Secret("x")}) == 1
