"""`shunter.api` keeps its promise: what it names, with its parameters and fields."""

import dataclasses
import inspect
from pathlib import Path

import pytest

from shunter import api
from shunter.errors import DriverError, FormatError, SettingsError

PROMISED = {
    "__init__": "(bootstrap, *, properties, journal, journal_topic)",
    "dry_run": "(moves, options)",
    "execute": "(moves, options, *, on_view)",
    "history": "()",
    "inventory": "()",
    "plan": "(options)",
    "resume": "()",
    "rollback": "(partitions)",
    "status": "()",
    "stop": "(partitions)",
    "undo": "(number, options)",
}
FIELDS = {
    api.Plan: ["moves", "summary", "reasons", "notes", "document"],
    api.OrderOutcome: ["status", "told", "view"],
}


def parameters(function: object) -> str:
    assert callable(function)
    found = [each for each in inspect.signature(function).parameters.values() if each.name != "self"]
    bare = [each.replace(annotation=inspect.Parameter.empty, default=inspect.Parameter.empty) for each in found]
    return str(inspect.Signature(bare))


def test_the_promise_is_kept() -> None:
    public = {name: parameters(member) for name, member in vars(api.Cluster).items() if inspect.isfunction(member)}
    assert {name: told for name, told in public.items() if name == "__init__" or name[0] != "_"} == PROMISED
    for kind, names in FIELDS.items():
        assert [each.name for each in dataclasses.fields(kind)] == names
    assert [name for name in api.__all__ if not hasattr(api, name)] == []


def test_every_method_is_documented() -> None:
    page = (Path(__file__).parents[3] / "docs" / "api-python.md").read_text(encoding="utf-8")
    assert [name for name in PROMISED if name != "__init__" and f"`{name}(" not in page] == []


def test_what_does_not_fit_or_answer_is_an_error_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="name only one"):
        api.Cluster("k:1", journal=tmp_path / "j", journal_topic="t")
    nobody = api.Cluster("127.0.0.1:1", journal=tmp_path / "none.journal")
    with pytest.raises(SettingsError, match="--scope drain needs --brokers"):
        nobody.plan(api.PlanOptions(scope="drain"))
    with pytest.raises(DriverError, match=r"127\.0\.0\.1:1"):
        nobody.inventory()
    with pytest.raises(FormatError, match="there is no journal"):
        nobody.rollback()
    assert nobody.execute(()) == api.OrderOutcome(api.ExitCode.DONE, ("nothing is to be moved",))
