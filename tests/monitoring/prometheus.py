"""A real Prometheus, and its promtool.

An installed one is used (on the PATH, or in the folder that SHUNTER_PROMETHEUS names). Otherwise, on Debian and
Ubuntu, apt downloads the distribution's package and checks it by the signed index; it is unpacked into the cache and
not installed. Without either, the tests that need Prometheus are skipped.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from lab.testbed.artifacts import cache_folder


def program(name: str) -> str:
    """The path of `prometheus` or `promtool`; skips the test if there is none."""
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
