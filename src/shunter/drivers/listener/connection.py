"""One connection of a client, a tool or a broker: frames in, answers out, in the order of the requests.

While a request waits for its turn, nothing more is read from its connection, so that further requests wait in the
peer's memory and not in this process. An answer is written only as fast as the peer reads it.
"""

from __future__ import annotations

import asyncio
import logging
import select
import time
from collections import deque
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, cast

from shunter.drivers.listener.admission import ANTEROOM_SECONDS, PeerKind
from shunter.drivers.listener.answer import Answer
from shunter.drivers.listener.gate import ListenerGate, kafkas_address
from shunter.drivers.listener.handlers.context import Call
from shunter.drivers.listener.handlers.dispatch import respond
from shunter.drivers.listener.login import Login, LoginState
from shunter.drivers.listener.memory_pool import READ_BYTES
from shunter.drivers.listener.shared_resources import DECODED_HERE_BYTES, SharedResources
from shunter.drivers.listener.shares import Share
from shunter.errors import DriverError, FormatError
from shunter.model.partition import BrokerId
from shunter.model.security.principal import ANONYMOUS, Principal
from shunter.wire.alter_partition import ALTER_PARTITION
from shunter.wire.framing import SIZE_BYTES, frame_length, read_request_head
from shunter.wire.requests import (
    ALLOCATE_PRODUCER_IDS,
    API_VERSIONS,
    CONTROLLED_SHUTDOWN,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    ParsedRequest,
    UnsupportedVersionError,
    encode_response,
    encode_unsupported_version,
)

_LOG = logging.getLogger(__name__)

BROKERS_ASK = frozenset({ALTER_PARTITION, CONTROLLED_SHUTDOWN, ALLOCATE_PRODUCER_IDS})
_QUICK = BROKERS_ASK | {API_VERSIONS}
OF_LOGINS = frozenset({API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE})
TLS_HELLO = b"\x16\x03"
"""The first bytes of a client that speaks TLS."""
_HUNG_UP: int = getattr(select, "POLLRDHUP", select.POLLHUP)
"""On systems other than Linux, only a peer that has closed both directions is noticed."""
ALLOWANCE_BYTES = 16_384
"""Bytes of requests that each connection may hold without room in the pool; only a mass submission needs more."""
WRITE_BYTES = 262_144
"""Bytes that are written to one connection in a turn if its peer reads them at once."""
PRESSED_SECONDS = 5.0
"""How long a client may read nothing of its answer while others wait for the room that the answer takes."""
SLOWEST_IN = 1_048_576
SLOWEST_OUT = 65_536
"""Bytes per second: the time allowed for a request, or for an answer, is longer by its size divided by this rate."""


def hung_up(sockets: Iterable[int]) -> list[int]:
    """Return the sockets whose peers have closed the connection, or at least their sending side."""
    poll = select.poll()
    for fd in sockets:
        poll.register(fd, _HUNG_UP)
    return [fd for fd, _ in poll.poll(0)]


class _Slot:
    """A begun request. Answers are sent in the order of the slots."""

    __slots__ = ("answer", "broker", "failure", "held", "login", "reserved", "share", "task")

    def __init__(self, held: int, share: Share, reserved: int, *, broker: bool, login: bool) -> None:
        self.held = held
        self.share = share
        self.reserved = reserved
        self.broker = broker
        self.login = login
        self.task: asyncio.Task[None] | None = None
        self.answer: Answer | None = None
        self.failure: BaseException | None = None


class Connection(asyncio.BufferedProtocol):
    """The connection to one peer."""

    def __init__(
        self, resources: SharedResources, gate: ListenerGate, fd: int, peer: str, address: str, kind: PeerKind
    ) -> None:
        self.address = address
        self.kind = kind
        self.broker: BrokerId | None = None
        self.principal = ANONYMOUS
        self.share = resources.shares.enter(address)
        self.last_active = time.monotonic()
        self._resources = resources
        self._gate = gate
        self._login = gate.login()
        self._login_began = self.last_active
        self.fd = fd
        self._host = kafkas_address(address)
        self._peer = peer
        self._transport: asyncio.Transport | None = None
        self.opened = self.last_active
        self._buffer = bytearray()
        self._reserved = 0
        """Bytes that are reserved in its share for the request that is being read."""
        self._wanted: int | None = None
        """Bytes of the next frame, size included; None while that is not known."""
        self._partial_since: float | None = None
        self._heard = False
        self._back = False
        """Whether its socket waits for its turn to be read, as clients' sockets do."""
        self._tried = False
        self._queued = False
        self._decoding = False
        """Whether a large request is being decoded: no later request may overtake it."""
        self._reading = True
        self._closed = False
        self._last_word: str | None = None
        """Why its login failed; the connection is closed after the answer."""
        self._slots: deque[_Slot] = deque()
        self._chunks: Iterator[bytes | memoryview] | None = None
        self._sending: Answer | None = None
        self._lent_to = self.share
        self._send_by = 0.0
        self._taken_at = 0.0
        """When the kernel last accepted a part of the answer."""
        self._writable = True

    @property
    def busy(self) -> bool:
        """Whether a request or an answer is under way."""
        return bool(self._slots or self._sending or self._buffer)

    @property
    def gone(self) -> bool:
        """Whether it is closed, by this process or by its peer."""
        return self._closed or bool(hung_up([self.fd]))

    @property
    def unread(self) -> int | None:
        """The socket while it is not read from, else None: only `hung_up` notices that such a socket's peer is gone."""
        return None if self._reading or self._closed else self.fd

    # Calls of the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        self._transport = cast("asyncio.Transport", transport)
        # `pause_writing` is called as soon as the kernel does not accept all bytes, so no more than that is buffered.
        tls = self._transport.get_extra_info("ssl_object")
        self._transport.set_write_buffer_limits(high=0 if tls is None else 1)
        if self._closed:
            self._transport.abort()
            return
        if tls is not None:
            # The handshake was in the second tier. The first request decides whether the connection returns to it.
            self._resources.set_forward(self.fd)
        try:
            self._be(self._gate.principal(tls))
        except FormatError as stranger:
            self.leave("login", str(stranger), logging.WARNING)

    def _be(self, principal: Principal) -> None:
        """Count the connection to a principal from now on."""
        if principal == self.principal or self._closed:
            return
        lack = self._resources.admission.become_known(self, principal, time.monotonic())
        if lack is not None:
            self._resources.turn_away(f"{self._peer} ({principal})", lack)
            self.hang_up()
            return
        self._resources.shares.leave(self.share)
        self.share = self._resources.shares.enter(str(principal))

    def connection_lost(self, _reason: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._depart()
        # A TLS transport has 256 KiB, and refers to this object. The next garbage collection may be ten minutes away.
        self._transport = None

    def get_buffer(self, _sizehint: int) -> memoryview:
        """See `asyncio.BufferedProtocol`: all connections read into one buffer, one after another."""
        if self._wanted is None or self._wanted <= ALLOWANCE_BYTES:
            return self._resources.scratch[:ALLOWANCE_BYTES]
        return self._resources.scratch[: max(1, min(READ_BYTES, self._wanted - len(self._buffer)))]

    def buffer_updated(self, count: int) -> None:
        """See `asyncio.BufferedProtocol`."""
        self._active()
        self._resources.stats.bytes_in += count
        before = self._unread()
        self._buffer += self._resources.scratch[:count]
        self._resources.pool_of(self.kind).take(self._unread() - before)
        self._go_on()

    def eof_received(self) -> None:
        """See `asyncio.Protocol`. The transport closes: a peer that sends nothing more does not wait for answers."""

    def pause_writing(self) -> None:
        """See `asyncio.Protocol`."""
        self._writable = False

    def resume_writing(self) -> None:
        """See `asyncio.Protocol`."""
        self._writable = True
        self._taken_at = time.monotonic()
        self.write_on()

    # Calls by the shared resources.

    def leave(self, reason: str, told: str, level: int = logging.INFO) -> None:
        """Close the connection, and log why."""
        if not self._closed:
            of = told if reason in {"login", "handshake"} else ""
            self._resources.stats.close(reason, f"{self._peer}: connection closed: {told}", level, of=of)
            self.hang_up()

    def hang_up(self) -> None:
        """Close the connection without a log line."""
        self._depart()
        if self._transport is None:
            return
        # asyncio never closes a TLS connection whose peer closed while this side did not read: its `eof_received`
        # begins to flush, and `close` takes that for a shutdown under way. So such a connection is aborted.
        if self._transport.get_write_buffer_size() or hung_up([self.fd]):
            self._transport.abort()
        else:
            self._transport.close()

    def room_again(self) -> None:
        """See `memory_pool.Holder`."""
        self._go_on()

    def overdue(self, now: float) -> tuple[str, str] | None:
        """Return why the connection has to be closed now, as (reason, message); None: it need not.

        If others wait for the room that answers take, a peer that does not read its answer is closed sooner.

        Args:
            now: monotonic, in seconds.
        """
        if self._closed:
            return None
        limits = self._resources.limits
        allowed = limits.peer_timeout_ms / 1000
        if self._sending is not None:
            pressed = self._resources.pressed_for(self._lent_to)
            silent = min(allowed, PRESSED_SECONDS) if pressed and self.kind is not PeerKind.BROKER else allowed
            if now > min(self._send_by, self._taken_at + silent):
                return "slow answer", f"it does not read its answer of {self._sending.size} bytes"
        if self._logging_in and now > self._login_began + allowed:
            return "login", f"it did not log in within {allowed:.0f} s"
        if self._partial_since is not None and self._reading and self._wanted is not None:
            if now > self._partial_since + allowed + self._wanted / SLOWEST_IN:
                told = f"{len(self._buffer)} of {self._wanted} bytes of a request came within {allowed:.0f} s"
                return "slow request", told
        elif self._partial_since is not None and self._reading and now > self._partial_since + allowed:
            return "slow request", f"a request's size did not come within {allowed:.0f} s"
        if self.kind is PeerKind.NEWCOMER and not self._heard and now > self.opened + ANTEROOM_SECONDS:
            return "room", f"no request within {ANTEROOM_SECONDS:.0f} s while clients have no room"
        if not self.busy and now > self.last_active + limits.connections_max_idle_ms / 1000:
            return "idle", f"idle for {now - self.last_active:.0f} s"
        return None

    # Requests.

    def _go_on(self) -> None:
        """Handle the bytes that have been read: begin a request, queue it if it has to wait, or read on."""
        while not self._closed and not self._queued and not self._decoding:
            try:
                complete = self._complete()
            except FormatError as malformed:
                self.leave("login" if self._logging_in else "malformed", str(malformed), logging.WARNING)
                return
            self._wait_in_turn(complete=complete)
            if not complete:
                self._read(wanted=not self._buffer or self._may_grow())
                return
            self._partial_since = None
            self._resources.pool_of(self.kind).done(self)
            self._read(wanted=False)
            if len(self._slots) >= (1 if self._logging_in else self._resources.limits.requests_in_flight):
                return
            api_key = int.from_bytes(self._buffer[SIZE_BYTES : SIZE_BYTES + 2], "big", signed=True)
            if self.kind is PeerKind.BROKER and api_key in BROKERS_ASK:
                self._begin(broker=True)
                continue
            if not self._let_in(api_key):
                return
            if self.kind is PeerKind.NEWCOMER and api_key in BROKERS_ASK and not self._tried:
                # It is begun at once: while it waits, other newcomers could push it out before it has proved anything.
                self._tried = True
                self._begin(broker=False)
                continue
            self._queued = True
            self._resources.queue.queue(self, quick=api_key in _QUICK)

    def take_turn(self) -> None:
        """Begin one request."""
        self._queued = False
        if not self._closed and hung_up([self.fd]):
            self.hang_up()
        if not self._closed:
            self._begin(broker=False)
            self._go_on()

    def _complete(self) -> bool:
        """Whether a whole frame has been read.

        Raises:
            FormatError: the frame's size is invalid, or the peer speaks TLS to a listener without it.
        """
        if self._wanted is None and len(self._buffer) >= SIZE_BYTES:
            longest = self._resources.limits.frame_bytes
            if self._login is not None and not self._login.done:
                longest = min(longest, self._login.frame_bytes)
            if self._buffer.startswith(TLS_HELLO) and self._gate.tls is None:
                raise FormatError("handshake", f"it speaks TLS, and listener {self._gate.name} does not")
            self._wanted = SIZE_BYTES + frame_length(self._buffer, longest, self._peer)
        if self._wanted is not None and len(self._buffer) >= self._wanted:
            return True
        if self._buffer and self._partial_since is None:
            self._partial_since = time.monotonic()
        return False

    def _may_grow(self) -> bool:
        if len(self._buffer) < ALLOWANCE_BYTES:
            return True
        if not self._reserved and self._wanted is not None and self.kind is not PeerKind.BROKER:
            if not self.share.reserve(self, self._wanted):
                return False
            self._reserved = self._wanted
        return self._resources.pool_of(self.kind).may_go_on(self)

    def _read(self, *, wanted: bool) -> None:
        if wanted != self._reading and self._transport is not None and not self._transport.is_closing():
            self._reading = wanted
            if wanted:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def _unread(self) -> int:
        """Return the bytes that count against the pool."""
        return max(0, len(self._buffer) - ALLOWANCE_BYTES)

    def _wait_in_turn(self, *, complete: bool) -> None:
        """Let a client's socket wait for its turn from now on, unless it may be a new connection of a broker.

        A broker sends its id as the client id, asks for versions first, and proves its identity by its second request.
        """
        if self.kind is not PeerKind.CLIENT or self._back or not self._buffer:
            return
        if complete and self._speaks_as_broker() and self._resources.admission.may_claim(self, time.monotonic()):
            return
        self._stand_back()

    def _stand_back(self) -> None:
        self._back = True
        self._resources.admission.stop_claiming(self)
        self._resources.set_back(self.fd)

    def _let_in(self, api_key: int) -> bool:
        """Judge a newcomer's first request: a client needs room among the clients. Return whether it may stay."""
        self._heard = True
        if self.kind is not PeerKind.NEWCOMER or api_key in BROKERS_ASK or self._speaks_as_broker():
            return True
        lack = self._resources.admission.become_client(self, time.monotonic())
        if lack is not None:
            self._resources.turn_away(self._peer, lack)
            self.hang_up()
            return False
        self._stand_back()
        return True

    def _speaks_as_broker(self) -> bool:
        if self._wanted is None:
            return False
        try:
            head = read_request_head(bytes(self._buffer[SIZE_BYTES : self._wanted]), self._peer)
        except FormatError:
            return False
        return head.client_id is not None and head.client_id in {
            str(broker) for broker in self._resources.node.view.brokers
        }

    def _begin(self, *, broker: bool) -> None:
        """Begin the request that has been read, in a new task."""
        pool = self._resources.pool_of(self.kind)
        before = self._unread()
        end = self._wanted or SIZE_BYTES
        with memoryview(self._buffer) as view:
            frame = bytes(view[SIZE_BYTES:end])
        del self._buffer[:end]
        self._wanted = None
        login = self._is_login(frame)
        slot = _Slot(max(0, len(frame) - ALLOWANCE_BYTES), self.share, self._reserved, broker=broker, login=login)
        self._reserved = 0
        pool.take(self._unread() - before + slot.held)
        self._slots.append(slot)
        self._decoding = len(frame) > DECODED_HERE_BYTES
        self._resources.queue.began(self.share, broker=broker)
        slot.task = asyncio.create_task(self._serve(frame, slot), name=f"request-{self._peer}")
        slot.task.add_done_callback(partial(self._served, slot))

    @property
    def _logging_in(self) -> bool:
        return self._login is not None and not self._login.done

    def _is_login(self, frame: bytes) -> bool:
        """Whether a request is a part of a login."""
        login = self._login
        if login is None:
            return False
        if login.begins_again(int.from_bytes(frame[:2], "big")):
            self._login_began = time.monotonic()
        return not login.done

    async def _log_in(self, frame: bytes, login: Login) -> Answer:
        """Answer a part of a login. If the login fails, the connection is closed after the answer.

        Raises:
            FormatError: the request is not a part of a login, or the login does not expect it now.
        """
        if login.raw:
            token = await login.token(frame)
            self._be(login.principal or ANONYMOUS)
            return Answer(len(token).to_bytes(SIZE_BYTES, "big") + token)
        api_key = int.from_bytes(frame[:2], "big")
        if api_key not in OF_LOGINS:
            raise FormatError("login", f"API {api_key} came where its login was expected")
        parsed = await self._resources.decode(frame, self._peer, broker=False)
        if parsed.api_key == API_VERSIONS:
            login.hear_versions()
            return await respond(self._call(parsed))
        answer = Answer(encode_response(parsed, await login.answer(parsed)))
        if login.state is LoginState.FAILED:
            self._last_word = login.failure
        self._be(login.principal or ANONYMOUS)
        return answer

    def _call(self, parsed: ParsedRequest) -> Call:
        asked = self._gate.security.authenticates
        return Call(self._resources.node, parsed, self._gate.name, self._peer, self.principal, self._host, asked)

    async def _serve(self, frame: bytes, slot: _Slot) -> None:
        began = time.perf_counter()
        try:
            if slot.login and self._login is not None:
                slot.answer = await self._log_in(frame, self._login)
                return
            if self._login is not None and self._login.expired:
                raise FormatError(self._peer, "its session is over: it has to log in again")
            parsed = await self._resources.decode(frame, self._peer, broker=slot.broker)
        except UnsupportedVersionError as unsupported:
            refusal = encode_unsupported_version(unsupported)
            if refusal is None:
                raise FormatError(self._peer, unsupported.message) from unsupported
            slot.answer = Answer(refusal)
            return
        self._recognise(parsed)
        if len(frame) > DECODED_HERE_BYTES:
            # The next request is begun in a later pass, after the handler has been called.
            self._decoding = False
            asyncio.get_running_loop().call_soon(self._go_on)
        slot.answer = await respond(self._call(parsed))
        self._resources.stats.answered(parsed.api_key, time.perf_counter() - began, str(self.principal))

    def _recognise(self, parsed: ParsedRequest) -> None:
        """Check whether a request proves that a broker sent it: by the registration's epoch, unknown to clients."""
        if self.kind is PeerKind.BROKER or self._closed or parsed.api_key not in BROKERS_ASK:
            return
        message: Any = parsed.message
        epoch = getattr(message, "broker_epoch", -1)
        view = self._resources.node.view
        broker = view.brokers.get(message.broker_id)
        # This controller's own registration proves nothing: its epoch is not secret, and it sends itself no requests.
        if broker is None or broker.id == view.controller_id or broker.epoch != epoch or epoch <= 0:
            return
        pools = self._resources.pool_of(self.kind), self._resources.pool_of(PeerKind.BROKER)
        held = self._unread() + sum(slot.held for slot in self._slots)
        self._resources.admission.become_broker(self, broker.id)
        pools[0].done(self)
        pools[0].take(-held)
        pools[1].take(held)
        self._resources.set_forward(self.fd)

    def _served(self, slot: _Slot, task: asyncio.Task[None]) -> None:
        """Finish a request whose task has ended: it is answered, or can't be."""
        self._resources.queue.ended(slot.share, broker=slot.broker)
        if self._closed:
            return
        self._resources.pool_of(self.kind).take(-slot.held)
        reserved = slot.reserved
        slot.held = slot.reserved = 0
        slot.share.release(reserved)
        if slot.answer is None:
            self._decoding = False
        slot.failure = asyncio.CancelledError() if task.cancelled() else task.exception()
        self._flush()
        self._go_on()

    # Answers.

    def _flush(self) -> None:
        """Send the answers that are ready, in the order of the requests."""
        while self._slots and self._sending is None and not self._closed:
            slot = self._slots[0]
            if slot.failure is not None:
                self._give_up(slot.failure)
                return
            if slot.answer is None:
                return
            self._slots.popleft()
            self._send(slot.answer)
            if self._last_word is not None and slot.login:
                self.leave("login", f"its login failed: {self._last_word}", logging.WARNING)

    def _send(self, answer: Answer) -> None:
        self._resources.lend(answer, self.share)
        self._sending, self._chunks, self._lent_to = answer, answer.chunks(), self.share
        allowed = self._resources.limits.peer_timeout_ms / 1000
        self._taken_at = time.monotonic()
        self._send_by = self._taken_at + allowed + answer.size / SLOWEST_OUT
        self._write()

    def write_on(self) -> None:
        """Write the next part of an answer, and the answers behind it."""
        if not self._closed:
            self._write()
            self._flush()
            self._go_on()

    def _write(self) -> None:
        written = 0
        while self._writable and self._chunks is not None and self._transport is not None and not self._closed:
            if written >= WRITE_BYTES:
                self._resources.queue.write_later(self)
                return
            chunk = next(self._chunks, None)
            if chunk is None:
                self._sent()
                self._active()
                return
            self._transport.write(chunk)
            if self._writable:
                self._taken_at = time.monotonic()
            written += len(chunk)
            self._resources.stats.bytes_out += len(chunk)

    def _sent(self) -> None:
        if self._sending is not None:
            self._resources.give_back(self._sending, self._lent_to)
            self._sending = self._chunks = None

    def _give_up(self, failure: BaseException) -> None:
        """Close the connection because a request can't be answered."""
        if isinstance(failure, FormatError):
            self.leave("login" if self._logging_in else "malformed", str(failure), logging.WARNING)
        elif isinstance(failure, DriverError):
            self.leave("unanswerable", str(failure), logging.WARNING)
        elif isinstance(failure, asyncio.CancelledError):
            self.hang_up()
        else:
            _LOG.error("%s: connection closed by a bug", self._peer, exc_info=failure)
            self.leave("bug", "a bug of ours", logging.DEBUG)

    # The end.

    def _active(self) -> None:
        self.last_active = time.monotonic()
        self._resources.admission.active(self)

    def _depart(self) -> None:
        """Free everything that the connection holds: room, reservations, tasks and places."""
        if self._closed:
            return
        self._closed = True
        pool = self._resources.pool_of(self.kind)
        pool.done(self)
        pool.take(-self._unread() - sum(slot.held for slot in self._slots))
        self._buffer.clear()
        self._sent()
        for slot in self._slots:
            if slot.task is not None:
                slot.task.cancel()
        reserved = [(slot.share, slot.reserved) for slot in self._slots] + [(self.share, self._reserved)]
        self._slots.clear()
        self.share.forget(self)
        for share, size in reserved:
            share.release(size)
        self._resources.shares.leave(self.share)
        self._resources.admission.depart(self)
        self._resources.forget(self.fd, self)
