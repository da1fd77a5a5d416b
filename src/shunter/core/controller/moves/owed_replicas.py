"""Replicas that a broker placed on a controller, which holds none: another broker gets them, or they are owed.

Brokers count the controller as one of them when they place internal and auto-created topics. The controller may have
another id since, and another controller may have elected a leader since. In the end a topic has as many replicas as
were asked for. A debt is durable, by topic, with the replicas that the partition had when the debt was made. If a tool
assigns other replicas meanwhile, the debt is void.

Source: docs/decisions/0026-owed-replicas.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from shunter.core.controller.draft import Draft
from shunter.core.controller.state import ControllerState
from shunter.model.notice import Notice
from shunter.model.partition import BrokerId, ReplicaAssignment, Replicas, TopicPartition


def without_controllers(draft: Draft, tp: TopicPartition, replicas: Replicas) -> Replicas:
    """Give controllers' places in a partition's assignment to live brokers that are free; return the new replicas.

    If too few brokers are free, the partition keeps its other replicas, and the rest is owed. If it has no other
    replica, it stays as it is and waits for a broker.
    """
    ids = draft.state.controllers
    wanted = _asked_for(draft, tp, replicas)
    placed = _filled(draft, tp, _in_their_places(draft, tp, replicas), wanted)
    owing = len(placed) < wanted
    if not placed or (owing and tp.topic in draft.state.left_out.owed_replicas):
        return replicas
    named = f"somebody placed it on {list(replicas)}, of which {sorted(ids.intersection(replicas))} can hold no replica"
    told = f"{named}: it goes to {list(placed)}"
    if owing:
        draft.owed_replicas_of(tp.topic)[tp.partition] = (wanted, placed)
        told = (
            f"{named}, and no other broker is free: it has {list(placed)} and gets its missing replica as soon as a"
            f" broker is there"
        )
    elif wanted > len(replicas):
        del draft.owed_replicas_of(tp.topic)[tp.partition]
    draft.notices.append(Notice("replica-owed" if owing else "assignment-mended", str(tp), told))
    draft.place(tp, ReplicaAssignment(placed))
    return placed


def _asked_for(draft: Draft, tp: TopicPartition, replicas: Replicas) -> int:
    """How many replicas were asked for. Some may be owed already, for the place of another controller's id."""
    known, topic = draft.state.owed_replicas.get(tp.topic), draft.state.topics.get(tp.topic)
    if known is None or topic is None or known.topic_id not in (None, topic.topic_id):
        return len(replicas)
    wanted, then = draft.owed_replicas_of(tp.topic).get(tp.partition, (0, ()))
    return max(wanted, len(replicas)) if set(then) == set(replicas) else len(replicas)


def _filled(draft: Draft, tp: TopicPartition, replicas: Replicas, wanted: int) -> Replicas:
    """Add replicas up to the number wanted, as far as brokers are free. An empty partition has none to copy from."""
    while replicas and len(replicas) < wanted and (chosen := spare_broker(draft, tp, replicas)) is not None:
        replicas = (*replicas, chosen)
    return replicas


def to_return_to(draft: Draft, tp: TopicPartition, original: Replicas) -> Replicas:
    """The replicas that a rollback restores: the original ones, with another broker in place of a controller's id.

    The other broker is one that the move has added already, else a live one that is free, else none.
    """
    partition = draft.partition(tp)
    brought = () if partition is None else partition.assignment.replicas
    return _in_their_places(draft, tp, original, brought) or original


def _in_their_places(draft: Draft, tp: TopicPartition, replicas: Replicas, first: Replicas = ()) -> Replicas:
    """Replicas in their order, with a broker in each controller's place: one of `first`, else a free one, else none."""
    ids = draft.state.controllers
    taken = tuple(broker for broker in replicas if broker not in ids)
    placed: Replicas = ()
    for broker in replicas:
        chosen: BrokerId | None = broker
        if broker in ids:
            there = (each for each in first if each not in ids and each not in taken)
            chosen = next(there, None)
            if chosen is None:
                chosen = spare_broker(draft, tp, taken)
        if chosen is not None:
            placed = (*placed, chosen)
            taken = (*taken, chosen)
    return placed


def placed_on_controllers(state: ControllerState, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """The given partitions that have a leader (or had one), and a replica on a controller's id."""
    return [tp for tp, _ in _led_with_controllers(state, partitions)]


def owed_by(state: ControllerState, topics: Collection[str]) -> list[TopicPartition]:
    """Partitions of some topics that are owed replicas."""
    names = sorted(state.owed_replicas.keys() & set(topics))
    return [TopicPartition(name, entry[0]) for name in names for entry in state.owed_replicas[name].partitions]


def kept(state: ControllerState, partitions: Iterable[TopicPartition] | None = None) -> list[Notice]:
    """Notices about partitions, given ones or all, that have only controllers in their ISR: these are not mended."""
    notices: list[Notice] = []
    for tp, isr in _led_with_controllers(state, everything(state) if partitions is None else partitions):
        if isr and state.controllers.issuperset(isr):
            told = f"nobody is in its ISR {list(isr)} but a controller, which holds no data: nothing is changed"
            notices.append(Notice("assignment-kept", str(tp), f"{told}; reassign it, and elect a leader out of sync"))
    return notices


def _led_with_controllers(
    state: ControllerState, partitions: Iterable[TopicPartition]
) -> Iterator[tuple[TopicPartition, Replicas]]:
    """Partitions that have a leader (or had one) and a replica on a controller's id, with their ISR."""
    ids = state.controllers
    for tp in partitions:
        partition = state.partition(tp)
        if partition is None or partition.leadership is None or ids.isdisjoint(partition.assignment.replicas):
            continue
        yield tp, partition.leadership.isr


def everything(state: ControllerState) -> Iterator[TopicPartition]:
    """All partitions."""
    return (TopicPartition(name, number) for name, topic in state.topics.items() for number in topic.partitions)


def replace_controllers(draft: Draft, tp: TopicPartition) -> None:
    """Take controllers' ids out of a partition that has a leader, in a new leader epoch.

    Partitions that move, and topics that are being deleted, are left alone: a move decides where its replicas are, and
    a deletion does not wait for a controller.
    """
    state = draft.state
    if draft.reassignment(tp) is not None or tp in state.left_out.moves:
        return
    partition = draft.partition(tp)
    if partition is None or tp.topic in state.deleting or tp.topic in state.left_out.topics:
        return
    assignment, leadership = partition
    if leadership is None or assignment.in_motion:
        return
    ids = state.controllers.intersection(assignment.replicas)
    if not ids or not ids.isdisjoint((*leadership.isr, leadership.leader)):
        return  # A controller's id leaves the ISR first, as dead brokers do; the last member stays: see `kept`.
    mended = without_controllers(draft, tp, assignment.replicas)
    if mended == assignment.replicas:
        return
    for broker in set(mended).difference(assignment.replicas):
        draft.keep(tp, broker)
    draft.lead(tp, leadership.in_new_epoch())


def spare_broker(draft: Draft, tp: TopicPartition, replicas: Replicas) -> BrokerId | None:
    """Choose a broker for one more replica, if possible in a rack without one. Partitions get different brokers."""
    free = sorted(draft.unburdened(tp).difference(replicas))
    brokers = draft.state.brokers
    used = {brokers[broker].rack for broker in replicas if broker in brokers}
    apart = [broker for broker in free if brokers[broker].rack not in used]
    preferred = apart or free
    return preferred[tp.partition % len(preferred)] if preferred else None


def place_owed(draft: Draft, tp: TopicPartition) -> None:
    """Give a partition the replicas that it is owed, as far as brokers are free; forget a debt that is void."""
    known = draft.state.owed_replicas.get(tp.topic)
    if known is None or tp.topic in draft.state.left_out.topics:
        return
    owed = draft.owed_replicas_of(tp.topic).get(tp.partition)
    if owed is None:
        return
    wanted, replicas = owed
    partition, topic = draft.partition(tp), draft.state.topics.get(tp.topic)
    if partition is not None and topic is not None and known.topic_id in (None, topic.topic_id):
        if tp in draft.state.unreadable or tp.topic in draft.state.deleting:
            return
        assigned = partition.assignment
        if not assigned.in_motion and set(assigned.replicas) == set(replicas) and draft.reassignment(tp) is None:
            _place(draft, tp, wanted, assigned.replicas)  # Their order may have changed meanwhile.
            return
    del draft.owed_replicas_of(tp.topic)[tp.partition]  # Other replicas were assigned, or it is another topic.


def _place(draft: Draft, tp: TopicPartition, wanted: int, replicas: Replicas) -> None:
    placed = _filled(draft, tp, replicas, wanted)
    if placed == replicas:
        return
    owed = draft.owed_replicas_of(tp.topic)
    del owed[tp.partition]
    if len(placed) < wanted:
        owed[tp.partition] = (wanted, placed)
    draft.place(tp, ReplicaAssignment(placed))
    partition = draft.partition(tp)
    if partition is not None and (leadership := partition.leadership) is not None:
        draft.lead(tp, leadership.in_new_epoch())
    told = f"it was placed with {list(replicas)} and {wanted} were asked for: it has {list(placed)} now"
    draft.notices.append(Notice("replica-placed", str(tp), told))
