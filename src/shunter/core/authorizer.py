"""Authorization by the ACLs of a cluster: the rules of Apache's `AclAuthorizer`.

Super users may do everything. Otherwise the ACLs of the resource itself, of `*` and of every prefix of its name count
together: one that denies is stronger than any that allows. A test compares each answer with that of Apache's own class.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import Final, NamedTuple, Protocol, TypeAlias

from shunter.model.security.acl import (
    ANY_HOST,
    ANY_NAME,
    ANY_PRINCIPAL,
    Acl,
    AclResource,
    Operation,
    Permission,
    ResourcePattern,
    ResourceType,
)
from shunter.model.security.principal import Principal

Network: TypeAlias = IPv4Network | IPv6Network

_IMPLIED_BY: Final[Mapping[Operation, tuple[Operation, ...]]] = {
    Operation.DESCRIBE: (
        Operation.DESCRIBE,
        Operation.READ,
        Operation.WRITE,
        Operation.DELETE,
        Operation.ALTER,
    ),
    Operation.DESCRIBE_CONFIGS: (Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS),
}
"""By operation: to allow one of these allows the operation, too. To deny one of these does not deny the operation."""

SUPPORTED: Final[Mapping[ResourceType, tuple[Operation, ...]]] = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (Operation.READ, Operation.DELETE, Operation.DESCRIBE),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
    ResourceType.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE),
    ResourceType.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    ResourceType.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}
"""The operations on each type of resource. Source: Apache's `AclEntry.supportedOperations`."""

CHANGES: Final = frozenset(
    {Operation.CREATE, Operation.DELETE, Operation.ALTER, Operation.ALTER_CONFIGS, Operation.WRITE}
)
"""Operations of administrators."""


class Requester(NamedTuple):
    """The principal that asks, and its address."""

    principal: Principal
    host: str


class Authorizer(Protocol):
    """Decides whether a requester may do something."""

    def allows(self, asker: Requester, operation: Operation, resource: AclResource) -> bool:
        """Whether a requester may do an operation on a resource."""
        ...

    def allows_any(self, asker: Requester, operation: Operation, kind: ResourceType) -> bool:
        """Whether a requester may do an operation on any resource of a type that there may be."""
        ...

    def unlimited(self, asker: Requester) -> bool:
        """Whether a requester may do everything with every resource: then no single resource need be checked."""
        ...


def authorized_operations(authorizer: Authorizer, asker: Requester, resource: AclResource) -> int:
    """The operations that a requester may do on a resource, as the bits of Kafka's answers."""
    supported = SUPPORTED[resource.type]
    return sum(1 << operation for operation in supported if authorizer.allows(asker, operation, resource))


class AclAuthorizer:
    """Knows the ACLs of a cluster. While they are `unknown`, only super users may do anything.

    Args:
        super_users: may do everything.
        everyone_if_no_acl: whether everybody may use a resource without ACLs (`allow.everyone.if.no.acl.found`).
    """

    def __init__(self, super_users: Iterable[Principal] = (), *, everyone_if_no_acl: bool = False) -> None:
        self.unknown = False
        self.version = 0
        """Grows with every change that may change an answer."""
        self._super_users = frozenset(super_users)
        self._everyone_if_no_acl = everyone_if_no_acl
        self._literal: dict[AclResource, frozenset[Acl]] = {}
        self._prefixed: dict[AclResource, frozenset[Acl]] = {}
        self._lengths: tuple[int, ...] | None = ()
        """The lengths of the prefixes, each once, ascending; None: not known since the last change."""

    def replace(self, acls: Mapping[ResourcePattern, Iterable[Acl]]) -> None:
        """Replace all ACLs by these."""
        self._literal.clear()
        self._prefixed.clear()
        self._lengths = None
        for pattern, entries in acls.items():
            self.update(pattern, entries)
        self.unknown = False
        self.version += 1

    def update(self, pattern: ResourcePattern, acls: Iterable[Acl]) -> None:
        """Replace the ACLs of a pattern by these; none: the pattern has no ACLs any more."""
        of = self._prefixed if pattern.prefixed else self._literal
        entries = frozenset(acls)
        if entries:
            of[AclResource(pattern.type, pattern.name)] = entries
        else:
            of.pop(AclResource(pattern.type, pattern.name), None)
        if pattern.prefixed:
            self._lengths = None
        self.version += 1

    def unlimited(self, asker: Requester) -> bool:
        """See `Authorizer`."""
        return asker.principal in self._super_users

    def allows(self, asker: Requester, operation: Operation, resource: AclResource) -> bool:
        """See `Authorizer`. Cost: O(different lengths of prefixes + ACLs of matching patterns)."""
        if self.unlimited(asker):
            return True
        if self.unknown:
            return False
        found = [acl for acls in self._matching(resource) for acl in acls]
        if not found:
            return self._everyone_if_no_acl
        if any(_applies(acl, asker, operation, Permission.DENY) for acl in found):
            return False
        implying = _IMPLIED_BY.get(operation, (operation,))
        return any(_applies(acl, asker, one, Permission.ALLOW) for one in implying for acl in found)

    def allows_any(self, asker: Requester, operation: Operation, kind: ResourceType) -> bool:
        """See `Authorizer`. ACLs for an operation that implies this one do not count, as in Apache. Cost: O(ACLs)."""
        if self.unlimited(asker):
            return True
        if self.unknown:
            return False
        denied = self._names(asker, operation, kind, Permission.DENY)
        if ANY_NAME in denied.literal:
            return False
        if self._everyone_if_no_acl:
            return True
        allowed = self._names(asker, operation, kind, Permission.ALLOW)
        return any(not denied.below_a_prefix(prefix) for prefix in allowed.prefixed) or any(
            name == ANY_NAME or (name not in denied.literal and not denied.below_a_prefix(name))
            for name in allowed.literal
        )

    def _matching(self, resource: AclResource) -> Iterator[frozenset[Acl]]:
        kind, name = resource
        for pattern in dict.fromkeys((resource, AclResource(kind, ANY_NAME))):
            if pattern in self._literal:
                yield self._literal[pattern]
        if self._lengths is None:
            self._lengths = tuple(sorted({len(prefix.name) for prefix in self._prefixed}))
        for length in self._lengths:
            if length > len(name):
                break
            acls = self._prefixed.get(AclResource(kind, name[:length]))
            if acls is not None:
                yield acls

    def _names(self, asker: Requester, operation: Operation, kind: ResourceType, permission: Permission) -> _Names:
        def named(of: Mapping[AclResource, frozenset[Acl]]) -> frozenset[str]:
            return frozenset(
                resource.name
                for resource, acls in of.items()
                if resource.type is kind and any(_applies(acl, asker, operation, permission) for acl in acls)
            )

        return _Names(named(self._literal), named(self._prefixed))


class _Names(NamedTuple):
    literal: frozenset[str]
    prefixed: frozenset[str]

    def below_a_prefix(self, name: str) -> bool:
        return any(name[:length] in self.prefixed for length in range(1, len(name) + 1))


def _applies(acl: Acl, asker: Requester, operation: Operation, permission: Permission) -> bool:
    return (
        acl.permission is permission
        and (acl.operation is operation or acl.operation is Operation.ALL)
        and acl.principal in {asker.principal, ANY_PRINCIPAL}
        and acl.host in {asker.host, ANY_HOST}
    )


@dataclass(frozen=True, slots=True)
class NetworkAuthorizer:
    """For clusters without ACLs: addresses that may act as brokers, and that may administer. Empty: every address."""

    cluster_actions: tuple[Network, ...] = ()
    administration: tuple[Network, ...] = ()

    def allows(self, asker: Requester, operation: Operation, resource: AclResource) -> bool:  # noqa: ARG002 - see `Authorizer`
        """See `Authorizer`. Every client that reaches the controller may describe."""
        if operation is Operation.CLUSTER_ACTION:
            return _within(asker.host, self.cluster_actions)
        return operation not in CHANGES or _within(asker.host, self.administration)

    def allows_any(self, asker: Requester, operation: Operation, kind: ResourceType) -> bool:
        """See `Authorizer`."""
        return self.allows(asker, operation, AclResource(kind, ANY_NAME))

    def unlimited(self, asker: Requester) -> bool:
        """See `Authorizer`."""
        return _within(asker.host, self.cluster_actions) and _within(asker.host, self.administration)


def _within(host: str, networks: tuple[Network, ...]) -> bool:
    if not networks:
        return True
    address = ip_address(host.partition("%")[0])
    return any(address in network for network in networks)
