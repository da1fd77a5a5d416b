"""The documents keep up with the code, as far as a program can tell."""

import re
import runpy
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from shunter.app.drop_in import options as reassign_options
from shunter.cli import main
from shunter.formats.inventory_files import decode_inventory, encode_inventory

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "shunter"
LAB = ROOT / "lab"
ROOMS = sorted(path.name for folder in (PACKAGE, LAB) for path in folder.iterdir() if (path / "__init__.py").exists())
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "tests").rglob("*.md")])
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))
HELP = {"-h", "--help"}
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
BRACKETED_PICTURE = re.compile(r"!\[[^\]]*\]\(([^)\s]+)\)")
DECISION_NUMBER = re.compile(r"docs/decisions/(\d{4}[a-z0-9-]*)(\.md)?")


OLD_WORDS = re.compile(
    r"\b(seats?|desks?|dockets?|sightings?|guests?|yards?|the (house|door|taking|filling|spreading|leaving)"
    r"|(an?|the|this|each|every|last|next|later|first|earlier|one|two|of) looks?|looks (of|that|at most)"
    r"|an? (sign|wish|thought)|(the|these|those) (signs|wishes|thoughts)|thinking)\b",
    re.IGNORECASE,
)
"""Private words, as nouns, for which docs/glossary.md has the field's. Ordinary English is not meant: "look at"."""
WITH_OLD_WORDS = {"README.md", "ARCHITECTURE.md", "docs/glossary.md", "docs/cli.md"}
"""The glossary lists them, docs/cli.md has the commands' own help, and the others begin with a picture of a yard."""


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def sections(page: Path, level: int) -> dict[str, str]:
    """Headings of one level, without backquotes, with the text below each up to the next heading of that level."""
    parts = re.split(rf"^{'#' * level} (.+)$", page.read_text(), flags=re.MULTILINE)
    return {heading.strip("` "): body for heading, body in zip(parts[1::2], parts[2::2], strict=True)}


def commands(command: click.Command | None, path: str = "shunter") -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from commands(command.get_command(context, name), f"{path} {name}")
    elif command is not None:
        yield path, command


COMMANDS = dict(commands(main))


@pytest.mark.parametrize("path", sorted(COMMANDS))
def test_every_command_and_flag_is_documented(path: str) -> None:
    documented = sections(ROOT / "docs" / "cli.md", 2)
    assert path in documented, "run scripts/document-cli"
    flags = {flag for parameter in COMMANDS[path].params for flag in (*parameter.opts, *parameter.secondary_opts)}
    options = {flag for flag in flags - HELP if flag.startswith("-")}
    hidden = {
        flag
        for parameter in COMMANDS[path].params
        if isinstance(parameter, click.Option) and parameter.hidden
        for flag in parameter.opts
    }
    missing = sorted(flag for flag in options - hidden if f"`{flag}`" not in documented[path])
    assert missing == [], "run scripts/document-cli"


def test_no_command_is_documented_that_is_not_there() -> None:
    assert sorted(set(sections(ROOT / "docs" / "cli.md", 2)) - set(COMMANDS)) == ["Shared flags"], (
        "run scripts/document-cli"
    )


@pytest.mark.parametrize("room", ROOMS)
def test_every_room_has_a_card_in_the_architecture(room: str) -> None:
    cards = sections(ROOT / "ARCHITECTURE.md", 3)
    assert room in cards
    assert "**May touch:**" in cards[room]
    assert "**Never:**" in cards[room]


def test_no_card_is_for_a_room_that_is_not_there() -> None:
    by_heading = sections(ROOT / "ARCHITECTURE.md", 2)
    rooms = by_heading["The rooms"] + by_heading["The lab"]
    assert re.findall(r"^### `(\w+)`$", rooms, flags=re.MULTILINE) != []
    assert sorted(set(re.findall(r"^### `(\w+)`$", rooms, flags=re.MULTILINE)) - set(ROOMS)) == []


ALL_EXTRAS = "shunter[controller,service,pipeline]"


def dependencies() -> list[str]:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project = declared["project"]
    extras = [requirement for extra in project["optional-dependencies"].values() for requirement in extra]
    asked = {*project["dependencies"], *extras, *declared["dependency-groups"]["dev"]} - {ALL_EXTRAS}
    return sorted({re.split(r"[\[<>=~! ]", requirement)[0] for requirement in asked})


@pytest.mark.parametrize("name", dependencies())
def test_every_dependency_has_its_reason(name: str) -> None:
    assert f"**{name}**" in sections(ROOT / "ARCHITECTURE.md", 2)["Dependencies"]


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_within_the_repository_lead_somewhere(page: Path) -> None:
    text = page.read_text()
    targets = [target for target in LINK.findall(text) + BRACKETED_PICTURE.findall(text) if "://" not in target]
    broken = [target for target in targets if not leads_somewhere(page, target)]
    assert broken == []


def leads_somewhere(page: Path, target: str) -> bool:
    path, _, anchor = target.partition("#")
    found = page if not path else page.parent / path
    return found.exists() and (not anchor or anchor in anchors(found))


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    named_there = set(re.findall(r": ([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), flags=re.MULTILINE))
    assert named_there == {path.name for path in (ROOT / "docs").glob("*.md")} | {"decisions/README.md"}


def test_every_decision_is_in_the_index() -> None:
    index = (ROOT / "docs" / "decisions" / "README.md").read_text()
    assert DECISIONS != []
    for decision in DECISIONS:
        number, title = decision.read_text().splitlines()[0].removeprefix("# ").split(": ", 1)
        assert decision.name.startswith(f"{number}-")
        assert f"| [{number}]({decision.name}) | {title} |" in index


def test_the_index_of_decisions_is_in_the_order_of_their_numbers() -> None:
    for body in sections(ROOT / "docs" / "decisions" / "README.md", 2).values():
        numbers = re.findall(r"^\| \[(\d{4})\]", body, flags=re.MULTILINE)
        assert numbers == sorted(numbers)


def test_every_decision_is_short() -> None:
    """Rules and separators of a table are no words."""
    words = {path.name: len(re.findall(r"\S*\w\S*", path.read_text().split("\n", 1)[1])) for path in DECISIONS}
    assert {name: count for name, count in words.items() if count > 200} == {}


def named_files(text: str) -> list[str]:
    """Backquoted names of Python files, and backquoted paths that begin with a room or a folder of the repository."""
    tops = "|".join([*ROOMS, "src", "lab", "tests", "benchmarks", "scripts", "docs"])
    return re.findall(rf"`((?:{tops})/[\w./-]+|[\w./-]+\.py)`", text)


@pytest.mark.parametrize("page", [ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").rglob("*.md"))], ids=named)
def test_files_that_a_page_names_are_there(page: Path) -> None:
    """A path begins in the repository, the package or a room; a name without a folder may be anywhere."""
    names = {path.name for top in ("src", "lab", "tests") for path in (ROOT / top).rglob("*.py")}
    starts = [ROOT, PACKAGE, LAB, *(folder / room for room in ROOMS for folder in (PACKAGE, LAB))]
    named_there = named_files(page.read_text())
    gone = {name for name in named_there if not any((start / name).exists() for start in starts) and name not in names}
    assert sorted(gone) == []


def test_decisions_that_the_code_names_are_there() -> None:
    known = {decision.stem for decision in DECISIONS} | {decision.name[:4] for decision in DECISIONS}
    files = [path for top in ("src", "lab", "tests") for path in (ROOT / top).rglob("*.py")]
    unknown = [
        f"{named(path)}: {found[0]}"
        for path in files
        for found in DECISION_NUMBER.findall(path.read_text())
        if found[0] not in known
    ]
    assert unknown == []


def test_tables_of_states_are_documented_as_the_code_has_them() -> None:
    made = runpy.run_path(str(ROOT / "scripts" / "document-lifecycle"))["pages"]()
    assert {path.name for path in made} == {"lifecycle.md", "step-status.md"}
    for path, text in made.items():
        assert path.read_text() == text, f"run scripts/document-lifecycle for {path.name}"


def test_the_table_of_rights_is_that_of_the_code() -> None:
    made = runpy.run_path(str(ROOT / "scripts" / "document-rights"))
    assert made["PAGE"].read_text() == made["page"](), "run scripts/document-rights"


def test_the_reviews_of_partitions_are_documented_as_the_table_has_them() -> None:
    made = runpy.run_path(str(ROOT / "scripts" / "document-reviews"))["page"]()
    assert (ROOT / "docs" / "reviews.md").read_text() == made, "run scripts/document-reviews"


def test_every_table_and_column_is_documented() -> None:
    made = runpy.run_path(str(ROOT / "scripts" / "document-data"))
    assert made["PAGE"].read_text() == made["page"](), "run scripts/document-data"


def test_the_documented_lines_of_a_snapshot_file_are_those_that_are_written() -> None:
    found = re.search(r"```json\n(.+?)```", sections(ROOT / "docs" / "data.md", 2)["Snapshot files"], re.DOTALL)
    assert found is not None
    shown = found[1].encode()
    assert b"".join(encode_inventory(decode_inventory(shown, "docs/data.md"))) == shown


def test_every_option_of_the_drop_in_is_documented() -> None:
    page = (ROOT / "docs" / "kafka-reassign-partitions.md").read_text()
    named_there = set(re.findall(r"--([a-z][a-z-]+)", page))
    options = set(re.findall(r"^--([a-z][a-z-]+)", reassign_options.usage(), flags=re.MULTILINE))
    assert options
    assert sorted(options - named_there) == []


def test_every_notice_of_the_controller_is_documented() -> None:
    sources = [path.read_text() for path in (PACKAGE / "core" / "controller").rglob("*.py")]
    kinds = {kind for source in sources for kind in re.findall(r"Notice\(\s*\"([a-z-]+)\"", source)}
    page = (ROOT / "docs" / "controller.md").read_text()
    assert kinds
    assert sorted(kind for kind in kinds if f"`{kind}`" not in page) == []


def prose(text: str) -> str:
    """A page without code, quotations of code, and targets of links."""
    no_blocks = re.sub(r"^```.*?^```|^ {4}.*?$", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`]*`|\]\([^)]*\)", "", no_blocks)


@pytest.mark.parametrize("page", [page for page in PAGES if named(page) not in WITH_OLD_WORDS], ids=named)
def test_old_words_are_not_in_documents(page: Path) -> None:
    found = [match[0] for match in OLD_WORDS.finditer(prose(page.read_text()))]
    assert found == [], "docs/glossary.md has the field's words"


class TestTheRulesThemselves:
    """The checks find what they are meant to find."""

    def test_sections_end_at_the_next_heading(self, tmp_path: Path) -> None:
        page = tmp_path / "page.md"
        page.write_text("# Page\n## `one`\nfirst\n### below\n## two\nsecond\n")
        assert sections(page, 2) == {"one": "\nfirst\n### below\n", "two": "\nsecond\n"}

    def test_old_words_are_found_in_prose(self) -> None:
        text = "The seat, a look and one\nthought. They look at `the yard`, [the rest](the-seat.md).\n\n    a desk\n"
        assert [match[0] for match in OLD_WORDS.finditer(prose(text))] == ["seat", "a look"]
        assert OLD_WORDS.search("it looks at the signs of life in a house") is not None
        assert OLD_WORDS.search("People sign in, and look twice") is None

    def test_named_files_are_found(self) -> None:
        text = (
            "`core/election.py`, `views`, `drivers/admin`, `orders-7`, `a/b`, `intake.py`, `/controller`, `Draft.lead`"
        )
        assert named_files(text) == ["core/election.py", "drivers/admin", "intake.py"]

    def test_a_broken_link_is_found(self, tmp_path: Path) -> None:
        page = tmp_path / "page.md"
        page.write_text("# What it's for\n")
        assert leads_somewhere(page, "page.md")
        assert leads_somewhere(page, "#what-its-for")
        assert leads_somewhere(page, "page.md#what-its-for")
        assert not leads_somewhere(page, "#elsewhere")
        assert not leads_somewhere(page, "other.md")
