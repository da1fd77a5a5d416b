"""What is remembered of the authorizer's answers: those for the requesters that asked last."""

from __future__ import annotations

from shunter.core.authorizer import AclAuthorizer, Requester
from shunter.drivers.listener.visible_topics import REQUESTERS, VisibleTopics
from shunter.model.security.acl import Acl, AclResource, Operation, Permission, ResourcePattern, ResourceType
from shunter.model.security.principal import Principal


class Counting(AclAuthorizer):
    """Counts how often it is asked about each requester."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: dict[Requester, int] = {}

    def allows(self, requester: Requester, operation: Operation, resource: AclResource) -> bool:
        self.asked[requester] = self.asked.get(requester, 0) + 1
        return super().allows(requester, operation, resource)


def requester(number: int) -> Requester:
    return Requester(Principal("User", str(number)), "10.0.0.1")


async def test_a_requester_that_asks_often_is_not_dropped_for_new_ones() -> None:
    authorizer = Counting()
    visible = VisibleTopics(authorizer)
    often = requester(0)
    for number in range(1, 3 * REQUESTERS):
        assert await visible.among(["t"], often) == []
        await visible.among(["t"], requester(number))
    assert authorizer.asked[often] == 1
    await visible.among(["t"], requester(1))
    assert authorizer.asked[requester(1)] == 2, "who asked longest ago was dropped"


async def test_changed_permissions_are_asked_for_again() -> None:
    authorizer = Counting()
    visible = VisibleTopics(authorizer)
    assert await visible.among(["t", "u"], requester(0)) == []
    allowed = Acl(Principal("User", "0"), "*", Operation.DESCRIBE, Permission.ALLOW)
    authorizer.replace({ResourcePattern(ResourceType.TOPIC, "u", False): [allowed]})
    assert await visible.among(["t", "u"], requester(0)) == ["u"]
