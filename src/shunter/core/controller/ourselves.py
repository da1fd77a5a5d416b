"""Ourselves among the brokers: what brokers and clients are told, so that they find the controller.

Brokers look the controller up among the live brokers of UpdateMetadata, and count us when they place replicas.
Source: docs/decisions/0025-ourselves.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from shunter.core.controller.state import ControllerState
from shunter.model.broker import Broker
from shunter.model.partition import BrokerId

NO_EPOCH = 0
"""Ours as a broker: nobody sends us control requests, and the greatest epoch has to be that of a broker."""


def live_brokers(state: ControllerState, read: Iterable[Broker]) -> dict[BrokerId, Broker]:
    """The live brokers by id, as others are told of them: those that were read, and ourselves with a rack.

    Brokers refuse to place replicas while some of the live ones have a rack and others have none. So we take one as
    soon as any broker has one: the one that was configured, else the commonest, where we are counted least.
    """
    live = {broker.id: broker for broker in read}
    us = state.ourselves or live.get(state.controller_id)
    if us is None:
        return live
    others = [broker for broker in live.values() if broker.id != us.id]
    racks = Counter(broker.rack for broker in others if broker.rack is not None)
    rack = us.rack or min(racks, key=lambda name: (-racks[name], name), default=None)
    live[us.id] = us._replace(epoch=NO_EPOCH, rack=rack if racks else None)
    return dict(sorted(live.items()))
