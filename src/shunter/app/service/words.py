"""People's words about one cluster: proposals with their votes, intents, and the kill switch."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import NamedTuple

from shunter.app.keeper_policy import KeptCluster
from shunter.app.service.driving import PlanFate
from shunter.app.service.records import Records
from shunter.core.keeper.intents import with_intents
from shunter.core.keeper.words import ROLLED_BACK, STOPPED, AfterWord, Said, consequence, hold_of
from shunter.model.execution import CommandKind
from shunter.model.keeper import KeeperPolicy
from shunter.model.service import (
    OPEN,
    IntentKind,
    KeptIntent,
    KeptProposal,
    KillSwitch,
    ProposalState,
    StoreBatch,
)


class ClusterWords:
    """The words about one cluster, as this process knows them; all of them are durable in the store."""

    def __init__(self, cluster: KeptCluster, records: Records) -> None:
        """Begin without any; `load` reads the store."""
        self.cluster = cluster
        self.name = cluster.name
        self.records = records
        self.proposals: dict[str, KeptProposal] = {}
        """Open proposals."""
        self.intents: tuple[KeptIntent, ...] = ()
        self.switch: KillSwitch | None = None

    @property
    def policy(self) -> KeeperPolicy:
        """The file's policy, with the intents that were given by orders."""
        return with_intents(self.cluster.policy, self.intents)

    async def load(self) -> None:
        """Read the words from the store.

        Raises:
            StoreFailed: the store can't be read.
        """
        name, read = self.name, self.records.read
        self.proposals = {each.id: each for each in await read(lambda store: store.opened(name))}
        self.intents = (await read(lambda store: store.intents())).get(name, ())
        self.switch = (await read(lambda store: store.switches())).get(name)

    def take_over(self, batch: StoreBatch) -> None:
        """Apply a batch that is durable."""
        for proposal in batch.proposals:
            self.proposals.pop(proposal.id, None)
            if proposal.state in OPEN:
                self.proposals[proposal.id] = proposal
        gone = {(kind, about) for _cluster, kind, about in batch.intents_gone}
        gone |= {(intent.kind, intent.about) for _cluster, intent in batch.intents}
        kept = tuple(each for each in self.intents if (each.kind, each.about) not in gone)
        self.intents = (*kept, *(intent for _cluster, intent in batch.intents))
        for switch in batch.switches:
            self.switch = switch

    # ---- words against a plan

    def under_way(self, opened: Collection[str], partitions: Sequence[str] = ()) -> tuple[KeptProposal | None, bool]:
        """The proposal that is begun and that an order turns, and whether the order turns all that is open of it.

        Args:
            opened: The partitions with open moves.
            partitions: The partitions that the order names; none: all.
        """
        for proposal in self.proposals.values():
            if proposal.state in (ProposalState.STARTING, ProposalState.RUNNING):
                names = {f"{each.topic}-{each.partition}" for each in proposal.changes}
                if not partitions or names & {*partitions}:
                    return proposal, not partitions or names & {*opened} <= {*partitions}
        return None, False

    def against(self, proposal: KeptProposal, said: Said, *, whole: bool) -> AfterWord:
        """What follows from a person's word against a proposal that is begun."""
        return consequence(proposal, said, self.intents, self.cluster.policy.intents, whole=whole)

    def turned(self, proposal: KeptProposal, said: Said, *, whole: bool) -> StoreBatch:
        """The records of what follows."""
        follows = self.against(proposal, said, whole=whole)
        return StoreBatch(
            (replace(proposal, turned=str(said)),),
            intents=() if follows.hold is None else ((self.name, follows.hold),),
            intents_gone=tuple((self.name, each.kind, each.about) for each in follows.gone),
        )

    def settled(self, proposal: KeptProposal, state: ProposalState, told: str, turned: Turned | None) -> StoreBatch:
        """The records of a proposal whose state the journal says; `turned`: a word that only the journal has."""
        if turned is None:
            return StoreBatch((replace(proposal, state=state, outcome=told),))
        said, whole = turned
        batch = self.turned(proposal, said, whole=whole)
        follows = self.against(proposal, said, whole=whole).told
        ended = replace(
            batch.proposals[0], state=state, outcome=f"{told}; {said}" + (f"; {follows}" if follows else "")
        )
        return replace(batch, proposals=(ended,))

    def ended_holds(self, now_ms: int) -> tuple[tuple[str, IntentKind, str], ...]:
        """The holds whose time is over."""
        holds = [each for each in self.intents if each.kind is IntentKind.HOLD]
        ends = [(each, hold_of(each).until_ms) for each in holds]
        return tuple((self.name, each.kind, each.about) for each, end in ends if end is not None and end <= now_ms)


class Turned(NamedTuple):
    """A person's word that the journal has. `whole`: it is against all of a plan."""

    said: Said
    whole: bool


def turned_in(fate: PlanFate | None, now_ms: int) -> Turned | None:
    """The word by which a plan ended, if it ended by one."""
    if fate is None or fate.state is not ProposalState.TURNED:
        return None
    turned = fate.turned
    word = ROLLED_BACK if turned is not None and turned.kind is CommandKind.ROLL_BACK else STOPPED
    who = turned.given_by if turned is not None and turned.given_by else "somebody"
    return Turned(Said(word, who, now_ms), whole=turned is not None and not turned.partitions)
