"""One cluster that the service keeps: it is looked at again and again, and approved proposals are carried out.

Writes have an order in store and journal, so that a crash between any two writes neither loses nor doubles anything:

1. Proposals and votes are in the store.
2. A proposal that begins is first `starting` in the store; then its plan is in the journal, under the proposal's id;
   then it is `running` in the store. A process that finds `starting` asks the journal, and begins the proposal again
   only if the journal does not have its plan.
3. Every step is in the journal, as for any execution. The end of a proposal is read there.
4. A kill switch is in force in the process at once; it is written to the store while moves are paused in the journal.
   While the switch is in the store, moves are paused again and again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from shunter.app.evaluation.policy import KeptCluster
from shunter.app.service.driving import Driving, Seat, end_cordons, fate_of, not_driven, partition_of, taken
from shunter.app.service.known import LOOK_S, STALE_LOOKS, Known, ShellGate
from shunter.app.service.notifying import BROKER_EMPTY, condition_events
from shunter.app.service.published import Published
from shunter.app.service.records import Records
from shunter.app.service.shared_words import SharedWords
from shunter.app.service.thinking import LookQuestion, Thought, Wish
from shunter.app.service.words import Clocked, ClusterWords, Turned, turned_in
from shunter.core.keeper.cluster_facts import ClusterFacts
from shunter.core.keeper.cordons import outlived, with_cordons
from shunter.core.keeper.docket import next_to_begin
from shunter.core.keeper.growth import UNKNOWN, growth_of
from shunter.core.keeper.proposals import order_of
from shunter.core.keeper.sighting import Sighting, with_capacities
from shunter.core.keeper.situation import why_unobserved
from shunter.drivers.service.store import StoreFailed
from shunter.errors import ShunterError
from shunter.model.execution import Command, CommandKind
from shunter.model.keeper import Memory
from shunter.model.notice import Notice
from shunter.model.service import (
    HistoryEvent,
    KeptProposal,
    KillSwitch,
    OrderRefused,
    ProposalState,
    ServiceOrder,
    StoreBatch,
)
from shunter.views.contents import Contents
from shunter.views.execution import OPEN_STATES, ExecutionView
from shunter.views.history import told_begun, told_proposal
from shunter.views.keeper_picture import Surrounding, dressed, view_moves
from shunter.views.service import ClusterCounts

LOG = logging.getLogger(__name__)
DRIVE_AGAIN_S = 5.0
"""The time from a failure to the next attempt to drive a cluster."""
GIST_EVERY_MS = 3_600_000
GROWTH_MS = 14 * 24 * 3_600_000
"""The time over which growth is computed."""


@dataclass(frozen=True, slots=True)
class KeeperParts:
    """The parts that a keeper of one cluster uses."""

    records: Records
    published: Published
    clock: Clocked
    look: Callable[[], Awaitable[Sighting]]
    think: Callable[[LookQuestion], Awaitable[Thought]]
    sketch: Callable[[Wish], Awaitable[KeptProposal]]
    seat: Seat
    tell: Callable[[HistoryEvent], None]
    """Called with every event, for notifications; must not block."""
    clear_throttles: Callable[[], Awaitable[str]]
    """Removes throttles that no journal knows; returns a sentence with their number."""
    shared: SharedWords | None = None
    """The words that live with the cluster; None: they live on this host."""
    snapshot: Callable[[Sighting], Awaitable[None]] | None = None
    """Keeps a snapshot of a look for the pipeline, if one is due."""
    look_every_s: float = 60.0
    drive_again_s: float = DRIVE_AGAIN_S
    me: str = "this service"
    """This service, in the sentences of its history."""


class ClusterKeeper(ClusterWords):
    """The keeper of one cluster. It runs on one event loop; its durable state is in the store and in the journal."""

    def __init__(self, cluster: KeptCluster, parts: KeeperParts) -> None:
        """Begin without any state; `load` reads the store."""
        super().__init__(cluster, parts.records, parts.shared)
        self.parts = parts
        self.driving: Driving | None = None
        self.known = Known(cluster.name, int((STALE_LOOKS * parts.look_every_s + LOOK_S) * 1000), parts.me)
        self._memory: Memory | None = None
        self._growth = UNKNOWN
        self._gist_at_ms: int | None = None
        """The time of the last look whose gist was kept; None: the store was not read yet, or has no gist."""
        self._grown = True
        """A gist was kept since growth was computed."""
        self._sighting: Sighting | None = None
        """The last look."""
        self.contents = Contents()
        """The topics and partitions of the last observation."""
        self._safe: tuple[int, ...] = ()
        self._wanted = asyncio.Event()
        self.reconciled = False
        """The states of all begun proposals have been read from the journal."""
        self._following: asyncio.Task[None] | None = None
        self._leaves = asyncio.Event()
        """This service is to drive the cluster no longer: the policy file says that it only observes."""
        self._handing: asyncio.Task[None] | None = None
        self._in_hand = ""
        """The proposal that is being handed to the executor; the journal may not have it yet."""
        self._notings: set[asyncio.Task[None]] = set()
        self.lock = asyncio.Lock()
        """Held while a proposal's state is decided and written: by an order, by a look, or from the journal."""

    # ---- state

    @property
    def counts(self) -> ClusterCounts:
        """What is counted of this cluster."""
        return self.parts.published.counts[self.name]

    @property
    def drives(self) -> bool:
        """Whether this service drives the cluster."""
        return self.driving is not None

    def facts(self) -> ClusterFacts:
        """All that is known about the cluster now."""
        return self.known.facts(self.parts.clock.now_ms(), self.driving, self)

    def _around(self) -> Surrounding:
        return Surrounding(self.facts(), self.intents, self.known.shown)

    async def load(self) -> None:
        """Read the cluster's state from the store.

        Raises:
            StoreFailed: the store can't be read.
        """
        await super().load()
        self._memory = await self.records.read(lambda store: store.memory(self.name))
        self._safe = await self.records.read(lambda store: store.told_empty(self.name))

    def hurry(self) -> None:
        """Look again at once."""
        self._wanted.set()

    def show(self) -> None:
        """Publish the page with the current state."""
        published, around = self.parts.published, self._around()
        if self.known.doubts(around.facts):
            self.hurry()
        page = dressed(published.page(self.name), around)
        published.show(self.name, page, replace(published.moves(self.name), situation=page.row.situation))

    def show_moves(self) -> None:
        """Publish the moves, too. Cost: O(moves)."""
        isr = {} if self.driving is None else self.driving.in_sync()
        moves = view_moves(self.known.shown, isr, self.known.attributed, self.facts())
        self.parts.published.show(self.name, moves=moves)
        self.show()

    async def write(self, batch: StoreBatch) -> None:
        """Make a batch durable, then apply it to this keeper's state, then publish it.

        Raises:
            StoreFailed: the batch is not durable, and nothing changed.
        """
        batch = self.stood(batch)
        await self.keep(batch, self.parts.clock.now_ms())
        self.take_over(batch)

    def stood(self, batch: StoreBatch) -> StoreBatch:
        """A batch whose events say how the cluster stands once it is applied."""
        return self.known.stood(batch, self.parts.clock.now_ms(), self.driving, self)

    def tell(self, events: Sequence[HistoryEvent]) -> None:
        """Send events that the store refused; nothing else of their batch is applied."""
        for event in self.stood(StoreBatch(events=tuple(events))).events:
            self.parts.tell(event)

    def take_over(self, batch: StoreBatch) -> None:
        """Apply a batch that is durable, and publish it."""
        super().take_over(batch)
        for event in batch.events:
            self.parts.tell(event)
        self.parts.published.tell(self.name)
        self.show()

    def event(
        self, kind: str, text: str, subject: str = "", who: str = "", cause: str = "", since_ms: int | None = None
    ) -> HistoryEvent:
        """An event of this moment, to be written; `since_ms`: it began then, and ends now."""
        now_ms = self.parts.clock.now_ms()
        at_ms, until_ms = (now_ms, None) if since_ms is None else (since_ms, now_ms)
        return HistoryEvent(0, self.name, at_ms, kind, text, subject, who, cause, until_ms)

    def _told(self, kind: str, text: str, since_ms: int | None = None) -> tuple[HistoryEvent, ...]:
        return (self.event(kind, text, since_ms=since_ms),) if text else ()

    async def note(self, *events: HistoryEvent) -> None:
        """Keep events; if the store refuses them, notifications are sent all the same."""
        if not events:
            return
        try:
            await self.write(StoreBatch(events=events))
        except StoreFailed:
            self.tell(events)

    def turning(self, partitions: Sequence[str]) -> tuple[KeptProposal | None, bool]:
        """The proposal that an order about these partitions turns (none named: all), and whether it turns all of it."""
        rows = () if self.known.execution is None else self.known.execution.moves
        return self.under_way({row.partition for row in rows if row.state in OPEN_STATES}, partitions)

    # ---- looking

    async def look_forever(self) -> None:
        """Look, think, propose and begin; repeat after `look_every_s`, or at once after `hurry`."""
        while True:
            self._wanted.clear()
            try:
                await self.look_once()
            except Exception as error:
                LOG.exception("%s can't be looked at", self.name)
                await self._not_seen(f"a bug of Shunter's: {error!r}; the log has more")
            with suppress(TimeoutError):
                async with asyncio.timeout(self.parts.look_every_s):
                    await self._wanted.wait()

    async def look_once(self) -> None:
        """One look, and its consequences. If the cluster can't be looked at, that is published."""
        try:
            sighting = await self.parts.look()
            if self._grown:
                await self._learn_growth()
            question = self._question(sighting)
            thought = await self.parts.think(question)
        except ShunterError as error:
            self.known.failed(error)
            await self._not_seen(str(error))
            return
        events = self._seen(question, thought)
        if self.parts.snapshot is not None:
            try:
                await self.parts.snapshot(sighting)
            except ShunterError as error:
                await self.note(self.event("snapshot-failed", f"no snapshot was kept for the pipeline: {error}"))
        if self.known.held_by or not self.words_known:
            if self.known.held_by:  # That process makes proposals. This one remembers, in case it takes over.
                self._memory = replace(thought.memory, told=False)
            await self.note(*events)
            return
        async with self.lock:
            await self._remember(question, thought, events)
            await self._maybe_begin(question, thought)

    async def _learn_growth(self) -> None:
        """Read kept looks and compute growth, in threads, because a great cluster has thousands of topics."""
        since_ms = self.parts.clock.now_ms() - GROWTH_MS
        try:
            looks = await self.records.read(lambda store: store.looks(self.name, since_ms))
        except StoreFailed:
            return  # The growth that was computed before stays in use.
        self._growth = await asyncio.to_thread(growth_of, looks)
        self._gist_at_ms = looks[-1].at_ms if looks else None
        self._grown = False

    def _question(self, sighting: Sighting) -> LookQuestion:
        policy = self.policy
        sighting = replace(with_capacities(sighting, policy.balance.capacities), growth=self._growth)
        kept = tuple(self.proposals.values())
        return LookQuestion(self.name, sighting, policy, self._memory, kept, self.cluster.table)

    async def _not_seen(self, why: str) -> None:
        self.counts.failed_observations += 1
        if self.known.not_observed(why, self.parts.clock.now_ms()):
            await self.note(self.event("cluster-unreachable", f"{self.name} can't be observed: {why}"))
        self.show_moves()

    def _seen(self, question: LookQuestion, thought: Thought) -> list[HistoryEvent]:
        """Publish an observation; returns its events other than conditions."""
        self.counts.observations += 1
        back = self.known.observed(thought.observation, thought.moves, self.parts.clock.now_ms())
        self._sighting = question.sighting
        self.contents = Contents(question.sighting, question.policy.rails)
        self.parts.published.show(self.name, dressed(thought.page, self._around()))
        self.show_moves()
        return [*self._told("cluster-back", back, self.known.silent_since_ms)]

    async def _remember(self, question: LookQuestion, thought: Thought, events: list[HistoryEvent]) -> None:
        # A person's decision during the thinking is newer, so that proposal is left to the next look.
        known = {each.id: each for each in question.kept}
        changed = tuple(each for each in thought.changed if self.proposals.get(each.id) == known.get(each.id))
        observed = events + condition_events(self.event, thought, self._memory, self.policy, self.known.stale_ms)
        events = [self.event(*change, e.id) for e in changed if (change := told_proposal(known.get(e.id), e))]
        for broker in sorted(set(thought.safe) - set(self._safe)):
            told = f"broker {broker} is empty, and nothing is on its way to it or needs it: it is safe to remove"
            events.append(self.event(BROKER_EMPTY, told, f"broker {broker}"))
        due = self._gist_at_ms is None or abs(thought.at_ms - self._gist_at_ms) >= GIST_EVERY_MS
        gist = (self.name, thought.gist) if due else None
        gone, memory = self.ended_holds(thought.at_ms), (self.name, thought.memory)
        try:
            await self.write(StoreBatch(changed, (*observed, *events), intents_gone=gone, memory=memory, look=gist))
        except StoreFailed:
            self._memory = thought.memory  # Known since when each condition holds, and told. Nothing is proposed.
            self.tell(observed)
            self.show()
            return
        self._memory, self._safe, self._grown = thought.memory, thought.safe, self._grown or gist is not None

    async def sketch(self, order: ServiceOrder, who: str) -> KeptProposal:
        """Plan as a person asks, by the last look; no proposal is kept.

        Raises:
            OrderRefused: there is no such plan, nothing would change, or the cluster was not seen yet.
        """
        if (refused := why_unobserved(self.facts())) is not None:
            raise OrderRefused(*refused)
        assert self._sighting is not None
        return await self.parts.sketch(Wish(self.name, self._sighting, self.policy, order, who, self._memory))

    # ---- carrying out

    async def _maybe_begin(self, question: LookQuestion, thought: Thought) -> None:
        """Begin a proposal that this look reviewed, unless the policy or the proposal has changed since."""
        if self.policy != question.policy or not self._may_begin():
            return
        if brokers := outlived(question.sighting.journal, self.policy):
            assert self.driving is not None
            await self.note(self.event("uncordoned", await end_cordons(self.driving, brokers)))
        reviewed = {each.id: each for each in (*question.kept, *thought.changed)}
        ready = [each for each in self.proposals.values() if reviewed.get(each.id) == each]
        if any(each.state in (ProposalState.STARTING, ProposalState.RUNNING) for each in self.proposals.values()):
            return
        if (proposal := next_to_begin(ready)) is not None:
            await self._begin(proposal)

    def _may_begin(self) -> bool:
        driven = self.driving is not None and self.reconciled and not self.driving.view().running
        allowed = self.words_known and self.switch is None and not self.policy.observes
        return driven and allowed and not self.records.trouble

    async def _begin(self, proposal: KeptProposal) -> None:
        driving = self.driving
        assert driving is not None
        starting = replace(proposal, state=ProposalState.STARTING, changed_at_ms=self.parts.clock.now_ms())
        try:
            await self.write(StoreBatch((starting,), (self.event("begun", told_begun(proposal), proposal.id),)))
        except StoreFailed:
            return
        # This is a task of its own, because a large plan takes long to be journalled, and looks go on meanwhile.
        self._in_hand = starting.id
        self._handing = asyncio.create_task(self._hand_over(driving, starting))

    async def handed_over(self) -> None:
        """Wait until the proposal that begins is in the journal, or was refused."""
        if self._handing is not None:
            await self._handing

    async def _hand_over(self, driving: Driving, starting: KeptProposal) -> None:
        try:
            await self._submit(driving, starting)
        except Exception as error:
            LOG.exception("%s can't be begun", starting.id)
            await self.note(self.event("begin-unknown", f"{starting.id}: a bug of Shunter's: {error!r}", starting.id))
        finally:
            self._in_hand = ""

    async def _submit(self, driving: Driving, proposal: KeptProposal) -> None:
        moves = [order_of(each) for each in proposal.changes]
        if self.switch is not None:
            return  # The switch was thrown just now. The `starting` proposal is settled when the switch is lifted.
        try:
            options = with_cordons(self.cluster.options, proposal.scope, self._sighting, self.policy)
            reply = await driving.submit(proposal.id, moves, options)
        except ShunterError as error:
            # `reconcile` asks the journal when the cluster is driven again.
            await self.note(self.event("begin-unknown", f"{proposal.id}: {error}", proposal.id))
            return
        async with self.lock:
            await self._settle(proposal, self.parts.clock.now_ms(), *taken(reply))
        self.known.view(driving.view(), self.counts)
        self.show_moves()
        if self.switch is not None:
            await self.pause_what_moves(self.switch)

    async def _settle(
        self, proposal: KeptProposal, at_ms: int, state: ProposalState, told: str, said: Turned | None = None
    ) -> None:
        """Keep the state of a proposal by the journal. If the store refuses, a restart reads the journal again."""
        now = replace(proposal, changed_at_ms=at_ms)
        batch = self.settled(now, state, told, said)
        told_now = told_proposal(proposal, batch.proposals[0])
        events = () if told_now is None else (replace(self.event(*told_now, proposal.id), at_ms=at_ms),)
        batch = replace(batch, events=events)
        try:
            await self.write(batch)
        except StoreFailed:
            self.take_over(self.stood(batch))

    async def reconcile(self) -> None:
        """Read from the journal the states of proposals that were begun, by this process or an earlier one.

        Raises:
            ShunterError: the journal can't be read.
        """
        driving = self.driving
        states = (ProposalState.STARTING, ProposalState.RUNNING)
        begun = [e for e in self.proposals.values() if e.state in states and e.id != self._in_hand]
        if driving is None or not begun:
            self.reconciled = driving is not None
            return
        fates = await driving.fates()
        for proposal in begun:
            state, told = fate_of(proposal, fates)
            if state is not proposal.state:
                fate, now_ms = fates.get(proposal.id), self.parts.clock.now_ms()
                ended_ms = None if fate is None else fate.ended_at_ms
                said = None if proposal.turned else turned_in(fate, now_ms)
                await self._settle(proposal, ended_ms or now_ms, state, told, said)
        self.reconciled = True

    async def drive_forever(self) -> None:
        """Drive the cluster's journal while no other executor does; after any end try again."""
        while True:
            if self.policy.observes:
                await self._left("", "")
                await asyncio.sleep(self.parts.drive_again_s)
                continue
            try:
                await self.follow(self.parts.clock.now_ms())
                self.show()
                async with self.parts.seat(self._noticed) as driving:
                    await driving.granted()
                    await self.take_words(self.parts.clock.now_ms())
                    await self.note(*self._told("journal-elsewhere", self.journal_elsewhere()))
                    why = await self._drive(driving)
            except ShunterError as error:
                if self.known.failed(error):
                    self.hurry()
                await self._left(*not_driven(error))
            except Exception as error:
                LOG.exception("%s is no longer driven", self.name)
                await self._left("", f"a bug of Shunter's: {error!r}: it is not driven until a restart")
                return
            else:
                await self._left("", "" if self.policy.observes else why)
            await asyncio.sleep(self.parts.drive_again_s)

    async def _drive(self, driving: Driving) -> str:
        self.driving, self.reconciled = driving, False
        gate = ShellGate(self.facts, self._heard, self.cluster.options)
        running = asyncio.create_task(driving.run(self._viewed, gate))
        self._leaves.clear()
        leaving = asyncio.create_task(self._leaves.wait())
        try:
            if self.switch is not None and not self.switch.lifted:
                await self.pause_what_moves(self.switch)
            async with self.lock:
                await self.reconcile()
            drives = self.known.driven(self.former, self.parts.clock.now_ms())
            await self.note(self.event(self.known.driver_kind, drives))
            self.show_moves()
            self.hurry()
            await asyncio.wait({running, leaving}, return_when=asyncio.FIRST_COMPLETED)
            return running.result() if running.done() else ""
        finally:
            self.driving = self.known.execution = None
            self.reconciled = False
            if self.topic_of_words is not None:
                self.topic_of_words.let_go()
            tasks = [task for task in (running, leaving, self._following, self._handing) if task is not None]
            self._following = self._handing = None
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _words_again(self, driving: Driving) -> None:
        """Take the words again after a write of which it is not known whether it reached the cluster, and reconcile."""
        try:
            await driving.granted()
            async with self.lock:
                if self._to_be_taken:
                    await self.take_words(self.parts.clock.now_ms())
                    self.reconciled = False
                if not self.reconciled:
                    await self.reconcile()
        except ShunterError:
            self.show()
            await asyncio.sleep(self.parts.drive_again_s)
            return
        if self.switch is not None and not self.switch.lifted:
            await self.pause_what_moves(self.switch)
        self.hurry()

    async def _left(self, holder: str, why: str) -> None:
        """Note that this service does not drive the cluster: another process does (`holder`), or why none does."""
        now_ms = self.parts.clock.now_ms()
        told, since_ms = self.known.left(holder, why, now_ms)
        if since_ms is not None:
            self.hurry()  # What it saw while it drove is not to be shown as of now.
        drove = self._told(self.known.driver_kind if since_ms is None else "driver-lost", told, since_ms)
        lost = await self.drop_unsent() if holder else ""
        unsent = "pause-not-sent" if self.lost_pause else "resume-not-sent"
        await self.note(*drove, *self._told(unsent, lost), *self._told("not-driven", self.known.undriven(now_ms)))
        self.show_moves()

    def _noticed(self, notice: Notice) -> None:
        """Keep a notice. A task does that, because whoever gives it must not wait for the store."""
        self._noted(self.event(notice.kind, notice.text, notice.about))

    def _heard(self, what: str, given_by: str, answer: str) -> None:
        """Keep an order of another shell: its giver is a user of this host or of the journal's topic."""
        kind, _, about = what.partition(" ")
        self._noted(self.event(kind, f"{given_by}: {what}: {answer}", about, given_by))

    def _noted(self, event: HistoryEvent) -> None:
        noting = asyncio.create_task(self.note(event))
        self._notings.add(noting)
        noting.add_done_callback(self._notings.discard)

    def _viewed(self, view: ExecutionView) -> None:
        """Take a view of the execution; called about once a second."""
        self.known.view(view, self.counts)
        self.show_moves()
        if self.policy.observes and not view.running:
            self._leaves.set()
        if self._following is not None and self._following.done():
            self._following.result()  # A bug in that task ends the service, instead of being ignored.
            self._following = None
        if self._following is None:
            self._following = asyncio.create_task(self._follow(view))

    async def _follow(self, view: ExecutionView) -> None:
        """Enforce the kill switch, and notice the end of the running proposal."""
        try:
            if self.driving is not None and (self._to_be_taken or not self.reconciled):
                await self._words_again(self.driving)
            await self.send_switch(self.parts.clock.now_ms())
            switch = self.switch
            if switch is not None and switch.lifted:
                await self.resume_what_was_paused(switch)
            elif switch is not None and any(row.state in ("pending", "moving") for row in view.moves):
                await self.pause_what_moves(switch)
            ended = not any(row.state in OPEN_STATES for row in view.moves)  # Its throttles may still be given back.
            if ended and any(e.state is ProposalState.RUNNING for e in self.proposals.values()):
                async with self.lock:
                    await self.reconcile()
                self.hurry()
        except ShunterError as error:
            await self.note(self.event("not-driven", str(error)))

    # ---- the kill switch

    async def pause_what_moves(self, switch: KillSwitch) -> str:
        """Pause every open move; returns the result in a sentence."""
        if self.driving is None:
            return "this service does not drive it now"
        reply = await self.driving.command(Command(CommandKind.PAUSE, given_by=f"kill switch of {switch.who}"))
        return reply.text if reply.accepted else "no move of this service is open"

    def lift(self) -> None:
        """Follow a switch that was lifted: resume its moves now if the cluster is driven, else once it is driven."""
        if self.driving is not None:
            self._viewed(self.driving.view())

    async def resume_what_was_paused(self, switch: KillSwitch) -> None:
        """Resume the moves that the switch paused, then forget the switch. Moves that were paused by name stay paused.

        Raises:
            StoreFailed: the switch was not forgotten, so this is done again later.
        """
        driving = self.driving
        if driving is None or self.switch is not switch:
            return
        paused = [row.partition for row in driving.view().moves if row.state == "paused"]
        resumed = tuple(partition_of(name) for name in paused if name not in switch.kept)
        if resumed:
            await driving.command(Command(CommandKind.RESUME, resumed, given_by=f"kill switch lifted by {switch.who}"))
        # The switch may be thrown again at any moment; that is another switch, and it stays. The store writes in the
        # order of requests, so a switch that is thrown while this one is being forgotten is written after it.
        if self.switch is not switch:
            return
        await self.keep(StoreBatch(switches_gone=(self.name,)), self.parts.clock.now_ms())
        if self.switch is not switch:
            return
        self.turn(None)
        async with self.lock:
            await self.reconcile()
        self.hurry()
        self.show()
