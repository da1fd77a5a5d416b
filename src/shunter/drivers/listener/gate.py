"""The security of one listener: TLS and a login."""

from __future__ import annotations

import ssl
from ipaddress import ip_address
from typing import Any

from shunter.drivers.listener.login import CredentialOf, Login
from shunter.drivers.security.tls import TlsContexts
from shunter.drivers.security.token_validator import TokenValidator
from shunter.formats.security.certificate_chain import sentence
from shunter.model.security.listeners import PLAINTEXT, ListenerSecurity, ScramCredential, SecurityProtocol
from shunter.model.security.principal import ANONYMOUS, Principal


async def _nobody(_user: str, _mechanism: str) -> ScramCredential | None:
    return None


def kafkas_address(address: str) -> str:
    """Write an address as Java does, and as ACLs have it: an IPv6 address with all eight groups, without a scope."""
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
        security: its settings.
        tls: its contexts, if it has TLS.
        credential_of: reads the credentials of SCRAM's users.
        validator: of tokens, if OAUTHBEARER is served.
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
        """Whether a connection begins with a TLS handshake or a login, which cost time before the client is known."""
        return self.security.protocol is not SecurityProtocol.PLAINTEXT

    @property
    def tls(self) -> ssl.SSLContext | None:
        """The context for connections to this listener; None if it does not use TLS."""
        return None if self._tls is None else self._tls.server

    def own_faults(self) -> str:
        """Say what is wrong with our certificate; empty: nothing that we know of."""
        return "" if self._tls is None else sentence(self._tls.faults())

    def login(self) -> Login | None:
        """Begin a connection's login; None if this listener has no login."""
        sasl = self.security.sasl
        return None if sasl is None else Login(sasl, self._credential_of, self._validator)

    def principal(self, tls_object: Any) -> Principal:
        """Return the principal of the client's certificate; ANONYMOUS without TLS, or if the login decides it.

        Raises:
            FormatError: no rule maps the certificate's subject to a principal.
        """
        if self._tls is None or self.security.sasl is not None:
            return ANONYMOUS
        return self._tls.principal(tls_object.getpeercert(binary_form=True))
