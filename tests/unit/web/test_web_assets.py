"""The page's files: what is vendored is what it says, nothing comes from elsewhere, and it stays small."""

from __future__ import annotations

import gzip
import hashlib
import re
from pathlib import Path

import pytest
from web_house import House

from shunter.app.access.access_tokens import AccessRole

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


def test_every_file_is_there_and_named_by_a_relative_address() -> None:
    """The page is served below a path of a proxy, and its files at addresses with a digest."""
    named = set(re.findall(r'"/assets/([^"$]+)"', (ASSETS / "index.html").read_text()))
    for path in OURS:
        if path.name == "index.html":
            continue
        text = path.read_text()
        assert '"/assets/' not in text, f"{path.name} works only at the root"
        for name in re.findall(r'(?:from|import|new URL\() ?"(\.[^"]+)"', text):
            if Path(name).suffix:
                found = (path.parent / name).resolve()
                assert found.is_file(), f"{path.name} names {name}"
                named.add(found.relative_to(ASSETS).as_posix())
    assert {path.relative_to(ASSETS).as_posix() for path in OURS} - named - {"index.html"} == set(), "nobody uses it"


async def test_files_are_kept_for_ever_compressed_and_below_any_path(house: House) -> None:
    async with house.client() as client:
        for path, up in (("/", ""), ("/timeline", ""), ("/clusters/a", "../"), ("/clusters/a%2Fb/moves", "../../")):
            page = (await client.get(path)).text
            names = re.findall(r'(?:src|href)="([^"]+)"', page)
            assert page.count('rel="modulepreload"') == len(list(ASSETS.rglob("*.js"))) - 1, "all but the first script"
            assert all(re.match(re.escape(up) + r"assets/[0-9a-f]{16}/", name) for name in names), path
        answer = await client.get(f"/{names[0][len(up) :]}")
        packed = await client.get(f"/{names[1][len(up) :]}", headers={"accept-encoding": "gzip"})
        plain = await client.get(f"/{names[1][len(up) :]}", headers={"accept-encoding": "identity"})
        stale = await client.get("/assets/0123456789abcdef/store.js")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "image/svg+xml")
    assert "immutable" in answer.headers["cache-control"]
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.content == plain.content
    assert (stale.status_code, stale.headers["cache-control"]) == (404, "no-store")


async def test_a_browser_gets_a_page_where_there_is_none(house: House) -> None:
    async with house.client(AccessRole.READ, accept="text/html,*/*") as client:
        nosuch, broken = await client.get("/nosuch"), await client.get("/clusters/%E0%A4%A")
        nowhere = await client.get("/api/v1/nosuch")
    assert (nosuch.status_code, nosuch.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert (broken.status_code, nowhere.headers["content-type"]) == (200, "application/problem+json")


def test_the_page_stays_small() -> None:
    """As it is sent: compressed."""
    assert sum(len(gzip.compress(path.read_bytes(), 9)) for path in [*OURS, *VENDOR.glob("*.js")]) < 125_000
