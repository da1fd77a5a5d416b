"""The controller among the brokers: what brokers and clients are told, so that they find the controller.

Brokers look the controller up among the live brokers of UpdateMetadata, and count it as one when they place replicas.
Source: docs/decisions/0025-ourselves.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from shunter.core.controller.draft import Draft
from shunter.core.controller.state import ControllerState
from shunter.core.controller.tasks import Priority, Task, TaskQueue
from shunter.model.broker import Broker
from shunter.model.notice import Notice
from shunter.model.partition import BrokerId
from shunter.model.records import ForgetControllerId, PutRegistration

UNREGISTERED_EPOCH = 0
"""The controller's epoch as a broker. It gets no control requests, and the greatest epoch has to be a real broker's."""


def live_brokers(state: ControllerState, read: Iterable[Broker]) -> dict[BrokerId, Broker]:
    """The live brokers by id, as others are told of them: the brokers that were read, and the controller with a rack.

    Brokers refuse to place replicas while some live brokers have a rack and others have none. So the controller takes a
    rack as soon as any broker has one: its configured rack, else the commonest one, where it counts least.
    """
    live = {broker.id: broker for broker in read}
    found = live.get(state.controller_id)
    state.registered = found is not None and (state.ourselves is None or found.epoch == state.ourselves.epoch)
    us = state.ourselves or live.get(state.controller_id)
    if us is None:
        return live
    others = [broker for broker in live.values() if broker.id != us.id]
    racks = Counter(broker.rack for broker in others if broker.rack is not None)
    rack = us.rack or min(racks, key=lambda name: (-racks[name], name), default=None)
    live[us.id] = us._replace(epoch=UNREGISTERED_EPOCH, rack=rack if racks else None)
    return dict(sorted(live.items()))


def disown(state: ControllerState, queue: TaskQueue) -> None:
    """Forget controllers' ids that ordinary brokers have now: from now on these count as brokers, even while down."""
    taken = state.controller_ids & state.brokers.keys() - {state.controller_id}
    if taken:
        state.controller_ids -= taken
        queue.add(Task(Priority.CLEANUP, sorted(taken), _forget_id))


def _forget_id(draft: Draft, id_: BrokerId) -> None:
    draft.other_records.append(ForgetControllerId(id_))
    told = "an ordinary broker has this id, which a controller had once: it counts as a broker from now on"
    draft.notices.append(Notice("controller-id-forgotten", f"broker {id_}", told))


def maybe_register(state: ControllerState, queue: TaskQueue) -> None:
    """Register the controller in ZooKeeper if a live broker needs that, and withdraw the registration if none does."""
    wanted = _registration_wanted(state)
    if wanted is not None and wanted is not state.registered and state.ourselves is not None:
        queue.add(Task(Priority.CLEANUP, (wanted,), _register))


def _registration_wanted(state: ControllerState) -> bool | None:
    """Whether a live broker looks the controller up in ZooKeeper; None: none is known to, and some have yet to say."""
    others = [broker for broker in state.brokers.values() if broker.id != state.controller_id]
    told = [state.look_us_up.get(broker.id, (None, None)) for broker in others]
    answers = {
        look_up if epoch == broker.epoch else None for broker, (epoch, look_up) in zip(others, told, strict=True)
    }
    if True in answers:
        return True
    return False if answers == {False} else None


def _register(draft: Draft, wanted: bool) -> None:
    state = draft.state
    us = state.brokers.get(state.controller_id)
    if us is None or wanted is state.registered or _registration_wanted(state) is not wanted:
        return
    draft.other_records.append(PutRegistration(us, wanted, draft.now_ms))
    told = (
        "a live broker is older than Kafka 3.0 and looks the controller up in ZooKeeper when it stops: we are registered"
        if wanted
        else "no live broker is older than Kafka 3.0: nobody needs our registration in ZooKeeper, and it is withdrawn"
    )
    draft.notices.append(Notice("registration", f"broker {us.id}", told))
