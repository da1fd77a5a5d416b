"""Requests that wait: for an answer of the core (each is posted with a token), or for ZooKeeper."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from shunter.core.controller.events import Event, ReplyToken
from shunter.core.controller.ready import RefusedReply, Reply
from shunter.errors import ErrorCode, RequestRejected


class Callers:
    """Waiting callers by token.

    A caller that gave up (its connection closed, or it timed out) leaves no trace, and a reply to it is dropped. Its
    request is still carried out, as in Kafka.
    """

    def __init__(self, post: Callable[[Event, str | None], None]) -> None:
        self._post = post
        self._waiting: dict[ReplyToken, asyncio.Future[Reply]] = {}
        self._deadlines: dict[asyncio.Timeout, RequestRejected] = {}
        """Deadlines of the callers that are attended, and what each caller is told when its deadline is over."""
        self._last: ReplyToken = 0
        self.asked: dict[str, Event] = {}
        """Events of the waiting callers, by cause."""
        self.refuse: Callable[[Event], str | None] = lambda _: None
        """Returns why an event may not be posted; None: it may be posted."""
        self.bugs = 0
        """Number of requests that were refused because their handler met a bug."""

    def __len__(self) -> int:
        return len(self._waiting)

    @asynccontextmanager
    async def attended(self, timeout_s: float) -> AsyncIterator[None]:
        """Bound a caller's wait, whatever it waits for: ZooKeeper's client repeats a read until it is answered.

        Raises:
            RequestRejected: REQUEST_TIMED_OUT after `timeout_s`; NOT_CONTROLLER as soon as the controller resigns.
        """
        deadline = asyncio.timeout(timeout_s)
        told = f"not answered within {timeout_s:g} s; the change may still be made, or be made already"
        self._deadlines[deadline] = RequestRejected(ErrorCode.REQUEST_TIMED_OUT, told)
        try:
            async with deadline:
                yield
        except TimeoutError:
            if not deadline.expired():
                raise
            raise self._deadlines[deadline] from None
        finally:
            del self._deadlines[deadline]

    async def submit(
        self, make_event: Callable[[ReplyToken], Event], timeout_ms: int, origin: str | None = None
    ) -> Reply:
        """Post an event and wait for the reply to it. `origin` describes the request's sender for people.

        Raises:
            RequestRejected: the core refuses the request, or it met a bug; REQUEST_TIMED_OUT after `timeout_ms`,
                NOT_CONTROLLER if the controller resigned meanwhile.
        """
        self._last += 1
        token = self._last
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._waiting[token] = future
        cause = ""
        try:
            event = make_event(token)
            why = self.refuse(event)
            if why is not None:
                raise RequestRejected(ErrorCode.UNKNOWN_SERVER_ERROR, why)
            cause = f"{type(event).__name__}#{token}" + ("" if origin is None else f", {origin}")
            self.asked[cause] = event
            self._post(event, cause)
            async with asyncio.timeout(timeout_ms / 1000):
                reply = await future
        except TimeoutError:
            told = f"not done within the {timeout_ms} ms that the request allows; it goes on"
            raise RequestRejected(ErrorCode.REQUEST_TIMED_OUT, told) from None
        finally:
            del self._waiting[token]
            self.asked.pop(cause, None)
        if isinstance(reply, RefusedReply):
            raise RequestRejected(reply.error, reply.message)
        return reply

    def resolve(self, token: ReplyToken, reply: Reply) -> None:
        """Hand a reply to the caller that waits for it, if it still waits."""
        future = self._waiting.get(token)
        if future is not None and not future.done():
            future.set_result(reply)

    def fail_all(self, error: ErrorCode, message: str) -> None:
        """Refuse all waiting callers: after a resignation, no request may be answered as the controller."""
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(RequestRejected(error, message))
        # After the futures: a handler that waits for the core gets to know, and can make its own answer.
        now_s = asyncio.get_running_loop().time() if self._deadlines else 0.0
        for deadline in self._deadlines:
            if not deadline.expired():
                self._deadlines[deadline] = RequestRejected(error, message)
                deadline.reschedule(now_s)
