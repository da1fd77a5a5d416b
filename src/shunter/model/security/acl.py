"""Permissions as Kafka keeps them: which principal may do what with which resource, from which host.

Numbers and names are those of Kafka's protocol (`AclOperation`, `AclPermissionType`, `ResourceType`).
"""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import NamedTuple

from shunter.model.security.principal import USER, Principal


class ResourceType(Enum):
    """The types of resources that can be protected, by their names in ZooKeeper."""

    TOPIC = "Topic"
    GROUP = "Group"
    CLUSTER = "Cluster"
    TRANSACTIONAL_ID = "TransactionalId"
    DELEGATION_TOKEN = "DelegationToken"  # noqa: S105 - a kind of resource
    USER = "User"


class Operation(IntEnum):
    """The operations; the number is also the bit in `authorized operations`."""

    UNKNOWN = 0
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14


class Permission(IntEnum):
    """Whether an ACL allows or denies."""

    UNKNOWN = 0
    DENY = 2
    ALLOW = 3


class AclResource(NamedTuple):
    """The resource of a request."""

    type: ResourceType
    name: str


class ResourcePattern(NamedTuple):
    """The resources that ACLs are for: one, those whose names begin with `name` (`prefixed`), or all (`*`)."""

    type: ResourceType
    name: str
    prefixed: bool = False


class Acl(NamedTuple):
    """One permission."""

    principal: Principal
    host: str
    operation: Operation
    permission: Permission


ANY_NAME = "*"
ANY_HOST = "*"
ANY_PRINCIPAL = Principal(USER, "*")
CLUSTER = AclResource(ResourceType.CLUSTER, "kafka-cluster")
DENY_ALL = Acl(ANY_PRINCIPAL, ANY_HOST, Operation.ALL, Permission.DENY)


def topic(name: str) -> AclResource:
    """A topic as a resource."""
    return AclResource(ResourceType.TOPIC, name)
