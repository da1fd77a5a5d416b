"""The house rules, as far as a program can check them."""

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "shunter"
LAB = ROOT / "lab"
BENCHMARKS = sorted((LAB / "benchmarks").rglob("*.py"))
PRODUCT = sorted(PACKAGE.rglob("*.py"))
SOURCES = PRODUCT + [path for path in sorted(LAB.rglob("*.py")) if path not in BENCHMARKS]
TESTS = sorted((ROOT / "tests").rglob("*.py"))
SCRIPTS = [ROOT / "test", ROOT / "demo", ROOT / "simulate", *sorted((ROOT / "scripts").iterdir())]

LONGEST_FUNCTION = 70
LONGEST_FILE = 600
MOST_MODULES = 22
ROOMS_WITH_A_CLOCK = {"drivers", "app"}
ROOMS_OF_THE_LAB_WITH_A_CLOCK = {"demo", "faults", "soak", "testbed"}
WALL_CLOCK_CALLS = {("datetime", "now"), ("datetime", "utcnow"), ("date", "today"), ("time", "time")}
NAMES_THAT_SAY_NOTHING = {"utils", "util", "helpers", "helper", "common", "manager", "base", "misc"}
BOTH_MACHINES = {"Envelope", "Ready", "TimePassed"}
"""Names of classes that both the controller's and the executor's core have, with the same meaning."""
UNTRACKED_WORK = re.compile(r"\b(TODO|FIXME|XXX)\b(?!.*#\d+)")


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def nodes(path: Path) -> Iterator[ast.AST]:
    return ast.walk(ast.parse(path.read_text(), filename=str(path)))


def called(node: ast.AST) -> tuple[str, str] | None:
    """The last two names of a called function: ("datetime", "now"), or ("", "sleep") for a plain name."""
    if not isinstance(node, ast.Call):
        return None
    if isinstance(node.func, ast.Name):
        return ("", node.func.id)
    if not isinstance(node.func, ast.Attribute):
        return None
    owner = node.func.value
    last = owner.id if isinstance(owner, ast.Name) else owner.attr if isinstance(owner, ast.Attribute) else ""
    return (last, node.func.attr)


def long_functions(path: Path) -> list[str]:
    return [
        f"{named(path)}:{node.lineno} {node.name} has {length} lines"
        for node in nodes(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or node.lineno) - node.lineno + 1) > LONGEST_FUNCTION
    ]


def wall_clock_calls(path: Path) -> list[str]:
    return [f"{named(path)}:{node.lineno}" for node in nodes(path) if called(node) in WALL_CLOCK_CALLS]


def naps(path: Path) -> list[str]:
    """Calls of any `sleep` except `sleep(0)`, which only yields to the event loop."""
    return [
        f"{named(path)}:{node.lineno}"
        for node in nodes(path)
        if isinstance(node, ast.Call) and (call := called(node)) and call[1] == "sleep" and not is_zero(node.args)
    ]


def is_zero(arguments: list[ast.expr]) -> bool:
    return len(arguments) == 1 and isinstance(arguments[0], ast.Constant) and arguments[0].value == 0


def untracked_work(text: str, name: str) -> list[str]:
    lines = enumerate(text.splitlines(), start=1)
    return [f"{name}:{number} {line.strip()}" for number, line in lines if UNTRACKED_WORK.search(line)]


def test_functions_fit_a_screen() -> None:
    assert [told for path in SOURCES for told in long_functions(path)] == []


def test_files_fit_a_sitting() -> None:
    lengths = {named(path): len(path.read_text().splitlines()) for path in SOURCES}
    assert {name: length for name, length in lengths.items() if length > LONGEST_FILE} == {}


def test_folders_are_taken_in_at_a_glance() -> None:
    folders = {path.parent for path in SOURCES}
    sizes = {named(folder): sum(path.parent == folder for path in SOURCES) for folder in folders}
    assert {name: size for name, size in sizes.items() if size > MOST_MODULES} == {}


def test_only_rooms_with_a_clock_ask_for_the_time() -> None:
    allowed = [PACKAGE / room for room in ROOMS_WITH_A_CLOCK] + [LAB / room for room in ROOMS_OF_THE_LAB_WITH_A_CLOCK]
    others = [path for path in SOURCES if not any(path.is_relative_to(folder) for folder in allowed)]
    assert [told for path in others for told in wall_clock_calls(path)] == []


def test_one_module_touches_a_classic_session_of_spark() -> None:
    touches = re.compile(r"sparkContext|\._(jvm|jsc|jdf|sc)\b|\.rdd\b")
    assert [path.name for path in SOURCES if PACKAGE in path.parents and touches.search(path.read_text())] == [
        "classic.py"
    ]


def test_tests_wait_for_conditions_and_never_for_time() -> None:
    assert [told for path in TESTS for told in naps(path)] == []


def test_no_work_is_left_without_an_issue() -> None:
    # This file names the words that it bans.
    files = [path for path in SOURCES + TESTS + BENCHMARKS + SCRIPTS if path != Path(__file__)]
    assert [told for path in files for told in untracked_work(path.read_text(), named(path))] == []


def test_modules_are_named_for_what_is_in_them() -> None:
    assert [named(path) for path in SOURCES if path.stem in NAMES_THAT_SAY_NOTHING] == []


def test_a_class_has_its_name_alone() -> None:
    places: dict[str, list[str]] = {}
    for path in SOURCES:
        for node in ast.parse(path.read_text(), filename=str(path)).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(named(path))
    assert {name: where for name, where in places.items() if len(where) > 1 and name not in BOTH_MACHINES} == {}


def modules(package: Path) -> dict[str, Path]:
    """All modules of a package folder by dotted name; a folder's `__init__` has the folder's name."""
    dotted = {path: ".".join(path.relative_to(package.parent).with_suffix("").parts) for path in package.rglob("*.py")}
    return {name.removesuffix(".__init__"): path for path, name in dotted.items()}


def imports(path: Path, known: dict[str, Path], *, types: bool = True) -> set[str]:
    """Modules of this package that a module imports: at the top, in a function, or (with `types`) only for types."""
    found: set[str] = set()
    everything = list(nodes(path))
    blocks = [node for node in everything if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    left_out = set() if types else {inner for node in blocks for inner in ast.walk(node)}
    for node in everything:
        if node in left_out:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            inside = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (inside & known.keys()) or {node.module}
    return {name for name in found & known.keys() if known[name] != path}


def circles(edges: dict[str, set[str]]) -> list[list[str]]:
    """The circles of imports, one for each import that closes one."""
    done: set[str] = set()
    found: list[list[str]] = []

    def follow(name: str, way: list[str]) -> None:
        if name in way:
            found.append([*way[way.index(name) :], name])
        elif name not in done:
            for other in sorted(edges[name]):
                follow(other, [*way, name])
            done.add(name)

    for name in sorted(edges):
        follow(name, [])
    return found


def test_no_circle_of_imports_is_there() -> None:
    """Imports for types count, too, because a reader of a module has to read the imported modules first.

    Within the simulation they don't: its parts are of one world, and each is typed with that world.
    """
    known = modules(PACKAGE) | modules(LAB)
    world = LAB / "simulation"
    edges = {name: imports(path, known, types=not path.is_relative_to(world)) for name, path in known.items()}
    assert circles(edges) == []


def test_every_module_says_what_it_is() -> None:
    silent = [path for path in SOURCES if not ast.get_docstring(ast.parse(path.read_text()))]
    assert [named(path) for path in silent] == []


def test_every_module_has_lazy_annotations() -> None:
    # Modules with only a docstring and constants have no annotations.
    busy = [path for path in SOURCES if any(isinstance(node, ast.AnnAssign | ast.arg) for node in nodes(path))]
    assert [named(path) for path in busy if "from __future__ import annotations" not in path.read_text()] == []


ROOMS = sorted(path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists())
FOLDERS = {room: PACKAGE / room for room in ROOMS} | {
    room: LAB / room for room in ("demo", "faults", "simulation", "soak", "testbed")
}


@pytest.mark.parametrize("room", sorted(FOLDERS))
def test_every_room_has_its_card(room: str) -> None:
    card = ast.get_docstring(ast.parse((FOLDERS[room] / "__init__.py").read_text())) or ""
    assert card.startswith(f"Room `{room}`: ")
    assert "Never: " in card


@pytest.mark.parametrize("room", [room for room in ROOMS if room != "app"])
def test_a_card_names_the_rooms_that_its_room_imports(room: str) -> None:
    """Check all rooms except `app`, which may import everything below it."""
    card = ast.get_docstring(ast.parse((PACKAGE / room / "__init__.py").read_text())) or ""
    told = card.partition("Imports: ")[2].partition("\n\n")[0]
    known = modules(PACKAGE)
    found = {name for path in (PACKAGE / room).rglob("*.py") for name in imports(path, known)} - {"shunter"}
    named_rooms = {name.split(".")[0] for name in re.findall(r"`([a-z_.]+)`", told)} & {*ROOMS, "errors"}
    assert {name.split(".")[1] for name in found} - {room} <= named_rooms


def test_test_folders_are_no_packages() -> None:
    assert [named(path) for path in TESTS if path.name == "__init__.py"] == []


def test_test_files_have_names_of_their_own() -> None:
    names = [path.name for path in TESTS if path.name != "conftest.py"]
    assert sorted({name for name in names if names.count(name) > 1}) == []


class TestTheRulesThemselves:
    """The checks find what they are meant to find."""

    @pytest.fixture
    def scratch(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
        monkeypatch.setitem(named.__globals__, "ROOT", tmp_path)
        return tmp_path / "scratch.py"

    def test_a_long_function_is_found(self, scratch: Path) -> None:
        scratch.write_text("async def long():\n" + "    x = 1\n" * LONGEST_FUNCTION)
        assert long_functions(scratch) == ["scratch.py:1 long has 71 lines"]
        scratch.write_text("def fits():\n" + "    x = 1\n" * (LONGEST_FUNCTION - 1))
        assert long_functions(scratch) == []

    def test_a_circle_of_imports_is_found(self, tmp_path: Path) -> None:
        package = tmp_path / "yard"
        package.mkdir()
        (package / "__init__.py").write_text("")
        (package / "a.py").write_text("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from yard.b import B\n")
        (package / "b.py").write_text("def b():\n    from yard import c\n")
        (package / "c.py").write_text("import yard.a\nimport yard.d\n")
        (package / "d.py").write_text("from yard import nothing\n")
        known = modules(package)
        edges = {name: imports(path, known) for name, path in known.items()}
        assert edges["yard.d"] == {"yard"}
        assert circles(edges) == [["yard.a", "yard.b", "yard.c", "yard.a"]]
        assert imports(package / "a.py", known, types=False) == set()

    def test_the_wall_clock_is_found(self, scratch: Path) -> None:
        scratch.write_text("datetime.now(UTC)\ndatetime.datetime.now()\ntime.time()\ntime.monotonic()\nnow()\n")
        assert sorted(wall_clock_calls(scratch)) == ["scratch.py:1", "scratch.py:2", "scratch.py:3"]

    def test_a_nap_is_found(self, scratch: Path) -> None:
        scratch.write_text(
            "async def nap():\n    await asyncio.sleep(1)\n    sleep(2)\n    await asyncio.sleep(0)\n    wait('sleep(')\n"
        )
        assert sorted(naps(scratch)) == ["scratch.py:2", "scratch.py:3"]

    def test_work_without_an_issue_is_found(self) -> None:
        text = "# TODO later\n# TODO(#12) later\n# FIXME: now, see #3\nx = 1  # FIXME\nmastodon = 'TODOS'\n"
        assert untracked_work(text, "f") == ["f:1 # TODO later", "f:4 x = 1  # FIXME"]


def test_every_mutant_fits_what_it_patches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Renaming or moving a function fails here at once if a mutant patches it."""
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "simulation"))
    for modules in ("mutants", "edge_mutants", "executor_mutants"):
        importlib.import_module(modules)
