"""The service on real ZooKeeper-mode clusters, under Apache's controller and under Shunter's."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from executor_process import Cluster, Shunter
from live_producer import LiveProducer, fill
from serve_process import Service, counts
from yard import HELD_BACK, running_yard

from lab.testbed.cluster import ZooKeeperCluster
from lab.testbed.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.timeout(1_800)]

BROKERS = (1, 2, 3, 4)
PARTITIONS = 6
TOPIC = "tilted"
POLICY = """
[cluster.yard]
bootstrap-server = "{bootstrap}"
journal = "moves.journal"

[cluster.yard.balance]
headroom-percent = 0

[cluster.yard.conditions]
disk-band = {band}
replicas-band = "off"
leaders-band = "off"
broker-empty = "off"
leaders-away = "off"
disk-full = "off"
log-dir-full = "off"

[cluster.yard.execution]
throttle = "{throttle}"

[service]
look-seconds = 2
"""
BALANCED = "{ minutes = 0, begin-percent = 30, end-percent = 20 }"


@pytest.fixture(params=["apache", "shunter"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ZooKeeperCluster]:
    """Four Apache brokers; the parameter names their controller."""
    if request.param == "shunter":
        with running_yard(tmp_path) as yard:
            yield yard.cluster
        return
    with ZooKeeperCluster(tmp_path, broker_ids=BROKERS, heap_mib=160, properties=HELD_BACK) as started:
        yield started


def test_balanced_killed_turned_drained_replaced_and_filled(
    cluster: ZooKeeperCluster, service: Service, tmp_path: Path
) -> None:
    policy = tmp_path / "keeper.toml"
    policy.write_text(POLICY.format(bootstrap=cluster.bootstrap, band=BALANCED, throttle="2K"))
    with closing(Cluster(cluster.bootstrap)) as client:
        client.make(TOPIC, dict.fromkeys(range(PARTITIONS), (1, 2)))
        fill(cluster.bootstrap, TOPIC, PARTITIONS, 2_000_000, held_back=True)
        wait_until(lambda: client.in_sync(TOPIC), what="all are in sync", timeout_s=60)
        with LiveProducer(cluster.bootstrap, TOPIC, PARTITIONS, every_s=0.02) as producer:
            service.start()
            executor = Shunter(cluster.bootstrap, tmp_path / "moves.journal")
            it_is_killed_paused_and_one_move_is_rolled_back(client, service, executor)
            # The balance part is over. From now on only requested moves run, and they may be fast.
            policy.write_text(POLICY.format(bootstrap=cluster.bootstrap, band='"off"', throttle="50M"))
            service.wait_for_event("policy-taken", "")
            a_broker_is_emptied_and_safe_to_remove(client, service)
            another_one_is_replaced_by_it_and_gets_its_share_again(client, service)
        assert producer.failures == []
        assert producer.missing() == {}
        assert client.throttles(BROKERS, (TOPIC, "__consumer_offsets")) == {}
        assert client.ongoing() == 0
        assert service.stop() == 0


def it_is_killed_paused_and_one_move_is_rolled_back(client: Cluster, service: Service, executor: Shunter) -> None:
    proposal = service.approve("rebalance")
    wait_until(lambda: client.ongoing() > 0, what="it moves", timeout_s=60)
    service.kill_and_restart()  # At 2 KB/s the move would take another hour.
    service.wait_until_driven()
    assert service.ask("pause").returncode == 0
    wait_until(lambda: counts(executor).keys() <= {"paused", "done"}, what="all is paused", timeout_s=60)
    service.kill_and_restart()
    service.wait_until_driven()
    assert counts(executor)["paused"] > 0, "the switch outlived the service"
    assert service.ask("resume").returncode == 0
    wait_until(lambda: client.moving(TOPIC) != set(), what="it moves again", timeout_s=60)

    turned = min(client.moving(TOPIC))
    done = service.ask("rollback", f"{TOPIC}-{turned}", "--cluster", "yard", "--yes")
    assert done.returncode == 0, done.stderr
    wait_until(lambda: client.replicas(TOPIC)[turned] == (1, 2), what="it is back", timeout_s=60)
    assert service.ask("limit", "none", "--cluster", "yard").returncode == 0
    rows = service.until(lambda rows: rows[0]["state"] not in ("approved", "starting", "running"), "it is over")
    (ended,) = (row for row in rows if row["id"] == proposal["id"])
    assert ended["state"] == "turned", ended
    assert "1 rolled back" in ended["outcome"], ended
    assert client.replicas(TOPIC)[turned] == (1, 2)


def a_broker_is_emptied_and_safe_to_remove(client: Cluster, service: Service) -> None:
    service.intend("intend", "drain", "4")
    service.carry_out("drain")
    service.wait_for_event("broker-empty", "broker 4")
    assert held_by(client, 4) == 0
    service.intend("withdraw", "drain", "4")


def another_one_is_replaced_by_it_and_gets_its_share_again(client: Cluster, service: Service) -> None:
    held = held_by(client, 3)
    assert held > 0
    service.intend("intend", "replace", "3=4")
    service.carry_out("replace")
    service.wait_for_event("broker-empty", "broker 3")
    assert (held_by(client, 3), held_by(client, 4)) == (0, held)
    service.intend("withdraw", "replace", "3")

    service.intend("intend", "add", "3")
    service.carry_out("fill")
    service.wait_for_event("condition-over", "add broker 3")
    assert held_by(client, 3) > 0


def held_by(client: Cluster, broker: int) -> int:
    """Replicas of all topics on a broker."""
    topics = client.admin.describe_topics()
    return sum(broker in partition["replica_nodes"] for topic in topics for partition in topic["partitions"])
