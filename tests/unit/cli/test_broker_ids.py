"""Lists of broker ids: all commands read them by one rule."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from shunter.cli import main

COMMANDS = [
    ("steps", "--target", "2", "--replicas"),
    ("plan", "--brokers"),
    ("plan", "--replacements"),
    ("plan", "--exclude-brokers"),
    ("pipeline", "plan", "--brokers"),
    ("pipeline", "plan", "--replacements"),
    ("pipeline", "plan", "--exclude-brokers"),
    ("drain",),
    ("demote",),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize(
    ("ids", "told"),
    [
        ("3,x", "'x' in '3,x' is not a broker id: whole numbers with commas between, as in 0,1,2"),
        ("3,,7", "'' in '3,,7' is not a broker id"),
        ("1_0", "'1_0' in '1_0' is not a broker id"),
        ("9999999999", "broker id 9999999999 is too great: at most 2147483647"),
    ],
)
def test_a_list_that_can_t_be_read_is_refused_by_the_same_sentence(
    command: tuple[str, ...], ids: str, told: str
) -> None:
    ended = CliRunner().invoke(main, [*command, ids])
    assert (ended.exit_code, told in " ".join(ended.output.split())) == (2, True), ended.output
