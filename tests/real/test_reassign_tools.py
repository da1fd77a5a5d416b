"""Shunter's reassignment tools beside Apache's on one cluster; KIP-236's znodes on real brokers with live producers."""

import contextlib
import json
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest
from kafka import KafkaAdminClient
from yard import REASSIGN, TOPICS, cli, plan_of

from lab.testbed.waiting import wait_until
from shunter.admin import (
    AlterPartitionReassignmentsOptions,
    NewPartitionReassignment,
    ReassignmentAdmin,
)
from shunter.app.drop_in import tool as reassign_tool
from shunter.errors import ErrorCode, RequestRejected
from shunter.model.partition import TopicPartition
from shunter.model.reassignment import Intervention

NO_THROTTLE = (0, "no throttle is set\n")

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


def ours(*arguments):
    """(status, standard output, first line of standard error) of Shunter's tool."""
    out, err = [], []
    status = reassign_tool.run([str(argument) for argument in arguments], out.append, err.append)
    return status, "\n".join(out).rstrip("\n"), err[0] if err else ""


def apaches(yard, *arguments):
    done = yard.cluster.kafka_tool(REASSIGN, *map(str, arguments))
    out = done.stdout.rstrip("\n")
    # Java's stack trace is not compared.
    lines = out.split("\n")
    trace = next((index for index, line in enumerate(lines) if line.startswith("\tat ")), None)
    if trace is not None:
        head = next(index for index, line in enumerate(lines) if line.startswith("Error: "))
        out = "\n".join(lines[: head + 1])
    # Java prints an exception without a trace as its class and the same words.
    out = "\n".join(line for line in out.split("\n") if not line.startswith("org.apache.kafka.common.errors."))
    return done.returncode, out, (done.stderr.split("\n")[0] if "Option" in done.stderr else "")


def written(tmp_path, document, name="plan.json"):
    path = tmp_path / name
    path.write_text(json.dumps(document))
    return path


def test_what_changes_nothing_prints_the_same(yard, topic, tmp_path):
    partitions = yard.create(topic, (1, 2, 3), partitions=2)
    at = ("--bootstrap-server", yard.bootstrap)
    done = written(tmp_path, plan_of(partitions, (1, 2, 3)), "done.json")
    other = written(tmp_path, plan_of(partitions, (2, 3, 4)), "other.json")
    absent = written(tmp_path, plan_of([TopicPartition("absent", 0)], (1, 2)), "absent.json")
    unknown = written(tmp_path, plan_of(partitions, (1, 77)), "unknown.json")
    doubled = written(tmp_path, plan_of(partitions[:1] * 2, (1, 2)), "doubled.json")
    repeated = written(tmp_path, plan_of(partitions, (2, 2)), "repeated.json")
    empty = written(tmp_path, {"version": 1, "partitions": []}, "empty.json")
    nobody = written(tmp_path, plan_of(partitions, ()), "nobody.json")
    future = written(tmp_path, {"version": 7, "partitions": []}, "future.json")
    cases = (
        (*at, "--list"),
        (*at, "--verify", "--preserve-throttles", "--reassignment-json-file", done),
        (*at, "--verify", "--preserve-throttles", "--reassignment-json-file", other),
        (*at, "--verify", "--preserve-throttles", "--reassignment-json-file", absent),
        (*at, "--verify", "--reassignment-json-file", done),
        (*at, "--cancel", "--reassignment-json-file", other),
        (*at, "--execute", "--reassignment-json-file", absent),
        (*at, "--execute", "--reassignment-json-file", unknown),
        (*at, "--execute", "--reassignment-json-file", doubled),
        (*at, "--execute", "--reassignment-json-file", repeated),
        (*at, "--execute", "--reassignment-json-file", empty),
        (*at, "--execute", "--reassignment-json-file", nobody),
        (*at, "--execute", "--reassignment-json-file", future),
        (*at, "--execute"),
        (*at, "--list", "--verify"),
        (*at, "--list", "--throttle", "5000"),
        ("--list",),
    )
    with ThreadPoolExecutor(2) as pool:
        printed = list(pool.map(lambda arguments: apaches(yard, *arguments), cases))
    mine = [ours(*arguments) for arguments in cases]
    differences = [found for found in zip(cases, mine, printed, strict=True) if found[1] != found[2]]
    assert not differences, "\n".join(map(str, differences))
    # The text after these words is Java's own. Both tools fail to remove throttles of a topic that does not exist.
    refused = (*at, "--verify", "--reassignment-json-file", absent)
    for status, out, _ in (ours(*refused), apaches(yard, *refused)):
        assert (status, out.splitlines()[-1].startswith("Error: ")) == (1, True), out


def test_a_whole_reassignment_prints_the_same(yard, topic, tmp_path):
    """Execute with a throttle, refuse a second one, list, change the throttle, cancel, verify: once with each tool."""
    told = {}
    for tool in (ours, lambda *arguments: apaches(yard, *arguments)):
        name = f"{topic}-{len(told)}"
        partitions = yard.create(name, (1, 2, 3), partitions=2)
        at = ("--bootstrap-server", yard.bootstrap)
        with yard.traffic(partitions, records=60):
            # The tool begins the move before its throttle has reached all brokers: another one is in force before.
            yard.throttle(name, 20_000)
            # The plan as `shunter plan` writes it: Apache's tool ignores unknown fields.
            plan = written(tmp_path, plan_of(partitions, (4, 3, 2), original=(1, 2, 3)))
            steps = [
                tool(*at, "--execute", "--reassignment-json-file", plan, "--throttle", 20_000),
                tool(*at, "--execute", "--reassignment-json-file", plan),
                tool(*at, "--list"),
                tool(*at, "--verify", "--reassignment-json-file", plan),
                tool(*at, "--execute", "--additional", "--reassignment-json-file", plan, "--throttle", 30_000),
                tool(*at, "--cancel", "--reassignment-json-file", plan),
                tool(*at, "--list"),
                tool(*at, "--verify", "--reassignment-json-file", plan),
            ]
        told[name] = [(status, out.replace(name, "T"), err) for status, out, err in steps]
        assert [status for status, *_ in steps] == [0, 1, 0, 0, 0, 0, 0, 0], steps
        wait_until(lambda: not yard.moving(), what="all is rolled back", timeout_s=20)
    mine, apache = told.values()
    assert mine == apache


def test_the_kips_flags_on_the_admin_api(yard, topic, tmp_path):
    """--list --json, --incremental with null replicas, --cancel-others with an empty object, --cancel-all."""
    partitions = yard.create(topic, (1, 2, 3), partitions=3)
    at = ("--bootstrap-server", yard.bootstrap)
    assert ours(*at, "--list", "--json") == (0, "{}", "")
    with yard.traffic(partitions, records=60):
        plan = written(tmp_path, plan_of(partitions, (4, 3, 2)))
        begun = ours(*at, "--execute", "--reassignment-json-file", plan, "--throttle", 20_000)
        assert begun[0] == 0, begun
        listed = json.loads(ours(*at, "--list", "--json")[1])
        assert {entry["partition"] for entry in listed["partitions"]} == {0, 1, 2}
        assert all(set(entry["replicas"]) == {4, 3, 2} for entry in listed["partitions"])
        null = {"version": 1, "partitions": [{"topic": topic, "partition": 2, "replicas": None}]}
        status, out, _ = ours(
            *at, "--execute", "--incremental", "--reassignment-json-file", written(tmp_path, null, "null.json")
        )
        assert (status, out) == (0, f"Successfully cancelled partition reassignment for: {topic}-2")
        status, out, _ = ours(
            *at, "--execute", "--cancel-others", "--reassignment-json-file", written(tmp_path, {}, "nothing.json")
        )
        assert (status, out) == (0, f"Successfully cancelled partition reassignments for: {topic}-0,{topic}-1")
        wait_until(lambda: yard.moving() == set(), what="everything ended", timeout_s=20)
        begun = ours(*at, "--execute", "--reassignment-json-file", plan, "--throttle", 20_000)
        assert begun[0] == 0, begun
        status, out, _ = ours(*at, "--cancel-all", "--rollback")
        assert status == 0
        assert f"Successfully cancelled partition reassignments for: {topic}-0,{topic}-1,{topic}-2" in out
        wait_until(lambda: yard.moving() == set(), what="everything ended", timeout_s=20)
    yard.wait_moved(partitions, (1, 2, 3))


def test_the_cancel_znode_on_real_brokers(yard, topic, tmp_path, zk):
    """KIP-236's session: execute, extra, cancel, remove-cancel; producers go on, nothing is lost, no znode stays."""
    partitions = yard.create(topic, (1, 2, 3), partitions=3)
    by = ("--zookeeper", yard.cluster.zookeeper_connect)
    with yard.traffic(partitions, records=60):
        yard.throttle(topic, 20_000)
        plan = written(tmp_path, plan_of(partitions[:2], (4, 3, 2)))
        assert ours(*by, "--execute", "--reassignment-json-file", plan)[0] == 0
        wait_until(lambda: yard.moving() == set(partitions[:2]), what="the legacy znode is taken", timeout_s=20)
        more = written(tmp_path, plan_of(partitions[2:], (4, 2, 1)), "more.json")
        assert ours(*by, "--execute-extra", "--reassignment-json-file", more)[0] == 0
        wait_until(lambda: yard.moving() == set(partitions), what="the extra znode is taken", timeout_s=20)
        assert zk.exists("/admin/reassign_partitions_extra") is None
        assert "still in progress" in ours(*by, "--verify-extra", "--reassignment-json-file", more)[1]
        status, out, _ = ours(*by, "--cancel")
        assert status == 0
        assert out.splitlines()[0].startswith("Rolling back the current pending reassignments Map(")
        assert f"{topic}-0 -> Map(replicas -> Buffer(4, 3, 2), original_replicas -> Buffer(1, 2, 3))" in out
        assert out.splitlines()[1] == "Successfully submitted cancellation of reassignments."
        wait_until(lambda: yard.moving() == set(), what="all is rolled back", timeout_s=20)
        refused = ours("--bootstrap-server", yard.bootstrap, "--execute", "--reassignment-json-file", plan)
        assert refused[0] == 1
        assert "/admin/reassign_cancel" in refused[1]
        assert zk.exists("/admin/reassign_cancel") is not None
        assert ours(*by, "--remove-cancel") == (0, "Successfully remove the znode /admin/reassign_cancel.", "")
        yard.throttle(topic, None)
    yard.wait_moved(partitions, (1, 2, 3))
    with contextlib.suppress(Exception):
        zk.delete("/admin/reassign_cancel")


def watched_paths(yard):
    """The paths beneath the chroot on which any client has a ZooKeeper watch, for data or for children."""
    with socket.create_connection(("127.0.0.1", yard.cluster.zookeeper.port), 10) as connection:
        connection.sendall(b"wchp")
        text = b"".join(iter(lambda: connection.recv(65_536), b"")).decode()
    return {line for line in text.splitlines() if line.startswith("/")}


def watches_of(yard, path):
    return sum(watched.endswith(path) for watched in watched_paths(yard))


def test_extra_reassignments_from_their_generation_to_their_end(yard, topic, tmp_path, zk):
    """KIP-236: 'Three extra options --generate-extra  --verify-extra  --execute-extra'; 'only 1 more watch'."""
    partitions = yard.create(topic, (1, 2), partitions=3)
    by, at = ("--zookeeper", yard.cluster.zookeeper_connect), ("--bootstrap-server", yard.bootstrap)
    topics = written(tmp_path, {"version": 1, "topics": [{"topic": topic}]}, "topics.json")
    with yard.traffic(partitions, records=20):
        status, out, _ = ours(*at, "--generate-extra", "--topics-to-move-json-file", topics, "--broker-list", "3,4")
        assert status == 0, out
        plan = json.loads(out.split("Proposed partition reassignment configuration\n")[1])
        assert {frozenset(one["replicas"]) for one in plan["partitions"]} == {frozenset((3, 4))}
        for one in plan["partitions"]:
            del one["log_dirs"]
        extra = written(tmp_path, plan)
        told = ours(*by, "--verify-extra", "--reassignment-json-file", extra)[1]
        assert told.count("There is no active reassignment of partition") == 3, told
        yard.throttle(topic, 50_000)
        assert ours(*by, "--execute-extra", "--reassignment-json-file", extra)[0] == 0
        wait_until(lambda: yard.moving() == set(partitions), what="they are taken", timeout_s=60)
        told = ours(*by, "--verify-extra", "--reassignment-json-file", extra)[1]
        assert told.count("is still in progress.") == 3, told
        # However many partitions move, their own znodes are not watched: only the topic's and the extra one's are.
        # A watch that has just fired is armed again a moment later.
        for path in (f"/brokers/topics/{topic}", "/admin/reassign_partitions_extra"):
            wait_until(lambda path=path: watches_of(yard, path) == 1, what=f"{path} is watched", timeout_s=20)
        assert not [path for path in watched_paths(yard) if f"/topics/{topic}/" in path]
        yard.throttle(topic, None)
        wait_until(lambda: yard.moving() == set(), what="they are moved", timeout_s=60)
    told = ours(*by, "--verify-extra", "--reassignment-json-file", extra)[1]
    assert told.splitlines() == [
        "Status of partition reassignment:",
        *(f"Reassignment of partition {tp} is completed." for tp in partitions),
    ]


def test_a_request_znode_on_real_brokers(yard, topic, zk):
    """KIP-236's second protocol, by hand: a persistent sequential znode moves partitions."""
    partitions = yard.create(topic, (1, 2, 3), partitions=2)
    with yard.traffic(partitions, records=20):
        document = {"version": 1, "assignments": {topic: {"0": [2, 3, 4], "1": [2, 3, 4]}}}
        zk.create("/admin/reassignment_requests/request_", json.dumps(document).encode(), sequence=True)
        wait_until(lambda: not zk.get_children("/admin/reassignment_requests"), what="it is taken", timeout_s=20)
        yard.wait_moved(partitions, (2, 3, 4))


def test_the_verbs_turn_moves_of_our_controller(yard, topic, tmp_path):
    """submit, status, pause, resume, relax, stop, rollback, list, verify. No record is lost meanwhile."""
    partitions = yard.create(topic, (1, 2, 3), partitions=3)
    at = ("--bootstrap-server", yard.bootstrap)
    plan = written(tmp_path, plan_of(partitions, (4, 3, 2)))
    with yard.traffic(partitions, records=200):
        status, out = cli("submit", *at, "--dry-run", plan)
        assert status == 0, out
        assert "3 moves" in out
        yard.throttle(topic, 20_000)
        status, out = cli("submit", *at, "--yes", plan)
        assert (status, out) == (0, "3 of 3 partitions taken on by the controller\n")
        status, out = cli("status", *at)
        assert status == 0, out
        assert f"{topic}-0 [1, 2, 3] → [4, 3, 2] (forward, moving): waits for broker 4 to catch up" in out
        assert "3 moves are under way that the journal does not have: " in out
        assert "a rollback is instant" in out
        told = json.loads(cli("status", *at, "--json", f"{topic}-1")[1])
        (row,) = told["others"]
        assert (row["original"], row["step"], told["moves"]) == ([1, 2, 3], [1, 2, 3, 4], [])
        unasked = cli("stop", *at)
        assert (unasked[0], "not in the journal, so another tool or `shunter submit` began" in unasked[1]) == (2, True)
        assert cli("pause", *at, "--yes")[1].endswith("3 of 3 partitions: pause taken on by the controller\n")
        assert "(forward, paused)" in cli("status", *at, f"{topic}-1")[1]
        resumed = cli("resume", *at, f"{topic}-1", "--yes")
        assert (resumed[0], "1 of 1 partition: resume taken on by the controller" in resumed[1]) == (0, True)
        assert "(forward, moving)" in cli("status", *at, f"{topic}-1")[1]
        status, out = cli("relax", *at, "--plan", plan, "--yes")
        assert (status, "1 of 3 partitions: relax taken on" in out) == (1, True), out
        assert "it is paused: only a move in the phase moving can be relaxed" in out
        assert cli("stop", *at, f"{topic}-0", "--yes")[0] == 0
        assert cli("rollback", *at, "--topic", topic, "--yes")[0] == 0
        wait_until(lambda: yard.moving() == set(), what="everything ended", timeout_s=20)
        assert cli("list", *at, "--json") == (0, "{}\n")
        assert cli("verify", *at, plan)[0] == 1
        misfit = written(tmp_path, plan_of(partitions[:1], (4, 3, 2), original=(3, 2, 1)), "misfit.json")
        status, out = cli("submit", *at, "--yes", misfit)
        assert (status, "the plan was made when" in out, "0 of 1 partition taken on" in out) == (7, True, True), out
        yard.throttle(topic, None)
    yard.wait_moved(partitions, (1, 2, 3))


def test_what_is_generated_says_the_same_of_what_is(yard, topic, tmp_path):
    """The proposal begins at a random broker in both tools; its shape, and all that is not random, is the same."""
    yard.create(topic, (1, 2, 3), partitions=4)
    topics = written(tmp_path, {"version": 1, "topics": [{"topic": topic}]})
    asked = ("--bootstrap-server", yard.bootstrap, "--generate", "--topics-to-move-json-file", topics)
    # Apache's tool runs first: while its Java starts, every broker learns of the topic.
    apache, mine = (tool(*asked, "--broker-list", "2,3,4") for tool in (lambda *given: apaches(yard, *given), ours))
    assert mine[0] == apache[0] == 0, (mine, apache)
    lines = mine[1].split("\n"), apache[1].split("\n")
    assert [line for line in lines[0] if line[:1] != "{"] == [line for line in lines[1] if line[:1] != "{"]
    now, proposed = (
        [line for line in each if line[:1] == "{"] for each in zip(*lines, strict=True) if each[0][:1] == "{"
    )
    assert now[0] == now[1]
    shapes = [
        sorted(
            (one["topic"], one["partition"], len(one["replicas"]), sorted(one["replicas"]), one["log_dirs"])
            for one in plan
        )
        for plan in (json.loads(line)["partitions"] for line in proposed)
    ]
    assert shapes[0] == shapes[1]
    for broken in (("--broker-list", "2,77"), ("--broker-list", "2"), ("--broker-list", "2,2")):
        assert ours(*asked, *broken)[:2] == apaches(yard, *asked, *broken)[:2]


def test_log_dirs_in_a_plan_print_the_same(yard, topic, tmp_path):
    """Replicas that are already in the wanted log dirs: execute and verify print the words of Apache's tool."""
    partitions = yard.create(topic, (1, 2, 3), partitions=2)
    holders = [yard.cluster.brokers[id_] for id_ in (1, 2, 3)]
    wait_until(
        lambda: all(
            any(broker.folder.glob(f"**/{tp.topic}-{tp.partition}")) for broker in holders for tp in partitions
        ),
        what="all hold it",
        timeout_s=30,
    )
    folders = {
        id_: str(next(broker.folder.glob(f"**/{topic}-0")).parent)
        for id_, broker in yard.cluster.brokers.items()
        if id_ < 4
    }
    plan = plan_of(partitions, (1, 2, 3))
    for entry in plan["partitions"]:
        entry["log_dirs"] = [folders[id_] for id_ in entry["replicas"]]
    path = written(tmp_path, plan)
    at = ("--bootstrap-server", yard.bootstrap)
    for given in (
        (*at, "--execute", "--reassignment-json-file", path),
        (*at, "--verify", "--reassignment-json-file", path),
    ):
        assert ours(*given) == apaches(yard, *given)
    # Broker 4 has no replica in any log dir, and throttles stay.
    elsewhere = plan_of(partitions[:1], (4, 2, 3))
    elsewhere["partitions"][0]["log_dirs"] = ["/d4", "any", folders[3]]
    given = (*at, "--verify", "--reassignment-json-file", written(tmp_path, elsewhere, "elsewhere.json"))
    assert ours(*given) == apaches(yard, *given)
    # A broker that has no such log dir refuses.
    nowhere = plan_of(partitions[:1], (1, 2, 3))
    nowhere["partitions"][0]["log_dirs"] = ["/nowhere", "any", "any"]
    given = (*at, "--execute", "--reassignment-json-file", written(tmp_path, nowhere, "nowhere.json"))
    (status, out, _), apache = ours(*given), apaches(yard, *given)
    assert (status, out) == (apache[0], f"{apache[1]}: LOG_DIR_NOT_FOUND")


def test_a_dead_broker_does_not_hold_up_a_throttle(yard, topic, tmp_path, zk):
    """KAFKA-13392: live brokers are throttled and report it. The move goes on, and no throttle is left at the end."""
    partitions = yard.create(topic, (1, 2), partitions=2)
    at = ("--bootstrap-server", yard.bootstrap)
    plan = written(tmp_path, plan_of(partitions, (1, 3)))
    yard.cluster.brokers[4].kill()
    try:
        wait_until(lambda: not zk.exists("/brokers/ids/4"), what="broker 4 is gone", timeout_s=30)
        with yard.traffic(partitions):
            status, out, _ = ours(*at, "--execute", "--reassignment-json-file", plan, "--throttle", 9_000_000)
            assert status == 0, out
            wait_until(lambda: yard.moving() == set(), what="it is moved", timeout_s=60)
            status, out, _ = ours(*at, "--verify", "--reassignment-json-file", plan)
            assert status == 0, out
        assert cli("throttles", "list", *at) == NO_THROTTLE
    finally:
        yard.cluster.brokers[4].start()
    yard.wait_moved(partitions, (1, 3))


def test_a_rate_that_no_network_carries_moves_nothing(yard, topic, tmp_path):
    partitions = yard.create(topic, (1, 2), partitions=2)
    at = ("--bootstrap-server", yard.bootstrap)
    plan = written(tmp_path, plan_of(partitions, (1, 3)))
    beyond = f"{2**63}B"
    for command in (("execute", *at, "--yes", "--throttle", beyond, plan), ("limit", *at, beyond)):
        status, out = cli(*command)
        assert status == 2, out
        assert "is more than any network carries" in out, out
    assert yard.moving() == set()
    assert cli("throttles", "list", *at) == NO_THROTTLE


def test_topics_are_described_with_their_targets(yard, topic, tmp_path):
    partitions = yard.create(topic, (1, 2, 3), partitions=2)
    at = ("--bootstrap-server", yard.bootstrap)
    # Apache's tool runs first: while its Java starts, every broker learns of the topic.
    apache = yard.cluster.kafka_tool(TOPICS, *at, "--describe", "--topic", topic)
    mine = cli("kafka-topics", *at, "--describe", "--topic", topic)
    assert mine == (apache.returncode, apache.stdout)
    with yard.traffic(partitions, records=60):
        plan = written(tmp_path, plan_of(partitions, (4, 3, 2)))
        yard.throttle(topic, 20_000)
        assert cli("submit", *at, "--yes", plan)[0] == 0
        described = cli("kafka-topics", *at, "--describe", "--topic", topic)[1]
        assert described.count("targetReplicas: 4,3,2") == 2, described
        assert cli("rollback", *at, "--yes")[0] == 0
        yard.throttle(topic, None)
    yard.wait_moved(partitions, (1, 2, 3))


def test_the_admin_client_of_the_kip(yard, topic):
    """KIP-455: futures per partition, all(), and three ways to list."""
    partitions = yard.create(topic, (1, 2, 3), partitions=3)
    client = KafkaAdminClient(bootstrap_servers=yard.bootstrap)
    admin = ReassignmentAdmin(client)
    try:
        with yard.traffic(partitions, records=60):
            yard.throttle(topic, 20_000)
            moves = {
                partitions[0]: NewPartitionReassignment((4, 3, 2)),
                partitions[1]: NewPartitionReassignment((77,)),
                partitions[2]: None,
            }
            result = admin.alter_partition_reassignments(moves)
            assert result.futures[partitions[0]].result(timeout=20) is None
            assert result.futures[partitions[1]].exception().error_code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
            assert result.futures[partitions[2]].exception().error_code is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
            assert isinstance(result.all().exception(), RequestRejected)
            everything = admin.list_partition_reassignments().reassignments.result(timeout=20)
            assert set(everything) == {partitions[0]}
            assert everything[partitions[0]].target == (4, 3, 2)
            assert everything[partitions[0]].detail.original == (1, 2, 3)
            assert admin.list_partition_reassignments(partitions[1:]).reassignments.result(timeout=20) == {}
            assert set(admin.list_partition_reassignments([topic]).reassignments.result(timeout=20)) == {partitions[0]}
            assert admin.list_partition_reassignments(["absent"]).reassignments.result(timeout=20) == {}
            stopping = AlterPartitionReassignmentsOptions(intervention=Intervention.STOP)
            assert admin.cancel_whole(None, stopping) == {partitions[0]: None}
            yard.throttle(topic, None)
    finally:
        admin.close()
        client.close()
    yard.wait_moved(partitions, (1, 2, 3))
