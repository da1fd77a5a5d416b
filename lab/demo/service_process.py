"""Shunter's service as a process of its own, as an operator runs it, and a client of its HTTP API."""

from __future__ import annotations

import re
import sys
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import quote

from lab.testbed.process import ManagedProcess
from shunter.app.access.access_tokens import AccessRole, add_token
from shunter.drivers.service.service_api import ServiceServer, call_service
from shunter.errors import DriverError

PAGE = re.compile(r"the page is at (http://\S+)")
SERVES_WITHIN_S = 60.0
PERSON = "anna"


class ServiceProcess:
    """`shunter serve FILE --listen`: one process after another, with the same state folder and address."""

    def __init__(self, folder: Path, policy: str, cluster: str) -> None:
        """Write the policy file and a token that may do everything; nothing starts yet.

        Args:
            folder: A folder for the service; it is made here.
            policy: The policy file, as TOML.
            cluster: The cluster's name in the policy file.
        """
        folder.mkdir(parents=True)
        file, self._tokens, self._secret = folder / "keeper.toml", folder / "tokens.json", folder / "token"
        file.write_text(policy, encoding="utf-8")
        self.token = add_token(self._tokens, PERSON, AccessRole.ADMINISTER, None)
        self._secret.touch(mode=0o600)
        self._secret.write_text(self.token, encoding="utf-8")
        self._file, self._folder = file, folder
        self._cluster = cluster
        self._address = ""
        self._lives = 0
        self._process: ManagedProcess | None = None

    @property
    def page(self) -> str:
        """The page's URL, with the token that signs in; the part after `#` stays in the browser."""
        return f"{self._address}#token={self.token}"

    @property
    def pid(self) -> int | None:
        """The id of the process that runs; None: none does."""
        return self._process.pid if self._process is not None and self._process.alive else None

    def start(self) -> None:
        """Start a process, at the address of the former one, and wait until it answers.

        Raises:
            PartFailed: it does not serve in time.
        """
        self._lives += 1
        listen = self._address.removeprefix("http://").rstrip("/") or "127.0.0.1:0"
        command = [sys.executable, "-m", "shunter", "serve", str(self._file), "--state-dir", str(self._folder / "s")]
        command += ["--listen", listen, "--tokens", str(self._tokens)]
        self._process = ManagedProcess(f"service-{self._lives}", command, self._folder)
        self._process.start()
        self._process.wait_ready(self._answers, what="it serves its page", timeout_s=SERVES_WITHIN_S)

    def kill(self) -> None:
        """SIGKILL."""
        if self._process is not None:
            self._process.kill()

    def stop(self) -> int | None:
        """Stop the process; returns its exit status."""
        if self._process is None:
            return None
        self._process.stop()
        return self._process.exit_status

    def ask(self, what: str = "") -> dict[str, Any]:
        """The API's answer about the cluster: "" the cluster itself, or `moves`, `proposals`, `timeline`.

        Raises:
            DriverError: the service does not answer.
        """
        answer: dict[str, Any] = call_service(self._server(), "GET", self._route(what))
        return answer

    def order(self, verb: str, **body: Any) -> str:
        """Give an order through the API; returns the answer in words.

        Raises:
            OrderRefused: the order was refused.
            DriverError: the service does not answer.
        """
        return str(call_service(self._server(), "POST", self._route(verb), body, uuid.uuid4().hex)["text"])

    def log_tail(self) -> str:
        """The last lines of its log."""
        return "" if self._process is None else self._process.log_tail(8)

    def _route(self, what: str) -> str:
        return f"/clusters/{quote(self._cluster, safe='')}" + (f"/{what}" if what else "")

    def _server(self) -> ServiceServer:
        return ServiceServer(self._address.rstrip("/"), self._secret)

    def _answers(self) -> bool:
        assert self._process is not None
        found = PAGE.search(self._process.log_tail())
        if found is None:
            return False
        self._address = found[1]
        try:
            self.ask()
        except DriverError:
            return False
        return True
