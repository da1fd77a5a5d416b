"""`drain --cordon`: brokers that can't be cordoned are named first."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from shunter.app.executor.session import Target
from shunter.app.planning import cordons
from shunter.app.planning.cordons import cordons_of
from shunter.cli import plan as plan_command
from shunter.drivers.admin.answers import SettingsSeen
from shunter.errors import SettingsError
from shunter.model.execution import ExecutionOptions, ThrottleKey


class Brokers:
    """Three live brokers; those before Kafka 4.3 do not know the setting."""

    def __init__(self, old: Sequence[int]) -> None:
        self.old = old

    async def brokers(self) -> dict[int, str | None]:
        return {1: None, 2: None, 3: None}

    async def read_settings(self, keys: Sequence[ThrottleKey]) -> SettingsSeen:
        return SettingsSeen(dict.fromkeys(keys), {key: None if int(key.name) in self.old else "" for key in keys})

    async def close(self) -> None:
        pass


def asked(monkeypatch: pytest.MonkeyPatch, brokers: Sequence[int], *, old: Sequence[int] = ()) -> tuple[Any, ...]:
    async def connect(_target: Target) -> Brokers:
        return Brokers(old)

    monkeypatch.setattr(cordons, "connect", connect)
    return asyncio.run(cordons_of(Target("kafka1:9092"), brokers))


def test_live_brokers_get_all_their_log_dirs_cordoned(monkeypatch: pytest.MonkeyPatch) -> None:
    assert asked(monkeypatch, (2, 9)) == ((2, "*"),), "broker 9 is dead"


def test_brokers_that_do_not_know_the_setting_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingsError, match=r"broker 2, 3 can't be cordoned: cordoned\.log\.dirs came with Kafka 4\.3"):
        asked(monkeypatch, (1, 2, 3), old=(2, 3))


@pytest.mark.parametrize("cordon", [False, True])
def test_a_drain_cordons_the_brokers_that_it_names(monkeypatch: pytest.MonkeyPatch, cordon: bool) -> None:
    taken: list[ExecutionOptions] = []

    def carry_out(_made: Any, _asked: Any, _target: Any, options: ExecutionOptions, _how: Any) -> int:
        taken.append(options)
        return 0

    monkeypatch.setattr(
        plan_command, "_plan_live", lambda *_: (SimpleNamespace(plan=SimpleNamespace(moves=(1,))), "c", ())
    )
    monkeypatch.setattr(plan_command, "_tell", lambda *_: None)
    monkeypatch.setattr(plan_command, "_cordons", lambda _target, brokers: tuple((each, "*") for each in brokers))
    monkeypatch.setattr(plan_command, "_carry_out", carry_out)
    flags = ["--cordon"] if cordon else []
    done = CliRunner().invoke(plan_command.drain, ["3", "--bootstrap-server", "kafka1:9092", "--yes", *flags])
    assert done.exit_code == 0, done.output
    (options,) = taken
    assert options.cordons == (((3, "*"),) if cordon else ())
