"""A controller that leaves says which moves it leaves, and where an Apache controller ends them."""

from beginnings import TP
from harness import Harness

from shunter.core.controller.events import SessionExpired


def test_moves_that_are_left_are_told_with_the_place_where_another_controller_ends_them():
    world = Harness().start()
    world.create("t", [(1, 2)])
    world.reassign({TP: (3, 4)})
    world.feed(SessionExpired("/migration is there"))
    assert [notice.text for notice in world.told("resigned")] == ["/migration is there"]
    (told,) = world.told("moves-left")
    assert told.text.startswith("1 move of topic t is not over; a controller that is no Shunter ends 1 short of the ")
    assert "t-0 at [1, 2, 3], not at [3, 4]" in told.text
    assert "`shunter hand-back`" in told.text


def test_where_no_move_is_left_nothing_is_told():
    world = Harness().start()
    world.create("t", [(1, 2)])
    world.reassign({TP: (3, 4)})
    world.catch_up_all()
    world.feed(SessionExpired("/migration is there"))
    assert world.told("resigned")
    assert not world.told("moves-left")
