"""Phase two: what has to be true of an execution once faults have stopped, a sentence for each thing that is not."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lab.simulation.executor.world import ExecutorWorld


def find_open_ends(world: ExecutorWorld) -> list[str]:
    """List what is not done yet; empty when the world has converged.

    Invariants: once faults have stopped, every move ends or says what it waits for. A finished execution leaves no open
    move, throttle or reassignment. All callers and orders were answered. Source: issue.
    """
    return [*_cluster(world), *_execution(world), *_settings(world)]


def _cluster(world: ExecutorWorld) -> list[str]:
    cluster = world.cluster
    told = [f"broker {broker.id} is not there" for broker in cluster.brokers.values() if not broker.serving]
    copies = cluster.log_dirs.futures
    for tp, found in cluster.partitions.items():
        if found.in_motion:
            told.append(f"{tp} is still moved to {list(found.target)} by {found.mover}")
        elif set(found.isr) != set(found.replicas):
            told.append(f"{tp} has ISR {list(found.isr)} of {list(found.replicas)}")
    told += [f"{tp} is still copied to {future.path} of broker {broker}" for (broker, tp), future in copies.items()]
    return told


def _execution(world: ExecutorWorld) -> list[str]:
    process, ledger = world.driver(), world.rules.ledger
    told: list[str] = []
    if ledger.running and process is None:
        told.append(f"nobody drives the journal; the last one ended: {world.last_end}")
    for move in ledger.open_moves():
        core = None if process is None else process.core.state.moves.get(move.tp)
        why = "says nothing of waiting" if core is None or not core.waits.text else core.waits.text
        told.append(f"{move.tp} goes {move.direction.value} to {list(move.goal)}, step {move.step}: {why}")
    if ledger.throttles and not ledger.running:
        told.append(f"throttles are owed: {sorted(ledger.throttles)}; the last one ended: {world.last_end}")
    if ledger.running and not told:
        told.append(f"the execution is not closed; throttles left: {sorted(ledger.throttles)}")
    if process is not None and process.driver is not None and process.driver.unanswered():
        told.append(f"{process.driver.unanswered()} callers have no answer")
    if process is not None and world.disk.unanswered():
        told.append(f"{world.disk.unanswered()} orders have no answer")
    return told


def _settings(world: ExecutorWorld) -> list[str]:
    """Throttles are as if no executor had changed them. Source: issue; decision 0203."""
    cluster = world.cluster
    touched = sorted({*cluster.settings, *cluster.theirs})
    return [
        f"{key} is {cluster.settings.get(key)!r}, without us it would be {cluster.theirs.get(key)!r}"
        for key in touched
        if cluster.settings.get(key) != cluster.theirs.get(key) and key not in world.muddled
    ]
