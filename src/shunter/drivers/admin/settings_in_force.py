"""Settings count as changed when brokers tell of them: a change is answered before it is applied, each broker by itself.

Changes reach a broker in the order in which they were made, by the metadata log or by ZooKeeper's notifications. So one
topic of a request stands for all of its topics, and a broker's own settings that were written after those of topics
stand for them: a ZooKeeper-mode broker tells a topic's settings out of ZooKeeper, whether it has taken them in or not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from shunter.errors import DriverError
from shunter.model.execution import ThrottleKey
from shunter.model.partition import BrokerId

WITHIN_S = 10.0
EVERY_S = 0.1

Ask = Callable[[BrokerId, Sequence[ThrottleKey]], Awaitable[Mapping[ThrottleKey, str | None]]]
"""What a broker tells of settings (None: not set at the resource); what it does not tell of is left out."""


async def not_seen_in_force(
    settings: Mapping[ThrottleKey, str | None], brokers: Iterable[BrokerId], ask: Ask, *, within_s: float = WITHIN_S
) -> dict[ThrottleKey, str]:
    """Wait until every broker tells of settings that were taken; say which were not seen in time.

    Args:
        settings: As they were written, None: deleted.
        brokers: Who is up. One that does not answer is not waited for: it may be dying.
        ask: See `Ask`.
        within_s: Seconds until a broker that tells the old value is given up.
    """
    topics = [key.name for key in settings if key.kind == "topic"]
    told = await asyncio.gather(
        *(_wait_for(broker, _told_by(broker, settings, topics[-1:]), ask, within_s) for broker in sorted(brokers))
    )
    missing: dict[ThrottleKey, str] = {}
    for late in told:
        for key, broker in late.items():
            stands_for = [key] if key.kind == "broker" else [other for other in settings if other.kind == "topic"]
            missing.update(
                dict.fromkeys(stands_for, f"taken, but broker {broker} did not apply it within {within_s:g} s")
            )
    return missing


def _told_by(
    broker: BrokerId, settings: Mapping[ThrottleKey, str | None], topics: Sequence[str]
) -> dict[ThrottleKey, str | None]:
    wanted = {"broker": str(broker), "topic": topics[0] if topics else ""}
    return {key: value for key, value in settings.items() if key.name == wanted[key.kind]}


async def _wait_for(
    broker: BrokerId, wanted: Mapping[ThrottleKey, str | None], ask: Ask, within_s: float
) -> dict[ThrottleKey, BrokerId]:
    clock = asyncio.get_running_loop().time
    deadline_s = clock() + within_s
    late = list(wanted)
    while late:
        try:
            found = await ask(broker, late)
        except DriverError:
            return {}
        late = [key for key in late if key in found and found[key] != wanted[key]]
        if clock() >= deadline_s:
            break
        if late:
            await asyncio.sleep(EVERY_S)
    return dict.fromkeys(late, broker)
