"""The Containerfile and the Compose file name what is there; scripts/try-container runs the steps of the former."""

import re
import runpy
import tomllib
from pathlib import Path

from click.testing import CliRunner

from shunter.cli.main import main

ROOT = Path(__file__).parents[2]
CONTAINER = ROOT / "packaging" / "container"
COMPOSE = ROOT / "packaging" / "compose"
STEPS = runpy.run_path(str(ROOT / "scripts" / "try-container"))["steps"]((CONTAINER / "Containerfile").read_text())


def test_the_last_stage_is_not_root_and_has_nothing_to_build_with() -> None:
    begins = max(number for number, (word, _) in enumerate(STEPS) if word == "FROM")
    last = STEPS[begins:]
    words = dict(last)
    assert words["USER"] == "10001:10001"
    assert words["VOLUME"] == "/var/lib/shunter"
    assert "/health" in words["HEALTHCHECK"]
    text = " ".join(rest for word, rest in last if word == "RUN")
    assert not re.search(r"\bpip\b|python3-venv|gcc|build-essential", text)


def test_what_is_copied_is_there_and_the_extras_are_declared() -> None:
    for word, rest in STEPS:
        if word == "COPY" and not rest.startswith("--from"):
            assert all((ROOT / source).exists() for source in rest.split()[:-1]), rest
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    default = next(rest for word, rest in STEPS if word == "ARG" and rest.startswith("EXTRAS="))
    assert set(default.partition("=")[2].split(",")) <= set(extras)


def test_every_package_of_the_lock_is_found_with_its_hashes() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    entries = runpy.run_path(str(CONTAINER / "locked.py"))["entries"](lock)
    assert set(entries) == set(re.findall(r"(?m)^([a-z0-9-]+)==", lock))
    assert all("--hash=sha256:" in entry for entry in entries.values())
    assert entries["numpy"].count("numpy==") == 2, "one for each kind of Python"


def test_shunter_takes_the_policy_of_the_compose_file() -> None:
    done = CliRunner().invoke(main, ["serve", "run", str(COMPOSE / "policy.toml"), "--check"])
    assert done.exit_code == 0, done.output


def test_what_the_compose_file_mounts_is_there() -> None:
    text = (COMPOSE / "compose.yaml").read_text()
    mounted = re.findall(r"(?:- |context: )(\.\./\.\.[^:,}]*)", text)
    assert len(mounted) == 3
    assert all((COMPOSE / path).exists() for path in mounted)
    assert "read_only: true" in text
