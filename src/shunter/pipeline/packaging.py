"""Shunter as files that spark-submit takes along, for clusters whose machines have no Shunter.

`shunter.zip` goes with `--py-files`, `shunter_pipeline.py` is what is submitted. Python workers need numpy, scipy, pandas and
pyarrow of their own, or from an archive (docs/pipeline.md).
"""

from __future__ import annotations

import zipfile
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

MAIN = '''"""Submitted by spark-submit: the pipeline's commands, with Shunter from --py-files."""

from shunter.cli.pipeline import pipeline

pipeline()
'''


def package(folder: Path) -> tuple[Path, Path]:
    """Write both files; gives (the zip for --py-files, the file to submit). The same sources give the same zip."""
    folder.mkdir(parents=True, exist_ok=True)
    archive, main = folder / "shunter.zip", folder / "shunter_pipeline.py"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, source in sorted(_sources(files("shunter"), "shunter")):
            # A fixed date: an archive that differs only by when it was made would be shipped to every machine anew.
            packed.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), source.read_bytes())
    main.write_text(MAIN, encoding="utf-8")
    return archive, main


def _sources(folder: Traversable, prefix: str) -> list[tuple[str, Traversable]]:
    found: list[tuple[str, Traversable]] = []
    for entry in folder.iterdir():
        name = f"{prefix}/{entry.name}"
        if entry.is_dir() and entry.name != "__pycache__":
            found += _sources(entry, name)
        elif entry.name.endswith((".py", ".typed")):
            found.append((name, entry))
    return found
