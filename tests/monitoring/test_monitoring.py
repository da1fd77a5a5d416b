"""The dashboards and alert rules in docs/monitoring: they name only exported metrics, and the rules pass their tests.

Two exporters run: a service with its page, and a controller's endpoint.
"""

import asyncio
import contextlib
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import orjson
import pytest
from prometheus import program
from prometheus_client.parser import text_string_to_metric_families

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "web"))
from web_yard import Yard

from lab.testbed.ports import free_port
from shunter.app.controller.metric_rows import ROWS, ControllerParts
from shunter.app.controller.metrics import PrometheusPage
from shunter.app.controller.process import ControllerProcess
from shunter.app.controller.settings import load_controller_config
from shunter.drivers.host.metrics_endpoint import MetricsEndpoint
from shunter.web.server import WebOptions, serving

REPOSITORY = Path(__file__).parents[2]
FOLDER = REPOSITORY / "docs" / "monitoring"
RULES = FOLDER / "shunter-rules.yml"
BOARDS = sorted(FOLDER.glob("*.json"))
NAME = re.compile(r"\b(?:shunter|kafka_controller)_[a-z0-9_]+\b")
SELECTOR = re.compile(r"\b((?:shunter|kafka_controller)_[a-z0-9_]+)\{([^}]*)\}")
LEGEND = re.compile(r"\{\{\s*(\w+)\s*\}\}")
SCRAPED = {"job", "instance"}
"""Labels that Prometheus adds."""


def expressions(board: Path) -> list[tuple[str, str]]:
    """The queries of a dashboard, with the legend of each."""
    document = orjson.loads(board.read_bytes())
    targets = [target for panel in document["panels"] for target in panel.get("targets", ())]
    variables = [each["query"]["query"] for each in document["templating"]["list"] if each["type"] == "query"]
    return [(each["expr"], each["legendFormat"]) for each in targets] + [(each, "") for each in variables]


def alerts() -> list[tuple[str, str]]:
    """Each alert's name and the text of its rule."""
    parts = RULES.read_text().split("- alert: ")[1:]
    return [(part.split("\n", 1)[0], part) for part in parts]


def controller() -> MetricsEndpoint:
    told = {"zookeeper": "nowhere:1", "listener": ["PLAINTEXT://127.0.0.1:0"], "broker_id": 1000}
    ours = ControllerProcess(load_controller_config(None, told))
    page = PrometheusPage(lambda: ControllerParts(ours.machine, ours.loop, ours.channels, ours.lag, ours.server))
    return MetricsEndpoint(page.render)


@pytest.fixture
async def exporters() -> AsyncIterator[list[str]]:
    """Addresses of running metrics endpoints: a service's, a controller's."""
    async with AsyncExitStack() as stack:
        yard = Yard()
        yard.tick()
        service = await stack.enter_async_context(serving(yard.front, WebOptions(port=0)))
        endpoint = controller()
        stack.push_async_callback(endpoint.close)
        port = await endpoint.start(0)
        yield [f"{service}metrics", f"http://127.0.0.1:{port}/metrics"]


async def exported(addresses: list[str]) -> dict[str, set[str]]:
    """Metrics by name, with the labels that their samples have."""
    found: dict[str, set[str]] = {}
    async with httpx.AsyncClient() as client:
        for address in addresses:
            text = (await client.get(address)).text
            for name in re.findall(r"^# TYPE (\S+)", text, re.MULTILINE):
                found[name] = set()
            for family in text_string_to_metric_families(text):
                for sample in family.samples:
                    found[sample.name] = found.get(sample.name, set()) | set(sample.labels)
    for row in ROWS:  # A metric without samples yet, such as one for each broker, has its labels in the table.
        found[f"{row.name}_total" if row.counter else row.name] |= set(row.labels)
    return found


async def test_dashboards_and_rules_name_only_what_is_exported(exporters: list[str]) -> None:
    known = await exported(exporters)
    asked = [(board.name, expr) for board in BOARDS for expr, _legend in expressions(board)]
    asked += [(RULES.name, text.split("annotations:")[0]) for _name, text in alerts()]
    assert len(asked) > 80
    for place, text in asked:
        names = NAME.findall(text)
        assert names, f"{place}: {text}"
        assert set(names) <= known.keys(), f"{place} asks for what nobody exports: {set(names) - known.keys()}"
        for name, matchers in SELECTOR.findall(text):
            labels = {re.split(r"[=!]", matcher)[0].strip() for matcher in matchers.split(",")}
            assert labels <= known[name] | SCRAPED, f"{place}: {name} has no label {labels - known[name]}"


async def test_legends_name_labels_that_are_there(exporters: list[str]) -> None:
    known = await exported(exporters)
    for board in BOARDS:
        for expr, legend in expressions(board):
            labels = set().union(*(known[name] for name in NAME.findall(expr)))
            assert set(LEGEND.findall(legend)) <= labels | SCRAPED, f"{board.name}: {expr}: {legend}"


async def test_a_name_that_nobody_exports_is_found(exporters: list[str]) -> None:
    known = await exported(exporters)
    assert "shunter_service_partitions" in known
    assert "shunter_service_wagons" not in known
    assert known["shunter_service_moves"] == {"cluster", "state"}
    assert known["shunter_broker_queue"] == {"broker"}


def test_dashboards_can_be_imported() -> None:
    uids = set()
    for board in BOARDS:
        document = orjson.loads(board.read_bytes())
        uids.add(document["uid"])
        ids = [panel["id"] for panel in document["panels"]]
        assert len(set(ids)) == len(ids)
        assert document["templating"]["list"][0]["type"] == "datasource", (
            "the reader's own Prometheus is chosen on import"
        )
        boxes = [panel["gridPos"] for panel in document["panels"]]
        assert all(box["x"] + box["w"] <= 24 for box in boxes)
    assert len(uids) == len(BOARDS) == 2


def test_every_alert_is_described_and_tested_both_ways() -> None:
    tests = (FOLDER / "shunter-rules-test.yml").read_text()
    guide = (REPOSITORY / "docs" / "monitoring.md").read_text()
    names = [name for name, _text in alerts()]
    assert len(set(names)) == len(names) > 25
    for name, text in alerts():
        assert f"name: {name} fires\n" in tests
        assert f"name: {name} stays quiet\n" in tests
        assert f"`{name}`" in guide, f"docs/monitoring.md does not say what {name} means"
        assert re.search(r"severity: (critical|warning|info)\}", text), name


@pytest.mark.long
def test_promtool_takes_the_rules_and_their_tests() -> None:
    for arguments in (("check", "rules", RULES.name), ("test", "rules", "shunter-rules-test.yml")):
        done = subprocess.run(
            [program("promtool"), *arguments], cwd=FOLDER, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "SUCCESS" in done.stdout


@pytest.mark.long
async def test_a_real_prometheus_scrapes_it_and_answers_every_panel(exporters: list[str], tmp_path: Path) -> None:
    targets = [address.removeprefix("http://").removesuffix("/metrics") for address in exporters]
    (tmp_path / "prometheus.yml").write_text(
        "global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
        f"rule_files: ['{RULES}']\n"
        f"scrape_configs: [{{job_name: shunter, static_configs: [{{targets: {targets}}}]}}]\n"
    )
    port = free_port()
    command = [program("prometheus"), "--config.file=prometheus.yml", f"--web.listen-address=127.0.0.1:{port}"]
    with (tmp_path / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(*command, cwd=tmp_path, stdout=log, stderr=log)
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}/api/v1/", timeout=30) as client:
            await until(lambda: _are_up(client, len(targets)))
            await until(lambda: _rules_were_evaluated(client))
            for board in BOARDS:
                for expr, _legend in expressions(board):
                    await _answers(client, board.name, expr)
    finally:
        process.kill()
        await process.wait()


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait for a condition of a server that may not listen yet."""
    pause = asyncio.Event()
    async with asyncio.timeout(60):
        while not await condition():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(pause.wait(), 0.2)


async def _are_up(client: httpx.AsyncClient, count: int) -> bool:
    try:
        answer = await client.get("query", params={"query": "sum(up)"})
    except httpx.TransportError:
        return False
    result = answer.json()["data"]["result"] if answer.is_success else ()  # It answers 503 until it is ready.
    return bool(result) and float(result[0]["value"][1]) == count


async def _rules_were_evaluated(client: httpx.AsyncClient) -> bool:
    groups = (await client.get("rules")).json()["data"]["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert all(rule["health"] != "err" for rule in rules), [rule.get("lastError") for rule in rules]
    return len(rules) == len(alerts()) and all(rule["health"] == "ok" for rule in rules)


async def _answers(client: httpx.AsyncClient, place: str, expr: str) -> None:
    if expr.startswith("label_values("):
        return  # A function of Grafana. The tests above check that its metric exists.
    asked = re.sub(r"\$\w+", ".*", expr)
    answer = (await client.get("query", params={"query": asked})).json()
    assert answer["status"] == "success", f"{place}: {expr}: {answer}"
