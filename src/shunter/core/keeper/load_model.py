"""Adds the rates of the pipeline's load model to a sighting: bytes in and out, and their costs in processor time.

A model is used as a whole or not at all: a partition without rates would count as idle, and an old rate would move a
partition whose load has fallen since.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from shunter.core.keeper.sighting import Sighting
from shunter.core.planning.cluster import ClusterLoad, ProcessorCosts, known_bytes_out
from shunter.core.planning.processors import capacity_left
from shunter.core.wording import counted
from shunter.model.load_model import LoadModel, ModelTold, PartitionRates

LEAST_SHARE = 0.9
"""A model that knows the rates of a smaller share of the partitions is not used: the others would count as idle."""
HOUR_MS = 3_600_000
NOTHING_KNOWN = PartitionRates(None, None)


def with_model(sighting: Sighting, model: LoadModel, most_hours: int) -> Sighting:
    """Add a model's rates and processor costs to a sighting; if the model must not be used, say why.

    If the model knows bytes out of too few partitions, they are left out, and the load of processors with them.

    Args:
        sighting: The sighting of one look; its load has no rates.
        model: The load model of this cluster.
        most_hours: A model whose rates end longer ago is not used.
    """
    unused = _unused(sighting, model, most_hours)
    if unused:
        return replace(sighting, model=ModelTold(model.until_ms, unused))
    load = sighting.load
    rates_in, rates_out = (
        np.array([np.nan if rate is None else rate for rate in column], np.float64)
        for column in zip(*_rates(sighting, model), strict=True)
    )
    load = replace(load, bytes_in=np.nan_to_num(rates_in), bytes_out=known_bytes_out(rates_in, rates_out))
    return replace(sighting, load=_with_processors(load, model), model=ModelTold(model.until_ms))


def _unused(sighting: Sighting, model: LoadModel, most_hours: int) -> str:
    if model.until_ms is None or not model.rates:
        return "it has no rates of this cluster"
    hours = (sighting.at_ms - model.until_ms) / HOUR_MS
    if hours > most_hours:
        return f"its newest rates are {hours:.0f} hours old, and model-hours = {most_hours}"
    found = _rates(sighting, model)
    known = sum(each != NOTHING_KNOWN for each in found)
    if known < LEAST_SHARE * len(found) or not found:
        return (
            f"it knows the rates of {known:,} of {counted(len(found), 'partition')}, and {LEAST_SHARE:.0%} are wanted"
        )
    return ""


def _rates(sighting: Sighting, model: LoadModel) -> list[PartitionRates]:
    """The rates of each row of the load, in its order: by the topic's id, or by its name if samples have no ids."""
    ids = {each.topic: each.topic_id for each in sighting.inventory.partitions}
    load, found = sighting.load, list[PartitionRates]()
    for topic, number in zip(load.topic_of.tolist(), load.numbers.tolist(), strict=True):
        name = load.topics[topic]
        known = model.rates.get((ids.get(name) or "", number)) or model.rates.get((f"name:{name}", number))
        found.append(known or NOTHING_KNOWN)
    return found


def _with_processors(load: ClusterLoad, model: LoadModel) -> ClusterLoad:
    processors = model.processors
    if processors is None:
        return load
    # A broker that was not measured counts as an average one.
    left = [capacity_left(processors.powers.get(broker, 1.0), processors.idling) for broker in load.brokers]
    costs = ProcessorCosts(processors.received, processors.led, processors.sent)
    return replace(load, processor_costs=costs, processor_capacity=np.array(left, np.float64))
