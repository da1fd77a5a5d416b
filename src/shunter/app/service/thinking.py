"""The judgement of a look, in a process of its own, so that planning a large cluster does not delay the kill switch."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

from shunter.core.keeper.cluster_facts import ClusterObservation
from shunter.core.keeper.docket import after_look
from shunter.core.keeper.judgement import judge
from shunter.core.keeper.runway import disk_runway, gist_of
from shunter.core.keeper.sighting import Sighting
from shunter.core.keeper.wishes import intended, wished
from shunter.errors import ShunterError
from shunter.model.keeper import KeeperPolicy, Memory
from shunter.model.service import KeptProposal, LookGist, OrderRefused, Refusal, ServiceOrder
from shunter.views.keeper_picture import SeenCluster, observation_of, observed_moves, page_of, safe_to_remove
from shunter.views.service import KeptClusterView, MoveView

PIECE = 2_000
"""How many partitions are packed at a time, which takes about 10 ms."""
Asked = TypeVar("Asked")
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class LookQuestion:
    """A look, with the policy, the memory and the open proposals by which it is judged."""

    name: str
    sighting: Sighting
    policy: KeeperPolicy
    """The policy with all intents."""
    memory: Memory | None
    kept: tuple[KeptProposal, ...]
    """Proposals that are open."""
    file: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Thought:
    """The result of a look."""

    at_ms: int
    page: KeptClusterView
    memory: Memory
    gist: LookGist
    changed: tuple[KeptProposal, ...]
    """Proposals that changed, or are new."""
    observation: ClusterObservation
    moves: tuple[MoveView, ...]
    """Moves under way, whoever drives them."""
    safe: tuple[int, ...]
    """Brokers that are drained or replaced and hold nothing."""


@dataclass(frozen=True, slots=True)
class Wish:
    """A plan that a person asks for, over the last look; with an intent: what that intent would lead to."""

    name: str
    sighting: Sighting
    policy: KeeperPolicy
    order: ServiceOrder
    who: str
    memory: Memory | None = None
    """What the last look left."""


def sketch(wish: Wish) -> KeptProposal:
    """Plan a wish.

    Raises:
        OrderRefused: there is no such plan, or nothing would change.
    """
    if wish.order.intent is not None:
        return intended(wish.order, wish.sighting, wish.policy, wish.name, wish.memory)
    return wished(wish.order, wish.sighting, wish.policy, wish.name, wish.who)


def think(question: LookQuestion) -> Thought:
    """Judge a look, review proposals, and make the page."""
    sighting = question.sighting
    judgement = judge(sighting, question.policy, question.memory)
    conditions = tuple(each.sign.subject.condition.value for each in judgement.holding)
    seen = SeenCluster(sighting, judgement, question.policy, disk_runway(sighting))
    return Thought(
        at_ms=sighting.at_ms,
        page=page_of(seen, question.name, question.file),
        memory=judgement.memory,
        gist=gist_of(sighting, conditions),
        changed=after_look(question.kept, sighting, judgement, question.policy, question.name),
        observation=observation_of(seen),
        moves=observed_moves(sighting),
        safe=safe_to_remove(sighting, question.policy),
    )


Question = LookQuestion | Wish


class PackedQuestion(NamedTuple):
    """A question for another process, pickled. The partitions and log dirs of its look are in separate pieces."""

    rest: bytes
    partitions: tuple[bytes, ...]
    disks: tuple[bytes, ...]


def packed(asked: Question) -> PackedQuestion:
    """Pickle a question piece by piece. While a piece is pickled no other thread runs, not even for the kill switch."""
    taken = asked.sighting.inventory
    pieces = [taken.partitions[at : at + PIECE] for at in range(0, len(taken.partitions), PIECE)]
    bare = replace(asked.sighting, inventory=taken._replace(partitions=(), disks=()))
    return PackedQuestion(
        pickle.dumps(replace(asked, sighting=bare)),
        tuple(map(pickle.dumps, pieces)),
        tuple(map(pickle.dumps, taken.disks)),
    )


def unpacked(given: PackedQuestion) -> Question:
    """Unpack a question, in the other process."""
    asked: Question = pickle.loads(given.rest)  # noqa: S301 - from the service's own process
    partitions = tuple(each for piece in given.partitions for each in pickle.loads(piece))  # noqa: S301 - as above
    disks = tuple(map(pickle.loads, given.disks))
    bare = asked.sighting
    whole = replace(bare, inventory=bare.inventory._replace(partitions=partitions, disks=disks))
    return replace(asked, sighting=whole)


def answered(given: PackedQuestion) -> Thought | KeptProposal:
    """Answer a packed question."""
    asked = unpacked(given)
    return think(asked) if isinstance(asked, LookQuestion) else sketch(asked)


class Failed(NamedTuple):
    """Why some work failed, in a form that can be sent between processes; not every error can be pickled."""

    text: str
    refusal: Refusal | None


def worked(work: Callable[[Asked], Found], asked: Asked) -> Found | Failed:
    """Do some work in the other process; returns `Failed` instead of raising an error."""
    try:
        return work(asked)
    except OrderRefused as refused:
        return Failed(str(refused), refused.refusal)
    except ShunterError as error:
        return Failed(str(error), None)
