import gc
import sys
import warnings
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest
from kazoo.client import KazooClient

from lab.testbed.kraft import KRaftCluster
from lab.testbed.waiting import wait_until

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session", autouse=True)
def state_folder(tmp_path_factory):
    """A folder of the tests for the files that executors keep beside their journals; and settings of all verbs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SHUNTER_STATE", str(tmp_path_factory.mktemp("state")))
        # How full this machine's disk is, on which all brokers are, decides nothing.
        patch.setenv("SHUNTER_HEADROOM_PERCENT", "0")
        patch.setenv("SHUNTER_DISK_SHARE", "1")
        yield


@pytest.fixture
def zk(yard):
    """A client of the yard's ZooKeeper, with its chroot."""
    client = KazooClient(yard.cluster.zookeeper_connect)
    client.start()
    yield client
    client.stop()
    client.close()


@pytest.fixture
def topic():
    """The name of a topic that no other test uses; it does not exist yet."""
    return f"t-{uuid4().hex[:8]}"


@pytest.fixture
def corner(zookeeper, chroot):
    """An empty corner of the ZooKeeper that tests share: its connect string, and a client of it."""
    root = KazooClient(zookeeper.connect_string)
    root.start()
    root.ensure_path(chroot)
    root.stop()
    root.close()
    client = KazooClient(zookeeper.connect_string + chroot)
    client.start()
    yield zookeeper.connect_string + chroot, client
    client.stop()
    client.close()


@pytest.fixture
def tidied(request):
    """A context manager for a shared cluster: it ends a test's executors, and after a failure cleans the cluster up."""
    import tidying

    @contextmanager
    def watched(servers, bootstrap, **login):
        yield
        tidying.end_all()
        if getattr(request.node, "failed_once", False):
            tidying.tidy_up(servers.values(), {"bootstrap_servers": bootstrap.split(","), **login})

    return watched


@pytest.fixture
def kraft(shared_kraft, tidied):
    """The file's cluster `shared_kraft`, cleaned up after a test that failed."""
    with tidied(shared_kraft.nodes, shared_kraft.bootstrap):
        yield shared_kraft


@pytest.fixture(scope="module")
def shared_kraft(tmp_path_factory):
    """Three KRaft nodes for one file's tests, because the topic of transactions wants three replicas."""
    from executor_scenarios import BROKERS
    from yard import HELD_BACK

    folder = tmp_path_factory.mktemp("kraft")
    with KRaftCluster(folder, node_ids=BROKERS, heap_mib=200, properties=HELD_BACK) as cluster:
        yield cluster


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark all tests of this folder, and those of the shared cluster, which `./test` runs beside the others."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker("real")
        if "shared_yard" in getattr(item, "fixturenames", ()):
            item.add_marker("shared")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    """Remember that a test failed, for the fixtures that clean up after it, and show the controller's evidence."""
    report = yield
    item.failed_once = getattr(item, "failed_once", False) or report.failed
    if report.failed and (evidence := getattr(item.funcargs.get("yard"), "evidence", None)):
        try:
            report.sections.extend(evidence())
        except Exception as error:  # noqa: BLE001 - the report shows why the test failed, whatever the cluster does
            report.sections.append(("No evidence", repr(error)))
    return report


@pytest.fixture
def yard(request, shared_yard, tidied):
    """The cluster of all tests that leave it as they found it. After a test that failed the cluster is cleaned up."""
    with tidied(shared_yard.cluster.brokers, shared_yard.bootstrap):
        shared_yard.wait_for_controller()
        yield shared_yard
    if not getattr(request.node, "failed_once", False):
        # A move that still ran would run into the next test, which may kill a broker that the move needs.
        wait_until(lambda: shared_yard.moving() == set(), what="nothing of this test moves any more", timeout_s=60)


@pytest.fixture(scope="session")
def shared_yard(tmp_path_factory):
    """The one cluster behind `yard`."""
    from yard import running_yard

    with running_yard(tmp_path_factory.mktemp("yard")) as started:
        yield started
    # kafka-python does not close the socket of a connection that a dead broker refused.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture
def service(tmp_path):
    """The service, not started yet. Its processes end with the test."""
    from serve_process import Service

    made = Service(tmp_path)
    yield made
    made.close()
