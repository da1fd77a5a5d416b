"""A folder from which Shunter is installed where there is no network: wheels, jars, checksums, and an install script.

It is made from a checkout, whose lock file fixes the versions and their hashes.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from shunter.app.pipeline.delta_jars import delta_jars
from shunter.core.wording import counted
from shunter.errors import DriverError, SettingsError
from shunter.pipeline.session import KAFKA_SOURCE, SessionSettings, open_session

BUILD_SECONDS = 1_800.0
SHA256SUMS = "SHA256SUMS"
_MARKER = re.compile(r";.*\b(extra|sys_platform|platform_system|os_name)\b")
_INSTALL = """#!/bin/sh
# Installs Shunter from this folder, without a network: sh install.sh [FOLDER OF THE ENVIRONMENT]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
into=${1:-$here/environment}
(cd "$here" && sha256sum --check --quiet SHA256SUMS)
"${PYTHON:-python3}" -m venv "$into"
"$into/bin/python" -m pip install --quiet --no-index --find-links "$here/wheels" --no-deps --require-hashes -r "$here/requirements.txt"
echo "installed: $into/bin/shunter"
echo "jars of Spark's connectors: export SHUNTER_CACHE=$here/cache"
"""


def make_bundle(out: Path, source: Path, progress: Callable[[str], None]) -> int:
    """Make the folder; returns its size in bytes.

    Args:
        out: the folder; it is made, or has to be empty.
        source: a checkout of Shunter.

    Raises:
        SettingsError: a folder is not what it should be.
        DriverError: something could not be fetched or built.
    """
    _check(out, source)
    wheels, cache = out / "wheels", out / "cache"
    wheels.mkdir(parents=True)
    names = dependencies(declared(source / "pyproject.toml"))
    locked = locked_lines((source / "requirements.lock").read_text(), names)
    asked = out / "locked.txt"
    asked.write_text("".join(locked.values()))
    progress(f"fetching {counted(len(locked), 'package')}, by the hashes of {source / 'requirements.lock'}")
    _pip_wheel(wheels, "--require-hashes", "-r", str(asked))
    asked.unlink()
    progress("building Shunter's own wheel")
    _pip_wheel(wheels, str(source))
    requirements = _requirements(wheels)
    if lost := [name for name in names if f"{name}==" not in requirements]:
        raise DriverError(
            f"no wheel was made of {', '.join(lost)}: the lock file is for another Python", retriable=False
        )
    (out / "requirements.txt").write_text(requirements)
    progress("fetching Spark's connectors to Kafka and Delta")
    ivy, jars = (cache / "ivy").absolute(), delta_jars(cache)
    open_session(SessionSettings(master="local[1]", packages=(KAFKA_SOURCE,), ivy_cache=ivy, jars=jars)).stop()
    for left in ("locks", "fetching"):
        shutil.rmtree(cache / left, ignore_errors=True)
    (out / "install.sh").write_text(_INSTALL)
    files = sorted(path for path in out.rglob("*") if path.is_file())
    # Ivy rewrites its notes beside the jars, so only files that are run or installed have a checksum.
    kept = [path for path in files if path.parent == out or path.suffix in {".whl", ".jar"}]
    (out / SHA256SUMS).write_text("".join(f"{_sha256_of(path)}  {path.relative_to(out)}\n" for path in kept))
    return sum(path.stat().st_size for path in files)


def declared(project_file: Path) -> list[str]:
    """The requirements that a pyproject.toml declares, with those of the extras that its extra `all` names."""
    project = tomllib.loads(project_file.read_text())["project"]
    extras = project["optional-dependencies"]
    named = re.findall(r"[a-z]+", extras["all"][0].partition("[")[2])
    return [*project["dependencies"], *(requirement for name in named for requirement in extras[name])]


def dependencies(requirements: Iterable[str]) -> list[str]:
    """The names of all direct and indirect dependencies, as this environment has them."""
    asked, found = list(requirements), set[str]()
    while asked:
        requirement = asked.pop()
        name = _normal(re.split(r"[ \[<>=!~;(]", requirement, maxsplit=1)[0])
        if name in found or _MARKER.search(requirement):
            continue
        try:
            asked += distribution(name).requires or []
        except PackageNotFoundError:
            continue  # Only another version of Python needs this package.
        found.add(name)
    return sorted(found)


def locked_lines(lock: str, names: Iterable[str]) -> Mapping[str, str]:
    """The entries of packages in a lock file, by name, with their hashes: all versions of each, with their markers.

    Raises:
        SettingsError: a package is missing.
    """
    entries: dict[str, str] = {}
    for entry in re.split(r"(?m)^(?=[A-Za-z0-9])", lock):
        if "==" in entry.partition("\n")[0]:
            name = _normal(entry.partition("==")[0])
            entries[name] = entries.get(name, "") + re.sub(r"(?m)^\s*#.*\n?", "", entry).rstrip() + "\n"
    missing = [name for name in names if name not in entries]
    if missing:
        raise SettingsError(f"requirements.lock has no {missing[0]}: run scripts/lock")
    return {name: entries[name] for name in names}


def _check(out: Path, source: Path) -> None:
    if not (source / "requirements.lock").is_file() or not (source / "pyproject.toml").is_file():
        raise SettingsError(f"{source} is not a checkout of Shunter: name one with --source")
    if out.exists() and any(out.iterdir()):
        raise SettingsError(f"{out} is not empty: name another folder")


def _pip_wheel(wheels: Path, *arguments: str) -> None:
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-input",
        "--disable-pip-version-check",
        "--no-deps",
    ]
    # The build tools are in the environment already, so nothing is fetched without a hash.
    command += ["--no-build-isolation", "--wheel-dir", str(wheels), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise DriverError(f"pip did not end within {BUILD_SECONDS:.0f} s", retriable=True) from None
    if done.returncode != 0:
        raise DriverError(f"pip wheel failed: {done.stderr.strip()[-2_000:]}", retriable=True)


def _requirements(wheels: Path) -> str:
    lines = []
    for wheel in sorted(wheels.glob("*.whl")):
        name, version, _ = wheel.name.split("-", 2)
        lines.append(f"{_normal(name)}=={version} --hash=sha256:{_sha256_of(wheel)}\n")
    return "".join(lines)


def _sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name.strip()).lower()
