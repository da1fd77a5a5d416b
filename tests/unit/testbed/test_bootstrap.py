"""The set-up script names what is missing, and installs it if it may."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ORDINARY = ("bash", "cat", "dirname", "env", "grep", "head", "rm", "sed")


class Machine:
    """A machine with a shell's ordinary tools, and otherwise only with programs that a test installs."""

    def __init__(self, folder: Path, *, user_id: int) -> None:
        self.programs = folder / "bin"
        self.programs.mkdir()
        for name in ORDINARY:
            (self.programs / name).symlink_to(shutil.which(name) or pytest.fail(f"{name} is missing here"))
        self.install("id", f"echo {user_id}")
        self.checkout = folder / "checkout"
        shutil.copytree(ROOT / "scripts", self.checkout / "scripts")

    def install(self, name: str, script: str) -> None:
        (self.programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (self.programs / name).chmod(0o755)

    def bootstrap(self) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.checkout / "scripts" / "bootstrap.sh"],
            env={"PATH": str(self.programs)},
            cwd="/",
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )


@pytest.mark.parametrize("found", ["nothing", "Java 11"])
def test_a_missing_java_is_named_with_the_way_to_get_it(tmp_path: Path, found: str) -> None:
    machine = Machine(tmp_path, user_id=1000)
    if found == "Java 11":
        machine.install("java", "echo 'openjdk version \"11.0.22\" 2024-01-16' >&2")
    done = machine.bootstrap()
    assert done.returncode == 2
    assert "Java 17 or later is missing" in done.stderr
    assert "apt-get install openjdk-17-jre-headless" in done.stderr


def test_root_on_debian_gets_java_installed(tmp_path: Path) -> None:
    machine = Machine(tmp_path, user_id=0)
    machine.install(
        "apt-cache", 'case "$2" in openjdk-21*) echo "  Candidate: 21.0";; *) echo "  Candidate: (none)";; esac'
    )
    machine.install("chmod", f'exec {shutil.which("chmod")} "$@"')
    java = machine.programs / "java"
    machine.install(
        "apt-get",
        f'echo "apt-get $*"; [ "$1" = install ] || exit 0\n'
        f"printf '#!/bin/sh\\necho openjdk version \\\\\"21.0.2\\\\\" >&2\\n' > {java}; chmod +x {java}",
    )
    done = machine.bootstrap()
    assert "apt-get update" in done.stderr
    assert "apt-get install -y -q --no-install-recommends openjdk-21-jre-headless" in done.stderr
    assert "Java 17 or later is missing" not in done.stderr
    # The script goes on, and finds that this machine has no Python.
    assert "Python 3.11 or later is missing" in done.stderr


def test_a_python_that_is_missing_or_too_old_is_named(tmp_path: Path) -> None:
    machine = Machine(tmp_path, user_id=1000)
    machine.install("java", "echo 'openjdk version \"17.0.15\" 2025-04-15' >&2")
    machine.install("python3", "exit 1")
    done = machine.bootstrap()
    assert done.returncode == 2
    assert "Python 3.11 or later is missing" in done.stderr
    assert not (machine.checkout / ".venv").exists()
