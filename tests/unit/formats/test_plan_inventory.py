"""A snapshot of a live cluster and an operator's wishes about topics become the planner's input."""

import orjson
import pytest

from shunter.errors import FormatError
from shunter.formats.inventory_files import decode_inventory, encode_inventory
from shunter.formats.plan_files import read_plan_input
from shunter.formats.plan_inventory import encode_plan_input
from shunter.formats.topic_wishes import decode_wishes
from shunter.model.inventory import BrokerFacts, Disk, Inventory, InventoryBroker, InventoryPartition, TopicWish

TOPICS = ("clicks-a", "clicks-b", "orders")


def snapshot(*replicas: tuple[int, ...], sizes: tuple[tuple[int, int], ...] = ()) -> Inventory:
    """Brokers 1 and 2 in rack a, 3 in rack b; each partition is led by its first replica."""
    brokers = tuple(
        InventoryBroker(id_, "h", rack, disk, None) for id_, rack, disk in ((1, "a", 4096), (2, "a", None), (3, "b", 0))
    )
    partitions = tuple(
        InventoryPartition("t", None, number, held, held, held[0] if held else -1, 0, 9, 2, sizes)
        for number, held in enumerate(replicas)
    )
    return Inventory("yard", 0, brokers, partitions)


def test_sizes_are_kib_of_the_leader_and_capacities_those_that_are_known() -> None:
    raw = encode_plan_input(snapshot((1, 3), (3, 2), sizes=((1, 2048), (2, 5120))))
    found = read_plan_input(raw, "yard")
    assert found.sizes.tolist() == [2.0, 5.0], "the greatest where the leader did not tell"
    assert found.disk_capacity is not None
    assert found.disk_capacity.tolist() == [4.0, float("inf"), float("inf")]
    assert found.racks == ("a", "b")
    assert found.min_isr is not None
    assert found.min_isr.tolist() == [2, 2]


def test_what_is_known_of_the_world_is_written_and_read() -> None:
    taken = snapshot((1, 9), (3, 1), (8, 3))
    brokers = (
        taken.brokers[0],
        taken.brokers[1]._replace(silent=True, needs_all=False, throttle=20_000, held_followers=("t-0", "u-*")),
        taken.brokers[2]._replace(
            log_dirs=(Disk("/a", 4096, 1024, cordoned=True, replicas=7), Disk("/b", None, None, failed=True))
        ),
    )
    lost = taken.partitions[0]._replace(isr=(1,), offline=(9,))
    taken = taken._replace(brokers=brokers, partitions=(lost, *taken.partitions[1:]))
    taken = taken._replace(fenced=(InventoryBroker(8, "h", "b", None, None, fenced=True),))
    assert decode_inventory(b"".join(encode_inventory(taken)), "yard") == taken
    found = read_plan_input(encode_plan_input(taken), "yard")
    assert found.brokers == (1, 2, 3, 8, 9)
    assert found.racks == ("(unknown: broker 9)", "a", "b")
    assert found.facts == (
        BrokerFacts(True, log_dirs=(Disk("", 4.0, None),)),
        BrokerFacts(True, silent=True, needs_all=False, throttle=20_000, held_followers=("t-0", "u-*")),
        BrokerFacts(
            True, log_dirs=(Disk("/a", 4.0, 1.0, cordoned=True, replicas=7), Disk("/b", None, None, failed=True))
        ),
        BrokerFacts(live=False, fenced=True),
        BrokerFacts(live=False),
    )
    assert found.isr is not None
    assert found.isr.tolist() == [[0, -1], [2, 0], [3, 2]]
    assert found.offline is not None
    assert found.offline.tolist() == [[4], [-2], [-2]], "a row without the key is not known"
    assert found.leader is not None
    assert found.leader.tolist() == [0, 2, 3]


def test_partitions_without_replicas_are_left_out() -> None:
    raw = encode_plan_input(snapshot((), (3, 2), ()))
    found = read_plan_input(raw, "yard")
    assert found.numbers.tolist() == [1]


def test_a_reassignment_under_way_counts_as_done() -> None:
    """Else a plan would keep the replica that is being removed, and raise the replication factor."""
    moved = InventoryPartition(
        "t", None, 0, (4, 2, 3, 1), (2, 3, 1), 1, 0, 9, 1, ((1, 1024),), adding=(4,), removing=(1,)
    )
    brokers = tuple(InventoryBroker(broker, "host", None, None, None) for broker in (1, 2, 3, 4))
    found = orjson.loads(encode_plan_input(Inventory("c", 0, brokers, (moved,))))["partitions"][0]
    assert (found["replicas"], found["isr"], found["leader"]) == ([4, 2, 3], [2, 3], -1)


def test_a_partition_that_moves_as_a_whole_is_not_lost() -> None:
    """An outsider's find: while its only replica moved, plans said that it has no live replica in sync."""
    moved = InventoryPartition("t", None, 0, (2, 1), (1,), 1, 0, 9, 1, ((1, 1024),), adding=(2,), removing=(1,))
    brokers = tuple(InventoryBroker(broker, "host", None, None, None) for broker in (1, 2))
    found = orjson.loads(encode_plan_input(Inventory("c", 0, brokers, (moved,))))["partitions"][0]
    assert (found["replicas"], found["isr"], found["leader"]) == ([2], [2], -1)


def test_a_mark_at_the_start_is_no_part_of_the_file() -> None:
    assert decode_wishes("\ufeff[orders]\nreplication = 2".encode(), "wanted.toml", TOPICS) == (TopicWish("orders", 2),)


def test_names_go_before_patterns() -> None:
    text = b"""
        ["clicks-*"]
        replication = 3
        ["*"]
        replication = 2
        [clicks-b]
        racks = ["a", "b"]
        brokers = [1, 2]
    """
    assert decode_wishes(text, "wanted.toml", TOPICS) == (
        TopicWish("clicks-a", 3),
        TopicWish("clicks-b", 0, ("a", "b"), (1, 2)),
        TopicWish("orders", 2),
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"", "names no topic"),
        (b"[orders", "is no TOML"),
        (b"orders = 3", r"\[orders\] says nothing"),
        (b"[orders]\n", r"\[orders\] says nothing"),
        (b"[orders]\nreplicas = 3", "unknown key 'replicas'; known are replication, racks, brokers"),
        (b"[orders]\nreplication = 0", "replication = 0: a whole number from 1 on"),
        (b"[orders]\nreplication = true", "replication = True: a whole number"),
        (b"[orders]\nracks = 'a'", "a list of racks' names"),
        (b"[orders]\nbrokers = [-1]", "a list of broker ids"),
        (b"[order]\nreplication = 3", r"\[order\]: the cluster has no such topic"),
        (b"['x*']\nreplication = 3", r"\[x\*\]: the cluster has no such topic"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(text: bytes, told: str) -> None:
    with pytest.raises(FormatError, match=f"^wanted.toml: .*{told}"):
        decode_wishes(text, "wanted.toml", TOPICS)
