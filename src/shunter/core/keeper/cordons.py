"""Cordons of brokers that an intent drains: set with the plans of the drain, withdrawn with the intent (KIP-1066)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from shunter.core.keeper.sighting import Sighting
from shunter.core.planning.request import Scope
from shunter.core.throttles import cordons_for
from shunter.model.check_up import CheckedJournal
from shunter.model.execution import ExecutionOptions
from shunter.model.inventory import InventoryBroker
from shunter.model.keeper import KeeperPolicy
from shunter.model.partition import BrokerId


def _drained(sighting: Sighting, policy: KeeperPolicy) -> list[InventoryBroker]:
    """The live brokers that are to be cordoned."""
    wanted = policy.intents.drain if policy.intents.cordon else ()
    return [broker for broker in sighting.inventory.brokers if broker.id in wanted]


def _known(broker: InventoryBroker) -> bool:
    """Whether a broker tells cordons, as since Kafka 4.3."""
    return broker.cordoned is not None or any(each.cordoned is not None for each in broker.log_dirs or ())


def why_not_cordoned(sighting: Sighting, scope: Scope, policy: KeeperPolicy) -> Iterator[str]:
    """Why a drain waits: a broker can't be cordoned, or it is not known whether it can."""
    if scope is not Scope.DRAIN:
        return
    drained = _drained(sighting, policy)
    told = [broker for broker in drained if broker.log_dirs or _known(broker)]
    if silent := sorted(broker.id for broker in drained if broker not in told):
        yield f"broker {', '.join(map(str, silent))} does not tell its log dirs: it is not known whether it can be cordoned"
    _cordons, ignorant = cordons_for({broker.id: _known(broker) for broker in told})
    if ignorant:
        yield f"{ignorant}; take `cordon` out of the policy's intents to drain without it"


def with_cordons(
    options: ExecutionOptions, scope: str, sighting: Sighting | None, policy: KeeperPolicy
) -> ExecutionOptions:
    """The options of an execution: a drain cordons the brokers that intents drain."""
    if sighting is None or scope != Scope.DRAIN.value:
        return options
    return replace(
        options, cordons=cordons_for(dict.fromkeys((each.id for each in _drained(sighting, policy)), True))[0]
    )


def outlived(journal: CheckedJournal, policy: KeeperPolicy) -> tuple[BrokerId, ...]:
    """Brokers that plans of the service cordoned, and that no intent drains any more. A drain's id begins with its scope."""
    wanted = policy.intents.drain if policy.intents.cordon else ()
    own = (broker for broker, plan_id in journal.cordons.items() if plan_id.startswith(f"{Scope.DRAIN.value}-"))
    return tuple(sorted(broker for broker in own if broker not in wanted))
