"""Run another planner on a planning input, in its own environment; prints Kafka's reassignment JSON.

    PEERS/bin/python planning_peers.py kafka-utils|kafka-tools INPUT.json

Both normally build their model of a cluster from ZooKeeper. Here it is built from the input; only the planner is
theirs. kafka-utils balances replication groups, partition counts and leaders; kafka-tools balances sizes, then racks.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

Assignment = dict[tuple[str, int], list[int]]


def kafka_utils(cluster: dict[str, Any]) -> Assignment:
    """Plan with Yelp's PartitionCountBalancer: replication groups (racks), brokers, leaders."""
    from kafka_utils.kafka_cluster_manager.cluster_info.cluster_topology import ClusterTopology  # noqa: PLC0415
    from kafka_utils.kafka_cluster_manager.cluster_info.partition_count_balancer import (  # noqa: PLC0415
        PartitionCountBalancer,
    )

    rows = {(row["topic"], row["partition"]): row for row in cluster["partitions"]}

    class Measurer:
        def get_weight(self, _name: tuple[str, int]) -> float:
            return 1.0

        def get_size(self, name: tuple[str, int]) -> float:
            return float(rows[name]["size"])

    topology = ClusterTopology(
        {name: list(row["replicas"]) for name, row in rows.items()},
        {int(broker): {"host": f"broker{broker}"} for broker in cluster["brokers"]},
        Measurer(),
        lambda broker: cluster["brokers"][str(broker.id)],
    )
    arguments = argparse.Namespace(
        replication_groups=True, brokers=True, leaders=True, max_partition_movements=None, max_movement_size=None,
        max_leader_changes=None, balancer_args=[],
    )  # fmt: skip
    PartitionCountBalancer(topology, arguments).rebalance()
    return dict(topology.assignment)


def kafka_tools(cluster: dict[str, Any]) -> Assignment:
    """Plan with LinkedIn's kafka-assigner: balance by size, then by rack."""
    from kafka.tools.assigner.actions.balancemodules.rackaware import ActionBalanceRackAware  # noqa: PLC0415
    from kafka.tools.assigner.actions.balancemodules.size import ActionBalanceSize  # noqa: PLC0415
    from kafka.tools.models.broker import Broker  # noqa: PLC0415
    from kafka.tools.models.cluster import Cluster  # noqa: PLC0415
    from kafka.tools.models.topic import Topic  # noqa: PLC0415

    model = Cluster()
    for broker, rack in cluster["brokers"].items():
        made = Broker(f"broker{broker}", id=int(broker))
        made.rack = rack
        model.add_broker(made)
    by_topic: dict[str, list[dict[str, Any]]] = {}
    for row in cluster["partitions"]:
        by_topic.setdefault(row["topic"], []).append(row)
    for name, rows in by_topic.items():
        topic = Topic(name, len(rows))
        model.add_topic(topic)
        for row in rows:
            partition = topic.partitions[row["partition"]]
            partition.size = row["size"]
            for place, broker in enumerate(row["replicas"]):
                partition.add_replica(model.brokers[broker], place)
    arguments = argparse.Namespace(exclude_topics=[])
    ActionBalanceSize(arguments, model).process_cluster()
    ActionBalanceRackAware(arguments, model).process_cluster()
    return {(p.topic.name, p.num): [broker.id for broker in p.replicas] for p in model.partitions()}


def main() -> None:
    """Plan, and print the partitions that change."""
    planner = {"kafka-utils": kafka_utils, "kafka-tools": kafka_tools}[sys.argv[1]]
    cluster = json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))
    after = planner(cluster)
    changes = [
        {"topic": row["topic"], "partition": row["partition"], "replicas": list(replicas)}
        for row in cluster["partitions"]
        if (replicas := after[row["topic"], row["partition"]]) != row["replicas"]
    ]
    json.dump({"version": 1, "partitions": changes}, sys.stdout)


if __name__ == "__main__":
    main()
