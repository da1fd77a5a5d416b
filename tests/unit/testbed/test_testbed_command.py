"""`python -m lab.testbed`: what it is told, before anything is fetched."""

from __future__ import annotations

import pytest

from lab.testbed.__main__ import main


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        (["--help"], 0, "versions of Kafka to fetch"),
        (["nonsense"], 2, "'nonsense' is no version of Kafka such as"),
        (["3.9.1", "--frobnicate"], 2, "--frobnicate"),
    ],
)
def test_words_that_are_no_versions_end_with_a_sentence(arguments, status, told, capsys):
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == status
    assert told in "".join(capsys.readouterr())
