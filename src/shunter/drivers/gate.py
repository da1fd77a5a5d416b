"""What secures one listener of ours: TLS, and a login."""

from __future__ import annotations

import ssl
from ipaddress import ip_address
from typing import Any

from shunter.drivers.login import CredentialOf, Login
from shunter.drivers.tls import TlsContexts
from shunter.drivers.token_validator import TokenValidator
from shunter.model.principal import ANONYMOUS, Principal
from shunter.model.security import PLAINTEXT, ListenerSecurity, ScramCredential, SecurityProtocol


async def _nobody(_user: str, _mechanism: str) -> ScramCredential | None:
    return None


def kafkas_address(address: str) -> str:
    """Write an address as Java does, and as permissions name it: of IPv6 all eight groups, without a scope."""
    try:
        known = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if known.version == 4:
        return str(known)
    return ":".join(f"{int(group, 16):x}" for group in known.exploded.split(":"))


class ListenerGate:
    """One listener, by its name.

    Args:
        name: as clients and brokers know it.
        security: what secures it.
        tls: where TLS is spoken.
        credential_of: where SCRAM's users are.
        validator: of tokens, where OAUTHBEARER is served.
    """

    def __init__(
        self,
        name: str,
        security: ListenerSecurity = PLAINTEXT,
        tls: TlsContexts | None = None,
        credential_of: CredentialOf = _nobody,
        validator: TokenValidator | None = None,
    ) -> None:
        self.name = name
        self.security = security
        self._tls = tls
        self._credential_of = credential_of
        self._validator = validator

    @property
    def asks(self) -> bool:
        """Whether a TLS handshake or a login comes first, and costs us something before we know the client."""
        return self.security.protocol is not SecurityProtocol.PLAINTEXT

    @property
    def tls(self) -> ssl.SSLContext | None:
        """For connections to this listener; None where it does not speak TLS."""
        return None if self._tls is None else self._tls.server

    def login(self) -> Login | None:
        """Begin a connection's login; None where this listener asks for none."""
        sasl = self.security.sasl
        return None if sasl is None else Login(sasl, self._credential_of, self._validator)

    def principal(self, tls_object: Any) -> Principal:
        """Tell whose certificate was shown; ANONYMOUS without TLS, and where SASL is to tell it.

        Raises:
            FormatError: no rule makes a principal of its subject.
        """
        if self._tls is None or self.security.sasl is not None:
            return ANONYMOUS
        return self._tls.principal(tls_object.getpeercert(binary_form=True))
