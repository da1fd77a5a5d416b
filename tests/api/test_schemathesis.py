"""schemathesis on the whole API: requests that fit the OpenAPI document get the answers in it, all others are refused.

All operations are tested but the event stream, which never ends and has tests of its own
(`tests/unit/web/test_web_events.py`). Behind the API is the tests' backstage with the real front, server and identity.
Tests of the service's own checks are in `tests/unit/app`.
"""

import asyncio
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "web"))
from web_yard import Yard

from locked_programs import binaries
from shunter.app.access.access_tokens import AccessRole, add_token
from shunter.web.server import WebOptions, serving

SECONDS = 900
EXAMPLES = 5
"""Random cases of each operation. The phase `coverage` adds cases from the document, 1,800 in all."""
SETTINGS = """
[parameters]
"path.name" = "prod-eu"
"path.partition" = "topic-001-0"
"path.execution" = 1
"path.proposal" = "prod-eu-1"

# 422: it fits the document, and the service has a reason against it (a broker that is not there, a key that was used).
# What does not fit the document is 400, and stays a failure here.
[checks.positive_data_acceptance]
expected-statuses = ["2xx", 401, 403, 404, 409, 422]
"""


@pytest.mark.long
@pytest.mark.timeout(SECONDS + 700)
async def test_the_api_is_as_its_document_says(tmp_path: Path) -> None:
    binary = (await asyncio.to_thread(binaries, "schemathesis")) / "schemathesis"
    tokens = tmp_path / "tokens.json"
    secret = add_token(tokens, "anna", AccessRole.ADMINISTER, None)
    (tmp_path / "schemathesis.toml").write_text(SETTINGS)
    yard = Yard({"prod-eu": (6, 60)}, moves=10)
    async with serving(yard.front, WebOptions(port=0, tokens=tokens)) as address:
        process = await asyncio.create_subprocess_exec(
            binary,
            "run",
            f"{address}api/v1/openapi.json",
            *("--header", f"Authorization: Bearer {secret}"),
            *("--exclude-path", "/api/v1/events"),
            *("--phases", "coverage,fuzzing", "--max-examples", str(EXAMPLES), "--seed", "1"),
            *("--request-timeout", "30", "--suppress-health-check", "all", "--continue-on-failure"),
            cwd=tmp_path,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            async with asyncio.timeout(SECONDS):
                told = (await process.communicate())[0].decode()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    assert process.returncode == 0, told
    assert "Tested: 50" in told, "an operation more has to be looked at here, too"
