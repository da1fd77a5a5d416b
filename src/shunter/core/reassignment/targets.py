"""Validation of a target: Kafka's error code, and a sentence with value, rule and place."""

from __future__ import annotations

from collections.abc import Container, Sequence

from shunter.errors import ErrorCode
from shunter.model.partition import Replicas


def validate_target(
    replicas: Sequence[int],
    known: Container[int],
    *,
    place: object,
    controllers: Container[int] = (),
    min_isr: int = 1,
    forced: bool = False,
    had: Container[int] = (),
) -> tuple[ErrorCode, str] | None:
    """Say why `replicas` can't be a target, or None when it can.

    Args:
        replicas: The target that was asked for, in order.
        known: Brokers that are live, so that they can get a replica.
        place: The partition, as people write it: `topic-0`.
        controllers: Ids of controllers, which hold no data.
        min_isr: min.insync.replicas of the topic; a smaller target would refuse producers for ever.
        forced: Take a target smaller than `min_isr` all the same.
        had: Brokers that have, or had, a replica of the partition: they may be dead, because they get no new replica.

    Source: KIP-455, INVALID_REPLICA_ASSIGNMENT: "negative numbers, repeated numbers, or specified a broker ID that
    the controller was not aware of"; issue of a target below min.insync.replicas: docs/decisions/0106-targets.md.
    Which brokers have to be live: docs/decisions/0113-dead-brokers-of-a-target.md.
    """
    complaint = _complaint(list(replicas), known, place, controllers, had)
    if complaint is None and len(replicas) < min_isr and not forced:
        complaint = (
            f"replicas {list(replicas)} for {place} are {len(replicas)}, fewer than min.insync.replicas {min_isr}:"
            " producers with acks=all would be refused; force it if that is meant"
        )
    return None if complaint is None else (ErrorCode.INVALID_REPLICA_ASSIGNMENT, complaint)


def no_longer_fits(planned_from: Replicas, target: Replicas, current: Replicas, *, place: object) -> str | None:
    """Say why a partition's part of a plan is out of date, or None: it fits, is done already, or the plan does not say.

    Args:
        planned_from: Its replicas when the plan was made; (): the plan does not say.
        target: Its replicas as the plan wants them.
        current: Its replicas now; if it is being moved, the replicas that it had before.
        place: The partition, as people write it: `topic-0`.
    """
    if not planned_from or current in (planned_from, target):
        return None
    return (
        f"the plan was made when {place} was on {list(planned_from)}; now it is on {list(current)}: make the plan anew"
    )


def validate_top(top: int, min_isr: int, *, place: object) -> str | None:
    """KIP-236's check of a request znode: the warning to log when the reassignment must be ignored, or None.

    Source: KIP-236, "We check top >= min.insync.replicas, logging a warning and ignore the reassignment".
    """
    if top >= min_isr:
        return None
    return f"{place} has {top} original replicas, fewer than min.insync.replicas {min_isr}: the request is ignored"


def _complaint(
    replicas: list[int], known: Container[int], place: object, controllers: Container[int], had: Container[int]
) -> str | None:
    if not replicas:
        return f"replicas [] for {place} are empty: a partition needs one at least; null cancels a reassignment"
    for broker in replicas:
        if broker < 0:
            return f"replicas {replicas} for {place} name broker {broker}: broker ids are not negative"
        if replicas.count(broker) > 1:
            return f"replicas {replicas} for {place} repeat broker {broker}"
        if broker in controllers:
            return f"replicas {replicas} for {place} name broker {broker}, which is a controller and holds no data"
        if broker not in known and broker not in had:
            return f"replicas {replicas} for {place} name broker {broker}, which is not a live broker"
    return None
