"""Notifications: requests over HTTP, the forms of the receivers, and that no receiver blocks the service."""

import asyncio
import hashlib
import hmac
import json
import sys
import threading
import traceback
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from shunter.app.service.notifying import MOST_WAITING, Notifications
from shunter.drivers.host.http_client import HttpRequest, ask_http, is_http_url
from shunter.drivers.service.notifier import by_apprise, message, notify
from shunter.errors import DriverError, FormatError, SettingsError
from shunter.model.service import HistoryEvent, Notifier, NotifierKind
from shunter.views.service import NotifierFigures

SECRET = "planted"
EVENT = HistoryEvent(4, "prod", 1_000, "condition", "broker 1 is dead", "broker-dead broker 1", "", "", None)


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


class Receiver:
    """A server that keeps the posted documents."""

    def __init__(self) -> None:
        self.got: list[Any] = []
        self.raw: list[tuple[dict[str, str], bytes]] = []
        self.status = 200
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.raw.append((dict(self.headers), body))
                receiver.got.append(json.loads(body))
                self.send_response(receiver.status)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/secret"
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.server.shutdown()
    made.thread.join()
    made.server.server_close()


async def unkept(_kind: str, _told: str, _subject: str) -> None:
    pass


def test_forms() -> None:
    told = message(NotifierKind.WEBHOOK, [EVENT], 0)
    assert {name: value for name, value in told.items() if name != "events"} == {
        "cluster": "prod",
        "at_ms": 1_000,
        "kind": "condition",
        "text": "broker 1 is dead",
        "subject": "broker-dead broker 1",
        "who": "",
        "cause": "",
        "until_ms": None,
        "severity": "",
        "situation": "",
        "doing": "",
        "left_out": 0,
        "service": "",
    }
    stands = {"severity": "critical", "situation": "broker 1 down", "doing": "p-1 waits for approval"}
    (alert,) = message(NotifierKind.ALERTMANAGER, [replace(EVENT, facts=stands)], 0)
    assert alert["annotations"]["summary"] == (
        "[prod] broker 1 is dead. prod: critical: broker 1 down; p-1 waits for approval"
    )
    assert message(NotifierKind.WEBHOOK, [replace(EVENT, facts=stands)], 0)["situation"] == "broker 1 down"
    sent = message(NotifierKind.WEBHOOK, [EVENT], 0, "the service on h1 (process 7)")
    assert sent["service"] == "the service on h1 (process 7)"
    assert "[the service on h1 (process 7)]" in message(NotifierKind.SLACK, [EVENT], 0, sent["service"])["text"]
    told = message(NotifierKind.SLACK, [EVENT], 3)["text"]
    assert told == "[prod] broker 1 is dead (3 messages before this one were left out) (1970-01-01T00:00:01.000Z)"


def test_what_is_over_resolves_the_alert_that_it_ends() -> None:
    (begun,) = message(NotifierKind.ALERTMANAGER, [EVENT], 0)
    over = HistoryEvent(5, "prod", 1_000, "condition-over", "not any more", EVENT.subject, until_ms=9_000)
    (ended,) = message(NotifierKind.ALERTMANAGER, [over], 0)
    assert ended["labels"] == begun["labels"]
    assert "endsAt" not in begun
    assert ended["endsAt"] == "1970-01-01T00:00:09.000Z"


def test_a_refusal_is_told_without_what_may_be_secret(receiver: Receiver) -> None:
    notify(Notifier(NotifierKind.WEBHOOK, receiver.url), [EVENT], 0)
    assert receiver.got[0]["text"] == "broker 1 is dead"
    for status, again in ((404, False), (503, True), (429, True)):
        receiver.status = status
        with pytest.raises(DriverError, match=f"answered {status}") as failed:
            notify(Notifier(NotifierKind.WEBHOOK, receiver.url), [EVENT], 0)
        assert failed.value.retriable is again
        assert "secret" not in str(failed.value)


def test_a_path_with_other_letters_gets_there_and_no_password_is_told(receiver: Receiver) -> None:
    notify(Notifier(NotifierKind.WEBHOOK, f"{receiver.url}/é?a=1&b=%20"), [EVENT], 0)
    assert len(receiver.got) == 1
    with pytest.raises(DriverError, match=r"http://127\.0\.0\.1:1: ") as failed:
        notify(Notifier(NotifierKind.WEBHOOK, "http://anna:planted@127.0.0.1:1/"), [EVENT], 0)
    assert "planted" not in str(failed.value)


@pytest.mark.parametrize(
    ("safe", "said"), [("broker 3", True), ("broker 2, broker 3", True), ("broker 2", False), ("", False)]
)
async def test_a_broker_that_is_no_longer_safe_to_remove_is_not_called_so_by_a_digest(
    receiver: Receiver, *, safe: str, said: bool
) -> None:
    """An SRE's find: another broker had died since, and whoever obeyed the message would have ended the quorum."""
    sending = Notifications([Notifier(NotifierKind.WEBHOOK, receiver.url)])
    sending.stands = lambda _cluster: {"safe": safe}
    event = replace(EVENT, kind="broker-empty", subject="broker 3", text="broker 3 is empty: it is safe to remove")
    running = asyncio.create_task(sending.run(unkept))
    sending.tell(event)
    async with asyncio.timeout(60):
        while not receiver.got:  # noqa: ASYNC110 - turns of the loop
            await asyncio.sleep(0)
    assert ("is safe to remove" in receiver.got[0]["text"]) is said
    assert ("; now it is not, or that is not known" in receiver.got[0]["text"]) is not said
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_message_that_can_t_be_sent_at_all_does_not_end_the_sending() -> None:
    told = Notifications([Notifier(NotifierKind.WEBHOOK, "http://h:99999/")], 0.001, 0.001)
    sending = asyncio.create_task(told.run(unkept))
    for _ in range(2):
        before = told.figures[0].failed
        told.tell(EVENT)
        async with asyncio.timeout(60):
            while told.figures[0].failed == before:  # noqa: ASYNC110 - turns of the loop
                await asyncio.sleep(0)
        assert not sending.done()
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)


def test_a_command_hears_of_an_event_of_any_length(tmp_path: Path) -> None:
    code = "import os, sys; open(sys.argv[1], 'w').write(os.environ['SHUNTER_TEXT'])"
    receiver = Notifier(NotifierKind.COMMAND, command=(sys.executable, "-c", code, str(tmp_path / "told")))
    notify(receiver, [replace(EVENT, text="\0" + "é" * 200_000)], 0)
    assert (tmp_path / "told").read_text().startswith("éé")


@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning"
)  # A module of the standard library that one of its services uses.
def test_apprise_sends_what_people_read(receiver: Receiver) -> None:
    """By the real library, and its own kind of webhook."""
    url = receiver.url.replace("http://", "json://")
    notify(Notifier(NotifierKind.APPRISE, url), [EVENT], 2, "the service on h1")
    assert receiver.got[0]["message"].startswith("[prod] broker 1 is dead")
    assert "2 messages before this one were left out" in receiver.got[0]["message"]
    receiver.status = 500
    with pytest.raises(DriverError, match=r"json:: Apprise could not send it") as failed:
        notify(Notifier(NotifierKind.APPRISE, url), [EVENT], 0)
    assert failed.value.retriable
    with pytest.raises(SettingsError, match=r"nosuch:…: Apprise reads no such URL"):
        by_apprise("nosuch://token/planted")


def test_a_command_hears_of_it(tmp_path: Path) -> None:
    code = "import os, sys; open(sys.argv[1], 'w').write(os.environ['SHUNTER_TEXT'] + sys.stdin.read())"
    notify(Notifier(NotifierKind.COMMAND, command=(sys.executable, "-c", code, str(tmp_path / "told"))), [EVENT], 0)
    assert (tmp_path / "told").read_text().startswith('broker 1 is dead{"cluster":"prod"')
    with pytest.raises(DriverError, match="exit status 3"):
        notify(Notifier(NotifierKind.COMMAND, command=(sys.executable, "-c", "raise SystemExit(3)")), [EVENT], 0)
    with pytest.raises(DriverError, match="No such file"):
        notify(Notifier(NotifierKind.COMMAND, command=("/nowhere",)), [EVENT], 0)


async def test_a_receiver_that_is_not_there_keeps_nobody_else_waiting(receiver: Receiver) -> None:
    dead = Notifier(NotifierKind.SLACK, "http://127.0.0.1:1/")
    told = Notifications([dead, Notifier(NotifierKind.WEBHOOK, receiver.url)], again_s=0.001)
    for _ in range(MOST_WAITING + 5):
        told.tell(EVENT)
    told.tell(HistoryEvent(9, "prod", 1, "approve", "not asked for"))
    sending = asyncio.create_task(told.run(unkept))
    async with asyncio.timeout(60):
        while not receiver.got or not told.figures[0].trouble:  # noqa: ASYNC110 - turns of the loop
            await asyncio.sleep(0)
    assert receiver.got[0]["left_out"] == 5
    assert "refused" in told.figures[0].trouble
    assert [each.left_out for each in told.figures] == [5, 5]
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)


def over(broker: int) -> HistoryEvent:
    return replace(EVENT, kind="condition-over", text="no longer holds", subject=f"disk-band broker {broker}")


def band(broker: int) -> HistoryEvent:
    return replace(EVENT, text=f"broker {broker} carries 1.3 of the mean", subject=f"disk-band broker {broker}")


def test_a_message_about_many_events_has_one_line_for_each_condition() -> None:
    events = [*map(band, range(1, 5)), replace(EVENT, kind="begun", text="p-1 is begun", subject="p-1"), over(1)]
    told = message(NotifierKind.WEBHOOK, events, 0)
    assert (told["kind"], told["subject"], len(told["events"])) == ("digest", "", 6)
    assert told["text"].splitlines() == [
        "[prod] 00:00:01Z disk-band holds of broker 1, broker 2, broker 3 and 1 more: broker 4 carries 1.3 of the mean",
        "[prod] 00:00:01Z p-1 is begun",
        "[prod] 00:00:01Z no longer holds",
    ]
    alerts = message(NotifierKind.ALERTMANAGER, events, 0)
    assert [each["labels"]["subject"] for each in alerts if "endsAt" in each] == ["disk-band broker 1"]
    assert len(alerts) == 5, "of two events about one thing the later one counts"


def test_headers_and_a_signature_that_a_receiver_can_check(receiver: Receiver) -> None:
    signed = Notifier(
        NotifierKind.WEBHOOK, receiver.url, headers=(("Authorization", "Bearer x"),), secret=b"between us"
    )
    notify(signed, [EVENT], 0)
    ((headers, body),) = receiver.raw
    assert headers["Authorization"] == "Bearer x"
    mark = hmac.new(b"between us", headers["X-Shunter-Timestamp"].encode() + b"." + body, hashlib.sha256)
    assert headers["X-Shunter-Signature"] == f"sha256={mark.hexdigest()}"
    assert "between us" not in repr(signed)


@pytest.mark.parametrize(
    "urgent", [EVENT, replace(EVENT, kind="cluster-unreachable", text="it does not answer", subject="")]
)
async def test_after_a_message_later_events_are_sent_together_and_urgent_ones_at_once(
    receiver: Receiver, urgent: HistoryEvent
) -> None:
    told = Notifications([Notifier(NotifierKind.WEBHOOK, receiver.url, digest_minutes=1)], minute_s=3_600)
    sending = asyncio.create_task(told.run(unkept))

    async def got(messages: int) -> None:
        async with asyncio.timeout(60):
            while len(receiver.got) < messages or told.figures[0].sent < messages:  # noqa: ASYNC110 - turns
                await asyncio.sleep(0)

    told.tell(band(1))
    await got(1)
    for broker in range(2, 200):
        told.tell(band(broker))
    for _ in range(50):
        await asyncio.sleep(0)
    assert len(receiver.got) == 1, "they are collected"
    told.tell(urgent)
    await got(2)
    assert len(receiver.got[1]["events"]) == 199
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)


async def test_a_message_says_how_the_cluster_stands_when_it_is_sent(receiver: Receiver) -> None:
    """An SRE's find: "broker 2 down", in a digest of half a minute after it was up again."""
    told = Notifications([Notifier(NotifierKind.WEBHOOK, receiver.url)])
    told.stands = lambda name: {"severity": "ok", "situation": f"{name} is healthy", "doing": "nothing moves"}
    sending = asyncio.create_task(told.run(unkept))
    told.tell(replace(EVENT, facts={"severity": "critical", "situation": "broker 2 down", "doing": "it heals"}))
    async with asyncio.timeout(60):
        while not receiver.got:  # noqa: ASYNC110 - turns
            await asyncio.sleep(0)
    sent = receiver.got[0]
    for document in (sent, *sent["events"]):
        stands = (document["severity"], document["situation"], document["doing"])
        assert stands == ("ok", f"{EVENT.cluster} is healthy", "nothing moves")
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)


def test_receivers_that_fail_are_an_event_for_the_others(receiver: Receiver) -> None:
    kept: list[tuple[str, str, str]] = []

    async def scenario() -> None:
        both = [Notifier(NotifierKind.SLACK, receiver.url + "/slack", digest_minutes=0)]
        told = Notifications(both, again_s=0.001)

        async def note(kind: str, text: str, subject: str) -> None:
            kept.append((kind, text, subject))
            told.tell(HistoryEvent(0, "", 1, kind, text, subject))

        sending = asyncio.create_task(told.run(note))
        for status in (503, 503, 200):
            receiver.status = status
            told.tell(EVENT)
            before = told.figures[0]
            async with asyncio.timeout(60):
                while (told.figures[0].sent, told.figures[0].failed) == (before.sent, before.failed):  # noqa: ASYNC110
                    await asyncio.sleep(0)
        assert told.figures[0]._replace(receiver="") == NotifierFigures("", 1, 2, 0, "")
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)

    asyncio.run(scenario())
    assert [(kind, subject) for kind, _text, subject in kept] == [
        ("notification-failed", "1-slack"),
        ("notification-sent-again", "1-slack"),
    ]
    assert "answered 503" in kept[0][1]
    assert "secret" not in kept[0][1]
