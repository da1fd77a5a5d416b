"""Elections, as Apache 3.9 holds them."""

from shunter.core.election import (
    NewLeadership,
    elect_first,
    elect_for_offline,
    elect_for_reassignment,
    elect_for_shutdown,
    elect_preferred,
)


def test_a_new_partition_is_led_by_its_first_live_replica_and_has_all_live_ones_in_sync():
    assert elect_first((3, 1, 2), {1, 2}) == NewLeadership(1, (1, 2))
    assert elect_first((3,), {1, 2}) is None


def test_an_offline_partition_is_led_by_the_first_live_in_sync_replica_in_assignment_order():
    assert elect_for_offline((1, 2, 3), (3, 1, 2), {2, 3}, unclean_allowed=True) == NewLeadership(2, (3, 2))


def test_nobody_out_of_sync_leads_unless_that_is_allowed():
    assert elect_for_offline((1, 2, 3), (1,), {2, 3}, unclean_allowed=False) is None
    assert elect_for_offline((1, 2, 3), (1,), {2, 3}, unclean_allowed=True) == NewLeadership(2, (2,), unclean=True)
    assert elect_for_offline((1, 2, 3), (1,), {4}, unclean_allowed=True) is None


def test_the_preferred_replica_leads_only_live_and_in_sync():
    assert elect_preferred((1, 2), (2, 1), {1, 2}) == NewLeadership(1, (2, 1))
    assert elect_preferred((1, 2), (2, 1), {2}) is None
    assert elect_preferred((1, 2), (2,), {1, 2}) is None


def test_a_broker_that_shuts_down_hands_over_and_leaves_the_isr():
    assert elect_for_shutdown((1, 2, 3), (1, 2, 3), {1, 2, 3}, {1}) == NewLeadership(2, (2, 3))
    assert elect_for_shutdown((1, 2, 3), (1, 2, 3), {1, 3}, {1}) == NewLeadership(3, (2, 3))
    assert elect_for_shutdown((1, 2), (1,), {1, 2}, {1}) is None


def test_a_reassigned_partition_is_led_by_a_live_in_sync_member_of_the_target():
    assert elect_for_reassignment((4, 5), (1, 5, 4), {1, 5}) == NewLeadership(5, (1, 5, 4))
    assert elect_for_reassignment((4, 5), (1,), {1, 4, 5}) is None
