"""Shunter's controllers as the service sees them: asked over HTTP at a real endpoint, seldom, and doubted if need be."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from shunter.app.access.access_tokens import AccessRole, add_token
from shunter.app.controller.security import MetricsReaders
from shunter.app.service.controllers import KEPT_MS, Controllers
from shunter.drivers.host.metrics_endpoint import MetricsEndpoint
from shunter.drivers.service.controller_status import MOST_BYTES, ControllersPlace, ask_controller
from shunter.errors import DriverError, FormatError
from shunter.views.controller_status import ControllerStatus, decode_status, encode_status

STATUS = ControllerStatus(
    1000, True, True, ("in charge: controller epoch 7",), 7, 4, 90, {"moving": 3}, 2, 0.5, 1, 0, 0.001, 0.02
)


class Controlled:
    """A metrics endpoint that counts who asked how it stands."""

    def __init__(self, tokens: Path | None = None) -> None:
        self.asked = 0
        self.raw = encode_status(STATUS)
        readers = None if tokens is None else MetricsReaders(tokens)
        self.endpoint = MetricsEndpoint(lambda: ("text/plain", b""), may_read=readers, status=self._status)

    def _status(self) -> bytes:
        self.asked += 1
        return self.raw

    async def start(self) -> str:
        return f"http://127.0.0.1:{await self.endpoint.start(0)}"


def test_what_is_told_is_what_was_meant() -> None:
    assert decode_status(encode_status(STATUS), "here") == STATUS


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (b"shunter_active 1\n", "answers with no JSON"),
        (b"[]", "answers with no object"),
        (b'{"broker_id": 1}', "does not report active"),
        (encode_status(replace(STATUS, active="yes")), "active = 'yes' is not such a figure"),  # type: ignore[arg-type]
        (encode_status(replace(STATUS, moves={"moving": True})), "moves = "),
        (encode_status(replace(STATUS, told=(1,))), "told = "),  # type: ignore[arg-type]
        (encode_status(replace(STATUS, brokers=1.5)), "brokers = 1.5 is not such a figure"),  # type: ignore[arg-type]
        (encode_status(replace(STATUS, lag_s=True)), "lag_s = True is not such a figure"),
    ],
)
def test_what_is_no_status_is_refused(raw: bytes, told: str) -> None:
    with pytest.raises(FormatError, match=told):
        decode_status(raw, "here")


async def test_a_controller_is_asked_once_for_many_and_again_after_a_while() -> None:
    now_ms = 1_000_000
    controlled = Controlled()
    url = await controlled.start()
    seen = Controllers(lambda: ControllersPlace((url,)), lambda: now_ms)
    views = await asyncio.gather(*(seen.view() for _ in range(20)))
    assert controlled.asked == 1
    assert {each.controllers[0].status.controller_epoch for each in views if each.controllers[0].status} == {7}
    await seen.view()
    assert controlled.asked == 1
    now_ms += KEPT_MS
    await seen.view()
    assert controlled.asked == 2
    now_ms -= KEPT_MS * 100  # The clock was set back: nothing is taken for fresh that is not.
    await seen.view()
    assert controlled.asked == 3
    await controlled.endpoint.close()
    now_ms += KEPT_MS
    (gone,) = (await seen.view()).controllers
    assert (gone.url, gone.status) == (url, None)
    assert "does not answer" in gone.trouble


async def test_nobody_is_asked_where_the_file_names_none() -> None:
    assert (await Controllers(lambda: None, lambda: 5).view()).controllers == ()


async def test_a_token_is_shown_where_one_is_wanted(tmp_path: Path) -> None:
    tokens, secret = tmp_path / "tokens.json", tmp_path / "secret"
    secret.write_text(add_token(tokens, "shunter", AccessRole.READ, None) + "\n")
    controlled = Controlled(tokens)
    url = await controlled.start()
    with pytest.raises(DriverError, match="controllers-token-file"):
        await asyncio.to_thread(ask_controller, url, ControllersPlace((url,)))
    assert await asyncio.to_thread(ask_controller, url, ControllersPlace((url,), secret)) == STATUS
    with pytest.raises(FormatError, match="can't be read as a token"):
        await asyncio.to_thread(ask_controller, url, ControllersPlace((url,), tmp_path / "none"))
    await controlled.endpoint.close()


async def test_what_is_no_controller_is_told() -> None:
    controlled = Controlled()
    url = await controlled.start()
    controlled.raw = b" " * (MOST_BYTES + 1)
    with pytest.raises(FormatError, match="more than 65536 bytes"):
        await asyncio.to_thread(ask_controller, url, ControllersPlace((url,)))
    await controlled.endpoint.close()
    other = MetricsEndpoint(lambda: ("text/plain", b""))
    url = f"http://127.0.0.1:{await other.start(0)}"
    with pytest.raises(DriverError, match="answers 404: nothing is at /status there"):
        await asyncio.to_thread(ask_controller, url, ControllersPlace((url,)))
    await other.close()
