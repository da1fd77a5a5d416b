"""The drop-in's command line beside Apache's own class: both accept the same arguments and refuse in the same words."""

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
from apaches_tool import Outcome, apaches_tool

from shunter.app.drop_in.options import ACTIONS, APACHE_ACTIONS, OPTIONS
from shunter.app.drop_in.tool import run
from shunter.drivers.admin.blocking import BlockingAdmin

pytestmark = pytest.mark.kraft

KIPS = (ACTIONS.keys() - set(APACHE_ACTIONS)) | {
    "zookeeper",
    "zk-tls-config-file",
    "incremental",
    "cancel-others",
    "json",
    "stop",
    "rollback",
}
APACHES = sorted(OPTIONS.keys() - KIPS)
AT_A_TIME, AT_LENGTH = 300, 6_000


class Reached(Exception):
    """The command would ask the cluster now."""


def ours(arguments: list[str]) -> Outcome:
    """The outcome of Shunter's tool, which runs until it would contact a cluster."""

    def connect(bootstrap: str, properties_file: str | None) -> BlockingAdmin:
        raise Reached

    out: list[str] = []
    err: list[str] = []
    try:
        status = run(arguments, out.append, err.append, connect)
    except Reached:
        return Outcome("cluster")
    if status == 0:
        return Outcome("version")
    return Outcome("usage", err[0]) if err else Outcome("refused", out[0].split("\n", 1)[0])


class Commands:
    """Random command lines. Half of them are nearly right, so that the code behind the options is reached too."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.random = random.Random(seed)
        self.folder = folder
        self.files = 0

    def command(self) -> list[str]:
        chosen = self.random
        options = ["bootstrap-server"] if chosen.random() < 0.95 else []
        if chosen.random() < 0.95:
            action = chosen.choice(APACHE_ACTIONS)
            options += [action, *(one for one in ACTIONS[action].required if chosen.random() < 0.95)]
            fitting = sorted(ACTIONS[action].permitted - KIPS)
            options += [one for one in fitting if chosen.random() < 0.25]
        options += [chosen.choice(APACHES) for _ in range(chosen.choice((0, 0, 0, 1, 2)))]
        chosen.shuffle(options)
        words = [word for option in options for word in self.spelt(option)]
        if chosen.random() < 0.15:
            odd = ["--", "-", "word", "-x", "--nonsense", "--=5", "---list", "-=", "--exec", "--throttl", "", "-5"]
            words.insert(chosen.randrange(len(words) + 1), chosen.choice(odd))
        return words

    def spelt(self, option: str) -> list[str]:
        chosen = self.random
        dashes = "-" if chosen.random() < 0.1 else "--"
        if not OPTIONS[option].value:
            return [f"{dashes}{option}" + ("=anything" if chosen.random() < 0.03 else "")]
        value = self.value(option)
        form = chosen.random()
        if form < 0.03:
            return [f"{dashes}{option}"]
        if form < 0.05:
            return [f"{dashes}{option}="]
        return [f"{dashes}{option}={value}"] if form < 0.4 else [f"{dashes}{option}", value]

    def value(self, option: str) -> str:
        chosen = self.random
        if option == "reassignment-json-file":
            return self.file(self.plan())
        if option == "topics-to-move-json-file":
            return self.file(self.topics())
        if option == "broker-list":
            return chosen.choice(
                ("1,2", "1,2,3", "1", "1,1", "2,1,2,1", "", ",", "1,", ",1", "1, 2", "x", "--5", "-5", "+3", "3000000000", "1;2")
            )  # fmt: skip
        if OPTIONS[option].default is not None:
            return chosen.choice(
                (
                    "5000",
                    "0",
                    "-1",
                    "+7",
                    "5e3",
                    "5K",
                    "",
                    " 5",
                    "9223372036854775807",
                    "9223372036854775808",
                    "1_000",
                    "--list",
                )
            )
        return chosen.choice(("127.0.0.1:1", "localhost:9092"))

    def file(self, document: Any) -> str:
        if self.random.random() < 0.03:
            return str(self.folder / "absent.json")
        self.files += 1
        path = self.folder / f"{self.files}.json"
        path.write_text(document if isinstance(document, str) else json.dumps(document))
        return str(path)

    def plan(self) -> Any:
        chosen = self.random
        entries = []
        for _ in range(chosen.choice((0, 1, 1, 2, 3))):
            replicas = [chosen.randrange(5) for _ in range(chosen.choice((0, 1, 2, 2, 3)))]
            entry = {"topic": chosen.choice("tu"), "partition": chosen.randrange(3), "replicas": replicas}
            if chosen.random() < 0.3:
                entry["log_dirs"] = [chosen.choice(("any", "/d1")) for _ in replicas] + ["any"] * (
                    chosen.random() < 0.2
                )
            entries.append(entry)
        return self.damaged({"version": 1, "partitions": entries})

    def topics(self) -> Any:
        named = [{"topic": self.random.choice("tuv")} for _ in range(self.random.choice((0, 1, 2, 3)))]
        return self.damaged({"version": 1, "topics": named})

    def damaged(self, document: Any) -> Any:
        """The document, perhaps with one fault: an entry is missing, or has another type."""
        chosen = self.random
        if chosen.random() < 0.5:
            return document
        if chosen.random() < 0.1:
            return chosen.choice(("", "{", "[1,", "nothing"))
        places: list[tuple[Any, Any]] = []
        waiting = [document]
        while waiting:
            one = waiting.pop()
            keys = list(one) if isinstance(one, dict) else range(len(one))
            places += [(one, key) for key in keys]
            waiting += [one[key] for key in keys if isinstance(one[key], dict | list)]
        holder, key = chosen.choice(places)
        if isinstance(holder, dict) and chosen.random() < 0.3:
            del holder[key]
        else:
            odd = (None, 5, -1, 3_000_000_000, 1.5, True, "x", "", [], {}, [1], [None], ["/d", 5], {"a": [1, "b"]})
            holder[key] = chosen.choice(odd)
        return document if chosen.random() < 0.95 else chosen.choice((None, 5, "text", [document]))


def comparable(outcome: Outcome) -> Outcome:
    """An outcome without the intended differences: the order of Java's hash tables, Jackson's words for broken JSON."""
    told = outcome.told
    if any(word in told for word in ("valid JSON", "Unrecognized token", "end-of-input", "shouldn't be empty")):
        return Outcome(outcome.kind, "broken JSON")
    if "Unknown broker id" in told:
        return Outcome(outcome.kind, "the first of several unknown brokers")
    if told.startswith("Error: Unable to read file "):
        return Outcome(outcome.kind, re.split(r": *\[Errno", told)[0].rstrip())
    if "duplicate" in told:
        return Outcome(outcome.kind, " ".join(sorted(re.split(r"[ ,.\[\]]+", told))))
    return outcome


def differences(seed: int, count: int, folder: Path) -> tuple[list[str], dict[str, int]]:
    """Commands whose outcome differs from Apache's, and the number of commands by outcome."""
    commands = Commands(seed, folder)
    found: list[str] = []
    kinds: dict[str, int] = {}
    with apaches_tool() as tool:
        for _ in range(count):
            arguments = commands.command()
            mine, apaches = comparable(ours(arguments)), comparable(tool.run(arguments))
            kinds[apaches.kind] = kinds.get(apaches.kind, 0) + 1
            if mine != apaches:
                files = [Path(word).read_text() for word in arguments if word.endswith(".json") and Path(word).exists()]
                found.append(f"{arguments} {files}\n  ours:   {mine}\n  Apache: {apaches}")
    return found, kinds


def test_random_commands_are_taken_and_refused_as_apaches_tool_does(tmp_path: Path) -> None:
    found, kinds = differences(20, AT_A_TIME, tmp_path)
    assert not found, "\n".join(found[:10])
    assert {kind for kind, count in kinds.items() if count >= AT_A_TIME // 30} >= {"usage", "refused", "cluster"}, kinds


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_thousands_of_random_commands_too(seed: int, tmp_path: Path) -> None:
    found, _ = differences(seed, AT_LENGTH // 3, tmp_path)
    assert not found, "\n".join(found[:10])
