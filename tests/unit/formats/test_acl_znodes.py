import pytest

from shunter.errors import FormatError
from shunter.formats.znodes import acls as acl_znodes
from shunter.formats.znodes.text import WITHHELD
from shunter.model.security.acl import Acl, Operation, Permission, ResourcePattern, ResourceType
from shunter.model.security.principal import Principal

PLACE = "/kafka-acl/Topic/t"


def written(principal="User:ann", host="*", operation="ClusterAction", permission="Deny"):
    entry = f'{{"principal":"{principal}","permissionType":"{permission}","operation":"{operation}","host":"{host}"}}'
    return f'{{"version":1,"acls":[{entry}]}}'.encode()


def test_names_are_read_in_any_case_and_unknown_ones_mean_nothing():
    ann = Principal("User", "ann")
    for operation, permission in (("ClusterAction", "Deny"), ("CLUSTERACTION", "DENY")):
        found = acl_znodes.decode_acls(PLACE, written(operation=operation, permission=permission))
        assert found == {Acl(ann, "*", Operation.CLUSTER_ACTION, Permission.DENY)}
    found = acl_znodes.decode_acls(PLACE, written(operation="Fly", permission="Perhaps"))
    assert found == {Acl(ann, "*", Operation.UNKNOWN, Permission.UNKNOWN)}
    assert acl_znodes.resource_type("TransactionalId") is ResourceType.TRANSACTIONAL_ID
    assert acl_znodes.resource_type("Planet") is None
    assert acl_znodes.decode_acls(PLACE, b"") == frozenset()


@pytest.mark.parametrize(
    "data", [b"{", b'{"version":2,"acls":[]}', b'{"version":1}', b'{"version":1,"acls":[1]}', WITHHELD, written("ann")]
)
def test_what_cannot_be_read_is_refused(data):
    with pytest.raises(FormatError, match=PLACE):
        acl_znodes.decode_acls(PLACE, data)


def test_announcements_of_both_kinds():
    literal = acl_znodes.decode_change("/kafka-acl-changes/acl_changes_1", b"TRANSACTIONAL_ID:a:b")
    assert literal == ResourcePattern(ResourceType.TRANSACTIONAL_ID, "a:b")
    assert acl_znodes.path(literal) == "/kafka-acl/TransactionalId/a:b"
    told = b'{"version":1,"resourceType":"TOPIC","name":"t","patternType":"PREFIXED"}'
    prefixed = acl_znodes.decode_change("/kafka-acl-extended-changes/acl_changes_1", told)
    assert prefixed == ResourcePattern(ResourceType.TOPIC, "t", prefixed=True)
    assert acl_znodes.path(prefixed) == "/kafka-acl-extended/prefixed/Topic/t"


@pytest.mark.parametrize(
    ("place", "data"),
    [
        ("/kafka-acl-changes/x", b"TOPIC"),
        ("/kafka-acl-changes/x", b"PLANET:t"),
        ("/kafka-acl-changes/x", None),
        ("/kafka-acl-extended-changes/x", b'{"version":1,"resourceType":"TOPIC","name":"t","patternType":"MATCH"}'),
    ],
)
def test_an_announcement_that_cannot_be_read_is_refused(place, data):
    with pytest.raises(FormatError, match=place):
        acl_znodes.decode_change(place, data)
