"""Permissions, rule by rule; tests/real holds random worlds of them against Apache's own class."""

from ipaddress import ip_network

import pytest

from shunter.core.authorizer import AclAuthorizer, NetworkAuthorizer, Requester, authorized_operations
from shunter.model.security.acl import (
    ANY_PRINCIPAL,
    CLUSTER,
    Acl,
    AclResource,
    Operation,
    Permission,
    ResourcePattern,
    ResourceType,
    topic,
)
from shunter.model.security.principal import ANONYMOUS, Principal

ANN = Requester(Principal("User", "ann"), "10.0.0.1")
ROOT = Requester(Principal("User", "root"), "10.0.0.1")
T = ResourcePattern(ResourceType.TOPIC, "orders")


def acl(operation, permission=Permission.ALLOW, *, principal=ANN.principal, host="*"):
    return Acl(principal, host, operation, permission)


def knowing(acls, **more):
    authorizer = AclAuthorizer([ROOT.principal], **more)
    authorizer.replace(acls)
    return authorizer


def test_nobody_may_do_what_no_acl_allows_but_super_users():
    authorizer = knowing({})
    assert not authorizer.allows(ANN, Operation.DESCRIBE, CLUSTER)
    assert authorizer.allows(ROOT, Operation.CLUSTER_ACTION, CLUSTER)
    assert authorizer.unlimited(ROOT)
    assert not authorizer.unlimited(ANN)


def test_everybody_may_do_what_no_acl_is_for_where_that_is_set():
    authorizer = knowing({T: [acl(Operation.READ)]}, everyone_if_no_acl=True)
    assert authorizer.allows(ANN, Operation.ALTER, topic("other"))
    assert not authorizer.allows(ANN, Operation.ALTER, topic("orders"))


@pytest.mark.parametrize("operation", [Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER])
def test_who_may_use_it_may_describe_it(operation):
    authorizer = knowing({T: [acl(operation)]})
    assert authorizer.allows(ANN, Operation.DESCRIBE, topic("orders"))
    assert not authorizer.allows(ANN, Operation.DESCRIBE_CONFIGS, topic("orders"))


def test_who_may_alter_settings_may_read_them():
    authorizer = knowing({T: [acl(Operation.ALTER_CONFIGS)]})
    assert authorizer.allows(ANN, Operation.DESCRIBE_CONFIGS, topic("orders"))
    assert not authorizer.allows(ANN, Operation.DESCRIBE, topic("orders"))


def test_to_deny_is_stronger_wherever_it_stands():
    for pattern in (T, ResourcePattern(ResourceType.TOPIC, "*"), ResourcePattern(ResourceType.TOPIC, "ord", True)):
        denied = {pattern: [acl(Operation.ALL, Permission.DENY, principal=ANY_PRINCIPAL)]}
        allowed = {ResourcePattern(ResourceType.TOPIC, "order", True): [acl(Operation.ALL)]}
        authorizer = knowing({**allowed, **denied})
        assert not authorizer.allows(ANN, Operation.READ, topic("orders"))
        authorizer.update(pattern, ())
        assert authorizer.allows(ANN, Operation.READ, topic("orders"))


def test_a_host_and_a_kind_of_principal_count():
    authorizer = knowing({T: [acl(Operation.READ, host="10.0.0.1")]})
    assert authorizer.allows(ANN, Operation.READ, topic("orders"))
    assert not authorizer.allows(ANN._replace(host="10.0.0.2"), Operation.READ, topic("orders"))
    assert not authorizer.allows(Requester(Principal("Group", "ann"), "10.0.0.1"), Operation.READ, topic("orders"))


def test_any_topic_will_do():
    prefix = ResourcePattern(ResourceType.TOPIC, "or", True)
    authorizer = knowing({prefix: [acl(Operation.WRITE)]})
    assert authorizer.allows_any(ANN, Operation.WRITE, ResourceType.TOPIC)
    assert not authorizer.allows_any(ANN, Operation.WRITE, ResourceType.GROUP)
    authorizer.update(ResourcePattern(ResourceType.TOPIC, "o", True), [acl(Operation.WRITE, Permission.DENY)])
    assert not authorizer.allows_any(ANN, Operation.WRITE, ResourceType.TOPIC)
    authorizer.update(T, [acl(Operation.WRITE)])
    assert not authorizer.allows_any(ANN, Operation.WRITE, ResourceType.TOPIC), "its name begins with what is denied"
    authorizer.update(ResourcePattern(ResourceType.TOPIC, "*"), [acl(Operation.WRITE)])
    assert authorizer.allows_any(ANN, Operation.WRITE, ResourceType.TOPIC)
    assert authorizer.allows_any(ROOT, Operation.WRITE, ResourceType.TOPIC)


def test_while_permissions_are_unknown_nobody_may_do_anything_but_super_users():
    authorizer = AclAuthorizer([ROOT.principal], everyone_if_no_acl=True)
    authorizer.unknown = True
    assert not authorizer.allows(ANN, Operation.DESCRIBE, CLUSTER)
    assert not authorizer.allows_any(ANN, Operation.WRITE, ResourceType.TOPIC)
    assert authorizer.allows(ROOT, Operation.DESCRIBE, CLUSTER)
    authorizer.replace({})
    assert authorizer.allows(ANN, Operation.DESCRIBE, CLUSTER)


def test_authorized_operations_are_bits():
    authorizer = knowing({T: [acl(Operation.READ)]})
    assert authorized_operations(authorizer, ANN, topic("orders")) == 1 << 3 | 1 << 8
    assert authorized_operations(authorizer, ROOT, CLUSTER) == sum(1 << bit for bit in (5, 7, 8, 9, 10, 11, 12))


def test_where_there_are_no_acls_networks_say_who_acts_as_a_broker_and_who_administers():
    brokers, people = (ip_network("10.0.0.0/24"),), (ip_network("10.1.0.0/16"), ip_network("fd00::/8"))
    by_network = NetworkAuthorizer(brokers, people)
    broker, person, stranger = (
        Requester(ANONYMOUS, host) for host in ("10.0.0.7", "fd00:0:0:0:0:0:0:1", "192.168.0.1")
    )
    assert by_network.allows(broker, Operation.CLUSTER_ACTION, CLUSTER)
    assert not by_network.allows(broker, Operation.ALTER, CLUSTER)
    assert by_network.allows(person, Operation.ALTER, CLUSTER)
    assert not by_network.allows(person, Operation.CLUSTER_ACTION, CLUSTER)
    assert not by_network.allows_any(stranger, Operation.WRITE, ResourceType.TOPIC)
    assert by_network.allows(stranger, Operation.DESCRIBE, AclResource(ResourceType.TOPIC, "t"))
    assert not by_network.unlimited(person)
    assert NetworkAuthorizer().unlimited(stranger)
