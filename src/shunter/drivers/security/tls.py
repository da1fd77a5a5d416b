"""TLS by the standard library, with keys and certificates in Kafka's stores. Renewed stores take effect at run time."""

from __future__ import annotations

import contextlib
import datetime as dt
import logging
import os
import secrets
import socket
import ssl
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from shunter.errors import FormatError, SettingsError
from shunter.formats.security.certificate_chain import expiry, faults_of, host_fault, sentence, valid_until
from shunter.formats.security.certificate_names import mapping_rules, principal_name, subject_of
from shunter.formats.security.key_stores import KeyPair, read_key_store, read_trust_store
from shunter.model.security.listeners import (
    CertificateFault,
    CertificateRules,
    ClientAuth,
    FaultKind,
    KeyStore,
    TlsSettings,
)
from shunter.model.security.principal import ANONYMOUS, USER, Principal

_LOG = logging.getLogger(__name__)

LOOKED_AT_SECONDS = 5.0
"""Time between two checks whether stores were renewed."""
TRIED_AGAIN_SECONDS = 60.0
"""Time after which refused stores are tried again: they may be half written, or not be valid yet."""
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_VERIFY = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.REQUESTED: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
}
_NEW_NAMES = ("TLS_AES_", "TLS_CHACHA20_POLY1305_SHA256")
"""Suites of TLS 1.3: the library does not allow a choice among them."""


class _Stores(NamedTuple):
    """The contexts that were made of the stores at one time, and the certificates in these stores."""

    server: ssl.SSLContext
    client: ssl.SSLContext
    chain: tuple[x509.Certificate, ...]
    trusted: tuple[x509.Certificate, ...] | None
    doubt: str | None
    """Why OpenSSL can't connect the client's side to the server's; None: it can, or that was not tried."""


class TlsContexts:
    """TLS of one listener, or of connections to ZooKeeper: one context for incoming and one for outgoing connections.

    Args:
        settings: the settings.
        name: for logs and errors, for instance `listener INTERNAL`.
        rules: what is asked of our certificate; None: nothing, because nobody connects to us.

    Raises:
        SettingsError: a store can't be used.
    """

    def __init__(self, settings: TlsSettings, name: str, rules: CertificateRules | None = None) -> None:
        self.settings = settings
        self.host: str | None = None
        """The host at which peers look for us, once it is known."""
        self._name = name
        self._asked = rules
        self._rules = mapping_rules(settings.mapping_rules)
        self._looked_at = time.monotonic()
        self._tried_at = self._looked_at
        self._seen = self._files()
        self._refused: str | None = None
        self._stores = self._made()

    @property
    def server(self) -> ssl.SSLContext:
        """For incoming connections."""
        self._look()
        return self._stores.server

    @property
    def client(self) -> ssl.SSLContext:
        """For outgoing connections."""
        self._look()
        return self._stores.client

    def faults(self) -> tuple[CertificateFault, ...]:
        """Return why peers refuse the certificate that is in use now, or soon will."""
        self._look()
        return self._faults(self._stores)

    @property
    def expires_soon(self) -> CertificateFault | None:
        """That the certificate that is in use now expires soon; None: it does not, or there is none."""
        chain = self._stores.chain
        return expiry(chain, self._peers_trust(self._stores), dt.datetime.now(dt.UTC)) if chain else None

    @property
    def valid_until_s(self) -> float | None:
        """When the dates of the certificate that is in use now are over (Unix time); None: there is none, or never."""
        chain, trusted = self._stores.chain, self._peers_trust(self._stores)
        last = valid_until(chain, trusted) if chain else None
        return None if last is None else last.timestamp()

    def _peers_trust(self, stores: _Stores) -> tuple[x509.Certificate, ...] | None:
        """The trust store of our peers; None: it is not known."""
        return stores.trusted if self._asked is not None and self._asked.by_brokers else None

    def principal(self, certificate: bytes | None) -> Principal:
        """Return the principal of a certificate (DER). A client without a certificate is anonymous.

        Raises:
            FormatError: no rule matches the certificate's subject; Kafka refuses such a client too.
        """
        if certificate is None:
            return ANONYMOUS
        subject = subject_of(certificate)
        name = principal_name(self._rules, subject)
        if name is None:
            raise FormatError(f"certificate of {subject}", "no rule of ssl.principal.mapping.rules matches it")
        return Principal(USER, name)

    def _files(self) -> tuple[tuple[int, int] | None, ...]:
        return tuple(_stamp(store) for store in (self.settings.key_store, self.settings.trust_store))

    def _look(self) -> None:
        """Use renewed stores. If they can't be used, or peers would refuse them, keep the former contexts."""
        now = time.monotonic()
        if now < self._looked_at + LOOKED_AT_SECONDS:
            return
        self._looked_at = now
        files = self._files()
        again = self._refused is not None and now >= self._tried_at + TRIED_AGAIN_SECONDS
        if files == self._seen and not again:
            return
        told_before = self._refused if files == self._seen else None
        self._seen, self._tried_at = files, now
        told = self._renewed()
        if told is None:
            _LOG.info("%s uses renewed certificates", self._name)
        elif told != told_before:
            _LOG.error("%s goes on with its old certificates: %s", self._name, told)
        self._refused = told

    def _renewed(self) -> str | None:
        """Make the contexts again; return why the former ones stay, or None."""
        try:
            made = self._made()
        except SettingsError as refusal:
            return str(refusal)
        # What peers refuse only perhaps, or for a reason of the old stores too, is no reason to keep these.
        borne = {FaultKind.DOUBTFUL, FaultKind.EXPIRES, *(each.kind for each in self._faults(self._stores))}
        faults = [each for each in self._faults(made) if each.kind not in borne]
        if faults:
            return f"with the renewed stores peers would refuse us: {sentence(faults)}"
        self._stores = made
        return None

    def _faults(self, stores: _Stores) -> tuple[CertificateFault, ...]:
        if self._asked is None or not stores.chain:
            return ()
        trusted = self._peers_trust(stores)
        now = dt.datetime.now(dt.UTC)
        found = list(faults_of(stores.chain, trusted, now, as_client=self._asked.as_client))
        if stores.doubt is not None and not found:
            told = f"a client with the same settings can't connect by OpenSSL: {stores.doubt}"
            todo = "if brokers can't connect either, renew the certificates in ssl.keystore and ssl.truststore"
            found.append(CertificateFault(FaultKind.DOUBTFUL, told, todo))
        if self.settings.checks_host and self.host is not None:
            found += filter(None, [host_fault(stores.chain[0], self.host)])
        return (*found, *filter(None, [expiry(stores.chain, trusted, now)]))

    def _made(self) -> _Stores:
        pair, trusted = self._pair(), self._trusted()
        server = self._context(ssl.PROTOCOL_TLS_SERVER, pair, trusted)
        server.verify_mode = _VERIFY[self.settings.client_auth]
        client = self._context(ssl.PROTOCOL_TLS_CLIENT, pair, trusted)
        client.check_hostname = False
        proved = self._asked is not None and self._asked.by_brokers and trusted is not None
        doubt = _handshake(server, client) if proved else None
        client.check_hostname = self.settings.checks_host
        return _Stores(server, client, () if pair is None else pair.chain, trusted, doubt)

    def _context(self, side: int, pair: KeyPair | None, trusted: tuple[x509.Certificate, ...] | None) -> ssl.SSLContext:
        context = ssl.SSLContext(side)
        chosen = [_VERSIONS[version] for version in self.settings.versions]
        context.minimum_version, context.maximum_version = min(chosen), max(chosen)
        # Every certificate in a trust store is trusted, as in Java, also if it is not a root.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        self._choose_ciphers(context)
        if pair is not None:
            self._load_key(context, pair)
        if trusted is not None:
            context.load_verify_locations(cadata=b"".join(each.public_bytes(Encoding.DER) for each in trusted))
        elif side == ssl.PROTOCOL_TLS_CLIENT or self.settings.client_auth is not ClientAuth.NONE:
            context.load_default_certs(
                ssl.Purpose.SERVER_AUTH if side == ssl.PROTOCOL_TLS_CLIENT else ssl.Purpose.CLIENT_AUTH
            )
        return context

    def _choose_ciphers(self, context: ssl.SSLContext) -> None:
        if not self.settings.ciphers:
            return
        older = [name for name in self.settings.ciphers if not name.startswith(_NEW_NAMES)]
        if not older:
            context.minimum_version = ssl.TLSVersion.TLSv1_3
            return
        try:
            context.set_ciphers(":".join(_openssl_name(name) for name in older))
        except ssl.SSLError:
            told = f"ssl.cipher.suites: the library knows none of {', '.join(older)}"
            raise SettingsError(f"{self._name}: {told}") from None

    def _pair(self) -> KeyPair | None:
        store = self.settings.key_store
        if store is None:
            return None
        place, data = _content(store, self._name)
        try:
            return read_key_store(data, place, store.password, store.key_password)
        except FormatError as refusal:
            raise SettingsError(f"{self._name}: key store {refusal}") from None

    def _trusted(self) -> tuple[x509.Certificate, ...] | None:
        store = self.settings.trust_store
        if store is None:
            return None
        place, data = _content(store, self._name)
        try:
            return read_trust_store(data, place, store.password)
        except FormatError as refusal:
            raise SettingsError(f"{self._name}: trust store {refusal}") from None

    def _load_key(self, context: ssl.SSLContext, pair: KeyPair) -> None:
        assert self.settings.key_store is not None
        place = self.settings.key_store.location or "in the properties"
        password = secrets.token_hex(32)
        with _private_file(pair.pem(password.encode())) as path:
            try:
                context.load_cert_chain(path, password=password)
            except ssl.SSLError as refusal:
                raise SettingsError(f"{self._name}: key store {place}: {refusal.reason}") from None


class ClientTls:
    """What kafka-python takes for a TLS context: it makes connections for as long as a client lives.

    Each connection uses the certificates that are in the stores at its time.
    """

    def __init__(self, settings: TlsSettings, place: str) -> None:
        """Read the stores.

        Raises:
            SettingsError: a store can't be used.
        """
        self.contexts = TlsContexts(settings, place)

    @property
    def shows_certificate(self) -> bool:
        """Whether brokers see a certificate of ours."""
        return self.contexts.settings.key_store is not None

    def wrap_socket(self, sock: socket.socket, **options: Any) -> ssl.SSLSocket:
        """Begin TLS, as `ssl.SSLContext.wrap_socket`."""
        return self.contexts.client.wrap_socket(sock, **options)


def _handshake(server: ssl.SSLContext, client: ssl.SSLContext) -> str | None:
    """Connect a client to a server in memory, as Apache's brokers do at their start; return why that fails, or None."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    waiting = [client.wrap_bio(down, up), server.wrap_bio(up, down, server_side=True)]
    while waiting:
        before = up.pending, down.pending, len(waiting)
        for side in tuple(waiting):
            try:
                side.do_handshake()
                waiting.remove(side)
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError as failure:
                return str(getattr(failure, "verify_message", None) or failure.reason or failure)
        if before == (up.pending, down.pending, len(waiting)):
            return "the handshake did not come to an end"
    return None


def _openssl_name(name: str) -> str:
    """Name a cipher suite as OpenSSL does: TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 is ECDHE-RSA-AES128-GCM-SHA256."""
    text = name.removeprefix("TLS_").replace("RSA_WITH_", "", 1) if name.startswith("TLS_RSA_WITH_") else name
    text = text.removeprefix("TLS_").replace("_WITH_", "_").replace("AES_128", "AES128").replace("AES_256", "AES256")
    return text.replace("_CBC_", "_").replace("_POLY1305_SHA256", "_POLY1305").replace("_", "-")


def _content(store: KeyStore, name: str) -> tuple[str, bytes]:
    if store.text is not None:
        return "in the properties", store.text.reveal().encode()
    assert store.location is not None
    try:
        return store.location, Path(store.location).read_bytes()
    except OSError as error:
        raise SettingsError(f"{name}: store {store.location} can't be read: {error.strerror}") from None


def _stamp(store: KeyStore | None) -> tuple[int, int] | None:
    if store is None or store.location is None:
        return None
    try:
        found = Path(store.location).stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino


@contextlib.contextmanager
def _private_file(content: bytes) -> Iterator[str]:
    """Provide a temporary file that only this user can read, because the library reads keys only from files."""
    descriptor, path = tempfile.mkstemp(prefix="shunter-")  # 0600
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        yield path
    finally:
        Path(path).unlink()
