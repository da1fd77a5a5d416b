"""The tables of `./test --faults` are in their page, and its words are those of the command."""

import pytest

from lab.faults.command import CLUSTERS, ENDS, PAGE, WORKS, main
from lab.testbed.matrix import Feature, VersionTable, read, written


@pytest.mark.parametrize("subject", sorted(CLUSTERS))
def test_each_table_is_in_the_page_and_takes_cells(subject: str) -> None:
    table = VersionTable(CLUSTERS[subject].title, "", tuple(WORKS), (Feature("a fault", ()),))
    page = written(table, PAGE.read_text(), {("a fault", "stop"): "4,104 and 228; 0.2 s"})
    assert read(table, page) == {("a fault", "stop"): "4,104 and 228; 0.2 s"}


def test_each_piece_of_work_says_where_it_ends() -> None:
    assert ENDS.keys() == WORKS.keys()


def test_a_subject_that_is_none_is_refused_with_those_that_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["broker"])
    assert "broker: no such subject; there are executor, controller" in capsys.readouterr().err
