"""Single sign-on: by an issuer's tokens, by its page, and by a trusted proxy's headers."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import logging
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from starlette.requests import Request
from web_house import House
from web_yard import Yard

from oidc_issuer import CLIENT, SECRET, LocalIssuer, public_pem
from shunter.app.access.access_tokens import AccessRole
from shunter.app.access.page_sessions import SESSION_SECONDS, PageSessions
from shunter.app.access.sign_on import SignOn, claim_of
from shunter.drivers.security import oidc_issuer, published_keys
from shunter.drivers.security.oidc_issuer import OidcIssuer
from shunter.errors import DriverError, SettingsError
from shunter.model.security.access import IssuerRules, Person, ProxyRules, SignOnRules
from shunter.model.security.listeners import Secret
from shunter.web.identity import COOKIE
from shunter.web.port.wrong_tokens import MOST_WAITING, WrongTokens
from shunter.web.server import WebOptions, serving
from shunter.web.sign_on_routes import STATE_COOKIE

ROLES = {"staff": AccessRole.READ, "ops": AccessRole.OPERATE, "admins": AccessRole.ADMINISTER}
FLEET = "/api/v1/fleet"
PAUSE = "/api/v1/clusters/prod-eu/pause"
ORIGIN = {"origin": "http://localhost"}


@pytest.fixture
def issuer() -> Iterator[LocalIssuer]:
    with LocalIssuer() as serving_issuer:
        yield serving_issuer


def rules(issuer: LocalIssuer, **more: Any) -> SignOnRules:
    return SignOnRules(ROLES, IssuerRules(issuer.url, CLIENT, "http://localhost", Secret(SECRET), **more))


def house_of(folder: Path, sign_on: SignOnRules) -> House:
    house = House(folder, sign_on=sign_on)
    house.clock_s = time.time()
    return house


@pytest.fixture
def sso(tmp_path: Path, issuer: LocalIssuer) -> House:
    return house_of(tmp_path, rules(issuer))


@pytest.fixture
async def page(sso: House) -> AsyncIterator[httpx.AsyncClient]:
    async with sso.client() as client:
        yield client


async def asked(house: House, token: str, path: str = FLEET) -> httpx.Response:
    async with house.client(authorization=f"Bearer {token}") as client:
        return await client.get(path)


def audited(house: House) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in house.audit.read_bytes().splitlines()]


# ---- programs, by tokens of the issuer


async def test_a_token_of_the_issuer_stands_beside_our_own(sso: House, issuer: LocalIssuer) -> None:
    async with sso.client(authorization=f"Bearer {issuer.token(groups=['x', 'ops', 'staff'])}") as client:
        who = (await client.get("/api/v1/session")).json()
        assert (who["name"], who["role"], who["by"], who["sign_on"]) == ("anna", "operate", "oidc", "single sign-on")
        assert (await client.post(PAUSE, json={"comment": "hot"})).status_code == 200
    signed = sso.yard.orders[0][1]
    assert (signed.who, signed.by, signed.comment) == ("anna", "token", "hot")
    assert [(each["who"], each["by"], each["verb"]) for each in audited(sso)] == [("anna", "oidc", "pause")]
    async with sso.client(AccessRole.READ) as ours:
        assert (await ours.get(FLEET)).status_code == 200


SKEW = 30


def by_secret(issuer: LocalIssuer, secret: bytes) -> str:
    """A token by HS256; PyJWT would not make it with a public key as the secret."""
    body = issuer.token().split(".")[1]
    head = base64.urlsafe_b64encode(b'{"alg":"HS256","typ":"JWT","kid":"one"}').decode().rstrip("=")
    digest = hmac.digest(secret, f"{head}.{body}".encode(), "sha256")
    return f"{head}.{body}.{base64.urlsafe_b64encode(digest).decode().rstrip('=')}"


def unsigned(issuer: LocalIssuer) -> str:
    head = base64.urlsafe_b64encode(b'{"alg":"none","kid":"one"}').decode().rstrip("=")
    return f"{head}.{issuer.token().split('.')[1]}."


def changed(token: str) -> str:
    head, body, signature = token.split(".")
    claims = json.loads(base64.urlsafe_b64decode(body + "=="))
    raw = json.dumps({**claims, "groups": ["admins"]}).encode()
    return f"{head}.{base64.urlsafe_b64encode(raw).decode().rstrip('=')}.{signature}"


def now() -> int:
    return int(time.time())


BAD = {
    "wrong audience": (lambda i: i.token(aud="grafana"), r"aud = 'grafana', and 'shunter' is wanted"),
    "no audience": (lambda i: i.token(aud=None), '"aud" claim'),
    "wrong issuer": (lambda i: i.token(iss="https://evil.example"), "iss = 'https://evil.example'"),
    "expired": (lambda i: i.token(iat=now() - 900, exp=now() - SKEW - 10), "it has expired"),
    "no end": (lambda i: i.token(exp=None), '"exp" claim'),
    "not yet valid": (lambda i: i.token(nbf=now() + SKEW + 10), "it is not yet valid"),
    "made in the future": (lambda i: i.token(iat=now() + SKEW + 10), "it is not yet valid"),
    "unknown key": (lambda i: i.token(kid="none"), "no key 'none' at "),
    "no signature": (unsigned, "signed by alg = 'none'"),
    "a public key as the secret": (lambda i: by_secret(i, public_pem("one")), "signed by alg = 'HS256'"),
    "the client's secret": (lambda i: by_secret(i, SECRET.encode()), "signed by alg = 'HS256'"),
    "changed claims": (lambda i: changed(i.token()), "Signature verification failed"),
    "no JSON": (lambda _i: "a.b.c", "the token is not good"),
}


@pytest.mark.parametrize("kind", BAD)
async def test_what_is_wrong_with_a_token_refuses_it(sso: House, issuer: LocalIssuer, kind: str) -> None:
    make, why = BAD[kind]
    bad = make(issuer)
    answer = await asked(sso, bad)
    assert (answer.status_code, answer.json()["type"]) == (401, "urn:shunter:token-wrong"), answer.text
    assert why in answer.json()["detail"]
    assert not any(len(part) > 10 and part in answer.text + sso.audit.read_text() for part in bad.split("."))
    assert sso.reception.wrong_tokens.count == 1


@pytest.mark.parametrize("claims", [{"exp": -SKEW + 8, "iat": -900}, {"nbf": SKEW - 8}, {"iat": SKEW - 8}], ids=str)
async def test_clocks_may_differ_by_the_leeway(sso: House, issuer: LocalIssuer, claims: dict[str, int]) -> None:
    token = issuer.token(**{name: now() + seconds for name, seconds in claims.items()})
    assert (await asked(sso, token)).status_code == 200


async def test_rotated_keys_are_fetched_anew_and_not_for_every_unknown_one(
    sso: House, issuer: LocalIssuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = issuer.token()
    assert (await asked(sso, first)).status_code == 200
    issuer.published, issuer.signs_by = ["two"], "two"
    second = issuer.token()
    assert (await asked(sso, second)).status_code == 401, "keys were fetched a moment ago"
    for each in range(5):
        await asked(sso, issuer.token(kid=f"guessed-{each}"))
    assert issuer.asked.count("/jwks") == 1
    monkeypatch.setattr(published_keys, "ASKED_AGAIN_S", -1.0)
    assert (await asked(sso, second)).status_code == 200
    assert (await asked(sso, first)).status_code == 401, "a key that was withdrawn is of no use"
    assert issuer.asked.count("/jwks") == 3


async def test_an_audience_of_its_own(tmp_path: Path, issuer: LocalIssuer) -> None:
    house = house_of(tmp_path, rules(issuer, audience="kafka-tools"))
    assert (await asked(house, issuer.token())).status_code == 401
    assert (await asked(house, issuer.token(aud=["other", "kafka-tools"]))).status_code == 200


NO_ACCESS = [
    ({"groups": ["visitors", "x"]}, "anna has no access: the claim groups is ['visitors', 'x']"),
    ({"groups": []}, "the claim groups is []"),
    ({"groups": None}, "the claim groups is missing"),
    ({"groups": {"ops": 1}}, "the claim groups is {'ops': 1}"),
    ({"groups": "Ops"}, "the claim groups is Ops"),
    ({"preferred_username": None}, "the claim preferred_username names nobody"),
    ({"preferred_username": "an\nna"}, "the claim preferred_username names nobody"),
    ({"preferred_username": ["anna"]}, "the claim preferred_username names nobody"),
]


@pytest.mark.parametrize(("claims", "why"), NO_ACCESS)
async def test_who_has_no_role_has_no_access(sso: House, issuer: LocalIssuer, claims: dict[str, Any], why: str) -> None:
    answer = await asked(sso, issuer.token(**claims))
    assert (answer.status_code, answer.json()["type"]) == (403, "urn:shunter:no-access")
    assert why in answer.json()["detail"]


async def test_claims_have_other_names(tmp_path: Path, issuer: LocalIssuer) -> None:
    house = house_of(tmp_path, rules(issuer, groups_claim="realm_access.roles", user_claim="email"))
    claims = {"realm_access": {"roles": ["admins"]}, "email": "a@example.com", "groups": None}
    who = (await asked(house, issuer.token(**claims), "/api/v1/session")).json()
    assert (who["name"], who["role"]) == ("a@example.com", "administer")
    refused = await asked(house, issuer.token(**claims, email_verified=False))
    assert "email_verified is false" in refused.json()["detail"]
    assert claim_of({"https://x.example/roles": ["a"]}, "https://x.example/roles") == ["a"]
    assert claim_of({"a": "text"}, "a.b") is None


async def test_a_silent_issuer_holds_up_nobody_else(
    sso: House, issuer: LocalIssuer, page: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oidc_issuer, "WITHIN_S", 0.2)
    known = issuer.token()
    assert (await asked(sso, known)).status_code == 200
    await signed_in(issuer, page)
    issuer.stalls.clear()
    monkeypatch.setattr(published_keys, "ASKED_AGAIN_S", -1.0)
    answer = await asked(sso, issuer.token(kid="new"))
    assert (answer.status_code, answer.json()["type"]) == (503, "urn:shunter:issuer-silent")
    assert "TimeoutError" in answer.json()["detail"]
    assert "Sign in with a token, or try again" in answer.json()["detail"]
    assert (await asked(sso, known)).status_code == 200, "its key is known"
    assert (await page.get(FLEET)).status_code == 200
    async with sso.client(AccessRole.READ) as ours:
        assert (await ours.get(FLEET)).status_code == 200


async def test_a_start_needs_no_issuer_and_a_dead_one_is_told(tmp_path: Path) -> None:
    with LocalIssuer() as gone:
        pass
    house = house_of(tmp_path, rules(gone))
    async with house.client() as client:
        answer = await client.get("/api/v1/login")
    assert answer.status_code == 503
    assert "ConnectionRefusedError" in answer.text
    assert "Sign in with a token" in answer.text
    assert answer.headers["content-type"].startswith("text/html")


@pytest.mark.parametrize(
    ("described", "why"),
    [
        ({"issuer": "https://evil.example"}, "it calls itself 'https://evil.example'"),
        ({"token_endpoint": "http://issuer.example/token"}, "https:// is wanted"),
        ({"jwks_uri": "file:///etc/passwd"}, "https:// is wanted"),
        ({"authorization_endpoint": None}, "authorization_endpoint = 'None'"),
    ],
)
async def test_an_issuer_that_can_t_be_trusted_is_not(
    page: httpx.AsyncClient, issuer: LocalIssuer, described: dict[str, Any], why: str
) -> None:
    issuer.described = described
    answer = await page.get("/api/v1/login")
    assert answer.status_code == 503
    assert why in answer.text.replace("&#x27;", "'")


async def test_an_answer_that_does_not_come_whole_is_not_awaited(
    issuer: LocalIssuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oidc_issuer, "DEADLINE_S", 0.1)
    issuer.stalls.clear()
    with pytest.raises(DriverError, match=r"no whole answer within 0\.1 s"):
        await OidcIssuer(IssuerRules(issuer.url, CLIENT, "http://localhost")).sign_in_url(
            "http://localhost/x", state="s", nonce="n", verifier="v"
        )


# ---- people, on the page


async def signed_in(issuer: LocalIssuer, client: httpx.AsyncClient) -> httpx.Response:
    away = await client.get("/api/v1/login")
    assert away.status_code == 303, away.text
    return await client.get(f"/api/v1/callback?{issuer.sign_in(away.headers['location'])}")


async def test_a_person_signs_in_gives_an_order_and_signs_out(
    sso: House, issuer: LocalIssuer, page: httpx.AsyncClient
) -> None:
    back = await signed_in(issuer, page)
    assert (back.status_code, back.headers["location"]) == (303, "../../")
    cookies = back.headers.get_list("set-cookie")
    assert any("shunter-session=" in each and "HttpOnly" in each and "SameSite=strict" in each for each in cookies)
    assert STATE_COOKIE not in page.cookies
    who = (await page.get("/api/v1/session")).json()
    assert (who["name"], who["role"], who["by"]) == ("anna", "operate", "session")
    assert (await page.post(PAUSE, json={}, headers=ORIGIN)).status_code == 403, "another site has no CSRF value"
    headers = {**ORIGIN, "x-shunter-csrf": who["csrf"]}
    assert (await page.post(PAUSE, json={}, headers=headers)).status_code == 200
    assert sso.yard.orders[0][1].who == "anna"
    assert (await page.delete("/api/v1/session", headers=headers)).status_code == 204
    assert (await page.get(FLEET)).status_code == 401
    assert next((each["who"], each["by"], each["verb"]) for each in audited(sso)) == ("anna", "session", "sign-in")


async def test_the_issuer_is_asked_by_pkce_state_and_nonce(issuer: LocalIssuer, page: httpx.AsyncClient) -> None:
    away = await page.get("/api/v1/login")
    asked_for = httpx.URL(away.headers["location"]).params
    secret = page.cookies[STATE_COOKIE]
    assert "SameSite=lax" in away.headers["set-cookie"]
    assert "HttpOnly" in away.headers["set-cookie"]
    assert asked_for["redirect_uri"] == "http://localhost/api/v1/callback"
    assert asked_for["code_challenge_method"] == "S256"
    assert secret not in str(asked_for)
    assert len({asked_for[each] for each in ("state", "nonce", "code_challenge")}) == 3
    digest = hashlib.sha256(hashlib.sha256(f"shunter-verifier {secret}".encode()).hexdigest().encode()).digest()
    assert asked_for["code_challenge"] == base64.urlsafe_b64encode(digest).decode().rstrip("=")


async def test_a_sign_in_of_another_browser_is_refused(
    sso: House, issuer: LocalIssuer, page: httpx.AsyncClient
) -> None:
    away = (await page.get("/api/v1/login")).headers["location"]
    back = issuer.sign_in(away)
    async with sso.client() as other:
        for begun in (False, True):
            if begun:
                await other.get("/api/v1/login")
            answer = await other.get(f"/api/v1/callback?{back}")
            assert answer.status_code == 403
            assert "not begun by this browser" in answer.text
            assert COOKIE not in other.cookies
    assert "/token" not in issuer.asked
    assert (await page.get(f"/api/v1/callback?{back}")).status_code == 303
    assert (await page.get(f"/api/v1/callback?{back}")).status_code == 403, "once"


CALLBACKS = [
    ({"nonce": "another"}, 401, "the nonce in the ID token is of another sign-in"),
    ({"nonce": None}, 401, "the nonce in the ID token is of another sign-in"),
    ({"azp": "grafana"}, 401, "made for the client 'grafana'"),
    ({"aud": "grafana"}, 401, "aud = 'grafana'"),
    ({"groups": ["<b>"]}, 403, "the claim groups is ['&lt;b&gt;']"),
]


@pytest.mark.parametrize(("claims", "status", "why"), CALLBACKS)
async def test_an_id_token_that_is_not_good_begins_no_session(
    issuer: LocalIssuer, page: httpx.AsyncClient, claims: dict[str, Any], status: int, why: str
) -> None:
    issuer.claims = {**issuer.claims, **claims}
    answer = await signed_in(issuer, page)
    assert answer.status_code == status
    assert why in answer.text.replace("&#x27;", "'")
    assert COOKIE not in page.cookies


async def test_what_the_issuer_refuses_is_told_and_nothing_of_it_is_quoted(
    issuer: LocalIssuer, page: httpx.AsyncClient
) -> None:
    away = (await page.get("/api/v1/login")).headers["location"]
    state = httpx.URL(away).params["state"]
    answer = await page.get(f"/api/v1/callback?error=access_denied&error_description=planted&state={state}")
    assert (answer.status_code, "access_denied" in answer.text, "planted" in answer.text) == (401, True, False)
    for code in ("guessed", ""):
        away = (await page.get("/api/v1/login")).headers["location"]
        state = httpx.URL(away).params["state"]
        answer = await page.get(f"/api/v1/callback?code={code}&error=<b>&state={state}")
        assert answer.status_code == 401
        assert ("invalid_grant: sign in again" if code else "no code") in answer.text
        assert "planted" not in answer.text


async def test_guessed_codes_do_not_flood_the_issuer(sso: House, issuer: LocalIssuer, page: httpx.AsyncClient) -> None:
    sso.reception.wrong_tokens = WrongTokens(30)
    state = httpx.URL((await page.get("/api/v1/login")).headers["location"]).params["state"]
    cookie = {"cookie": f"{STATE_COOKIE}={page.cookies[STATE_COOKIE]}"}
    back = f"/api/v1/callback?code=guessed&state={state}"
    async with sso.client(**cookie) as guesser:
        guesses = [asyncio.create_task(guesser.get(back)) for _ in range(MOST_WAITING)]
        async with asyncio.timeout(20):
            while sso.reception.wrong_tokens.count < MOST_WAITING:  # noqa: ASYNC110 - there is no event for this
                await asyncio.sleep(0)
        before = issuer.asked.count("/token")
        assert (await guesser.get(back)).status_code == 429
        assert issuer.asked.count("/token") == before == MOST_WAITING
        for guess in guesses:
            guess.cancel()
        await asyncio.gather(*guesses, return_exceptions=True)


async def test_a_wrong_client_secret_is_told(tmp_path: Path, issuer: LocalIssuer) -> None:
    sign_on = rules(issuer)
    assert sign_on.issuer is not None
    house = house_of(tmp_path, replace(sign_on, issuer=replace(sign_on.issuer, client_secret=Secret("guessed"))))
    async with house.client() as client:
        answer = await signed_in(issuer, client)
    assert "invalid_client: check client-id and client-secret-file" in answer.text
    assert "guessed" not in answer.text


async def test_a_session_ends_with_its_token_or_after_its_own_time(tmp_path: Path, issuer: LocalIssuer) -> None:
    for given, lasts_s in ((None, 300 + SKEW), (3600, 3600), (10**6, SESSION_SECONDS)):
        house = house_of(tmp_path / str(given), rules(issuer, session_s=given))
        async with house.client() as client:
            await signed_in(issuer, client)
            house.clock_s += lasts_s - 10
            assert (await client.get(FLEET)).status_code == 200
            house.clock_s += 20
            assert (await client.get(FLEET)).status_code == 401


async def test_sessions_survive_a_restart_and_have_the_roles_of_now(tmp_path: Path, issuer: LocalIssuer) -> None:
    house = house_of(tmp_path, rules(issuer))
    identity, kept = house.reception.identity, tmp_path / "sessions.json"
    identity.sessions = PageSessions(kept, house.now_ms)
    async with house.client() as client:
        await signed_in(issuer, client)
        identity.sessions = PageSessions(kept, house.now_ms)
        assert (await client.get("/api/v1/session")).json()["role"] == "operate"
        identity.sign_on = SignOn(replace(rules(issuer), roles={"ops": AccessRole.READ}), house.now_ms)
        assert (await client.get("/api/v1/session")).json()["role"] == "read"
        identity.sign_on = SignOn(replace(rules(issuer), roles={"others": AccessRole.READ}), house.now_ms)
        assert "anna has no access any more" in (await client.get(FLEET)).json()["detail"]
        identity.sign_on = None
        assert (await client.get(FLEET)).status_code == 401
    assert "ops" in kept.read_text()


async def test_without_an_issuer_the_routes_say_so(house: House) -> None:
    async with house.client() as client:
        for path in ("/api/v1/login", "/api/v1/callback"):
            answer = await client.get(path)
            assert (answer.status_code, answer.json()["type"]) == (409, "urn:shunter:no-issuer")


async def test_behind_tls_of_a_proxy_cookies_are_secure(tmp_path: Path, issuer: LocalIssuer) -> None:
    sign_on = rules(issuer)
    assert sign_on.issuer is not None
    sign_on = replace(sign_on, issuer=replace(sign_on.issuer, address="https://localhost/ops/"))
    async with house_of(tmp_path, sign_on).client() as client:
        away = await client.get("/api/v1/login")
    assert "Secure" in away.headers["set-cookie"]
    assert httpx.URL(away.headers["location"]).params["redirect_uri"] == "https://localhost/ops/api/v1/callback"


# ---- people, by a proxy's headers

PROXY = SignOnRules(ROLES, proxy=ProxyRules((ip_network("10.0.0.5/32"), ip_network("fd00::/64"))))
BY_PROXY = {"x-forwarded-user": "zoë", "x-forwarded-groups": "visitors, ops"}


def headers_of(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode()) for name, value in headers.items()]


@pytest.mark.parametrize("peer", ["10.0.0.5", "::ffff:10.0.0.5", "fd00::7"])
async def test_a_trusted_proxy_says_who_asks(tmp_path: Path, peer: str) -> None:
    house = house_of(tmp_path, PROXY)
    async with house.client(peer=peer) as client:
        client.headers = httpx.Headers([*client.headers.raw, *headers_of({**BY_PROXY, "authorization": "Basic eA=="})])
        who = (await client.get("/api/v1/session")).json()
        assert (who["name"], who["role"], who["by"], who["sign_on"]) == ("zoë", "operate", "proxy", "")
        for headers in ({}, ORIGIN, {**ORIGIN, "x-shunter-csrf": "guessed"}, {"x-shunter-csrf": who["csrf"]}):
            assert (await client.post(PAUSE, json={}, headers=headers)).status_code == 403, headers
        headers = {**ORIGIN, "x-shunter-csrf": who["csrf"]}
        assert (await client.post(PAUSE, json={}, headers=headers)).status_code == 200
    assert [signed.who for _order, signed in house.yard.orders] == ["zoë"]
    assert audited(house)[-1]["by"] == "proxy"


@pytest.mark.parametrize("peer", ["10.0.0.6", "127.0.0.1", "fd01::7", "10.0.0.5.evil.example"])
async def test_headers_from_elsewhere_are_ignored_and_that_is_said_once(
    tmp_path: Path, peer: str, caplog: pytest.LogCaptureFixture
) -> None:
    house = house_of(tmp_path, PROXY)
    with caplog.at_level(logging.WARNING):
        async with house.client(peer=peer, **{**BY_PROXY, "x-forwarded-user": "anna"}) as client:
            for _ in range(3):
                assert (await client.get(FLEET)).status_code == 401
    told = [each.getMessage() for each in caplog.records if "X-Forwarded-User" in each.getMessage()]
    assert len(told) == 1
    assert f"X-Forwarded-User from {peer} is ignored" in told[0]


@pytest.mark.parametrize(
    ("headers", "why"),
    [
        (
            {"x-forwarded-user": "anna", "x-forwarded-groups": "visitors"},
            "the header X-Forwarded-Groups is ['visitors']",
        ),
        ({"x-forwarded-user": "anna"}, "the header X-Forwarded-Groups is missing"),
        ({"x-forwarded-user": " ", "x-forwarded-groups": "ops"}, "names nobody"),
    ],
)
async def test_a_proxy_s_people_without_a_role_have_no_access(
    tmp_path: Path, headers: dict[str, str], why: str
) -> None:
    async with house_of(tmp_path, PROXY).client(peer="10.0.0.5", **headers) as client:
        answer = await client.get(FLEET)
    assert answer.status_code == 403
    assert why in answer.json()["detail"]


@pytest.mark.parametrize("twice", ["x-forwarded-user", "x-forwarded-groups"])
async def test_a_header_that_came_twice_is_refused(tmp_path: Path, twice: str) -> None:
    async with house_of(tmp_path, PROXY).client(peer="10.0.0.5") as client:
        client.headers = httpx.Headers([*headers_of({twice: "admins"}), *headers_of(BY_PROXY)])
        answer = await client.get(FLEET)
    assert (answer.status_code, "came twice" in answer.text) == (403, True)


async def test_a_proxy_s_request_without_its_header_needs_a_token(tmp_path: Path) -> None:
    house = house_of(tmp_path, PROXY)
    async with house.client(peer="10.0.0.5") as client, house.client(AccessRole.READ, peer="10.0.0.5") as ours:
        assert (await client.get(FLEET)).status_code == 401
        assert (await ours.get(FLEET)).status_code == 200


async def test_who_is_at_the_far_end_is_not_taken_from_a_header(tmp_path: Path) -> None:
    """uvicorn believes X-Forwarded-For of every process of this machine."""
    tokens = House(tmp_path).tokens
    told = {**BY_PROXY, "x-forwarded-user": "anna", "x-forwarded-for": "10.0.0.5"}
    for trusted, status in (("10.0.0.5/32", 401), ("127.0.0.1/32", 200)):
        on = replace(PROXY, proxy=ProxyRules((ip_network(trusted),)))
        async with (
            serving(Yard().front, WebOptions(port=0, tokens=tokens), sign_on=on) as address,
            httpx.AsyncClient(base_url=address, headers=told) as client,
        ):
            assert (await client.get(FLEET)).status_code == status


async def test_single_sign_on_needs_a_file_of_tokens(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"\[sign-on\].*give --tokens FILE"):
        async with serving(Yard().front, WebOptions(port=0), sign_on=PROXY):
            pass


async def test_an_order_by_a_token_that_expires_under_way_is_refused(sso: House) -> None:
    """A stream of events goes on until its token ends."""
    identity = sso.reception.identity
    person = Person("anna", AccessRole.READ, sso.now_ms() + 1_000)
    scope = {
        "type": "http",
        "method": "GET",
        "headers": [],
        "path": FLEET,
        "state": {"signed_on": person},
        "client": None,
    }
    assert identity.caller(Request(scope)).by == "oidc"
    sso.clock_s += 2
    with pytest.raises(Exception, match="this token of the issuer has expired"):
        identity.caller(Request(scope))
