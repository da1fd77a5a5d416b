"""The composition root of `shunter controller`: one process that stands for election and does the controller's work."""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import logging
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from shunter.app.access.private_files import keep_to_ourselves
from shunter.app.controller.broker_defaults import BrokerDefaults
from shunter.app.controller.logs import ControllerLogs
from shunter.app.controller.metric_rows import ControllerParts
from shunter.app.controller.metrics import PrometheusPage
from shunter.app.controller.security import MetricsReaders, Security
from shunter.app.controller.settings import LIMITS, ControllerConfig, strange_variables
from shunter.app.controller.zookeeper_security import zookeeper_access
from shunter.core.controller.events import SessionExpired, SettingsChanged
from shunter.core.controller.machine import ControllerMachine
from shunter.drivers.brokers.channels import Channels
from shunter.drivers.brokers.relay import Relay
from shunter.drivers.election.census_taker import CensusTaker
from shunter.drivers.election.loop import ControllerLoop
from shunter.drivers.election.seat import ControllerSeat
from shunter.drivers.election.survey import Survey
from shunter.drivers.host.clock import SystemClock
from shunter.drivers.host.file_limits import SPARE_FILES, make_room
from shunter.drivers.host.idle_collector import IdleCollector
from shunter.drivers.host.loop_lag import LoopLag
from shunter.drivers.host.metrics_endpoint import MetricsEndpoint
from shunter.drivers.host.service_manager import ServiceManager
from shunter.drivers.host.supervision import Supervisor
from shunter.drivers.listener.fair_selector import FairSelector
from shunter.drivers.listener.handlers.context import Node
from shunter.drivers.listener.metadata_answers import MetadataAnswers
from shunter.drivers.listener.server import Listener, RpcServer, parse_listener
from shunter.drivers.listener.visible_topics import VisibleTopics
from shunter.drivers.zookeeper.client import ZooKeeperClient
from shunter.drivers.zookeeper.crash_guard import CrashGuard, GuardedZooKeeper
from shunter.drivers.zookeeper.feature_keeper import FeatureKeeper
from shunter.drivers.zookeeper.mutation_quotas import MutationQuotas
from shunter.drivers.zookeeper.reader import ClusterReader
from shunter.drivers.zookeeper.token_expiry import TokenExpiry
from shunter.drivers.zookeeper.user_configs import UserConfigs
from shunter.errors import DriverError, InvariantViolation, SettingsError
from shunter.model.broker import Broker, Endpoint
from shunter.model.features import Protocol
from shunter.model.partition import BrokerId
from shunter.model.security.listeners import SecuritySettings
from shunter.model.settings import Takeover, WireLimits
from shunter.views.controller_status import encode_status, status_of
from shunter.views.metrics import Lag, cluster_metrics
from shunter.views.readiness import Readiness, readiness
from shunter.wire.versions import protocol_of

LOG = logging.getLogger("shunter.controller")
CLOSING_SECONDS = 5.0
"""How long SIGTERM waits for ZooKeeper to take the controllership back."""
ALIVE_SECONDS = 1.0
"""How often to check that the thread that talks to ZooKeeper is alive."""
CERTIFICATES_SECONDS = 10.0
"""How often this process's own certificates are judged."""
SWITCH_SECONDS = 0.001
"""How long one Python thread may keep another waiting; Python's default is 5 ms."""
_FIXED = (
    "zookeeper", "listener", "advertised_listener", "server_properties", "zookeeper_config",
    "cluster_action_networks", "administration_networks", "relay", "broker_id", "rack", "session_timeout_ms", "takeover",
    "takeover_cool_down_ms", "inter_broker_protocol_version", "inter_broker_listener", "metrics_port",
    "metrics_address", "metrics_listener", "metrics_tokens", "log_dir", "control_request_timeout_ms", *LIMITS,
)  # fmt: skip
"""Settings that are used once, at the start."""


class ControllerProcess:
    """All parts of one controller process, joined; `run` lives until `stop` is set."""

    def __init__(self, config: ControllerConfig, selector: FairSelector | None = None) -> None:
        """Join the parts; nothing is opened yet.

        Args:
            config: the settings.
            selector: the selector of this process's event loop, if it can let clients' sockets wait for their turn.

        Raises:
            SettingsError: a listener can't be understood.
        """
        self.config = config
        self.listeners = tuple(parse_listener(text) for text in config.listener)
        self.advertised = tuple(parse_listener(text) for text in config.advertised_listener)
        self.zookeeper = zookeeper_access(config.server_properties, config.zookeeper_config)
        self.security = Security(config.server_properties, self.listeners, config.networks())
        endpoints = registered_endpoints(self.listeners, self.advertised, self.security.settings)
        self.security.outgoing = () if self.zookeeper.tls is None else (self.zookeeper.tls,)
        self.security.refuse_bad_certificates(endpoints)
        settings = config.controller_settings()
        self.machine = ControllerMachine(settings)
        self.loop = ControllerLoop(self.machine, SystemClock())
        self.logs = ControllerLogs(config)
        self.loop.on_handled = self.logs.handled
        self.supervisor = Supervisor()
        self.channels = Channels(
            settings.broker_id,
            self.loop.post,
            listener=self._brokers_listener,
            inter_broker_protocol=config.inter_broker_protocol_version,
            request_seconds=config.control_request_timeout_ms / 1000,
            supervise=self.supervisor.watch,
            access=self.security.access,
            own_listeners=tuple(listener.name for listener in self.listeners),
        )
        self.relay = Relay(lambda: self.channels.brokers, self.security.access, self._is_well)
        node = Node(
            self.machine.view,
            self.loop.callers,
            self.relay,
            self.channels.api_ranges,
            metadata=MetadataAnswers(lambda: self.loop.stats.count),
            user_configs=self._user_configs,
            features=lambda: self.features,
            audit=self.logs.audited,
            quotas=MutationQuotas(
                lambda: None if self.seat is None else self.seat.client,
                lambda: self.config.mutation_quota_burst_seconds,
                lambda: self.config.default_partitions,
                time.monotonic,
            ),
            authorizer=self.security.authorizer,
            visible=VisibleTopics(self.security.authorizer),
            relays=config.relay == "judged",
        )
        self.server = RpcServer(node, room_for_files(config.wire_limits()), selector, self.security.gate)
        node.metadata.give_way = self.server.resources.queue.give_way
        self.seat: ControllerSeat | None = None
        self.guard: CrashGuard | None = None
        self.permissions: asyncio.Task[None] | None = None
        self.features: FeatureKeeper | None = None
        self.defaults = BrokerDefaults()
        self.lag = LoopLag()
        self.collector = IdleCollector(lambda: self.loop.stats.count, lambda: self.loop.machine.view.controller_epoch)
        self.metrics_port: int | None = None
        readers = None if config.metrics_tokens is None else MetricsReaders(config.metrics_tokens)
        self.metrics = self._metrics(readers)
        self.metrics_tls = self.security.metrics_tls(
            config.metrics_address, config.metrics_listener, tokens=readers is not None
        )
        self.manager = ServiceManager(os.environ, os.getpid(), self.readiness)

    def _metrics(self, readers: MetricsReaders | None) -> MetricsEndpoint:
        census = CensusTaker(lambda: self.machine.state, lambda: self.loop.stats.count)
        page = PrometheusPage(
            lambda: ControllerParts(
                self.machine,
                self.loop,
                self.channels,
                self.lag,
                self.server,
                census.census,
                self.logs,
                self.defaults,
                self.security.valid_until_s(),
            )
        )
        return MetricsEndpoint(
            page.render, self.readiness, census.take, lambda: self.supervisor.failure, readers, self._status
        )

    def _status(self) -> bytes:
        """The state of this controller for the service's page. Cost: O(topics and moves)."""
        waiting = (self.loop.waiting(), self.loop.oldest_s(), self.machine.intake.queue.pending())
        lag = Lag(self.lag.last_s, self.lag.lately_s)
        brokers = (len(self.machine.outbox.others()), len(self.machine.outbox.unreachable))
        cluster = cluster_metrics(self.machine.view)
        return encode_status(status_of(self.config.broker_id, self.readiness(), cluster, waiting, brokers, lag))

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set.

        Raises:
            DriverError: ZooKeeper can't be reached, or a listener can't be opened.
            InvariantViolation: a bug; the process ends, so that another controller takes over. The end of any task that
                should live as long as the process has the same effect.
        """
        self.collector.start(self.supervisor.watch)
        opened = await self.server.listen(self.listeners)
        told = ", ".join(f"{listener.name}://{listener.host}:{listener.port}" for listener in opened)
        LOG.info("broker id %d listens on %s", self.config.broker_id, told)
        await self._serve_metrics()
        self.manager.start()
        self.logs.start()
        client = GuardedZooKeeper(
            self.config.zookeeper, session_timeout_ms=self.config.session_timeout_ms, access=self.zookeeper
        )
        self.security.users.client = client
        if self.security.permissions is not None:
            self.permissions = self.security.permissions.begin(client)
            self.supervisor.watch(self.permissions)
        registration = self._registration(opened)
        survey = Survey(registration, self._brokers_listener, self.security.access)
        self.seat = ControllerSeat(
            client,
            registration,
            self.loop.post,
            takeover=Takeover(self.config.takeover),
            cool_down_seconds=self.config.takeover_cool_down_ms / 1000,
            supervisor=self.supervisor,
            survey=partial(self._look_around, survey),
        )
        if self.security.permissions is not None:
            self.security.permissions.on_known = self.seat.election.survey_again
        self.guard = CrashGuard(client, self.seat.store, self.loop.clock)
        self.seat.store.before_load = self.guard.recall
        self.loop.callers.refuse = self.guard.refusal
        self.features = FeatureKeeper(client, self.seat.store, self._protocol)
        self.loop.attach(self.seat.store, self.channels)
        self.loop.on_resigned = self.seat.give_back
        working = asyncio.create_task(self.loop.run(), name="controller-loop")
        self.supervisor.watch(working)
        tokens = TokenExpiry(self.seat.reader, self.seat.store)
        keeping = asyncio.create_task(self._look_after(self.features, tokens), name="upkeep")
        self.supervisor.watch(keeping)
        failing = asyncio.create_task(self.supervisor.wait(), name="supervisor")
        stopping = asyncio.create_task(stop.wait(), name="stop")
        starting = asyncio.create_task(self._start(self.seat), name="start")
        try:
            await asyncio.wait({starting, stopping, failing}, return_when=asyncio.FIRST_COMPLETED)
            if starting.done() and not failing.done():
                starting.result()
                await asyncio.wait({stopping, failing}, return_when=asyncio.FIRST_COMPLETED)
            if failing.done():
                failing.result()
        finally:
            self.manager.stop()
            if self.loop.crash is not None and self.guard is not None:
                await self.guard.remember(self.loop.crash)
            for task in (stopping, starting, failing, keeping):
                task.cancel()
            await asyncio.gather(starting, failing, keeping, return_exceptions=True)
            await self._close(working)

    def _is_well(self, broker: BrokerId) -> bool:
        """Whether a broker is connected and not slow, so that clients' requests may be relayed to it."""
        return self.channels.is_connected(broker) and broker not in self.machine.outbox.slow

    @property
    def _brokers_listener(self) -> str | None:
        """The brokers' listener to which control requests go; None: the listener that the brokers themselves use."""
        return self.config.inter_broker_listener or self.security.settings.brokers_listener

    async def _look_around(self, survey: Survey, reader: ClusterReader) -> str | None:
        """Before an election, find the brokers' listener; returns what keeps this process from leading, or None."""
        permissions = self.security.permissions
        if permissions is not None:
            await permissions.wait_tried()
        if permissions is not None and permissions.trouble is not None:
            return f"the cluster's permissions are not known: {permissions.trouble}"
        if self.security.trouble is not None:
            return self.security.trouble
        obstacle = await survey.obstacle(reader)
        if survey.found is not None:
            self.channels.preferred_listener = survey.found.names[0]
        return obstacle

    async def _start(self, seat: ControllerSeat) -> None:
        await seat.start()
        self._look_at_zookeeper(seat.client)
        self._look_at_certificates(seat)

    async def _look_after(self, features: FeatureKeeper, tokens: TokenExpiry) -> None:
        """Check periodically for changes without an event: finalized features, expired delegation tokens, defaults."""
        clock = SystemClock()
        while True:
            if self.machine.view.active:
                self.defaults.compare(self.channels.defaults(), self.config.controller_settings())
                await features.keep(self.machine.view.controller_epoch)
                await tokens.maybe_look(self.machine.view.controller_epoch, clock.now_ms())
            await asyncio.sleep(ALIVE_SECONDS)

    def _protocol(self) -> Protocol | None:
        """The cluster's inter-broker protocol: as the setting says, or the lowest of the live brokers."""
        told = self.config.inter_broker_protocol_version
        return self.channels.protocol() if told is None else protocol_of(told)

    def _look_at_zookeeper(self, client: ZooKeeperClient) -> None:
        """Fail if the thread that talks to ZooKeeper has ended, which it does silently. Repeats itself every second."""
        if client.dead:
            told = "the thread that talks to ZooKeeper has ended"
            if client.refusal is not None:
                told = f"ZooKeeper no longer lets us in: {client.refusal}"
            self.supervisor.fail(DriverError(told, retriable=client.refusal is None))
            return
        asyncio.get_running_loop().call_later(ALIVE_SECONDS, self._look_at_zookeeper, client)

    def _look_at_certificates(self, seat: ControllerSeat) -> None:
        """Resign if no broker connects to this controller any more. Repeats itself: a certificate expires unnoticed."""
        before = self.security.trouble
        self.security.look_at_certificates()
        if self.security.trouble != before:
            seat.election.survey_again()  # A survey from before says nothing about this.
        if self.security.trouble is not None and seat.election.epoch_version is not None:
            self.loop.post(SessionExpired(self.security.trouble))
        asyncio.get_running_loop().call_later(CERTIFICATES_SECONDS, self._look_at_certificates, seat)

    def _user_configs(self) -> UserConfigs | None:
        return None if self.seat is None else UserConfigs(self.seat.client, self.seat.store)

    def readiness(self) -> Readiness:
        """Whether this process can do its work now, and why not."""
        if self.supervisor.failure is not None:
            return Readiness(False, (f"a task has ended, and the process ends: {self.supervisor.failure}",))
        if self.seat is None:
            return Readiness(False, ("starting",))
        refusing = self.machine.intake.answers.refusals
        others = self.machine.outbox.others()
        troubles = self.seat.troubles
        permissions = self.security.permissions
        if permissions is not None and permissions.trouble is not None:
            troubles += (f"the cluster's permissions are not known: {permissions.trouble}",)
        if self.security.trouble is not None:
            troubles += (self.security.trouble,)
        if others and all(broker in refusing for broker in others):
            troubles += (f"every live broker refuses our requests: {refusing[others[0]].error.name}",)
        elif others and all(broker in self.machine.outbox.unreachable for broker in others):
            troubles += ("no live broker can be reached",)
        return readiness(self.machine.view, self.seat.election.obstacle, troubles)

    def reload(self, config: ControllerConfig) -> None:
        """Take other settings: those of the core count at once, those in `_FIXED` from the next start."""
        fixed = [name for name in _FIXED if getattr(config, name) != getattr(self.config, name)]
        if fixed:
            LOG.warning("changed settings that count only from the next start: %s", ", ".join(sorted(fixed)))
        kept = {name: getattr(self.config, name) for name in _FIXED}
        self.config = config.model_copy(update=kept)
        logging.getLogger().setLevel(self.config.log_level.upper())
        self.loop.post(SettingsChanged(self.config.controller_settings()))
        LOG.info("settings read again: control_request_epoch is %s", self.config.control_request_epoch)

    async def _serve_metrics(self) -> None:
        if self.config.metrics_port is None:
            return
        try:
            host = self.config.metrics_address
            self.metrics_port = await self.metrics.start(self.config.metrics_port, host, self.metrics_tls)
        except OSError as error:
            told = f"metrics_port {self.config.metrics_port} at {host} can't be opened: {error}"
            raise DriverError(told, retriable=False) from error
        scheme = "http" if self.metrics_tls is None else "https"
        LOG.info("metrics at %s://%s:%d/metrics", scheme, host, self.metrics_port)
        self.lag.start()

    async def _close(self, working: asyncio.Task[None]) -> None:
        ending = [task for task in (working, self.permissions) if task is not None]
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        self.lag.stop()
        await self.collector.close()
        await self.metrics.close()
        await self.loop.close()
        if self.seat is not None:
            # ZooKeeper may be out of reach. Then the session expires by itself, and there is no need to wait for that.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSING_SECONDS):
                    await self.seat.close()
        await self.server.close()
        await self.relay.close()
        await self.channels.close()
        self.logs.close(self.supervisor.failure)
        self.manager.close()

    def _registration(self, opened: tuple[Listener, ...]) -> Broker:
        endpoints = registered_endpoints(opened, self.advertised, self.security.settings)
        return Broker(self.config.broker_id, 0, endpoints, self.config.rack)


def room_for_files(limits: WireLimits) -> WireLimits:
    """Raise the limit on open files if need be; if it can't be raised enough, allow fewer connections."""
    found = make_room(limits.max_connections)
    if found.connections < limits.max_connections:
        LOG.warning(
            "max_connections=%d is more than %d open files allow: %d connections of clients are taken;"
            " raise the limit on open files (ulimit -n, LimitNOFILE=) to %d",
            limits.max_connections, found.files, found.connections, limits.max_connections + SPARE_FILES,
        )  # fmt: skip
    elif found.files != found.raised_from:
        LOG.info("limit on open files raised from %d to %d", found.raised_from, found.files)
    return replace(limits, max_connections=found.connections)


def registered_endpoints(
    opened: tuple[Listener, ...], advertised: tuple[Listener, ...], security: SecuritySettings
) -> tuple[Endpoint, ...]:
    """The addresses for brokers and clients: a listener's advertised address, else the address where it listens.

    Raises:
        SettingsError: an address can't be reached from other machines, no listener has that name, or two have one name.
    """
    names = [listener.name for listener in opened]
    if len(set(names)) < len(names):
        raise SettingsError(f"listener: the names {names} repeat; brokers and clients know a listener by its name")
    by_name = {listener.name: listener for listener in advertised}
    unknown = sorted(set(by_name) - {listener.name for listener in opened})
    if unknown:
        raise SettingsError(f"advertised_listener {unknown[0]}: no listener has that name")
    told = [by_name.get(listener.name, listener) for listener in opened]
    for listener in told:
        if listener.host in {"0.0.0.0", "::"}:  # noqa: S104 - this is what is refused
            raise SettingsError(
                f"listener {listener.name}://{listener.host}:{listener.port} can't be connected to by that address: "
                f"set the address for others with advertised_listener={listener.name}://HOST:{listener.port}"
            )
    return tuple(
        Endpoint(
            listener.name,
            security.of(listener.name).protocol.value,
            listener.host or socket.getfqdn(),
            listener.port or bound.port,
        )
        for listener, bound in zip(told, opened, strict=True)
    )


def run_controller(config: ControllerConfig, reload: Callable[[], ControllerConfig] | None = None) -> int:
    """Run a controller in this process until SIGTERM or SIGINT; returns the exit status.

    Args:
        config: the settings to start with.
        reload: reads the settings again after SIGHUP; settings that can't be used are logged and change nothing.
    """
    keep_to_ourselves()
    logging.basicConfig(
        level=config.log_level.upper(), stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    logging.getLogger("kazoo").setLevel(logging.WARNING)
    # A watchdog ends a hanging process by SIGABRT. Then the log shows where each thread was.
    faulthandler.enable()
    for told in strange_variables(os.environ):
        LOG.warning("in the environment, %s", told)

    # Without epoll, clients' sockets don't wait for their turn; everything else works.
    selector = FairSelector() if hasattr(select, "epoll") else None
    # ZooKeeper's client has threads. Each switch to them must not take Python's default of five milliseconds.
    sys.setswitchinterval(SWITCH_SECONDS)

    async def main() -> None:
        stop = asyncio.Event()
        process = ControllerProcess(config, selector)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        loop.add_signal_handler(signal.SIGHUP, _read_again, process, reload)
        await process.run(stop)

    try:
        with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
            runner.run(main())
    except InvariantViolation:
        LOG.exception("a bug in Shunter: this process must no longer act as the controller")
        return 70
    return 0


def _read_again(process: ControllerProcess, reload: Callable[[], ControllerConfig] | None) -> None:
    if reload is None:
        LOG.info("SIGHUP is ignored: this process can't read its settings again")
        return
    try:
        process.reload(reload())
    except SettingsError as error:
        LOG.error("SIGHUP: nothing changes: %s", error)  # noqa: TRY400 - the message says it all
