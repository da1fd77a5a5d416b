"""A connection that has logged in by SCRAM, for requests that no client would send."""

import secrets
from typing import Any

from kio.index import load_request_schema
from raw_connection import RawConnection

from shunter.drivers.listener.handlers.messages import filled
from shunter.model.security.listeners import Secret
from shunter.wire.framing import request_frame_head
from shunter.wire.requests import encode_message
from shunter.wire.sasl import ScramClient, salted

MECHANISM = "SCRAM-SHA-512"
ANSWER_SECONDS = 120
"""A broker that shares two processors with many others is slow with requests that are forwarded to it."""


class LoggedIn(RawConnection):
    """A `RawConnection` that is logged in as `user`."""

    def __init__(self, port: int, user: str, password: str) -> None:
        super().__init__(port)
        self.socket.settimeout(ANSWER_SECONDS)
        shaken = self.ask(17, 1, {"mechanism": MECHANISM})
        assert shaken.error_code.name == "none", shaken
        scram = ScramClient(MECHANISM, user, secrets.token_urlsafe(20))
        challenge = scram.hear_challenge(self._token(scram.first()))
        proof = salted(MECHANISM, Secret(password), challenge.salt, challenge.iterations)
        scram.check(self._token(scram.final(challenge, proof)))

    def _token(self, token: bytes) -> bytes:
        answer = self.ask(36, 2, {"auth_bytes": token})
        assert answer.error_code.name == "none", answer
        return bytes(answer.auth_bytes)

    def ask_or_none(self, api_key: int, version: int, values: dict[str, Any]) -> bytes | None:
        """The answer; None if the connection is closed instead."""
        body = encode_message(filled(load_request_schema(api_key, version), values))
        self.send(request_frame_head(api_key, version, 7, "test", len(body)) + body)
        return self.answer()
