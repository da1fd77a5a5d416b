"""A real Prometheus, and its promtool.

One that is installed is used (on the PATH, or in the folder that SHUNTER_PROMETHEUS names). Else, on Debian and Ubuntu, the
distribution's package is downloaded by apt, which checks it by the signed index, and unpacked into the cache; nothing is
installed. Without either, the tests that need it are skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from shunter.testbed.artifacts import cache_folder


def program(name: str) -> str:
    """Where `prometheus` or `promtool` is; skips the test where it can't be had."""
    named = os.environ.get("SHUNTER_PROMETHEUS")
    found = str(Path(named) / name) if named else shutil.which(name)
    if found is not None:
        return found
    kept = cache_folder() / "prometheus" / "usr" / "bin" / name
    if not kept.exists():
        _unpack(cache_folder() / "prometheus")
    return str(kept)


def _unpack(folder: Path) -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        pytest.skip("no promtool: install Prometheus, or name its folder by SHUNTER_PROMETHEUS")
    folder.mkdir(parents=True, exist_ok=True)
    fetched = subprocess.run(
        ["apt-get", "download", "prometheus"], cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    package = next(folder.glob("prometheus_*.deb"), None)
    if fetched.returncode or package is None:
        pytest.skip(f"no promtool: apt-get download prometheus: {fetched.stderr.strip()[-300:]}")
    subprocess.run(["dpkg-deb", "-x", package, folder], check=True, timeout=120)
    package.unlink()
