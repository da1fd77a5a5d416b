"""A person's word against a plan: who stops it, rolls it back or declines it does not want it again a moment later.

The word withdraws the intents that asked for the plan, if they were given by orders. Whatever else asked for it (a
condition, an intent of the policy file, the rest of a plan that is stopped in part) would ask again at the next look.
So the scope is held back then, until a person lifts the hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from shunter.core.planning.request import Scope
from shunter.core.wording import named, told_time
from shunter.model.keeper import Condition, GuardRails, Hold, Intents
from shunter.model.service import IntentKind, KeptIntent, KeptProposal, PlannedChange

_MINUTE_MS = 60_000
MOST_COMMENT = 2_000
"""The longest comment of an intent, as that of one order."""
_INTENDED = frozenset(
    each.value for each in (Condition.DRAIN, Condition.REPLACE, Condition.DEMOTE, Condition.ADD, Condition.REPLICATION)
)
"""Conditions that hold because of intents; each has the name of its kind of intent."""
DECLINED, STOPPED, ROLLED_BACK = "declined", "stopped", "rolled back"
_WORDS = (DECLINED, STOPPED, ROLLED_BACK)


class Said(NamedTuple):
    """A person's word: `stopped`, `rolled back` or `declined`."""

    word: str
    who: str
    at_ms: int
    comment: str = ""

    def __str__(self) -> str:
        return f"{self.word} by {self.who}"


class AfterWord(NamedTuple):
    """What follows from a word: intents that are withdrawn, and the hold of a scope, if anything else asks for it."""

    gone: tuple[KeptIntent, ...] = ()
    hold: KeptIntent | None = None

    @property
    def told(self) -> str:
        """The consequence in words: it is said before the word is given."""
        back = [f"{each.kind.value} of {each.about}, which {each.who} asked for" for each in self.gone]
        told = [f"it withdraws {named(back)}"] if back else []
        if self.hold is not None:
            held = f"nothing of scope {self.hold.about} begins by itself until {lifted_by(self.hold.about)}"
            told.append(f"{held}; plans of other scopes may begin, unless the cluster is paused")
        return "; ".join(told)


def lifted_by(scope: str) -> str:
    """The way to lift a hold, in words."""
    return f"`shunter withdraw hold {scope}` lifts that"


def consequence(
    proposal: KeptProposal, said: Said, given: Sequence[KeptIntent], in_file: Intents, *, whole: bool
) -> AfterWord:
    """What follows from a person's word against a plan that was begun.

    Args:
        proposal: With the partitions that it changes.
        said: The word.
        given: The intents that were given by orders.
        in_file: The intents of the policy file, which no order withdraws.
        whole: The word is against the whole plan, not only some of its partitions.
    """
    gone = tuple(each for each in given if _asked(proposal, each)) if whole else ()
    stays = not proposal.conditions or not _INTENDED.issuperset(proposal.conditions)
    stays = stays or any(_asked(proposal, each) for each in _of_file(in_file))
    # The least replication of the policy file is a rule for all topics, and no intent about one of them.
    if Condition.REPLICATION.value in proposal.conditions:
        stays = stays or not {each.topic for each in proposal.changes} <= {each.about for each in gone}
    return AfterWord(gone, again(held(proposal.scope, said), given) if stays or not whole else None)


def held(scope: str, said: Said, minutes: int = 0) -> KeptIntent:
    """The hold of a scope; `minutes` 0: until it is lifted."""
    told = f"{said.word}: {said.comment}" if said.comment else said.word
    return KeptIntent(IntentKind.HOLD, scope, minutes, said.who, said.at_ms, told)


def again(now: KeptIntent, kept: Sequence[KeptIntent]) -> KeptIntent:
    """An intent as it is in force once it is given: if it is already, since then, with the comments of all who gave it."""
    before = next((each for each in kept if each[:2] == now[:2]), None)
    ends = before is not None and now.kind is IntentKind.HOLD and before.value > 0
    if before is None or ends or (now.kind is not IntentKind.HOLD and before.value != now.value):
        return now
    more = now.comment if now.who == before.who else f"{now.who}: {now.comment}"
    told = "; ".join(filter(None, (before.comment, more)))
    return before if now.comment in before.comment or len(told) > MOST_COMMENT else before._replace(comment=told)


def hold_of(intent: KeptIntent) -> Hold:
    """A hold as the guards see it."""
    word, _, comment = intent.comment.partition(": ")
    if word not in _WORDS:
        word, comment = "", intent.comment
    why = f" ({comment})" if comment else ""
    until_ms = intent.at_ms + intent.value * _MINUTE_MS if intent.value else None
    lasts = "" if until_ms is None else f", until {told_time(until_ms)}"
    said = f"held{word and f': {word}'} by {intent.who} at {told_time(intent.at_ms)}{why}{lasts}"
    return Hold(intent.about, f"{said}; {lifted_by(intent.about)}", until_ms)


def held_by_word(scope: Scope, rails: GuardRails, at_ms: int) -> tuple[str, ...]:
    """The words of persons that hold back the plans of a scope, apart from those that a person asks for."""
    return tuple(
        hold.told
        for hold in rails.holds
        if hold.scope == scope.value and (hold.until_ms is None or at_ms < hold.until_ms)
    )


def _asked(proposal: KeptProposal, intent: KeptIntent) -> bool:
    """Whether an intent is one of those that asked for a plan."""
    if intent.kind.value not in proposal.conditions:
        return False
    return any(_is_for(intent, each) for each in proposal.changes)


def _is_for(intent: KeptIntent, change: PlannedChange) -> bool:
    gone, come = set(change.original) - set(change.replicas), set(change.replicas) - set(change.original)
    match intent.kind:
        case IntentKind.DRAIN | IntentKind.REPLACE:
            return int(intent.about) in gone
        case IntentKind.ADD:
            return int(intent.about) in come
        case IntentKind.DEMOTE:
            return change.original[:1] == (int(intent.about),) != change.replicas[:1]
        case IntentKind.REPLICATION:
            return intent.about == change.topic
        case _:
            return False


def _of_file(intents: Intents) -> Iterator[KeptIntent]:
    """The intents of the policy file, in the form of intents that were given by orders."""
    for kind, brokers in (
        (IntentKind.DRAIN, intents.drain),
        (IntentKind.DEMOTE, intents.demote),
        (IntentKind.REPLACE, tuple(intents.replace)),
        (IntentKind.ADD, intents.add),
    ):
        for broker in brokers:
            yield KeptIntent(kind, str(broker), 0, "", 0)
    for topic, factor in intents.replication.items():
        yield KeptIntent(IntentKind.REPLICATION, topic, factor, "", 0)
