"""The policy file of `shunter serve`: TOML, a table for each cluster. docs/keeper.md describes it."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from shunter.app.access.private_files import tell_readers
from shunter.app.client_configuration import configuration_of
from shunter.app.evaluation.policy_form import (
    BalanceForm,
    ClusterForm,
    NotifierForm,
    PersonForm,
    PolicyForm,
    SignOnForm,
    policy_form,
)
from shunter.app.executor.session import Target
from shunter.app.profiles import read_profiles
from shunter.app.targets import target_of
from shunter.core.keeper.intents import contradiction, with_intents
from shunter.drivers.host.http_client import is_open_to_others
from shunter.drivers.service.controller_status import ControllersPlace
from shunter.drivers.service.notifier import by_apprise
from shunter.errors import FormatError, SettingsError
from shunter.formats.text_files import text_of
from shunter.model.execution import ExecutionOptions
from shunter.model.keeper import BalanceRules, Condition, GuardRails, Intents, KeeperPolicy, Mode, Watch
from shunter.model.security.access import IssuerRules, ProxyRules, SignOnRules
from shunter.model.security.listeners import Secret
from shunter.model.service import TOKEN, USER, IntentKind, KeptIntent, Notifier, NotifierKind

CLIENT_SECRET = "SHUNTER_OIDC_CLIENT_SECRET"  # noqa: S105 - the name of a variable


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
    mode: str = "keep"
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
    address: str = ""
    """Where others reach this service; "": it does not say so."""
    sign_on: SignOnRules | None = None
    """Single sign-on; None: only tokens."""


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
        FormatError: it, or a file that it names, can't be read; or it is not TOML.
        SettingsError: a wrong key or value; the error names the key, the value, the rule and the way out.
    """
    try:
        document = tomllib.loads(text_of(path.read_bytes()))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        told = error.strerror if isinstance(error, OSError) else error
        raise FormatError(str(path), f"can't be read: {told}") from error
    form = policy_form(str(path), document)
    service = form.service
    lake = _beside(path, service.lake)
    model = None if lake is None else ModelPlace(lake, service.model_hours)
    people = _people(f"{path}: [people] ", form.people)
    kept = tuple(
        _cluster(path, name, each, form, people, table=document["cluster"][name], model=model)
        for name, each in form.cluster.items()
    )
    _refuse_shared_journals(path, kept)
    return ServiceFile(
        kept,
        float(service.look_seconds),
        _beside(path, service.snapshots),
        60.0 * service.snapshot_minutes,
        tuple(_notifier(path, each) for each in form.notify),
        service.address or "",
        None if form.sign_on is None else _sign_on(path, form.sign_on, service.address or ""),
    )


def _beside(path: Path, named: str | None) -> Path | None:
    """A path that the file names: relative paths are relative to the file, not to the working directory."""
    return None if named is None else path.parent / Path(named).expanduser()


def _notifier(path: Path, form: NotifierForm) -> Notifier:
    secret = _beside(path, form.secret_file)
    try:
        signed_by = b"" if secret is None else secret.read_bytes().strip()
    except OSError as error:
        raise FormatError(str(secret), f"can't be read: {error.strerror}") from error
    if secret is not None and not signed_by:
        raise SettingsError(
            f"{path}: [[notify]] secret-file = {str(secret)!r}: the file is empty: write a secret into it"
        )
    if form.kind == NotifierKind.APPRISE.value:
        try:
            by_apprise(form.url or "")
        except SettingsError as error:
            raise SettingsError(f"{path}: [[notify]] {error}") from error
    told = (NotifierKind(form.kind), form.url or "", form.command or (), form.events, form.digest_minutes)
    return Notifier(*told, tuple(form.headers.items()), signed_by)


def _sign_on(path: Path, form: SignOnForm, address: str) -> SignOnRules:
    proxy = None
    if form.proxy is not None:
        proxy = ProxyRules(form.proxy.source, form.proxy.user_header, form.proxy.groups_header)
    if form.oidc is None:
        return SignOnRules(form.roles, None, proxy)
    oidc, ca_file = form.oidc, _beside(path, form.oidc.ca_file)
    issuer = IssuerRules(
        oidc.issuer,
        oidc.client_id,
        address,
        client_secret=_client_secret(path, _beside(path, oidc.client_secret_file)),
        scopes=oidc.scopes,
        audience=oidc.audience or "",
        groups_claim=oidc.groups_claim,
        user_claim=oidc.user_claim,
        ca_file=None if ca_file is None else str(ca_file),
        leeway_s=oidc.leeway_seconds,
        session_s=None if oidc.session_minutes is None else 60 * oidc.session_minutes,
        label=oidc.label,
    )
    return SignOnRules(form.roles, issuer, proxy)


def _client_secret(path: Path, file: Path | None) -> Secret | None:
    if file is None:
        told = os.environ.get(CLIENT_SECRET, "")
        return Secret(told) if told else None
    try:
        told = text_of(file.read_bytes()).strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise FormatError(str(file), f"can't be read: {why}") from error
    tell_readers(file)
    if not told:
        raise SettingsError(
            f"{path}: [sign-on.oidc] client-secret-file = {str(file)!r}: the file is empty: write the secret into it"
        )
    return Secret(told)


def _people(where: str, forms: Mapping[str, PersonForm]) -> dict[str, str]:
    """Whose each token and each UNIX user is, by `token NAME` or `user NAME`."""
    found: dict[str, str] = {}
    for person, names in forms.items():
        for kind, key, given in ((TOKEN, "tokens", names.tokens), (USER, "users", names.users)):
            for name in given:
                first = found.setdefault(f"{kind} {name}", person)
                if first != person:
                    raise SettingsError(
                        f"{where}{person}.{key}: {kind} {name} is {first} already: leave one of them out"
                    )
    return found


def _cluster(
    path: Path,
    name: str,
    form: ClusterForm,
    file: PolicyForm,
    people: Mapping[str, str],
    *,
    table: Mapping[str, Any],
    model: ModelPlace | None,
) -> KeptCluster:
    where = f"{path}: [cluster.{name}]"
    wished = form.intents.given
    wished["replace"] = {int(old): new for old, new in form.intents.replace.items()}
    intents = Intents(**wished)
    rails = GuardRails(**form.limits.given, people=people)
    for kind, brokers in (("drain", intents.drain), ("demote", intents.demote)):
        for broker in sorted({*brokers} & {*rails.frozen_brokers}):
            rule = f"broker {broker} is in limits.frozen-brokers, too, and nothing of a frozen broker changes"
            raise SettingsError(f"{where} intents.{kind} = {list(brokers)}: {rule}: take it out of one of them")
    _refuse_contradictions(f"{where} intents.", rails, intents)
    mode = form.mode or file.mode
    watches = form.conditions.watches()
    if mode != "keep":
        watches = {each: _only_told(watch) for each, watch in watches.items()}
    policy = KeeperPolicy(watches, rails, intents, _balance(form.balance), observes=mode == "observe")
    options = ExecutionOptions(**form.execution.given)
    target = replace(_target(path, form), address=file.service.address or "")
    return KeptCluster(name, target, policy, options, table, model, mode, _controllers(path, where, form))


def _only_told(watch: Watch) -> Watch:
    return watch if watch.mode is Mode.OFF else replace(watch, mode=Mode.NOTIFY)


def _balance(form: BalanceForm) -> BalanceRules:
    return BalanceRules(
        tuple(map(Condition, form.goals)),
        tuple(map(Condition, form.hard)),
        form.headroom_percent / 100,
        form.replicas_per_broker,
        {int(broker): size for broker, size in form.disk_capacity.items()},
    )


def _controllers(path: Path, where: str, form: ClusterForm) -> ControllersPlace | None:
    if form.controllers is None:
        return None
    token = _beside(path, form.controllers_token_file)
    for url in form.controllers:
        if token is not None and is_open_to_others(url):
            rule = "the token would cross the network unencrypted: https:// is wanted"
            raise SettingsError(f"{where} controllers = {url!r}: {rule}")
    return ControllersPlace(form.controllers, token, _beside(path, form.controllers_ca_file))


def _target(path: Path, form: ClusterForm) -> Target:
    if form.profile is not None:
        return target_of(read_profiles(), form.profile)
    assert form.bootstrap_server is not None, "the form says where the cluster is"
    properties, journal = _beside(path, form.command_config), _beside(path, form.journal)
    return Target(form.bootstrap_server, properties, journal, form.journal_topic)


def _refuse_shared_journals(path: Path, clusters: Sequence[KeptCluster]) -> None:
    """Refuse clusters that share a journal: the second would wait for ever for the first to give it back."""
    places: dict[Path, str] = {}
    for cluster in clusters:
        journal = cluster.target.journal
        first = cluster.name if journal is None else places.setdefault(journal.resolve(), cluster.name)
        if first != cluster.name:
            rule = f"[cluster.{first}] has it too, and each cluster needs a journal of its own"
            raise SettingsError(f"{path}: [cluster.{cluster.name}] journal = {str(journal)!r}: {rule}")


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


__all__ = ["KeptCluster", "ServiceFile", "read_policies", "read_service_file"]
