"""The controller's settings: command line over environment (`SHUNTER_…`) over a TOML file over defaults.

They are loaded once and handed down as frozen values. docs/settings.md describes every setting; a test checks that.
"""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Iterable
from dataclasses import fields
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from shunter.app.controller.broker_file import BrokerFile
from shunter.app.profiles import VARIABLES
from shunter.core.authorizer import NetworkAuthorizer
from shunter.errors import SettingsError
from shunter.formats.server_properties import ServerProperties
from shunter.formats.text_files import text_of
from shunter.model.reassignment import Intervention, Strategy
from shunter.model.settings import ControllerSettings, ControlRequestEpoch, Takeover, TopicPolicy, WireLimits

STRATEGIES = {"incremental": Strategy.INCREMENTAL, "all-at-once": Strategy.ALL_AT_ONCE}
LIMITS = (
    "max_connections", "max_connections_per_ip", "connections_max_idle_ms", "queued_max_requests",
    "queued_max_request_bytes",
)  # fmt: skip
"""The fields of `WireLimits` that are settings. Nobody sets the others."""
CANCEL_MODES = {"rollback": Intervention.ROLL_BACK, "stop": Intervention.STOP}


class ControllerConfig(BaseSettings):
    """All settings of `shunter controller`, by the names that files and environment use."""

    model_config = SettingsConfigDict(env_prefix="SHUNTER_", extra="forbid", frozen=True)

    zookeeper: str = Field(description="ZooKeeper's addresses and chroot: HOST:PORT[,HOST:PORT…][/CHROOT]")
    listener: Annotated[list[str], NoDecode] = Field(
        description="where clients, tools and brokers reach us: NAME://HOST:PORT, repeatable"
    )
    advertised_listener: Annotated[list[str], NoDecode] = Field(
        [],
        description="the address that brokers and clients connect to, by listener name, if it differs from `listener`",
    )
    server_properties: Annotated[Annotated[BrokerFile, BeforeValidator(BrokerFile.read)] | None, NoDecode] = Field(
        None,
        description="a broker's server.properties: listeners' security, the authorizer, addresses not set otherwise",
    )
    zookeeper_config: Path | None = Field(
        None,
        description="a file of zookeeper.… properties (TLS, logins); it goes before server_properties",
    )
    cluster_action_networks: Annotated[list[str], NoDecode] = Field(
        [],
        description="networks, as 10.0.0.0/24, that may act as brokers if the cluster has no authorizer; none: all",
    )
    administration_networks: Annotated[list[str], NoDecode] = Field(
        [], description="networks that may change anything if the cluster has no authorizer; none: all"
    )
    relay: str = Field(
        "judged", description="requests passed on to brokers: judged (those that are permitted), or none"
    )
    broker_id: int = Field(
        ge=0, le=2**31 - 1, description="our broker id; no broker may have it, and it never holds data"
    )
    rack: str | None = Field(
        None, description="our rack, if brokers have racks; default: the most common of their racks"
    )
    session_timeout_ms: int = Field(18_000, ge=1_000, description="ZooKeeper session timeout, ms")
    takeover: str = Field("vacant", description="when to take the controllership: never, vacant, standby or preempt")
    takeover_cool_down_ms: int = Field(
        10_000, ge=0, description="pause before, or between, takeovers from Apache controllers, ms"
    )
    control_request_epoch: str = Field("max", description="broker epoch in control requests: max, or per-broker")
    inter_broker_protocol_version: str | None = Field(
        None, description="newest protocol to speak; default: the newest that brokers know and are set to"
    )
    inter_broker_listener: str | None = Field(
        None,
        description="the brokers' listener for control requests; default: the one that they name, or the first usable",
    )
    strategy: str = Field("incremental", description="how moves proceed: incremental or all-at-once")
    cancel_mode: str = Field("rollback", description="what a plain cancel does: rollback or stop")
    reassignment_max_concurrent: int = Field(0, ge=0, description="moves under way at once; 0: no bound")
    reassignment_max_concurrent_per_broker: int = Field(
        0, ge=0, description="the same by receiving broker; 0: no bound"
    )
    reassignment_relax_after_ms: int = Field(600_000, ge=0, description="how long the floor may hold a move up, ms")
    reassignment_roll_back_after_ms: int = Field(
        0, ge=0, description="how long a move waits for a dead broker before it is rolled back, ms; 0: for ever"
    )
    control_request_timeout_ms: int = Field(
        30_000,
        ge=1_000,
        description="how long one control request may be unanswered before its connection is made anew, ms",
    )
    slow_broker_ms: int = Field(10_000, ge=0, description="how long waiting work waits for one broker's answer, ms")
    default_partitions: int = Field(1, ge=1, description="num.partitions of new topics")
    default_replication_factor: int = Field(1, ge=1, description="default.replication.factor of new topics")
    default_min_isr: int = Field(1, ge=1, description="min.insync.replicas where neither topic nor cluster says")
    unclean_leader_election: bool = Field(False, description="allow leaders that lose records, where topics don't say")
    delete_topics: bool = Field(True, description="delete.topic.enable")
    topic_policy_name_pattern: str = Field(
        ".*", description="regular expression that names of new topics have to match"
    )
    topic_policy_least_replication_factor: int = Field(0, ge=0, description="of new topics; 0: any")
    topic_policy_greatest_replication_factor: int = Field(0, ge=0, description="of new topics; 0: any")
    topic_policy_most_partitions: int = Field(0, ge=0, description="of a topic that is created or grows; 0: any")
    topic_policy_least_min_isr: int = Field(0, ge=0, description="min.insync.replicas of new topics; 0: any")
    mutation_quota_burst_seconds: float = Field(
        11.0,
        gt=0,
        le=1e6,
        description="seconds of a controller_mutation_rate that may be used at once: controller.quota.window.num times"
        " controller.quota.window.size.seconds",
    )
    tiered_storage: bool = Field(False, description="the brokers' remote.log.storage.system.enable")
    leader_rebalance_enable: bool = Field(True, description="give leadership back to preferred leaders now and then")
    leader_rebalance_interval_ms: int = Field(
        300_000, ge=1_000, description="how often leaders' balance is looked at, ms"
    )
    leader_imbalance_percent: int = Field(
        10, ge=0, le=100, description="share of its preferred partitions that a broker may not lead"
    )
    max_connections: int = Field(2_000, ge=1, description="connections of clients taken at once; max.connections")
    max_connections_per_ip: int = Field(1_000, ge=1, description="of one address; max.connections.per.ip")
    connections_max_idle_ms: int = Field(
        600_000, ge=1_000, description="how long a connection may be idle, ms; connections.max.idle.ms"
    )
    queued_max_requests: int = Field(
        500, ge=1, description="unanswered requests of all clients together; queued.max.requests"
    )
    queued_max_request_bytes: int = Field(
        104_857_600, ge=65_536, description="bytes of requests held for clients; queued.max.request.bytes"
    )
    metrics_port: int | None = Field(None, description="port for Prometheus metrics; default: none")
    metrics_address: str = Field("127.0.0.1", description="address for metrics; another than the loopback's needs TLS")
    metrics_listener: str | None = Field(
        None, description="listener whose TLS metrics have, client certificates included; default: plain HTTP"
    )
    metrics_tokens: Path | None = Field(
        None, description="file of tokens; readers of metrics have to show one of them; default: no token is needed"
    )
    log_dir: str | None = Field(
        None, description="folder of the state-change log and the audit log; default: neither is kept"
    )
    log_level: str = Field("info", description="error, warning, info or debug")

    @field_validator(
        "listener", "advertised_listener", "cluster_action_networks", "administration_networks", mode="before"
    )
    @classmethod
    def _one_or_several(cls, value: Any) -> Any:
        """Read a list from the text of an environment variable: a JSON list, or addresses with commas between."""
        if not isinstance(value, str):
            return value
        if not value.lstrip().startswith("["):
            return [address.strip() for address in value.split(",") if address.strip()]
        try:
            return json.loads(value)
        except ValueError as error:
            raise ValueError(f"it begins like a JSON list, but is not one ({error})") from error

    @field_validator("takeover", "relay", "control_request_epoch", "strategy", "cancel_mode", "log_level")
    @classmethod
    def _known_word(cls, value: str, info: Any) -> str:
        words = {
            "takeover": [word.value for word in Takeover],
            "control_request_epoch": [word.value for word in ControlRequestEpoch],
            "strategy": list(STRATEGIES),
            "cancel_mode": list(CANCEL_MODES),
            "relay": ["judged", "none"],
            "log_level": ["error", "warning", "info", "debug"],
        }[info.field_name]
        if value not in words:
            near = difflib.get_close_matches(value.lower(), words, n=1, cutoff=0.5)
            told = f"it has to be one of {', '.join(words)}"
            raise ValueError(told + (f"; did you mean {near[0]}?" if near else ""))
        return value

    @field_validator("cluster_action_networks", "administration_networks")
    @classmethod
    def _are_networks(cls, value: list[str]) -> list[str]:
        for text in value:
            ip_network(text)
        return value

    @field_validator("topic_policy_name_pattern")
    @classmethod
    def _is_a_pattern(cls, value: str) -> str:
        try:
            re.compile(value)
        except re.error as error:
            raise ValueError(f"it is not a regular expression ({error})") from error
        return value

    def controller_settings(self) -> ControllerSettings:
        """The settings that the core decides by."""
        return ControllerSettings(
            broker_id=self.broker_id,
            takeover=Takeover(self.takeover),
            control_request_epoch=ControlRequestEpoch(self.control_request_epoch),
            strategy=STRATEGIES[self.strategy],
            cancel_mode=CANCEL_MODES[self.cancel_mode],
            max_concurrent=self.reassignment_max_concurrent,
            max_concurrent_per_broker=self.reassignment_max_concurrent_per_broker,
            relax_after_ms=self.reassignment_relax_after_ms,
            slow_broker_ms=self.slow_broker_ms,
            default_partitions=self.default_partitions,
            default_replication_factor=self.default_replication_factor,
            default_min_isr=self.default_min_isr,
            unclean_leader_election=self.unclean_leader_election,
            delete_topics=self.delete_topics,
            tiered_storage=self.tiered_storage,
            leader_rebalance_enable=self.leader_rebalance_enable,
            leader_rebalance_interval_ms=self.leader_rebalance_interval_ms,
            leader_imbalance_percent=self.leader_imbalance_percent,
            roll_back_after_ms=self.reassignment_roll_back_after_ms,
            topic_policy=TopicPolicy(
                **{each.name: getattr(self, f"topic_policy_{each.name}") for each in fields(TopicPolicy)}
            ),
        )

    def networks(self) -> NetworkAuthorizer:
        """The rules for requests if the cluster has no authorizer."""
        return NetworkAuthorizer(
            tuple(map(ip_network, self.cluster_action_networks)), tuple(map(ip_network, self.administration_networks))
        )

    def wire_limits(self) -> WireLimits:
        """The limits that protect the controller from its peers."""
        return WireLimits(**{name: getattr(self, name) for name in LIMITS})


def load_controller_config(file: Path | None, given: dict[str, Any]) -> ControllerConfig:
    """Read settings: `given` (from the command line) over environment over `file` over defaults.

    Raises:
        SettingsError: a setting can't be used; the error names the setting, its value and the rule.
    """
    from_file: dict[str, Any] = {}
    if file is not None:
        try:
            from_file = tomllib.loads(text_of(file.read_bytes()))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise SettingsError(f"settings file {file}: {error}") from error
        from_file = {name.replace("-", "_").replace(".", "_"): value for name, value in from_file.items()}
    try:
        return _Layered.load(from_file, given)
    except ValidationError as error:
        raise SettingsError(f"settings can't be used: {'; '.join(map(_told, error.errors()))}") from error


def _told(problem: Any) -> str:
    """Say in a sentence what is wrong with a setting: its name, the value, the rule, and the likely right name."""
    name, kind = ".".join(str(part) for part in problem["loc"]), problem["type"]
    if kind == "missing":
        return f"{name}: it has to be set"
    got = f"(got {problem['input']!r})"
    if kind == "extra_forbidden":
        near = difflib.get_close_matches(name, ControllerConfig.model_fields, n=1, cutoff=0.6)
        return f"{name} names no setting {got}" + (f"; did you mean {near[0]}?" if near else "; see docs/settings.md")
    if kind == "value_error":
        return f"{name}: {problem['ctx']['error']} {got}"
    rule = str(problem["msg"]).removeprefix("Input ")
    return f"{name}: it {rule} {got}"


OTHER_VARIABLES = VARIABLES | {
    "SHUNTER_CACHE", "SHUNTER_STATE", "SHUNTER_LAKE", "SHUNTER_IVY_SETTINGS", "SHUNTER_TEST_PATIENCE",
}  # fmt: skip
"""Environment variables of Shunter's other commands and of its tests, which are not settings of the controller."""


def strange_variables(environment: Iterable[str]) -> list[str]:
    """A sentence for each environment variable that looks like a setting but is not one, with the likely setting.

    Such variables are not refused: if Shunter is a service of Kubernetes, every container gets SHUNTER_SERVICE_HOST,
    SHUNTER_PORT and similar variables unasked.
    """
    known = [f"SHUNTER_{name.upper()}" for name in ControllerConfig.model_fields]
    strange = sorted(
        name for name in environment if name.startswith("SHUNTER_") and name not in OTHER_VARIABLES.union(known)
    )
    meant = ((name, difflib.get_close_matches(name, known, n=1, cutoff=0.8)) for name in strange)
    return [f"{name} names no setting" + (f"; did you mean {near[0]}?" if near else "") for name, near in meant]


class _Layered:
    """The command line goes before the environment, and this before the file; pydantic alone would prefer the file."""

    @staticmethod
    def load(from_file: dict[str, Any], given: dict[str, Any]) -> ControllerConfig:
        import os  # noqa: PLC0415 - only to see which names the environment sets

        environment = {name.lower().removeprefix("shunter_") for name in os.environ if name.startswith("SHUNTER_")}
        kept = {name: value for name, value in from_file.items() if name not in environment}
        said = {**kept, **given}
        path = said.get("server_properties", os.environ.get("SHUNTER_SERVER_PROPERTIES"))
        if path is None:
            return ControllerConfig(**said)
        said["server_properties"] = file = BrokerFile.read(path)
        lowest = _addresses(file.properties)
        missing = {name: value for name, value in lowest.items() if name not in {*said, *environment}}
        return ControllerConfig(**{**missing, **said})


def _addresses(properties: ServerProperties) -> dict[str, Any]:
    """Addresses and rack from a broker's properties. The broker id is not taken, because it is the broker's."""
    found = {
        "zookeeper": properties.get("zookeeper.connect"),
        "listener": properties.listeners("listeners"),
        "advertised_listener": properties.listeners("advertised.listeners"),
        "rack": properties.get("broker.rack"),
    }
    return {name: value for name, value in found.items() if value}
