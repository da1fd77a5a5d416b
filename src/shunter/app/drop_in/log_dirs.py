"""The log-dir half of `kafka-reassign-partitions`. Source: Apache Kafka 3.9, `executeMoves`, `findLogDirMoveStates`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from shunter.drivers.admin.blocking import BlockingAdmin
from shunter.errors import DriverError, ErrorCode, ShunterError
from shunter.model.log_dirs import ReplicaDir
from shunter.model.partition import BrokerId, TopicPartition

Echo = Callable[[str], None]
Wanted = Mapping[tuple[BrokerId, TopicPartition], str]
_RETRY_S = 0.1
_NOWHERE = ReplicaDir(None, None, 0)


class LogDirMovesFailed(ShunterError):
    """Replicas could not be moved between log dirs; the message is what to print."""


def verify(cluster: BlockingAdmin, wanted: Wanted, echo: Echo) -> bool:
    """Print where the replicas are; returns whether a move may still be under way.

    Raises:
        DriverError: a broker does not report its log dirs.
    """
    found = _where(cluster, wanted)
    echo("\n".join(_state(key, wanted[key], found[key]) for key in sorted(wanted)))
    # Apache's `LogDirMoveState.done` is the same: a replica in no live log dir may still move when its log dir is back.
    return any(place.current is None or place.future is not None for place in found.values())


def execute(cluster: BlockingAdmin, wanted: Wanted, timeout_ms: int, echo: Echo) -> None:
    """Begin moves between log dirs. For a replica that does not exist yet, the request is repeated until the timeout.

    Raises:
        LogDirMovesFailed: a broker refused a move, or the timeout passed.
        DriverError: a broker does not answer.
    """
    pending = dict(wanted)
    give_up = time.monotonic() + timeout_ms / 1000
    while pending:
        answered = cluster.alter_log_dirs(pending)
        outcomes = {key: answered.get(key, ErrorCode.REPLICA_NOT_AVAILABLE) for key in sorted(pending)}
        for (broker, tp), error in outcomes.items():
            if error not in (ErrorCode.NONE, ErrorCode.REPLICA_NOT_AVAILABLE):
                raise LogDirMovesFailed(f"Error: Failed to alter dir for {tp}-{broker}: {error.name}")
        for (broker, tp), error in outcomes.items():
            if error is ErrorCode.NONE:
                path = pending.pop((broker, tp))
                echo(f"Successfully started moving log directory to {path} for replica {tp} with broker {broker} ")
        if pending and time.monotonic() >= give_up:
            named = ",".join(f"{tp}-{broker}" for broker, tp in sorted(pending))
            plural = "" if len(pending) == 1 else "s"
            raise LogDirMovesFailed(f"Timed out before log directory move{plural} could be started for: {named}")
        if pending:
            time.sleep(_RETRY_S)


def cancel(cluster: BlockingAdmin, wanted: Wanted, timeout_ms: int, echo: Echo) -> str:
    """Cancel moves between log dirs: each replica stays in its current log dir.

    Returns:
        A text that Apache's tool prints without ending the line.
    """
    found = _where(cluster, wanted)
    active = {key: place.current for key, place in found.items() if place.future is not None and place.current}
    if active:
        execute(cluster, active, timeout_ms, echo)
        return ""
    return "None of the specified partition moves are active."


def _where(cluster: BlockingAdmin, wanted: Wanted) -> dict[tuple[BrokerId, TopicPartition], ReplicaDir]:
    """The log dirs of replicas; `_NOWHERE` for a replica that is in no live log dir."""
    told = cluster.log_dirs(wanted)
    if told.failed:
        broker, why = min(told.failed.items())
        raise DriverError(f"broker {broker} does not report its log dirs: {why}", retriable=True)
    return {key: told.found.get(key, _NOWHERE) for key in wanted}


def _state(key: tuple[BrokerId, TopicPartition], wanted: str, place: ReplicaDir) -> str:
    broker, tp = key
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
