"""Events of a cluster's history: of a proposal's change, and of what other services did, as far as the words tell it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from shunter.core.wording import counted, told_bytes
from shunter.model.service import HistoryEvent, KeptIntent, KeptProposal, OrderKind, ProposalState, Words

_READ = {"source": "read from the cluster's topic of people's words"}


def told_proposal(before: KeptProposal | None, now: KeptProposal) -> tuple[str, str] | None:
    """The kind and the text of a proposal's change; None: its state is the same. `before` None: it is new."""
    if before is None:
        what = f"{counted(now.moves, 'replica')} to copy, {told_bytes(now.bytes)}"
        return "proposed", f"{now.id} proposed. {now.scope}: {what}: {'; '.join(now.reasons)}"
    if before.state is now.state:
        return None
    told = f": {now.outcome}" if now.outcome else ""
    return f"proposal-{now.state.value}", f"{now.id} is {now.state.told}{told}"


def told_begun(proposal: KeptProposal) -> str:
    """The text of the event `begun`, which tells that a proposal is being handed to the executor."""
    return f"{proposal.id} is begun"


def told_words(cluster: str, before: Words, after: Words, now_ms: int, writer: str = "") -> tuple[HistoryEvent, ...]:
    """What other services did, by the words that this host knew and those that the cluster has, the oldest first.

    Of a word that was withdrawn the cluster has no time: its event is of now, and says so. `writer`: the service that
    wrote the words, if it is known.
    """
    found = [*_of_proposals(before.proposals, after.proposals), *_of_intents(before.intents, after.intents, now_ms)]
    if after.switch is not None and (before.switch is None or before.switch.at_ms != after.switch.at_ms):
        switch = after.switch
        told = f"{switch.who}: {'the fleet' if switch.fleet else cluster} is paused"
        found.append(HistoryEvent(0, cluster, switch.at_ms, "pause-all", told, "", switch.who, switch.comment))
    was, paused = (each.switch is not None and not each.switch.lifted for each in (before, after))
    if was and not paused:
        who = "" if after.switch is None else after.switch.who
        lifted = (
            f"{who} lifted the pause" if who else f"the pause was lifted by {writer or 'the process that took over'}"
        )
        told = f"{lifted}; seen now, for the cluster has no time of it"
        found.append(HistoryEvent(0, cluster, now_ms, "resume-all", told, "", who))
    found.sort(key=lambda each: each.at_ms)
    return tuple(replace(each, cluster=cluster, facts=_READ) for each in found)


def _of_proposals(before: Sequence[KeptProposal], after: Sequence[KeptProposal]) -> Iterator[HistoryEvent]:
    known = {each.id: each for each in before}
    for now in after:
        was = known.get(now.id)
        if was is None:
            kind, text = told_proposal(None, now) or ("", "")
            yield HistoryEvent(0, "", now.made_at_ms, kind, text, now.id)
        for vote in now.votes[0 if was is None else len(was.votes) :]:
            kind, told = ("approve", "approved") if vote.approves else ("decline", "declined")
            yield HistoryEvent(0, "", vote.at_ms, kind, f"{vote.who} {told} {now.id}", now.id, vote.who, vote.comment)
        change = told_proposal(replace(now, state=ProposalState.WAITING) if was is None else was, now)
        begins = now.state in (ProposalState.STARTING, ProposalState.RUNNING)
        if begins and change is not None and (was is None or was.state is not ProposalState.STARTING):
            yield HistoryEvent(0, "", now.changed_at_ms, "begun", told_begun(now), now.id)
        if change is not None and now.state is not ProposalState.STARTING:
            yield HistoryEvent(0, "", now.changed_at_ms, *change, now.id)


def _of_intents(before: Sequence[KeptIntent], after: Sequence[KeptIntent], now_ms: int) -> Iterator[HistoryEvent]:
    for each in after:
        if each not in before:
            told = f"{each.who}: {each.kind.value} {each.about}" + (f" ({each.value})" if each.value else "")
            yield HistoryEvent(0, "", each.at_ms, OrderKind.INTEND.value, told, each.about, each.who, each.comment)
    given = {(each.kind, each.about) for each in after}
    for each in before:
        if (each.kind, each.about) not in given:
            told = f"{each.kind.value} of {each.about} is withdrawn; seen now, for the cluster has no time of it"
            yield HistoryEvent(0, "", now_ms, OrderKind.WITHDRAW.value, told, each.about)
