"""The answer that a probe gets about a controller process."""

from __future__ import annotations

import pytest

from shunter.core.controller.state import ControllerState
from shunter.views.readiness import Readiness, readiness


def state(**facts):
    made = ControllerState(1000)
    for name, value in facts.items():
        setattr(made, name, value)
    return made


@pytest.mark.parametrize(
    ("facts", "obstacle", "troubles", "told"),
    [
        ({"active": True, "controller_epoch": 7}, None, (), Readiness(True, ("in charge: controller epoch 7",))),
        ({}, "broker 1 is the controller", (), Readiness(True, ("standing by: broker 1 is the controller",))),
        ({}, None, (), Readiness(False, ("standing for the controllership",))),
        (
            {"controller_epoch": 7},
            None,
            (),
            Readiness(False, ("reading the cluster as the controller of epoch 7",)),
        ),
        (
            {"active": True, "controller_epoch": 7},
            None,
            ("every live broker refuses our requests",),
            Readiness(False, ("every live broker refuses our requests",)),
        ),
    ],
)
def test_what_is_in_the_way_is_told_before_what_goes_well(facts, obstacle, troubles, told):
    assert readiness(state(**facts), obstacle, troubles) == told
