"""The help and its examples, a quick start, and what is refused for lack of an extra or of sense."""

import inspect
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from shunter.cli import main
from shunter.cli.sections import ManyOptions
from shunter.cli.verbs import VERBS

FILES = ("plan.json", "yard.json", "moves.journal", "owners.json")
"""Files that examples name."""
ROOT = Path(__file__).parents[3]
HEAVY = ("kafka", "kio", "numpy", "pandas", "pyspark", "pydantic", "rich", "scipy")


def found(path: tuple[str, ...]) -> tuple[click.Command, click.Context]:
    """A command, and a context to ask it in."""
    command: click.Command = main
    context = click.Context(main, info_name="shunter")
    for name in path:
        assert isinstance(command, click.Group)
        inner = command.get_command(context, name)
        assert inner is not None, path
        command, context = inner, click.Context(inner, context, name)
    return command, context


def commands(path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    command, context = found(path)
    if not isinstance(command, click.Group):
        yield path
        return
    for name in command.list_commands(context):
        yield from commands((*path, name))


def examples(path: tuple[str, ...]) -> list[list[str]]:
    """Lines of a command's help that are commands themselves, as words."""
    lines = [line.strip() for line in inspect.cleandoc(found(path)[0].help or "").splitlines()]
    whole = ["shunter", *path]
    words = [shlex.split(line) for line in lines if line.startswith("shunter ")]
    return [each for each in words if any(word.startswith("--") for word in each) or each[: len(whole)] == whole]


def test_every_verb_is_told_once_under_what_people_do() -> None:
    told = CliRunner().invoke(main, ["--help"]).output
    first = [line.split()[0] for line in told.splitlines() if line.startswith("  ") and line[2:3].strip()]
    listed = [word for word in first if word in main.list_commands(click.Context(main))]
    assert sorted(listed) == main.list_commands(click.Context(main))
    assert told.index("\nPlan:") < told.index("\nMove:") < told.index("\nLook:") < told.index("\nRun a controller:")
    assert "…" not in told, "no sentence is cut off"


VERBS_BY_NAME = {name: verb for verbs in VERBS.values() for name, verb in verbs.items()}


@pytest.mark.parametrize("name", sorted(VERBS_BY_NAME))
def test_the_summary_of_a_verb_is_its_helps_first_sentence(name: str) -> None:
    assert VERBS_BY_NAME[name].summary == found((name,))[0].get_short_help_str(limit=1_000)


@pytest.mark.parametrize("group", ["pipeline", "throttles"])
def test_every_command_of_a_group_is_told_once_with_its_whole_sentence(group: str) -> None:
    command, context = found((group,))
    assert isinstance(command, click.Group)
    told = CliRunner().invoke(main, [group, "--help"]).output
    first = [line.split()[0] for line in told.splitlines() if line.startswith("  ") and line[2:3].strip()]
    names = command.list_commands(context)
    assert sorted(word for word in first if word in names) == names
    assert "..." not in told.replace("[ARGS]...", ""), "no sentence is cut off"


MANY = [path for path in commands() if isinstance(found(path)[0], ManyOptions)]


@pytest.mark.parametrize("path", MANY, ids=" ".join)
def test_a_verb_with_many_options_tells_first_those_that_people_need_most(path: tuple[str, ...]) -> None:
    first, *others = re.split(
        r"^(?=[A-Z][a-z ]+:$)",
        CliRunner().invoke(main, [*path, "--help"]).output.split("\nOptions:\n")[1],
        flags=re.MULTILINE,
    )
    needed = {"--bootstrap-server", "--cluster", "--throttle", "--max-in", "--dry-run", "--yes", "--json", "--help"}
    flags = re.findall(r"^  (?:-h, )?(--[a-z-]+)", first, flags=re.MULTILINE)
    assert needed <= set(flags)
    assert len(flags) <= 15
    command, context = found(path)
    whole = [each.opts[0] for each in command.get_params(context) if isinstance(each, click.Option)]
    told = re.findall(r"^  (?:-h, )?(--[a-z-]+)", "".join([first, *others]), flags=re.MULTILINE)
    assert sorted(told) == sorted("--help" if flag == "-h" else flag for flag in whole), "each is told once"


@pytest.mark.parametrize("path", list(commands()), ids=" ".join)
def test_every_verb_has_an_example(path: tuple[str, ...]) -> None:
    assert any(tuple(words[1 : 1 + len(path)]) == path for words in examples(path))


@pytest.mark.parametrize("path", [path for path in commands() if examples(path)], ids=" ".join)
def test_examples_are_taken_by_the_commands_that_they_name(
    path: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in FILES:
        Path(name).write_text("{}")
    for words in examples(path):
        named = max((each for each in commands() if tuple(words[1 : 1 + len(each)]) == each), key=len, default=())
        assert named, words
        command, context = found(named)
        # Reads every value by its type, and ends with an error for what is missing, unknown or too much.
        command.make_context(named[-1], words[1 + len(named) :], parent=context.parent)


CRUISE_CONTROL = Path(__file__).parents[3] / "docs" / "cruise-control.md"


@pytest.mark.parametrize("words", sorted(set(re.findall(r"`(shunter [^`]+)`", CRUISE_CONTROL.read_text()))))
def test_what_stands_for_cruise_controls_endpoints_exists(words: str) -> None:
    named = shlex.split(words)[1:]
    path = max((each for each in commands() if tuple(named[: len(each)]) == each), key=len, default=())
    assert path, words
    command, context = found(path)
    # What a table has no room for (which cluster, which plan) may be missing; every flag and value has to be known.
    command.make_parser(context).parse_args(named[len(path) :])


@pytest.mark.parametrize(
    ("missing", "words", "told"),
    [
        ("pyspark", ["pipeline", "model"], "shunter: pyspark is not installed: pip install 'shunter[pipeline]'\n"),
        (
            "pydantic",
            ["controller", "--zookeeper", "zk:2181", "--broker-id", "9"],
            "shunter: pydantic is not installed: pip install 'shunter[controller]'\n",
        ),
        (
            "scipy",
            ["plan", "--from", "yard.json", "--bound", "lp"],
            "shunter: scipy is not installed: pip install 'scipy'",
        ),
    ],
)
def test_a_missing_package_is_named_with_the_command_that_brings_it(
    missing: str, words: list[str], told: str, tmp_path: Path
) -> None:
    page = (ROOT / "docs" / "planning.md").read_text(encoding="utf-8")
    (tmp_path / "yard.json").write_text(page.split("```json\n")[1].split("```")[0], encoding="utf-8")
    program = (
        f"import sys; sys.modules[{missing!r}] = None; sys.argv = ['shunter', *{words!r}]\n"
        "from shunter.cli import main; main(prog_name='shunter')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False
    )
    assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr
    assert told in done.stderr


def test_the_wheel_without_extras_has_neither_spark_nor_a_web_server() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert not {"pyspark", "pandas", "pyarrow", "scipy", "fastapi"} & {
        name.split(">")[0] for name in project["dependencies"]
    }
    named = ",".join(
        sorted(
            set(project["optional-dependencies"]) - {"all", "apprise", "connect", "msk"},
            key=["controller", "service", "pipeline"].index,
        )
    )
    assert project["optional-dependencies"]["all"] == [f"shunter[{named}]"]


@pytest.mark.parametrize(
    "module",
    [
        "shunter.cli.execution.execute",
        "shunter.cli.execution.turn",
        "shunter.cli.execution.look",
        "shunter.cli.execution.throttles",
        "shunter.cli.execution.history",
        "shunter.cli.service.serve",
    ],
)
def test_orders_and_status_start_without_the_client_library(module: str) -> None:
    told = f"import sys, {module}; print(*sorted(set(sys.modules) & set({HEAVY!r})))"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


@pytest.mark.parametrize(
    "setting", [{}, {"_SHUNTER_COMPLETE": "bash_complete", "COMP_WORDS": "shunter s", "COMP_CWORD": "1"}]
)
def test_help_and_completion_import_no_verb(setting: dict[str, str]) -> None:
    """The help of all verbs took a second of processor time: each verb was imported for its first sentence."""
    program = (
        "import sys, shunter.cli; sys.argv = ['shunter', '--help']\n"
        "try:\n    shunter.cli.main(prog_name='shunter')\n"
        "finally:\n    print(*sorted(name for name in sys.modules if name.startswith('shunter.')), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env={**os.environ, **setting}
    )
    assert "status" in done.stdout
    allowed = (
        "shunter.errors",
        "shunter.app",
        "shunter.app.access",
        "shunter.app.access.private_files",
        "shunter.app.exit_codes",
    )
    imported = [name for name in done.stderr.split() if not name.startswith("shunter.cli") and name not in allowed]
    assert imported == []
    assert "shunter.cli.execution" not in done.stderr.split()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--json"], "--json goes with --check or --observe"),
        (["--check", "--observe"], "--check and --observe exclude one another"),
        (["--seconds", "5"], "--seconds and --settle go with --observe"),
        (["--check", "--settle", "5"], "--seconds and --settle go with --observe"),
        (["--observe"], "zookeeper: it has to be set"),
    ],
)
def test_options_that_do_not_go_together(options, told):
    done = CliRunner().invoke(main, ["controller", *options])
    assert done.exit_code == 2
    assert told in done.output


def test_bash_completes_verbs_and_options_by_the_script_that_the_verb_prints(tmp_path: Path) -> None:
    bash = shutil.which("bash")
    assert bash is not None
    program = tmp_path / "shunter"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m shunter "$@"\n')
    program.chmod(0o755)
    script = (
        'eval "$(shunter completion bash)"; complete -p shunter\n'
        "COMP_WORDS=(shunter dra); COMP_CWORD=1; _shunter_completion shunter; echo ${COMPREPLY[*]}\n"
        "COMPREPLY=(); COMP_WORDS=(shunter move --t); COMP_CWORD=2; _shunter_completion shunter; echo ${COMPREPLY[*]}\n"
    )
    setting = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        [bash, "--norc", "-c", script], capture_output=True, text=True, check=True, env=setting, timeout=60
    )
    registered, verb, options = done.stdout.splitlines()
    assert registered.endswith("_shunter_completion shunter")
    assert verb == "drain"
    assert options.split() == ["--to", "--take-over-cluster", "--throttle", "--throttle-floor", "--take-over"]


def test_every_command_has_a_man_page_with_its_options(tmp_path: Path) -> None:
    runpy.run_path(str(ROOT / "scripts" / "document-man"))["write"](tmp_path)
    assert {each.stem for each in tmp_path.iterdir()} == {
        "shunter",
        *("-".join(("shunter", *path)) for path in commands()),
    }
    page = (tmp_path / "shunter-drain.1").read_text()
    for part in (".SH NAME\nshunter\\-drain \\- Move all replicas away", ".B \\-\\-throttle RATE", "shunter drain 3,7"):
        assert part in page
