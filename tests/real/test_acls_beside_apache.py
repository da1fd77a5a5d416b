"""Shunter's decisions about permissions beside those of Apache's own class, which also writes the ACLs."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
import pytest
from kazoo.client import KazooClient
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from lab.testbed.artifacts import ZOOKEEPER_MODE_VERSION, kafka_classpath
from lab.testbed.java import java_executable
from lab.testbed.zookeeper import ZooKeeperServer
from shunter.core.authorizer import AclAuthorizer, Requester
from shunter.formats.znodes import acls as acl_znodes
from shunter.model.security.acl import Acl, AclResource, Operation, ResourcePattern, ResourceType
from shunter.model.security.principal import Principal

SUPER = "User:root;User:CN=broker,OU=x"
ASKERS = [
    Requester(Principal("User", name), host)
    for name in ("ann", "bob", "root", "CN=broker,OU=x", "ANONYMOUS", "*")
    for host in ("10.0.0.1", "10.0.0.2")
] + [Requester(Principal("Group", "ann"), "10.0.0.1")]
NAMES = ("*", "a", "ab", "abc", "b", "kafka-cluster", "a.b-c")
OPERATIONS = [each for each in Operation if each not in {Operation.UNKNOWN, Operation.ALL}]
TYPES = list(ResourceType)


class ApachesAuthorizer:
    """`AclAuthorizer` in its own Java process, on a real ZooKeeper."""

    def __init__(self, gateway: JavaGateway, connect: str, *, everyone: bool) -> None:
        self._jvm, self._gateway = gateway.jvm, gateway
        self._kafka = gateway.jvm.org.apache.kafka
        self.authorizer = gateway.jvm.kafka.security.authorizer.AclAuthorizer()
        settings = gateway.jvm.java.util.HashMap()
        for name, value in (
            ("zookeeper.connect", connect),
            ("broker.id", "1"),
            ("super.users", SUPER),
            ("allow.everyone.if.no.acl.found", str(everyone).lower()),
        ):
            settings.put(name, value)
        self.authorizer.configure(settings)

    def _pattern(self, kind: ResourceType, name: str, *, prefixed: bool = False) -> Any:
        resource = self._kafka.common.resource
        form = resource.PatternType.PREFIXED if prefixed else resource.PatternType.LITERAL
        return resource.ResourcePattern(resource.ResourceType.valueOf(kind.name), name, form)

    def _context(self, asker: Requester) -> Any:
        common, network = self._kafka.common, self._jvm.java.net
        header = common.requests.RequestHeader(common.protocol.ApiKeys.METADATA, 0, "client", 1)
        return common.requests.RequestContext(
            header,
            "1",
            network.InetAddress.getByName(asker.host),
            common.security.auth.KafkaPrincipal(*asker.principal),
            common.network.ListenerName("PLAINTEXT"),
            common.security.auth.SecurityProtocol.PLAINTEXT,
            common.network.ClientInformation.EMPTY,
            False,
        )

    def create(self, pattern: ResourcePattern, acl: tuple[Principal, str, str, str]) -> None:
        types = self._kafka.common.acl
        principal, host, operation, permission = acl
        entry = types.AccessControlEntry(
            str(principal), host, types.AclOperation.valueOf(operation), types.AclPermissionType.valueOf(permission)
        )
        bindings = self._jvm.java.util.ArrayList()
        bindings.add(types.AclBinding(self._pattern(pattern.type, pattern.name, prefixed=pattern.prefixed), entry))
        result = self.authorizer.createAcls(self._context(ASKERS[0]), bindings)[0].toCompletableFuture().get()
        assert not result.exception().isPresent(), result.exception().get().toString()

    def allows(self, asker: Requester, asked: list[tuple[Operation, AclResource]]) -> list[bool]:
        actions = self._jvm.java.util.ArrayList()
        operations = self._kafka.common.acl.AclOperation
        for operation, resource in asked:
            pattern = self._pattern(resource.type, resource.name)
            actions.add(
                self._kafka.server.authorizer.Action(operations.valueOf(operation.name), pattern, 1, False, False)
            )
        return [str(each) == "ALLOWED" for each in self.authorizer.authorize(self._context(asker), actions)]

    def allows_any(self, asker: Requester, operation: Operation, kind: ResourceType) -> bool:
        common = self._kafka.common
        answer = self.authorizer.authorizeByResourceType(
            self._context(asker),
            common.acl.AclOperation.valueOf(operation.name),
            common.resource.ResourceType.valueOf(kind.name),
        )
        return str(answer) == "ALLOWED"


@contextmanager
def java() -> Iterator[JavaGateway]:
    [py4j] = (Path(pyspark.__file__).parent / "jars").glob("py4j-*.jar")
    jars = ":".join(map(str, kafka_classpath(ZOOKEEPER_MODE_VERSION)))
    port = launch_gateway(
        jarpath=str(py4j), classpath=jars, die_on_exit=True, java_path=str(java_executable()), javaopts=["-Xmx96m"]
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auto_convert=True))
    try:
        yield gateway
    finally:
        gateway.shutdown()


def read_acls(zk: KazooClient, chroot: str) -> dict[ResourcePattern, frozenset[Acl]]:
    found: dict[ResourcePattern, frozenset[Acl]] = {}
    for folder, prefixed in ((acl_znodes.LITERAL, False), (acl_znodes.PREFIXED, True)):
        for name in zk.get_children(chroot + folder):
            kind = acl_znodes.resource_type(name)
            assert kind is not None, name
            for resource in zk.get_children(f"{chroot}{folder}/{name}"):
                pattern = ResourcePattern(kind, resource, prefixed)
                place = acl_znodes.path(pattern)
                found[pattern] = acl_znodes.decode_acls(place, zk.get(chroot + place)[0])
    return found


def announced(zk: KazooClient, chroot: str) -> set[ResourcePattern]:
    return {
        acl_znodes.decode_change(f"{folder}/{name}", zk.get(f"{chroot}{folder}/{name}")[0])
        for folder in (acl_znodes.LITERAL_CHANGES, acl_znodes.PREFIXED_CHANGES)
        for name in zk.get_children(chroot + folder)
    }


def random_acl(chosen: random.Random) -> tuple[ResourcePattern, tuple[Principal, str, str, str]]:
    prefixed = chosen.random() < 0.4
    name = chosen.choice([name for name in NAMES if not (prefixed and name == "*")])
    kind = chosen.choice((ResourceType.TOPIC, ResourceType.TOPIC, ResourceType.CLUSTER, *TYPES))
    asker = chosen.choice(ASKERS)
    operation = chosen.choice(("ALL", *(each.name for each in OPERATIONS)))
    host = chosen.choice(("*", asker.host))
    return ResourcePattern(kind, name, prefixed), (
        asker.principal,
        host,
        operation,
        chosen.choice(("ALLOW", "DENY", "ALLOW")),
    )


def worlds(seed: int, count: int, folder: Path) -> None:
    """Check so many clusters. Each is asked again and again while ACLs are added."""
    chosen = random.Random(seed)
    seen = {True: 0, False: 0}
    with ZooKeeperServer(folder / "zookeeper") as zookeeper, java() as gateway:
        zk = KazooClient(zookeeper.connect_string)
        zk.start()
        try:
            for world in range(count):
                chroot, everyone = f"/world-{world}", world % 2 == 1
                apache = ApachesAuthorizer(gateway, zookeeper.connect_string + chroot, everyone=everyone)
                for acls in range(1, 25):
                    pattern, acl = random_acl(chosen)
                    apache.create(pattern, acl)
                    if acls % 6 == 0 or acls == 1:
                        compare(apache, read_acls(zk, chroot), chosen, seen, everyone=everyone)
                assert announced(zk, chroot) == set(read_acls(zk, chroot))
                apache.authorizer.close()
        finally:
            zk.stop()
            zk.close()
    assert min(seen.values()) > 50 * count, f"both answers have to be met: {seen}"


def test_each_answer_is_apaches(tmp_path: Path) -> None:
    worlds(19, 2, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_each_of_many_answers_is_apaches(seed: int, tmp_path: Path) -> None:
    worlds(seed, 8, tmp_path)


def compare(
    apache: ApachesAuthorizer,
    acls: dict[ResourcePattern, frozenset[Acl]],
    chosen: random.Random,
    seen: dict[bool, int],
    *,
    everyone: bool,
) -> None:
    ours = AclAuthorizer(
        [Principal(*text.split(":", 1)) for text in SUPER.split(";")],
        everyone_if_no_acl=everyone,
    )
    ours.replace(acls)
    for asker in ASKERS:
        asked = [
            (chosen.choice(OPERATIONS), AclResource(chosen.choice((ResourceType.TOPIC, *TYPES)), chosen.choice(NAMES)))
            for _ in range(20)
        ]
        mine = [ours.allows(asker, *each) for each in asked]
        theirs = apache.allows(asker, asked)
        assert mine == theirs, [(asker, one, acls) for one, a, b in zip(asked, mine, theirs, strict=True) if a != b]
        for answer in mine:
            seen[answer] += 1
        operation, kind = chosen.choice(OPERATIONS), chosen.choice(TYPES)
        any_of_them = ours.allows_any(asker, operation, kind)
        assert any_of_them == apache.allows_any(asker, operation, kind), (asker, operation, kind, acls)
