"""The client's side of SASL DIGEST-MD5 (RFC 2831) as ZooKeeper uses it: authentication only (qop `auth`).

kazoo needs pure-sasl for this, whose last release was in 2019 (see decision 0080).
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from typing import Final

from shunter.errors import FormatError

_PAIR: Final = re.compile(r'([a-z-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^",\s]+))')
_PLACE: Final = "challenge of SASL DIGEST-MD5"
_COUNT: Final = "00000001"
URI: Final = "zookeeper/zk-sasl-md5"
"""The name of every ZooKeeper server, whatever its host. Source: ZooKeeper's `SecurityUtils`."""


class DigestMd5:
    """One login.

    Args:
        user: the user's name.
        password: the user's password; it is not sent.
        uri: of the service.
        own_nonce: for tests; None: random.
    """

    def __init__(self, user: str, password: str, uri: str = URI, own_nonce: str | None = None) -> None:
        self._user = user
        self._password = password
        self._uri = uri
        self._own_nonce = secrets.token_hex(16) if own_nonce is None else own_nonce
        self._expected = ""

    def response(self, challenge: bytes) -> bytes:
        """Answer the server's challenge.

        Raises:
            FormatError: not a challenge of this mechanism, or it requires options that are not implemented.
        """
        said = _pairs(challenge)
        nonce, realm = said.get("nonce"), said.get("realm", "")
        if nonce is None or said.get("algorithm") != "md5-sess":
            raise FormatError(_PLACE, "has no nonce, or another algorithm than md5-sess")
        if "auth" not in [word.strip() for word in said.get("qop", "auth").split(",")]:
            raise FormatError(_PLACE, f"qop {said['qop']!r} does not offer 'auth'")
        key = hashlib.md5(b":".join(map(_octets, (self._user, realm, self._password))), usedforsecurity=False).digest()
        session = _hex(key + f":{nonce}:{self._own_nonce}".encode())
        common = f"{session}:{nonce}:{_COUNT}:{self._own_nonce}:auth:"
        self._expected = _hex((common + _hex(f":{self._uri}".encode())).encode())
        proof = _hex((common + _hex(f"AUTHENTICATE:{self._uri}".encode())).encode())
        parts = (
            "charset=utf-8",
            f"username={_quoted(self._user)}",
            f"realm={_quoted(realm)}",
            f"nonce={_quoted(nonce)}",
            f"nc={_COUNT}",
            f"cnonce={_quoted(self._own_nonce)}",
            f"digest-uri={_quoted(self._uri)}",
            f"response={proof}",
            "qop=auth",
        )
        return ",".join(parts).encode()

    def server_proved(self, last: bytes) -> bool:
        """Whether the server's last message proves that it knows the password."""
        said = _pairs(last).get("rspauth", "")
        return bool(self._expected) and hmac.compare_digest(said.encode(), self._expected.encode())


def _pairs(text: bytes) -> dict[str, str]:
    found = _PAIR.findall(text.decode("utf-8", errors="replace"))
    return {name: re.sub(r"\\(.)", r"\1", quoted) or word for name, quoted, word in found}


def _quoted(text: str) -> str:
    return '"' + re.sub(r'(["\\])', r"\\\1", text) + '"'


def _octets(text: str) -> bytes:
    """Encode in ISO 8859-1 if possible (section 2.1.2.1 requires it here), else in UTF-8 as all other texts."""
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode()


def _hex(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()
