"""Single sign-on with an OpenID provider that this project did not write (oidc-provider for Node.js), on loopback.

A client with cookies walks the whole way: to the issuer, through its two forms, and back. Then the issuer's keys are
rotated, its clock differs, and it makes tokens for others.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import httpx
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "web"))
from web_yard import Yard

from lab.testbed.artifacts import cache_folder
from shunter.app.access.access_tokens import AccessRole, add_token
from shunter.drivers.security import published_keys
from shunter.model.security.access import IssuerRules, SignOnRules
from shunter.model.security.listeners import Secret
from shunter.web.server import WebOptions, serving

HERE = Path(__file__).parent
PACKAGES = ("package.json", "package-lock.json")
SECRET = "a secret & more of it"
FLEET = "api/v1/fleet"

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]


@pytest.fixture(scope="session")
def packages() -> Path:
    """A folder with the locked packages; skips the tests where they can't be had."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("no real issuer: node and npm are not on the PATH")
    wanted = hashlib.sha256(b"".join((HERE / name).read_bytes() for name in PACKAGES)).hexdigest()
    folder = cache_folder() / "oidc-provider"
    made_from = folder / "made-from"
    if not made_from.exists() or made_from.read_text() != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for name in PACKAGES:
            shutil.copy(HERE / name, folder)
        npm = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        done = subprocess.run(npm, cwd=folder, capture_output=True, text=True, timeout=240, check=False)
        if done.returncode:
            pytest.skip(f"no real issuer: npm ci: {done.stderr[-500:]}")
        made_from.write_text(wanted)
    return folder


@asynccontextmanager
async def issuing(packages: Path, redirect: str, port: int = 0, skew_s: int = 0) -> AsyncIterator[str]:
    """Run the provider; gives its address."""
    process = await asyncio.create_subprocess_exec(
        *("node", HERE / "issuer.mjs", redirect, str(port), str(skew_s)),
        cwd=packages,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(60):
            address = ""
            while not address.startswith("http"):
                line = await process.stdout.readline()
                assert line, "the issuer ended"
                address = line.decode().strip()
        yield address
    finally:
        process.kill()
        await process.communicate()


Serve = Callable[[str], Awaitable[str]]


@pytest.fixture
async def serve(tmp_path: Path, free_port: int) -> AsyncIterator[Serve]:
    """Begin a service with an issuer; gives the service's address."""
    async with AsyncExitStack() as stack:

        async def begin(issuer: str) -> str:
            tokens = tmp_path / "tokens.json"
            add_token(tokens, "emergency", AccessRole.ADMINISTER, None)
            address = f"http://127.0.0.1:{free_port}"
            rules = IssuerRules(issuer, "shunter", address, Secret(SECRET))
            on = SignOnRules({"ops": AccessRole.OPERATE, "staff": AccessRole.READ}, rules)
            options = WebOptions(port=free_port, tokens=tokens, sessions=tmp_path / "sessions.json")
            return await stack.enter_async_context(serving(Yard().front, options, sign_on=on))

        yield begin


async def walk(client: httpx.AsyncClient, service: str, person: str) -> httpx.Response:
    """What a person does in a browser: gives the answer of the service, to which the browser comes back."""
    answer = await client.get(f"{service}api/v1/login")
    for _ in range(20):
        if answer.is_redirect:
            there = answer.url.join(answer.headers["location"])
            answer = await client.get(there)
            if there.path == "/api/v1/callback":
                return answer
            continue
        assert answer.status_code == 200, answer.text
        form = re.search(r'action="([^"]+)"', answer.text)
        prompt = re.search(r'name="prompt" value="(\w+)"', answer.text)
        assert form is not None
        assert prompt is not None
        told = {"prompt": prompt[1], **({"login": person, "password": "x"} if prompt[1] == "login" else {})}
        answer = await client.post(answer.url.join(form[1]), data=told)
    raise AssertionError("the issuer sends the browser round and round")


async def program(issuer: str, audience: str) -> str:
    """A token for a program, by client credentials."""
    form = {"grant_type": "client_credentials", "resource": f"urn:{audience}"}
    async with httpx.AsyncClient() as client:
        answer = await client.post(f"{issuer}/token", data=form, auth=("ci", "ci's"))
    assert answer.status_code == 200, answer.text
    token = answer.json()["access_token"]
    assert isinstance(token, str)
    return token


async def status_of(service: str, token: str) -> tuple[int, str]:
    async with httpx.AsyncClient(timeout=60) as client:
        answer = await client.get(f"{service}{FLEET}", headers={"authorization": f"Bearer {token}"})
    return answer.status_code, answer.json().get("detail", "")


async def test_people_and_programs_come_in(packages: Path, serve: Serve, free_port: int) -> None:
    redirect = f"http://127.0.0.1:{free_port}/api/v1/callback"
    async with issuing(packages, redirect) as issuer, httpx.AsyncClient(timeout=60) as browser:
        service = await serve(issuer)
        assert (await browser.get(f"{service}{FLEET}")).status_code == 401
        back = await walk(browser, service, "anna")
        assert back.status_code == 303, back.text
        assert (await browser.get(back.url.join(back.headers["location"]))).status_code == 200
        who = (await browser.get(f"{service}api/v1/session")).json()
        assert (who["name"], who["role"], who["by"]) == ("anna", "operate", "session")
        headers = {"origin": service.rstrip("/"), "x-shunter-csrf": who["csrf"]}
        assert (await browser.post(f"{service}api/v1/fleet/pause", json={}, headers=headers)).status_code == 200
        assert (await browser.delete(f"{service}api/v1/session", headers=headers)).status_code == 204
        assert (await browser.get(f"{service}{FLEET}")).status_code == 401

        async with httpx.AsyncClient(timeout=60) as other:
            refused = await walk(other, service, "otto")
            assert refused.status_code == 403
            assert "otto has no access: the claim groups is [&#x27;visitors&#x27;]" in refused.text

        assert await status_of(service, await program(issuer, "shunter")) == (200, "")
        status, told = await status_of(service, await program(issuer, "grafana"))
        assert (status, "aud = 'grafana', and 'shunter' is wanted" in told) == (401, True)


async def test_keys_are_rotated(packages: Path, serve: Serve, free_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published_keys, "ASKED_AGAIN_S", -1.0)
    redirect = f"http://127.0.0.1:{free_port}/api/v1/callback"
    async with httpx.AsyncClient(timeout=60) as browser:
        async with issuing(packages, redirect) as issuer:
            service = await serve(issuer)
            assert (await walk(browser, service, "anna")).status_code == 303
            old = await program(issuer, "shunter")
            assert (await status_of(service, old))[0] == 200
        began = time.monotonic()
        refused = await browser.get(f"{service}api/v1/login")
        assert refused.status_code in (303, 503), "the issuer is down: it was asked before, or it is told"
        assert (await browser.get(f"{service}{FLEET}")).status_code == 200, "the session goes on"
        assert (await status_of(service, old))[0] == 200, "its key is known"
        assert time.monotonic() - began < 30
        port = int(issuer.rpartition(":")[2])
        async with issuing(packages, redirect, port):
            assert (await status_of(service, await program(issuer, "shunter")))[0] == 200
            assert (await status_of(service, old))[0] == 401, "its key was withdrawn"
            async with httpx.AsyncClient(timeout=60) as another:
                assert (await walk(another, service, "anna")).status_code == 303


@pytest.mark.parametrize(("skew_s", "status"), [(20, 200), (-20, 200), (90, 401), (-700, 401)])
async def test_clocks_differ(packages: Path, serve: Serve, free_port: int, skew_s: int, status: int) -> None:
    redirect = f"http://127.0.0.1:{free_port}/api/v1/callback"
    async with issuing(packages, redirect, skew_s=skew_s) as issuer:
        service = await serve(issuer)
        found, told = await status_of(service, await program(issuer, "shunter"))
        assert found == status
        assert status == 200 or re.search("it is not yet valid" if skew_s > 0 else "it has expired", told)
