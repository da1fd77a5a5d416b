"""One table of exit statuses: the page says what the program does."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from shunter.app import exit_codes
from shunter.app.exit_codes import ExitCode
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
