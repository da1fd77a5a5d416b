"""The policy file of `shunter serve`: TOML, a table for each cluster. docs/keeper.md describes it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from shunter.app.client_configuration import configuration_of
from shunter.app.executor.session import Target
from shunter.app.profiles import meant, read_profiles
from shunter.app.targets import target_of
from shunter.core.keeper.intents import contradiction, with_intents
from shunter.drivers.host.http_client import is_open_to_others
from shunter.drivers.service.controller_status import ControllersPlace
from shunter.errors import FormatError, SettingsError
from shunter.formats.client_properties import bootstrap_servers
from shunter.formats.text_files import text_of
from shunter.model.execution import ExecutionOptions
from shunter.model.keeper import (
    DEFAULTS,
    IN_DAYS,
    MEASURED,
    MENDED,
    Condition,
    GuardRails,
    Intents,
    KeeperPolicy,
    Mode,
    Watch,
)
from shunter.model.limits import bound_trouble, floor_trouble, rate_trouble
from shunter.model.service import NOTIFIED, TOKEN, USER, IntentKind, KeptIntent, Notifier, NotifierKind

_MOST_NUMBER = 2**31 - 1
"""Kafka's own bound of ids; as minutes it is 4,000 years."""
_MOST_BYTES = 2**63 - 1
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_CLUSTER = (
    "profile",
    "bootstrap-server",
    "command-config",
    "journal",
    "journal-topic",
    "controllers",
    "controllers-token-file",
    "controllers-ca-file",
    "conditions",
    "limits",
    "intents",
    "execution",
)
_SERVICE = ("look-seconds", "snapshots", "snapshot-minutes", "lake", "model-hours")
_NOTIFY = ("kind", "url", "command", "events")
_WATCH = ("do", "minutes")
_BOUNDS = ("begin-percent", "end-percent")
_BOUNDS_IN_DAYS = ("begin-days", "end-days")
_MOST_DAYS = 3_650
_INTENTS = ("drain", "demote", "replace", "add", "replication", "least-replication")
_WINDOW = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)")


@dataclass(frozen=True, slots=True)
class ModelPlace:
    """The lake with the pipeline's load models, and how old a model may be, in hours."""

    lake: Path
    most_hours: int = 24


@dataclass(frozen=True, slots=True)
class KeptCluster:
    """One cluster of the file."""

    name: str
    target: Target
    policy: KeeperPolicy
    options: ExecutionOptions = field(default_factory=ExecutionOptions)
    """How the service carries its plans out."""
    table: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The cluster's table in the file, as it was read."""
    model: ModelPlace | None = None
    """None: rates are unknown."""
    controllers: ControllersPlace | None = None
    """Shunter's controllers; None: the page shows none."""


@dataclass(frozen=True, slots=True)
class ServiceFile:
    """A policy file, as the service reads it."""

    clusters: tuple[KeptCluster, ...]
    look_every_s: float = 60.0
    snapshots: Path | None = None
    """A folder of snapshots for `shunter pipeline ingest`; None: no snapshots are kept."""
    snapshot_every_s: float = 3600.0
    notify: tuple[Notifier, ...] = ()


def read_policies(path: Path) -> tuple[KeptCluster, ...]:
    """Read the clusters of a policy file.

    Raises:
        FormatError, SettingsError: as `read_service_file`.
    """
    return read_service_file(path).clusters


def check_access(cluster: KeptCluster) -> None:
    """Check that a cluster's client properties can be used, without contacting a broker.

    Raises:
        FormatError, SettingsError: they can't be read or used.
    """
    configuration_of(cluster.target.bootstrap, cluster.target.properties)


def read_service_file(path: Path) -> ServiceFile:
    """Read a policy file.

    Raises:
        FormatError: it can't be read, or is not TOML.
        SettingsError: a wrong key or value; the error names the key, the value, the rule and the way out.
    """
    try:
        document = tomllib.loads(text_of(path.read_bytes()))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        told = error.strerror if isinstance(error, OSError) else error
        raise FormatError(str(path), f"can't be read: {told}") from error
    _refuse_unknown(f"{path}: ", document, ("cluster", "service", "people", "notify"))
    clusters = _table(f"{path}: cluster", document.get("cluster", {}))
    if not clusters:
        raise SettingsError(f"{path} names no cluster: write [cluster.NAME], and bootstrap-server or profile below it")
    where = f"{path}: [service] "
    table = _table(f"{path}: service", document.get("service", {}))
    _refuse_unknown(where, table, _SERVICE)
    folder = _text(f"{where}snapshots", table["snapshots"]) if "snapshots" in table else None
    model = _model(path, where, table)
    people = _people(f"{path}: [people] ", _table(f"{path}: people", document.get("people", {})))
    kept = tuple(
        replace(_cluster(path, name, _table(f"{path}: [cluster.{name}]", each), people), model=model)
        for name, each in clusters.items()
    )
    _refuse_shared_journals(path, kept)
    receivers = _list(f"{path}: notify", document.get("notify", []))
    return ServiceFile(
        kept,
        float(_at_least_one(f"{where}look-seconds", table.get("look-seconds", 60))),
        None if folder is None else path.parent / Path(folder).expanduser(),
        60.0 * _at_least_one(f"{where}snapshot-minutes", table.get("snapshot-minutes", 60)),
        tuple(
            _notifier(f"{path}: [[notify]] {at}", _table(f"{path}: [[notify]] {at}", each))
            for at, each in enumerate(receivers, start=1)
        ),
    )


def _refuse_shared_journals(path: Path, clusters: Sequence[KeptCluster]) -> None:
    """Refuse clusters that share a journal: the second would wait for ever for the first to give it back."""
    places: dict[Path, str] = {}
    for cluster in clusters:
        journal = cluster.target.journal
        first = cluster.name if journal is None else places.setdefault(journal.resolve(), cluster.name)
        if first != cluster.name:
            rule = f"[cluster.{first}] has it too, and each cluster needs a journal of its own"
            raise SettingsError(f"{path}: [cluster.{cluster.name}] journal = {str(journal)!r}: {rule}")


def _model(path: Path, where: str, table: dict[str, Any]) -> ModelPlace | None:
    if "lake" not in table:
        if "model-hours" in table:
            raise SettingsError(f"{where}model-hours is for models of the lake: set lake, too")
        return None
    lake = path.parent / Path(_text(f"{where}lake", table["lake"])).expanduser()
    return ModelPlace(lake, _at_least_one(f"{where}model-hours", table.get("model-hours", 24)))


def _notifier(where: str, table: dict[str, Any]) -> Notifier:
    _refuse_unknown(f"{where} ", table, _NOTIFY)
    kinds = [each.value for each in NotifierKind]
    if table.get("kind") not in kinds:
        raise SettingsError(f"{where} kind = {table.get('kind')!r}: {' or '.join(kinds)} is wanted")
    kind = NotifierKind(table["kind"])
    wanted, other = ("command", "url") if kind is NotifierKind.COMMAND else ("url", "command")
    if wanted not in table or other in table:
        raise SettingsError(f"{where}: {kind.value} needs {wanted}, and can't have {other}")
    url = _text(f"{where} url", table["url"]) if wanted == "url" else ""
    if url and not _is_url(url):
        raise SettingsError(f"{where} url = {url!r}: http://HOST or https://HOST is wanted")
    command = tuple(_text(f"{where} command", each) for each in _list(f"{where} command", table.get("command", [])))
    if wanted == "command" and not command:
        raise SettingsError(f"{where} command = []: a program is wanted, and its arguments")
    events = tuple(
        _text(f"{where} events", each) for each in _list(f"{where} events", table.get("events", [*NOTIFIED]))
    )
    for each in events:
        if each not in NOTIFIED:
            raise SettingsError(f"{where} events: {each!r} is not an event; {meant(each, NOTIFIED)}")
    return Notifier(kind, url, command, events)


def _is_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return (
            parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and not re.search(r"\s", url)
        )
    except ValueError:  # The port is not a port, or brackets do not match.
        return False


def _people(where: str, table: dict[str, Any]) -> dict[str, str]:
    """Read whose each token and each UNIX user is, by `token NAME` or `user NAME`."""
    found: dict[str, str] = {}
    for person, accounts in table.items():
        names = _table(f"{where}{person}", accounts)
        _refuse_unknown(f"{where}{person}.", names, ("tokens", "users"))
        for kind, key in ((TOKEN, "tokens"), (USER, "users")):
            for name in _list(f"{where}{person}.{key}", names.get(key, [])):
                account = f"{kind} {_text(f'{where}{person}.{key}', name)}"
                first = found.setdefault(account, person)
                if first != person:
                    raise SettingsError(f"{where}{person}.{key}: {account} is {first} already: leave one of them out")
    return found


def _cluster(path: Path, name: str, table: dict[str, Any], people: Mapping[str, str]) -> KeptCluster:
    where = f"{path}: [cluster.{name}]"
    if not re.fullmatch(r"[A-Za-z0-9._-]+", name):
        raise SettingsError(
            f"{where}: letters, digits, '.', '_' and '-' are wanted in a name: plan files are named by it"
        )
    _refuse_unknown(f"{where} ", table, _CLUSTER)
    intents = _intents(f"{where} intents.", _table(f"{where} intents", table.get("intents", {})))
    rails = _rails(f"{where} limits.", _table(f"{where} limits", table.get("limits", {})))
    rails = replace(rails, people=people)
    for kind, brokers in (("drain", intents.drain), ("demote", intents.demote)):
        for broker in sorted({*brokers} & {*rails.frozen_brokers}):
            rule = f"broker {broker} is in limits.frozen-brokers, too, and nothing of a frozen broker changes"
            raise SettingsError(f"{where} intents.{kind} = {list(brokers)}: {rule}: take it out of one of them")
    _refuse_contradictions(f"{where} intents.", rails, intents)
    watches = _watches(f"{where} conditions.", _table(f"{where} conditions", table.get("conditions", {})))
    options = _options(f"{where} execution.", _table(f"{where} execution", table.get("execution", {})))
    target, controllers = _target(path, where, table), _controllers(path, where, table)
    return KeptCluster(name, target, KeeperPolicy(watches, rails, intents), options, table, controllers=controllers)


def _controllers(path: Path, where: str, table: dict[str, Any]) -> ControllersPlace | None:
    files = {
        key: path.parent / Path(_text(f"{where} {key}", table[key])).expanduser()
        for key in ("controllers-token-file", "controllers-ca-file")
        if key in table
    }
    if "controllers" not in table:
        if files:
            raise SettingsError(f"{where} {next(iter(files))} is for controllers: name these, too")
        return None
    urls = tuple(_url(f"{where} controllers", each) for each in _list(f"{where} controllers", table["controllers"]))
    token = files.get("controllers-token-file")
    for url in urls:
        if token is not None and is_open_to_others(url):
            rule = "the token would cross the network unencrypted: https:// is wanted"
            raise SettingsError(f"{where} controllers = {url!r}: {rule}")
    return ControllersPlace(urls, token, files.get("controllers-ca-file"))


def _url(where: str, value: Any) -> str:
    url = _text(where, value)
    try:
        parts = urlsplit(url)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port is not None
    except ValueError:
        fits = False
    if not fits or "@" in url or url.rstrip("/") != f"{parts.scheme}://{parts.netloc}":
        raise SettingsError(
            f'{where}: {value!r}: the address of a controller\'s metrics is wanted, as in "http://127.0.0.1:9464"'
        )
    return url.rstrip("/")


def _options(where: str, table: dict[str, Any]) -> ExecutionOptions:
    readers: dict[str, Callable[[str, Any], Any]] = {
        "throttle": _rate,
        "throttle-floor": _rate,
        "log-dir-throttle": _rate,
        "max-concurrent": _bound,
        "max-in": _bound,
        "max-out": _bound,
    }
    _refuse_unknown(where, table, readers)
    options = ExecutionOptions(
        **{key.replace("-", "_"): readers[key](f"{where}{key}", value) for key, value in table.items()}
    )
    if trouble := floor_trouble(options.throttle_floor, options.throttle):
        rule = "name a throttle that is at least its floor"
        raise SettingsError(f"{where}throttle-floor = {options.throttle_floor}: {trouble}; {rule}")
    return options


def _target(path: Path, where: str, table: dict[str, Any]) -> Target:
    own = [key for key in _CLUSTER[1:5] if key in table]
    named = {key: _text(f"{where} {key}", table[key]) for key in ("profile", *own) if key in table}
    if "profile" in named:
        if own:
            raise SettingsError(
                f"{where} {own[0]}: profile = {named['profile']!r} says where the cluster is: leave one out"
            )
        return target_of(read_profiles(), named["profile"])
    if "bootstrap-server" not in named:
        raise SettingsError(
            f'{where}: bootstrap-server = "HOST:PORT" is missing, or profile, a cluster of the settings file'
        )
    if "journal" in named and "journal-topic" in named:
        raise SettingsError(f"{where} journal, journal-topic: only one of them is allowed: leave one out")
    try:
        bootstrap_servers(named["bootstrap-server"])
    except SettingsError as error:
        raise SettingsError(f"{where} {error}") from error
    # Relative paths are relative to the policy file, not to the working directory.
    files = {key: path.parent / Path(named[key]).expanduser() if key in named else None for key in _CLUSTER[2:4]}
    topic = named.get("journal-topic")
    return Target(named["bootstrap-server"], files["command-config"], files["journal"], topic)


# ---- conditions


def _watches(where: str, table: dict[str, Any]) -> dict[Condition, Watch]:
    _refuse_unknown(where, table, [each.value for each in Condition])
    watches = dict(DEFAULTS)
    for name, value in table.items():
        condition = Condition(name)
        asked = {"do": value} if isinstance(value, str) else _table(f"{where}{name}", value)
        watches[condition] = _watch(f"{where}{name}", condition, asked)
    return watches


def _watch(where: str, condition: Condition, asked: dict[str, Any]) -> Watch:
    bounds = _BOUNDS if condition in MEASURED else _BOUNDS_IN_DAYS if condition in IN_DAYS else ()
    _refuse_unknown(f"{where}.", asked, (*_WATCH, *bounds))
    watch = DEFAULTS[condition]
    mode = watch.mode if "do" not in asked else _mode(f"{where}.do", condition, asked["do"])
    minutes = _number(f"{where}.minutes", asked.get("minutes", watch.minutes), least=0)
    watch = replace(watch, mode=mode, minutes=minutes)
    return _with_days(where, watch, asked) if condition in IN_DAYS else _with_shares(where, watch, asked)


def _with_shares(where: str, watch: Watch, asked: dict[str, Any]) -> Watch:
    begin, end = (
        round(bound * 100, 9) if key not in asked else _percent(f"{where}.{key}", asked[key])
        for key, bound in zip(_BOUNDS, (watch.begin, watch.end), strict=True)
    )
    if end > begin:
        rule = "a plan must not aim above the share that begins it: raise begin-percent or lower end-percent"
        raise SettingsError(f"{where}: end-percent = {end:g} is above begin-percent = {begin:g}: {rule}")
    return replace(watch, begin=begin / 100, end=end / 100)


def _with_days(where: str, watch: Watch, asked: dict[str, Any]) -> Watch:
    begin, end = (
        bound if key not in asked else _days(f"{where}.{key}", asked[key])
        for key, bound in zip(_BOUNDS_IN_DAYS, (watch.begin, watch.end), strict=True)
    )
    if end < begin:
        rule = "a plan must not aim at fewer days than begin it: lower begin-days or raise end-days"
        raise SettingsError(f"{where}: end-days = {end:g} is below begin-days = {begin:g}: {rule}")
    return replace(watch, begin=begin, end=end)


def _mode(where: str, condition: Condition, value: Any) -> Mode:
    allowed = [each.value for each in Mode if condition in MENDED or each in (Mode.OFF, Mode.NOTIFY)]
    if value not in allowed:
        why = "" if condition in MENDED else f"no plan mends {condition.value}: "
        raise SettingsError(f"{where} = {value!r}: {why}{' or '.join(allowed)} is wanted")
    return Mode(value)


# ---- guard rails


def _rails(where: str, table: dict[str, Any]) -> GuardRails:
    readers: dict[str, Callable[[str, Any], Any]] = {
        "moves": _at_least_one,
        "bytes": _size,
        "moves-per-day": _at_least_one,
        "bytes-per-day": _size,
        "cool-down-minutes": lambda at, value: _number(at, value, least=0),
        "gap-minutes": _at_least_one,
        "approvals": _at_least_one,
        "declined-minutes": lambda at, value: _number(at, value, least=0),
        "no-return-minutes": lambda at, value: _number(at, value, least=0),
        "windows": lambda at, value: tuple(_window(at, each) for each in _list(at, value)),
        "frozen-topics": lambda at, value: tuple(_text(at, each) for each in _list(at, value)),
        "frozen-brokers": _brokers,
    }
    _refuse_unknown(where, table, readers)
    read = {key.replace("-", "_"): readers[key](f"{where}{key}", value) for key, value in table.items()}
    return GuardRails(**read)


def _window(where: str, value: Any) -> tuple[int, int]:
    found = _WINDOW.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise SettingsError(f'{where}: {value!r} is not a window: write "22:00-06:00", in UTC')
    first, last = int(found[1]) * 60 + int(found[2]), int(found[3]) * 60 + int(found[4])
    if first == last:
        raise SettingsError(f"{where}: {value!r} begins when it ends: leave windows out to allow all times")
    return first, last


# ---- intents


def _intents(where: str, table: dict[str, Any]) -> Intents:
    _refuse_unknown(where, table, _INTENTS)
    topics = _table(f"{where}replication", table.get("replication", {}))
    return Intents(
        drain=_brokers(f"{where}drain", table.get("drain", [])),
        demote=_brokers(f"{where}demote", table.get("demote", [])),
        replace=_replaced(f"{where}replace", _table(f"{where}replace", table.get("replace", {}))),
        add=_brokers(f"{where}add", table.get("add", [])),
        replication={topic: _at_least_one(f"{where}replication.{topic}", each) for topic, each in topics.items()},
        least_replication=_number(f"{where}least-replication", table.get("least-replication", 0), least=0),
    )


def _replaced(where: str, table: dict[str, Any]) -> dict[int, int]:
    for old in table:
        if not old.isdecimal():
            raise SettingsError(
                f"{where}.{old}: a broker's id is wanted, as in {{ 3 = 7 }}: broker 7 takes the place of 3"
            )
    return {int(old): _number(f"{where}.{old}", new, least=0) for old, new in table.items()}


def _refuse_contradictions(where: str, rails: GuardRails, intents: Intents) -> None:
    """Refuse intents that contradict each other."""
    asked = [
        *(KeptIntent(IntentKind.DRAIN, str(broker), 0, "", 0) for broker in intents.drain),
        *(KeptIntent(IntentKind.DEMOTE, str(broker), 0, "", 0) for broker in intents.demote),
        *(KeptIntent(IntentKind.REPLACE, str(old), new, "", 0) for old, new in intents.replace.items()),
        *(KeptIntent(IntentKind.ADD, str(broker), 0, "", 0) for broker in intents.add),
    ]
    policy = KeeperPolicy(rails=rails)
    for intent in asked:
        if against := contradiction(policy, intent):
            named = f"{intent.kind.value} of {intent.about}"
            raise SettingsError(f"{where}{named}: {against.partition(': ')[0]}: leave one of them out")
        policy = with_intents(policy, [intent])


# ---- values


def _refuse_unknown(where: str, table: dict[str, Any], known: Collection[str]) -> None:
    for key in table:
        if key not in known:
            raise SettingsError(f"{where}{key} is not a key of a policy; {meant(key, known)}")


def _table(where: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise SettingsError(f"{where} = {value!r}: a table is wanted")
    return value


def _list(where: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise SettingsError(f"{where} = {value!r}: a list is wanted, as in [{value!r}]")
    return value


def _text(where: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise SettingsError(f"{where} = {value!r}: a text is wanted")
    return value


def _number(where: str, value: Any, *, least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise SettingsError(f"{where} = {value!r}: a whole number from {least} on is wanted")
    if value > _MOST_NUMBER:
        raise SettingsError(f"{where} = {value!r}: at most {_MOST_NUMBER:,} is allowed")
    return value


def _at_least_one(where: str, value: Any) -> int:
    return _number(where, value, least=1)


def _brokers(where: str, value: Any) -> tuple[int, ...]:
    return tuple(_number(where, each, least=0) for each in _list(where, value))


def _percent(where: str, value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < 100:
        raise SettingsError(f"{where} = {value!r}: a number above 0 and below 100 is wanted")
    return float(value)


def _days(where: str, value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= _MOST_DAYS:
        raise SettingsError(f"{where} = {value!r}: a number of days above 0 and up to {_MOST_DAYS:,} is wanted")
    return float(value)


def _size(where: str, value: Any) -> int:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT]?)", str(value)) if isinstance(value, str | int) else None
    size = float(found[1]) * _UNITS[found[2]] if found and not isinstance(value, bool) else 0.0
    if size > _MOST_BYTES:
        raise SettingsError(f"{where} = {value!r}: at most {_MOST_BYTES:,} bytes are allowed")
    if size < 1:
        raise SettingsError(f'{where} = {value!r}: bytes are wanted, as in "500G" (K, M, G, T: powers of ten)')
    return int(size)


def _rate(where: str, value: Any) -> int:
    rate = _size(where, value)
    if trouble := rate_trouble(rate):
        raise SettingsError(f"{where} = {value!r}: {trouble}")
    return rate


def _bound(where: str, value: Any) -> int:
    copies = _number(where, value, least=0)
    if trouble := bound_trouble(copies):
        raise SettingsError(f"{where} = {value!r}: {trouble}")
    return copies


__all__ = ["KeptCluster", "ServiceFile", "read_policies", "read_service_file"]
