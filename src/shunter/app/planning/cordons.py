"""Cordons: brokers that are to get no new replicas while they are emptied, and afterwards (KIP-1066)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from shunter.app.executor.orders import HolderGone, giver, holder_of, order_command
from shunter.app.executor.session import Target, connect, no_journal
from shunter.app.executor.throttle_loan import give_back, in_hand
from shunter.core.executor.orders import decide_command
from shunter.core.throttles import CORDONED_LOG_DIRS, cordons_for
from shunter.errors import SettingsError
from shunter.model.execution import Command, CommandKind, ThrottleKey
from shunter.model.partition import BrokerId


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
    cordons, ignorant = cordons_for({broker: seen.effective[key] is not None for broker, key in keys.items()})
    if ignorant:
        raise SettingsError(f"{ignorant}; drain without --cordon, and see that nobody makes topics meanwhile")
    return cordons


async def end_cordons(target: Target, brokers: Sequence[BrokerId]) -> tuple[bool, str]:
    """Give brokers back the setting that they had before drains cordoned them; returns whether it was done, and words.

    The order is journalled before the setting is changed. If the broker is dead, the setting stays owed to it.

    Raises:
        DriverError: there is no journal, or the cluster does not answer or refuses.
    """
    command = Command(CommandKind.UNCORDON, given_by=giver("undrain"), brokers=tuple(brokers))
    place, holder = await holder_of(target)
    if holder is not None:
        with suppress(HolderGone):
            answer = await order_command(place, command)
            return bool(answer["accepted"]), str(answer["text"])
    if not place.exists():
        raise await no_journal(target, place)
    admin = await connect(target)
    try:
        with in_hand(place, "undrain") as journal:
            decided = decide_command(journal.state, command)
            if not decided.accepted:
                return False, decided.text
            journal.append(decided.records)
            keys = [ThrottleKey("broker", str(broker), CORDONED_LOG_DIRS) for broker in brokers]
            errors = await give_back(journal, admin, keys)
    finally:
        await admin.close()
    if not errors:
        return True, decided.text
    told = "; ".join(f"broker {key.name} is owed it: {why}" for key, why in sorted(errors.items()))
    return False, f"{decided.text}; {told}. An executor gives it back when it can"


__all__ = ["cordons_of", "end_cordons"]
