"""One executor per cluster, on whatever host and as whatever user: a claim in the cluster itself (decision 0207).

The claim is membership in a consumer group of Kafka that consumes nothing. The coordinator shows it to every client
that may read the group: host, user, process, start time and journal. The claim ends when the executor leaves, or sends
no heartbeat for `SESSION_MS`. The first member of the group has the claim.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from typing import Any, NamedTuple

import orjson
from kafka import errors as kafka_errors

from shunter.core.own_topics import GROUPS_TOPIC
from shunter.drivers.admin.answers import translated
from shunter.drivers.admin.client import connected
from shunter.drivers.journal.claimants import Claimant, ClusterClaimed
from shunter.drivers.journal.group_member import GroupMember, Member
from shunter.drivers.journal.journals import Presence, this_process
from shunter.errors import DriverError, FormatError
from shunter.formats.own_records import read_record
from shunter.model.notice import Notice

GROUP = "shunter-executor"
SESSION_MS = 30_000
LEAVES = 5
LEAVE_WITHIN_S = 1.0
BEAT_S = 3.0
JOINS = 10
"""Attempts to join while other members join and leave."""
JOINED_WITHIN_S = 30.0
TELL_AFTER_S = 2.0
TELL_EVERY_S = 5.0
SEEN_WITHIN_S = 10.0
THREADS = 4
CLOSE_WITHIN_S = 5.0
COORDINATOR_WITHIN_S = 20.0
"""How long requests to the group's coordinator are repeated while it is not available, or moves."""
URGENT_WITHIN_S = 3.0
"""The same for an order that ends moves: stop, rollback."""
ANSWER_WITHIN_S = 5.0
"""How long one answer is waited for at least; a join's takes as long as other members need to join again."""

_LEFT_OUT = (kafka_errors.UnknownMemberIdError, kafka_errors.IllegalGenerationError)


class ClusterClaim:
    """The claim of one process.

    Call `look` first, `clear` once the journal's lease is taken, then run `keep` as a task, and await `granted` before
    each request.
    """

    def __init__(
        self,
        client: Any,
        mine: Claimant,
        *,
        take_over: bool = False,
        required: bool = False,
        within_s: float = COORDINATOR_WITHIN_S,
        presence: Presence | None = None,
        listener: Callable[[Notice], None] = lambda _notice: None,
    ) -> None:
        """Prepare; nothing is claimed yet.

        Args:
            client: An Admin client of kafka-python that is used for the claim only.
            mine: The description of this executor, which has the lease of the named journal.
            take_over: Take the claim from another executor, dead or alive.
            required: Refuse to go on without the claim; otherwise it is claimed as soon as the coordinator answers.
            within_s: How long the coordinator is waited for.
            presence: Host and process of this executor; None: this process.
            listener: Gets a notice while the coordinator does not answer, and when it does.
        """
        self._mine = mine
        self._presence = this_process() if presence is None else presence
        self._take_over = take_over
        self._required = required
        self._within_s = within_s
        self._listener = listener
        self._client = client
        # Threads of its own: a request that hangs on a dead coordinator must not keep the journal from being written.
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="claim")
        self._member = GroupMember(self._client, GROUP, orjson.dumps(asdict(mine)), SESSION_MS)
        self._granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._heard_s, self._told_s = time.monotonic(), -1e9
        self._joins = 0
        self.unclaimed = ""
        """Why the executor goes on without a claim; empty if it has one, or has not asked for it yet."""

    @staticmethod
    async def client(configuration: Mapping[str, Any], mine: Claimant) -> Any:
        """Connect a separate client. Its name names the claimant, also where nothing else of a member is shown."""
        return await asyncio.to_thread(connected, {**configuration, "client_id": _client_id(mine)})

    async def look(self) -> None:
        """Check that no other executor has the claim, and take nothing from anybody.

        Raises:
            ClusterClaimed: a live executor drives the cluster.
            DriverError: the coordinator does not answer, or a right is missing.
        """
        await self._pass_over(remove=False)

    async def clear(self) -> None:
        """Remove claims of dead executors and of former processes of this journal, whose lease this executor has now.

        Raises:
            ClusterClaimed, DriverError: as for `look`.
        """
        if not self.unclaimed:
            await self._pass_over(remove=True)

    async def _pass_over(self, *, remove: bool) -> None:
        try:
            await self._judge_members(remove=remove)
        except DriverError as error:
            self._go_on_without(error)

    async def _judge_members(self, *, remove: bool) -> None:
        for member in await self._coordinated(self._member.members):
            holder = _claimant(member)
            if not self._take_over and not self._is_gone(holder):
                raise ClusterClaimed(_told_who(holder, member))
            if remove:
                await self._coordinated(partial(self._member.remove, member.member_id))

    def _go_on_without(self, error: DriverError) -> None:
        """Go on without the claim if the coordinator does not answer, and only then; otherwise raise the error."""
        if self._required or not error.retriable:
            raise error
        self._member.member_id = ""
        if not self.unclaimed:
            self.unclaimed = error.fact
            told = f"{error.fact}: going on without the claim, which is made as soon as the coordinator answers"
            self._listener(Notice("cluster-unclaimed", "", told))
        if not self._granted.done():
            self._granted.set_result(None)

    def _is_gone(self, holder: Claimant | None) -> bool:
        """Whether the holder can't drive: its journal's lease is held here, or it is a dead process of this host."""
        return is_ours_or_dead(holder, self._mine.journal, self._presence)

    async def _coordinated(self, work: Callable[[], Any], *, answer_within_s: float = ANSWER_WITHIN_S) -> Any:
        """Send a request to the coordinator, and repeat it while the coordinator is not available.

        While the executor goes on without the claim, each request is sent once: `keep` repeats them.
        """
        began = time.monotonic()
        until = 0.0 if self.unclaimed else began + self._within_s
        while True:
            try:
                async with asyncio.timeout(max(answer_within_s, until - time.monotonic())):
                    return await self._in_thread(work)
            except kafka_errors.GroupAuthorizationFailedError as error:
                told = f"claiming the cluster is not allowed: needs Read on Group {GROUP}"
                raise DriverError(told, retriable=False) from error
            except (*_LEFT_OUT, kafka_errors.RebalanceInProgressError):
                raise
            except Exception as error:
                failed = translated(f"claiming the cluster (group {GROUP})", f"Read on Group {GROUP}", error)
                if not failed.retriable or time.monotonic() >= until:
                    why = await self._why_silent() if failed.retriable and not self.unclaimed else ""
                    raise DriverError(f"{failed}{why}", retriable=failed.retriable, flags=self._way_out) from error
                if time.monotonic() >= max(began + TELL_AFTER_S, self._told_s + TELL_EVERY_S):
                    await self._tell_wait(until)
            await asyncio.sleep(0.5)

    @property
    def _way_out(self) -> str:
        told = ": its coordinator has to answer, or say --take-over-cluster to go on without a claim"
        return told if self._required else ""

    async def _in_thread(self, work: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def _tell_wait(self, until: float) -> None:
        """Say why the coordinator does not answer, and how long it is waited for."""
        self._told_s = time.monotonic()
        why, left_s = await self._why_silent(), max(0.0, until - time.monotonic())
        told = f"the coordinator of group {GROUP}, by which executors claim a cluster, does not answer{why}"
        self._listener(Notice("cluster-claim-waits", "", f"{told}; waiting {left_s:.0f} s more at most"))

    async def _why_silent(self) -> str:
        """Say how the topic of groups stands; "": it can't be found out."""
        with suppress(Exception):
            async with asyncio.timeout(ANSWER_WITHIN_S):
                return f" ({await self._in_thread(self._member.groups_partition)})"
        return ""

    async def keep(self) -> None:
        """Join the group and send heartbeats until cancelled. If the claim is lost, this call and `granted` raise."""
        try:
            while True:
                try:
                    await self._keep_once()
                except DriverError as error:
                    self._go_on_without(error)
                await asyncio.sleep(BEAT_S)
        except DriverError as error:
            self._lose(error)
            raise
        except Exception as error:
            lost = translated("claiming the cluster", f"Read on Group {GROUP}", error)
            self._lose(lost)
            raise lost from error

    async def _keep_once(self) -> None:
        if self.unclaimed:
            await self._claim_late()
        elif not self._joins:
            await self._join()
        else:
            await self._beat()

    async def _claim_late(self) -> None:
        """Claim the cluster once the coordinator answers; if another executor has claimed it, this one has to end."""
        await self._judge_members(remove=True)
        await self._join()
        self.unclaimed = ""
        self._listener(Notice("cluster-claimed", "", f"the coordinator of group {GROUP} answers: the claim is made"))

    def _lose(self, error: DriverError) -> None:
        if self._granted.done():
            self._granted = asyncio.get_running_loop().create_future()
        self._granted.set_exception(error)
        self._granted.exception()  # Marks the error as retrieved: it is no bug if no caller awaits `granted`.

    async def _join(self) -> None:
        leader = await self._joined()
        if leader != self._member.member_id:
            others = await self._coordinated(self._member.members)
            first = next((each for each in others if each.member_id == leader), None)
            raise ClusterClaimed(_told_who(None if first is None else _claimant(first), first))
        self._heard_s = time.monotonic()
        self._joins += 1
        if not self._granted.done():
            self._granted.set_result(None)

    async def _joined(self) -> str:
        """Join; repeat it if others join at the same time, or if this member was removed meanwhile."""
        for _attempt in range(JOINS):
            try:
                return str(await self._coordinated(self._member.join, answer_within_s=JOINED_WITHIN_S))
            except kafka_errors.RebalanceInProgressError:
                pass
            except _LEFT_OUT:
                self._member.member_id = ""
        raise DriverError(f"group {GROUP} does not come to rest: executors come and go", retriable=True)

    async def _beat(self) -> None:
        try:
            await self._in_thread(self._member.beat)
            self._heard_s = time.monotonic()
        except kafka_errors.RebalanceInProgressError:
            await self._join()
        except _LEFT_OUT:
            await self._claim_again()
        except (kafka_errors.KafkaError, OSError, RuntimeError):
            pass  # A coordinator that moves or does not answer does not take the claim away. The next beat asks again.

    async def _claim_again(self) -> None:
        """Claim again after the group removed this member: it stood still, or another executor took over."""
        others = await self._coordinated(self._member.members)
        if others:
            raise ClusterClaimed(_told_who(_claimant(others[0]), others[0]), lost=True)
        self._member.member_id = ""
        await self._join()

    async def granted(self) -> None:
        """Wait until this executor has the claim.

        Raises:
            DriverError: another executor has the claim, or the coordinator does not grant it.
        """
        if self._is_granted() and not self.unclaimed and time.monotonic() - self._heard_s > SESSION_MS / 2000:
            await self._still_ours()
        await asyncio.shield(self._granted)

    def unheard_ms(self) -> int:
        """For how long the coordinator has not confirmed the claim; since the start, if it never did."""
        return round((time.monotonic() - self._heard_s) * 1000)

    def _is_granted(self) -> bool:
        return self._granted.done() and self._granted.exception() is None

    async def _still_ours(self) -> None:
        """Ask the coordinator at once: after a long pause of this process, another executor may have the claim.

        If the group has removed this member, nothing is granted any more until `keep` finds the same with its next
        heartbeat, and has either claimed again, where no other executor has, or lost the claim.
        """
        joins = self._joins
        try:
            await self._in_thread(self._member.beat)
            self._heard_s = time.monotonic()
        except _LEFT_OUT:
            if joins == self._joins and self._is_granted():
                self._granted = asyncio.get_running_loop().create_future()
        except (kafka_errors.KafkaError, OSError, RuntimeError):
            pass  # If the cluster can't be reached, no request can be sent to it either.

    async def leave(self) -> None:
        """Give the claim back, so that the next executor need not wait."""
        for _attempt in range(LEAVES):
            if not self._member.member_id or await self._left():
                break
            await asyncio.sleep(0.3)  # The claim would expire by itself, but the next executor would have to wait.
        closing = threading.Thread(target=self._client.close, daemon=True)
        closing.start()
        await asyncio.to_thread(closing.join, CLOSE_WITHIN_S)
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _left(self) -> bool:
        """Leave; return whether that succeeded, because the coordinator may just be moving."""
        try:
            async with asyncio.timeout(LEAVE_WITHIN_S):
                await self._in_thread(partial(self._member.remove, self._member.member_id))
        except (TimeoutError, kafka_errors.KafkaError, OSError, RuntimeError):
            return False
        return True


def is_ours_or_dead(holder: Claimant | None, journal: str, presence: Presence) -> bool:
    """Whether a claim is of this journal (whose lease decides), or of a dead process of this host."""
    if holder is None:
        return False
    return holder.journal == journal or (holder.host == presence.host and not presence.alive(holder.process))


class SeenClaim(NamedTuple):
    """The executor that drives a cluster, in words ("": none), and this client's rights on the group, if known."""

    claimant: str = ""
    operations: frozenset[int] | None = None


def claim_seen_by(client: Any, journal: str, presence: Presence) -> SeenClaim:
    """Return which executor drives a cluster under another journal. Blocks; raises kafka-python's errors.

    Nothing is changed. That is why the topic of groups is checked first: asking for a coordinator would create it.
    """
    (groups,) = client.describe_topics([GROUPS_TOPIC])
    if kafka_errors.for_code(groups["error_code"]) is kafka_errors.UnknownTopicOrPartitionError:
        return SeenClaim()
    found, operations = GroupMember(client, GROUP, b"", SESSION_MS).described()
    others = [each for each in found if not is_ours_or_dead(_claimant(each), journal, presence)]
    return SeenClaim(_told_who(_claimant(others[0]), others[0]) if others else "", operations)


async def see_claim(configuration: Mapping[str, Any], journal: str) -> SeenClaim:
    """Find out which executor drives a cluster under another journal, by a separate client.

    Args:
        configuration: Of an Admin client.
        journal: This executor's, as claims name it.

    Raises:
        DriverError: the coordinator does not answer within `SEEN_WITHIN_S`, or a right is missing.
    """
    client = await asyncio.to_thread(connected, {**configuration})
    try:
        async with asyncio.timeout(SEEN_WITHIN_S):
            return await asyncio.to_thread(claim_seen_by, client, journal, this_process())
    except TimeoutError as error:
        told = f"looking for the claim: the coordinator of group {GROUP} did not answer within {SEEN_WITHIN_S:.0f} s"
        raise DriverError(told, retriable=True) from error
    except Exception as error:
        raise translated(f"looking for the claim (group {GROUP})", f"Describe on Group {GROUP}", error) from error
    finally:
        await asyncio.to_thread(client.close)


def _client_id(claimant: Claimant) -> str:
    """Return the client id of a claim's connection. It is shown even while members join, when nothing else is."""
    return "|".join((GROUP, claimant.user, claimant.host, str(claimant.process)))


def _claimant(member: Member) -> Claimant | None:
    """Return a member's own description; if that is not shown, what its client id says."""
    try:
        return read_record(Claimant, member.told, member.client_id)
    except FormatError:
        named = member.client_id.split("|")
    if len(named) != 4 or not named[3].isdigit():  # As `_client_id` makes it.
        return None
    return Claimant(named[1], named[2], int(named[3]), 0, "")


def _told_who(holder: Claimant | None, member: Member | None) -> str:
    where = "another executor" if member is None else f"{member.client_id} at {member.client_host.lstrip('/')}"
    return where if holder is None else f"{holder}, at {member.client_host.lstrip('/')}" if member else str(holder)
