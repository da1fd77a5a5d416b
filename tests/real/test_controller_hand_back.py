"""A cluster handed back to Apache's controller in mid-move: nothing is left that only Shunter could end."""

import json

import pytest
from kazoo.client import KazooClient
from yard import cli, running_yard

pytestmark = [pytest.mark.real, pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")]


@pytest.mark.timeout(600)
def test_in_mid_move_and_again_when_apache_leads(tmp_path):
    with running_yard(tmp_path) as yard:
        partitions = yard.create("t", (1, 2), partitions=2)
        at = ("--zookeeper", yard.cluster.zookeeper_connect, "--bootstrap-server", yard.bootstrap)
        with yard.traffic(partitions, records=50):
            yard.move(partitions, (3, 4))
            status, told = cli("hand-back", *at, "--timeout", "300")
            assert status == 0, told
        assert "no move is under way, and no broker owes anything" in told
        assert "nothing is under-replicated because of it" in told
        zk = KazooClient(yard.cluster.zookeeper_connect)
        zk.start()
        try:
            holder = json.loads(zk.get("/controller")[0])
            assert holder["brokerid"] in yard.cluster.brokers
            assert "shunter_process" not in holder
            assert zk.get_children("/admin/reassignments") == []
            assignment = json.loads(zk.get("/brokers/topics/t")[0])
            assert assignment["partitions"] == {"0": [3, 4], "1": [3, 4]}
            assert not assignment["adding_replicas"]
        finally:
            zk.stop()
            zk.close()
        assert not yard.controller.alive
        status, told = cli("hand-back", *at)
        assert status == 0
        assert "there is nothing to hand back" in told
