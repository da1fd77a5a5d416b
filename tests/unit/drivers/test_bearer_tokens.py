"""Tokens for SASL OAUTHBEARER: from a real HTTP endpoint, a file, or unsecured; kept, and renewed before they end."""

from __future__ import annotations

import base64
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from shunter.drivers.security.bearer_tokens import BearerTokens, with_tokens
from shunter.errors import DriverError
from shunter.model.security.listeners import BearerLogin, ClientCredentials, Secret, TokenFile, UnsecuredToken
from token_endpoint import TokenEndpoint


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
