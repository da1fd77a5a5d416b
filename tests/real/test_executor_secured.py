"""The executor on a cluster with authentication: SASL from a properties file, and missing permissions."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from executor_process import SHUNTER, Shunter, write_plan
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    NewTopic,
    ResourcePattern,
    ResourceType,
)
from serve_process import Service
from tidying import Tidied

from lab.testbed.kraft import KRaftCluster
from lab.testbed.waiting import wait_until
from shunter.app.drop_in import tool
from shunter.app.exit_codes import ExitCode
from shunter.core.own_topics import WORDS_TOPIC as TOPIC

pytestmark = [pytest.mark.kraft, pytest.mark.timeout(300)]

LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
PLANTED = "planted-Secret-5e1d"
"""A part of a password. No file that a run leaves may contain it."""
USERS = {
    "admin": f"{PLANTED}-a",
    "weak": "w-secret",
    "mover": "m-secret",
    "blind": "b-secret",
    "tool": "t-secret",
    "watcher": "wa-secret",
}
SECURED = {
    # The listener keeps its name and asks for a login; controllers talk among themselves without one.
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": (
        f'{LOGIN} username="admin" password="{USERS["admin"]}" '
        + " ".join(f'user_{name}="{secret}"' for name, secret in USERS.items())
        + ";"
    ),
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin;User:ANONYMOUS",
}
AS_ADMIN: dict[str, Any] = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_plain_username": "admin",
    "sasl_plain_password": USERS["admin"],
}


@pytest.fixture(autouse=True)
def one_failure_stays_one(secured: KRaftCluster, tidied: Tidied) -> Iterator[None]:
    with tidied(secured.nodes, secured.bootstrap, **AS_ADMIN):
        yield


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KRaftCluster]:
    with KRaftCluster(tmp_path_factory.mktemp("secured"), properties=SECURED) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def admin(secured: KRaftCluster) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=secured.bootstrap, **AS_ADMIN)
    client.create_topics([NewTopic("t", 1, 1)])
    client.wait_for_topics(["t"])
    yield client
    client.close()


def login(folder: Path, name: str, secret: str) -> str:
    """A client properties file as Apache's tools take it."""
    path = folder / f"{name}.properties"
    path.write_text(
        "security.protocol=SASL_PLAINTEXT\n"
        "sasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={LOGIN} \\\n  username="{name}" \\\n  password="{secret}";\n'
    )
    return str(path)


def allow(
    admin: KafkaAdminClient,
    user: str,
    operation: ACLOperation,
    kind: ResourceType,
    name: str,
    permission: ACLPermissionType = ACLPermissionType.ALLOW,
) -> ACL:
    acl = ACL(f"User:{user}", "*", operation, permission, ResourcePattern(kind, name))
    made = admin.create_acls([acl])
    assert not made["failed"], made
    wait_until(lambda: bool(admin.describe_acls(acl)[0]), what="the broker knowing the permission", timeout_s=30)
    return acl


@pytest.fixture
def shunter(secured: KRaftCluster, tmp_path: Path) -> Shunter:
    return Shunter(secured.bootstrap, tmp_path / "moves.journal")


@pytest.fixture
def plan(tmp_path: Path, admin: KafkaAdminClient) -> str:
    return str(write_plan(tmp_path / "plan.json", "t", {0: (1,)}))


def test_who_may_do_everything_moves(shunter: Shunter, plan: str, tmp_path: Path) -> None:
    config = login(tmp_path, "admin", USERS["admin"])
    done = shunter.run("execute", plan, "--yes", "--json", "--command-config", config)
    assert done.returncode == ExitCode.DONE, done.stdout + done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["counts"] == {"done": 1}


def test_a_wrong_password_is_told_as_such(shunter: Shunter, plan: str, tmp_path: Path) -> None:
    refused = shunter.run("execute", plan, "--yes", "--command-config", login(tmp_path, "admin", "wrong"))
    assert refused.returncode == ExitCode.CLUSTER
    assert "does not let us in: Authentication failed: Invalid username or password" in refused.stderr


def test_every_missing_permission_is_named(
    shunter: Shunter, plan: str, tmp_path: Path, admin: KafkaAdminClient
) -> None:
    arguments = ("execute", plan, "--yes", "--throttle", "1M", "--command-config", login(tmp_path, "weak", "w-secret"))
    told = shunter.run(*arguments)
    assert told.returncode == ExitCode.CLUSTER
    assert "needs Read on Group shunter-executor" in told.stdout + told.stderr
    allow(admin, "weak", ACLOperation.READ, ResourceType.GROUP, "shunter-executor")
    told = shunter.run(*arguments)
    assert told.returncode == ExitCode.CLUSTER
    assert "needs Describe on Cluster" in told.stdout + told.stderr
    allow(admin, "weak", ACLOperation.DESCRIBE, ResourceType.CLUSTER, "kafka-cluster")
    told = shunter.run(*arguments)
    assert "topic t" in told.stdout + told.stderr
    assert "Describe on Topic" in told.stdout + told.stderr or "there is no topic t" in told.stdout + told.stderr


def test_a_throttle_that_is_refused_never_starts_the_move(
    secured: KRaftCluster, plan: str, tmp_path: Path, admin: KafkaAdminClient
) -> None:
    """The drop-in as Apache's tool: an error, exit status 1, and nothing begun; `--verify` and `--cancel` likewise."""
    at = ("--bootstrap-server", secured.bootstrap, "--reassignment-json-file", plan)
    config = ("--command-config", login(tmp_path, "tool", USERS["tool"]))
    for operation in (ACLOperation.DESCRIBE, ACLOperation.ALTER):
        allow(admin, "tool", operation, ResourceType.CLUSTER, "kafka-cluster")
        allow(admin, "tool", operation, ResourceType.TOPIC, "t")

    def drop_in(*arguments: str) -> tuple[int, str]:
        out: list[str] = []
        return tool.run((*at, *config, *arguments), out.append, out.append), "\n".join(out)

    status, told = drop_in("--execute", "--throttle", "5000")
    assert (status, "needs AlterConfigs on Topic" in told.splitlines()[-1]) == (1, True), told
    assert told.splitlines()[-1].startswith("Error: ")
    assert "limit was set" not in told
    assert "Successfully started" not in told
    for action in ("--verify", "--cancel"):
        status, told = drop_in(action)
        assert (status, told.splitlines()[-1].startswith("Error: not allowed to change settings")) == (1, True), told
        status, told = drop_in(action, "--preserve-throttles")
        assert status == 0, told
    status, told = drop_in("--execute")
    assert (status, "Successfully started" in told) == (0, True), told


def test_a_setting_that_may_not_be_read_is_never_taken_for_one_that_is_not_set(
    shunter: Shunter, plan: str, tmp_path: Path, admin: KafkaAdminClient
) -> None:
    """Otherwise another tool's throttle would be overwritten and not be given back."""
    config = ("--command-config", login(tmp_path, "blind", "b-secret"))
    for operation in (ACLOperation.DESCRIBE, ACLOperation.ALTER, ACLOperation.ALTER_CONFIGS):
        allow(admin, "blind", operation, ResourceType.CLUSTER, "kafka-cluster")
        allow(admin, "blind", operation, ResourceType.TOPIC, "t")
    allow(admin, "blind", ACLOperation.READ, ResourceType.GROUP, "shunter-executor")
    # A user that may write settings may read them, unless reading is denied explicitly.
    for arguments, kind, name, needed in (
        (("execute", plan, "--yes"), ResourceType.TOPIC, "t", "topic t: needs DescribeConfigs on Topic t"),
        (("throttles", "list"), ResourceType.CLUSTER, "kafka-cluster", "broker 1: needs DescribeConfigs on Cluster"),
    ):
        denied = allow(admin, "blind", ACLOperation.DESCRIBE_CONFIGS, kind, name, ACLPermissionType.DENY)
        told = shunter.run(*arguments, *config)
        assert told.returncode == ExitCode.CLUSTER, told.stdout
        assert needed in told.stdout + told.stderr
        admin.delete_acls([denied])


def test_the_permissions_that_the_docs_name_are_enough(
    shunter: Shunter, tmp_path: Path, admin: KafkaAdminClient
) -> None:
    admin.create_topics([NewTopic("mine", 1, 1)])
    admin.wait_for_topics(["mine"])
    for operation in (
        ACLOperation.DESCRIBE,
        ACLOperation.ALTER,
        ACLOperation.DESCRIBE_CONFIGS,
        ACLOperation.ALTER_CONFIGS,
    ):
        allow(admin, "mover", operation, ResourceType.CLUSTER, "kafka-cluster")
    for operation in (ACLOperation.DESCRIBE, ACLOperation.DESCRIBE_CONFIGS, ACLOperation.ALTER_CONFIGS):
        allow(admin, "mover", operation, ResourceType.TOPIC, "mine")
    plan = str(write_plan(tmp_path / "mine.json", "mine", {0: (1,)}))
    config = login(tmp_path, "mover", USERS["mover"])
    refused = shunter.run("execute", plan, "--yes", "--throttle", "1M", "--command-config", config)
    assert refused.returncode == ExitCode.CLUSTER
    assert "needs Read on Group shunter-executor" in refused.stderr, "nobody drives a cluster unseen"
    examined = shunter.run("doctor", "--command-config", config)
    assert examined.returncode == ExitCode.PARTLY, examined.stdout + examined.stderr
    assert "Describe on Group shunter-executor" in examined.stdout, (
        "what can't be seen is told, and the rest all the same"
    )
    assert "not allowed for" not in examined.stdout, "topics that are not ours are not there for us"
    allow(admin, "mover", ACLOperation.READ, ResourceType.GROUP, "shunter-executor")
    done = shunter.run("execute", plan, "--yes", "--throttle", "1M", "--command-config", config)
    assert done.returncode == ExitCode.DONE, done.stdout + done.stderr
    examined = shunter.run("doctor", "--command-config", config)
    assert "every command is allowed" in examined.stdout, examined.stdout + examined.stderr
    listed = shunter.run("throttles", "list", "--command-config", config)
    assert listed.returncode == ExitCode.DONE, listed.stderr
    assert "no throttle is set" in listed.stdout


def test_who_may_only_describe_writes_a_first_policy_and_observes(
    secured: KRaftCluster, tmp_path: Path, admin: KafkaAdminClient
) -> None:
    """`serve init`, a look, and the service itself, with the rights that the docs name for mode = observe."""
    admin.create_topics([NewTopic("seen", 2, 1)])
    admin.wait_for_topics(["seen"])
    for operation in (ACLOperation.DESCRIBE, ACLOperation.DESCRIBE_CONFIGS):
        allow(admin, "watcher", operation, ResourceType.CLUSTER, "kafka-cluster")
        allow(admin, "watcher", operation, ResourceType.TOPIC, "*")
    allow(admin, "watcher", ACLOperation.DESCRIBE, ResourceType.GROUP, "shunter-executor")
    config = login(tmp_path, "watcher", USERS["watcher"])
    policy = tmp_path / "keeper.toml"
    init = [*SHUNTER, "serve", "init", str(policy), "--bootstrap-server", secured.bootstrap, "--command-config", config]
    written = subprocess.run(init, capture_output=True, text=True, timeout=120, check=False)
    assert written.returncode == ExitCode.DONE, written.stderr
    assert f"{policy} is in order" in written.stdout
    again = subprocess.run(init, capture_output=True, text=True, timeout=120, check=False)
    assert (again.returncode, "is not overwritten" in again.stderr) == (ExitCode.USAGE, True)
    text = policy.read_text().replace("[cluster.main]", "[cluster.yard]")
    policy.write_text(text + "\n[service]\nlook-seconds = 1\n")
    service = Service(tmp_path, tmp_path / "host")
    service.start()
    try:
        service_row = {}

        def observes() -> bool:
            service_row.update(service.rows("status")[0])
            return service_row["state"] == "observing" and service_row["figures"] == "current"

        wait_until(observes, what="it observes", timeout_s=60)
        refused = service.ask("intend", "drain", "1", "--cluster", "yard")
        assert "only observed" in refused.stdout + refused.stderr
        assert TOPIC not in admin.list_topics(), "nothing is made in the cluster"
    finally:
        assert service.stop() == 0


def arguments_of(process: int) -> list[str]:
    """The command lines of a process and its children, which every user of the machine can read."""
    told = [Path(f"/proc/{process}/cmdline").read_bytes().decode(errors="replace")]
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return told + [each for child in children for each in arguments_of(int(child))]


def assert_nothing_is_left(folder: Path) -> None:
    """Check that no file has the planted secret, and that only their owner may read the files."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    assert [path for path in files if PLANTED.encode() in path.read_bytes()] == []
    modes = {path: oct(path.stat().st_mode & 0o777) for path in folder.rglob("*")}
    wrong = {path: mode for path, mode in modes.items() if mode != ("0o700" if path.is_dir() else "0o600")}
    assert wrong == {}


def test_no_password_is_in_anything_that_a_run_leaves(secured: KRaftCluster, plan: str, tmp_path: Path) -> None:
    """Journal, exports, snapshots, reports, `--json`, arguments, crash reports. Other users can't read the files."""
    left = tmp_path / "left"
    left.mkdir(mode=0o700)
    at = Shunter(secured.bootstrap, left / "moves.journal", state=left / "state")
    good = ("--command-config", login(tmp_path, "admin", USERS["admin"]))
    (tmp_path / "admin.properties").chmod(0o644)
    wrong = ("--command-config", login(tmp_path, "tool", f"{PLANTED}-wrong"))
    said: list[str] = []
    for status, arguments in (
        (ExitCode.PARTLY, ("doctor", "--json", *good)),
        (ExitCode.DONE, ("execute", plan, "--yes", "--json", *good)),
        (ExitCode.DONE, ("status", "--json", *good)),
        (ExitCode.DONE, ("history", "--json")),
        (ExitCode.CLUSTER, ("status", *wrong)),
        (ExitCode.CLUSTER, ("doctor", "--json", *wrong)),
    ):
        done = at.run(*arguments)
        said += [done.stdout, done.stderr]
        assert done.returncode in {status, ExitCode.DONE}, done.stdout + done.stderr
    collect = [
        *SHUNTER,
        "pipeline",
        "collect",
        "--bootstrap-server",
        secured.bootstrap,
        "--out",
        str(left / "snapshots"),
    ]
    done = subprocess.run([*collect, *good], capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stderr
    crashing = subprocess.Popen(
        ["/usr/bin/env", "PYTHONFAULTHANDLER=1", *collect, "--every", "1h", *good],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert crashing.stdout is not None
        said.append(crashing.stdout.readline())
        said += arguments_of(crashing.pid)
        crashing.send_signal(signal.SIGABRT)
        said += crashing.communicate(timeout=60)
    finally:
        crashing.kill()
    assert "Fatal Python error: Aborted" in said[-1]
    assert "admin.properties" in "".join(said), "it was used"
    assert "may be read by others on this machine" in "".join(said), "the file that was used is told of"
    assert PLANTED not in "".join(said)
    assert_nothing_is_left(left)


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_stream_logs_in_and_leaves_no_password(
    secured: KRaftCluster, admin: KafkaAdminClient, tmp_path: Path
) -> None:
    producer = KafkaProducer(bootstrap_servers=secured.bootstrap, **AS_ADMIN)
    for number in range(20):
        row = {
            "cluster_id": "yard", "topic": "orders", "partition": number, "broker_id": 1, "role": "leader",
            "window_start": 1_738_368_000, "window_seconds": 60, "bytes_in": 10,
        }  # fmt: skip
        producer.send("samples", json.dumps(row).encode())
    producer.flush()
    producer.close()
    left = tmp_path / "left"
    left.mkdir(mode=0o700)
    config = login(tmp_path, "admin", USERS["admin"])
    command = [
        sys.executable, "-m", "shunter", "pipeline", "--root", str(left / "lake"), "--master", "local[2]", "ingest",
        "--bootstrap-server", secured.bootstrap, "--topic", "samples", "--checkpoint", str(left / "checkpoint"),
        "--every", "1s", "--until-caught-up", "--json", "--command-config",
    ]  # fmt: skip
    streaming = subprocess.Popen([*command, config], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    said: list[str] = []
    wait_until(
        lambda: bool(said.extend(arguments_of(streaming.pid))) or streaming.poll() is not None or "java" in str(said),
        what="Spark runs",
        timeout_s=120,
    )
    said += streaming.communicate(timeout=400)
    assert streaming.returncode == 0, said[-1]
    assert json.loads(said[-2])["good"] == 20
    refused = subprocess.run(
        [*command, login(tmp_path, "tool", f"{PLANTED}-wrong")],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    said += [refused.stdout, refused.stderr]
    assert refused.returncode != 0
    secret = subprocess.run(
        [*command, config, "--kafka-option", 'sasl.jaas.config=x password="y";'],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert secret.returncode == 2
    assert "give --command-config" in secret.stderr
    assert PLANTED not in "".join(said)
    assert_nothing_is_left(left)
