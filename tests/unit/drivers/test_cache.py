"""The folder for files that can be fetched again."""

from __future__ import annotations

from pathlib import Path

import pytest

from shunter.drivers.host.cache import cache_folder


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"SHUNTER_CACHE": "/own", "XDG_CACHE_HOME": "/shared"}, Path("/own")),
        ({"SHUNTER_CACHE": "~/own"}, Path.home() / "own"),
        ({"XDG_CACHE_HOME": "/shared"}, Path("/shared/shunter")),
        ({"XDG_CACHE_HOME": "not/absolute"}, Path.home() / ".cache/shunter"),
        ({"XDG_CACHE_HOME": "", "SHUNTER_CACHE": ""}, Path.home() / ".cache/shunter"),
    ],
)
def test_the_cache_is_where_the_environment_says(environment: dict[str, str], expected: Path) -> None:
    assert cache_folder(environment) == expected
