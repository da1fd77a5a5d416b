"""A plan that no longer fits its cluster is refused by partition, with what changed."""

import json

from shunter.app.pipeline.fit import refit
from shunter.model.inventory import Inventory, InventoryBroker, InventoryPartition


def cluster(*partitions, brokers=(1, 2, 3)):
    rows = tuple(
        InventoryPartition(topic, topic_id, number, replicas, replicas, replicas[0], 0, 1, 1, ())
        for topic, topic_id, number, replicas in partitions
    )
    return Inventory("yard", 0, tuple(InventoryBroker(broker, "h", None, None, None) for broker in brokers), rows)


def plan(path, *moves):
    rows = [{"topic": topic, "partition": number, "replicas": replicas} for topic, number, replicas in moves]
    path.write_text(json.dumps({"version": 1, "partitions": rows}))
    return path


def test_what_fits_is_carried_out_as_it_was_written(tmp_path):
    before = cluster(("t", "a", 0, (1, 2)))
    path = plan(tmp_path / "yard.json", ("t", 0, [2, 3]))
    assert refit(path, before, before) == (path, ())


def test_each_change_leaves_its_partition_out(tmp_path):
    before = cluster(
        ("t", "a", 0, (1, 2)),
        ("t", "a", 1, (1, 2)),
        ("gone", "b", 0, (1, 2)),
        ("anew", "c", 0, (1, 2)),
        ("u", "d", 0, (1, 2)),
    )
    now = cluster(
        ("t", "a", 0, (1, 2)), ("t", "a", 1, (2, 1)), ("anew", "C", 0, (1, 2)), ("u", "d", 0, (1, 2)), ("late", "e", 0, (1, 2)),
        brokers=(1, 2, 4),
    )  # fmt: skip
    path = plan(
        tmp_path / "yard.json",
        ("t", 0, [2, 4]), ("t", 1, [2, 4]), ("gone", 0, [2, 4]), ("anew", 0, [2, 4]), ("u", 0, [2, 3]), ("late", 0, [2, 4]),
    )  # fmt: skip
    fitting, refused = refit(path, before, now)
    assert json.loads(fitting.read_text())["partitions"] == [{"topic": "t", "partition": 0, "replicas": [2, 4]}]
    assert (fitting.name, fitting != path) == ("yard.json", True)
    assert refused == (
        "t-1: its replicas were [1, 2] when the plan was made, and are [2, 1] now",
        "gone-0: it was deleted since the plan was made",
        "anew-0: its topic was created again since the plan was made (c then, C now)",
        "u-0: broker 3 of its target [2, 3] is not live now",
        "late-0: it was not there when the plan was made",
    )


def test_nothing_is_left_where_all_changed(tmp_path):
    before, now = cluster(("t", "a", 0, (1, 2))), cluster(("t", "a", 0, (1, 3)))
    path = plan(tmp_path / "yard.json", ("t", 0, [2, 3]))
    assert refit(path, before, now) == (
        None,
        ("t-0: its replicas were [1, 2] when the plan was made, and are [1, 3] now",),
    )
