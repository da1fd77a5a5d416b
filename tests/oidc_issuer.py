"""An OpenID Connect issuer on this machine, which makes the tokens that a test wants, also bad ones."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
import time
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

CLIENT, SECRET = "shunter", "s3cret & more"


@cache
def key(name: str) -> rsa.RSAPrivateKey:
    """A key; the same name has the same key in all tests."""
    return rsa.generate_private_key(65_537, 2_048)


def public_pem(name: str) -> bytes:
    """A public key as bytes, which an attacker has, too."""
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key(name).public_key().public_bytes(serialization.Encoding.PEM, form)


class LocalIssuer:
    """A context manager. `published`: names of keys in the JWKS; `claims`: of ID tokens, over good ones."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.published = ["one"]
        self.signs_by = "one"
        self.claims: dict[str, Any] = {"groups": ["ops"]}
        self.described: dict[str, Any] = {}
        self.codes: dict[str, dict[str, str]] = {}
        self.asked: list[str] = []
        self.stalls = threading.Event()
        self.stalls.set()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()
        self.url = f"http://{host}:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stalls.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def token(self, **more: Any) -> str:
        """A token by RS256. None leaves a claim out; `kid` names the key."""
        now = int(time.time())
        good = {"iss": self.url, "aud": CLIENT, "sub": "1", "preferred_username": "anna", "iat": now, "exp": now + 300}
        kid = more.pop("kid", self.signs_by)
        told = {name: value for name, value in {**good, **self.claims, **more}.items() if value is not None}
        return jwt.encode(told, key(self.signs_by), "RS256", headers={"kid": kid})

    def sign_in(self, away: str) -> str:
        """What a person's browser does at the authorization endpoint; gives the query with which it comes back."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(away).query).items()}
        code = f"code-{len(self.codes)}"
        self.codes[code] = asked
        return f"code={code}&state={asked['state']}"

    def _answer(self, path: str, form: dict[str, str], login: str) -> tuple[int, Any]:
        if path == "/.well-known/openid-configuration":
            names = {"authorization_endpoint": "auth", "token_endpoint": "token", "jwks_uri": "jwks"}
            return 200, {"issuer": self.url, **{k: f"{self.url}/{v}" for k, v in names.items()}, **self.described}
        if path == "/jwks":
            made = [
                {**jwt.algorithms.RSAAlgorithm.to_jwk(key(name).public_key(), as_dict=True), "kid": name, "use": "sig"}
                for name in self.published
            ]
            return 200, {"keys": made}
        asked = self.codes.pop(form.get("code", ""), None)
        if login != "Basic " + base64.b64encode(b"shunter:s3cret+%26+more").decode():
            return 401, {"error": "invalid_client"}
        challenge = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).decode()
        if (
            asked is None
            or asked["code_challenge"] != challenge.rstrip("=")
            or asked["code_challenge_method"] != "S256"
        ):
            return 400, {"error": "invalid_grant", "error_description": "planted"}
        if asked["redirect_uri"] != form["redirect_uri"]:
            return 400, {"error": "invalid_grant"}
        return 200, {"id_token": self.token(**{"nonce": asked["nonce"], **self.claims}), "access_token": "x"}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            """One request."""

            def do_GET(self) -> None:
                self.do_POST()

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
                issuer.asked.append(self.path)
                issuer.stalls.wait(30)
                form = {name: values[0] for name, values in parse_qs(body).items()}
                if self.path.startswith("/auth?"):  # The person is known there already.
                    redirect = parse_qs(urlsplit(self.path).query)["redirect_uri"][0]
                    self.send_response(303)
                    self.send_header("Location", f"{redirect}?{issuer.sign_in(self.path)}")
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                status, told = issuer._answer(self.path, form, self.headers.get("Authorization", ""))
                raw = json.dumps(told).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  as it is called there
                """Log nothing."""

        return Handler
