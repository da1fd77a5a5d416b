"""What the keeper judges: read as `shunter plan` and `shunter doctor` read a cluster, and put together."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from shunter.app.client_configuration import configuration_of
from shunter.app.doctor import LookedOver, look_over
from shunter.app.executor import Target
from shunter.app.executor_history import executions_in
from shunter.app.plan import cluster_from
from shunter.core.executor.history import Execution
from shunter.core.keeper.sighting import NOTHING, PastExecution, Sighting
from shunter.core.planning.cluster import GONE, ClusterLoad
from shunter.core.planning.request import Scope
from shunter.errors import DriverError, FormatError
from shunter.formats.plan_files import read_plan_input
from shunter.formats.plan_inventory import encode_plan_input
from shunter.model.check_up import CheckedJournal, CheckUp
from shunter.model.inventory import Inventory
from shunter.model.partition import BrokerId, TopicPartition


def take_sighting(target: Target) -> Sighting:
    """Look at a cluster once. Blocks, and changes nothing.

    Raises:
        DriverError: the cluster does not answer, or does not let us in.
        FormatError: it can't be planned as it is, or the properties file can't be used.
        SettingsError: the properties file can't be used.
    """
    from shunter.drivers.admin.inventory import take_inventory  # noqa: PLC0415 - brings the client library with it

    taken = take_inventory(configuration_of(target.bootstrap, target.properties))
    looked, past = asyncio.run(_look_over(target))
    return sighting_of(taken, looked.seen, looked.journal, past)


async def _look_over(target: Target) -> tuple[LookedOver, tuple[PastExecution, ...] | None]:
    looked = await look_over(target)
    if not looked.place.exists():
        return looked, ()
    try:
        return looked, past_of(await executions_in(looked.place))
    except (DriverError, FormatError):
        return looked, None  # `look_over` read the journal too, and tells why it can't be read.


def past_of(executions: Sequence[Execution]) -> tuple[PastExecution, ...]:
    """What guard rails count of executions: every replica that was to be copied, and the bytes of the steps that ended."""
    return tuple(
        PastExecution(
            execution.began_at_ms,
            execution.ended_at_ms,
            sum(len(set(move.target) - set(move.original)) for move in execution.moves.values()),
            execution.copied_bytes,
            _balanced_away(execution),
        )
        for execution in executions
    )


def _balanced_away(execution: Execution) -> tuple[tuple[TopicPartition, BrokerId], ...]:
    """What a balance that the keeper proposed took from which broker; plans of the service are named by their scope."""
    if not any(plan.startswith(f"{Scope.REBALANCE.value}-") for plan in execution.plans):
        return ()
    return tuple(
        (tp, broker) for tp, move in execution.moves.items() for broker in move.original if broker not in move.current
    )


def sighting_of(
    taken: Inventory, seen: CheckUp, journal: CheckedJournal, past: tuple[PastExecution, ...] | None
) -> Sighting:
    """Put together what was read.

    Raises:
        FormatError: the cluster can't be planned as it is: some of its brokers have racks, and others don't.
    """
    return Sighting(taken, seen, journal, _load(taken), past)


def _load(taken: Inventory) -> ClusterLoad:
    if not taken.partitions:
        return NOTHING
    dead = {broker for each in taken.partitions for broker in each.replicas} - {broker.id for broker in taken.brokers}
    rackless = not any(broker.rack for broker in taken.brokers)
    raw = encode_plan_input(taken, dead, GONE)
    return cluster_from(read_plan_input(raw, f"cluster {taken.cluster_id}", ignore_racks=rackless))
