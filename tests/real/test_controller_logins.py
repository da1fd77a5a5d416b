"""Logins, permissions and delegation tokens of clients while Shunter leads, by Apache's tools, at every node.

The broker's listener for clients wants SCRAM; the credentials are made through Shunter.
"""

from contextlib import ExitStack

import pytest
from kazoo.client import KazooClient
from yard import cli

from lab.testbed.controller import ShunterController
from lab.testbed.kafka import KafkaBroker
from lab.testbed.ports import free_ports
from lab.testbed.tools import kafka_tool
from lab.testbed.waiting import wait_until
from lab.testbed.zookeeper import ZooKeeperServer

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"


def tool(name, *arguments, ends=0):
    done = kafka_tool(name, *arguments, timeout_s=120)
    assert done.returncode == ends, done.stdout + done.stderr
    return done.stdout


def login(folder, password):
    path = folder / "ann.properties"
    path.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"
        f'sasl.jaas.config={SCRAM} username="ann" password="{password}";\n'
    )
    return path


@pytest.mark.timeout(400)
def test_logins_permissions_and_tokens(tmp_path):
    plain, clients = free_ports(2)
    security = {
        "listeners": f"PLAINTEXT://127.0.0.1:{plain},CLIENTS://127.0.0.1:{clients}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
        "listener.name.clients.sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "listener.name.clients.scram-sha-256.sasl.jaas.config": f"{SCRAM};",
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:ANONYMOUS;User:ann",
        "delegation.token.secret.key": "a secret of all brokers",
    }
    with ExitStack() as stack:
        zookeeper = stack.enter_context(ZooKeeperServer(tmp_path / "zookeeper"))
        options = ("--takeover", "preempt")
        shunter = stack.enter_context(
            ShunterController(tmp_path / "shunter", zookeeper.connect_string, options=options)
        )
        broker = KafkaBroker(1, zookeeper.connect_string, tmp_path / "broker", port=plain, properties=security)
        stack.enter_context(broker)
        zk = KazooClient(zookeeper.connect_string)
        zk.start()
        stack.callback(zk.close)
        stack.callback(zk.stop)

        at_shunter, at_broker = ("--bootstrap-server", shunter.address), ("--bootstrap-server", broker.address)
        secret = "SCRAM-SHA-256=[iterations=4096,password=secret]"
        ann = ("--entity-type", "users", "--entity-name", "ann")
        tool("kafka.admin.ConfigCommand", *at_shunter, "--alter", *ann, "--add-config", secret)

        permission = ("--allow-principal", "User:bob", "--operation", "Read", "--topic", "t")
        tool("kafka.admin.AclCommand", *at_shunter, "--add", *permission)
        for at in (at_shunter, at_broker):
            told = tool("kafka.admin.AclCommand", *at, "--list", "--topic", "t")
            assert "principal=User:bob, host=*, operation=READ, permissionType=ALLOW" in told

        asked = ("--bootstrap-server", f"127.0.0.1:{clients}", "--command-config", str(login(tmp_path, "secret")))
        tokens = "org.apache.kafka.tools.DelegationTokenCommand"
        told = tool(tokens, *asked, "--create", "--max-life-time-period", "86400000")
        assert "User:ann" in told
        (token,) = zk.get_children("/delegation_token/tokens")
        described = ("--describe", "--owner-principal", "User:ann")
        assert token in tool(tokens, *asked, *described)

        # A controller that is elected deletes expired tokens, and brokers learn of it.
        data = zk.get(f"/delegation_token/tokens/{token}")[0]
        expiry = data.partition(b'"expiryTimestamp":')[2].partition(b",")[0]
        zk.set(f"/delegation_token/tokens/{token}", data.replace(expiry.rstrip(b"}"), b"1000"))
        shunter.restart()
        gone = "the expired token is deleted"
        wait_until(lambda: not zk.get_children("/delegation_token/tokens"), what=gone, timeout_s=30)
        wait_until(lambda: token not in tool(tokens, *asked, *described), what="the broker has heard", timeout_s=60)

        # Brokers that refuse the login are asked before Shunter is ended. Clients of their listener don't see Shunter.
        wrong = tmp_path / "wrong"
        wrong.mkdir()
        at = ("hand-back", "--zookeeper", zookeeper.connect_string, *asked[:2], "--timeout", "60")
        status, told = cli(*at, "--command-config", login(wrong, "wrong"))
        assert status == 3, told
        assert shunter.is_leading()
        status, told = cli(*at, *asked[2:])
        assert status == 0, told
        wait_until(lambda: not shunter.alive, what="the end of the process that gave it back", timeout_s=30)
