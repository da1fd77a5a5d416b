"""Who may do what through the HTTP API: roles, tokens as they are kept, and who asks."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class AccessRole(Enum):
    """What somebody may do. A later role includes the earlier ones."""

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
    """Whose it is; the audit log and every decision name it."""
    role: AccessRole
    digest: str
    made_ms: int
    """Milliseconds since 1970 UTC."""
    expires_ms: int | None
    """From then on it is refused; None: never."""


class Person(NamedTuple):
    """Who asks, and what they may do."""

    name: str
    role: AccessRole


class PageSession(NamedTuple):
    """Somebody who showed a token to the page, as it is kept: digests alone. The token is judged again at every request."""

    digest: str
    """SHA-256 of the id that is in the browser's cookie."""
    token: str
    """SHA-256 of the token that was shown."""
    ends_ms: int
    """Milliseconds since 1970 UTC."""
