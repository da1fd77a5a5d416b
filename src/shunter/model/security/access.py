"""Access to the HTTP API: roles, tokens as they are kept, and the people who ask."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


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
    """The session of a person who showed a token to the page. Only digests are kept; every request checks the token."""

    digest: str
    """SHA-256 of the id that is in the browser's cookie."""
    token: str
    """SHA-256 of the token that was shown."""
    ends_ms: int
    """Milliseconds since 1970 UTC."""
