"""The form of the policy file: its keys, their values and their rules, and the JSON Schema that editors read.

A value that breaks a rule is told by the rule's own sentence, with the place in the file before it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    WithJsonSchema,
    create_model,
    field_validator,
    model_validator,
)

from shunter.app.evaluation.policy_values import (
    Address,
    Brokers,
    Controller,
    Copies,
    Days,
    Event,
    HeaderName,
    Headroom,
    Issuer,
    KeptWindow,
    Kind,
    Natural,
    Network,
    Percent,
    Positive,
    Rate,
    Role,
    ServiceMode,
    Size,
    Text,
    Texts,
    Wrong,
    http_url,
    listed,
    numbered,
    one_of,
    tabled,
)
from shunter.app.profiles import meant
from shunter.core.keeper.requests import BANDS
from shunter.errors import SettingsError
from shunter.formats.client_properties import bootstrap_servers
from shunter.model.keeper import (
    DEFAULTS,
    IN_DAYS,
    MEASURED,
    MENDED,
    Condition,
    GuardRails,
    Mode,
    Watch,
)
from shunter.model.limits import floor_trouble
from shunter.model.service import NOTIFIED, NotifierKind


class Form(BaseModel):
    """A table of the file. Its keys are those of the fields, with hyphens."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=lambda name: name.replace("_", "-"), arbitrary_types_allowed=True
    )
    known: ClassVar[str] = "policy"

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, table: Any) -> Any:
        keys = [each.alias or name for name, each in cls.model_fields.items()]
        for key in tabled(table):
            if key not in keys:
                raise Wrong(f" is not a key of a policy; {meant(key, keys)}", key)
        return table

    @property
    def given(self) -> dict[str, Any]:
        """The values that the file has, by field."""
        return {name: getattr(self, name) for name in self.model_fields_set}


# ---- conditions


def _watch_form(condition: Condition) -> Any:
    """The form of one condition: a table, or what it may do as a text."""
    modes = tuple(each.value for each in Mode if condition in MENDED or each in (Mode.OFF, Mode.NOTIFY))
    default = DEFAULTS[condition]

    def checked(value: Any) -> str:
        if value not in modes:
            why = "" if condition in MENDED else f"no plan mends {condition.value}: "
            raise Wrong(f" = {value!r}: {why}{' or '.join(modes)} is wanted")
        return str(value)

    def opened(value: Any) -> Any:
        return {"do": value} if isinstance(value, str) else value

    do = Annotated[str, BeforeValidator(checked), WithJsonSchema({"enum": list(modes)})]
    fields: dict[str, Any] = {
        "do": (do, Field(default=default.mode.value, description="What the condition may do.")),
        "minutes": (Natural, Field(default=default.minutes, description="How long it has to hold first.")),
    }
    if condition in MEASURED:
        fields["begin_percent"] = (
            Percent,
            Field(default=100 * default.begin, description="It begins to hold beyond this."),
        )
        fields["end_percent"] = (
            Percent,
            Field(default=100 * default.end, description="It holds until this; a plan aims at it."),
        )
    if condition in IN_DAYS:
        fields["begin_days"] = (
            Days,
            Field(default=default.begin, description="It begins to hold with fewer days left."),
        )
        fields["end_days"] = (Days, Field(default=default.end, description="It holds until so many days are left."))
    form = create_model(f"Watch {condition.value}", __base__=_WatchForm, **fields)
    form.condition = condition
    table = {"anyOf": [{"enum": list(modes)}, form.model_json_schema(mode="validation")]}
    return Annotated[form, BeforeValidator(opened), WithJsonSchema(table)]


class _WatchForm(Form):
    """How one condition is watched."""

    condition: ClassVar[Condition]

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        self.watch()
        return self

    def watch(self) -> Watch:
        """The condition's watch."""
        told: Mapping[str, Any] = self.__dict__
        begin = end = 0.0
        if self.condition in MEASURED:
            begin, end = round(told["begin_percent"], 9), round(told["end_percent"], 9)
            if end > begin:
                rule = "a plan must not aim above the share that begins it: raise begin-percent or lower end-percent"
                raise Wrong(f": end-percent = {end:g} is above begin-percent = {begin:g}: {rule}")
            begin, end = begin / 100, end / 100
        elif self.condition in IN_DAYS:
            begin, end = told["begin_days"], told["end_days"]
            if end < begin:
                rule = "a plan must not aim at fewer days than begin it: lower begin-days or raise end-days"
                raise Wrong(f": end-days = {end:g} is below begin-days = {begin:g}: {rule}")
        return Watch(Mode(told["do"]), told["minutes"], begin, end)


class _ConditionsForm(Form):
    def watches(self) -> dict[Condition, Watch]:
        """Every condition's watch; those that the file leaves out as usual."""
        return {**DEFAULTS, **{form.condition: form.watch() for form in self.given.values()}}


if TYPE_CHECKING:

    class ConditionsForm(_ConditionsForm):
        """What each condition may do, and when it holds."""

else:
    ConditionsForm = create_model(
        "Conditions",
        __base__=_ConditionsForm,
        __doc__="What each condition may do, and when it holds.",
        **{each.name.lower(): (_watch_form(each), None) for each in Condition},
    )


# ---- a cluster's other tables


class LimitsForm(Form):
    """Bounds of every plan, and what no plan touches."""

    moves: Positive | None = Field(default=None, description="The most replicas that one plan copies.")
    bytes: Size | None = Field(default=None, description='The most bytes that one plan copies, as "2T".')
    moves_per_day: Positive | None = Field(default=None, description="The most moves in 24 hours.")
    bytes_per_day: Size | None = Field(default=None, description="The most bytes in 24 hours.")
    cool_down_minutes: Natural = Field(default=0, description="How long after an execution nothing is begun.")
    cool_off_minutes: Natural = Field(
        default=0, description="How long after a person stopped something, or rolled it back, no plan begins."
    )
    windows: Annotated[tuple[KeptWindow, ...], BeforeValidator(listed)] = Field(
        default=(), description='When plans may begin: "22:00-06:00", or "Mon-Fri 22:00-06:00 Europe/Berlin".'
    )
    frozen_topics: Texts = Field(default=(), description="Names, or patterns with * and ?: nothing changes there.")
    frozen_brokers: Brokers = Field(default=(), description="Nothing comes to these brokers or leaves them.")
    approvals: Positive = Field(default=1, description="So many different people have to approve a proposal.")
    declined_minutes: Natural = Field(
        default=GuardRails().declined_minutes, description="How long a declined proposal holds its scope back."
    )
    no_return_minutes: Natural = Field(
        default=GuardRails().no_return_minutes,
        description="How long no balance brings back what an earlier one took away.",
    )
    gap_minutes: Positive = Field(default=15, description="Looks further apart say nothing about the time between.")


class IntentsForm(Form):
    """Lasting wishes, which every plan keeps to."""

    drain: Brokers = Field(default=(), description="Brokers that hold nothing.")
    cordon: bool = Field(default=False, description="Drained brokers are cordoned, also those of orders (Kafka 4.3).")
    demote: Brokers = Field(default=(), description="Brokers that lead nothing.")
    replace: Annotated[dict[str, Natural], BeforeValidator(numbered)] = Field(
        default={}, description="By broker: the broker that takes over all its replicas."
    )
    add: Brokers = Field(default=(), description="Brokers that get their share, once they are up.")
    replication: Annotated[dict[str, Positive], BeforeValidator(tabled)] = Field(
        default={}, description="By topic: its exact number of replicas."
    )
    least_replication: Natural = Field(
        default=0, description="Every other topic has at least so many replicas; 0: no rule."
    )


_GOALS = tuple(each.value for each in BANDS)
Goal = Annotated[str, BeforeValidator(one_of(*_GOALS)), WithJsonSchema({"enum": list(_GOALS)})]


class BalanceForm(Form):
    """What a balance aims at, in which order, and how much of a broker may be filled."""

    goals: Annotated[tuple[Goal, ...], BeforeValidator(listed)] = Field(
        default=(),
        description="The bands, the most important first; those left out come after them in their usual order.",
    )
    hard: Annotated[tuple[Goal, ...], BeforeValidator(listed)] = Field(
        default=(), description="No plan but one that heals takes a broker out of these bands; the others are soft."
    )
    headroom_percent: Headroom = Field(
        default=20.0, description="The share of each disk that stays free, also during copies."
    )
    replicas_per_broker: Positive | None = Field(default=None, description="The most replicas on one broker.")
    disk_capacity: Annotated[dict[str, Size], BeforeValidator(numbered)] = Field(
        default={}, description="By broker: the bytes of its disks, if it does not say so itself (before Kafka 3.3)."
    )

    @field_validator("goals", "hard")
    @classmethod
    def _once(cls, named: Sequence[str]) -> Sequence[str]:
        twice = next((each for at, each in enumerate(named) if each in named[:at]), None)
        if twice is not None:
            raise Wrong(f": {twice!r} is named twice: leave one of them out")
        return named


class ExecutionForm(Form):
    """How plans are carried out, as the flags of `shunter execute`."""

    throttle: Rate | None = Field(default=None, description="Bytes per second of one broker.")
    throttle_floor: Rate | None = Field(default=None, description="The least that the throttle is lowered to.")
    log_dir_throttle: Rate | None = Field(default=None, description="Bytes per second of copies between log dirs.")
    max_concurrent: Copies = Field(default=0, description="Partitions that move at once; 0: no bound.")
    max_in: Copies = Field(default=0, description="Copies that one broker receives at once; 0: no bound.")
    max_out: Copies = Field(default=0, description="Copies that one broker sends at once; 0: no bound.")

    @model_validator(mode="after")
    def _above_its_floor(self) -> Self:
        if trouble := floor_trouble(self.throttle_floor, self.throttle):
            rule = "name a throttle that is at least its floor"
            raise Wrong(f" = {self.throttle_floor}: {trouble}; {rule}", "throttle-floor")
        return self


class ClusterForm(Form):
    """One cluster."""

    profile: Text | None = Field(
        default=None, description="A cluster of the settings file, instead of bootstrap-server."
    )
    bootstrap_server: Text | None = Field(default=None, description="HOST:PORT[,HOST:PORT…]")
    command_config: Text | None = Field(default=None, description="Client properties, beside this file.")
    journal: Text | None = Field(default=None, description="The journal's file, beside this file.")
    journal_topic: Text | None = Field(default=None, description="The journal's topic in the cluster.")
    controllers: Annotated[tuple[Controller, ...], BeforeValidator(listed)] | None = Field(
        default=None, description="Where Shunter's controllers serve metrics."
    )
    controllers_token_file: Text | None = Field(default=None, description="The token that the controllers ask for.")
    controllers_ca_file: Text | None = Field(default=None, description="The authorities of https:// controllers.")
    mode: ServiceMode | None = Field(default=None, description="As the key above all tables, for this cluster alone.")
    conditions: ConditionsForm = Field(default_factory=ConditionsForm)
    limits: LimitsForm = Field(default_factory=LimitsForm)
    intents: IntentsForm = Field(default_factory=IntentsForm)
    balance: BalanceForm = Field(default_factory=BalanceForm)
    execution: ExecutionForm = Field(default_factory=ExecutionForm)

    @model_validator(mode="after")
    def _says_where_it_is(self) -> Self:
        places = ("bootstrap-server", "command-config", "journal", "journal-topic")
        own = [each for each in places if getattr(self, each.replace("-", "_")) is not None]
        if self.profile is not None:
            if own:
                told = f": profile = {self.profile!r} says where the cluster is: leave one out"
                raise Wrong(told, own[0])
        elif self.bootstrap_server is None:
            raise Wrong(': bootstrap-server = "HOST:PORT" is missing, or profile, a cluster of the settings file')
        elif self.journal is not None and self.journal_topic is not None:
            raise Wrong(" journal, journal-topic: only one of them is allowed: leave one out")
        else:
            try:
                bootstrap_servers(self.bootstrap_server)
            except SettingsError as error:
                raise Wrong(f" {error}") from error
        return self

    @model_validator(mode="after")
    def _names_controllers(self) -> Self:
        for key in ("controllers-token-file", "controllers-ca-file"):
            if self.controllers is None and getattr(self, key.replace("-", "_")) is not None:
                raise Wrong(" is for controllers: name these, too", key)
        return self


# ---- the file


class ServiceForm(Form):
    """The service itself."""

    address: Address | None = Field(
        default=None, description="Where others reach the page and the API of this service."
    )
    look_seconds: Positive = Field(default=60, description="Time from the end of a look to the next one.")
    snapshots: Text | None = Field(default=None, description="A folder in which looks are kept for the pipeline.")
    snapshot_minutes: Positive = Field(default=60, description="Time between two snapshots.")
    lake: Text | None = Field(default=None, description="The pipeline's lake, beside this file.")
    model_hours: Positive = Field(default=24, description="A load model is not used if its rates end more hours ago.")

    @model_validator(mode="after")
    def _of_a_lake(self) -> Self:
        if self.lake is None and "model_hours" in self.model_fields_set:
            raise Wrong(" is for models of the lake: set lake, too", "model-hours")
        return self


class PersonForm(Form):
    """Whose accounts these are."""

    tokens: Texts = Field(default=(), description="Names of tokens.")
    users: Texts = Field(default=(), description="UNIX users.")


class NotifierForm(Form):
    """A receiver of notifications."""

    kind: Kind = Field(description="The kind of receiver.")
    url: Text | None = Field(
        default=None, description="Where messages are posted; for kind = apprise, a URL as Apprise reads it."
    )
    command: Texts | None = Field(default=None, description="A program and its arguments, for kind = command.")
    events: Annotated[tuple[Event, ...], BeforeValidator(listed)] = Field(
        default=NOTIFIED, description="The events to send."
    )
    digest_minutes: Natural = Field(
        default=5,
        description="After a message, further ones are collected for so long and sent as one; 0: each at once.",
    )
    headers: Annotated[dict[str, Text], BeforeValidator(tabled)] = Field(
        default={}, description="Headers of each message, as Authorization."
    )
    secret_file: Text | None = Field(
        default=None, description="A file with the secret by which messages are signed (HMAC-SHA256), beside this file."
    )

    @model_validator(mode="before")
    @classmethod
    def _of_a_kind(cls, table: Any) -> Any:
        if isinstance(table, dict) and "kind" not in table:
            raise Wrong(f" = None: {' or '.join(each.value for each in NotifierKind)} is wanted", "kind")
        return table

    @model_validator(mode="after")
    def _reachable(self) -> Self:
        wanted, other = ("command", "url") if self.kind == NotifierKind.COMMAND.value else ("url", "command")
        if getattr(self, wanted) is None or getattr(self, other) is not None:
            raise Wrong(f": {self.kind} needs {wanted}, and can't have {other}")
        if self.command is not None and not self.command:
            raise Wrong(" = []: a program is wanted, and its arguments", "command")
        posted = self.command is None and self.kind != NotifierKind.APPRISE.value
        if posted:
            try:
                http_url(self.url)
            except Wrong as wrong:
                raise Wrong(wrong.tail, "url") from wrong
        for key in ("headers", "secret_file"):
            if not posted and key in self.model_fields_set:
                raise Wrong(" is for messages that are posted: leave it out", key.replace("_", "-"))
        for name, value in self.headers.items():
            if not re.fullmatch(r"[A-Za-z0-9-]+", name) or not re.fullmatch(r"[\x20-\x7e]+", value):
                raise Wrong(f".{name}: a header's name and a value of one line in ASCII are wanted", "headers")
        return self


class IssuerForm(Form):
    """An OpenID Connect issuer, where people sign in."""

    issuer: Issuer = Field(description="Its address; /.well-known/openid-configuration is below it.")
    client_id: Text = Field(description="The name of this service there.")
    client_secret_file: Text | None = Field(
        default=None,
        description="A file with the secret, beside this file. Else SHUNTER_OIDC_CLIENT_SECRET; none: a public client.",
    )
    scopes: Texts = Field(default=("openid", "profile", "email"), description="What is asked for.")
    audience: Text | None = Field(default=None, description="In aud of programs' tokens.  Default: the client id.")
    groups_claim: Text = Field(default="groups", description="The claim with groups or roles, as realm_access.roles.")
    user_claim: Text = Field(default="preferred_username", description="The claim with the person's name.")
    ca_file: Text | None = Field(default=None, description="PEM file with its authorities; else the system's.")
    leeway_seconds: Natural = Field(default=30, le=300, description="Clocks may differ by so much.")
    session_minutes: Positive | None = Field(
        default=None, description="So long a session lasts, 12 hours at the most.  Default: as its ID token."
    )
    label: Text = Field(default="single sign-on", description="The page says: Sign in with LABEL.")

    @field_validator("scopes")
    @classmethod
    def _of_openid(cls, scopes: tuple[str, ...]) -> tuple[str, ...]:
        if "openid" not in scopes:
            raise Wrong(f" = {list(scopes)!r}: openid is wanted among them, or the issuer makes no ID token")
        return scopes


class ProxyForm(Form):
    """A proxy that says by headers who asks."""

    source: Annotated[tuple[Network, ...], BeforeValidator(listed)] = Field(
        alias="from",
        min_length=1,
        description="Addresses or networks of the proxy; headers from elsewhere are ignored.",
    )
    user_header: HeaderName = Field(default="X-Forwarded-User", description="The header with the person's name.")
    groups_header: HeaderName = Field(default="X-Forwarded-Groups", description="With groups, and commas between.")


class SignOnForm(Form):
    """Who comes in besides those who have tokens."""

    roles: Annotated[dict[str, Role], BeforeValidator(tabled)] = Field(
        min_length=1, description="What a group may do: read, operate or administer. Others have no access."
    )
    oidc: IssuerForm | None = Field(default=None, description="An OpenID Connect issuer.")
    proxy: ProxyForm | None = Field(default=None, description="A proxy that signs people on.")

    @model_validator(mode="after")
    def _by_something(self) -> Self:
        if self.oidc is None and self.proxy is None:
            raise Wrong(": who signs people on is missing: write [sign-on.oidc] or [sign-on.proxy]")
        return self


class PolicyForm(Form):
    """The policy file of `shunter serve`."""

    mode: ServiceMode = Field(
        default="keep",
        description="drive: what people order is carried out, and nothing is proposed. observe: nothing in a cluster is changed.",
    )
    cluster: Annotated[dict[str, ClusterForm], BeforeValidator(tabled)] = Field(description="By name.")
    service: ServiceForm = Field(default_factory=ServiceForm)
    people: Annotated[dict[str, PersonForm], BeforeValidator(tabled)] = Field(
        default={}, description="Whose tokens and UNIX users these are: nobody approves twice."
    )
    notify: Annotated[tuple[NotifierForm, ...], BeforeValidator(listed)] = Field(default=(), description="Receivers.")
    sign_on: SignOnForm | None = Field(default=None, description="Single sign-on for the page and the API.")

    @model_validator(mode="after")
    def _returns_somewhere(self) -> Self:
        if self.sign_on is not None and self.sign_on.oidc is not None and self.service.address is None:
            told = " is missing: the issuer sends people back there: write address, as https://keeper.example"
            raise Wrong(f".address{told}", "service")
        return self

    @model_validator(mode="before")
    @classmethod
    def _clusters(cls, table: Any) -> Any:
        if isinstance(table, dict) and table.get("cluster", {}) == {} and set(table) <= set(cls.model_fields):
            raise Wrong(" names no cluster: write [cluster.NAME], and bootstrap-server or profile below it")
        return table

    @field_validator("cluster")
    @classmethod
    def _names(cls, clusters: Mapping[str, ClusterForm]) -> Mapping[str, ClusterForm]:
        for name in clusters:
            if not re.fullmatch(r"[A-Za-z0-9._-]+", name):
                raise Wrong(
                    ": letters, digits, '.', '_' and '-' are wanted in a name: plan files are named by it", name
                )
        return clusters


def policy_form(where: str, document: Mapping[str, Any]) -> PolicyForm:
    """Check a policy file that was read.

    Raises:
        SettingsError: a wrong key or value; the error names the key, the value, the rule and the way out.
    """
    try:
        return PolicyForm.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        wrong = first.get("ctx", {}).get("error")
        loc = [each for each in first["loc"] if each != "[key]"]
        if first["type"] == "missing":
            raise SettingsError(f"{place(where, loc)} is missing, and has no default: write it") from None
        if not isinstance(wrong, Wrong):
            raise SettingsError(f"{place(where, loc)} = {first['input']!r}: {first['msg']}") from error
        raise SettingsError(place(where, [*loc, *([wrong.key] if wrong.key else [])]) + wrong.tail) from None


def place(where: str, loc: Sequence[int | str]) -> str:
    """The place of a value, as the file names it: `[cluster.prod] limits.moves`."""
    if not loc:
        return where
    table, rest = str(loc[0]), [*loc[1:]]
    head = table
    if rest and table == "cluster":
        head = f"[cluster.{rest.pop(0)}]"
    elif rest and table == "sign-on" and isinstance(rest[0], str):
        head = f"[sign-on.{rest.pop(0)}]"
    elif rest and table == "notify":
        head = f"[[notify]] {int(rest.pop(0)) + 1}"
    elif rest:
        head = f"[{table}]"
    # An item of a list is shown by its value, and has no name.
    names = ".".join(str(each) for each in rest if not isinstance(each, int))
    return f"{where}: {head} {names}".rstrip()


def policy_schema() -> dict[str, Any]:
    """The JSON Schema of a policy file."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The policy file of shunter serve",
        **_untitled(PolicyForm.model_json_schema(by_alias=True)),
    }


def _untitled(schema: Any) -> Any:
    """A schema without the titles that pydantic makes of names."""
    if isinstance(schema, list):
        return [_untitled(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: _untitled(each) for key, each in schema.items() if key != "title" or not isinstance(each, str)}
