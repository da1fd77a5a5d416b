"""The commands at a port: questions, orders and refusals, against the real API."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from click.testing import CliRunner
from service_orders import order

from shunter.app.access.access_tokens import AccessRole, add_token
from shunter.app.evaluation.policy import read_service_file
from shunter.app.exit_codes import ExitCode
from shunter.app.service.client import ServiceClient, ServiceServer
from shunter.app.service.service import open_service
from shunter.cli.main import main
from shunter.errors import DriverError, FormatError, SettingsError
from shunter.model.service import IntentKind, OrderKind, OrderRefused, Refusal, ServiceOrder, Signature
from shunter.web.server import WebOptions, serving

DRAIN = order(IntentKind.DRAIN, "3", cluster="away")


async def test_what_is_asked_over_http(tmp_path: Path) -> None:
    (tmp_path / "k.toml").write_text('[cluster.away]\nbootstrap-server = "127.0.0.1:1"\n')
    file = read_service_file(tmp_path / "k.toml")
    (tmp_path / "secret").write_text(add_token(tmp_path / "tokens.json", "anna", AccessRole.ADMINISTER, None) + "\n")
    options = WebOptions(port=0, tokens=tmp_path / "tokens.json")
    async with open_service(file, tmp_path) as (service, front), serving(front, options) as address:
        with pytest.raises(OrderRefused, match="are not read yet"):
            await front.order(DRAIN, Signature("anna"))
        service.keepers["away"].topic_of_words = None
        call = asyncio.to_thread
        with pytest.raises(DriverError, match="token"):
            await call(ServiceClient(ServiceServer(address)).fleet)
        with pytest.raises(FormatError, match="can't be read"):
            ServiceClient(ServiceServer(address, tmp_path / "none")).fleet()
        server = ServiceClient(ServiceServer(address, tmp_path / "secret"))
        fleet = await call(server.fleet)
        assert [row["name"] for row in fleet["clusters"]] == ["away"]
        done = await call(server.order, DRAIN, "old disks", "k1")
        assert await call(server.order, DRAIN, "old disks", "k1") == done
        (intent,) = service.keepers["away"].intents
        assert (intent.who, intent.comment) == ("anna", "old disks")
        paused = await call(server.order, ServiceOrder(OrderKind.PAUSE), "", "k2")
        assert "the pause of away is kept" in paused.text, "nothing is paused in a cluster that is not driven"
        assert paused.undone == (paused.text,)
        words = ("pause", "--service", address, "--token-file", str(tmp_path / "secret"))
        again = await call(CliRunner().invoke, main, [*words, "--key", "k2"])
        assert (again.exit_code, again.output) == (ExitCode.PARTLY, f"{paused.text}\n")
        assert await call(lambda: server.proposals("away", ended=True)) == []
        told = await call(server.timeline, "away", 10)
        assert [event["kind"] for event in told["events"]] == ["intend", "pause-all"]
        with pytest.raises(OrderRefused, match="does not drive away now"):
            await call(server.preview, order(OrderKind.ROLL_BACK, cluster="away"))
        with pytest.raises(OrderRefused, match="no cluster 'prod'") as refused:
            await call(server.order, DRAIN._replace(cluster="prod"), "", "k3")
        assert refused.value.refusal is Refusal.NOT_FOUND
        plan = order(OrderKind.PROPOSE, "rebalance", cluster="away")
        with pytest.raises(OrderRefused, match=r"was not observed yet|can't be observed now") as refused:
            await call(lambda: server.sketch(plan, changes=True))
        assert refused.value.refusal is Refusal.UNREACHABLE


@pytest.mark.parametrize("url", ["kafka1:8080", "http://", "ftp://kafka1", "http://kafka1:99999", "http://[::1"])
def test_what_is_no_url_of_a_service_is_refused(url: str) -> None:
    with pytest.raises(SettingsError, match="http://HOST:PORT"):
        ServiceClient(ServiceServer(url)).fleet()


def test_a_key_that_no_header_can_have_is_named() -> None:
    with pytest.raises(SettingsError, match="--key 'ключ': a key has printable ASCII alone"):
        ServiceClient(ServiceServer("http://127.0.0.1:1")).order(DRAIN, "", "ключ")


def test_a_token_is_not_sent_unencrypted_to_another_machine(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("shunter_x")
    server = ServiceServer("http://192.0.2.1:1", tmp_path / "secret")
    with pytest.raises(SettingsError, match="the token would cross the network unencrypted; use https://, or --plain"):
        ServiceClient(server).fleet()


def test_a_server_that_is_not_there() -> None:
    with pytest.raises(DriverError, match="refused"):
        ServiceClient(ServiceServer("http://127.0.0.1:1")).fleet()


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_ca_file_that_can_t_be_used_is_named(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_text(content)
    with pytest.raises(FormatError, match=r"ca\.pem: can't be used as certificates"):
        ServiceClient(ServiceServer("https://127.0.0.1:1", ca_file=path)).fleet()
