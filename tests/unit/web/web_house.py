"""A service of the yard behind the real application, in this process."""

from __future__ import annotations

import weakref
from functools import cache
from pathlib import Path

import httpx
from fastapi import FastAPI
from web_yard import Yard

from shunter.app.access.access_tokens import AccessRole, Tokens, add_token
from shunter.app.access.audit_log import AuditLog
from shunter.app.access.page_sessions import PageSessions
from shunter.app.access.sign_on import SignOn
from shunter.model.security.access import SignOnRules
from shunter.web.application import make_application
from shunter.web.guards import LOCAL_HOSTS
from shunter.web.hub import Hub
from shunter.web.identity import Identity
from shunter.web.port.wrong_tokens import WrongTokens
from shunter.web.reception import Reception


@cache
def _application() -> FastAPI:
    """One application for all houses: making its routes takes longer than most tests, and its reception is all it knows."""
    front = Yard().front
    reception = Reception(front, Identity(None, PageSessions()), Hub("none"), AuditLog(None))
    return make_application(reception, LOCAL_HOSTS)


class House:
    """The application with a yard behind it, its tokens, and clients of its own."""

    def __init__(self, folder: Path, *, tokens: bool = True, sign_on: SignOnRules | None = None) -> None:
        self.yard = Yard()
        self.audit = folder / "audit.jsonl"
        self.tokens = folder / "tokens.json"
        self.secrets = {role: add_token(self.tokens, f"{role.value}r", role, None) for role in AccessRole}
        self.clock_s = 1_795_400_000.0
        known = Tokens(self.tokens) if tokens else None
        self.log = AuditLog(self.audit)
        weakref.finalize(self, self.log.close)
        self.hub = Hub("run1")
        self.sign_on = None if sign_on is None else SignOn(sign_on, self.now_ms)
        identity = Identity(known, PageSessions(now_ms=self.now_ms), self.sign_on)
        self.reception = Reception(self.yard.front, identity, self.hub, self.log)
        self.reception.wrong_tokens = WrongTokens(0)
        self.application = _application()
        self.application.state.reception = self.reception

    def now_ms(self) -> int:
        return int(self.clock_s * 1000)

    def client(self, role: AccessRole | None = None, *, peer: str = "127.0.0.1", **headers: str) -> httpx.AsyncClient:
        """A client that shows the token of a role with every request; None: no token."""
        shown = {} if role is None else {"authorization": f"Bearer {self.secrets[role]}"}
        transport = httpx.ASGITransport(self.application, raise_app_exceptions=False, client=(peer, 123))
        return httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=shown | headers)
