"""The security of the controller's listeners and of its connections to brokers, from a broker's `server.properties`."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Iterable, Sequence
from pathlib import Path

from shunter.app.access.access_tokens import Tokens
from shunter.app.access.private_files import tell_readers
from shunter.app.controller.broker_file import BrokerFile
from shunter.core.authorizer import AclAuthorizer, Authorizer, NetworkAuthorizer
from shunter.core.controller_check import ListenerFault
from shunter.drivers.brokers.access import BrokerAccess
from shunter.drivers.listener.gate import ListenerGate
from shunter.drivers.listener.server import Listener
from shunter.drivers.security.tls import TlsContexts
from shunter.drivers.security.token_validator import TokenValidator
from shunter.drivers.zookeeper.permissions import Permissions
from shunter.drivers.zookeeper.scram_users import ScramUsers
from shunter.errors import FormatError, SettingsError
from shunter.formats.security.certificate_chain import sentence
from shunter.model.broker import Endpoint
from shunter.model.security.listeners import ClientAuth, FaultKind, SecurityProtocol, SecuritySettings
from shunter.model.security.loopback import is_loopback

_LOG = logging.getLogger(__name__)
_SECURED = frozenset(each.value for each in SecurityProtocol if each is not SecurityProtocol.PLAINTEXT)


class Security:
    """All parts of a controller's security, joined.

    Args:
        file: a broker's `server.properties`; None: all listeners are plaintext, and there are no ACLs.
        listeners: the controller's listeners.
        networks: judges requests if the cluster has no authorizer.

    Raises:
        SettingsError: a listener, a store or an authorizer can't be used.
    """

    def __init__(self, file: BrokerFile | None, listeners: Sequence[Listener], networks: NetworkAuthorizer) -> None:
        names = [listener.name for listener in listeners]
        if file is None:
            _refuse_secured(names)
            self.settings = SecuritySettings()
        else:
            tell_readers(file.path)
            self.settings = file.properties.security(names)
        self.tls = {
            name: TlsContexts(listener.tls, f"listener {name}", self.settings.rules_of(name))
            for name, listener in self.settings.listeners.items()
            if listener.tls is not None
        }
        for listener in self.settings.listeners.values():
            store = None if listener.tls is None else listener.tls.key_store
            if store is not None and store.location and store.password is None and store.key_password is None:
                tell_readers(Path(store.location))
        self.outgoing: tuple[TlsContexts, ...] = ()
        """TLS of connections to ZooKeeper, if they have a certificate of their own."""
        self.trouble: str | None = None
        """Why no broker connects to this controller by the certificates of the last look; None: they do."""
        self._endpoints: tuple[Endpoint, ...] = ()
        self._told: list[str] = []
        self.access = BrokerAccess(self.settings, self.tls)
        self.users = ScramUsers()
        self.permissions: Permissions | None = None
        self.authorizer: Authorizer = networks
        if self.settings.acls is not None:
            acls = self.settings.acls
            authorizer = AclAuthorizer(acls.super_users, everyone_if_no_acl=acls.everyone_if_no_acl)
            self.authorizer, self.permissions = authorizer, Permissions(authorizer)

    def certificates(self, endpoints: Iterable[Endpoint]) -> tuple[ListenerFault, ...]:
        """Judge the certificates of the controller's listeners, for the addresses at which brokers and clients look.

        From now on these addresses also count when a certificate is renewed.
        """
        found: list[ListenerFault] = []
        for endpoint in endpoints:
            tls = self.tls.get(endpoint.listener)
            if tls is not None:
                tls.host = endpoint.host
                by_brokers = self.settings.rules_of(endpoint.listener).by_brokers
                found += (ListenerFault(endpoint.listener, fault, by_brokers) for fault in tls.faults())
        return tuple(found)

    def refuse_bad_certificates(self, endpoints: Sequence[Endpoint]) -> None:
        """Refuse a certificate that no broker would accept, as brokers do at their start; warn of other faults.

        Raises:
            SettingsError: brokers that look for a controller at a listener would refuse its certificate.
        """
        self._endpoints = tuple(endpoints)
        self.look_at_certificates()
        if self.trouble is not None:
            raise SettingsError(self.trouble)

    def look_at_certificates(self) -> None:
        """Judge the certificates that are in use now: one may have expired since the last look. Log what is new."""
        self.trouble = None
        told: list[str] = []
        for listener, fault, by_brokers in self.certificates(self._endpoints):
            told.append(f"listener {listener}: {sentence([fault])}")
            if by_brokers and fault.kind in {FaultKind.UNUSABLE, FaultKind.UNTRUSTED}:
                self.trouble = f"{told.pop()} (no broker would connect to this controller)"
        soon = [tls.expires_soon for tls in self.outgoing]
        told += (f"connections to ZooKeeper: {sentence([fault])}" for fault in soon if fault is not None)
        for line in told:
            if line not in self._told:
                _LOG.warning("%s", line)
        self._told = told

    def valid_until_s(self) -> dict[str, float]:
        """When each certificate's dates are over (Unix time), by what it is used for."""
        used = [(f"listener {name}", tls) for name, tls in sorted(self.tls.items())]
        used += (("zookeeper", tls) for tls in self.outgoing)
        found = ((what, tls.valid_until_s) for what, tls in used)
        return {what: until_s for what, until_s in found if until_s is not None}

    def gate(self, listener: str) -> ListenerGate:
        """The gate of one of the controller's listeners: TLS, logins and tokens."""
        settings = self.settings.of(listener)
        rules = None if settings.sasl is None else settings.sasl.tokens
        validator = None if rules is None else TokenValidator(rules)
        return ListenerGate(listener, settings, self.tls.get(listener), self.users.credential, validator)

    def metrics_tls(self, host: str, listener: str | None, *, tokens: bool = False) -> ssl.SSLContext | None:
        """The TLS context for metrics; None: plain HTTP on the loopback. `tokens`: readers have to show a token.

        Raises:
            SettingsError: others on the network could read the metrics.
        """
        if listener is None:
            if not is_loopback(host):
                raise SettingsError(
                    f"metrics_address={host} would send metrics, and their readers' tokens, unencrypted over the"
                    " network: name a listener with TLS as metrics_listener, or leave them on 127.0.0.1"
                )
            return None
        tls = self.tls.get(listener.upper())
        if tls is None:
            raise SettingsError(f"metrics_listener={listener}: no listener of that name speaks TLS")
        if not tokens and tls.settings.client_auth is not ClientAuth.REQUIRED and not is_loopback(host):
            told = "everybody could read the metrics: set metrics_tokens or ssl.client.auth=required"
            raise SettingsError(f"metrics_listener={listener}: {told}")
        return tls.server


class MetricsReaders:
    """Lets readers of metrics in if they show a valid token of any role; the file is read again when it changes.

    Args:
        path: the file of tokens that `shunter token` writes.

    Raises:
        SettingsError: the file can't be used.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._tokens = Tokens(path)
        except FormatError as error:
            raise SettingsError(f"metrics_tokens: {error}") from None

    def __call__(self, token: str) -> bool:
        """Whether a token is valid; while the file can't be read, none is."""
        try:
            known = bool(token) and self._tokens.person(token) is not None
        except FormatError as error:
            _LOG.error("metrics_tokens: %s", error)
            return False
        if not known:
            _LOG.warning("a request for metrics was refused: it had no valid token")
        return known


def _refuse_secured(names: Sequence[str]) -> None:
    wrong = [name for name in names if name in _SECURED]
    if wrong:
        raise SettingsError(
            f"listener {wrong[0]}: clients expect {wrong[0]} at a listener of that name, but there are no settings for"
            " it; give a broker's server.properties (--server-properties FILE), or another name to a plaintext listener"
        )
