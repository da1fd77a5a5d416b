"""What Kafka's settings of a listener, and those of its ZooKeeper client, say in the same words: stores, versions, ciphers."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import Final

from shunter.errors import SettingsError
from shunter.model.security import Secret

TLS_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")
_REFERENCE: Final = re.compile(r"\$\{[^}:]*:[^}]*\}")
_STORES: Final = ("PEM", "PKCS12", "JKS")


class TlsProperties(ABC):
    """Reads properties of one connection; who inherits from it says where a name is looked for, and how it is refused."""

    @abstractmethod
    def find(self, name: str) -> str | None:
        """Give a property as it stands in the file, without blanks around it; None where it is not set, or empty."""

    @abstractmethod
    def refusal(self, name: str, told: str) -> SettingsError:
        """Make the error that refuses a property."""

    def get(self, name: str) -> str | None:
        """Give a property; None where it is not set, or empty.

        Raises:
            SettingsError: its value stands elsewhere.
        """
        value = self.find(name)
        if value is not None and _REFERENCE.search(value):
            raise self.refusal(name, "references like ${…:…} are not followed: the value has to stand in the file")
        return value

    def secret(self, name: str) -> Secret | None:
        """Give a password; None where it is not set, or empty."""
        value = self.get(name)
        return None if value is None else Secret(value)

    def store_kind(self, name: str, said: str | None) -> str:
        """Give the kind of a store that is there; `said` is what the property has.

        Raises:
            SettingsError: nobody here reads it.
        """
        kind = (said or "JKS").upper()
        if kind not in _STORES:
            raise self.refusal(name, f"{kind!r} is none of {', '.join(_STORES)}")
        return kind

    def tls_versions(self, name: str, asked: Collection[str]) -> tuple[str, ...]:
        """Give those of the versions asked for that are spoken here.

        Raises:
            SettingsError: there is none.
        """
        versions = tuple(version for version in TLS_VERSIONS if version in asked)
        if not versions:
            raise self.refusal(name, f"{asked} has none of {', '.join(TLS_VERSIONS)}")
        return versions

    def ciphers(self, name: str) -> tuple[str, ...]:
        """Give the suites that are named; none: whatever the library offers."""
        return tuple(text.strip() for text in (self.get(name) or "").split(",") if text.strip())
