"""Sends a notification to a receiver: a webhook, Slack, Alertmanager, or an operator's command. Blocks for seconds."""

from __future__ import annotations

import http.client
import os
import subprocess
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlsplit

import orjson

from shunter.drivers.host.http_client import HttpRequest, ask_http
from shunter.errors import DriverError
from shunter.model.service import HistoryEvent, Notifier, NotifierKind

WITHIN_S = 10.0
MOST_VARIABLE = 30_000
"""Characters of one environment variable, of at most four bytes each."""
_SAFE = "!#$%&'()*+,/:;=?@[]~"
"""Characters that a URL's path and query may contain; all others are percent-encoded."""
_OVER = ("condition-over", "cluster-back", "resume-all", "proposal-done")
"""Kinds of events that end a condition: Alertmanager resolves the alert."""
STANDS = ("severity", "situation", "doing")
"""Facts of an event that say how the cluster stood just then, as every front end showed it."""


def notify(receiver: Notifier, event: HistoryEvent, left_out: int) -> None:
    """Send an event. `left_out` is the number of events before it that were never sent.

    Raises:
        DriverError: the receiver did not accept it; `.retriable` says whether trying again makes sense.
    """
    if receiver.kind is NotifierKind.COMMAND:
        _run(receiver, event, left_out)
    else:
        _post(receiver.url, message(receiver.kind, event, left_out))


def message(kind: NotifierKind, event: HistoryEvent, left_out: int) -> Any:
    """Make the document to post, in the form of the receiver's kind."""
    at = _told_time(event.at_ms)
    text = f"[{event.cluster or 'fleet'}] {event.text}"
    stands = {name: str(event.facts.get(name, "")) for name in STANDS}
    if stands["situation"]:
        text = f"{text}. {event.cluster}: {stands['severity']}: {stands['situation']}; {stands['doing']}"
    if left_out:
        text = f"{text} ({left_out} messages before this one were left out)"
    if kind is NotifierKind.SLACK:
        return {"text": f"{text} ({at})"}
    if kind is NotifierKind.ALERTMANAGER:
        labels = {"alertname": "Shunter", "cluster": event.cluster, "kind": _about(event), "subject": event.subject}
        alert = {"labels": labels, "annotations": {"summary": text}, "startsAt": at}
        if event.kind in _OVER:
            alert["endsAt"] = _told_time(event.until_ms or event.at_ms)
        return [alert]
    fields = ("cluster", "at_ms", "kind", "text", "subject", "who", "cause", "until_ms")
    return {name: getattr(event, name) for name in fields} | stands | {"left_out": left_out}


def _about(event: HistoryEvent) -> str:
    """Return the kind of the event that this event ends, so that both have the same labels."""
    begins = {"condition-over": "condition", "cluster-back": "cluster-unreachable", "resume-all": "pause-all"}
    return begins.get(event.kind, event.kind)


def _told_time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _post(url: str, document: Any) -> None:
    parts = urlsplit(url)
    path = quote(parts._replace(scheme="", netloc="").geturl() or "/", safe=_SAFE)
    host, port = parts.hostname or "", parts.port
    # Errors do not show the whole URL: the parts before and after the host often contain a secret.
    place = f"{parts.scheme}://{host}" + ("" if port is None else f":{port}")
    asked = HttpRequest("POST", path, orjson.dumps(document), {"Content-Type": "application/json"})
    status, _ = ask_http(place, url, asked, within_s=WITHIN_S, most_bytes=4096)
    if status >= http.client.MULTIPLE_CHOICES:
        again = status >= http.client.INTERNAL_SERVER_ERROR or status == http.client.TOO_MANY_REQUESTS
        raise DriverError(f"{place}: answered {status}", retriable=again)


def _run(receiver: Notifier, event: HistoryEvent, left_out: int) -> None:
    """Run a command, with the event as JSON on its standard input and in variables of its environment."""
    # An environment variable can't contain a zero byte, nor more than 128 KiB.
    told = {
        f"SHUNTER_{name.upper()}": str(getattr(event, name)).replace("\0", "")[:MOST_VARIABLE]
        for name in ("cluster", "kind", "text", "subject")
    }
    document = orjson.dumps(message(NotifierKind.WEBHOOK, event, left_out))
    try:
        done = subprocess.run(
            receiver.command, input=document, env=os.environ | told, capture_output=True, timeout=WITHIN_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DriverError(f"{receiver.command[0]}: {error}", retriable=False) from error
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()[:200]
        raise DriverError(f"{receiver.command[0]}: exit status {done.returncode}: {said}", retriable=False)
