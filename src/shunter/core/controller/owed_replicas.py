"""Replicas that a broker placed on us, who hold none: another broker gets them, or they are owed until one is there.

Brokers count us as one of them when they place internal and auto-created topics. A topic never gets fewer replicas
than were asked for. Source: docs/decisions/0025-ourselves.md.
"""

from __future__ import annotations

from shunter.core.controller.draft import Draft
from shunter.core.controller.ready import Notice
from shunter.model.partition import BrokerId, Replicas, TopicPartition


def without_us(draft: Draft, tp: TopicPartition, replicas: Replicas) -> Replicas:
    """Give our place in a new partition's assignment to a live broker that is free.

    Where none is free, the partition begins with the others. Where there are no others, it stays as it is and waits.
    """
    us = draft.state.controller_id
    kept = tuple(broker for broker in replicas if broker != us)
    chosen = spare_broker(draft, tp, kept)
    if chosen is not None:
        return tuple(chosen if broker == us else broker for broker in replicas)
    return kept or replicas


def tell_mended(draft: Draft, tp: TopicPartition, replicas: Replicas, mended: Replicas) -> None:
    """Say what became of an assignment that named us."""
    told = f"a broker placed it on {list(replicas)}, which names us; it goes to {list(mended)}"
    draft.notices.append(Notice("assignment-mended", str(tp), told))


def spare_broker(draft: Draft, tp: TopicPartition, replicas: Replicas) -> BrokerId | None:
    """Choose a broker for one more replica: in a rack without one if there is such a rack; spread by partition."""
    free = sorted(draft.unburdened(tp).difference(replicas))
    brokers = draft.state.brokers
    used = {brokers[broker].rack for broker in replicas if broker in brokers}
    apart = [broker for broker in free if brokers[broker].rack not in used]
    preferred = apart or free
    return preferred[tp.partition % len(preferred)] if preferred else None
