"""Single sign-on: people whom an OpenID Connect issuer or a trusted proxy names, and what their groups may do."""

from __future__ import annotations

import hmac
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Any

from shunter.app.access.access_tokens import digest_of
from shunter.drivers.host.clock import wall_clock_ms
from shunter.drivers.security.oidc_issuer import OidcIssuer
from shunter.errors import DriverError
from shunter.model.security.access import AccessRole, IssuerRules, Person, SignOnRules

LOG = logging.getLogger(__name__)
CALLBACK = "/api/v1/callback"
MOST_NAME = 200
_SHOWN = 20


class SignOnRefused(Exception):
    """Single sign-on does not let somebody in."""


class NoAccess(SignOnRefused):
    """It is known who asks, and this person may do nothing here."""


class IssuerSilent(SignOnRefused):
    """The issuer can't be asked."""


@dataclass(frozen=True, slots=True)
class SignedOn:
    """A person whom the issuer named. `groups`: those that have a role."""

    name: str
    groups: tuple[str, ...]
    ends_ms: int
    """When the token ends, or the session that begins by it; milliseconds since 1970 UTC."""


class SignOn:
    """Knows people by the issuer's tokens, and by a proxy's headers."""

    def __init__(self, rules: SignOnRules, now_ms: Callable[[], int] = wall_clock_ms) -> None:
        self._rules = rules
        self._now_ms = now_ms
        self._issuer = None if rules.issuer is None else OidcIssuer(rules.issuer)
        self._told = False

    @property
    def issuer(self) -> IssuerRules | None:
        """The issuer, if there is one."""
        return self._rules.issuer

    def person(self, name: str, groups: Sequence[str], expires_ms: int | None = None) -> Person | None:
        """The person with the highest role of the groups; None: no group has a role."""
        roles = [self._rules.roles[each] for each in groups if each in self._rules.roles]
        order = list(AccessRole)
        return Person(name, max(roles, key=order.index), expires_ms) if roles else None

    def lives(self, person: Person) -> bool:
        """Whether a person's token is valid now."""
        return person.expires_ms is None or self._now_ms() < person.expires_ms

    # ---- the issuer

    async def begin(self, secret: str) -> str:
        """The issuer's address for a sign-in. `secret`: what the browser keeps, and only it; the rest is made of it.

        Raises:
            IssuerSilent: the issuer can't be asked.
        """
        issuer, redirect, proof = self._at(secret)
        try:
            return await issuer.sign_in_url(redirect, state=state_of(secret), **proof)
        except DriverError as error:
            raise _refusal(error) from None

    async def finish(self, secret: str, state: str, code: str, error: str = "") -> SignedOn:
        """The person who comes back from the issuer with a code, or with an error.

        Raises:
            SignOnRefused: another browser began this, code or token are not good, or see `by_token`.
        """
        issuer, redirect, proof = self._at(secret)
        if not secret or not hmac.compare_digest(state_of(secret).encode(), state.encode()):
            told = f"this sign-in was not begun by this browser, or too long ago: begin it at {redirect[: -len(CALLBACK)]}/"
            raise NoAccess(told)
        if not code:
            told = error if re.fullmatch(r"[a-z_]{1,60}", error) else "no code"
            raise SignOnRefused(f"the issuer let nobody in: {told}. Sign in again, or ask whoever runs the issuer")
        try:
            found = self._named(await issuer.redeem(code, redirect, **proof))
        except DriverError as failed:
            raise _refusal(failed) from None
        lasts_s = None if self.issuer is None else self.issuer.session_s
        ends_ms = found.ends_ms if lasts_s is None else self._now_ms() + 1000 * lasts_s
        return SignedOn(found.name, found.groups, ends_ms)

    async def by_token(self, token: str) -> Person:
        """The person, or the program, that shows a token of the issuer.

        Raises:
            SignOnRefused: the token is not good.
            NoAccess: no group has a role.
            IssuerSilent: the token's key can't be fetched.
        """
        assert self._issuer is not None
        assert self.issuer is not None
        try:
            found = self._named(await self._issuer.claims(token, self.issuer.audience or self.issuer.client_id))
        except DriverError as error:
            raise _refusal(error) from None
        person = self.person(found.name, found.groups, found.ends_ms)
        assert person is not None
        return person

    def _at(self, secret: str) -> tuple[OidcIssuer, str, dict[str, str]]:
        assert self._issuer is not None
        assert self.issuer is not None
        proof = {each: digest_of(f"shunter-{each} {secret}") for each in ("nonce", "verifier")}
        return self._issuer, self.issuer.address.rstrip("/") + CALLBACK, proof

    def _named(self, claims: Mapping[str, Any]) -> SignedOn:
        assert self.issuer is not None
        name = claim_of(claims, self.issuer.user_claim)
        if not isinstance(name, str) or not _is_name(name):
            told = f"the claim {self.issuer.user_claim} names nobody: it is {str(name)[:80]!r}"
            raise NoAccess(f"{told}; let the issuer set it, or name another by user-claim in [sign-on.oidc]")
        if self.issuer.user_claim == "email" and claims.get("email_verified") is False:
            raise NoAccess(f"the claim email is {name!r}, and email_verified is false: verify it at the issuer")
        name = name.strip()
        groups = self._known(name, claim_of(claims, self.issuer.groups_claim), f"claim {self.issuer.groups_claim}")
        return SignedOn(name, groups, int((float(claims["exp"]) + self.issuer.leeway_s) * 1000))

    def _known(self, name: str, groups: Any, place: str) -> tuple[str, ...]:
        """Those of somebody's groups that have a role.

        Raises:
            NoAccess: there is none. The message names claim and value.
        """
        values = [groups] if isinstance(groups, str) else groups if isinstance(groups, list) else []
        if known := tuple(each for each in values if isinstance(each, str) and each in self._rules.roles):
            return known
        shown = "missing" if groups is None else str(values[:_SHOWN] if isinstance(groups, list) else groups)[:1000]
        way_out = "give one of them a role in [sign-on.roles] of the policy file" if values else "let it be set"
        raise NoAccess(f"{name} has no access: the {place} is {shown}, and no role follows from it: {way_out}")

    # ---- the proxy

    def by_headers(self, peer: str, headers: Callable[[str], Sequence[str]]) -> Person | None:
        """The person whom a trusted proxy names; None: it names nobody, or the request came from elsewhere.

        Args:
            peer: The address at the other end of the connection, whatever headers say of it.
            headers: Returns all values of a header.

        Raises:
            NoAccess: the person may do nothing here, or a header came twice.
        """
        rules = self._rules.proxy
        if rules is None or not (users := headers(rules.user_header)):
            return None
        if not self._is_trusted(peer):
            if not self._told:
                self._told = True
                told = "only the proxies of `from` in [sign-on.proxy] are believed, and this is said once"
                LOG.warning("%s from %s is ignored: %s", rules.user_header, peer, told)
            return None
        groups = headers(rules.groups_header)
        if len(users) > 1 or len(groups) > 1:
            told = f"{rules.user_header} or {rules.groups_header} came twice: let the proxy remove what others send"
            raise NoAccess(told)
        name, told_groups = _utf8(users[0]), [each.strip() for each in _utf8("".join(groups)).split(",")]
        if not _is_name(name):
            raise NoAccess(f"{rules.user_header} is {name[:80]!r}, and names nobody: let the proxy set it")
        known = self._known(name, [each for each in told_groups if each] or None, f"header {rules.groups_header}")
        return self.person(name, known)

    def _is_trusted(self, peer: str) -> bool:
        try:
            address = ip_address(peer.partition("%")[0])
        except ValueError:
            return False
        mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
        return self._rules.proxy is not None and any((mapped or address) in each for each in self._rules.proxy.networks)


def state_of(secret: str) -> str:
    """The state of a sign-in, which passes through the issuer; the secret can't be derived from it."""
    return digest_of(f"shunter-state {secret}")


def claim_of(claims: Mapping[str, Any], path: str) -> Any:
    """A claim by its name, or by a path with dots. A name with dots, such as a URL, comes first; None: there is none."""
    if path in claims:
        return claims[path]
    found: Any = claims
    for part in path.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _is_name(name: str) -> bool:
    return bool(name.strip()) and name.isprintable() and len(name) <= MOST_NAME


def _utf8(header: str) -> str:
    """A header's text: HTTP has bytes, of which the framework makes Latin-1."""
    return header.encode("latin-1", "replace").decode("utf-8", "replace").strip()


def _refusal(error: DriverError) -> SignOnRefused:
    if error.retriable:
        return IssuerSilent(f"the issuer can't be asked: {error}. Sign in with a token, or try again in a moment")
    return SignOnRefused(str(error))
