"""`wait_until` for conditions that hold in the end, `stays` for conditions that hold all the time."""

import pytest

from lab.testbed import waiting
from lab.testbed.failures import PartFailed
from lab.testbed.waiting import stays, wait_until


def test_a_bound_is_told_when_it_is_reached(monkeypatch):
    monkeypatch.setattr(waiting, "PATIENCE", 1)
    with pytest.raises(PartFailed, match=r"bound 0\.01 s\) in vain until pigs fly"):
        wait_until(lambda: False, what="pigs fly", timeout_s=0.01, interval_s=0.001)


def test_what_holds_at_every_look_stays():
    looks = []
    assert stays(lambda: not looks.append(1), for_s=0.01, interval_s=0.001)
    assert len(looks) > 1


def test_what_fails_once_does_not_stay():
    looks = iter([True, True, False, True])
    assert not stays(lambda: next(looks), for_s=60, interval_s=0.001)


def test_patience_makes_bounds_longer_and_no_watch(monkeypatch):
    monkeypatch.setattr(waiting, "PATIENCE", 1_000)
    looks = []
    assert stays(lambda: not looks.append(1), for_s=0, interval_s=0.001)
    assert len(looks) == 1
