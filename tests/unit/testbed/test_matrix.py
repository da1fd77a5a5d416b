"""`./test --matrix`: its tables are read and written in the page, and name tests and versions that exist."""

import tomllib

import pytest

from lab.testbed import matrix
from lab.testbed.artifacts import pinned_checksums
from lab.testbed.matrix import NOT_RUN, PAGE, PASSED, ROOT, RUN_AT, TABLES, Feature, VersionTable


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.title)
def test_a_filled_cell_comes_back_and_the_rest_of_the_page_stays(table: VersionTable) -> None:
    page = PAGE.read_text()
    name, version = table.features[0].name, table.versions[0]
    cells = matrix.read(table, page) | {(name, version): PASSED, (RUN_AT, version): "2026-11-27 0a1b2c3d"}
    changed = matrix.written(table, page, cells)
    assert matrix.read(table, changed) == cells
    assert NOT_RUN not in cells.values()
    assert changed.splitlines()[0] == page.splitlines()[0]
    assert len(changed.splitlines()) == len(page.splitlines())


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.title)
def test_every_column_is_pinned_and_every_row_has_tests(table: VersionTable) -> None:
    kafka = table.variable.isupper()
    assert [version for version in table.versions if kafka and pinned_checksums(version) is None] == []
    assert [each for feature in table.features for each in feature.tests if not _exists(each)] == []


def test_the_package_names_the_versions_of_python_that_the_table_has() -> None:
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    named = {each.rpartition(" :: ")[2] for each in classifiers if each.startswith("Programming Language :: Python ::")}
    (table,) = (each for each in TABLES if each.title == "Python")
    assert named == set(table.versions)


def _exists(name: str) -> bool:
    return any((ROOT / "tests").glob(name))


def test_what_was_run_is_not_run_again_unless_its_version_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    page = tmp_path_factory.mktemp("docs") / "versions.md"
    table = VersionTable("T", "V", ("1", "2"), (Feature("a", ()), Feature("b", ())))
    page.write_text("# x\n\n| T | 1 | 2 |\n| --- | --- | --- |\n| a | passed | not run |\n\nend\n")
    ran: list[tuple[str, str]] = []

    def run(_table: VersionTable, feature: Feature, version: str) -> str:
        ran.append((feature.name, version))
        return PASSED

    monkeypatch.setattr(matrix, "PAGE", page)
    monkeypatch.setattr(matrix, "TABLES", (table,))
    monkeypatch.setattr(matrix, "run_cell", run)
    assert matrix.main([]) == 0
    assert ran == [("b", "1"), ("a", "2"), ("b", "2")]
    ran.clear()
    assert matrix.main([]) == 0
    assert ran == []
    assert matrix.main(["1", "--feature", "a"]) == 0
    assert ran == [("a", "1")]
    assert page.read_text().endswith("\n\nend\n")
