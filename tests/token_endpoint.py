"""An OAuth token endpoint on this machine: the client-credentials grant, with unsigned tokens by default."""

import base64
import json
import threading
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs


class TokenEndpoint:
    """A context manager; `asked` has the form of every request of a known client."""

    def __init__(
        self,
        clients: Mapping[str, str],
        *,
        lives_s: float = 300.0,
        signed: Callable[[dict[str, object]], str] | None = None,
    ) -> None:
        """Start to listen.

        Args:
            clients: Secrets by client id.
            lives_s: Lifetime of a token, in seconds.
            signed: Makes a signed token from claims.
        """
        self.signed = signed
        self.clients = dict(clients)
        self.lives_s = lives_s
        self.now: Callable[[], float] = time.time
        self.asked: list[dict[str, list[str]]] = []
        self.askers: list[str] = []
        self.status = 200
        self.leaves_out: set[str] = set()
        self.answer: bytes | None = None
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/oauth/token?tenant=a"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _token(self, client: str) -> str:
        now = self.now()
        claims: dict[str, object] = {"sub": client, "iat": now, "exp": now + self.lives_s, "n": len(self.asked)}
        told = {name: value for name, value in claims.items() if name not in self.leaves_out}
        if self.signed is not None:
            return self.signed(told)
        parts = (json.dumps({"alg": "none"}), json.dumps(told), "")
        return ".".join(base64.urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in parts)

    def respond(self, path: str, login: str, form: str) -> tuple[int, bytes]:
        """The status and body of the response to a request."""
        client, _, secret = base64.b64decode(login.removeprefix("Basic ")).decode().partition(":")
        if path != "/oauth/token?tenant=a" or self.clients.get(client) != secret:
            return 401, b'{"error": "invalid_client"}'
        self.asked.append(parse_qs(form))
        self.askers.append(client)
        if self.answer is not None:
            return self.status, self.answer
        told: dict[str, object] = {"access_token": self._token(client), "expires_in": self.lives_s}
        return self.status, json.dumps({k: v for k, v in told.items() if k not in self.leaves_out}).encode()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            """One request."""

            def do_POST(self) -> None:
                form = self.rfile.read(int(self.headers["Content-Length"])).decode()
                status, body = endpoint.respond(self.path, self.headers["Authorization"], form)
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  as it is called there
                """Log nothing."""

        return Handler
