"""Access to the HTTP API: roles, tokens as they are kept, and the people who ask."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from ipaddress import IPv4Network, IPv6Network
from typing import NamedTuple

from shunter.model.security.listeners import Secret


class AccessRole(Enum):
    """What a person may do. A later role includes the earlier ones."""

    READ = "read"
    """Look at everything; change nothing."""
    OPERATE = "operate"
    """Approve and decline proposals; stop, pause, resume and roll back moves; change the throttle."""
    ADMINISTER = "administer"
    """Change intents, and switch the keeper off and on."""

    def includes(self, other: AccessRole) -> bool:
        """Whether this role may do what the other one may."""
        order = list(AccessRole)
        return order.index(self) >= order.index(other)


class AccessToken(NamedTuple):
    """A token as it is kept. The token itself is kept nowhere: `digest` is its SHA-256 in hexadecimal digits."""

    name: str
    """The owner's name; the audit log and every decision show it."""
    role: AccessRole
    digest: str
    made_ms: int
    """Milliseconds since 1970 UTC."""
    expires_ms: int | None
    """From then on the token is refused; None: never."""


class Person(NamedTuple):
    """The person who asks, and what they may do."""

    name: str
    role: AccessRole
    expires_ms: int | None = None
    """From then on the person's token is refused; None: never."""


class PageSession(NamedTuple):
    """The session of a person who showed a token to the page, or whom the issuer of single sign-on named.

    Only digests are kept of token and cookie. Every request checks the token, or what the groups may do now.
    """

    digest: str
    """SHA-256 of the id that is in the browser's cookie."""
    token: str
    """SHA-256 of the token that was shown; "": the person came by single sign-on."""
    ends_ms: int
    """Milliseconds since 1970 UTC."""
    name: str = ""
    """The person's name, by single sign-on."""
    groups: tuple[str, ...] = ()
    """Those of the person's groups that had a role, by single sign-on."""


@dataclass(frozen=True, slots=True)
class IssuerRules:
    """The OpenID Connect issuer of single sign-on, and which of its tokens count."""

    issuer: str
    client_id: str
    address: str
    """Where people reach this service; the issuer sends their browsers back there."""
    client_secret: Secret | None = None
    """None: a public client, which PKCE alone protects."""
    scopes: tuple[str, ...] = ("openid", "profile", "email")
    audience: str = ""
    """Programs' tokens have to be for it; "": for the client id."""
    groups_claim: str = "groups"
    """The claim with groups or roles; with dots, as in `realm_access.roles`: a claim within a claim."""
    user_claim: str = "preferred_username"
    ca_file: str | None = None
    leeway_s: int = 30
    """Clocks may differ by so much."""
    session_s: int | None = None
    """A session of the page ends then; None: with the issuer's token."""
    label: str = "single sign-on"
    """How the page names the issuer."""


@dataclass(frozen=True, slots=True)
class ProxyRules:
    """A proxy that says by headers who asks. It is believed at these addresses alone."""

    networks: tuple[IPv4Network | IPv6Network, ...]
    user_header: str = "X-Forwarded-User"
    groups_header: str = "X-Forwarded-Groups"


@dataclass(frozen=True, slots=True)
class SignOnRules:
    """Single sign-on. `roles`: what the members of a group may do; people in none of these groups may do nothing."""

    roles: Mapping[str, AccessRole]
    issuer: IssuerRules | None = None
    proxy: ProxyRules | None = None
