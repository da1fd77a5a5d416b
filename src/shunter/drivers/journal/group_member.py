"""A member of a consumer group of Kafka that consumes nothing, by the requests that a consumer would send.

The coordinator keeps a member as long as it sends heartbeats, and shows the member's host and metadata to clients.
Source: KIP-394 (the member's id comes first), the classic group protocol of Kafka 2.4 to 4.1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from kafka import errors as kafka_errors
from kafka.protocol.admin import DescribeGroupsRequest
from kafka.protocol.consumer import HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest

from shunter.core.own_topics import GROUPS_TOPIC, partition_of
from shunter.drivers.admin.metadata import live_brokers

PROTOCOL_TYPE = "shunter"
PROTOCOL = "executor"
REBALANCE_MS = 10_000
"""When a member joins, members that do not join again within this time are removed."""
JOINED_WITHIN_MS = 30_000

_MOVED = (
    kafka_errors.NotCoordinatorError,
    kafka_errors.CoordinatorNotAvailableError,
    kafka_errors.CoordinatorLoadInProgressError,
)


class Member(NamedTuple):
    """A member as the coordinator shows it. `told`: its metadata; b"" while members join."""

    member_id: str
    client_id: str
    client_host: str
    told: bytes


class GroupMember:
    """One membership. Calls block; each raises kafka-python's errors."""

    def __init__(self, client: Any, group: str, told: bytes, session_ms: int) -> None:
        """Prepare; the group is not joined yet.

        Args:
            client: An Admin client of kafka-python.
            group: The group's name.
            told: The member's metadata, which the coordinator shows.
            session_ms: The coordinator removes a member that sends no heartbeat for so long.
        """
        self._client = client
        self.group = group
        self._told = told
        self._session_ms = session_ms
        self.member_id = ""
        self.generation = -1

    def _ask(self, make: Callable[[], Any], *, within_ms: int | None = None) -> Any:
        """Ask the coordinator. The caller checks the answer's error; only "not the coordinator" is handled here."""
        try:
            response = self._client._manager.run(self._send, make(), within_ms)  # noqa: SLF001
        except Exception:
            self._forget_coordinator()
            raise
        error = kafka_errors.for_code(getattr(response, "error_code", 0))
        if error in _MOVED:
            self._forget_coordinator()
            raise error(f"group {self.group}")
        return response

    def _forget_coordinator(self) -> None:
        """Ask for the coordinator again next time: the library would keep one that moved or died for ever."""
        self._client._manager.cluster._coordinators.clear()  # noqa: SLF001

    async def _send(self, request: Any, within_ms: int | None) -> Any:
        coordinator = await self._client._find_coordinator_id(self.group)  # noqa: SLF001
        return await self._client._manager.send(request, coordinator, request_timeout_ms=within_ms)  # noqa: SLF001

    def members(self) -> list[Member]:
        """Return the present members of the group."""
        return self.described()[0]

    def described(self) -> tuple[list[Member], frozenset[int] | None]:
        """Return the present members, and the codes of this client's operations on the group (None: not known)."""
        response = self._ask(lambda: DescribeGroupsRequest(groups=[self.group], include_authorized_operations=True))
        (found,) = response.groups
        error = kafka_errors.for_code(found.error_code)
        if error in _MOVED:
            self._forget_coordinator()
        if error not in (kafka_errors.NoError, kafka_errors.GroupIdNotFoundError):
            raise error(f"group {self.group}")
        members = [
            Member(each.member_id, each.client_id, each.client_host, bytes(each.member_metadata or b""))
            for each in found.members
        ]
        told = found.authorized_operations
        return members, None if told is None else frozenset(int(code) for code in told)

    def groups_partition(self) -> str:
        """Say how the partition stands from which the group's coordinator follows; asks no coordinator."""
        (found,) = self._client.describe_topics([GROUPS_TOPIC])
        if kafka_errors.for_code(found["error_code"]) is kafka_errors.UnknownTopicOrPartitionError:
            up = len(live_brokers(self._client.describe_cluster()))
            return f"topic {GROUPS_TOPIC} does not exist, and its replication factor may ask for more than {up} brokers"
        number = partition_of(self.group, len(found["partitions"]))
        part = next(each for each in found["partitions"] if each["partition_index"] == number)
        place = f"{GROUPS_TOPIC}-{number} with replicas {part['replica_nodes']}"
        if part["leader_id"] < 0:
            return f"{place} has no leader"
        return f"{place} is led by broker {part['leader_id']}, in sync are {part['isr_nodes']}"

    def join(self) -> str:
        """Join, or join again; return the leader's member id: the first member that joined and is still there."""
        response = self._join()
        if kafka_errors.for_code(response.error_code) is kafka_errors.MemberIdRequiredError:
            self.member_id = response.member_id
            response = self._join()
        self._check(response)
        self.member_id, self.generation = response.member_id, response.generation_id
        self._check(
            self._ask(
                lambda: SyncGroupRequest(
                    group_id=self.group,
                    generation_id=self.generation,
                    member_id=self.member_id,
                    assignments=[],
                    max_version=2,
                )
            )
        )
        return str(response.leader)

    def _join(self) -> Any:
        protocol = JoinGroupRequest.JoinGroupRequestProtocol(name=PROTOCOL, metadata=self._told)
        return self._ask(
            lambda: JoinGroupRequest(
                group_id=self.group,
                session_timeout_ms=self._session_ms,
                rebalance_timeout_ms=REBALANCE_MS,
                member_id=self.member_id,
                protocol_type=PROTOCOL_TYPE,
                protocols=[protocol],
                max_version=4,
            ),
            within_ms=JOINED_WITHIN_MS,
        )

    def beat(self) -> None:
        """Send a heartbeat.

        Raises:
            RebalanceInProgressError: another member joins: join again.
            UnknownMemberIdError, IllegalGenerationError: the group has removed this member.
        """
        self._check(
            self._ask(
                lambda: HeartbeatRequest(
                    group_id=self.group, generation_id=self.generation, member_id=self.member_id, max_version=2
                )
            )
        )

    def remove(self, member_id: str) -> None:
        """Remove a member, this one or another. Nothing happens if the group does not have it."""
        response = self._ask(lambda: LeaveGroupRequest(group_id=self.group, member_id=member_id, max_version=2))
        if kafka_errors.for_code(response.error_code) is not kafka_errors.UnknownMemberIdError:
            self._check(response)

    def _check(self, response: Any) -> None:
        error = kafka_errors.for_code(response.error_code)
        if error is not kafka_errors.NoError:
            raise error(f"group {self.group}")
