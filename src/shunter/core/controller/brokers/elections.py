"""Leader elections, decided into a draft: first ones, for deaths and controlled shutdowns, preferred and unclean ones.

Source: Kafka's PartitionLeaderElectionAlgorithms, and the controller redesign (2.B).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from shunter.core import election
from shunter.core.controller.draft import Draft
from shunter.core.controller.moves.owed_replicas import without_controllers
from shunter.core.controller.state import ControllerState
from shunter.core.election import NewLeadership
from shunter.errors import ErrorCode
from shunter.model.notice import Notice
from shunter.model.partition import (
    INITIAL_LEADER_EPOCH,
    NO_LEADER,
    BrokerId,
    LeaderAndIsr,
    PartitionState,
    ReplicaAssignment,
    TopicPartition,
)
from shunter.model.settings import ControllerSettings

NO_REPLICAS: Final = "it has no replicas"
GIVE_IT_SOME: Final = "delete its topic, or give the partition replicas by a reassignment"


def topic_setting(state: ControllerState, topic: str, key: str, default: str) -> str:
    """A topic's configuration: its own, else the brokers' dynamic default, else the given one."""
    known = state.topics.get(topic)
    if known is not None and key in known.configs:
        return known.configs[key]
    return state.broker_configs.get("<default>", {}).get(key, default)


def unclean_allowed(state: ControllerState, settings: ControllerSettings, topic: str) -> bool:
    """Whether the operator allows a leader that was out of sync for this topic."""
    default = "true" if settings.unclean_leader_election else "false"
    return topic_setting(state, topic, "unclean.leader.election.enable", default).lower() == "true"


def min_isr(state: ControllerState, settings: ControllerSettings, topic: str) -> int:
    """min.insync.replicas of a topic; an unreadable value counts as the default."""
    text = topic_setting(state, topic, "min.insync.replicas", str(settings.default_min_isr))
    return int(text) if text.isdecimal() else settings.default_min_isr


def unreadable_state(tp: TopicPartition) -> str:
    """Say in a sentence why nothing is decided about a partition."""
    return f"leader and ISR of {tp} can't be read; nothing is decided about it until somebody mends its state znode"


def elect_first(draft: Draft, tp: TopicPartition) -> None:
    """Give a new partition its first leader and ISR, or give notice that it can have none yet."""
    if _waits_for_first_leader(draft, tp) and not lead_first(draft, tp):
        partition = draft.partition(tp)
        if partition is not None and not partition.assignment.replicas:
            told = f"{NO_REPLICAS}: {GIVE_IT_SOME}"
        else:
            told = "none of its replicas can be led yet"
        draft.notices.append(Notice("partition-offline", str(tp), told))


def _waits_for_first_leader(draft: Draft, tp: TopicPartition) -> bool:
    """Whether a partition waits for its first leader."""
    partition = draft.partition(tp)
    if partition is None or partition.leadership is not None:
        return False
    return tp.topic not in draft.state.deleting and tp not in draft.state.unreadable


def lead_first(draft: Draft, tp: TopicPartition) -> bool:
    """Give a partition without state its first leader and ISR: its live replicas, the first of them leading.

    A broker that still has to delete its replica of an older topic of that name can't have one of this topic yet. A
    broker whose list of owed deletions can't be read may have to: it is in sync only if no other broker can be.
    A broker that made this assignment may have placed replicas on a controller: other brokers get these replicas first.

    Returns:
        Whether it has a leader now.
    """
    partition = draft.partition(tp)
    if partition is None or not _waits_for_first_leader(draft, tp):
        return False
    if not draft.state.controllers.isdisjoint(partition.assignment.replicas):
        replicas = without_controllers(draft, tp, partition.assignment.replicas)
        partition = PartitionState(ReplicaAssignment(replicas), None)
    free = draft.unburdened(tp)
    doubtful = draft.state.left_out.owed
    elected = election.elect_first(partition.assignment.replicas, free - doubtful if doubtful else free)
    elected = elected or election.elect_first(partition.assignment.replicas, free)
    if elected is None:
        return False
    draft.lead(tp, LeaderAndIsr(elected.leader, INITIAL_LEADER_EPOCH, elected.isr))
    return True


def elect_offline(draft: Draft, settings: ControllerSettings, tp: TopicPartition, *, unclean: bool = False) -> bool:
    """Elect a leader for a partition whose leader is gone, and take dead brokers out of its ISR.

    The ISR never becomes empty: its last member stays in it, dead or not, because it has all acknowledged records.

    Returns:
        Whether the partition has a leader now.
    """
    partition = draft.partition(tp)
    if partition is None or tp.topic in draft.state.deleting:
        return False
    if partition.leadership is None:
        return lead_first(draft, tp)
    leadership = partition.leadership
    if eligible_leader(draft.state, tp, leadership.leader):
        return True
    elected = election.elect_for_offline(
        partition.assignment.replicas,
        leadership.isr,
        draft.serving(tp),
        unclean_allowed=unclean or unclean_allowed(draft.state, settings, tp.topic),
    )
    if elected is not None:
        if elected.unclean:
            told = f"{elected.leader} leads though it was out of sync; the ISR was {list(leadership.isr)}"
            draft.notices.append(Notice("unclean-election", str(tp), told))
        draft.lead(tp, _led_by(leadership, elected))
        return True
    if leadership.leader != NO_LEADER:
        draft.lead(tp, leadership.in_new_epoch()._replace(leader=NO_LEADER))
        draft.notices.append(Notice("partition-offline", str(tp), f"no replica of ISR {leadership.isr} is live"))
    return False


def lead_on(draft: Draft, settings: ControllerSettings, tp: TopicPartition) -> None:
    """A partition can be read again: let its leader go on in a new epoch, or elect another one if that leader is gone.

    A leader that was restarted meanwhile was not told to lead, and has forgotten the ISR change that it had asked for.
    """
    partition = draft.partition(tp)
    leadership = partition.leadership if partition is not None else None
    if elect_offline(draft, settings, tp) and leadership is not None and tp not in draft.leaderships:
        draft.lead(tp, leadership.in_new_epoch())


def eligible_leader(state: ControllerState, tp: TopicPartition, leader: BrokerId) -> bool:
    """Whether a sitting leader may stay: it is live and its log dir works (leaving brokers lead until relieved).

    This controller is live, and holds no data: an Apache controller may have elected it while it was registered as a
    broker.
    """
    return (
        leader in state.brokers and leader != state.controller_id and leader not in state.offline_replicas.get(tp, ())
    )


def _led_by(leadership: LeaderAndIsr, elected: NewLeadership) -> LeaderAndIsr:
    return leadership.in_new_epoch()._replace(
        leader=elected.leader,
        isr=elected.isr,
        recovering=leadership.recovering or elected.unclean,
    )


def shrink_isr(draft: Draft, tp: TopicPartition, brokers: Collection[BrokerId]) -> None:
    """Take dead, failed or leaving followers out of the ISR, in one new leader epoch.

    The leader stays, and so does the last member. Without a leader the ISR stays as it is.
    """
    partition = draft.partition(tp)
    if partition is None or partition.leadership is None or tp.topic in draft.state.deleting:
        return
    leadership = partition.leadership
    isr = tuple(member for member in leadership.isr if member == leadership.leader or member not in brokers)
    isr = isr or leadership.isr[-1:]
    if leadership.leader != NO_LEADER and isr != leadership.isr:
        draft.lead(tp, leadership.in_new_epoch()._replace(isr=isr))


def shrink_to_eligible(draft: Draft, tp: TopicPartition) -> None:
    """Take replicas out of the ISR that can't serve the partition: on brokers that are gone, or on failed log dirs."""
    partition = draft.partition(tp)
    leadership = partition.leadership if partition is not None else None
    if leadership is not None:
        failed = [member for member in leadership.isr if not eligible_leader(draft.state, tp, member)]
        shrink_isr(draft, tp, failed)


def demote(draft: Draft, tp: TopicPartition, broker: BrokerId) -> None:
    """A broker was restarted: another one leads the partition, and the restarted one is in sync when it has caught up.

    If no other replica is in sync and live, the restarted broker leads on, in a new epoch.
    """
    partition = draft.partition(tp)
    if partition is None or partition.leadership is None or tp.topic in draft.state.deleting:
        return
    leadership = partition.leadership
    if leadership.leader != broker:
        shrink_isr(draft, tp, (broker,))
        return
    others = draft.serving(tp) - {broker}
    elected = election.elect_for_offline(partition.assignment.replicas, leadership.isr, others, unclean_allowed=False)
    if elected is not None:
        draft.lead(tp, _led_by(leadership, elected))
    else:
        draft.lead(tp, leadership.in_new_epoch())


def relieve(draft: Draft, tp: TopicPartition, broker: BrokerId) -> bool:
    """Controlled shutdown of one replica; returns whether the broker still leads the partition."""
    partition = draft.partition(tp)
    if partition is None or partition.leadership is None:
        return False
    leadership = partition.leadership
    if leadership.leader != broker:
        if broker in leadership.isr:
            shrink_isr(draft, tp, (broker,))
        draft.relieved.setdefault(tp, set()).add(broker)
        return False
    elected = election.elect_for_shutdown(
        partition.assignment.replicas, leadership.isr, draft.serving(tp), draft.state.shutting_down
    )
    if elected is None:
        return len(partition.assignment.replicas) > 1
    draft.lead(tp, _led_by(leadership, elected))
    return False


def elect_preferred(draft: Draft, tp: TopicPartition) -> tuple[TopicPartition, ErrorCode, str | None]:
    """Make the first replica lead, if it is live and in sync."""
    partition = draft.partition(tp)
    if partition is None:
        return tp, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, draft.state.why_missing(tp)
    if tp.topic in draft.state.deleting:
        return tp, ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is being deleted"
    if tp in draft.state.unreadable:
        return tp, ErrorCode.LEADER_NOT_AVAILABLE, unreadable_state(tp)
    leadership = partition.leadership
    preferred = partition.assignment.preferred
    if preferred == NO_LEADER:
        told = _not_elected(tp, "PreferredReplicaPartitionLeaderElectionStrategy", NO_REPLICAS)
        return tp, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, told
    if leadership is not None and leadership.leader == preferred:
        return tp, ErrorCode.ELECTION_NOT_NEEDED, f"{preferred} leads {tp} already"
    elected = leadership and election.elect_preferred((preferred,), leadership.isr, draft.serving(tp))
    if leadership is None or not elected:
        told = _not_elected(
            tp, "PreferredReplicaPartitionLeaderElectionStrategy", f"{preferred} is not live and in sync"
        )
        return tp, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, told
    draft.lead(tp, _led_by(leadership, elected))
    return tp, ErrorCode.NONE, None


def elect_unclean(
    draft: Draft, settings: ControllerSettings, tp: TopicPartition
) -> tuple[TopicPartition, ErrorCode, str | None]:
    """Elect a leader at the operator's word, out of sync if it must be."""
    partition = draft.partition(tp)
    if partition is None:
        return tp, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, draft.state.why_missing(tp)
    if tp.topic in draft.state.deleting:
        return tp, ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is being deleted"
    if tp in draft.state.unreadable:
        return tp, ErrorCode.LEADER_NOT_AVAILABLE, unreadable_state(tp)
    leadership = partition.leadership
    if leadership is not None and leadership.leader >= 0 and eligible_leader(draft.state, tp, leadership.leader):
        return tp, ErrorCode.ELECTION_NOT_NEEDED, f"{leadership.leader} leads {tp} already"
    if elect_offline(draft, settings, tp, unclean=True):
        return tp, ErrorCode.NONE, None
    why = "no replica is live" if partition.assignment.replicas else NO_REPLICAS
    told = _not_elected(tp, "OfflinePartitionLeaderElectionStrategy(true)", why)
    return tp, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, told


def _not_elected(tp: TopicPartition, strategy: str, why: str) -> str:
    """The message of a failed election, in the words by which Apache's clients and tests know it, with the reason."""
    return f"Failed to elect leader for partition {tp} under strategy {strategy}: {why}"
