"""Snapshot files, written and read, and the errors of broken ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter.errors import FormatError
from shunter.formats.inventory_files import decode_inventory, encode_inventory
from shunter.model.inventory import Disk, Inventory, InventoryBroker, InventoryPartition

numbers = st.integers(0, 2**31 - 1)
sizes = st.integers(0, 2**53)
flags = st.none() | st.booleans()
disks = st.builds(
    Disk,
    st.text(),
    st.none() | sizes,
    st.none() | sizes,
    failed=st.booleans(),
    cordoned=flags,
    replicas=st.none() | numbers,
)


def brokers(fenced: st.SearchStrategy[bool | None]) -> st.SearchStrategy[InventoryBroker]:
    return st.builds(
        InventoryBroker, numbers, st.text(), st.none() | st.text(), st.none() | sizes, st.none() | sizes, fenced, flags,
        st.none() | st.lists(disks, max_size=2).map(tuple), throttle=st.none() | sizes,
    )  # fmt: skip


replicas = st.lists(numbers, max_size=4).map(tuple)
partitions = st.builds(
    InventoryPartition, st.text(), st.none() | st.text(), numbers, replicas, replicas, st.integers(-1, 9), st.none() | sizes,
    st.none() | sizes, st.integers(1, 5), st.lists(st.tuples(numbers, sizes), max_size=3).map(tuple), replicas, st.none() | st.text(),
    st.just(()), st.just(()),
)  # fmt: skip
whys = st.lists(st.tuples(numbers, st.text()), max_size=2).map(tuple)
inventories = st.builds(
    Inventory, st.text(), sizes, st.lists(brokers(st.none() | st.just(False)), max_size=3).map(tuple), st.lists(partitions, max_size=4).map(tuple),
    whys, st.just(()),  # Files have no replicas by log dir.
    st.lists(brokers(st.just(True)), max_size=2).map(tuple), whys,
)  # fmt: skip


@given(inventories)
def test_a_snapshot_comes_back_as_it_went(taken):
    assert decode_inventory(b"".join(encode_inventory(taken)), "here") == taken


EMPTY = b"".join(encode_inventory(Inventory("c", 1, (), ())))


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (b"", "x: has no line of kind cluster: the snapshot was cut off"),
        (EMPTY + b"{cut", "x, line 2: is no line of a snapshot"),
        (EMPTY.replace(b'"version":1', b'"version":9'), "x, line 1: version 9 is not understood; 1 is"),
        (EMPTY + b'{"kind":"partition","version":1}\n', "x, line 2: is no line of a snapshot: KeyError"),
    ],
)
def test_a_broken_snapshot_is_named_by_its_line(raw, told):
    with pytest.raises(FormatError, match=told):
        decode_inventory(raw, "x")
