"""Orders to the service: judged, made durable, carried out. An order that is refused has changed nothing.

An order with an idempotency key is carried out once. An order that the store alone carries out (a vote, an intent, the
switch) is written together with its answer. An order for the executor is marked as begun before it is handed over, and
its key is in the journal with it. If the service dies in between, the next request with the same key looks the order
up there.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any

from shunter.app.executor.ways_out import ways_out
from shunter.app.service.commands import TURNS, command_for, commands_for
from shunter.app.service.driving import Driving
from shunter.app.service.keeping import ClusterKeeper
from shunter.app.service.previews import (
    driven,
    event_of_all,
    going_on,
    kept_here,
    lift,
    pause_moves,
    paused_now,
    preview_of_switch,
    preview_of_turn,
    see_taken,
    taken_for,
    tell_if_lost,
    told_alone,
    told_late,
    told_later,
    told_not_paused,
    told_of_others,
    told_overtaken,
    told_paused,
    told_resumed,
    told_theirs,
    told_undone,
)
from shunter.app.service.records import Records
from shunter.app.service.words import AGAINST
from shunter.core.keeper.cluster_facts import ServiceRole
from shunter.core.keeper.docket import voted
from shunter.core.keeper.intents import contradiction, named_by
from shunter.core.keeper.people import approvals, unsure
from shunter.core.keeper.situation import why_refused
from shunter.core.keeper.words import DECLINED, Said, again, held, lifted_by
from shunter.core.wording import counted, told_bytes
from shunter.drivers.service.store import StoreFailed
from shunter.errors import DriverError, ShunterError
from shunter.formats.service_records import encode_order
from shunter.model.execution import Command
from shunter.model.service import (
    UNBEGUN,
    HistoryEvent,
    IntentKind,
    KeptIntent,
    KeptProposal,
    KeyedAnswer,
    KillSwitch,
    OrderDone,
    OrderKind,
    OrderRefused,
    Refusal,
    ServiceOrder,
    Signature,
    StoreBatch,
    Vote,
)
from shunter.views.execution import OPEN_STATES
from shunter.views.service import OrderPreview

ANSWER_WITHIN_S = 10.0
"""How long the caller of an order waits for a cluster's executor."""
KEPT_WITHIN_S = 3.0
"""How long the answer to the kill switch waits until it is written down; writing goes on after that."""
SWITCH_WITHIN_S = 0.8
"""How long the answer to the kill switch waits for executors; pausing goes on after that."""

_BROKERS = (IntentKind.DRAIN, IntentKind.DEMOTE, IntentKind.REPLACE, IntentKind.FREEZE_BROKER)


class OrderDesk:
    """Carries orders out for a fleet."""

    def __init__(self, keepers: Mapping[str, ClusterKeeper], records: Records) -> None:
        """Take the clusters' keepers and the store."""
        self._keepers = keepers
        self._records = records
        for keeper in keepers.values():
            keeper.known.fleet_paused = self._is_fleet_paused
        self._keeping: set[asyncio.Task[Any]] = set()
        """Kill switches that are being written down, and orders that wait for their answer."""
        self._under_way: dict[str, asyncio.Task[OrderDone]] = {}

    def _keep(self, task: asyncio.Task[Any]) -> None:
        self._keeping.add(task)
        task.add_done_callback(self._keeping.discard)

    @property
    def fleet_switch(self) -> KillSwitch | None:
        """The kill switch of all clusters: each of them has it, apart from those that other processes drive."""
        mine = [
            each.switch
            for each in self._keepers.values()
            if each.driving or not (each.known.held_by or each.policy.observes)
        ]
        first = next(iter(mine), None)
        everywhere = all(each is not None and each.fleet and not each.lifted for each in mine)
        unsent = any(each is not None and each.unsent for each in mine)
        return first._replace(cluster="", unsent=unsent) if first is not None and everywhere else None

    def _is_fleet_paused(self) -> bool:
        return len(self._keepers) > 1 and self.fleet_switch is not None

    def fleet_orders(self) -> tuple[tuple[OrderKind, ...], str]:
        """Orders to the whole fleet that would be carried out now and change something, and why none would be."""
        told = [each.facts() for each in self._keepers.values()]
        mine = [each for each in told if each.role not in (ServiceRole.STANDBY, ServiceRole.OBSERVES)]
        if not mine:
            return (), "; ".join(told_theirs([*self._keepers.values()]))
        pause = [OrderKind.PAUSE] if self.fleet_switch is None and not all(each.unsure for each in mine) else []
        paused = any(each.paused for each in mine)
        resume = [OrderKind.RESUME] if paused and not self._records.trouble else []
        return (*pause, *resume), ""

    async def carry_out(self, order: ServiceOrder, signature: Signature) -> OrderDone:
        """Carry an order out, once.

        Raises:
            OrderRefused: the order is not carried out, and nothing was changed.
        """
        try:
            done = await self._keyed(order, signature)
        except StoreFailed as error:
            raise OrderRefused(Refusal.STORE, str(error)) from error
        alone = told_alone(order, self._keepers)
        return done._replace(text=f"{done.text}; {alone}") if alone else done

    async def _keyed(self, order: ServiceOrder, signature: Signature) -> OrderDone:
        if not signature.key:
            return await self._carry_out(order, signature)
        same = self._under_way.get(signature.key)
        if same is None:
            same = asyncio.create_task(self._once(order, signature))
            self._under_way[signature.key] = same
            same.add_done_callback(lambda _done: self._under_way.pop(signature.key, None))
        return await asyncio.shield(same)

    async def _once(self, order: ServiceOrder, signature: Signature) -> OrderDone:
        # The kill switch does not wait for the store, because a slow disk must not keep moves going.
        throws = order.is_switch and order.kind is OrderKind.PAUSE
        patience_s = SWITCH_WITHIN_S / 4 if throws else None
        try:
            async with asyncio.timeout(patience_s):
                known = await self._records.read(lambda store: store.answer(signature.key))
        except (StoreFailed, TimeoutError):
            if not throws:
                raise
            return await self._carry_out(order, signature)
        if known is None:
            return await self._carry_out(order, signature)
        if known.order != encode_order(order):
            told = f"the idempotency key {signature.key!r} belongs to another order, {known.order}: use a new key"
            raise OrderRefused(Refusal.KEY_REUSED, told)
        return known.done if known.done is not None else await self._looked_up(order, signature, known)

    async def _looked_up(self, order: ServiceOrder, signature: Signature, known: KeyedAnswer) -> OrderDone:
        """Finish an order that was begun but not answered: the journal has it, or it is carried out now."""
        keeper = self._keepers[order.cluster]
        driving = driven(keeper)
        try:
            heard = await driving.heard(signature.key, known.at_ms)
        except ShunterError as error:
            told = f"{keeper.name}: {error}: ask again with the same key"
            raise OrderRefused(Refusal.UNREACHABLE, told) from error
        if heard.at_ms is None and heard.other_plan:
            told = f"the executor never got this order, and has taken on {heard.other_plan} since"
            raise OrderRefused(Refusal.ALREADY_DECIDED, f"{told}: look at the moves, and ask again with a new key")
        if heard.at_ms is None:
            return await self._carry_out(order, signature)
        at = f"{datetime.fromtimestamp(heard.at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
        done = OrderDone(f"the executor took this order at {at}; the moves show its effect")
        answer = KeyedAnswer(signature.key, known.order, known.at_ms, done)
        await self._write_after(keeper, StoreBatch(answer=answer))
        return done

    async def _carry_out(self, order: ServiceOrder, signature: Signature) -> OrderDone:
        kind = order.kind
        seen = self._see_lost_pauses(order) if order.is_switch else None
        if seen is not None:
            return seen
        if self._is_switch(order):
            return await (self._pause_all if kind is OrderKind.PAUSE else self._resume_all)(order, signature)
        keeper = self._keepers.get(order.cluster)
        if keeper is None:
            raise OrderRefused(Refusal.INVALID, f"{kind.value}: the order names no cluster: name one")
        see_taken(kind, keeper)
        if kind in (OrderKind.APPROVE, OrderKind.DECLINE):
            return await self._vote(keeper, order, signature)
        if kind in (OrderKind.INTEND, OrderKind.WITHDRAW):
            return await self._intend(keeper, order, signature)
        if kind in TURNS or kind is OrderKind.LIMIT:
            return await self._turn(keeper, order, signature)
        if kind is OrderKind.CLEAR_THROTTLES:
            return await self._clear_throttles(keeper, order, signature)
        return await self._propose(keeper, order, signature)

    def _see_lost_pauses(self, order: ServiceOrder) -> OrderDone | None:
        """Take away the messages about pauses that were lost; returns the answer if there is nothing else to do."""
        about = [each for each in self._keepers.values() if order.cluster in ("", each.name)]
        lost = [(each, each.lost_pause) for each in about if each.lost_pause]
        for keeper, _told in lost:
            keeper.see_lost_pause()
        if order.kind is OrderKind.PAUSE or not lost:
            return None
        told = "; ".join(f"{keeper.name}: {told}" for keeper, told in lost)
        refused = why_refused(order.kind, about[0].facts(), whole=True) if len(about) == 1 else None
        if refused is not None:
            raise OrderRefused(refused[0], f"{refused[1]}; this message is taken away: {told}")
        if any(not each.facts().not_paused or paused_now(each) for each in about):
            return None
        return OrderDone(f"nothing is paused, and this message is taken away: {told}")

    def _is_switch(self, order: ServiceOrder) -> bool:
        """Whether an order throws or lifts the kill switch. Without a switch, a resume is of moves paused by name."""
        keeper = self._keepers.get(order.cluster)
        by_name = keeper is not None and keeper.switch is None and paused_now(keeper)
        return order.is_switch and not (order.kind is OrderKind.RESUME and by_name)

    # ---- proposals

    async def _vote(self, keeper: ClusterKeeper, order: ServiceOrder, signature: Signature) -> OrderDone:
        approves = order.kind is OrderKind.APPROVE
        name = order.proposal
        if not name:
            raise OrderRefused(Refusal.INVALID, f"{order.kind.value}: a proposal is wanted")
        event = keeper.event(order.kind.value, "", name, signature.who, signature.comment)
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S), keeper.lock:
                proposal = keeper.proposals.get(name) or await self._ended(keeper, name)
                rails = keeper.policy.rails
                vote = Vote(signature.who, event.at_ms, approves, signature.comment, signature.by)
                decided = voted(proposal, vote, rails)
                given, why = approvals(decided.votes, rails.people), unsure(decided.votes, rails.people)
                told = f"{name} is {decided.state.told}"
                if approves and given < rails.approvals:
                    told = f"{name} has {given} of {rails.approvals} approvals, and waits for another person's approval"
                    told += f"; {why}" if why else ""
                elif approves and decided.held_back:
                    told = f"{told}; it begins once nothing holds it back: {'; '.join(decided.held_back)}"
                done = OrderDone(told, name)
                told_event = replace(event, text=f"{signature.who}: {told}")
                minutes = 0 if approves else rails.declined_minutes
                said = Said(DECLINED, signature.who, event.at_ms, signature.comment)
                hold = again(held(proposal.scope, said, minutes), keeper.intents)
                holds = ((keeper.name, hold),) if minutes else ()
                answer = _answer(order, signature, event, done)
                await self._write(keeper, StoreBatch((decided,), (told_event,), holds, answer=answer))
        except TimeoutError as error:
            told = f"{keeper.name} is about to begin a proposal, and its cluster answers slowly: ask again"
            raise OrderRefused(Refusal.UNREACHABLE, told) from error
        keeper.hurry()
        return done

    async def _propose(self, keeper: ClusterKeeper, order: ServiceOrder, signature: Signature) -> OrderDone:
        """Keep a plan that a person asks for; it waits for approval like any other proposal."""
        made = await keeper.sketch(order._replace(intent=None), signature.who)
        async with keeper.lock:
            same = next((e.id for e in keeper.proposals.values() if e.scope == made.scope and e.state in UNBEGUN), None)
            if same is not None:
                told = f"{same} of the same scope waits already: approve or decline it first"
                raise OrderRefused(Refusal.NOT_ALLOWED, told)
            done = OrderDone(
                f"{made.id} is proposed: {counted(made.moves, 'replica')} to copy, {told_bytes(made.bytes)}", made.id
            )
            event = keeper.event("proposed", done.text, made.id, signature.who, signature.comment)
            batch = StoreBatch((made,), (event,), answer=_answer(order, signature, event, done))
            await self._write(keeper, batch)
        return done

    async def _ended(self, keeper: ClusterKeeper, name: str) -> KeptProposal:
        """A proposal that is over, so that the answer to a vote says how it ended."""
        found = await self._records.read(lambda store: store.proposal(keeper.name, name))
        if found is not None:
            return found
        waiting = ", ".join(sorted(each.id for each in keeper.proposals.values() if each.state in UNBEGUN))
        told = f"{keeper.name} has no proposal {name!r}; {waiting or 'none'} waits"
        raise OrderRefused(Refusal.NOT_FOUND, told)

    # ---- intents

    async def _intend(self, keeper: ClusterKeeper, order: ServiceOrder, signature: Signature) -> OrderDone:
        gives = order.kind is OrderKind.INTEND
        named = named_by(order, gives=gives)
        event = keeper.event(
            order.kind.value, "", ", ".join(each[1] for each in named), signature.who, signature.comment
        )
        if gives:
            given = [KeptIntent(*each, signature.who, event.at_ms, signature.comment) for each in named]
            intents = [again(each, keeper.intents) for each in given]
            against = contradiction(keeper.policy, *intents)
            if against:
                raise OrderRefused(Refusal.NOT_ALLOWED, against)
            told = "; ".join([self._given(keeper, each) for each in intents]) + await told_undone(
                keeper, order, signature.who
            )
            batch = StoreBatch(intents=tuple((keeper.name, each) for each in intents))
        else:
            gone = [self._taken_back(keeper, kind, about) for kind, about, _value in named]
            told = "; ".join(told for _intent, told in gone) + going_on(keeper, {each[0] for each in named})
            batch = StoreBatch(intents_gone=tuple(intent for intent, _told in gone))
        done = OrderDone(told)
        event = replace(event, text=f"{signature.who}: {told}")
        await self._write(keeper, replace(batch, events=(event,), answer=_answer(order, signature, event, done)))
        keeper.hurry()
        return done

    def _given(self, keeper: ClusterKeeper, intent: KeptIntent) -> str:
        page = keeper.parts.published.page(keeper.name)
        known = {str(broker.id) for broker in page.brokers}
        up = {broker.id for broker in page.brokers if broker.live}
        # Only brokers that are added, or that replace another one, need not have joined yet.
        if intent.kind in _BROKERS and known and intent.about not in known:
            told = f"{keeper.name} has no broker {intent.about}; it has {', '.join(sorted(known, key=int))}"
            raise OrderRefused(Refusal.NOT_FOUND, told)
        topics = {topic.name for topic in page.topics}
        if (
            intent.kind is IntentKind.REPLICATION
            and intent.about not in topics
            and page.topics_in_all == len(topics) > 0
        ):
            raise OrderRefused(Refusal.NOT_FOUND, f"{keeper.name} has no topic {intent.about}")
        later = told_later(keeper.policy, intent.kind)
        promised = {
            IntentKind.DRAIN: f"broker {intent.about} is to hold nothing: {later}",
            IntentKind.DEMOTE: f"broker {intent.about} is to lead nothing: {later}",
            IntentKind.REPLACE: f"all replicas of broker {intent.about} are to go to broker {intent.value}"
            + (f": {later}" if intent.value in up else ", once that broker is up"),
            IntentKind.ADD: f"broker {intent.about} is to get its share"
            + (f": {later}" if intent.about in {str(each) for each in up} else ", once it is up"),
            IntentKind.FREEZE_TOPIC: f"nothing of topic {intent.about} changes from the next plan on",
            IntentKind.FREEZE_BROKER: f"nothing comes to broker {intent.about} or leaves it from the next plan on",
            IntentKind.HOLD: f"nothing of scope {intent.about} begins by itself until {lifted_by(intent.about)}",
            IntentKind.REPLICATION: f"topic {intent.about} is to have {counted(intent.value or 0, 'replica')}: "
            + ("once it is no longer frozen" if _is_frozen(keeper, intent.about) else later),
        }
        return promised[intent.kind]

    def _taken_back(
        self, keeper: ClusterKeeper, kind: IntentKind, about: str
    ) -> tuple[tuple[str, IntentKind, str], str]:
        if any((each.kind, each.about) == (kind, about) for each in keeper.intents):
            return (keeper.name, kind, about), f"{kind.value} of {about} is withdrawn"
        intents, rails = keeper.cluster.policy.intents, keeper.cluster.policy.rails
        in_file: dict[IntentKind, tuple[str, ...]] = {
            IntentKind.DRAIN: tuple(map(str, intents.drain)),
            IntentKind.DEMOTE: tuple(map(str, intents.demote)),
            IntentKind.REPLACE: tuple(map(str, intents.replace)),
            IntentKind.ADD: tuple(map(str, intents.add)),
            IntentKind.FREEZE_TOPIC: rails.frozen_topics,
            IntentKind.FREEZE_BROKER: tuple(map(str, rails.frozen_brokers)),
            IntentKind.REPLICATION: tuple(intents.replication),
            IntentKind.HOLD: (),
        }
        if about in in_file[kind]:
            told = f"{kind.value} of {about} is in the policy file: remove it there"
            raise OrderRefused(Refusal.NOT_ALLOWED, told)
        raise OrderRefused(Refusal.NOT_FOUND, f"there is no {kind.value} of {about} in {keeper.name}")

    # ---- moves

    async def _turn(self, keeper: ClusterKeeper, order: ServiceOrder, signature: Signature) -> OrderDone:
        driving = driven(keeper)
        commands = commands_for(order, signature)
        about = ", ".join(order.partitions) or "all moves"
        event = keeper.event(order.kind.value, "", about, signature.who, signature.comment)
        if signature.key:
            begun = KeyedAnswer(signature.key, encode_order(order), event.at_ms, None)
            await self._write(keeper, StoreBatch(answer=begun))
        carrying = asyncio.create_task(self._turn_now(keeper, driving, commands, order, signature, event))
        self._keep(carrying)
        await asyncio.wait({carrying}, timeout=ANSWER_WITHIN_S)
        if carrying.done():
            return carrying.result()
        self._keep(asyncio.create_task(tell_if_lost(keeper, carrying, event)))
        done = OrderDone(told_late(keeper.name))
        event = replace(event, text=f"{signature.who}: {order.kind.value} {about}: {done.text}")
        await self._write_after(keeper, StoreBatch(events=(event,)))  # The answer is kept when there is one.
        return done

    async def _turn_now(
        self,
        keeper: ClusterKeeper,
        driving: Driving,
        commands: Sequence[Command],
        order: ServiceOrder,
        signature: Signature,
        event: HistoryEvent,
    ) -> OrderDone:
        try:
            reply = await driving.command(commands[0])
            for command in commands[1:] if reply.accepted else ():
                reply = replace(reply, text=f"{reply.text}; {(await driving.command(command)).text}")
        except DriverError as error:
            again = "ask again with the same key" if signature.key else "look at the moves before you ask again"
            raise OrderRefused(
                Refusal.UNREACHABLE, f"{keeper.name}: {ways_out(keeper.cluster.target).told(str(error))}: {again}"
            ) from error
        if not reply.accepted:
            await self._write_after(keeper, StoreBatch(answer_gone=signature.key))
            raise OrderRefused(Refusal.NOT_ALLOWED, f"{reply.text}{told_of_others(keeper, order.partitions)}")
        if order.kind in AGAINST:
            return await self._turned(keeper, order, signature, event, reply.text)
        done = OrderDone(reply.text)
        event = replace(event, text=f"{signature.who}: {order.kind.value} {event.subject}: {done.text}")
        batch = StoreBatch(events=(event,), answer=_answer(order, signature, event, done))
        if order.kind is OrderKind.PAUSE and keeper.switch is not None:
            named = order.partitions or tuple(row.partition for row in driving.view().moves if row.state in OPEN_STATES)
            batch = replace(batch, switches=(keeper.switch._replace(kept=(*keeper.switch.kept, *named)),))
        await self._write_after(keeper, batch)
        return done

    async def _turned(
        self, keeper: ClusterKeeper, order: ServiceOrder, signature: Signature, event: HistoryEvent, told: str
    ) -> OrderDone:
        """Keep a word against the plan under way: it is not begun again by itself.

        If the plan has just ended, or the store refuses, the journal has the word: `reconcile` keeps it.
        """
        said = Said(AGAINST[order.kind], signature.who, event.at_ms, signature.comment)
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S), keeper.lock:
                proposal, whole = keeper.turning(order.partitions)
                batch = StoreBatch()
                if proposal is not None:
                    follows = keeper.against(proposal, said, whole=whole).told
                    told = f"{told}; {follows}" if follows else told
                    batch = keeper.turned(proposal, said, whole=whole)
                done = OrderDone(told)
                about = ", ".join(order.partitions) or "all moves"
                event = replace(event, text=f"{signature.who}: {order.kind.value} {about}: {told}")
                answer = _answer(order, signature, event, done)
                await self._write_after(keeper, replace(batch, events=(event,), answer=answer))
        except TimeoutError:
            done = OrderDone(told)
        keeper.hurry()
        return done

    async def _clear_throttles(self, keeper: ClusterKeeper, order: ServiceOrder, signature: Signature) -> OrderDone:
        """Remove throttles that no journal knows. To do so twice is harmless, so the key is not marked as begun."""
        try:
            done = OrderDone(await keeper.parts.clear_throttles())
        except ShunterError as error:
            kind = Refusal.UNREACHABLE if isinstance(error, DriverError) else Refusal.NOT_ALLOWED
            told = ways_out(keeper.cluster.target).told(str(error))
            raise OrderRefused(kind, f"{keeper.name}: {told}") from error
        event = keeper.event(order.kind.value, f"{signature.who}: {done.text}", "", signature.who, signature.comment)
        await self._write_after(keeper, StoreBatch(events=(event,), answer=_answer(order, signature, event, done)))
        keeper.hurry()
        return done

    def preview(self, order: ServiceOrder, who: str) -> OrderPreview:
        """What an order to moves would do now; nothing is changed.

        Raises:
            OrderRefused: the order would be refused, or it is none to moves.
        """
        if self._is_switch(order):
            return preview_of_switch(order, *taken_for(order, self._keepers))
        if order.kind not in TURNS:
            raise OrderRefused(Refusal.INVALID, f"{order.kind.value} is no order to moves")
        return preview_of_turn(order.kind, self._keepers[order.cluster], command_for(order, Signature(who)))

    # ---- the kill switch

    async def _pause_all(self, order: ServiceOrder, signature: Signature) -> OrderDone:
        """Pause a cluster, or all: the switch is set in this process, then it is stored while each executor pauses."""
        keepers, theirs = taken_for(order, self._keepers)
        now_ms = keepers[0].parts.clock.now_ms()
        # Clusters that another process drives are paused too, should this service take them over.
        every = (*keepers, *kept_here(theirs))
        thrown = [(each, _thrown(each, signature, now_ms, fleet=not order.cluster)) for each in every]
        done = told_paused(order.cluster, keepers, theirs)
        # The switch is in force in this process before anything is awaited.
        turns = [keeper.turn(switch) for keeper, switch in thrown]
        moving = [(keeper, switch) for keeper, switch in thrown if keeper.driving is not None]
        pausing = [asyncio.create_task(pause_moves(keeper, switch)) for keeper, switch in moving]
        keeping = [
            asyncio.create_task(keeper.keep_switch(switch, turn, now_ms))
            for (keeper, switch), turn in zip(thrown, turns, strict=True)
        ]
        for task in keeping:
            self._keep(task)
        await asyncio.wait(keeping, timeout=KEPT_WITHIN_S)
        overtaken = [keeper for keeper, _switch in thrown if keeper.overtaken]
        for keeper in overtaken:
            await keeper.withdraw()
        if len(overtaken) == len(thrown):
            names = ", ".join(keeper.name for keeper in overtaken)
            raise OrderRefused(
                Refusal.STANDBY, f"not taken: another service has taken {names} over: give the order there"
            )
        taken = [each.name for each in overtaken if each not in theirs]
        undone = [f"{each} is not paused: another service has taken it over: give the order there" for each in taken]
        for (keeper, _switch), task in zip(thrown, keeping, strict=True):
            late = (
                f"the pause of {keeper.name} holds in this service and is not in the cluster yet: it gets there once a "
                "broker takes it, if this service drives the cluster then; if another one does, that is told here"
            )
            if keeper not in overtaken and (trouble := task.result() if task.done() else late):
                undone.append(trouble)
        if pausing:
            await asyncio.wait(pausing, timeout=SWITCH_WITHIN_S)
            said = [task.result() for task in pausing if task.done()]
            more = f" ({'; '.join(told for told, _paused in said)})" if said else ""
            done = done._replace(text=f"{done.text}{more}")
            undone += [told for told, paused in said if not paused]
        troubles = "".join(f". {each[0].upper()}{each[1:]}" for each in undone if each not in done.text)
        done = OrderDone(f"{done.text}{troubles}", undone=(*done.undone, *undone))
        event = event_of_all("pause-all", order, signature, keepers, now_ms, done)
        try:
            await self._records.write(StoreBatch(events=(event,), answer=_answer(order, signature, event, done)))
        except StoreFailed as error:
            if not undone:
                done = done._replace(text=f"{done.text}. The order is not in the history: {error}")
        keepers[0].parts.tell(event)
        for keeper, _switch in thrown:
            keeper.show()
        keepers[0].parts.published.tell(order.cluster)
        return done

    async def _resume_all(self, order: ServiceOrder, signature: Signature) -> OrderDone:
        keepers, theirs = taken_for(order, self._keepers)
        every = (*keepers, *kept_here(theirs))
        held = [(keeper, keeper.switch) for keeper in every if keeper.switch is not None and not keeper.switch.lifted]
        if not held:
            raise OrderRefused(Refusal.ALREADY_DECIDED, told_not_paused(order.cluster or "the fleet", keepers))
        lifted = [(keeper, switch._replace(lifted=True, unsent=False, who=signature.who)) for keeper, switch in held]
        paused = [keeper for keeper in keepers if keeper.switch is not None]
        now_ms = keepers[0].parts.clock.now_ms()
        local = [switch.unsent or keeper.known.unanswered for keeper, switch in held]
        kept = await asyncio.gather(
            *(lift(*each, now_ms, local=alone) for each, alone in zip(lifted, local, strict=True))
        )
        written = [why or told_overtaken(keeper) for why, (keeper, _lifted) in zip(kept, lifted, strict=True)]
        keepers[0].parts.published.tell(order.cluster)
        failed = tuple(f"{each}: the pause stays in force; ask again" for each in written if each)
        if all(written):
            raise OrderRefused(Refusal.STORE, "; ".join(failed))
        done = told_resumed(order.cluster, paused, theirs)
        if failed:
            done = OrderDone(f"{done.text}. But {'; '.join(failed)}", undone=(*done.undone, *failed))
        event = event_of_all("resume-all", order, signature, keepers, now_ms, done)
        batch = StoreBatch(events=(event,), answer=_answer(order, signature, event, done))
        with contextlib.suppress(StoreFailed):
            await self._records.write(batch)
        keepers[0].parts.tell(event)
        return done

    # ---- writing

    async def _write(self, keeper: ClusterKeeper, batch: StoreBatch) -> None:
        """Make a batch durable before its consequences."""
        try:
            await keeper.write(batch)
        except StoreFailed as error:
            raise OrderRefused(Refusal.STORE, f"{error}: nothing was changed") from error

    async def _write_after(self, keeper: ClusterKeeper, batch: StoreBatch) -> None:
        """Keep a record of what is done already. If the store refuses, the order is done all the same."""
        try:
            await keeper.write(batch)
        except StoreFailed:
            keeper.tell(batch.events)


def _is_frozen(keeper: ClusterKeeper, topic: str) -> bool:
    return any(fnmatchcase(topic, each) for each in keeper.policy.rails.frozen_topics)


def _answer(order: ServiceOrder, signature: Signature, event: HistoryEvent, done: OrderDone) -> KeyedAnswer | None:
    return KeyedAnswer(signature.key, encode_order(order), event.at_ms, done) if signature.key else None


def _thrown(keeper: ClusterKeeper, signature: Signature, now_ms: int, *, fleet: bool) -> KillSwitch:
    """The kill switch as it is once it is thrown, perhaps again: the first word stays."""
    before, first = keeper.switch, keeper.first_word
    if first is not None:
        return first._replace(fleet=first.fleet or fleet, unsent=True)
    kept = paused_now(keeper) if before is None else before.kept
    return KillSwitch(keeper.name, signature.who, now_ms, signature.comment, kept, fleet=fleet, unsent=True)
