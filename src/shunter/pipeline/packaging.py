"""Shunter as files that spark-submit takes along, for clusters whose machines have only Spark and Python.

`shunter.zip` goes with `--py-files`, `environment.zip` (Shunter's dependencies, compiled parts included) with
`--archives`, and `shunter_pipeline.py` is submitted (docs/pipeline.md).
"""

from __future__ import annotations

import re
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from shunter.errors import FormatError

MAIN = '''"""Submitted by spark-submit: the pipeline's commands, with Shunter from --py-files."""

import sys
import sysconfig
import zipfile
from pathlib import Path
from tempfile import mkdtemp

MADE_BY = {made_by!r}


def environment():
    """The folder of what Shunter stands on: where Spark unpacked it, else unpacked here from beside this file."""
    unpacked = Path("environment")
    if (unpacked / "MADE_BY").exists():
        return unpacked.resolve()
    archive = Path(__file__).resolve().parent / "environment.zip"
    if not archive.exists():
        return None
    folder = Path(mkdtemp(prefix="shunter-environment-"))
    zipfile.ZipFile(archive).extractall(folder)
    return folder


found = environment()
if found is not None:
    here = "Python {{}}.{{}} on {{}}".format(*sys.version_info[:2], sysconfig.get_platform())
    if here != MADE_BY:
        sys.exit(f"environment.zip is for {{MADE_BY}} and this is {{here}}: run `shunter pipeline package` there")
    sys.path.append(str(found))

from shunter.cli.pipeline.group import pipeline

pipeline()
'''
_NOT_TAKEN = {"pyspark", "py4j"}
"""Spark brings them along."""
_DATE = (1980, 1, 1, 0, 0, 0)
"""A fixed date: an archive that differs only by when it was made would be shipped to every machine anew."""


class Packed(NamedTuple):
    """The files for `--py-files`, for `--archives`, and the file to submit."""

    shunter: Path
    environment: Path | None
    main: Path

    @property
    def command(self) -> str:
        """The command that submits it."""
        sent = f"--py-files {self.shunter}"
        if self.environment is not None:
            sent += f" --archives {self.environment}#environment --conf spark.executorEnv.PYTHONPATH=environment"
        return f"spark-submit {sent} {self.main} --root URL COMMAND …"


def package(folder: Path, *, environment: bool = True) -> Packed:
    """Write the files. The same sources and the same environment give the same files.

    Args:
        environment: Write Shunter's dependencies too (120 MB); else the machines must have them.

    Raises:
        FormatError: a package that Shunter needs is not installed here, so that it can't be sent along.
    """
    folder.mkdir(parents=True, exist_ok=True)
    stands_on = folder / "environment.zip"
    packed = Packed(folder / "shunter.zip", stands_on if environment else None, folder / "shunter_pipeline.py")
    with zipfile.ZipFile(packed.shunter, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, source in sorted(_sources(files("shunter"), "shunter")):
            _add(archive, name, source.read_bytes())
    made_by = f"Python {sys.version_info[0]}.{sys.version_info[1]} on {sysconfig.get_platform()}"
    stands_on.unlink(missing_ok=True)
    if environment:
        with zipfile.ZipFile(stands_on, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            _add(archive, "MADE_BY", made_by.encode())
            for name, path in sorted(_environment(distribution("shunter"))):
                _add(archive, name, path.read_bytes())
    packed.main.write_text(MAIN.format(made_by=made_by), encoding="utf-8")
    return packed


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    entry = zipfile.ZipInfo(name, _DATE)
    entry.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(entry, content)


def _environment(of: Distribution) -> Iterator[tuple[str, Path]]:
    """Files of all that a distribution needs at run time: name in the archive, place here."""
    for needed in _needs(of, {_normal(of.name)} | _NOT_TAKEN):
        for file in needed.files or ():
            name = PurePosixPath(file)
            # Scripts and manual pages lie outside of the folder that Python imports from.
            if ".." in name.parts or "__pycache__" in name.parts or name.is_absolute():
                continue
            path = Path(str(needed.locate_file(file)))
            if path.is_file():
                yield str(name), path


def _needs(of: Distribution, seen: set[str]) -> Iterator[Distribution]:
    for requirement in of.requires or ():
        named, _, marker = requirement.partition(";")
        name = _normal(re.split(r"[\s\[<>=!~(@]", named.strip(), maxsplit=1)[0])
        if "extra" in marker or name in seen:
            continue
        seen.add(name)
        try:
            found = distribution(name)
        except PackageNotFoundError as error:
            if marker:
                # Needed on another system only, or by another Python.
                continue
            raise FormatError(name, f"is not installed here, and {of.name} needs it: it can't be sent along") from error
        yield found
        yield from _needs(found, seen)


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _sources(folder: Traversable, prefix: str) -> list[tuple[str, Traversable]]:
    found: list[tuple[str, Traversable]] = []
    for entry in folder.iterdir():
        name = f"{prefix}/{entry.name}"
        if entry.is_dir() and entry.name != "__pycache__":
            found += _sources(entry, name)
        elif entry.name.endswith((".py", ".typed")):
            found.append((name, entry))
    return found
