"""A controller that reaches no broker makes room for one that may. A broker's restart deposes nobody."""

from __future__ import annotations

import pytest
from harness import Harness

from shunter.core.controller.events import BrokerIdentified, ConnectionChanged
from shunter.model.settings import ControllerSettings

SECOND = 1_000
ISOLATED_AFTER_MS = ControllerSettings(100).isolated_after_ms


def led(brokers=(1, 2, 3)):
    world = Harness(brokers).start()
    world.create("t", [brokers])
    return world


def lose(world, *brokers):
    world.feed(*(ConnectionChanged(id_, world.live[id_].epoch, reachable=False) for id_ in brokers))


def connect(world, id_):
    """As a channel does with each connection; the first event comes only after news of a lost one."""
    epoch = world.live[id_].epoch
    world.feed(ConnectionChanged(id_, epoch, reachable=True), BrokerIdentified(id_, epoch, looks_us_up=False))


def test_who_reaches_nobody_resigns_after_the_bound_and_asks_to_be_woken_for_it():
    world = led()
    lose(world, 1, 2, 3)
    world.pass_time(ISOLATED_AFTER_MS - 1)
    assert not world.resigned
    assert world.wake_at_ms <= world.now_ms + 1
    world.pass_time(1)
    assert world.resigned
    (told,) = world.told("resigned")
    assert told.text == "we have reached none of 3 live brokers for 45 s: another controller may reach one"


def test_one_broker_is_enough():
    world = led()
    lose(world, 1, 2)
    world.pass_time(10 * ISOLATED_AFTER_MS)
    lose(world, 3)
    world.pass_time(ISOLATED_AFTER_MS - 1)
    connect(world, 2)
    world.pass_time(ISOLATED_AFTER_MS)
    assert not world.resigned
    lose(world, 2)
    world.pass_time(ISOLATED_AFTER_MS - 1)
    assert not world.resigned, "counted anew"
    world.pass_time(1)
    assert world.resigned


def test_an_answer_counts_as_reached():
    world = led()
    world.silent = {1, 2, 3}
    lose(world, 1, 2, 3)
    world.create("u", [(1, 2, 3)])
    world.pass_time(ISOLATED_AFTER_MS - 1)
    world.answer_all()
    world.pass_time(1)
    assert not world.resigned


@pytest.mark.parametrize("restart", ["clean", "crash"])
def test_a_cluster_of_one_broker_is_not_deposed_by_its_restart(restart):
    """A clean stop deregisters it at once. After a crash it is registered until its session ends."""
    world = led((1,))
    lose(world, 1)
    world.pass_time(0 if restart == "clean" else 18 * SECOND)
    world.kill(1)
    world.pass_time(10 * ISOLATED_AFTER_MS)
    assert not world.resigned, "nobody is registered"
    world.revive(1)
    world.pass_time(SECOND)
    lose(world, 1)
    world.pass_time(ISOLATED_AFTER_MS - 1)
    assert not world.resigned
    connect(world, 1)
    world.pass_time(ISOLATED_AFTER_MS)
    assert not world.resigned


def test_brokers_that_come_and_go_unreached_do_not_keep_an_isolated_controller():
    """A broker that came a moment ago is neither reached nor lost yet."""
    world = led()
    world.silent = {1, 2, 3}
    lose(world, 1, 2, 3)
    for passed in range(0, ISOLATED_AFTER_MS, 5 * SECOND):
        assert not world.resigned, passed
        world.bounce(1 + passed // SECOND % 3)
        world.pass_time(5 * SECOND)
        lose(world, *world.hosted)
    assert world.resigned


def test_who_has_resigned_counts_anew_in_its_next_term():
    world = led()
    lose(world, 1, 2, 3)
    world.pass_time(ISOLATED_AFTER_MS)
    assert world.resigned
    world.start()
    world.pass_time(10 * ISOLATED_AFTER_MS)
    assert not world.resigned
