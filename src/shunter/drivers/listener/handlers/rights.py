"""The rights that a sender needs before a request is answered or relayed: one table for all APIs.

Source: Apache 3.9, `KafkaApis`, `AclApis`, `ConfigHelper`. Requests that need rights on single topics, groups or
settings are judged by their handlers. `EACH` describes these rights; the table in docs/security.md is rendered from
`CLUSTER_RIGHTS` and `EACH`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from kio.index import load_request_schema

from shunter.drivers.listener.handlers.context import Call
from shunter.errors import ErrorCode, FormatError
from shunter.model.security.acl import CLUSTER, AclResource, Operation, ResourceType
from shunter.model.settings import WireLimits
from shunter.wire import requests
from shunter.wire.alter_partition import ALTER_PARTITION
from shunter.wire.framing import read_request_head
from shunter.wire.guard import look_over
from shunter.wire.reassignments import ALTER_PARTITION_REASSIGNMENTS, LIST_PARTITION_REASSIGNMENTS

INIT_PRODUCER_ID: Final = 22
DESCRIBE_ACLS, CREATE_ACLS, DELETE_ACLS = 29, 30, 31
DESCRIBE_CLIENT_QUOTAS, ALTER_CLIENT_QUOTAS, DESCRIBE_USER_SCRAM_CREDENTIALS = 48, 49, 50
TOKENS: Final = frozenset({38, 39, 40, 41})
"""APIs of delegation tokens. A token belongs to the principal that asks; if relayed, that would be Shunter."""
LONGEST_ARRAY: Final = WireLimits().array_length

CLUSTER_RIGHTS: Final[Mapping[int, Operation]] = {
    requests.CONTROLLED_SHUTDOWN: Operation.CLUSTER_ACTION,
    ALTER_PARTITION: Operation.CLUSTER_ACTION,
    requests.ALLOCATE_PRODUCER_IDS: Operation.CLUSTER_ACTION,
    ALTER_PARTITION_REASSIGNMENTS: Operation.ALTER,
    LIST_PARTITION_REASSIGNMENTS: Operation.DESCRIBE,
    requests.ELECT_LEADERS: Operation.ALTER,
    requests.ALTER_USER_SCRAM_CREDENTIALS: Operation.ALTER,
    requests.UPDATE_FEATURES: Operation.ALTER,
    requests.ALTER_REPLICA_LOG_DIRS: Operation.ALTER,
    requests.DESCRIBE_LOG_DIRS: Operation.DESCRIBE,
    DESCRIBE_ACLS: Operation.DESCRIBE,
    CREATE_ACLS: Operation.ALTER,
    DELETE_ACLS: Operation.ALTER,
    DESCRIBE_CLIENT_QUOTAS: Operation.DESCRIBE_CONFIGS,
    ALTER_CLIENT_QUOTAS: Operation.ALTER_CONFIGS,
    DESCRIBE_USER_SCRAM_CREDENTIALS: Operation.DESCRIBE,
}
"""API -> the operation that the sender of a request must be allowed on the cluster."""

EACH: Final[Mapping[int, str]] = {
    requests.METADATA: "Describe on each topic (others are left out, or told as not authorized); Create on Cluster or"
    " topic to have one made",
    requests.FIND_COORDINATOR: "Describe on each Group or TransactionalId",
    requests.LIST_GROUPS: "none: the controller coordinates no group",
    requests.SASL_HANDSHAKE: "none",
    requests.API_VERSIONS: "none",
    requests.SASL_AUTHENTICATE: "none",
    requests.CREATE_TOPICS: "Create on Cluster or each topic; DescribeConfigs on a topic to be told its settings",
    requests.DELETE_TOPICS: "Delete on each topic; Describe to be told the name of an id",
    requests.DESCRIBE_CONFIGS: "DescribeConfigs on each topic; on Cluster for brokers",
    requests.ALTER_CONFIGS: "AlterConfigs on each topic; on Cluster for brokers",
    requests.CREATE_PARTITIONS: "Alter on each topic",
    requests.INCREMENTAL_ALTER_CONFIGS: "AlterConfigs on each topic; on Cluster for brokers",
    requests.DESCRIBE_CLUSTER: "none; Describe on Cluster to be told the authorized operations",
    requests.LIST_TRANSACTIONS: "none: the controller coordinates no transaction",
    INIT_PRODUCER_ID: "Write on the TransactionalId; else IdempotentWrite on Cluster, or Write on any topic",
}
"""API -> the rights that its handler checks, in words."""


def missing_right(call: Call) -> ErrorCode | None:
    """Return the error that a whole request is refused with; None if the request is answered."""
    operation = CLUSTER_RIGHTS.get(call.parsed.api_key)
    if operation is None or call.allows(operation, CLUSTER):
        return None
    return ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def why_not_passed_on(call: Call) -> ErrorCode | None:
    """Return why a request is not relayed under Shunter's identity; None if its sender may ask a broker the same.

    Raises:
        FormatError: the request can't be read.
    """
    api_key = call.parsed.api_key
    if api_key in TOKENS and call.guarded:
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    if call.unlimited:
        return None
    judge = _JUDGES.get(api_key)
    if judge is not None:
        return judge(call)
    # Requests in the table were judged by `missing_right` before. Other requests can't be judged, so they are refused.
    return None if api_key in CLUSTER_RIGHTS else ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def _init_producer_id(call: Call) -> ErrorCode | None:
    transactional_id = decoded(call).transactional_id
    if transactional_id is not None:
        known = AclResource(ResourceType.TRANSACTIONAL_ID, transactional_id)
        return None if call.allows(Operation.WRITE, known) else ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if call.allows(Operation.IDEMPOTENT_WRITE, CLUSTER, told=False):
        return None
    if call.node.authorizer.allows_any(call.requester, Operation.WRITE, ResourceType.TOPIC):
        return None
    call.deny(Operation.IDEMPOTENT_WRITE, CLUSTER)
    return ErrorCode.CLUSTER_AUTHORIZATION_FAILED


_JUDGES: Final[Mapping[int, Callable[[Call], ErrorCode | None]]] = {INIT_PRODUCER_ID: _init_producer_id}
JUDGED_BEFORE_PASSED_ON: Final = frozenset(_JUDGES)
"""APIs that are judged by rules of their own before they are relayed."""


def decoded(call: Call) -> Any:
    """Decode a request of an API that is relayed, in order to judge or to refuse it.

    Raises:
        FormatError: the request can't be read.
    """
    parsed = call.parsed
    head = read_request_head(parsed.frame, call.peer)
    if head.body_offset is None:
        raise FormatError(call.peer, f"version {parsed.version} of API {parsed.api_key} is unknown")
    schema = load_request_schema(parsed.api_key, parsed.version)
    body, start = look_over(schema, parsed.frame, head.body_offset, LONGEST_ARRAY, call.peer)
    try:
        message, _ = requests.reader_of(schema)(body, start)
    except Exception as error:  # kio raises errors of many kinds for bytes that it can't read
        raise FormatError(call.peer, f"API {parsed.api_key} can't be read: {error}") from error
    return message
