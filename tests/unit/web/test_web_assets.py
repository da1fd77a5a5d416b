"""The page's files: what is vendored is what it says, nothing comes from elsewhere, and it stays small."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

ASSETS = Path(__file__).parents[3] / "src/shunter/web/assets"
VENDOR = ASSETS / "vendor"
ROWS = re.findall(r"^\| (\S+) \|.*`([0-9a-f]{64})` \|$", (VENDOR / "README.md").read_text(), re.MULTILINE)
OURS = sorted(
    path for path in ASSETS.rglob("*") if path.suffix in (".js", ".css", ".html", ".svg") and VENDOR not in path.parents
)


@pytest.mark.parametrize(("name", "digest"), ROWS)
def test_vendored_files_are_what_they_say(name: str, digest: str) -> None:
    assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == digest


def test_every_vendored_file_is_listed_with_its_licence() -> None:
    text = (VENDOR / "README.md").read_text()
    files = {path.name for path in VENDOR.iterdir()} - {"README.md"}
    licences = {name for name in files if name.endswith("-LICENSE.txt")}
    assert {name for name, _ in ROWS} == files - licences
    assert all(f"({name})" in text for name in licences)


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.name)
def test_nothing_comes_from_elsewhere(path: Path) -> None:
    addresses = set(re.findall(r"https?://[^\s\"'`)]+", path.read_text())) - {"http://www.w3.org/2000/svg"}
    assert addresses == set()


def test_every_import_is_there() -> None:
    named = {name for path in OURS for name in re.findall(r'"/assets/([^"$]+)"', path.read_text())}
    assert {name for name in named if not (ASSETS / name).is_file()} == set()
    reached = {"index.html"} | named
    assert {str(path.relative_to(ASSETS)) for path in OURS} - reached == set(), "nobody uses it"


def test_the_page_stays_small() -> None:
    assert sum(path.stat().st_size for path in [*OURS, *VENDOR.glob("*.js")]) < 330_000
