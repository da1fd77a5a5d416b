"""Settings of topics and brokers: read, written, and seen in force.

A setting counts as changed when brokers report it, because a change is answered before each broker applies it.
Changes reach a broker in the order in which they were made, by the metadata log or by ZooKeeper's notifications. So if
a broker has applied one topic's settings, it has applied those of all topics in the same request. And if it has applied
its own settings that were written after those of topics, it has applied the topics' settings too. This second rule is
needed because a ZooKeeper-mode broker reports a topic's settings from ZooKeeper, even if it has not applied them yet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kafka.admin import AlterConfigOp, ConfigResource, ConfigResourceType

from shunter.core.wording import named
from shunter.drivers.admin.answers import NotSet, SettingsSeen, setting_seen
from shunter.drivers.admin.protocol import SettingsDenied
from shunter.errors import DriverError
from shunter.model.execution import ThrottleKey
from shunter.model.partition import BrokerId

WITHIN_S = 10.0
AGREE_WITHIN_S = 3.0
EVERY_S = 0.1
MIN_INSYNC = "min.insync.replicas"
PER_REQUEST = 500
"""Resources per request: keeps every answer well under a broker's frame limit."""

_RESOURCES = {"broker": ConfigResourceType.BROKER, "topic": ConfigResourceType.TOPIC}

Ask = Callable[[BrokerId, Sequence[ThrottleKey]], Awaitable[Mapping[ThrottleKey, str | None]]]
"""Reads settings from a broker (None: not set at the resource); settings that it does not report are left out."""
Change = tuple[tuple[str, str], dict[str, str | None]]
"""A resource (kind and name), and the new values of its settings; None deletes a setting."""


def owners_of(keys: Iterable[ThrottleKey]) -> str:
    """The brokers and topics of settings, in words, to be put behind what is done with these."""
    names: dict[str, set[str]] = {}
    for kind, name, _setting in keys:
        names.setdefault(kind, set()).add(name)
    return " and of ".join(f"{kind} {named(sorted(names[kind]))}" for kind in sorted(names))


def _resources(keys: Iterable[ThrottleKey]) -> list[ConfigResource]:
    wanted: dict[tuple[str, str], list[str]] = {}
    for key in keys:
        wanted.setdefault((key.kind, key.name), []).append(key.setting)
    return [ConfigResource(_RESOURCES[kind], name, settings) for (kind, name), settings in wanted.items()]


def _described(client: Any, resources: Sequence[ConfigResource], **options: Any) -> dict[str, dict[str, Any]]:
    """Return the settings of resources, by kind and name; many in several requests. Blocks."""
    found: dict[str, dict[str, Any]] = {}
    for first in range(0, len(resources), PER_REQUEST):
        answered = client.describe_configs(resources[first : first + PER_REQUEST], config_filter="all", **options)
        for kind, by_name in answered.items():
            found.setdefault(kind, {}).update(by_name)
    return found


def read_settings(client: Any, keys: Sequence[ThrottleKey]) -> SettingsSeen:
    """Read settings: topics' settings from any broker, each broker's settings from that broker. Blocks."""
    found = _described(client, _resources(keys), include_synonyms=True)
    seen = SettingsSeen({}, {})
    for key in keys:
        setting = found.get(key.kind, {}).get(key.name, {}).get(key.setting)
        seen.own[key], seen.effective[key] = setting_seen(key, setting)
    return seen


def settings_told_by(client: Any, broker: BrokerId, keys: Sequence[ThrottleKey]) -> dict[ThrottleKey, str | None]:
    """Read settings from one broker; settings that it does not report are left out. Blocks."""
    found = client.described_by(broker, _resources(keys))
    told = {key: found.get(key.kind, {}).get(key.name, {}).get(key.setting) for key in keys}
    return {key: setting_seen(key, setting)[0] for key, setting in told.items() if setting is not None}


def min_insync(client: Any, topics: Sequence[str]) -> dict[str, int]:
    """Read the effective `min.insync.replicas` of topics. Blocks."""
    found = effective(client, topics, (MIN_INSYNC,))
    return {name: int(values[MIN_INSYNC] or 1) for name, values in found.items()}


def effective(client: Any, topics: Sequence[str], settings: Sequence[str]) -> dict[str, dict[str, str | None]]:
    """Read the effective values of some settings of topics; None: the broker does not say. Blocks."""
    resources = [ConfigResource(ConfigResourceType.TOPIC, name, list(settings)) for name in topics]
    answered = _described(client, resources).get("topic", {})
    return {
        name: {setting: answered.get(name, {}).get(setting, {}).get("value") for setting in settings} for name in topics
    }


def topic_settings(client: Any, topics: Sequence[str]) -> dict[str, dict[str, str]]:
    """Read topics' effective settings, without those that are Kafka's defaults. Blocks."""
    wanted = [ConfigResource(ConfigResourceType.TOPIC, name) for name in sorted(topics)]
    return {
        str(name): {
            str(key): str(entry["value"])
            for key, entry in settings.items()
            if entry.get("config_source") != "DEFAULT_CONFIG"
        }
        for name, settings in _described(client, wanted).get("topic", {}).items()
    }


def grouped(settings: Iterable[tuple[ThrottleKey, str | None]]) -> list[list[Change]]:
    """Group changes into requests: first all topics, then each broker by itself, so that a dead broker fails alone."""
    by_resource: dict[tuple[str, str], dict[str, str | None]] = {}
    for key, value in settings:
        by_resource.setdefault((key.kind, key.name), {})[key.setting] = value
    groups = [[change for change in by_resource.items() if change[0][0] != "broker"]]
    groups += [[change] for change in by_resource.items() if change[0][0] == "broker"]
    return [group for group in groups if group]


def write_settings(client: Any, group: Sequence[Change]) -> dict[str, dict[str, str]]:
    """Send one IncrementalAlterConfigs; return the answer for each resource, by kind and name. Blocks."""
    resources = [
        ConfigResource(
            _RESOURCES[kind],
            name,
            {
                setting: (AlterConfigOp.DELETE, None) if value is None else (AlterConfigOp.SET, value)
                for setting, value in values.items()
            },
        )
        for (kind, name), values in group
    ]
    answered: dict[str, dict[str, str]] = client.alter_configs(resources, raise_on_unknown=False, incremental=True)
    return answered


def refusals(group: Sequence[Change], answered: Mapping[str, Mapping[str, str]]) -> dict[ThrottleKey, NotSet]:
    """Return the errors of a group, by setting.

    Raises:
        SettingsDenied: a permission is missing.
    """
    errors: dict[ThrottleKey, NotSet] = {}
    denied: list[ThrottleKey] = []
    for (kind, name), values in group:
        told = answered.get(kind, {}).get(name, "the answer does not name it")
        keys = [ThrottleKey(kind, name, setting) for setting in values]
        if "AuthorizationFailed" in told:
            denied += keys
        elif told != "OK":
            errors.update(dict.fromkeys(keys, NotSet(told, refused=True)))
    if denied:
        kind, name, _setting = denied[0]
        raise SettingsDenied(
            f"not allowed to change settings of {kind} {name}: needs AlterConfigs on "
            f"{'Cluster' if kind == 'broker' else 'Topic'}",
            tuple(denied),
        )
    return errors


async def not_seen_in_force(
    settings: Mapping[ThrottleKey, str | None], brokers: Iterable[BrokerId], ask: Ask, *, within_s: float = WITHIN_S
) -> dict[ThrottleKey, str]:
    """Wait until every broker reports settings that were accepted; return those not reported in time, and why.

    Args:
        settings: As they were written; None: deleted.
        brokers: Live brokers. A broker that does not answer is not waited for: it may be dying.
        ask: See `Ask`.
        within_s: Seconds to wait for a broker that still reports the old value.
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


class ToldByBrokers(NamedTuple):
    """Topics' settings as each broker reports them: value -> brokers. `silent`: brokers that do not answer, and why."""

    values: dict[ThrottleKey, dict[str | None, tuple[BrokerId, ...]]]
    silent: dict[BrokerId, str]


async def told_by_each(
    keys: Sequence[ThrottleKey], brokers: Iterable[BrokerId], ask: Ask, *, within_s: float = AGREE_WITHIN_S
) -> ToldByBrokers:
    """Read settings of topics from each broker. While brokers differ, they are asked again: one of them may be late.

    Args:
        keys: Settings of topics.
        brokers: Live brokers.
        ask: See `Ask`; asked for the topics of one request at a time.
        within_s: Seconds after which brokers that still differ are taken at their word.

    Raises:
        DriverError: a permission is missing.
    """
    clock = asyncio.get_running_loop().time
    deadline_s = clock() + within_s
    seen = await _ask_each(keys, sorted(brokers), ask)
    while (differing := [key for key, values in seen.values.items() if len(values) > 1]) and clock() < deadline_s:
        await asyncio.sleep(EVERY_S)
        again = await _ask_each(differing, [broker for broker in sorted(brokers) if broker not in seen.silent], ask)
        seen = ToldByBrokers(seen.values | again.values, seen.silent | again.silent)
    return seen


async def _ask_each(keys: Sequence[ThrottleKey], brokers: Sequence[BrokerId], ask: Ask) -> ToldByBrokers:
    values: dict[ThrottleKey, dict[str | None, tuple[BrokerId, ...]]] = {key: {} for key in keys}
    silent: dict[BrokerId, str] = {}
    for broker, told in zip(
        brokers, await asyncio.gather(*(_all_of(broker, keys, ask) for broker in brokers)), strict=True
    ):
        if isinstance(told, str):
            silent[broker] = told
            continue
        for key, value in told.items():
            values[key][value] = (*values[key].get(value, ()), broker)
    return ToldByBrokers(values, silent)


async def _all_of(broker: BrokerId, keys: Sequence[ThrottleKey], ask: Ask) -> dict[ThrottleKey, str | None] | str:
    """Read settings from a broker in as many requests as are needed; a text says why it does not answer."""
    found: dict[ThrottleKey, str | None] = {}
    try:
        for first in range(0, len(keys), PER_REQUEST):
            found.update(await ask(broker, keys[first : first + PER_REQUEST]))
    except DriverError as error:
        if not error.retriable:
            raise
        return str(error)
    return found


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
