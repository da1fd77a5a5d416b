"""Who may do what: roles, tokens, sessions, hosts, and what every answer carries."""

from __future__ import annotations

import asyncio
import getpass
import json
import re
from collections.abc import Callable
from pathlib import Path

import httpx
import orjson
import pytest
from web_house import House
from web_yard import Yard

from shunter.app.access.access_tokens import AccessRole, remove_token
from shunter.app.access.page_sessions import SESSION_SECONDS, PageSessions
from shunter.app.service.client import SOCKET, ServiceClient, ServiceServer
from shunter.model.service import USER, OrderKind, ServiceOrder
from shunter.web import guards
from shunter.web.guards import demand_of, host_of
from shunter.web.identity import COOKIE
from shunter.web.ordering import VERBS, Verb
from shunter.web.port.wrong_tokens import MOST_WAITING, WrongTokens
from shunter.web.server import serving

MOVES = "/api/v1/clusters/prod-eu/moves"
CLUSTER = "/api/v1/clusters/prod-eu"
PAUSE = f"{CLUSTER}/pause"
LIMIT = f"{CLUSTER}/limit"


async def signed_in(house: House, client: httpx.AsyncClient, role: AccessRole = AccessRole.OPERATE) -> str:
    """Sign in as the page does; gives the CSRF value."""
    answer = await client.post(
        "/api/v1/session", json={"token": house.secrets[role]}, headers={"origin": "http://localhost"}
    )
    assert answer.status_code == 200, answer.text
    csrf = answer.json()["csrf"]
    assert isinstance(csrf, str)
    return csrf


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110 - the application has no event for this
            await asyncio.sleep(0)


async def test_without_a_token_nothing_is_told(house: House) -> None:
    async with house.client() as client:
        for path in ("/api/v1/fleet", MOVES, "/api/v1/events", "/metrics", "/api/v1/timeline"):
            answer = await client.get(path)
            assert (answer.status_code, answer.json()["type"]) == (401, "urn:shunter:token-needed"), path
            assert answer.headers["www-authenticate"] == "Bearer"
        assert (await client.get("/api/v1/session")).json()["role"] is None
        assert (await client.get("/health")).status_code == 200


async def test_a_wrong_token_is_refused(house: House) -> None:
    async with house.client(authorization="Bearer shunter_guessed") as client:
        assert "this token is unknown" in (await client.get("/api/v1/fleet")).json()["detail"]


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.kind.value)
async def test_every_order_needs_its_role(house: House, verb) -> None:
    path = f"/api/v1/clusters/prod-eu/{verb.kind.value}"
    for role in AccessRole:
        async with house.client(role) as client:
            answer = await client.post(path, json={})
            refused = answer.status_code == 403 and answer.json()["type"] == "urn:shunter:role-missing"
            assert refused is not role.includes(AccessRole.OPERATE), (role, answer.text)


@pytest.mark.parametrize("verb", ["intend", "withdraw"])
async def test_every_intent_but_a_hold_needs_more(house: House, verb: str) -> None:
    path = f"/api/v1/clusters/prod-eu/{verb}"
    async with house.client(AccessRole.OPERATE) as client:
        assert (await client.post(path, json={"intent": "drain", "brokers": [1]})).status_code == 403
        assert (await client.post(path, json={"intent": "hold", "scope": "fill"})).status_code in (200, 404)


async def test_without_tokens_the_service_can_only_be_looked_at(tmp_path: Path) -> None:
    house = House(tmp_path, tokens=False)
    async with house.client() as client:
        assert (await client.get("/api/v1/fleet")).status_code == 200
        answer = await client.post(PAUSE, json={})
        assert (answer.status_code, answer.json()["type"]) == (403, "urn:shunter:read-only")
        assert "--tokens FILE" in answer.json()["detail"]
        assert house.yard.orders == []


async def test_a_token_that_was_removed_ends_at_once(house: House) -> None:
    async with house.client(AccessRole.READ) as client, house.client() as page:
        assert (await client.get("/api/v1/fleet")).status_code == 200
        await signed_in(house, page, AccessRole.READ)
        remove_token(house.tokens, "readr")
        assert (await client.get("/api/v1/fleet")).status_code == 401
        assert (await page.get("/api/v1/fleet")).status_code == 401, "the session of the token ends with it"


async def test_tokens_that_others_could_read_let_nobody_in(house: House) -> None:
    house.tokens.chmod(0o640)
    async with house.client(AccessRole.READ) as client:
        answer = await client.get("/api/v1/fleet")
        assert (answer.status_code, answer.json()["type"]) == (503, "urn:shunter:tokens-unreadable")
        assert "chmod 600" in answer.json()["detail"]


class TestThePage:
    async def test_it_signs_in_and_gives_orders(self, house: House) -> None:
        async with house.client() as client:
            csrf = await signed_in(house, client)
            headers = {"origin": "http://localhost", "x-shunter-csrf": csrf}
            assert (await client.post(PAUSE, json={}, headers=headers)).status_code == 200
            assert house.yard.orders[0][1].who == "operater"

    async def test_its_cookie_is_out_of_reach(self, house: House) -> None:
        async with house.client() as client:
            answer = await client.post(
                "/api/v1/session",
                json={"token": house.secrets[AccessRole.READ]},
                headers={"origin": "http://localhost"},
            )
            cookie = answer.headers["set-cookie"]
            assert "HttpOnly" in cookie
            assert "SameSite=strict" in cookie
            assert house.secrets[AccessRole.READ] not in cookie + answer.text

    @pytest.mark.parametrize(
        "headers",
        [
            {"origin": "https://evil.example"},
            {"origin": "null"},
            {},
            {"origin": "http://localhost", "x-shunter-csrf": "guessed"},
            {"origin": "http://localhost", "x-shunter-csrf": ""},
        ],
    )
    async def test_another_site_can_change_nothing(self, house: House, headers: dict[str, str]) -> None:
        async with house.client() as client:
            csrf = await signed_in(house, client)
            answer = await client.post(PAUSE, json={}, headers={"x-shunter-csrf": csrf} | headers)
            assert answer.status_code == 403
            assert house.yard.orders == []

    async def test_another_site_can_t_sign_somebody_in(self, house: House) -> None:
        async with house.client() as client:
            body = {"token": house.secrets[AccessRole.READ]}
            answer = await client.post("/api/v1/session", json=body, headers={"origin": "https://evil.example"})
            assert answer.status_code == 403
            assert COOKIE not in client.cookies

    async def test_a_restart_of_the_service_ends_no_session_and_a_removed_token_does(
        self, house: House, tmp_path: Path
    ) -> None:
        kept = tmp_path / "sessions.json"
        house.reception.identity.sessions = PageSessions(kept, lambda: int(house.clock_s * 1000))
        async with house.client() as client:
            csrf = await signed_in(house, client)
            house.reception.identity.sessions = PageSessions(kept, lambda: int(house.clock_s * 1000))
            headers = {"origin": "http://localhost", "x-shunter-csrf": csrf}
            assert (await client.post(PAUSE, json={}, headers=headers)).status_code == 200
            remove_token(house.tokens, "operater")
            assert (await client.get("/api/v1/fleet")).status_code == 401

    async def test_a_session_ends(self, house: House) -> None:
        async with house.client() as client:
            csrf = await signed_in(house, client)
            house.clock_s += SESSION_SECONDS - 1
            assert (await client.get("/api/v1/fleet")).status_code == 200
            house.clock_s += 2
            assert (await client.get("/api/v1/fleet")).status_code == 401
            csrf = await signed_in(house, client)
            headers = {"origin": "http://localhost", "x-shunter-csrf": csrf}
            assert (await client.delete("/api/v1/session", headers=headers)).status_code == 204
            assert (await client.get("/api/v1/fleet")).status_code == 401


class TestWrongTokens:
    async def test_they_are_counted_and_answered_late_and_right_ones_are_not(self, house: House) -> None:
        house.reception.wrong_tokens = WrongTokens(30)
        async with house.client(authorization="Bearer shunter_guessed") as guesser, house.client() as page:
            guesses = [asyncio.create_task(guesser.get("/api/v1/fleet")) for _ in range(MOST_WAITING)]
            await until(lambda: house.reception.wrong_tokens.count == MOST_WAITING)
            refused = await guesser.get("/api/v1/fleet")
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "5")
            await signed_in(house, page)
            assert not any(guess.done() for guess in guesses)
            for guess in guesses:
                guess.cancel()
            await asyncio.gather(*guesses, return_exceptions=True)
            metrics = await page.get("/metrics", headers={"authorization": f"Bearer {house.secrets[AccessRole.READ]}"})
        assert f"shunter_service_wrong_tokens_total {MOST_WAITING + 1}.0" in metrics.text
        assert 'shunter_service_http_refused_total{reason="token-wrong"} 11.0' in metrics.text

    async def test_a_wrong_token_of_the_page_is_one_of_them(self, house: House) -> None:
        async with house.client() as page:
            body = {"token": "shunter_wrong"}
            answer = await page.post("/api/v1/session", json=body, headers={"origin": "http://localhost"})
        assert (answer.status_code, answer.json()["type"]) == (401, "urn:shunter:token-wrong")
        assert house.reception.wrong_tokens.count == 1


async def test_the_audit_has_every_refusal_and_stays_small(house: House) -> None:
    async with house.client() as nobody, house.client(AccessRole.READ) as reader:
        for _ in range(20):
            await nobody.get("/api/v1/fleet")
        await reader.post(PAUSE, json={})
    house.log.close()
    lines = [orjson.loads(line) for line in house.audit.read_bytes().splitlines()]
    of_nobody = [line for line in lines if not line["who"]]
    assert [line["verb"] for line in of_nobody] == ["GET /api/v1/fleet"] * 5 + ["refused"]
    assert of_nobody[-1]["outcome"] == "15 more requests were refused in a minute"
    assert [(line["who"], line["verb"]) for line in lines if line["who"]] == [
        ("readr", "POST /api/v1/clusters/prod-eu/pause")
    ]


async def test_the_audit_says_who_did_what_and_has_no_token(house: House) -> None:
    async with house.client(AccessRole.OPERATE) as client, house.client() as page:
        await client.post(PAUSE, json={"comment": "too hot"})
        await client.post("/api/v1/clusters/prod-eu/approve", json={"proposal": "gone"})
        await page.post("/api/v1/session", json={"token": "shunter_wrong"}, headers={"origin": "http://localhost"})
    lines = [orjson.loads(line) for line in house.audit.read_bytes().splitlines()]
    assert [(line["who"], line["by"], line["verb"]) for line in lines] == [
        ("operater", "token", "pause"),
        ("operater", "token", "approve"),
        ("", "", "POST /api/v1/session"),
    ]
    assert lines[0]["comment"] == "too hot"
    assert lines[1]["outcome"] == "refused: there is no proposal gone of prod-eu"
    text = house.audit.read_text()
    assert not any(secret in text for secret in [*house.secrets.values(), "shunter_wrong"])
    assert house.audit.stat().st_mode & 0o777 == 0o600


class TestGuards:
    @pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "127.0.0.1.nip.io:80", "", "[::2]:80"])
    async def test_a_name_that_nobody_configured_is_refused(self, house: House, host: str) -> None:
        async with house.client(AccessRole.READ) as client:
            answer = await client.get("/api/v1/fleet", headers={"host": host})
            assert (answer.status_code, answer.json()["type"]) == (421, "urn:shunter:unknown-host")

    @pytest.mark.parametrize(
        "host", ["localhost/health?", "localhost/api/v1/session?", "x/ready#", "localhost/metrics"]
    )
    async def test_a_path_in_the_host_changes_nothing(self, house: House, host: str) -> None:
        async with house.client() as nobody:
            for method, path in (("GET", "/api/v1/fleet"), ("POST", PAUSE), ("GET", "/api/v1/events")):
                answer = await nobody.request(method, path, headers={"host": host})
                assert answer.status_code == 421, (method, path)

    @pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8080", "127.0.0.1:1", "[::1]:8080"])
    async def test_its_own_names_are_not(self, house: House, host: str) -> None:
        async with house.client(AccessRole.READ) as client:
            assert (await client.get("/api/v1/fleet", headers={"host": host})).status_code == 200

    def test_ports_are_left_out(self) -> None:
        assert [host_of(each) for each in ("A:80", "a", "[::1]:80", "[::1]")] == ["a", "a", "[::1]", "[::1]"]

    @pytest.mark.parametrize("path", ["/", "/api/v1/fleet", "/nope", "/assets/style.css", "/clusters/prod-eu/moves"])
    async def test_every_answer_has_its_headers(self, house: House, path: str) -> None:
        async with house.client() as client:
            headers = (await client.get(path)).headers
            policy = headers["content-security-policy"]
            assert "unsafe" not in policy
            assert "frame-ancestors 'none'" in policy
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["x-frame-options"] == "DENY"

    @pytest.mark.parametrize("path", ["/api/v1/session", PAUSE, LIMIT, f"{CLUSTER}/sketch", f"{CLUSTER}/propose"])
    async def test_a_body_has_a_bound_of_its_route(self, house: House, path: str) -> None:
        most = demand_of("POST", path).most_bytes

        async def endless():
            while True:
                yield b" " * 65_536

        async with house.client(AccessRole.OPERATE, origin="http://localhost") as client:
            told = await client.post(path, content=b" " * (most + 1))
            untold = await client.post(path, content=endless())
        assert [told.status_code, untold.status_code] == [413, 413]
        assert f"at most {most} bytes" in told.json()["detail"]

    @pytest.mark.parametrize(
        ("path", "role", "status"),
        [(PAUSE, None, 401), (PAUSE, AccessRole.READ, 403), (PAUSE, AccessRole.OPERATE, 413), ("/nowhere", None, 413)],
    )
    async def test_a_request_is_judged_before_its_body_is_read(
        self, house: House, path: str, role: AccessRole | None, status: int
    ) -> None:
        read = 0

        async def body():
            nonlocal read
            read += 1
            yield b" "

        async with house.client(role) as client:
            answer = await client.post(path, content=body(), headers={"content-length": str(10**9)})
        assert (answer.status_code, read) == (status, 0)

    @pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.kind.value)
    def test_what_the_document_allows_fits_into_the_bound(self, verb: Verb) -> None:
        """Names are short in truth: 100,000 partitions with the longest names would be 30 MB."""
        body: dict[str, object] = {"comment": "\U00012345" * 2_000}
        for name, field in verb.body.model_json_schema()["properties"].items():
            most = field.get("maxItems", 0)
            names = field.get("items", {}).get("type") == "string"
            told: object = "x" * 60 if most == 100_000 else "\u1234" * 80 if names else 2**31 - 1
            body.setdefault(name, [told] * most if most else "\u1234" * field.get("maxLength", 40))
        if "replacements" in body:
            body["replacements"] = {str(2**31 - 1 - number): 2**31 - 1 for number in range(1_000)}
        assert len(json.dumps(body)) < verb.body.most_bytes

    def test_a_session_takes_four_kibibytes_and_every_order_has_a_bound(self) -> None:
        assert demand_of("POST", "/api/v1/session").most_bytes == 4 * 1024
        assert demand_of("POST", LIMIT).most_bytes == 128 * 1024
        assert demand_of("POST", PAUSE).most_bytes == 8 * 1024 * 1024
        assert demand_of("GET", PAUSE).most_bytes == 4 * 1024

    @pytest.mark.parametrize(
        "body",
        [
            {f"key-{number}": 0 for number in range(20)},
            {"partitions": list(range(1_000))},
            {"partitions": [str(number) for number in range(100_001)]},
            {"k" * 1_000_000: 1},
        ],
        ids=["keys", "types", "many", "long"],
    )
    async def test_a_refusal_names_few_errors(self, house: House, body: dict[str, object]) -> None:
        async with house.client(AccessRole.OPERATE) as client:
            answer = await client.post(PAUSE, json=body)
        assert answer.status_code == 400
        assert len(answer.content) < 5_000

    async def test_a_body_that_does_not_come_is_not_awaited(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(guards, "BODY_SECONDS", 0.01)

        async def stalled():
            yield b"{"
            await asyncio.Event().wait()

        async with house.client(AccessRole.OPERATE) as client:
            answer = await client.post(PAUSE, content=stalled(), headers={"content-length": "100"})
        assert (answer.status_code, answer.json()["type"]) == (408, "urn:shunter:body-too-slow")

    @pytest.mark.parametrize("host", ["10.1.2.3:8080", "shunter.kafka.svc", ""])
    async def test_probes_and_metrics_answer_to_every_name(self, house: House, host: str) -> None:
        async with house.client(AccessRole.READ) as client, house.client() as nobody:
            for path in ("/health", "/ready"):
                assert (await nobody.get(path, headers={"host": host})).status_code == 200
            assert (await client.get("/metrics", headers={"host": host})).status_code == 200
            assert (await nobody.get("/metrics", headers={"host": host})).status_code == 401
            assert (await client.get("/api/v1/fleet", headers={"host": host})).status_code == 421

    async def test_without_tokens_a_page_of_another_site_can_t_read_metrics(self, tmp_path: Path) -> None:
        async with House(tmp_path, tokens=False).client() as client:
            assert (await client.get("/metrics", headers={"host": "evil.example"})).status_code == 421

    @pytest.mark.parametrize("path", ["/", "/health", "/nope", "/api/v1/fleet"])
    async def test_head_is_get_without_a_body(self, house: House, path: str) -> None:
        async with house.client(AccessRole.READ) as client:
            head, get = await client.head(path), await client.get(path)
        assert (head.status_code, head.content) == (get.status_code, b"")
        assert head.headers["content-type"] == get.headers["content-type"]

    async def test_tls_is_demanded_from_then_on(self, house: House) -> None:
        async with house.client(AccessRole.READ) as client:
            assert "strict-transport-security" not in (await client.get("/health")).headers
            secured = await client.get("https://localhost/health")
        assert secured.headers["strict-transport-security"].startswith("max-age=")

    def test_the_page_has_no_inline_script_or_style(self) -> None:
        page = (Path(__file__).parents[3] / "src/shunter/web/assets/index.html").read_text()
        assert re.findall(r"<script(?![^>]*\bsrc=)", page) == []
        assert "style=" not in page
        assert re.findall(r'(?:src|href)="(?!/assets/)', page) == []


async def test_a_vote_at_the_socket_is_that_of_a_unix_user(tmp_path: Path) -> None:
    yard = Yard()
    client = ServiceClient(ServiceServer(tmp_path / SOCKET))
    async with serving(yard.front, None, door=tmp_path / SOCKET):
        await asyncio.to_thread(client.order, ServiceOrder(OrderKind.PAUSE, "prod-eu"), "", "k")
    assert [(signed.who, signed.by) for _order, signed in yard.orders] == [(getpass.getuser(), USER)]
