"""The real Ivy fetches jars from a Maven repository on this disk, and only pinned jars are accepted."""

import subprocess
import sys
from pathlib import Path

import pytest

from lab.testbed.artifacts import checksum_lines, ensure_kafka, kafka_modules
from lab.testbed.failures import PartFailed
from lab.testbed.ivy import MavenModule
from lab.testbed.waiting import wait_until

pytestmark = pytest.mark.kraft

VERSION = "3.0.0"
MODULES = kafka_modules(VERSION)
JARS = sorted(f"{module.name}-{module.revision}.jar" for module in MODULES)
SETTINGS = """
<ivysettings>
  <settings defaultResolver="disk"/>
  <resolvers><ibiblio name="disk" m2compatible="true" root="{root}/"/></resolvers>
</ivysettings>
"""
POM = """
<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>{0.organisation}</groupId><artifactId>{0.name}</artifactId><version>{0.revision}</version>
</project>
"""


class Repository:
    """A Maven repository with the modules of a Kafka version. Each jar holds a line of text."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for module in MODULES:
            self.publish(module, f"the bytes of {module.name}")

    def publish(self, module: MavenModule, content: str) -> None:
        folder = self.root.joinpath(*module.organisation.split("."), module.name, module.revision)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{module.name}-{module.revision}.pom").write_text(POM.format(module))
        (folder / f"{module.name}-{module.revision}.jar").write_text(content)

    def withdraw(self, module: MavenModule) -> None:
        folder = self.root.joinpath(*module.organisation.split("."), module.name, module.revision)
        for path in folder.iterdir():
            path.unlink()


class Shop:
    """A cache, a repository that fills it, and the pins of the repository's first jars."""

    def __init__(self, folder: Path) -> None:
        self.cache = folder / "cache"
        self.repository = Repository(folder / "repository")
        self.pins = folder / "pins"
        self.pins.mkdir()
        self.told: list[str] = []

    def ensure(self, *, allow_unverified: bool = False) -> Path:
        return ensure_kafka(
            VERSION,
            cache=self.cache,
            checksums=self.pins,
            progress=self.told.append,
            allow_unverified=allow_unverified,
        )

    def pin(self, folder: Path) -> None:
        (self.pins / f"kafka-{VERSION}.txt").write_text(checksum_lines(folder))


@pytest.fixture
def shop(work_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    shop = Shop(work_dir)
    settings = work_dir / "ivysettings.xml"
    settings.write_text(SETTINGS.format(root=shop.repository.root.as_uri()))
    monkeypatch.setenv("SHUNTER_IVY_SETTINGS", str(settings))
    return shop


@pytest.fixture
def filled(shop: Shop) -> Shop:
    """A shop whose cache holds the pinned jars."""
    shop.pin(shop.ensure(allow_unverified=True))
    shop.ensure()
    shop.told.clear()
    return shop


def test_jars_are_fetched_once_and_then_found(shop: Shop) -> None:
    folder = shop.ensure(allow_unverified=True)
    assert sorted(jar.name for jar in folder.glob("*.jar")) == JARS
    assert any(f"{len(JARS)} jars in {folder}" in line for line in shop.told)
    shop.told.clear()
    assert shop.ensure(allow_unverified=True) == folder
    assert shop.told == []


def test_nothing_unfinished_is_left(shop: Shop) -> None:
    folder = shop.ensure(allow_unverified=True)
    assert [path.name for path in folder.parent.iterdir()] == [VERSION]
    assert list((shop.cache / "fetching").iterdir()) == []


def test_other_bytes_than_the_pinned_are_refused_and_asked_for_again(filled: Shop) -> None:
    cached = filled.cache / "kafka" / VERSION
    for jar in cached.glob("*.jar"):
        jar.unlink()
    filled.repository.publish(MODULES[0], "something else")
    with pytest.raises(
        PartFailed, match=rf"{MODULES[0].name}-{VERSION}\.jar has sha256 [0-9a-f]{{64}}, pinned is [0-9a-f]{{64}}"
    ):
        filled.ensure()
    filled.repository.publish(MODULES[0], f"the bytes of {MODULES[0].name}")
    assert sorted(jar.name for jar in filled.ensure().glob("*.jar")) == JARS


def test_a_jar_that_was_changed_in_the_cache_is_fetched_anew(filled: Shop) -> None:
    jar = filled.cache / "kafka" / VERSION / JARS[0]
    good = jar.read_text()
    jar.write_text("damaged")
    filled.ensure()
    assert jar.read_text() == good
    assert any(line.startswith("checking the jars") for line in filled.told)


def test_a_jar_that_was_only_touched_is_read_and_kept(filled: Shop) -> None:
    jar = filled.cache / "kafka" / VERSION / JARS[0]
    before = jar.stat().st_ino
    jar.touch()
    filled.ensure()
    assert len(filled.told) == 1
    assert jar.stat().st_ino == before
    filled.ensure()
    assert len(filled.told) == 1


def test_what_can_not_be_fetched_is_told_with_ivys_log(shop: Shop) -> None:
    shop.repository.withdraw(MODULES[1])
    with pytest.raises(
        PartFailed, match=r"(?s)Kafka 3\.0\.0 can't be fetched, 3 attempts .*kafka-tools;3\.0\.0: not found"
    ):
        shop.ensure(allow_unverified=True)
    assert not (shop.cache / "kafka" / VERSION).exists()


FETCHER = """
import sys
from pathlib import Path
from lab.testbed.artifacts import ensure_kafka
print("asking", flush=True)
ensure_kafka(sys.argv[1], cache=Path(sys.argv[2]), progress=lambda line: print(line, flush=True), allow_unverified=True)
print("has it", flush=True)
"""


def test_of_several_processes_one_fetches(shop: Shop) -> None:
    command = [sys.executable, "-c", FETCHER, VERSION, str(shop.cache)]
    asking = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    told = [process.communicate(timeout=120)[0] for process in asking]
    assert [process.returncode for process in asking] == [0, 0, 0]
    assert all(lines.endswith("has it\n") for lines in told)
    assert sum(f"jars in {shop.cache}" in lines for lines in told) == 1


def test_a_fetch_that_was_killed_is_taken_up_by_the_next(shop: Shop) -> None:
    command = [sys.executable, "-c", FETCHER, VERSION, str(shop.cache)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as fetcher:
        fetching = shop.cache / "fetching" / f"kafka-{VERSION}"
        wait_until((fetching / "ivy.log").exists, what="Ivy has been started", timeout_s=60)
        fetcher.kill()
    assert not (shop.cache / "kafka" / VERSION).exists()
    assert sorted(jar.name for jar in shop.ensure(allow_unverified=True).glob("*.jar")) == JARS
