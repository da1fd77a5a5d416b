"""Figures as people read them."""

import pytest

from shunter.core.wording import counted, gathered, named, told_bytes, told_rate


def test_one_is_singular_and_everything_else_is_not() -> None:
    assert [counted(number, "move") for number in (0, 1, 2, 12_000)] == ["0 moves", "1 move", "2 moves", "12,000 moves"]
    assert [counted(number, "copy is", "copies are") for number in (0, 1, 2)] == [
        "0 copies are",
        "1 copy is",
        "2 copies are",
    ]


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (999.9, "1.0 kB"),
        (1_000, "1.0 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),
        (23.5e9, "23.5 GB"),
        (-1_500, "-1.5 kB"),
        (2.5e18, "2,500.0 PB"),
    ],
)
def test_bytes_are_told_in_powers_of_ten(number: float, told: str) -> None:
    assert told_bytes(number) == told
    assert told_rate(number) == f"{told}/s"


def test_the_first_names_are_told_and_the_others_counted() -> None:
    assert named(()) == ""
    assert named("abc") == "a, b, c"
    assert named("abcd") == "a, b, c and 1 more"
    assert named(range(2_010), 8) == "0, 1, 2, 3, 4, 5, 6, 7 and 2,002 more"


def test_what_has_one_reason_is_one_sentence() -> None:
    """An SRE's find: 48 partitions in one line, each with the same reason, and 5,000 in a larger cluster."""
    stays = [f"t-{number} stays: no other broker may take it: broker 4 is excluded" for number in range(48)]
    told = "t-0 stays, t-1 stays, t-2 stays and 45 more: no other broker may take it: broker 4 is excluded"
    assert gathered([*stays, "u-0 stays: full", "nothing is known"]) == [told, "u-0 stays: full", "nothing is known"]
    assert gathered(()) == []
