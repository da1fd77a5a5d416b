"""Replicas that a broker placed on us, who hold none: another broker gets them, or they are owed until one is there.

Brokers count us as one of them when they place internal and auto-created topics. A topic never gets fewer replicas
than were asked for. What is owed is durable, by topic, with the replicas that the partition has: whoever assigns others
meanwhile has decided anew, and nothing is owed any more.

Source: docs/decisions/0026-owed-replicas.md.
"""

from __future__ import annotations

from collections.abc import Iterable

from shunter.core.controller.draft import Draft
from shunter.core.controller.ready import Notice
from shunter.core.controller.state import ControllerState
from shunter.core.controller.tasks import Priority, Task, TaskQueue
from shunter.model.partition import BrokerId, ReplicaAssignment, Replicas, TopicPartition


def without_us(draft: Draft, tp: TopicPartition, replicas: Replicas) -> Replicas:
    """Give our place in a new partition's assignment to a live broker that is free; return the replicas then.

    Where none is free, the partition begins with the others, and the replica is owed. Where there are no others, it
    stays as it is and waits for a broker.
    """
    us = draft.state.controller_id
    kept = tuple(broker for broker in replicas if broker != us)
    chosen = spare_broker(draft, tp, kept)
    if chosen is not None:
        mended = tuple(chosen if broker == us else broker for broker in replicas)
        told = f"a broker placed it on {list(replicas)}, which names us: it goes to {list(mended)}"
    elif not kept or tp.topic in draft.state.left_out.owed_replicas:
        return replicas
    else:
        mended = kept
        draft.owed_replicas_of(tp.topic)[tp.partition] = (len(replicas), kept)
        told = (
            f"a broker placed it on {list(replicas)}, which names us, and no other broker is free: it has {list(kept)}"
            f" and gets its missing replica as soon as a broker is there"
        )
    draft.notices.append(Notice("assignment-mended" if chosen is not None else "replica-owed", str(tp), told))
    draft.place(tp, ReplicaAssignment(mended))
    return mended


def spare_broker(draft: Draft, tp: TopicPartition, replicas: Replicas) -> BrokerId | None:
    """Choose a broker for one more replica: in a rack without one if there is such a rack; spread by partition."""
    free = sorted(draft.unburdened(tp).difference(replicas))
    brokers = draft.state.brokers
    used = {brokers[broker].rack for broker in replicas if broker in brokers}
    apart = [broker for broker in free if brokers[broker].rack not in used]
    preferred = apart or free
    return preferred[tp.partition % len(preferred)] if preferred else None


def make_good(state: ControllerState, queue: TaskQueue, topics: Iterable[str] | None = None) -> None:
    """Look whether what is owed, to some topics or to all, can be had now."""
    names = state.owed_replicas if topics is None else state.owed_replicas.keys() & set(topics)
    owed = [TopicPartition(name, entry[0]) for name in sorted(names) for entry in state.owed_replicas[name].partitions]
    if owed:
        queue.add(Task(Priority.NORMAL, owed, place_owed))


def place_owed(draft: Draft, tp: TopicPartition) -> None:
    """Give a partition the replicas that it is owed, as far as brokers are free; forget what is not owed any more."""
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
        if partition.assignment == ReplicaAssignment(replicas) and draft.reassignment(tp) is None:
            _place(draft, tp, wanted, replicas)
            return
    del draft.owed_replicas_of(tp.topic)[tp.partition]  # Somebody has decided anew, or it is another topic.


def _place(draft: Draft, tp: TopicPartition, wanted: int, replicas: Replicas) -> None:
    placed = replicas
    while len(placed) < wanted and (chosen := spare_broker(draft, tp, placed)) is not None:
        placed = (*placed, chosen)
    if placed == replicas:
        return
    owed = draft.owed_replicas_of(tp.topic)
    del owed[tp.partition]
    if len(placed) < wanted:
        owed[tp.partition] = (wanted, placed)
    draft.place(tp, ReplicaAssignment(placed))
    partition = draft.partition(tp)
    if partition is not None and (leadership := partition.leadership) is not None:
        draft.lead(tp, leadership._replace(leader_epoch=leadership.leader_epoch + 1))
    told = f"it was placed with {list(replicas)} and {wanted} were asked for: it has {list(placed)} now"
    draft.notices.append(Notice("replica-placed", str(tp), told))
