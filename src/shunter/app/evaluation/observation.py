"""The sighting that the keeper judges: a cluster, read as `shunter plan` and `shunter doctor` read it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from shunter.app.client_configuration import configuration_of
from shunter.app.doctor import look_over
from shunter.app.evaluation.policy import KeptCluster
from shunter.app.executor.session import Target
from shunter.app.planning.plan import cluster_from
from shunter.core.executor.history import Execution, executions
from shunter.core.keeper.load_model import with_model
from shunter.core.keeper.sighting import NOTHING, PastExecution, Sighting
from shunter.core.planning.cluster import ClusterLoad
from shunter.core.planning.request import Scope
from shunter.errors import FormatError
from shunter.formats.plan_files import read_plan_input
from shunter.formats.plan_inventory import encode_plan_input
from shunter.model.check_up import CheckedJournal, CheckUp
from shunter.model.inventory import Inventory
from shunter.model.load_model import ModelTold
from shunter.model.partition import BrokerId, TopicPartition
from shunter.pipeline.lake.kept_model import KeptModels


class Looker:
    """Looks at one cluster again and again; the lake's model of it is read again when it has changed."""

    def __init__(self, cluster: KeptCluster) -> None:
        """`cluster`: its target and the place of its load model."""
        self._cluster = cluster
        self._models = None if cluster.model is None else KeptModels(cluster.model.lake)

    def look(self) -> Sighting:
        """Look once. Blocks, and changes nothing. Without a readable model the look has the error instead.

        Raises:
            DriverError, FormatError, SettingsError: as `take_sighting`.
        """
        seen = take_sighting(self._cluster.target)
        place = self._cluster.model
        if self._models is None or place is None:
            return seen
        try:
            model = self._models.of(seen.inventory.cluster_id)
        except FormatError as error:
            return replace(seen, model=ModelTold(None, str(error)))
        return with_model(seen, model, place.most_hours)


def take_sighting(target: Target) -> Sighting:
    """Look at a cluster once. Blocks, and changes nothing.

    Raises:
        DriverError: the cluster does not answer, or does not let us in.
        FormatError: it can't be planned as it is, or the properties file can't be used.
        SettingsError: the properties file can't be used.
    """
    from shunter.drivers.admin.inventory import take_inventory  # noqa: PLC0415 - brings the client library with it

    taken = take_inventory(configuration_of(target.bootstrap, target.properties))
    looked = asyncio.run(look_over(target))
    past = None if looked.entries is None else past_of(executions(looked.entries))
    return sighting_of(taken, looked.seen, looked.journal, past)


def past_of(executions: Sequence[Execution]) -> tuple[PastExecution, ...]:
    """Past executions for guard rails: replicas that were to be copied, and bytes of ended steps and of log dirs."""
    return tuple(
        PastExecution(
            execution.began_at_ms,
            execution.ended_at_ms,
            sum(len(set(move.target) - set(move.original)) + len(move.placing) for move in execution.every_move),
            execution.copied_bytes + sum(len(move.placing) * move.size_bytes for move in execution.every_move),
            _balanced_away(execution),
            execution.turned_at_ms,
            execution.turned[-1].given_by if execution.turned else "",
        )
        for execution in executions
    )


def _balanced_away(execution: Execution) -> tuple[tuple[TopicPartition, BrokerId], ...]:
    """The replicas that a rebalance of the keeper took from brokers; the service's plans are named by their scope."""
    if not any(plan.startswith(f"{Scope.REBALANCE.value}-") for plan in execution.plans):
        return ()
    return tuple(
        (tp, broker) for tp, move in execution.moves.items() for broker in move.original if broker not in move.current
    )


def sighting_of(
    taken: Inventory, seen: CheckUp, journal: CheckedJournal, past: tuple[PastExecution, ...] | None
) -> Sighting:
    """Put a sighting together. Partitions without replicas are left out: there is nothing to plan about them.

    Raises:
        FormatError: the cluster can't be planned as it is: some of its brokers have racks, and others don't.
    """
    taken = taken._replace(partitions=tuple(each for each in taken.partitions if each.replicas))
    taken = taken.without_throttles(journal.rates)
    # The inventory has the check-up's topics too. Without them, a third less data goes to the process that plans.
    return Sighting(taken, replace(seen, topics=()), journal, _load(taken), past)


def _load(taken: Inventory) -> ClusterLoad:
    if not taken.partitions:
        return NOTHING
    rackless = not any(broker.rack for broker in taken.brokers)
    raw = encode_plan_input(taken)
    return cluster_from(read_plan_input(raw, f"cluster {taken.cluster_id}", ignore_racks=rackless))
