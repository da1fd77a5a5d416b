"""Cordons: brokers that are to get no new replicas while they are emptied (KIP-1066)."""

from __future__ import annotations

from collections.abc import Sequence

from shunter.app.executor.session import Target, connect
from shunter.core.throttles import CORDONED_LOG_DIRS
from shunter.errors import SettingsError
from shunter.model.execution import ThrottleKey
from shunter.model.partition import BrokerId

ALL_LOG_DIRS = "*"


async def cordons_of(target: Target, brokers: Sequence[BrokerId]) -> tuple[tuple[BrokerId, str], ...]:
    """The settings that cordon all log dirs of brokers. A dead broker gets none: it gets no replicas anyway.

    Raises:
        SettingsError: a broker does not know the setting.
        DriverError: the cluster does not answer.
    """
    admin = await connect(target)
    try:
        live = await admin.brokers()
        keys = {broker: ThrottleKey("broker", str(broker), CORDONED_LOG_DIRS) for broker in brokers if broker in live}
        seen = await admin.read_settings(list(keys.values()))
    finally:
        await admin.close()
    ignorant = [broker for broker, key in keys.items() if seen.effective[key] is None]
    if ignorant:
        told = f"broker {', '.join(map(str, ignorant))} can't be cordoned: {CORDONED_LOG_DIRS} came with Kafka 4.3"
        raise SettingsError(f"{told}; drain without --cordon, and see that nobody makes topics meanwhile")
    return tuple((broker, ALL_LOG_DIRS) for broker in keys)


__all__ = ["cordons_of"]
