"""The load of a cluster's partitions and processors, from the pipeline's newest load model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from shunter.model.partition import BrokerId


class PartitionRates(NamedTuple):
    """Bytes per second that producers write to a partition's leader, and that consumers read from it; None: unknown."""

    bytes_in: float | None
    bytes_out: float | None


class ProcessorModel(NamedTuple):
    """The cost of a byte per second, and the brokers' powers, in parts of an average broker's processors."""

    idling: float
    received: float
    led: float
    sent: float
    powers: Mapping[BrokerId, float]


@dataclass(frozen=True, slots=True)
class LoadModel:
    """A cluster's newest model. Partitions are (topic id, number), or ("name:" and the topic's name, number)."""

    rates: Mapping[tuple[str, int], PartitionRates] = field(default_factory=dict[tuple[str, int], PartitionRates])
    until_ms: int | None = None
    """Start of the newest window with a rate, milliseconds since 1970 UTC; None: there is none."""
    processors: ProcessorModel | None = None


class ModelTold(NamedTuple):
    """The age and the use of a load model. `unused`: why nothing is judged or planned by it; "": it is used."""

    until_ms: int | None
    unused: str = ""
