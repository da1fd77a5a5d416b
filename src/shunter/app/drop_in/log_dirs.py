"""The log-dir half of `kafka-reassign-partitions`. Source: Apache Kafka 3.9, `executeMoves`, `findLogDirMoveStates`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from shunter.drivers.admin.reassign_cluster import ReassignCluster, ReplicaDir
from shunter.errors import DriverError, ErrorCode, ShunterError
from shunter.model.partition import BrokerId, TopicPartition

Echo = Callable[[str], None]
Wanted = Mapping[tuple[BrokerId, TopicPartition], str]
_RETRY_S = 0.1


class LogDirsFailed(ShunterError):
    """Replicas could not be moved between log dirs; the message is what to print."""


def verify(cluster: ReassignCluster, wanted: Wanted, echo: Echo) -> bool:
    """Say where the replicas are; whether any is still being moved."""
    found = _where(cluster, wanted)
    lines = [_state(key, wanted[key], found.get(key)) for key in _ordered(wanted)]
    echo("\n".join(lines))
    return any(place.future is not None for place in found.values())


def execute(cluster: ReassignCluster, wanted: Wanted, timeout_ms: int, echo: Echo) -> None:
    """Begin moves between log dirs; a replica that is not there yet is asked again until the time is up.

    Raises:
        LogDirsFailed: a broker refused one, or the time was up.
    """
    pending = dict(wanted)
    give_up = time.monotonic() + timeout_ms / 1000
    while pending:
        answered = cluster.alter_log_dirs(pending)
        for broker, tp in _ordered(pending):
            error = answered.get((broker, tp), ErrorCode.REPLICA_NOT_AVAILABLE)
            if error is ErrorCode.NONE:
                path = pending.pop((broker, tp))
                echo(f"Successfully started moving log directory to {path} for replica {tp} with broker {broker} ")
            elif error is not ErrorCode.REPLICA_NOT_AVAILABLE:
                raise LogDirsFailed(f"Failed to alter dir for {tp}-{broker}: {error.name}")
        if pending and time.monotonic() >= give_up:
            named = ",".join(f"{tp}-{broker}" for broker, tp in _ordered(pending))
            plural = "" if len(pending) == 1 else "s"
            raise LogDirsFailed(f"Timed out before log directory move{plural} could be started for: {named}")
        if pending:
            time.sleep(_RETRY_S)


def cancel(cluster: ReassignCluster, wanted: Wanted, timeout_ms: int, echo: Echo) -> str:
    """Send replicas that are being moved back to where they are.

    Returns:
        What Apache's tool says without ending the line.
    """
    found = _where(cluster, wanted)
    active = {key: place.current for key, place in found.items() if place.future is not None and place.current}
    if active:
        execute(cluster, active, timeout_ms, echo)
        return ""
    return "None of the specified partition moves are active."


def _where(cluster: ReassignCluster, wanted: Wanted) -> dict[tuple[BrokerId, TopicPartition], ReplicaDir]:
    found: dict[tuple[BrokerId, TopicPartition], ReplicaDir] = {}
    for broker in sorted({broker for broker, _ in wanted}):
        try:
            found |= cluster.log_dirs(key for key in wanted if key[0] == broker)
        except DriverError:
            continue  # A dead broker's replicas can't be found, and are told so.
    return {key: found[key] for key in wanted if key in found}


def _ordered(wanted: Wanted) -> list[tuple[BrokerId, TopicPartition]]:
    return sorted(wanted)


def _state(key: tuple[BrokerId, TopicPartition], wanted: str, place: ReplicaDir | None) -> str:
    broker, tp = key
    if place is None:
        return f"Partition {tp} cannot be found in any live log directory on broker {broker}."
    if place.current is None:
        told = "There is likely an offline log directory on the broker."
        return f"Partition {tp} is not found in any live log dir on broker {broker}. {told}"
    if place.future is None and place.current == wanted:
        return f"Reassignment of replica {tp}-{broker} completed successfully."
    if place.future is None:
        return f"Partition {tp} on broker {broker} is not being moved from log dir {place.current} to {wanted}."
    if place.future == wanted:
        return f"Reassignment of replica {tp}-{broker} is still in progress."
    return f"Partition {tp} on broker {broker} is being moved to log dir {place.future} instead of {wanted}."
