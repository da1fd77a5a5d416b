"""One table of exit statuses: the page says what the program does."""

import inspect
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from shunter.app import exit_codes
from shunter.app.exit_codes import ExitCode
from shunter.cli.main import main
from shunter.cli.profiles import _WORST_FIRST

PAGE = (Path(__file__).parents[3] / "docs" / "exit-statuses.md").read_text()
ROW = re.compile(r"^\| (\d+) \| ([^|]+) \|", re.MULTILINE)


def test_the_page_has_every_status_and_its_meaning() -> None:
    told = {int(number): meaning for number, meaning in ROW.findall(PAGE)}
    assert list(told) == [int(code) for code in ExitCode]
    source = inspect.getsource(exit_codes)
    for code in ExitCode:
        meaning = told[int(code)]
        assert f'{code.name} = {int(code)}\n    """{meaning[0].upper()}{meaning[1:]}."""' in source


def test_every_status_has_its_place_where_several_clusters_are_asked() -> None:
    assert sorted(_WORST_FIRST) == sorted(ExitCode)
    listed = re.search(r"counts: ([^.]+)\.", PAGE)
    assert listed is not None
    assert [int(number) for number in re.findall(r"\d+", listed[1])] == [int(code) for code in _WORST_FIRST[:-1]]


@pytest.mark.parametrize(
    "words",
    [
        "execute {} --yes",
        "execute {} --dry-run",
        "verify {}",
        "status --plan {}",
        "stop --plan {}",
        "rollback --plan {} --yes",
        "plan --from {}",
        "serve {}",
        "serve status --service http://127.0.0.1:1 --token-file {}",
        "why t-0 --log-dir {}",
    ],
)
@pytest.mark.parametrize("kind", ["absent", "folder"])
def test_a_file_that_can_not_be_read_has_one_status_whichever_command_it_is_for(
    tmp_path: Path, words: str, kind: str
) -> None:
    """An outsider's find: `execute nofile.json` ended with 2, and the page says 5."""
    place = tmp_path / "x"
    if kind == "folder":
        place.mkdir()
    command = words.format(place).split()
    verb = command[0]
    at = [] if verb in ("serve", "why", "plan") else ["--bootstrap-server", "127.0.0.1:1"]
    ended = CliRunner().invoke(main, [*command, *at])
    assert ended.exit_code == ExitCode.JOURNAL, ended.output
    assert str(place) in ended.output
