"""TLS settings that Kafka's listeners and its ZooKeeper client have in common: stores, versions, ciphers."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import Final

from shunter.errors import SettingsError
from shunter.model.security.listeners import KeyStore, Secret

TLS_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")
_REFERENCE: Final = re.compile(r"\$\{[^}:]*:[^}]*\}")
_STORES: Final = ("PEM", "PKCS12", "JKS")


class TlsProperties(ABC):
    """Reads properties of one connection. Subclasses define where a name is looked up, and how it is refused."""

    @abstractmethod
    def find(self, name: str) -> str | None:
        """Return a property as it stands in the file, without blanks around it; None if it is not set, or empty."""

    @abstractmethod
    def refusal(self, name: str, told: str) -> SettingsError:
        """Make the error that refuses a property."""

    def get(self, name: str) -> str | None:
        """Return a property; None if it is not set, or empty.

        Raises:
            SettingsError: it refers to a value that stands elsewhere.
        """
        value = self.find(name)
        if value is not None and _REFERENCE.search(value):
            raise self.refusal(name, "references like ${…:…} are not followed: the value has to stand in the file")
        return value

    def secret(self, name: str) -> Secret | None:
        """Return a password; None if it is not set, or empty."""
        value = self.get(name)
        return None if value is None else Secret(value)

    def store(self, which: str, inline: tuple[str, ...]) -> KeyStore | None:
        """Return `ssl.keystore` or `ssl.truststore`; None: it is not set.

        Args:
            which: `keystore` or `truststore`.
            inline: settings that may hold its PEM text themselves (KIP-651), after `ssl.WHICH.`.
        """
        location = self.get(f"ssl.{which}.location")
        parts = [self.get(f"ssl.{which}.{name}") for name in inline]
        text = "\n".join(part for part in parts if part is not None)
        if location is None and not text:
            return None
        name = f"ssl.{which}.type"
        return KeyStore(
            self.store_kind(name, self.get(name)),
            location,
            Secret(text) if text else None,
            self.secret(f"ssl.{which}.password"),
            self.secret("ssl.key.password"),
        )

    def store_kind(self, name: str, said: str | None) -> str:
        """Return the kind of a store; `said` is the property's value.

        Raises:
            SettingsError: Shunter does not read stores of this kind.
        """
        kind = (said or "JKS").upper()
        if kind not in _STORES:
            raise self.refusal(name, f"{kind!r} is none of {', '.join(_STORES)}")
        return kind

    def tls_versions(self, name: str, asked: Collection[str]) -> tuple[str, ...]:
        """Return the TLS versions that are asked for and that Shunter speaks.

        Raises:
            SettingsError: there is no such version.
        """
        versions = tuple(version for version in TLS_VERSIONS if version in asked)
        if not versions:
            raise self.refusal(name, f"{asked} has none of {', '.join(TLS_VERSIONS)}")
        return versions

    def ciphers(self, name: str) -> tuple[str, ...]:
        """Return the cipher suites that are named; none: those that the library offers."""
        return tuple(text.strip() for text in (self.get(name) or "").split(",") if text.strip())
