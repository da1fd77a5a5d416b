"""Limits that can't be meant are refused by one rule, wherever they are given."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from shunter.app.evaluation.policy import read_policies
from shunter.app.service.commands import commands_for
from shunter.cli.execution.options import parse_rate
from shunter.errors import SettingsError
from shunter.model.limits import LEAST_RATE, MOST_COPIES, MOST_RATE, bound_trouble, floor_trouble, rate_trouble
from shunter.model.service import OrderKind, OrderRefused, ServiceOrder, Signature


@pytest.mark.parametrize("rate", [-1, 0, 1, 50, LEAST_RATE - 1, MOST_RATE + 1])
def test_a_rate_that_can_t_be_meant(rate: int, tmp_path: Path) -> None:
    why = rate_trouble(rate)
    assert why
    if rate:  # 0 lifts the throttle there.
        with pytest.raises(OrderRefused) as by_api:
            commands_for(ServiceOrder(OrderKind.LIMIT, "prod", bytes_per_s=rate), Signature("anna"))
        assert why in str(by_api.value)
    policy = tmp_path / "keeper.toml"
    for key in ("throttle", "log-dir-throttle"):
        policy.write_text(f'[cluster.prod]\nbootstrap-server = "b:1"\n[cluster.prod.execution]\n{key} = {rate}\n')
        with pytest.raises(SettingsError) as by_file:
            read_policies(policy)
        assert rate < 1 or why in str(by_file.value)
    with pytest.raises(click.BadParameter) as by_command_line:
        parse_rate(str(rate))
    assert rate < 1 or by_command_line.value.message == why


@pytest.mark.parametrize("rate", [LEAST_RATE, 50_000_000, MOST_RATE])
def test_a_rate_that_can(rate: int) -> None:
    assert rate_trouble(rate) == ""
    assert parse_rate(str(rate)) == rate


def test_a_floor_is_below_its_throttle() -> None:
    assert floor_trouble(None, None) == floor_trouble(5_000, 5_000) == ""
    assert floor_trouble(5_000, None) == "there is no throttle"
    assert floor_trouble(5_001, 5_000) == "the floor 5,001 is above the throttle 5,000"


def test_a_bound_is_a_number_of_copies(tmp_path: Path) -> None:
    assert [bool(bound_trouble(each)) for each in (-1, 0, MOST_COPIES, MOST_COPIES + 1)] == [True, False, False, True]
    policy = tmp_path / "keeper.toml"
    for bound, refused in ((0, False), (MOST_COPIES + 1, True)):
        policy.write_text(f'[cluster.p]\nbootstrap-server = "b:1"\n[cluster.p.execution]\nmax-in = {bound}\n')
        if refused:
            with pytest.raises(SettingsError, match=r"0 \(no bound\) to 1,000,000"):
                read_policies(policy)
        else:
            assert read_policies(policy)[0].options.max_in == 0
