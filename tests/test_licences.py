"""Every package that Shunter depends on has its licence in docs/licences.md."""

import re
from pathlib import Path

from shunter.app.bundle import declared

ROOT = Path(__file__).parents[1]


def test_every_dependency_has_a_licence() -> None:
    names = {re.split(r"[\[<>=~ ]", each, maxsplit=1)[0].lower() for each in declared(ROOT / "pyproject.toml")}
    rows = re.findall(
        r"^\| ([a-z0-9-]+) \| [^|]+ \| ([^|]+) \|$", (ROOT / "docs/licences.md").read_text(), re.MULTILINE
    )
    told = dict(rows)
    assert names <= told.keys(), "run scripts/document-licences"
    assert "not said" not in told.values()
    assert len(told) > 25, "what they need themselves is there too"
