"""People's words about one cluster: proposals with their votes, intents, and the kill switch."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

from shunter.app.evaluation.policy import KeptCluster
from shunter.app.service.driving import PlanFate
from shunter.app.service.records import Records
from shunter.app.service.shared_words import SharedWords
from shunter.core.keeper.cluster_facts import WordsPlace
from shunter.core.keeper.intents import with_intents
from shunter.core.keeper.words import ROLLED_BACK, STOPPED, AfterWord, Said, consequence, hold_of
from shunter.core.wording import told_time
from shunter.drivers.service.store import StoreFailed
from shunter.formats.word_records import WordsDriver
from shunter.model.execution import CommandKind
from shunter.model.keeper import KeeperPolicy
from shunter.model.notice import Notice
from shunter.model.service import (
    OPEN,
    IntentKind,
    KeptIntent,
    KeptProposal,
    KillSwitch,
    OrderKind,
    ProposalState,
    StoreBatch,
    Words,
)
from shunter.views.history import told_words

AGAINST = {OrderKind.STOP: STOPPED, OrderKind.ROLL_BACK: ROLLED_BACK}
"""Orders that are words against the plan that they end."""


class Clocked(Protocol):
    """A source of the time."""

    def now_ms(self) -> int:
        """Milliseconds since 1970 UTC."""
        ...


class ClusterWords:
    """The words about one cluster, as this process knows them; all of them are durable in the store."""

    def __init__(self, cluster: KeptCluster, records: Records, shared: SharedWords | None) -> None:
        """Begin without any; `load` reads the store. `shared` None: the words live on this host alone."""
        self.cluster = cluster
        self.name = cluster.name
        self.records = records
        self.proposals: dict[str, KeptProposal] = {}
        """Open proposals."""
        self.intents: tuple[KeptIntent, ...] = ()
        self.switch: KillSwitch | None = None
        self.turns = 0
        """How often a kill switch was thrown, lifted or replaced: what waits to be written is of one of these turns."""
        self.topic_of_words = shared
        self.lost_pause = ""
        """That a kill switch that was given here never reached the cluster, until somebody has seen it."""
        self._writing = asyncio.Lock()
        """Words reach the cluster and the store in one order."""
        self._followed: Words | None = None
        """The words of another service, as they were read last."""

    @property
    def shared(self) -> SharedWords | None:
        """The words that live with the cluster; None: they live on this host. Who only observes makes no topic there."""
        return None if self.cluster.policy.observes and not self.drives else self.topic_of_words

    @property
    def drives(self) -> bool:
        """Whether this service drives the cluster."""
        return False

    @property
    def words_known(self) -> bool:
        """Whether this service knows all words, and may write; else it only observes."""
        return self.words_place.known

    @property
    def first_word(self) -> KillSwitch | None:
        """The kill switch that stays if it is thrown again. Where it was only read, it may have been lifted since."""
        now = self.switch
        return now if now is not None and not now.lifted and (self.words_known or now.unsent) else None

    @property
    def words_place(self) -> WordsPlace:
        """What this service knows of the words."""
        return WordsPlace.ALONE if self.shared is None else self.shared.place

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

    def show(self) -> None:
        """Publish what is known now."""

    def _noticed(self, notice: Notice) -> None:
        """Keep a notice in the history, and send it."""

    def turn(self, switch: KillSwitch | None) -> int:
        """Let a kill switch be in force in this process; returns the number of this turn."""
        self.switch = switch
        self.turns += 1
        self.lost_pause = "" if switch is not None else self.lost_pause
        return self.turns

    async def keep(self, batch: StoreBatch, now_ms: int, turn: int | None = None) -> bool:
        """Make a batch durable; its words in the cluster first, if they live there. Returns whether it was written.

        Args:
            batch: What is to be kept.
            now_ms: The time.
            turn: Of the kill switch in it. If that was thrown again or lifted meanwhile, nothing is written.

        Raises:
            StoreFailed: the batch is not durable.
        """
        async with self._writing:
            if turn is not None and self.turns != turn:
                return False
            if self.shared is None or not has_words(batch):
                await self.records.write(batch)
                return True
            await self.shared.write(batch, now_ms)
            try:
                await self.records.write(batch)
            except StoreFailed:
                # What the cluster has is durable; the copy is made again when this service takes the topic again.
                if self.shared.place is WordsPlace.ALONE:
                    raise
        return True

    async def follow(self, now_ms: int) -> None:
        """Make the topic if it is missing, and read the words of the service that drives."""
        if self.shared is None:
            return
        async with self._writing:
            words = await self.shared.follow()
            if words is not None and words != self._followed:
                self._followed = words
                await self._adopt(words, now_ms, self.shared.driver)

    @property
    def _to_be_taken(self) -> bool:
        return self.shared is not None and self.shared.to_be_taken

    async def take_words(self, now_ms: int) -> None:
        """Become the only writer of the words, and know them all. Pre: this service has the claim.

        Raises:
            DriverError, FormatError: they may be in the cluster, and can't be read: this service has to go on observing.
        """
        if self.shared is None:
            return
        async with self._writing:
            words = await self.shared.take(Words(self.intents, self.switch, tuple(self.proposals.values())))
            self._followed = None
            if words is not None:
                former, switch = self.shared.former, self.switch
                others = former is not None and former.host != self.shared.mine.host
                if others and words.switch is None and switch is not None and switch.lifted:
                    self.turn(None)  # Another service lifted the same pause: what is paused now, people paused by name.
                await self._adopt(words, now_ms, former)
        await self.send_switch(now_ms)

    @property
    def former(self) -> str:
        """The other service that drove the cluster before this one, as far as the words tell; "": none."""
        former = None if self.shared is None else self.shared.former
        if former is None or self.shared is None or former[:2] == self.shared.mine[:2]:
            return ""
        return str(former)

    def journal_elsewhere(self) -> str:
        """Say that executions of the service before this one are in another journal; "": they are not."""
        former = None if self.shared is None else self.shared.former
        if former is None or self.shared is None or former.journal == self.shared.mine.journal:
            return ""
        return f"{self.former or 'this service'} kept its journal at {former.journal}; its throttles and rollbacks are known there alone: give both services one journal-topic"

    async def keep_switch(self, switch: KillSwitch, turn: int, now_ms: int) -> str:
        """Make a kill switch durable that is in force already, unsent; returns why it is not ("": it is).

        If the cluster does not take it, this host keeps it, and `send_switch` brings it there later. This host has it at
        once, because in an outage it may die before the cluster has refused.
        """
        sent = switch._replace(unsent=False)
        replaced = f"the pause of {self.name} was lifted or replaced before it was written down: look again"
        lost = f"the pause of {self.name} is not durable, so give it again after a restart of the service"
        if self.turns != turn:
            return replaced
        in_cluster = self.shared is not None and self.shared.place is not WordsPlace.ALONE
        here = asyncio.create_task(self._kept_here(switch)) if in_cluster else None
        try:
            if not await self.keep(StoreBatch(switches=(sent,)), now_ms, turn):
                return replaced
        except StoreFailed as error:
            if here is None:
                return f"{lost}: {error}"
            if self.turns != turn:
                return replaced
            trouble = await here
            if trouble:
                return f"{lost}: {trouble}"
            return f"the pause of {self.name} is kept on this host until the cluster takes it: {error}"
        if self.turns == turn:
            self.switch = sent
        return ""

    async def _kept_here(self, switch: KillSwitch) -> str:
        """Keep a kill switch on this host; returns why that failed, or ""."""
        try:
            await self.records.write(StoreBatch(switches=(switch,)))
        except StoreFailed as error:
            return str(error)
        return ""

    async def send_switch(self, now_ms: int) -> None:
        """Bring a kill switch into the cluster that was kept on this host, if that is possible now."""
        switch = self.switch
        if switch is None or not switch.unsent or not self.words_known:
            return
        await self.keep_switch(switch, self.turns, now_ms)

    async def _adopt(self, words: Words, now_ms: int, writer: WordsDriver | None) -> None:
        """Let the words be those of the cluster, but for a later kill switch that it does not have yet.

        A lift that the cluster does not need is kept unless another service wrote the words: what the pause of this one
        had paused is still to be resumed. What other services did, as far as the words tell it, becomes a part of this host's history.
        """
        before, theirs = Words(self.intents, self.switch, tuple(self.proposals.values())), words
        mine = self.switch if self.switch is not None and self.switch.unsent else None
        others = writer is not None and self.shared is not None and writer.host != self.shared.mine.host
        needless = mine is not None and mine.lifted and words.switch is None and others
        if mine is not None and not needless and (words.switch is None or words.switch.at_ms <= mine.at_ms):
            words = replace(words, switch=mine)
        self.proposals = {each.id: each for each in words.proposals if each.state in OPEN}
        self.intents = words.intents
        if words.switch != self.switch:  # Else nobody threw or lifted it: an order that waits to be written counts.
            self.turn(words.switch)
        if mine is not None and self.switch is not mine:
            self._overruled(mine)
        self.show()  # The words are in force from here on, whatever the copy on this host still takes.
        try:
            ended = await self.records.read(lambda store: store.proposals(self.name, ended=True))
            before = replace(before, proposals=(*ended, *before.proposals))
            if before.switch is not None and before.switch.unsent:
                before = replace(before, switch=theirs.switch)  # The cluster never had what this host has.
            events = told_words(self.name, before, theirs, now_ms, str(writer or ""))
            await self.records.read(lambda store: store.replace_words(self.name, words, events))
        except StoreFailed:
            return  # `records.trouble` says it, and nothing begins until the store can be written.

    def _overruled(self, mine: KillSwitch) -> None:
        """Tell that a kill switch, or that it was lifted, never reached the cluster, which had a later one."""
        theirs = self.switch
        if mine.lifted and theirs is not None and not theirs.lifted:
            told = f"that {mine.who} lifted the pause never reached the cluster"
            later = f"{theirs.who} paused it at {told_time(theirs.at_ms, seconds=True)}"
            self._noticed(Notice("resume-not-sent", "", f"{told}, and {later}: that pause stays until it is lifted"))
        elif not mine.lifted and (theirs is None or theirs.lifted):
            self.lost_pause = f"the pause of {mine.who} never reached the cluster"
            told = f"{self.lost_pause}, which another service resumed since: give it again, if it is still meant"
            self._noticed(Notice("pause-not-sent", "", told))

    @property
    def overtaken(self) -> bool:
        """Whether another service has taken the words, so that a kill switch that was given here did not reach it."""
        fenced = self.shared is not None and self.shared.fenced
        return bool(self.lost_pause) or (fenced and self.switch is not None and self.switch.unsent)

    async def withdraw(self) -> None:
        """Forget a kill switch that was not taken, and that its giver is told so about."""
        await self.drop_unsent()
        self.see_lost_pause()

    def see_lost_pause(self) -> None:
        """Somebody has seen that a kill switch was lost."""
        self.lost_pause = ""
        self.show()

    async def drop_unsent(self) -> str:
        """Forget a kill switch, or that it was lifted, if the cluster never had that, because another service drives.

        Returns a sentence about it.
        """
        lost = self.switch
        if lost is None or not lost.unsent:
            return ""
        if lost.lifted and self.shared is not None and self._followed is None:
            return ""  # Whether a pause stays is known once the words of who drives are read.
        self.turn(None if self._followed is None else self._followed.switch)
        gone = () if self.switch is not None else (self.name,)
        with contextlib.suppress(StoreFailed):
            now = () if self.switch is None else (self.switch,)
            await self.records.write(StoreBatch(switches=now, switches_gone=gone))
        if not lost.lifted:
            self.lost_pause = f"the pause of {lost.who} never reached the cluster"
            return f"{self.lost_pause}, and another service drives it: give it there"
        if self.switch is not None and not self.switch.lifted:
            told = f"that {lost.who} lifted the pause never reached the cluster, and another service drives it"
            return f"{told}: the pause stays; lift it there"
        return ""

    def after(self, batch: StoreBatch) -> tuple[dict[str, KeptProposal], tuple[KeptIntent, ...]]:
        """The open proposals by id, and the intents, once a batch is applied."""
        ended = {each.id for each in batch.proposals}
        proposals = {id_: each for id_, each in self.proposals.items() if id_ not in ended}
        proposals |= {each.id: each for each in batch.proposals if each.state in OPEN}
        gone = {(kind, about) for _cluster, kind, about in batch.intents_gone}
        gone |= {(intent.kind, intent.about) for _cluster, intent in batch.intents}
        kept = tuple(each for each in self.intents if (each.kind, each.about) not in gone)
        return proposals, (*kept, *(intent for _cluster, intent in batch.intents))

    def take_over(self, batch: StoreBatch) -> None:
        """Apply a batch that is durable."""
        self.proposals, self.intents = self.after(batch)
        for switch in batch.switches:
            self.turn(switch)

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


def has_words(batch: StoreBatch) -> bool:
    """Whether a batch has anything that lives with the cluster."""
    words = (batch.proposals, batch.intents, batch.intents_gone, batch.switches, batch.switches_gone)
    return any(words) or batch.answer is not None or bool(batch.answer_gone)


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
    at_ms = fate.turned_at_ms or now_ms
    return Turned(Said(word, who, at_ms), whole=turned is not None and not turned.partitions)
