"""Partitions without a leader: which replicas can lead without a loss, how these come back, what else Kafka would do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet

from shunter.core.wording import counted, named, told_brokers
from shunter.model.check_up import CheckUp, Finding, Level
from shunter.model.execution import ObservedPartition
from shunter.model.partition import BrokerId, EligibleLeaders, Replicas, TopicPartition

_UNCLEAN = (
    "; if that can't be done, `kafka-leader-election --election-type UNCLEAN` takes {}, the first live replica, and loses "
    "what that one lacks"
)
_MOVES_FIRST = "; stop the move before (`shunter stop`): it may drop replicas that have more"
_EMPTY = (
    "; no UNCLEAN election: the live replica is one that a move adds, so it may be empty, and all records would be lost"
)
_NEW_FIRST = (
    "; no UNCLEAN election while the move runs: it would take {}, the first live replica, which the move adds and which may "
    "lack nearly all records; `shunter stop` first"
)
_ELIGIBLE = "an eligible leader (ELR)"
_NOBODY = "; no other replica is up, so an UNCLEAN election would elect nobody"


def judge_leaderless(seen: CheckUp, tps: Sequence[TopicPartition]) -> Iterator[Finding]:
    """Partitions without a leader, by which replicas can lead without a loss.

    With eligible leader replicas (KIP-966) the ISR may be empty: then the ELR has every acknowledged record.
    """
    partitions = {(topic.name, number): part for topic in seen.topics for number, part in topic.partitions.items()}
    kinds: dict[tuple[str, str, Replicas], list[tuple[TopicPartition, Replicas]]] = {}
    for tp in tps:
        told, isr = seen.eligible.get(tp, EligibleLeaders()), partitions[tp].isr
        kind, brokers = (
            ("in the ISR", isr)
            if isr
            else (_ELIGIBLE, told.elr)
            if told.elr
            else ("the last known leader", told.last_known)
        )
        unclean = _unclean(seen, tp, partitions[tp], {each for each in partitions[tp].replicas if each not in brokers})
        last = told.last_known if kind == _ELIGIBLE else ()
        kinds.setdefault((kind if brokers else "", unclean, last), []).append((tp, brokers))
    for (kind, unclean, last), found in sorted(kinds.items()):
        names = named(tp for tp, _brokers in found)
        what = f"{counted(len(found), 'partition')} with no leader: nobody can read or write there ({names})"
        needed = {broker for _tp, brokers in found for broker in brokers}
        yield Finding(Level.PROBLEM, "partitions", what, f"{_told_sources(seen, kind, needed, last)}{unclean}")


def _told_sources(seen: CheckUp, kind: str, needed: AbstractSet[BrokerId], last: Replicas) -> str:
    """How replicas that can lead come back.

    Args:
        seen: What was seen of the cluster.
        kind: Why they can lead; "": nobody knows which can.
        needed: Their brokers.
        last: The last known leaders, where these are eligible ones.
    """
    if not kind:
        return "start what is down: no replica is known to have every record"
    failed = needed & _failed(seen) if kind == _ELIGIBLE else set[BrokerId]()
    ways = " and ".join(ways_up(seen, needed - failed or needed))
    told = f"{ways}: {'it is' if len(needed - failed or needed) == 1 else 'each is'} {kind}"
    if kind != _ELIGIBLE:
        return told
    told += "; who ended by a kill is struck off at its start"
    if failed:
        # At its start a broker tells the epoch of its clean shutdown only if every log dir has that file.
        told += f", and so is {told_brokers(sorted(failed))} at any restart, by SIGTERM too: its failed log dir takes no clean-shutdown file"
    if needed & answering(seen) - failed:
        told += ", so restart by SIGTERM who else is up" if failed else ", so restart by SIGTERM who is up"
    if last:
        told += f"; when all are struck off, Kafka takes the last known leader, {told_brokers(last)}, once it is up, with what it has"
    return told


def _unclean(seen: CheckUp, tp: TopicPartition, partition: ObservedPartition, others: set[BrokerId]) -> str:
    """What an unclean election does to a partition, to be put behind the way out; "": there is no replica for it.

    `others`: its replicas that can't lead cleanly.
    """
    move = seen.ongoing.get(tp) or seen.ended.get(tp)
    old = others.difference(() if move is None else move.adding)
    live = {broker.broker for broker in seen.brokers if broker.broker in others}.difference(partition.offline)
    if not live:
        return _NOBODY if old else ""
    if live.isdisjoint(old):
        return _EMPTY
    first = next(broker for broker in partition.replicas if broker in live)  # Kafka takes the first in this order.
    if first not in old:
        return _NEW_FIRST.format(f"broker {first}")
    return _UNCLEAN.format(f"broker {first}") + (_MOVES_FIRST if tp in seen.ongoing else "")


def answering(seen: CheckUp) -> set[BrokerId]:
    """Brokers that are listed as live, and answer."""
    return {each.broker for each in seen.brokers if not each.silent}


def _failed(seen: CheckUp) -> set[BrokerId]:
    """Brokers that are listed as live, and have a failed log dir."""
    return {each.broker for each in seen.brokers if any(log_dir.error for log_dir in each.log_dirs)}


def ways_up(seen: CheckUp, brokers: AbstractSet[BrokerId]) -> list[str]:
    """What brings offline replicas on these brokers back, by what is known of each broker.

    A broker that is up without a failed log dir is one that starts or stops, or whose log dirs could not be read.
    """
    up, failed = answering(seen), _failed(seen)
    starting = (brokers & up) - failed
    ways = [f"start {told_brokers(brokers - up)}"] if brokers - up else []
    ways += [f"mend the failed log dir of {told_brokers(brokers & failed)}"] if brokers & failed else []
    why = f"why no replica there is online ({'does it' if len(starting) == 1 else 'do they'} start or stop?)"
    return ways + ([f"see in the log of {told_brokers(starting)} {why}"] if starting else [])
