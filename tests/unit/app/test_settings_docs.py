"""The guide says what the program does: every setting, its default, its flag; every metric."""

import re
from pathlib import Path
from typing import NamedTuple

import click
import pytest
from click.testing import CliRunner
from pydantic.fields import FieldInfo

from shunter.app.controller.metric_rows import ControllerParts
from shunter.app.controller.metrics import PrometheusPage
from shunter.app.controller.process import ControllerProcess
from shunter.app.controller.settings import ControllerConfig, load_controller_config
from shunter.cli import main

PAGE = Path(__file__).parents[3] / "docs" / "settings.md"
NO_SETTINGS = {"--check", "--json", "--observe", "--seconds", "--settle", "--config", "--set", "--help"}
FLAG = re.compile(r"--[a-z][a-z-]*")
FLAG_IN_HELP = re.compile(r"^  (--[a-z-]+)(?: |$)", re.MULTILINE)


class Documented(NamedTuple):
    default: str
    unit: str
    meaning: str


def rows() -> list[tuple[str, Documented]]:
    section = PAGE.read_text().split("## `shunter controller`\n", 1)[1].split("\n## ", 1)[0]
    cells = [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in section.splitlines()
        if line.startswith("| `")
    ]
    assert all(len(row) == 4 for row in cells), "a row has name, default, unit and meaning"
    return [(row[0].strip("`"), Documented(row[1], row[2], row[3].removesuffix(" |"))) for row in cells]


def documented() -> dict[str, Documented]:
    return dict(rows())


def told(field: FieldInfo) -> str:
    """A default as the page tells it."""
    if field.is_required():
        return "required"
    return "none" if field.default is None else f"`{field.default}`"


def controller_help() -> str:
    return CliRunner().invoke(main, ["controller", "--help"], terminal_width=200).output


def test_the_page_has_every_setting_once_and_no_other_in_the_order_of_the_code() -> None:
    assert [name for name, _ in rows()] == list(ControllerConfig.model_fields)


@pytest.mark.parametrize("name", ControllerConfig.model_fields)
def test_the_page_tells_default_unit_and_meaning(name: str) -> None:
    row = documented()[name]
    assert row.default == told(ControllerConfig.model_fields[name])
    assert row.unit
    assert row.meaning
    if name.endswith("_ms"):
        assert row.unit == "ms"


def test_the_flags_of_the_command_are_the_flags_of_the_page() -> None:
    flags = set(FLAG_IN_HELP.findall(controller_help())) - NO_SETTINGS
    assert flags
    assert {flag.removeprefix("--").replace("-", "_") for flag in flags} <= set(ControllerConfig.model_fields)
    assert {flag for row in documented().values() for flag in FLAG.findall(row.meaning)} == flags


def test_the_help_tells_the_defaults_of_the_settings() -> None:
    command = main.get_command(click.Context(main), "controller")
    assert command is not None
    options = [option for option in command.params if isinstance(option, click.Option)]
    claims = {
        str(option.name): claim[1] for option in options if (claim := re.search(r"\[([a-z-]+)\]", option.help or ""))
    }
    assert claims.keys() == {"takeover", "strategy", "log_level"}
    assert claims == {name: ControllerConfig.model_fields[name].default for name in claims}


async def test_every_metric_is_documented() -> None:
    told = {"zookeeper": "nowhere:1", "listener": ["PLAINTEXT://127.0.0.1:0"], "broker_id": 1000}
    process = ControllerProcess(load_controller_config(None, told))
    _, page = PrometheusPage(
        lambda: ControllerParts(process.machine, process.loop, process.channels, process.lag, process.server)
    ).render()
    served = set(re.findall(r"^# TYPE shunter_(\w+) ", page.decode(), re.MULTILINE))
    section = (PAGE.parent / "controller.md").read_text().split("## Metrics\n", 1)[1].split("\n## ", 1)[0]
    documented = set(re.findall(r"`([a-z_]+)(?:\{[a-z]+\})?`", section))
    theirs = set(
        re.findall(r"^# TYPE kafka_controller_(\w+?)(?:rateandtimems)?(?:_count)? ", page.decode(), re.MULTILINE)
    )
    assert sorted(name for name in theirs if name.removeprefix("controllerstats_") not in section) == []
    assert served
    assert sorted(served - documented) == []
