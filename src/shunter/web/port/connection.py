"""A connection of HTTP: uvicorn's, with turns, a place in the room, and deadlines."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
import weakref
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from shunter.web.port.connection_limits import ConnectionLimits, network_of
from shunter.web.port.listening import user_of
from shunter.web.port.turns import AddressTurns

HEAD_SECONDS = 10.0
"""Within this time a connection has to send the whole head of its first request, and the rest of a refused body."""
MOST_HEADERS = 100
"""Each costs some microseconds, and a head of 16 KiB has room for 4,000."""
_QUIET = logging.getLogger("shunter.web.port.connection")
"""uvicorn's warnings about malformed requests are counted instead of logged, because anybody can cause them."""
_QUIET.setLevel(logging.ERROR)


class HttpConnection(H11Protocol):
    """One connection. uvicorn makes the requests of it; a turn is needed to read bytes, and to begin a request."""

    def __init__(self, turns: AddressTurns, room: ConnectionLimits, **given: Any) -> None:
        super().__init__(**given)
        self.logger = _QUIET
        self.address = ""
        self._turns = turns
        self._room = room
        self._unread = bytearray()
        self._asked = False
        self._has_turn = False
        self._waits_since = self.loop.time()
        # A weak reference: in a circle, the buffers of dead connections would wait for the garbage collector.
        self.app_state = {"connection": weakref.ref(self)}

    @property
    def waits_since(self) -> float | None:
        """See `Visitor`. While a body is awaited, this is still the time before its head."""
        awaited = self.cycle is None or self.cycle.response_complete or self.cycle.more_body
        return self._waits_since if awaited else None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See asyncio."""
        super().connection_made(transport)
        self.address = network_of(self.client[0] if self.client is not None else "")
        link = transport.get_extra_info("socket")
        if link is not None and link.family == socket.AF_UNIX:
            self.app_state["user"] = user_of(link)
        self._waits_since = self.loop.time()
        self._room.enter(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio."""
        self._room.depart(self)
        self._unread.clear()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Keep the bytes until this connection has its turn. Nothing more is read before."""
        self._unset_keepalive_if_required()
        self._unread += data
        self.flow.pause_reading()
        self._ask()

    def handle_events(self) -> None:
        """Go on with bytes that were read; the next request of a pipeline waits for a turn of its own."""
        if self._has_turn:
            super().handle_events()
        else:
            self._ask()

    def _ask(self) -> None:
        if not self._asked:
            self._asked = True
            self._turns.ask(self.address, self._take_turn)

    def _take_turn(self) -> None:
        self._asked = False
        if self.transport.is_closing():
            return
        data, self._unread = bytes(self._unread), bytearray()
        self._has_turn = True
        try:
            self.flow.resume_reading()
            if self.conn.their_state is h11.IDLE and _has_long_head(self.conn.trailing_data[0] + data):
                self.send_400_response(f"The head of a request may have {MOST_HEADERS} headers.")
                return
            if data:
                super().data_received(data)
            else:
                super().handle_events()
        except h11.LocalProtocolError:  # The bytes make no sense in the middle of an answer.
            self.leave("malformed")
        finally:
            self._has_turn = False

    def send_400_response(self, msg: str) -> None:
        """See uvicorn."""
        self._room.refused["malformed"] += 1
        error = sys.exc_info()[1]
        if error is not None:
            # h11's error is in its own traceback, whose frames have this connection: a circle, too.
            error.__traceback__ = None
        super().send_400_response(msg)

    def on_response_complete(self) -> None:
        """See uvicorn."""
        self._waits_since = self.loop.time()
        super().on_response_complete()

    def know(self) -> None:
        """A request has shown a valid token."""
        self._room.know(self)

    def overdue(self, now: float) -> bool:
        """Whether a request should have come by now."""
        under_way = self.cycle is not None and not self.cycle.response_complete  # A body has a deadline of its own.
        return not under_way and now - self._waits_since > HEAD_SECONDS

    def leave(self, reason: str) -> None:
        """Close the connection, and count why."""
        self._room.refused[reason] += 1
        self.transport.abort()


def _has_long_head(received: bytes) -> bool:
    """Whether the request that begins these bytes has too many headers, as far as it has come."""
    return received.partition(b"\r\n\r\n")[0].count(b"\n") > MOST_HEADERS
