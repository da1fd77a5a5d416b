"""Which orders are taken here, what one would do before it is given, and what its answer says of each cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from shunter.app.executor.order_costs import Again
from shunter.app.service.driving import Driving
from shunter.app.service.keeping import ClusterKeeper
from shunter.app.service.words import AGAINST
from shunter.core.keeper.cluster_facts import ServiceRole, WordsPlace
from shunter.core.keeper.situation import (
    STARTS,
    WITHOUT_WORDS,
    situation,
    stand_told,
    told_pause,
    why_refused,
    why_unobserved,
    worst,
)
from shunter.core.keeper.wishes import PLANNED
from shunter.core.keeper.words import Said
from shunter.core.wording import counted, named, told_bytes, told_time
from shunter.drivers.service.store import StoreFailed
from shunter.errors import ShunterError
from shunter.model.execution import Command, CommandKind
from shunter.model.keeper import Condition, KeeperPolicy
from shunter.model.service import (
    UNANSWERED,
    HistoryEvent,
    IntentKind,
    KillSwitch,
    OrderDone,
    OrderKind,
    OrderRefused,
    Refusal,
    ServiceOrder,
    Signature,
    StoreBatch,
)
from shunter.views.execution import OPEN_STATES
from shunter.views.service import EXTERNAL, OrderPreview

_PREVIEWS = {
    OrderKind.STOP: "{} would end here: replicas in sync stay, and unfinished copies are deleted",
    OrderKind.PAUSE: "{} would be paused: no further step begins, and copies stand still",
    OrderKind.RESUME: "{} would go on, if paused",
    OrderKind.ROLL_BACK: "{} would be rolled back to the original replicas",
}
PLANNED_WITHIN_S = 5.0
"""How long the answer to an intent waits for its plan."""
_PLANNED_AT_ONCE = (IntentKind.DRAIN, IntentKind.DEMOTE)
_TOLD_UNDONE = 3


def preview_of_switch(
    order: ServiceOrder, keepers: Sequence[ClusterKeeper], theirs: Sequence[ClusterKeeper]
) -> OrderPreview:
    """What the kill switch, or lifting it, would do."""
    pausing = order.kind is OrderKind.PAUSE
    told = (told_paused if pausing else told_resumed)(order.cluster, keepers, theirs).text
    moving = [each for each in keepers if each.driving is not None] if pausing else []
    found = [driven(each).price(Command(CommandKind.PAUSE)) for each in moving]
    return _preview(f"Then {told}", sum(each.facts().open_moves for each in moving), found, kept=pausing)


def preview_of_turn(kind: OrderKind, keeper: ClusterKeeper, command: Command) -> OrderPreview:
    """What an order to some moves, or to all, would do.

    Raises:
        OrderRefused: the order would be refused.
    """
    see_taken(kind, keeper)
    wanted = set(map(str, command.partitions))
    view = keeper.known.execution or driven(keeper).view()
    rows = [row for row in view.moves if row.state in OPEN_STATES and (not wanted or row.partition in wanted)]
    if not rows:
        why = "all moves named have ended" if wanted else "no move is open"
        raise OrderRefused(
            Refusal.NOT_ALLOWED, f"nothing of this journal is under way: {why}{told_of_others(keeper, wanted)}"
        )
    told = _PREVIEWS[kind].format(counted(len(rows), "open move"))
    found = _preview(told, len(rows), [driven(keeper).price(command)], kept=kind is OrderKind.PAUSE)
    done = sum(row.state == "done" for row in view.moves)
    if kind is OrderKind.ROLL_BACK and rows and done and not wanted:
        ended = counted(done, "move that has ended stays", "moves that have ended stay")
        found = replace(found, text=f"{found.text}. {ended}; `shunter undo` takes back what was done")
    follows = told_after(kind, keeper, tuple(map(str, command.partitions)))
    return replace(found, text=f"{found.text}. {follows[0].upper()}{follows[1:]}") if follows else found


def others_of(keeper: ClusterKeeper, wanted: Collection[str]) -> list[str]:
    """The partitions among these (none named: all) that other tools moved when last observed."""
    seen = [each.partition for each in keeper.known.attributed if each.whose == EXTERNAL]
    return [each for each in seen if not wanted or each in wanted]


def told_of_others(keeper: ClusterKeeper, wanted: Collection[str]) -> str:
    """That other tools move these partitions (none named: any), to be put behind "nothing is under way"; "": they don't."""
    theirs = others_of(keeper, wanted)
    if not theirs:
        return ""
    verb = "was" if len(theirs) == 1 else "were"
    return (
        f"; {counted(len(theirs), 'move')} of other tools {verb} under way when last observed ({named(sorted(theirs))}):"
        " `shunter rollback` without `--service` cancels such moves"
    )


def told_after(kind: OrderKind, keeper: ClusterKeeper, partitions: Sequence[str]) -> str:
    """What an order about these partitions (none named: all) would mean for later plans; "": nothing."""
    proposal, whole = keeper.turning(partitions)
    if proposal is None or kind not in AGAINST:
        return ""
    return keeper.against(proposal, Said(AGAINST[kind], "", 0), whole=whole).told


def taken_for(
    order: ServiceOrder, keepers: Mapping[str, ClusterKeeper]
) -> tuple[list[ClusterKeeper], list[ClusterKeeper]]:
    """Clusters for which this service takes an order to one or to all of them, and those that others drive.

    Raises:
        OrderRefused: it takes the order for none.
    """
    if order.cluster:
        keeper = keepers[order.cluster]
        see_taken(order.kind, keeper, whole=True)
        return [keeper], []
    pausing = order.kind is OrderKind.PAUSE
    theirs = [
        each
        for each in keepers.values()
        if each.facts().role in (ServiceRole.STANDBY, ServiceRole.OBSERVES) or (pausing and each.facts().unsure)
    ]
    mine = [each for each in keepers.values() if each not in theirs]
    if not mine:
        unsure = any(each.facts().unsure for each in theirs)
        raise OrderRefused(Refusal.UNREACHABLE if unsure else Refusal.STANDBY, "; ".join(told_theirs(theirs)))
    return mine, theirs


def see_taken(kind: OrderKind, keeper: ClusterKeeper, *, whole: bool = False) -> None:
    """Refuse an order that can't be carried out here, by the same facts that every front end shows.

    Raises:
        OrderRefused: as `why_refused` says.
    """
    refused = why_refused(kind, keeper.facts(), whole=whole)
    if refused is not None:
        raise OrderRefused(*refused)


def told_alone(order: ServiceOrder, keepers: Mapping[str, ClusterKeeper]) -> str:
    """That an order is on this host alone, so that it is lost with it, and why; "": the cluster has it."""
    if order.kind in WITHOUT_WORDS and not order.is_switch:
        return ""
    shared = (keeper.shared for name, keeper in keepers.items() if order.cluster in ("", name))
    why = next((each.why for each in shared if each is not None and each.place is WordsPlace.ALONE), "")
    return f"this host alone has that, until the cluster takes it ({why})" if why else ""


def kept_here(theirs: Sequence[ClusterKeeper]) -> list[ClusterKeeper]:
    """Clusters that others drive, and whose words live on this host alone: this service may keep words about them."""
    return [each for each in theirs if each.words_known and not each.policy.observes]


def told_theirs(theirs: Sequence[ClusterKeeper]) -> list[str]:
    """Clusters that an order to the fleet leaves out, a sentence each."""
    return [_told_one_of_theirs(each) for each in theirs]


def _told_one_of_theirs(keeper: ClusterKeeper) -> str:
    facts = keeper.facts()
    if facts.role is not ServiceRole.STANDBY and not facts.unsure:
        return f"not {keeper.name}, which is only observed"
    refused = why_refused(OrderKind.PAUSE, facts, whole=True)
    return f"not {keeper.name}" if refused is None else refused[1]


def told_paused(cluster: str, keepers: Sequence[ClusterKeeper], theirs: Sequence[ClusterKeeper]) -> OrderDone:
    """What the kill switch does: nothing begins, and moves that this service drives now are paused."""
    kept = [_told_kept(each, why) for each, why in _not_driven(keepers)]
    doubts = {each.name: each.facts().unclaimed_since_ms for each in keepers if each.driving is not None}
    kept += [_told_doubted(name, since_ms) for name, since_ms in doubts.items() if since_ms is not None]
    driven_here = [name for name, since_ms in doubts.items() if since_ms is None]
    where = cluster or (", ".join(driven_here) if kept or theirs else "the fleet")
    told = f"{where} is paused: nothing begins, and moves under way are being paused"
    others = {each.name: len(others_of(each, ())) for each in keepers}
    if any(others.values()):
        told += f"; not those of other tools, {sum(others.values()):,} when last observed"
    first = [(each.name, each.first_word) for each in keepers]
    again = [f"{name} is already {told_pause(word)}, and that stays" for name, word in first if word is not None]
    return _done([*([told] if driven_here else []), *again], kept, theirs)


def _done(told: list[str], late: list[str], theirs: Sequence[ClusterKeeper]) -> OrderDone:
    """The answer to an order to some clusters, of which some carry it out late, or not.

    A cluster that is only observed is named, and is not undone: this service moves nothing there.
    """
    left = told_theirs([each for each in theirs if each.facts().role is not ServiceRole.OBSERVES])
    return OrderDone("; ".join([*told, *late, *told_theirs(theirs)]), undone=(*late, *left))


_GIVEN_LATER = "given to the cluster once a broker takes it, if this service drives it then; if another one does, that is told here"


def _told_kept(keeper: ClusterKeeper, why: str) -> str:
    """What a pause means for a cluster that is not driven now."""
    name = keeper.name
    if not keeper.words_known:
        return f"the pause of {name} is kept on this host, and {_GIVEN_LATER}: {why}"
    return f"the pause of {name} is kept, and its moves under way are paused once this service drives it: {why}"


def told_late(name: str) -> str:
    """The answer to an order to moves that the executor has not answered in time."""
    told = f"{name} does not answer its executor now: the order is done once it does, unless another service drives it then"
    return f"{told}; the history says what becomes of it"


async def tell_if_lost(keeper: ClusterKeeper, carrying: asyncio.Task[OrderDone], event: HistoryEvent) -> None:
    """Tell if an order that had no answer in time never gets one, or is refused then."""
    try:
        await carrying
    except ShunterError as error:
        about = f"the {event.kind} of {event.who} ({event.subject})"
        told = f"{about} is not carried out, as far as is known: {error}"
        await keeper.note(keeper.event(UNANSWERED, told, event.subject, event.who))


def _told_doubted(name: str, since_ms: int) -> str:
    """What a pause means for a cluster of which it is not confirmed that this service still drives it."""
    doubt = f"its claim is not confirmed since {told_time(since_ms, seconds=True)}, so another one may drive {name}"
    return f"this service moves nothing in {name} any more, and {doubt}: look whether one does, and give the order there too"


def paused_now(keeper: ClusterKeeper) -> tuple[str, ...]:
    """The partitions whose moves are paused: without a kill switch, those that people paused by name."""
    driving = keeper.driving
    return () if driving is None else tuple(row.partition for row in driving.view().moves if row.state == "paused")


def told_not_paused(where: str, keepers: Sequence[ClusterKeeper]) -> str:
    """That there is no pause to lift, as far as that is known here."""
    unsure = named(each.name for each in keepers if not each.facts().not_paused)
    lifted = [(each.name, each.switch.who) for each in keepers if each.switch is not None and each.switch.lifted]
    if lifted:
        told = "; ".join(f"the pause of {name} was lifted already, by {who}" for name, who in lifted)
        return f"{told}: its moves go on as soon as the executor of each is answered"
    by_name = [each.name for each in keepers if each.switch is None and paused_now(each)]
    if by_name:
        way = f"`shunter resume --service SERVICE --cluster {by_name[0]}` resumes those"
        return f"{where} is not paused; moves of {named(by_name)} were paused by name: {way}"
    if not unsure:
        return f"{where} is not paused"
    return (
        f"{where} was not paused when this service last read that, and whoever drives {unsure} may have paused it since"
    )


_MAY_BE = "; whoever drives it now may have paused it since"


def told_resumed(cluster: str, keepers: Sequence[ClusterKeeper], theirs: Sequence[ClusterKeeper]) -> OrderDone:
    """What lifting the kill switch did."""
    alone = [each for each in keepers if each.switch is not None and each.switch.unsent]
    late = [_told_lifted_here(each) for each in alone]
    late += [
        f"moves of {each.name} are resumed once this service drives it: {why}{_MAY_BE if each.shared is not None else ''}"
        for each, why in _not_driven(keepers)
        if each not in alone
    ]
    names = ", ".join(each.name for each in keepers if each not in alone)
    where = cluster or ("the fleet" if not theirs and not alone else names)
    told = f"the pause of {where} is lifted; moves that were paused by name stay paused"
    return _done([told] if names else [], late, theirs)


def told_overtaken(keeper: ClusterKeeper) -> str:
    """That a pause came in while another one was lifted, from here or from the service that drives; "": none did."""
    switch = keeper.switch
    return "" if switch is None or switch.lifted else f"{keeper.name}: {told_pause(switch)}"


def _told_lifted_here(keeper: ClusterKeeper) -> str:
    why = "the cluster does not take it now" if keeper.driving is not None else keeper.facts().idle_why or STARTS
    return f"that the pause of {keeper.name} is lifted is kept on this host, and {_GIVEN_LATER}: {why}"


def _not_driven(keepers: Sequence[ClusterKeeper]) -> list[tuple[ClusterKeeper, str]]:
    return [(each, each.facts().idle_why or STARTS) for each in keepers if each.driving is None]


def _preview(told: str, moves: int, found: Sequence[Again], *, kept: bool) -> OrderPreview:
    """Add to a sentence what is copied again; `kept`: say of nothing that copied data is kept."""
    again = sum(each.bytes for each in found)
    if again:
        most = "At most " if any(each.at_most for each in found) else ""
        why = "; ".join(dict.fromkeys(each.why for each in found if each.why))
        told = f"{told}. {most}{told_bytes(again)} are copied again: {why}"
    elif moves:
        told = f"{told}. {'Copied data is kept' if kept else 'Nothing is copied again'}"
    return OrderPreview(told, moves, again)


def told_later(policy: KeeperPolicy, kind: IntentKind) -> str:
    """When an intent is planned, or that nothing plans it by itself."""
    if kind not in PLANNED or policy.proposes(Condition(kind.value)):
        return "the next observation plans it"
    return "the policy only lets that be reported, so nothing plans it by itself: `shunter propose` does"


async def told_undone(keeper: ClusterKeeper, order: ServiceOrder, who: str) -> str:
    """What a plan for an intent would leave undone, or why there is none, as far as that is known soon; "": nothing."""
    kind = order.intent
    if kind not in _PLANNED_AT_ONCE or why_unobserved(keeper.facts()) is not None:
        return ""
    if not keeper.policy.proposes(Condition(kind.value)):
        return ""
    try:
        async with asyncio.timeout(PLANNED_WITHIN_S):
            undone = (await keeper.sketch(order, who)).undone
    except OrderRefused as refused:
        return f". Its plan now: {refused}"
    except (ShunterError, TimeoutError):
        return ". What its plan leaves undone is told with the proposal"
    more = f"; and {len(undone) - _TOLD_UNDONE:,} more" if len(undone) > _TOLD_UNDONE else ""
    return f". Its plan would leave undone: {'; '.join(undone[:_TOLD_UNDONE])}{more}" if undone else ""


def going_on(keeper: ClusterKeeper, intents: Collection[IntentKind]) -> str:
    """That moves under way for intents that are withdrawn go on; "": there are none."""
    facts = keeper.facts()
    running = facts.carried_out
    if running is None or not any(each.value in running.conditions for each in intents):
        return ""
    moves = counted(facts.open_moves, "move")
    return f"; {moves} of {running.id} under way for it go on: `shunter stop` or `shunter rollback` ends them"


def driven(keeper: ClusterKeeper) -> Driving:
    """The cluster's executor.

    Raises:
        OrderRefused: this service does not drive the cluster now.
    """
    if keeper.driving is None:
        why = keeper.facts().idle_why or STARTS
        raise OrderRefused(Refusal.UNREACHABLE, f"this service does not drive {keeper.name} now: {why}")
    return keeper.driving


def event_of_all(
    kind: str, order: ServiceOrder, signature: Signature, keepers: Sequence[ClusterKeeper], now_ms: int, done: OrderDone
) -> HistoryEvent:
    """The event of an order to all clusters, or to one as a whole, with how the worst of them stands."""
    stands = [(each.name, situation(each.facts())) for each in keepers]
    worst_of_all = worst(each.severity for _name, each in stands)
    name, stand = next((name, each) for name, each in stands if each.severity is worst_of_all)
    facts = stand_told(stand, f"{name}: " if len(keepers) > 1 else "")
    text = f"{signature.who}: {done.text}"
    return HistoryEvent(0, order.cluster, now_ms, kind, text, "", signature.who, signature.comment, facts=facts)


async def lift(keeper: ClusterKeeper, lifted: KillSwitch, now_ms: int, *, local: bool) -> str:
    """Lift a cluster's switch once that is durable; returns why it is not. `local`: this host may keep that."""
    turn = keeper.turns
    try:
        await keeper.keep(StoreBatch(switches=(lifted,)), now_ms)
    except StoreFailed as error:
        if not local:
            return f"{keeper.name}: {error}"
        lifted = lifted._replace(unsent=True)
        try:
            await keeper.records.write(StoreBatch(switches=(lifted,)))
        except StoreFailed as trouble:
            return f"{keeper.name}: {trouble}"
    if keeper.turns == turn:  # Else it was thrown again meanwhile, and that is written after this.
        keeper.turn(lifted)
    keeper.lift()
    keeper.show()
    return ""


async def pause_moves(keeper: ClusterKeeper, switch: KillSwitch) -> tuple[str, bool]:
    """Pause what moves in a cluster; returns what came of it, and whether it is done."""
    try:
        told = await keeper.pause_what_moves(switch)
    except ShunterError as error:
        return f"{keeper.name}: {error}; it is paused as soon as the service drives it again", False
    return f"{keeper.name}: {told}", keeper.driving is not None
