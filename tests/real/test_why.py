"""The state-change log of a controller over real brokers, and the answers of `shunter why` from it."""

import json

from yard import cli

from lab.testbed.waiting import wait_until
from shunter.app.exit_codes import ExitCode


def why(yard, *question):
    """The answer. The exit status is 1 exactly if nothing is logged about the subject."""
    status, told = cli("why", *question, "--log-dir", yard.log_dir)
    assert status == ("Nothing is logged about" in told), told
    return told


def test_a_move_is_told_from_the_request_to_the_deletion(yard):
    partitions = yard.create("why-moved", [1, 2], partitions=1)
    yard.move(partitions, [2, 3])
    yard.wait_moved(partitions, [2, 3])
    wait_until(lambda: "→ over" in why(yard, "why-moved-0"), what="the log has the end of the move", timeout_s=20)
    told = why(yard, "why-moved-0")
    assert "the log in" in told.splitlines()[0]
    assert "somebody asked for moves, or cancelled some [ReassignmentsSubmitted#" in told
    assert "AlterReassignmentsRequest v" in told
    assert "move accepted: no move → pending, from [1, 2] to [2, 3]" in told
    assert "broker 1 shall delete its replica" in told
    deletion = next(line for line in told.splitlines() if "StopReplica #" in line and "queued to broker 1" in line)
    request = deletion.split("StopReplica ")[1].split()[0]
    assert f"broker 1 acknowledged {request} after" in told
    assert "Nothing is logged about why-moved-0 since then" in why(yard, "why-moved-0", "--since", "0s")

    lines = [json.loads(line) for line in why(yard, "why-moved-0", "--json").splitlines()]
    assert {line["kind"] for line in lines} >= {"started", "elected", "move", "decided", "sent", "answered"}
    epochs = {line["after"]["leader_epoch"] for line in lines if line["kind"] == "decided" and "after" in line}
    assert len(epochs) > 1


def test_a_refused_request_is_told(yard):
    partitions = yard.create("why-refused", [1, 2], partitions=1)
    assert any(yard.ask_to_move(partitions, [1, 99]).values())
    # Creating the topic may have been refused before, while the brokers started.
    told = "refused: why-refused-0: INVALID_REPLICA_ASSIGNMENT"
    wait_until(lambda: told in why(yard, "why-refused-0"), what="the log has it", timeout_s=20)


def test_a_question_that_can_not_be_answered(yard, tmp_path):
    assert "Nothing is logged about nothing-0" in why(yard, "nothing-0")
    status, told = cli("why", "orders-0", "--log-dir", tmp_path)
    assert status == ExitCode.JOURNAL
    assert "there is no state-change" in told
    for wrong in (("orders",), ("orders-0", "--broker", "1"), ("orders-0", "--since", "yesterday"), ()):
        assert cli("why", *wrong, "--log-dir", yard.log_dir)[0] == 2


def audited(yard, api, topic):
    """Lines of the audit log about a topic; the log is created with its first line."""
    log = yard.log_dir / "audit.log"
    lines = [json.loads(line) for line in (log.read_text().splitlines() if log.is_file() else ())]
    return [line for line in lines if line["api"] == api and any(each.get("topic") == topic for each in line["asked"])]


def test_administrative_requests_are_in_the_audit_log_and_those_of_brokers_are_not(yard):
    partitions = yard.create("audited", [1, 2], partitions=1)
    yard.asked(lambda admin: admin.delete_topics(["audited"]))
    wait_until(lambda: audited(yard, "DeleteTopics", "audited"), what="the log has the deletion", timeout_s=20)
    created = audited(yard, "CreateTopics", partitions[0].topic)[-1]
    assert (created["address"], created["principal"]) == ("127.0.0.1", "User:ANONYMOUS")
    assert created["client_id"].startswith("kafka-python")
    assert created["outcome"] == {"NONE": 1}
    assert audited(yard, "DeleteTopics", "audited")[-1]["outcome"] == {"NONE": 1}
    text = (yard.log_dir / "audit.log").read_text()
    assert '"api":"AlterPartition"' not in text
    assert '"api":"Metadata"' not in text
