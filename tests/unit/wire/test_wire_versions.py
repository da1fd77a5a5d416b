"""Versions of control requests: Apache's table."""

import pytest

from shunter.errors import SettingsError
from shunter.wire.versions import ControlVersions, common_control_versions, control_versions, looks_controllers_up


@pytest.mark.parametrize(
    ("protocol", "expected"),
    [
        ("3.9", (7, 8, 4)),
        ("3.9-IV0", (7, 8, 4)),
        ("3.4-IV0", (7, 8, 4)),
        ("3.3", (6, 7, 3)),
        ("3.2-IV0", (6, 7, 3)),
        ("3.1-IV0", (5, 7, 3)),
        ("2.8", (5, 7, 3)),
        ("2.8.2", (5, 7, 3)),
        ("2.8-IV1", (5, 7, 3)),
        ("2.8-IV0", (4, 6, 3)),
        ("2.6-IV0", (4, 6, 3)),
        ("2.5", (4, 6, 2)),
        ("2.4-IV1", (4, 6, 2)),
        ("2.4-IV0", (3, 5, 1)),
        ("2.3", (2, 5, 1)),
        ("2.2-IV0", (2, 5, 1)),
    ],
)
def test_apaches_table(protocol: str, expected: tuple[int, int, int]) -> None:
    assert control_versions(protocol)[1:] == expected


@pytest.mark.parametrize("protocol", ["4.0", "2.1", "0.10.2", "latest", "", "3", "3.9-IVx"])
def test_what_is_not_in_it_is_refused_by_name(protocol: str) -> None:
    with pytest.raises(SettingsError, match=r"inter\.broker\.protocol\.version"):
        control_versions(protocol)


def test_the_newest_that_everybody_takes() -> None:
    new = {4: (0, 7), 5: (0, 4), 6: (0, 8)}
    old = {4: (0, 5), 5: (0, 3), 6: (0, 7)}
    assert common_control_versions([new, new]) == ControlVersions("3.4", 7, 8, 4)
    assert common_control_versions([new, old]) == ControlVersions("2.8", 5, 7, 3)
    assert common_control_versions([new, {4: (0, 1), 5: (0, 0), 6: (0, 4)}]) is None
    assert common_control_versions([new, {18: (0, 4)}]) is None
    assert common_control_versions([]) is None


def test_brokers_older_than_3_0_look_the_controller_up():
    """The API that distinguishes 2.8.2 from 3.0: DescribeTransactions came with 3.0."""
    old = {18: (0, 3), 56: (0, 0), 61: (0, 0)}
    assert looks_controllers_up(old)
    assert not looks_controllers_up({**old, 65: (0, 0), 66: (0, 0)})
