"""One look of the keeper at each cluster of a policy: read, judge, write plans, keep the state for the next look."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from shunter.app.access.private_files import replace_file
from shunter.app.evaluation.observation import Looker
from shunter.app.evaluation.policy import KeptCluster
from shunter.core.keeper.judgement import Judgement, judge
from shunter.core.keeper.proposals import Proposal, order_of
from shunter.core.keeper.sighting import Sighting, with_capacities
from shunter.errors import FormatError, ShunterError
from shunter.formats.keeper_memory import decode_memories, encode_memories
from shunter.formats.reassignment_json import encode_plan
from shunter.model.keeper import Memory
from shunter.views.keeper import ConditionView, ProposalView, view_condition, view_proposal


@dataclass(frozen=True, slots=True)
class LookTaken:
    """The result of a look at one cluster; `error`: why it could not be looked at."""

    name: str
    error: ShunterError | None = None
    cluster_id: str = ""
    brokers: int = 0
    conditions: tuple[ConditionView, ...] = ()
    proposals: tuple[ProposalView, ...] = ()
    forgotten_minutes: int | None = None
    """The age of the former state, if it was too old to be used."""
    plan: Path | None = None
    """The file with the plan of the proposal that is ready."""


def look_once(clusters: Sequence[KeptCluster], state: Path | None, plans: Path | None) -> Iterator[LookTaken]:
    """Look at each cluster once, and change none; a cluster that can't be read does not hinder the next.

    Args:
        clusters: The policies.
        state: A file with the memory of former looks; rewritten at the end. None: there is no memory.
        plans: A folder for the plans that are ready; None: they are not written.

    Raises:
        FormatError: the state can't be read or written, or a plan can't be written.
    """
    memories = {} if state is None else _read(state)
    for cluster in clusters:
        try:
            sighting = with_capacities(Looker(cluster).look(), cluster.policy.balance.capacities)
            judgement = judge(sighting, cluster.policy, memories.get(cluster.name))
        except ShunterError as error:
            yield LookTaken(cluster.name, error)
            continue
        memories[cluster.name] = judgement.memory
        yield _told(cluster.name, sighting, judgement, plans)
    if state is not None:
        named = {cluster.name for cluster in clusters}
        replace_file(state, encode_memories({name: memory for name, memory in memories.items() if name in named}))


def _told(name: str, sighting: Sighting, judgement: Judgement, plans: Path | None) -> LookTaken:
    ready = next((each for each in judgement.proposals if each.ready), None)
    return LookTaken(
        name,
        None,
        sighting.inventory.cluster_id,
        len(sighting.inventory.brokers),
        tuple(map(view_condition, judgement.holding)),
        tuple(map(view_proposal, judgement.proposals)),
        judgement.forgotten_minutes,
        None if plans is None or ready is None else _write_plan(plans, name, ready),
    )


def _write_plan(folder: Path, name: str, proposal: Proposal) -> Path:
    path = folder / f"{name}-{proposal.scope.value}.json"
    replace_file(path, encode_plan(map(order_of, proposal.changes)).encode() + b"\n")
    return path


def _read(path: Path) -> dict[str, Memory]:
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return {}  # The first look.
    except OSError as error:
        raise FormatError(str(path), f"can't be read: {error.strerror}") from error
    return decode_memories(raw, str(path))


__all__ = ["LookTaken", "look_once"]
