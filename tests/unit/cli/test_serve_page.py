"""`shunter serve run --listen`: the page of a service that really runs, though its cluster does not answer."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import orjson
import pytest
from click.testing import CliRunner

from shunter.app.access.access_tokens import AccessRole, add_token
from shunter.cli.main import main

WITHIN_S = 120


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "keeper.toml"
    path.write_text('[cluster.dead]\nbootstrap-server = "127.0.0.1:1"\njournal = "dead.journal"\n')
    return path


@pytest.fixture
async def served(policy: Path, tmp_path: Path) -> AsyncIterator[tuple[Process, str, str]]:
    """The process, the address of its page, and the token of an administrator."""
    secret = add_token(tmp_path / "tokens.json", "anna", AccessRole.ADMINISTER, None)
    flags = (
        "--listen",
        "127.0.0.1:0",
        "--tokens",
        str(tmp_path / "tokens.json"),
        "--state-dir",
        str(tmp_path / "state"),
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "shunter", "serve", "run", str(policy), *flags, stderr=PIPE, env=os.environ
    )
    assert process.stderr is not None
    try:
        async with asyncio.timeout(WITHIN_S):
            line = ""
            while "the page is at " not in line:
                line = (await process.stderr.readline()).decode()
                assert line, "it ended before it served"
        yield process, line.split("the page is at ")[1].strip(), secret
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


async def test_a_cluster_that_does_not_answer_is_told_and_the_service_goes_on(
    served: tuple[Process, str, str], tmp_path: Path
) -> None:
    process, address, secret = served
    headers = {"authorization": f"Bearer {secret}"}
    async with httpx.AsyncClient(base_url=address, headers=headers, timeout=WITHIN_S) as client:
        async with client.stream("GET", "/api/v1/events") as events, asyncio.timeout(WITHIN_S):
            async for line in events.aiter_lines():
                row = (await client.get("/api/v1/fleet")).json()["clusters"][0]
                if row["situation"]["state"] == "unreachable":
                    break
                assert line is not None
        assert "127.0.0.1:1" in row["situation"]["headline"]
        ready = await client.get("/ready")
        assert (ready.status_code, ready.json()["status"]) == (503, "not ready"), "it does its work for no cluster"
        assert "dead: can't be observed: " in ready.json()["why"]
        key = {"idempotency-key": "k1"}
        body = {"intent": "drain", "brokers": [3], "comment": "it goes"}
        first = await client.post("/api/v1/clusters/dead/intend", json=body, headers=key)
        again = await client.post("/api/v1/clusters/dead/intend", json=body, headers=key)
        assert (first.status_code, again.status_code) == (503, 503), "the cluster can't take what people say about it"
        assert "people's words about dead are not read yet" in first.json()["detail"]
        assert (await client.get("/api/v1/clusters/dead")).json()["intents"] == []
    process.send_signal(signal.SIGTERM)
    async with asyncio.timeout(WITHIN_S):
        await process.communicate()
    assert process.returncode == 0
    lines = [orjson.loads(line) for line in (tmp_path / "state" / "audit.log").read_bytes().splitlines()]
    assert [(line["who"], line["verb"]) for line in lines] == [("anna", "intend"), ("anna", "intend")]


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (("--listen", "0.0.0.0:0"), "give --tokens FILE, or listen on 127.0.0.1"),
        (("--listen", "127.example.com:0"), "give --tokens FILE, or listen on 127.0.0.1"),
        (("--listen", "8080"), "write HOST:PORT"),
        (("--listen", "localhost:99999"), "write HOST:PORT"),
        (("--tokens", "x"), "--tokens is for --listen"),
        (("--listen", "127.0.0.1:0", "--key", "k.pem"), "--certificate and --key belong together"),
    ],
)
def test_flags_that_can_t_be_used(policy: Path, flags: tuple[str, ...], told: str) -> None:
    ended = CliRunner().invoke(main, ["serve", "run", str(policy), *flags])
    assert (ended.exit_code, told in ended.output) == (2, True), ended.output
