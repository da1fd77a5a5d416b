"""One request over HTTP: what is sent, what is read, and what an error says."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from shunter.drivers.host.http_client import HttpRequest, ask_http, is_http_url
from shunter.errors import DriverError, FormatError

SECRET = "planted"


class Echo(BaseHTTPRequestHandler):
    """Answers with method, target and body of the request; a target with `garbage` gets no HTTP."""

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if "garbage" in self.path:
            self.wfile.write(f"{SECRET}\r\n\r\n".encode())
            return
        self.send_response(302)
        self.send_header("Location", "/elsewhere")
        self.end_headers()
        self.wfile.write(f"{self.command} {self.path} {body.decode()}".encode())

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[str]:
    serving = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    thread = threading.Thread(target=serving.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield f"http://127.0.0.1:{serving.server_port}"
    serving.shutdown()
    thread.join()
    serving.server_close()


def test_the_target_is_that_of_the_request_or_of_the_url_and_no_redirection_is_followed(server: str) -> None:
    assert ask_http("here", f"{server}/a?b=1", HttpRequest(), within_s=10) == (302, b"GET /a?b=1 ")
    asked = HttpRequest("POST", "/c", b"body")
    assert ask_http("here", f"{server}/a?b=1", asked, within_s=10) == (302, b"POST /c body")
    assert ask_http("here", server, HttpRequest(), within_s=10, most_bytes=5) == (302, b"GET /")


def test_an_error_says_what_is_wrong_and_no_secret(server: str, free_port: int) -> None:
    with pytest.raises(DriverError, match=r"^here: ConnectionRefusedError: .*refused") as refused:
        ask_http("here", f"http://me:{SECRET}@127.0.0.1:{free_port}/", HttpRequest(), within_s=10)
    assert refused.value.retriable
    with pytest.raises(DriverError, match=r"^here: BadStatusLine$") as unread:
        ask_http("here", f"{server}/garbage", HttpRequest(), within_s=10)
    assert unread.value.retriable
    with pytest.raises(DriverError, match=r"^here: ValueError$") as never_sent:
        ask_http("here", server, HttpRequest(headers={"Authorization": f"{SECRET}\n"}), within_s=10)
    assert not never_sent.value.retriable
    for each in (refused, unread, never_sent):
        assert SECRET not in "".join(traceback.format_exception(each.value))


def test_a_ca_file_that_can_t_be_used_is_named(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"none\.pem: can't be used as certificates"):
        ask_http("here", "https://127.0.0.1:1", HttpRequest(), within_s=1, ca_file=tmp_path / "none.pem")


@pytest.mark.parametrize(
    ("url", "is_one"),
    [
        ("http://h", True),
        ("https://h:443/x?y", True),
        ("http://[::1]:80", True),
        ("h:80", False),
        ("ftp://h", False),
        ("http:///x", False),
        ("http://h:0", False),
        ("http://h:99999", False),
        ("http://[::1", False),
    ],
)
def test_a_url_that_can_be_asked(url: str, is_one: bool) -> None:
    assert is_http_url(url) is is_one
