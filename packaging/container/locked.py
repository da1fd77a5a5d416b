"""The locked entries, with hashes, of what Shunter needs with some extras.

`locked.py EXTRA,EXTRA` prints them.

What the lock does not have (the extra `msk`) has the version and hash that pip chose.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any


def normal(name: str) -> str:
    """A package's name, as PyPI compares names."""
    return re.sub(r"[-_.]+", "-", name).lower()


def entries(lock: str) -> dict[str, str]:
    """The entries of a lock file by name; a name has several if versions of Python need different ones."""
    found: dict[str, str] = {}
    for entry in re.split(r"(?m)^(?=[A-Za-z0-9])", lock):
        if "==" in entry.partition("\n")[0]:
            name = normal(entry.partition("==")[0])
            found[name] = found.get(name, "") + entry
    return found


def chosen(wheel: Path, extras: str, lock: str) -> list[dict[str, Any]]:
    """What pip would install, in the locked versions."""
    constraints = wheel.with_name("constraints.txt")
    constraints.write_text(re.sub(r"(?m) *\\$|^ +--hash.*$", "", lock))
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--no-build-isolation"]
    command += ["--ignore-installed", "--report", "-", "--constraint", str(constraints), f"{wheel}[{extras}]"]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)["install"]


def main(extras: str) -> None:
    """Print the entries."""
    lock = Path("requirements.lock").read_text()
    known = entries(lock)
    for each in chosen(next(Path("/wheels").glob("shunter-*.whl")), extras, lock):
        name, version = normal(each["metadata"]["name"]), each["metadata"]["version"]
        if name == "shunter":
            continue
        digest = each["download_info"]["archive_info"].get("hashes", {}).get("sha256")
        sys.stdout.write(known.get(name) or f"{name}=={version} --hash=sha256:{digest}\n")


if __name__ == "__main__":
    main(sys.argv[1])
