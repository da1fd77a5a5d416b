"""Sends a notification: to a webhook, Slack, Alertmanager, an operator's command, or by Apprise. Blocks for seconds."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import os
import subprocess
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlsplit

import orjson

from shunter.core.wording import named
from shunter.drivers.host.http_client import HttpRequest, ask_http
from shunter.errors import DriverError, SettingsError
from shunter.model.service import INFORMED, HistoryEvent, Notifier, NotifierKind

WITHIN_S = 10.0
MOST_VARIABLE = 30_000
"""Characters of one environment variable, of at most four bytes each."""
_SAFE = "!#$%&'()*+,/:;=?@[]~"
"""Characters that a URL's path and query may contain; all others are percent-encoded."""
_OVER = ("condition-over", "cluster-back", "driven-again", "resume-all", "proposal-done", *INFORMED)
"""Kinds of events that end a condition, or are no alarm: Alertmanager resolves the alert."""
_CONDITIONS = ("condition", "condition-over")
"""Kinds of events that are told together by their condition, whatever brokers they are about."""
DIGEST = "digest"
"""The kind of a message about several events."""
MOST_LINES = 20
STANDS = ("severity", "situation", "doing")
"""Facts of an event that say how the cluster stood just then, as every front end showed it."""


def notify(receiver: Notifier, events: Sequence[HistoryEvent], left_out: int, sender: str = "") -> None:
    """Send one message about some events. `left_out` is the number of events before them that were never sent.

    `sender`: the service that sends it, in words.

    Raises:
        DriverError: the receiver did not accept it; `.retriable` says whether trying again makes sense.
    """
    if receiver.kind is NotifierKind.COMMAND:
        _run(receiver, events, left_out, sender)
    elif receiver.kind is NotifierKind.APPRISE:
        if not by_apprise(receiver.url).notify(body=_told(events, left_out, sender), title="Shunter"):
            raise DriverError(f"{place_of(receiver)}: Apprise could not send it", retriable=True)
    else:
        _post(receiver, message(receiver.kind, events, left_out, sender))


def by_apprise(url: str) -> Any:
    """Apprise's client for one URL.

    Raises:
        SettingsError: Apprise is not installed, or knows no such service.
    """
    try:
        import apprise  # noqa: PLC0415  an extra
    except ModuleNotFoundError as missing:
        raise SettingsError("kind = \"apprise\" needs Apprise: pip install 'shunter[apprise]'") from missing
    client = apprise.Apprise()
    if not client.add(url):
        raise SettingsError(
            f"url = {url.partition(':')[0]}:…: Apprise reads no such URL (https://appriseit.com/services)"
        )
    return client


def place_of(receiver: Notifier) -> str:
    """Where a receiver is, without what may be secret: the parts of a URL before and after the host."""
    if receiver.kind is NotifierKind.COMMAND:
        return receiver.command[0]
    if receiver.kind is NotifierKind.APPRISE:
        return f"{receiver.url.partition(':')[0]}:"  # Of many services the rest is a token.
    parts = urlsplit(receiver.url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def message(kind: NotifierKind, events: Sequence[HistoryEvent], left_out: int, sender: str = "") -> Any:
    """Make the document to post, in the form of the receiver's kind."""
    if kind is NotifierKind.ALERTMANAGER:
        # Of events with the same labels the last one counts.
        alerts = {
            tuple(each["labels"].values()): each for each in (_alert(event, left_out, sender) for event in events)
        }
        return [*alerts.values()]
    last = events[-1]
    if kind is NotifierKind.SLACK:
        return {"text": f"{_told(events, left_out, sender)} ({_told_time(last.until_ms or last.at_ms)})"}
    documents = [_document(event) for event in events]
    whole = documents[0] if len(events) == 1 else _document(replace(last, kind=DIGEST, text=digest(events), subject=""))
    return whole | {"left_out": left_out, "service": sender, "events": documents}


def _document(event: HistoryEvent) -> dict[str, Any]:
    fields = ("cluster", "at_ms", "kind", "text", "subject", "who", "cause", "until_ms")
    return {name: getattr(event, name) for name in fields} | _stands(event)


def _stands(event: HistoryEvent) -> dict[str, str]:
    return {name: str(event.facts.get(name, "")) for name in STANDS}


def _alert(event: HistoryEvent, left_out: int, sender: str) -> dict[str, Any]:
    labels = {"alertname": "Shunter", "cluster": event.cluster, "kind": _about(event), "subject": event.subject}
    at = _told_time(event.at_ms)
    alert = {"labels": labels, "annotations": {"summary": _told([event], left_out, sender)}, "startsAt": at}
    return alert | ({"endsAt": _told_time(event.until_ms or event.at_ms)} if event.kind in _OVER else {})


def _told(events: Sequence[HistoryEvent], left_out: int, sender: str) -> str:
    """What happened, and how the cluster stood at the last of it, for people."""
    last, stands = events[-1], _stands(events[-1])
    text = digest(events)
    if stands["situation"]:
        text = f"{text}. {last.cluster}: {stands['severity']}: {stands['situation']}; {stands['doing']}"
    text = f"{text} [{sender}]" if sender else text
    return f"{text} ({left_out} messages before this one were left out)" if left_out else text


def digest(events: Sequence[HistoryEvent]) -> str:
    """What happened, in one line for each cluster and condition, or other kind of event; each with its time if several."""
    groups: dict[tuple[str, ...], list[HistoryEvent]] = {}
    for event in events:
        condition = event.subject.partition(" ")[0] if event.kind in _CONDITIONS else event.subject
        groups.setdefault((event.cluster, event.kind, condition), []).append(event)
    lines = [_line(group, timed=len(events) > 1) for group in groups.values()]
    shown = lines[:MOST_LINES] + ([f"and {len(lines) - MOST_LINES} more"] if len(lines) > MOST_LINES else [])
    return "\n".join(shown)


def _line(events: Sequence[HistoryEvent], *, timed: bool) -> str:
    first, last = events[0], events[-1]
    at = f" {datetime.fromtimestamp((last.until_ms or last.at_ms) / 1000, UTC):%H:%M:%S}Z" if timed else ""
    place = f"[{first.cluster or 'fleet'}]{at}"
    if len(events) == 1 or first.kind not in _CONDITIONS:
        return f"{place} {events[-1].text}"
    condition = first.subject.partition(" ")[0]
    about = dict.fromkeys(event.subject.partition(" ")[2] or "the cluster" for event in events)
    holds = "holds" if first.kind == "condition" else "no longer holds"
    return f"{place} {condition} {holds} of {named(list(about))}: {events[-1].text}"


def _about(event: HistoryEvent) -> str:
    """Return the kind of the event that this event ends, so that both have the same labels."""
    begins = {
        "condition-over": "condition",
        "cluster-back": "cluster-unreachable",
        "driven-again": "not-driven",
        "resume-all": "pause-all",
    }
    return begins.get(event.kind, event.kind)


def _told_time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _post(receiver: Notifier, document: Any) -> None:
    url, place = receiver.url, place_of(receiver)
    parts = urlsplit(url)
    path = quote(parts._replace(scheme="", netloc="").geturl() or "/", safe=_SAFE)
    body = orjson.dumps(document)
    headers = {"Content-Type": "application/json", **dict(receiver.headers), **signature(receiver.secret, body)}
    asked = HttpRequest("POST", path, body, headers)
    status, _ = ask_http(place, url, asked, within_s=WITHIN_S, most_bytes=4096)
    if status >= http.client.MULTIPLE_CHOICES:
        again = status >= http.client.INTERNAL_SERVER_ERROR or status == http.client.TOO_MANY_REQUESTS
        raise DriverError(f"{place}: answered {status}", retriable=again)


def signature(secret: bytes, body: bytes, now_ms: int | None = None) -> dict[str, str]:
    """The headers by which a receiver knows that a message is ours, and not an old one; none without a secret."""
    if not secret:
        return {}
    at = str(int(time.time() * 1000) if now_ms is None else now_ms)
    mark = hmac.new(secret, f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return {"X-Shunter-Timestamp": at, "X-Shunter-Signature": f"sha256={mark}"}


def _run(receiver: Notifier, events: Sequence[HistoryEvent], left_out: int, sender: str) -> None:
    """Run a command, with the message as JSON on its standard input and in variables of its environment."""
    whole = message(NotifierKind.WEBHOOK, events, left_out, sender)
    # An environment variable can't contain a zero byte, nor more than 128 KiB.
    told = {
        f"SHUNTER_{name.upper()}": str(whole[name]).replace("\0", "")[:MOST_VARIABLE]
        for name in ("cluster", "kind", "text", "subject")
    }
    document = orjson.dumps(whole)
    try:
        done = subprocess.run(
            receiver.command, input=document, env=os.environ | told, capture_output=True, timeout=WITHIN_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DriverError(f"{receiver.command[0]}: {error}", retriable=False) from error
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()[:200]
        raise DriverError(f"{receiver.command[0]}: exit status {done.returncode}: {said}", retriable=False)
