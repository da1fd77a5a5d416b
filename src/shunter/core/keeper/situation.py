"""How a cluster stands: one headline from all that is known, what is done, by whom, and which orders would be taken.

Every front end (page, API, command line, metrics, notifications) shows a `ClusterSituation`, and works out nothing itself. The
service refuses orders by the same facts (`why_refused`), so no front end offers an order that would be refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from shunter.core.keeper.cluster_facts import (
    Age,
    ClusterFacts,
    ClusterObservation,
    Held,
    Reach,
    ServiceRole,
    WordsPlace,
)
from shunter.core.wording import counted, told_time
from shunter.model.keeper import MENDED, Condition, Hold
from shunter.model.service import UNBEGUN, KillSwitch, OrderKind, ProposalState, Refusal


class ClusterSeverity(Enum):
    """How bad it is, the worst first. `UNKNOWN`: the cluster was never observed."""

    CRITICAL = "critical"
    WARNING = "warning"
    UNKNOWN = "unknown"
    NOTE = "note"
    OK = "ok"


STATES = ("starting", "ok", "standby", "not-driven", "unreachable", "observing", "unconfirmed")
"""`ClusterSituation.state`. `ok`: this service observes and drives the cluster; `unconfirmed`: who did may do so no longer."""


@dataclass(frozen=True, slots=True)
class ClusterSituation:
    """How a cluster stands. Texts have no ages; times are milliseconds since 1970 UTC."""

    severity: ClusterSeverity
    headline: str
    """The worst that is known."""
    notes: tuple[str, ...]
    """What else is known and `doing` does not say, the worst first."""
    doing: str
    """What is being done, and by whom."""
    state: str
    """One of `STATES`, for programs."""
    role: ServiceRole
    driver: str
    """Who drives the cluster; "": nobody, or it is not known."""
    unclaimed_since_ms: int | None
    """Since when it is not confirmed that who drove the cluster, this service or another one, still does; None: it is."""
    figures: Age
    """Whether figures of brokers, partitions and conditions are current."""
    observed_at_ms: int | None
    """Of when these figures are."""
    moves: Age
    """Whether figures of moves are current."""
    moves_at_ms: int | None
    """Of when figures of moves are; None: of now, or they are not known."""
    orders: tuple[OrderKind, ...]
    """Orders that would be carried out now, and that change something."""
    why_not: str
    """Why other orders would be refused; "": there is nothing that they would change."""
    refusals: dict[str, str]
    """By an order's name: why it can't be given now, if that is another reason."""
    unserved: str
    """Why the service can't do its work for this cluster; "": it can, or another process does."""


def situation(facts: ClusterFacts) -> ClusterSituation:
    """How a cluster stands, from everything that is known about it."""
    found = sorted(_findings(facts), key=lambda each: _RANK[each[0]]) or [(ClusterSeverity.OK, "healthy")]
    (severity, headline), rest = found[0], found[1:]
    seen = facts.observation
    observed_at_ms = None if seen is None else seen.at_ms
    execution = facts.execution
    moves, moves_at_ms = facts.age, observed_at_ms
    if execution is not None:
        doubts = [each for each in (facts.unanswered_since_ms, facts.unclaimed_since_ms) if each is not None]
        moves, moves_at_ms = (Age.OLD, min(doubts)) if doubts else (Age.CURRENT, None)
    elif facts.role is ServiceRole.IDLE and facts.open_moves:
        moves = Age.OLD  # Their steps went on since then.
    refused, doing = why_refused(OrderKind.STOP, facts), _doing(facts)
    why_not = "" if refused is None else refused[1]
    unclaimed_since_ms = facts.unclaimed_since_ms
    driver = {ServiceRole.DRIVES: "this service", ServiceRole.STANDBY: facts.driver}.get(facts.role, "")
    closed = {kind: (_why_closed(kind, facts, whole=False), _why_closed(kind, facts, whole=True)) for kind in OrderKind}
    return ClusterSituation(
        severity=severity,
        headline=headline,
        notes=tuple(text for _severity, text in rest if text not in doing),
        doing=doing,
        state=_state(facts),
        role=facts.role,
        driver=driver if unclaimed_since_ms is None else "",
        unclaimed_since_ms=unclaimed_since_ms,
        figures=facts.age,
        observed_at_ms=observed_at_ms,
        moves=moves,
        moves_at_ms=moves_at_ms,
        orders=tuple(kind for kind, why in closed.items() if None in why),
        why_not=why_not,
        refusals={
            kind.value: named or whole
            for kind, (named, whole) in closed.items()
            if named is not None and whole is not None and (named or whole) not in ("", why_not)
        },
        unserved=_unserved(facts),
    )


def unseen(name: str) -> ClusterSituation:
    """The situation of a cluster before it was observed."""
    return situation(ClusterFacts(name, 0))


def _state(facts: ClusterFacts) -> str:
    if facts.reach is not Reach.ANSWERS:
        return str(facts.reach.value)
    return _ROLES[facts.role] if facts.unclaimed_since_ms is None else "unconfirmed"


def _unserved(facts: ClusterFacts) -> str:
    if facts.reach is Reach.UNSEEN:
        return "not observed yet"
    if facts.reach is Reach.SILENT:
        return f"can't be observed: {facts.reach_why}"
    if facts.stale:
        return "the last observation is old"
    if facts.role is ServiceRole.IDLE:
        return f"not driven: {facts.idle_why or STARTS}"
    if facts.role is ServiceRole.DRIVES and not facts.words.known:
        return f"people's words are not known: {_why_unread(facts)}"
    return ""


def _why_unread(facts: ClusterFacts) -> str:
    silent = f"the cluster does not answer: {facts.reach_why}" if facts.reach is Reach.SILENT else AGAIN
    return facts.words_why or silent


# ---- what is known

_ROLES = {
    ServiceRole.DRIVES: "ok",
    ServiceRole.STANDBY: "standby",
    ServiceRole.IDLE: "not-driven",
    ServiceRole.OBSERVES: "observing",
}
OBSERVED = 'this service only observes: the policy in force says mode = "observe"'
_RANK = {severity: at for at, severity in enumerate(ClusterSeverity)}
LIFTS_IT = "`shunter resume --service SERVICE` lifts the pause"
STARTS = "its executor is being started"
AGAIN = "ask again in a moment"
HERE_ALONE = (
    "this host alone has that, and gives it to the cluster once a broker takes it, if this service drives it then"
)
NOT_KNOWN = "what steps under way do since then is not known, and no other step begins"
_CRITICAL = (Condition.BROKER_DEAD, Condition.LOG_DIR_FAILED, Condition.UNDER_MIN_ISR)
_DEATHS = (Condition.BROKER_DEAD, Condition.LOG_DIR_FAILED)
_CAUSES = {Condition.UNDER_MIN_ISR: _DEATHS, Condition.UNDER_REPLICATED: _DEATHS}
"""Conditions that end with another one, whose plan mends both."""
_ASKED = (Condition.DRAIN, Condition.REPLACE, Condition.REPLICATION, Condition.DEMOTE, Condition.ADD)
_WISHES = (*_ASKED, Condition.BROKER_EMPTY, Condition.MODEL_UNUSED)
"""Conditions that say what is still to be done: nothing is wrong because of them."""


def worst(severities: Iterable[ClusterSeverity]) -> ClusterSeverity:
    """The worst of some severities."""
    return min(severities, key=lambda each: _RANK[each], default=ClusterSeverity.OK)


def severity_of(condition: Condition) -> ClusterSeverity:
    """How bad it is that a condition holds."""
    if condition in _CRITICAL:
        return ClusterSeverity.CRITICAL
    return ClusterSeverity.NOTE if condition in _WISHES else ClusterSeverity.WARNING


def _findings(facts: ClusterFacts) -> Iterator[tuple[ClusterSeverity, str]]:
    """Everything worth telling, each with its severity; in the order in which equals are told."""
    if facts.reach is Reach.SILENT:
        yield ClusterSeverity.CRITICAL, f"does not answer: {facts.reach_why}"
    elif facts.reach is Reach.UNSEEN:
        yield ClusterSeverity.UNKNOWN, "not observed yet"
    elif facts.stale:
        yield ClusterSeverity.WARNING, "the last observation is old"
    if facts.role is ServiceRole.DRIVES and facts.unclaimed_since_ms is not None:
        yield ClusterSeverity.WARNING, _unclaimed(facts.unclaimed_since_ms)
    if facts.lost_pause:
        yield ClusterSeverity.CRITICAL, f"{facts.lost_pause}{_since_lost(facts)}"
    yield from _of_the_service(facts)
    if facts.observation is not None:
        yield from _seen(facts.observation, "" if facts.age is Age.CURRENT else "when last observed, ")
    waiting = sum(each.state is ProposalState.WAITING for each in facts.proposals)
    if waiting:
        told = f"{counted(waiting, 'proposal waits', 'proposals wait')} for approval"
        yield ClusterSeverity.NOTE, told
    for hold in facts.held:
        yield ClusterSeverity.NOTE, _told_hold(hold)
    yield from _of_moves(facts)
    if facts.role is ServiceRole.STANDBY:
        unsure = facts.unclaimed_since_ms is not None
        yield ClusterSeverity.WARNING if unsure else ClusterSeverity.NOTE, _stands_by(facts)
    if facts.role is ServiceRole.OBSERVES:
        yield ClusterSeverity.NOTE, OBSERVED


def _unclaimed(since_ms: int) -> str:
    when = told_time(since_ms, seconds=True)
    return f"the claim of this service is not confirmed since {when}: another one may drive the cluster"


def _since_lost(facts: ClusterFacts) -> str:
    """What became of a pause that never reached the cluster, and what can be done."""
    seen = "`shunter resume --service SERVICE` here takes this message away"
    if facts.role is ServiceRole.STANDBY and facts.unclaimed_since_ms is not None:
        return f", and another service drove it: give it to whoever drives it now; {seen}"
    if facts.role is ServiceRole.STANDBY:
        return f", and another service drives it: give it there; {seen}"
    return f", so it is not in force: pause again, or {seen}"


def _seen(seen: ClusterObservation, when: str) -> Iterator[tuple[ClusterSeverity, str]]:
    if seen.offline:
        yield ClusterSeverity.CRITICAL, f"{when}{counted(seen.offline, 'partition')} offline"
    if seen.under_min_isr:
        yield ClusterSeverity.CRITICAL, f"{when}{counted(seen.under_min_isr, 'partition')} under min ISR"
    empty = frozenset(seen.down_empty)
    holding = [broker for broker in seen.brokers_down if broker not in empty]
    if holding:
        yield ClusterSeverity.CRITICAL, f"{when}broker {', '.join(map(str, holding))} down"
    if empty:
        told = f"{when}broker {', '.join(map(str, seen.down_empty))} down: registered, fenced, without replicas"
        yield (
            ClusterSeverity.WARNING,
            f"{told}; if it is gone for good, end its registration (kafka-cluster unregister)",
        )
    if seen.safe:
        yield ClusterSeverity.NOTE, f"{when}broker {', '.join(map(str, seen.safe))} empty, as intended: safe to remove"
    for told in seen.kept:
        yield ClusterSeverity.NOTE, f"{when}{told}"
    if seen.under_replicated:
        yield ClusterSeverity.WARNING, f"{when}{counted(seen.under_replicated, 'partition')} under-replicated"
    above = {
        Condition.BROKER_DEAD: bool(seen.brokers_down),
        Condition.UNDER_MIN_ISR: seen.under_min_isr > 0,
        Condition.UNDER_REPLICATED: seen.under_replicated > 0,
    }
    counted_above = [condition for condition, told in above.items() if told]
    for severity in (ClusterSeverity.CRITICAL, ClusterSeverity.WARNING, ClusterSeverity.NOTE):
        held = [
            each
            for each in seen.conditions
            if severity_of(each.condition) is severity and each.condition not in counted_above
        ]
        if len(held) == 1:
            yield severity, f"{when}{held[0].text}"
        elif held:
            # No total: figures beside this count all conditions, also those that are told above.
            kinds = Counter(each.condition for each in held)
            told = ", ".join(
                f"{kind.label} ({counted(many, kind.about)})" if many > 1 else kind.label
                for kind, many in kinds.items()
            )
            yield severity, f"{when}conditions hold: {told}"


def _of_the_service(facts: ClusterFacts) -> Iterator[tuple[ClusterSeverity, str]]:
    if facts.role is ServiceRole.IDLE and facts.idle_why and facts.reach is not Reach.SILENT:
        yield ClusterSeverity.WARNING, f"not driven by this service: {facts.idle_why}"
    unread = facts.role is ServiceRole.DRIVES and not facts.words.known
    if (facts.words_why or unread) and facts.reach is not Reach.SILENT:
        yield _of_words(facts)
    paused = facts.paused
    if paused is not None:
        told = told_pause(paused)
        if paused.unsent:
            told = f"{told}: {HERE_ALONE}"
        elif facts.role is ServiceRole.IDLE:
            told = f"{told}, but moves under way only once this service drives the cluster"
        yield ClusterSeverity.WARNING, told
    elif facts.role is ServiceRole.OBSERVES:
        return
    elif facts.switch is not None and not facts.switch.lifted:
        yield (
            ClusterSeverity.NOTE,
            f"the pause of {facts.switch.who} is in force only once this service drives the cluster",
        )
    elif facts.switch is not None and facts.role is not ServiceRole.STANDBY:
        when = "" if facts.role is ServiceRole.DRIVES else " once this service drives the cluster"
        if not when and facts.reach is Reach.SILENT:
            when = " once the cluster answers"
        then = HERE_ALONE if facts.switch.unsent else f"the moves that it paused are resumed{when}"
        yield ClusterSeverity.NOTE, f"{facts.switch.who} lifted the pause: {then}"


def told_pause(switch: KillSwitch) -> str:
    """By whom a cluster is paused, since when, and why."""
    return f"paused by {switch.who} since {told_time(switch.at_ms)}" + (
        f" ({switch.comment})" if switch.comment else ""
    )


def _of_words(facts: ClusterFacts) -> tuple[ClusterSeverity, str]:
    words = "desired state, kill switch, proposals and approvals"
    if facts.words.known:
        # This may be so for ever, and then nothing is wrong with the cluster.
        told = f"{words} live on this host alone, and no other service has them: {facts.words_why}"
        return ClusterSeverity.NOTE, told
    told = f"{words} are not known, so this service only observes and begins nothing: {_why_unread(facts)}"
    return ClusterSeverity.WARNING if facts.words_why else ClusterSeverity.NOTE, told


def _of_moves(facts: ClusterFacts) -> Iterator[tuple[ClusterSeverity, str]]:
    execution, seen = facts.execution, facts.observation
    if execution is not None and execution.open:
        silent = execution.silent_since_ms is not None
        if silent:
            yield ClusterSeverity.WARNING, "the cluster does not answer the executor"
        if execution.stuck:
            why = f": {execution.why_stuck}" if execution.why_stuck else ""
            could = "could not end when last observed" if silent else "can't end now"
            yield ClusterSeverity.WARNING, f"{counted(execution.stuck, 'move')} {could}{why}"
        yield ClusterSeverity.NOTE, f"{counted(execution.open, 'move')} open"
    elif facts.open_moves:
        yield ClusterSeverity.NOTE, f"{counted(facts.open_moves, 'move')} of the journal open when last observed"
    if seen is not None and seen.external:
        yield ClusterSeverity.NOTE, f"{counted(seen.external, 'move')} of other tools under way when last observed"
    if seen is not None and seen.unattributed:
        told = f"{counted(seen.unattributed, 'move')} under way when last observed"
        yield ClusterSeverity.WARNING, f"{told}: the journal can't be read, so it is not known whose"


def stand_told(stands: ClusterSituation, of: str = "") -> dict[str, str]:
    """How a cluster stands, as an event and its notification say it; `of`: a prefix that names the cluster."""
    return {
        "severity": stands.severity.value,
        "situation": f"{of}{stands.headline}",
        "doing": f"{of}{stands.doing}",
    }


# ---- what is being done


def _doing(facts: ClusterFacts) -> str:
    if facts.role is ServiceRole.DRIVES:
        told = _driving(facts)
        return "; ".join([told, *dict.fromkeys(_heals(facts, told))])
    opened = counted(facts.open_moves, "move") if facts.open_moves else ""
    if facts.role is ServiceRole.STANDBY:
        theirs = f"; {opened} of the journal open when last observed" if opened else ""
        return f"{_stands_by(facts)}{theirs}; this service takes over once that process has ended"
    if facts.role is ServiceRole.OBSERVES:
        told = f"{OBSERVED}, and does not ask who drives or paused the cluster"
        return f"{told}; {opened} of the journal open when last observed" if opened else told
    # The headline says why the cluster does not answer.
    silent = facts.reach is Reach.SILENT and facts.idle_why == facts.reach_why
    told = f"this service does not drive the cluster{', which does not answer' if silent else f': {facts.idle_why or STARTS}'}"
    if not opened:
        return told
    answers = facts.reach is Reach.ANSWERS
    then = "steps under way go on, and this service begins no other" if answers else f"{NOT_KNOWN} here"
    when = "" if facts.observation is None else f" ({told_time(facts.observation.at_ms)})"
    return f"{told}; {opened} of the journal open when last observed{when}: {then}"


def _stands_by(facts: ClusterFacts) -> str:
    if facts.unclaimed_since_ms is None:
        return f"this service stands by: {facts.driver} drives the cluster"
    when = told_time(facts.unclaimed_since_ms, seconds=True)
    return f"this service stands by: {facts.driver} drove the cluster at {when}, and whether it still does is not known"


def _driving(facts: ClusterFacts) -> str:
    unless = "" if facts.unclaimed_since_ms is None else "unless another service drives the cluster now, "
    return f"{unless}{_carrying_out(facts)}"


def _carrying_out(facts: ClusterFacts) -> str:
    execution, paused = facts.execution, facts.paused
    if execution is not None and execution.open:
        verb = "is" if execution.open == 1 else "are"
        opened = f"{counted(execution.open, 'move')} of {_purpose(facts)} {verb}"
        if execution.silent_since_ms is not None:
            by = "" if paused is None else f", and {paused.who} paused the cluster as a whole"
            when = told_time(execution.silent_since_ms)
            return f"{opened} open{by}; the cluster has not answered the executor since {when}: {NOT_KNOWN}"
        if execution.paused == execution.open and facts.switch is not None and facts.switch.lifted:
            return f"{opened} being resumed"
        if execution.paused == execution.open:
            by = "" if paused is None else f" by {paused.who}"
            if execution.copying:
                goes_on = counted(
                    execution.copying, "copy under way ends by itself", "copies under way end by themselves"
                )
                return f"no step begins: {opened} paused{by}; {goes_on}, slowly"
            return f"nothing moves: {opened} paused{by}"
        if paused is not None:
            return f"{opened} being paused by {paused.who}"
        some = f", {execution.paused:,} of them paused" if execution.paused else ""
        does = {execution.back: "rolls back", execution.stopping: "stops"}.get(execution.open, "carries out")
        return f"this service {does} {_purpose(facts)}: {counted(execution.open, 'move')} open{some}"
    if paused is not None:
        return f"this service moves nothing, and nothing begins: paused by {paused.who}"
    if execution is None:
        return "this service has just begun to drive the cluster, and reads its journal"
    starting = next((each for each in facts.proposals if each.state is ProposalState.STARTING), None)
    if starting is not None:
        return f"this service begins {starting.id}"
    if facts.reach is Reach.SILENT:
        return "this service moves nothing, and nothing begins before the cluster answers"
    coming = next((each for each in facts.proposals if each.state is ProposalState.APPROVED), None)
    if coming is not None:
        held = f": {'; '.join(coming.held_back)}" if coming.held_back else ""
        return f"this service moves nothing; {coming.id} begins once nothing holds it back{held}"
    scopes = {each.scope for each in (() if facts.observation is None else facts.observation.conditions)}
    holds = [_told_hold(hold) for hold in facts.held if hold.scope in scopes]
    kept_back = {hold.scope for hold in facts.held}
    seen = () if facts.observation is None else facts.observation.conditions
    comes = dict.fromkeys(each.comes for each in seen if each.comes and each.scope not in kept_back)
    return "; ".join(["this service moves nothing", *comes, *holds])


def _heals(facts: ClusterFacts, told: str) -> Iterator[str]:
    """What is done about data at risk and people's wishes, or what that waits for, where nothing else says it."""
    seen = facts.observation
    for each in () if seen is None or facts.age is not Age.CURRENT else seen.conditions:
        told_here = severity_of(each.condition) is ClusterSeverity.CRITICAL or each.condition in _ASKED
        if each.condition not in MENDED or not told_here:
            continue
        named = any(made.id in told and each.condition.value in made.conditions for made in facts.proposals)
        if (
            not named
            and each.scope not in {hold.scope for hold in facts.held}
            and not (each.comes and each.comes in told)
        ):
            yield f"{each.condition.label}: {doing_about(each, facts)}"


def _told_hold(hold: Hold) -> str:
    return f"scope {hold.scope} is {hold.told}"


def _purpose(facts: ClusterFacts) -> str:
    proposal = facts.carried_out
    return "a plan that was handed in" if proposal is None else f"{proposal.id}"


def doing_about(held: Held, facts: ClusterFacts) -> str:
    """What is being done about a condition that holds."""
    condition = held.condition
    if condition not in MENDED:
        seen = () if facts.observation is None else facts.observation.conditions
        cause = next((each for each in seen if each.condition in _CAUSES.get(condition, ())), None)
        if cause is None:
            return "no plan mends this"
        return f"where the cause is {cause.condition.label}: {doing_about(cause, facts)}"
    if facts.role is ServiceRole.STANDBY:
        return f"decided by who drives the cluster, by its own observations: {facts.driver}"
    if facts.role is ServiceRole.OBSERVES:
        return OBSERVED
    running, execution = facts.carried_out, facts.execution
    if running is not None and condition.value in running.conditions:
        return f"being mended: {_driving(facts)}"
    for each in facts.proposals:
        if condition.value in each.conditions:
            told = {
                ProposalState.WAITING: "waits for approval",
                ProposalState.APPROVED: f"{'is approved and ' if each.votes else ''}begins once nothing holds it back",
                ProposalState.STARTING: "is being begun",
            }.get(each.state, "has begun")
            held_back = f": {'; '.join(each.held_back)}" if each.held_back and each.state in UNBEGUN else ""
            if each.state not in UNBEGUN and facts.role is not ServiceRole.DRIVES:
                told = f"has begun, and this service does not carry it out: {facts.idle_why or STARTS}"
            return f"proposal {each.id} {told}{held_back}"
    for hold in facts.held:
        if hold.scope == held.scope:
            return hold.told
    if execution is not None and execution.open:
        return f"a plan for this has to wait for the end of {counted(execution.open, 'open move')}"
    return "; ".join(held.why_no_plan) or "a plan is proposed after the next observation"


# ---- orders

_TURNS = (OrderKind.STOP, OrderKind.PAUSE, OrderKind.RESUME, OrderKind.ROLL_BACK, OrderKind.LIMIT)
WITHOUT_WORDS = (*_TURNS, OrderKind.CLEAR_THROTTLES)
"""Orders to moves under way: nothing of them is a word that has to be kept. (The kill switch is one.)"""


def _why_closed(kind: OrderKind, facts: ClusterFacts, *, whole: bool) -> str | None:
    """Why an order can't be given now; "": it would change nothing; None: it can. `whole`: a pause or resume of all."""
    refused = why_refused(kind, facts, whole=whole)
    if refused is not None:
        return refused[1]
    turns_all = whole and kind in (OrderKind.PAUSE, OrderKind.RESUME)
    if facts.store_trouble and not (turns_all and kind is OrderKind.PAUSE):
        return facts.store_trouble
    if not facts.words.known and not turns_all:
        return f"people's words about {facts.name} can't be kept now: {_why_unread(facts)}"
    return None if _changes(kind, facts, whole=whole) else ""


def why_refused(kind: OrderKind, facts: ClusterFacts, *, whole: bool = False) -> tuple[Refusal, str] | None:
    """Why an order of this kind can't be carried out here now, whatever it is about; None: it can, as far as is known.

    Args:
        kind: The order's kind.
        facts: How the cluster stands.
        whole: A pause or resume is of the cluster as a whole: the kill switch.
    """
    name = facts.name
    throws, lifts = whole and kind is OrderKind.PAUSE, whole and kind is OrderKind.RESUME
    if lifts and facts.lost_pause and facts.not_paused:
        return None  # It says that its message was seen.
    if facts.role is ServiceRole.STANDBY:
        since_ms = facts.unclaimed_since_ms
        driven = "is driven" if since_ms is None else f"was driven at {told_time(since_ms, seconds=True)}"
        doubt = "" if since_ms is None else ", or here once `shunter serve status` says that this service drives it"
        told = f"{name} {driven} by {facts.driver}, and this service stands by: give the order there{doubt}"
        return Refusal.STANDBY, told
    if facts.role is ServiceRole.OBSERVES:
        way_out = 'write mode = "keep" into the policy file first'
        return Refusal.NOT_ALLOWED, f"{name} is only observed: {facts.policy_trouble or way_out}"
    if facts.store_lost and not throws:
        return Refusal.STORE, facts.store_trouble
    if throws and facts.unsure:
        told = f"not taken yet: another service may drive {name}: {facts.idle_why or STARTS}; {AGAIN}"
        return Refusal.UNREACHABLE, told
    kept_here = lifts and facts.switch is not None and (facts.switch.unsent or facts.unanswered)
    if not facts.words.known and not kept_here and (lifts or kind not in WITHOUT_WORDS):
        way_out = "; ask again once `shunter serve status` does not say so any more" if facts.words_why else ""
        return Refusal.STORE, f"people's words about {name} are not read yet: {_why_unread(facts)}{way_out}"
    if lifts:
        return _not_resumed(facts)
    if facts.reach is Reach.SILENT and facts.words is WordsPlace.TAKEN and kind not in WITHOUT_WORDS:
        return Refusal.UNREACHABLE, f"{name} does not answer, and people's words are kept there: {facts.reach_why}"
    if kind in _TURNS and not throws and facts.role is ServiceRole.IDLE:
        return Refusal.UNREACHABLE, f"this service does not drive {name} now: {facts.idle_why or STARTS}"
    if kind is OrderKind.RESUME and facts.paused is not None:
        told = f"{name} is paused as a whole by {facts.paused.who}, so nothing goes on: {LIFTS_IT}"
        return Refusal.NOT_ALLOWED, told
    if kind is OrderKind.PROPOSE or kind is OrderKind.CLEAR_THROTTLES:
        unobserved = why_unobserved(facts)
        if unobserved is not None:
            return unobserved
    seen = facts.observation
    moving = facts.open_moves + (0 if seen is None else seen.external + seen.unattributed)
    if kind is OrderKind.CLEAR_THROTTLES and moving:
        told = f"{counted(moving, f'partition of {name} is', f'partitions of {name} are')} being moved"
        return Refusal.NOT_ALLOWED, f"{told}: these moves may need the throttles"
    return None


def why_unobserved(facts: ClusterFacts) -> tuple[Refusal, str] | None:
    """Why nothing can be planned by the last observation; None: it can."""
    if facts.reach is Reach.SILENT:
        return Refusal.UNREACHABLE, f"{facts.name} can't be observed now: {facts.reach_why}"
    return (Refusal.UNREACHABLE, f"{facts.name} was not observed yet") if facts.observation is None else None


def _not_resumed(facts: ClusterFacts) -> tuple[Refusal, str] | None:
    if facts.paused is None:
        return Refusal.ALREADY_DECIDED, f"{facts.name} is not paused"
    if facts.fleet_paused:
        told = f"the whole fleet is paused by {facts.paused.who}: resume the whole fleet"
        return Refusal.NOT_ALLOWED, told
    return None


def _changes(kind: OrderKind, facts: ClusterFacts, *, whole: bool) -> bool:
    """Whether an order that is not refused would change anything."""
    if whole and kind is OrderKind.PAUSE:
        return facts.paused is None
    if whole and kind is OrderKind.RESUME:
        return True
    execution = facts.execution
    opened, paused = (0, 0) if execution is None else (execution.open, execution.paused)
    states = {each.state for each in facts.proposals}
    changes = {
        OrderKind.APPROVE: ProposalState.WAITING in states,
        OrderKind.DECLINE: not states.isdisjoint(UNBEGUN),
        OrderKind.STOP: opened > 0,
        OrderKind.PAUSE: opened > paused,
        OrderKind.RESUME: paused > 0,
        OrderKind.ROLL_BACK: opened > 0,
        OrderKind.LIMIT: opened > 0,
        OrderKind.CLEAR_THROTTLES: facts.observation is not None and facts.observation.throttles_left > 0,
    }
    return changes.get(kind, True)
