"""Programs for tests with too many dependencies for Shunter's own environment.

Each is installed in an environment of its own in the cache, pinned with hashes.
"""

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from lab.testbed.artifacts import cache_folder

ROOT = Path(__file__).parents[1]


def binaries(name: str) -> Path:
    """The folder with the programs of `requirements-NAME.lock`. When that file changes, the environment is rebuilt."""
    lock = ROOT / f"requirements-{name}.lock"
    wanted = hashlib.sha256(lock.read_bytes()).hexdigest()
    folder = cache_folder() / name
    made_from = folder / "made-from"
    if not made_from.exists() or made_from.read_text() != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True, timeout=120)
        pip = [
            folder / "bin" / "python",
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-input",
            "--disable-pip-version-check",
        ]
        subprocess.run([*pip, "--no-deps", "--require-hashes", "-r", lock], check=True, timeout=900)
        made_from.write_text(wanted)
    return folder / "bin"
