"""The controller logs in to brokers by OAUTHBEARER, as brokers do at one another and at the controller."""

from pathlib import Path
from typing import Any

import pytest
from secured_yard import BEARER, PLANTED, Tokens
from yard import TOPICS

from lab.testbed import tools
from lab.testbed.cluster import ZooKeeperCluster
from lab.testbed.controller import ShunterController
from lab.testbed.kafka import PORT
from lab.testbed.ports import LOOPBACK, free_ports
from lab.testbed.server import properties_text
from lab.testbed.waiting import wait_until
from token_endpoint import TokenEndpoint

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

SECRET = f"{PLANTED}-client"
APACHE = "org.apache.kafka.common.security.oauthbearer."
LIVES_S = 40.0
"""Long enough for a busy machine to log in again in the last tenth of it."""


@pytest.fixture
def endpoint(tmp_path: Path) -> Any:
    tokens = Tokens(tmp_path)

    def signed(claims: dict[str, Any]) -> str:
        return tokens.token(sub=claims["sub"], iat=int(claims["iat"]), exp=int(claims["exp"]))

    with TokenEndpoint({"broker": SECRET, "shunter": SECRET}, lives_s=LIVES_S, signed=signed) as serving:
        yield serving


def properties(folder: Path, endpoint: TokenEndpoint, client: str) -> dict[str, object]:
    return {
        "listener.security.protocol.map": "PROBE:PLAINTEXT,INTERNAL:SASL_PLAINTEXT",
        "inter.broker.listener.name": "INTERNAL",
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
        "listener.name.internal.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.internal.oauthbearer.sasl.jaas.config": (
            f'{BEARER} clientId="{client}" clientSecret="{SECRET}" scope="kafka";'
        ),
        "listener.name.internal.oauthbearer.sasl.login.callback.handler.class": (
            f"{APACHE}OAuthBearerLoginCallbackHandler"
        ),
        "listener.name.internal.oauthbearer.sasl.server.callback.handler.class": (
            f"{APACHE}OAuthBearerValidatorCallbackHandler"
        ),
        "listener.name.internal.sasl.oauthbearer.token.endpoint.url": endpoint.url,
        "org.apache.kafka.sasl.oauthbearer.allowed.urls": endpoint.url,
        "listener.name.internal.sasl.oauthbearer.jwks.endpoint.url": f"file:{folder / 'jwks.json'}",
        "listener.name.internal.sasl.oauthbearer.expected.audience": "kafka",
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:broker;User:shunter",
    }


def test_tokens_are_shown_to_brokers_and_renewed_before_they_end(tmp_path: Path, endpoint: TokenEndpoint) -> None:
    ours, *theirs = free_ports(3)
    file, config = tmp_path / "server.properties", tmp_path / "client.properties"
    file.write_text(properties_text(properties(tmp_path, endpoint, "shunter")))
    file.chmod(0o600)
    config.write_text(
        properties_text(
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.jaas.config": f'{BEARER} clientId="broker" clientSecret="{SECRET}";',
                "sasl.login.callback.handler.class": f"{APACHE}OAuthBearerLoginCallbackHandler",
                "sasl.oauthbearer.token.endpoint.url": endpoint.url,
            }
        )
    )
    shunter = ShunterController(
        tmp_path / "shunter",
        "",
        listeners=[f"INTERNAL://{LOOPBACK}:{ours}"],
        options=("--server-properties", str(file)),
    )

    def lead(cluster: ZooKeeperCluster, stack: Any) -> None:
        shunter.zookeeper_connect = cluster.zookeeper_connect
        stack.enter_context(shunter)

    def create(topic: str) -> None:
        at = ("--bootstrap-server", f"{LOOPBACK}:{ours}", "--command-config", str(config))
        done = tools.kafka_tool(
            TOPICS, *at, "--create", "--topic", topic, "--replica-assignment", "1:2,2:1", timeout_s=120
        )
        assert done.returncode == 0, done.stdout + done.stderr

    brokers = dict(zip((1, 2), theirs, strict=True))
    cluster = ZooKeeperCluster(
        tmp_path / "cluster",
        broker_ids=tuple(brokers),
        properties=properties(tmp_path, endpoint, "broker"),
        broker_properties={
            id_: {"listeners": f"PROBE://{LOOPBACK}:{PORT},INTERNAL://{LOOPBACK}:{port}"}
            for id_, port in brokers.items()
        },
        before_brokers=lead,
    )
    with cluster:
        create("early")
        renewed = 2
        wait_until(lambda: endpoint.askers.count("shunter") > renewed, what="renewed tokens", timeout_s=300)
        create("late")
        said = shunter.log_tail(100_000)
    for told in ("connection lost", "no login", PLANTED):
        assert told not in said
