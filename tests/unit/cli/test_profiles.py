"""Where an option's value comes from: command line over environment over file over default, in one precedence."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from shunter.app.profiles import SETTINGS, variable_of
from shunter.cli import main

SETTINGS_PAGE = Path(__file__).parents[3] / "docs" / "settings.md"
FILE = """
throttle = "50M"
max-in = 2

[cluster.prod]
bootstrap-server = "127.0.0.1:1"
command-config = "prod.properties"
throttle = "20M"
order = ["smallest-first", "longest-first"]

[cluster.test]
bootstrap-server = "127.0.0.1:1"
"""


@pytest.fixture(autouse=True)
def settings_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "config.toml"
    path.write_text(FILE)
    (tmp_path / "prod.properties").write_text("security.protocol=PLAINTEXT\n")
    monkeypatch.setenv("SHUNTER_CONFIG", str(path))
    return path


def config(*arguments: str) -> dict[str, tuple[str, str]]:
    done = CliRunner().invoke(main, ["config", *arguments, "--json"])
    assert done.exit_code == 0, done.output
    rows = [json.loads(line) for line in done.output.splitlines()]
    return {row["setting"]: (row["value"], row["from"]) for row in rows}


def refused(*arguments: str) -> str:
    done = CliRunner().invoke(main, list(arguments))
    assert done.exit_code == 2, done.output
    return " ".join(done.output.split())


def test_the_first_that_names_a_setting_wins(settings_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert config()["relax-after"] == ("600", "default")
    assert config()["throttle"] == ("50000000", str(settings_file))
    own = f"{settings_file}, [cluster.prod]"
    told = config("--cluster", "prod")
    assert told["throttle"] == ("20000000", own)
    assert told["max-in"] == ("2", str(settings_file))
    assert told["order"] == ("smallest-first,longest-first", own)
    assert told["command-config"] == (str(settings_file.with_name("prod.properties")), own)
    monkeypatch.setenv("SHUNTER_THROTTLE", "30M")
    assert config("--cluster", "prod")["throttle"] == ("30000000", "environment, SHUNTER_THROTTLE")
    assert config("--cluster", "prod", "--throttle", "1M")["throttle"] == ("1000000", "command line")
    monkeypatch.setenv("SHUNTER_HEADROOM_PERCENT", "5")
    assert config()["headroom-percent"] == ("5.0", "environment, SHUNTER_HEADROOM_PERCENT")


def test_a_cluster_is_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "both name a cluster" in refused("status", "--cluster", "prod", "--bootstrap-server", "kafka1:9092")
    monkeypatch.setenv("SHUNTER_CLUSTER", "prod")
    told = config("--bootstrap-server", "kafka1:9092")
    assert told["bootstrap-server"] == ("kafka1:9092", "command line")
    assert told["command-config"] == ("-", "default"), "another cluster's login is not taken along"
    assert config()["bootstrap-server"][0] == "127.0.0.1:1"
    monkeypatch.setenv("SHUNTER_BOOTSTRAP_SERVER", "kafka1:9092")
    assert "both name a cluster" in refused("config")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("throtle = 1", "throtle is not a setting; did you mean throttle?"),
        ("[cluster.a]\nyes = true", "[cluster.a] yes is not a setting"),
        ("throttle = [1]", "throttle = [1]: a text, a number"),
        ("cluster = 3", "`cluster` is not a table"),
        ("throttle = ", "config.toml: "),
        ('bootstrap-server = "a:1"\n[cluster.b]\n', "put it under [cluster.NAME]"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(settings_file: Path, text: str, told: str) -> None:
    settings_file.write_text(text)
    assert told in refused("config")


def test_a_value_of_the_file_is_read_as_the_flags_is(settings_file: Path) -> None:
    settings_file.write_text('throttle = "5X"')
    assert "'5X' is not a rate" in refused("config")


def test_a_cluster_that_nobody_named_and_one_that_does_not_exist() -> None:
    assert "names no cluster 'prd'; it names prod, test" in refused("status", "--cluster", "prd")
    assert "Missing option '--bootstrap-server'" in refused("list")


@pytest.mark.parametrize("verb", ["status", "doctor"])
def test_a_fleet_is_looked_at_to_its_end(verb: str) -> None:
    done = CliRunner().invoke(main, [verb, "--all"])
    assert done.exit_code == 3, done.output
    assert [line for line in done.output.splitlines() if line.startswith("==")] == ["== prod", "== test"]
    assert done.output.count("refuses connections") == 2


def test_the_page_has_every_setting() -> None:
    page = SETTINGS_PAGE.read_text().split("## The operator's verbs")[1]
    rows = [line.split(" | ")[:2] for line in page.splitlines() if line.startswith("| `")]
    assert [(row[0].strip("| `"), row[1].strip("`")) for row in rows] == [
        (each, variable_of(each)) for each in SETTINGS
    ]


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("shunter ro", {"rollback"}),
        ("shunter status --cluster ", {"prod", "test"}),
        ("shunter execute --max-i", {"--max-in"}),
        ("shunter execute --order l", {"longest-first"}),
    ],
)
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_verbs_flags_and_clusters(shell: str, words: str, wanted: set[str]) -> None:
    last = words.rsplit(" ", maxsplit=1)[-1]
    told = {"COMP_WORDS": words, "COMP_CWORD": last if shell == "fish" else str(len(words.split(" ")) - 1)}
    done = subprocess.run(
        [sys.executable, "-c", "from shunter.cli import main; main(prog_name='shunter')"],
        env={**os.environ, **told, "_SHUNTER_COMPLETE": f"{shell}_complete"},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = done.stdout.splitlines()
    # bash: type,value; zsh: type, value and help on three lines; fish: type,value and help with tabs.
    found = lines[1::3] if shell == "zsh" else [line.split(",", 1)[1].split("\t")[0] for line in lines]
    assert set(found) == wanted


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_get_their_script(shell: str) -> None:
    done = CliRunner().invoke(main, ["completion", shell])
    assert "_SHUNTER_COMPLETE" in done.output
