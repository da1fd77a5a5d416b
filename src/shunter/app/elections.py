"""Leaders after a plan that changed orders: the first of each partition's replicas is elected."""

from __future__ import annotations

from collections.abc import Collection

from shunter.app.executor import Target, connect
from shunter.model.partition import TopicPartition


async def elect_first(target: Target, partitions: Collection[TopicPartition]) -> dict[TopicPartition, str]:
    """Let the first replica of each partition lead; otherwise a controller does so within minutes.

    Returns:
        The partitions that still have another leader, and why.

    Raises:
        DriverError: the cluster does not answer, or refuses access.
    """
    admin = await connect(target)
    try:
        return await admin.elect_preferred(partitions)
    finally:
        await admin.close()
