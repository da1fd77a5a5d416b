"""TLS by the standard library, with keys and certificates in Kafka's stores. Renewed stores take effect at run time."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import ssl
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from cryptography.hazmat.primitives.serialization import Encoding

from shunter.errors import FormatError, SettingsError
from shunter.formats.certificate_names import mapping_rules, principal_name, subject_of
from shunter.formats.key_stores import read_key_store, read_trust_store
from shunter.model.principal import ANONYMOUS, USER, Principal
from shunter.model.security import ClientAuth, KeyStore, TlsSettings

_LOG = logging.getLogger(__name__)

LOOKED_AT_SECONDS = 5.0
"""Time between two checks whether stores were renewed."""
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_VERIFY = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.REQUESTED: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
}
_NEW_NAMES = ("TLS_AES_", "TLS_CHACHA20_POLY1305_SHA256")
"""Suites of TLS 1.3: the library does not allow a choice among them."""


class TlsContexts:
    """TLS of one listener, or of connections to ZooKeeper: one context for incoming and one for outgoing connections.

    Args:
        settings: the settings.
        name: for logs and errors, for instance `listener INTERNAL`.

    Raises:
        SettingsError: a store can't be used.
    """

    def __init__(self, settings: TlsSettings, name: str) -> None:
        self.settings = settings
        self._name = name
        self._rules = mapping_rules(settings.mapping_rules)
        self._looked_at = time.monotonic()
        self._seen = self._files()
        self._server, self._client = self._made()

    @property
    def server(self) -> ssl.SSLContext:
        """For incoming connections."""
        self._look()
        return self._server

    @property
    def client(self) -> ssl.SSLContext:
        """For outgoing connections."""
        self._look()
        return self._client

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
        """Use renewed stores. If they can't be used, log that and keep the former contexts."""
        now = time.monotonic()
        if now < self._looked_at + LOOKED_AT_SECONDS:
            return
        self._looked_at = now
        files = self._files()
        if files == self._seen:
            return
        self._seen = files
        try:
            self._server, self._client = self._made()
        except SettingsError as refusal:
            _LOG.error("%s goes on with its old certificates: %s", self._name, refusal)
            return
        _LOG.info("%s uses renewed certificates", self._name)

    def _made(self) -> tuple[ssl.SSLContext, ssl.SSLContext]:
        server = self._context(ssl.PROTOCOL_TLS_SERVER)
        server.verify_mode = _VERIFY[self.settings.client_auth]
        client = self._context(ssl.PROTOCOL_TLS_CLIENT)
        client.check_hostname = self.settings.checks_host
        return server, client

    def _context(self, side: int) -> ssl.SSLContext:
        context = ssl.SSLContext(side)
        chosen = [_VERSIONS[version] for version in self.settings.versions]
        context.minimum_version, context.maximum_version = min(chosen), max(chosen)
        # Every certificate in a trust store is trusted, as in Java, also if it is not a root.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        self._choose_ciphers(context)
        if self.settings.key_store is not None:
            self._load_key(context, self.settings.key_store)
        if self.settings.trust_store is not None:
            place, data = _content(self.settings.trust_store, self._name)
            try:
                trusted = read_trust_store(data, place, self.settings.trust_store.password)
            except FormatError as refusal:
                raise SettingsError(f"{self._name}: trust store {refusal}") from None
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

    def _load_key(self, context: ssl.SSLContext, store: KeyStore) -> None:
        place, data = _content(store, self._name)
        try:
            pair = read_key_store(data, place, store.password, store.key_password)
        except FormatError as refusal:
            raise SettingsError(f"{self._name}: key store {refusal}") from None
        password = secrets.token_hex(32)
        with _private_file(pair.pem(password.encode())) as path:
            try:
                context.load_cert_chain(path, password=password)
            except ssl.SSLError as refusal:
                raise SettingsError(f"{self._name}: key store {place}: {refusal.reason}") from None


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
