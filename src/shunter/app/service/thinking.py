"""What is worked out of a look, in a process of its own: a great cluster's plan must not keep the kill switch waiting."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from shunter.core.keeper.docket import after_look
from shunter.core.keeper.judgement import judge
from shunter.core.keeper.runway import disk_runway
from shunter.core.keeper.sighting import Sighting
from shunter.core.keeper.wishes import wished
from shunter.errors import ShunterError
from shunter.model.keeper import KeeperPolicy, Memory
from shunter.model.service import KeptProposal, LookGist, OrderRefused, Refusal
from shunter.views.keeper_picture import SeenCluster, others_moves, page_of, safe_to_remove
from shunter.views.service import KeptClusterView, MoveView

Asked = TypeVar("Asked")
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class LookQuestion:
    """What a look saw, and what is known beside it."""

    name: str
    sighting: Sighting
    policy: KeeperPolicy
    """With all intents."""
    quiet: KeeperPolicy
    """The same without what was declined a short while ago: by this it is proposed."""
    memory: Memory | None
    kept: tuple[KeptProposal, ...]
    """Proposals that are open."""
    looks: tuple[LookGist, ...]
    file: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Thought:
    """What a look came to."""

    at_ms: int
    page: KeptClusterView
    memory: Memory
    gist: LookGist
    changed: tuple[KeptProposal, ...]
    """Proposals that changed, or are new."""
    others: tuple[MoveView, ...]
    """Moves that are not ours."""
    safe: tuple[int, ...]
    """Brokers that are drained and hold nothing."""


@dataclass(frozen=True, slots=True)
class Wish:
    """A plan that a person asks for, over the last look."""

    name: str
    sighting: Sighting
    policy: KeeperPolicy
    about: tuple[str, ...]
    replicas: int | None
    who: str


def sketch(wish: Wish) -> KeptProposal:
    """Plan it.

    Raises:
        OrderRefused: it can't be planned, or nothing would change.
    """
    return wished(wish.about, wish.replicas, wish.sighting, wish.policy, wish.name, wish.who)


def think(question: LookQuestion) -> Thought:
    """Judge a look, review proposals, and make the page."""
    sighting = question.sighting
    judgement = judge(sighting, question.quiet, question.memory)
    disks = tuple(
        (broker.id, broker.disk_total_bytes - broker.disk_usable_bytes, broker.disk_total_bytes)
        for broker in sighting.inventory.brokers
        if broker.disk_total_bytes and broker.disk_usable_bytes is not None
    )
    partitions = sighting.inventory.partitions
    gist = LookGist(
        sighting.at_ms,
        disks,
        len(partitions),
        sum(len(each.isr) < len(each.replicas) for each in partitions),
        tuple(each.sign.subject.condition.value for each in judgement.holding),
    )
    seen = SeenCluster(sighting, judgement, question.policy, disk_runway((*question.looks, gist)))
    return Thought(
        at_ms=sighting.at_ms,
        page=page_of(seen, question.name, question.file),
        memory=judgement.memory,
        gist=gist,
        changed=after_look(question.kept, sighting, judgement, question.policy, question.name),
        others=tuple(others_moves(sighting)),
        safe=safe_to_remove(sighting, question.policy),
    )


class Failed(NamedTuple):
    """Why some work was not done, as another process can tell it: not every error of ours survives the way."""

    text: str
    refusal: Refusal | None


def worked(work: Callable[[Asked], Found], asked: Asked) -> Found | Failed:
    """Do some work in a process of its own."""
    try:
        return work(asked)
    except OrderRefused as refused:
        return Failed(str(refused), refused.refusal)
    except ShunterError as error:
        return Failed(str(error), None)
