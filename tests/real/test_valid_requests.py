"""Valid requests of any content and size against a controller process: it goes on, and brokers start with what it wrote.

Every API that the node serves itself, in every version: well-formed requests, drawn at random, some of them made from what
the cluster has, some of any values that the protocol's types can hold. Half a minute by default, ten minutes with `--long`
(`SHUNTER_REQUEST_FUZZ_SECONDS`, `SHUNTER_REQUEST_FUZZ_LONG_SECONDS`); the seed is printed, and `SHUNTER_REQUEST_FUZZ_SEED`
sets it.
"""

import os
import random
import time
from collections import Counter

import pytest
from raw_connection import RawConnection
from valid_requests import Requests
from yard import TOPICS

from lab.testbed.cluster import ZooKeeperCluster
from lab.testbed.controller import ShunterController
from lab.testbed.failures import PartFailed
from lab.testbed.waiting import wait_until
from lab.testbed.zookeeper import ZooKeeperServer
from shunter.wire.requests import SERVED

BROKERS = (1, 2, 3)
US = 1000
PIPELINED = 6
ANSWER_SECONDS = 120
"""Small brokers take half a minute to make thousands of replicas, and requests wait behind that work."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    held = {}

    def start_controller(cluster, stack):
        options = ("--set", "session-timeout-ms=6000", "--takeover", "preempt")
        controller = ShunterController(cluster.folder / "controller", cluster.zookeeper_connect, options=options)
        held["controller"] = stack.enter_context(controller)

    folder = tmp_path_factory.mktemp("requests")
    with (
        # Topics of a megabyte don't fit into the small heap that serves for other tests.
        ZooKeeperServer(folder / "zookeeper", heap_mib=512) as zookeeper,
        ZooKeeperCluster(
            folder,
            broker_ids=BROKERS,
            zookeeper=zookeeper,
            before_brokers=start_controller,
            properties={"zookeeper.session.timeout.ms": 6000},
            heap_mib=256,
        ) as started,
    ):
        started.controller = held["controller"]
        yield started


def feed(cluster, seconds, seed):
    """Send requests for so many seconds, and wait for each answer; the number of requests by API."""
    asked = Counter()
    ends = time.monotonic() + seconds
    with (
        Requests(random.Random(seed), cluster.zookeeper_connect, BROKERS, US) as requests,
        RawConnection(cluster.controller.port) as connection,
    ):
        connection.socket.settimeout(ANSWER_SECONDS)
        while time.monotonic() < ends or len(asked) < len(SERVED):  # On a slow machine, one request of each API.
            batch = requests.batch(requests.random.randint(1, PIPELINED))
            for request in batch:
                connection.send(request.frame)
            for request in batch:
                answer = connection.answer()
                assert answer is not None, (
                    f"seed {seed}: {request} closed its connection\n{cluster.controller.log_tail()}"
                )
                asked[request.api_key] += 1
    return asked


def check_whole(cluster, seed, restarted):
    """Check that the controller leads and logged no bug, and that restarted brokers start and describe every topic."""
    log = (cluster.controller.folder / f"{cluster.controller.name}.log").read_text(errors="replace")
    told = [
        line for line in log.splitlines() if "bug" in line or "request-met-a-bug" in line or "write-too-great" in line
    ]
    assert not told, f"seed {seed}: {told[:5]}"
    assert cluster.controller.is_leading()
    for broker in restarted:
        try:
            broker.stop(timeout_s=60)
            broker.start()
        except PartFailed as failure:
            pytest.fail(f"seed {seed}: {broker.name} does not start on what is in ZooKeeper: {failure}")
    cluster.wait_for_metadata()
    bootstrap = restarted[0].bootstrap

    def described():
        done = cluster.kafka_tool(TOPICS, "--bootstrap-server", bootstrap, "--describe", timeout_s=120)
        return done.returncode == 0 or done.stderr

    wait_until(lambda: described() is True, what=f"seed {seed}: every topic is described", timeout_s=120)


def run(cluster, seconds, record_property, brokers=1):
    # The default run sends the same requests each time; the long run draws a new seed.
    seed = int(
        os.environ.get("SHUNTER_REQUEST_FUZZ_SEED") or (1 if brokers == 1 else random.SystemRandom().getrandbits(32))
    )
    print(f"requests of seed {seed}")
    pid = cluster.controller.process.pid
    asked = feed(cluster, seconds, seed)
    assert cluster.controller.process.pid == pid
    check_whole(cluster, seed, list(cluster.brokers.values())[:brokers])
    print(f"{sum(asked.values())} requests, by API: {dict(sorted(asked.items()))}")
    record_property("requests", sum(asked.values()))


@pytest.mark.timeout(400)
def test_no_valid_request_ends_the_controller_or_keeps_a_broker_from_starting(cluster, record_property):
    run(cluster, float(os.environ.get("SHUNTER_REQUEST_FUZZ_SECONDS", "30")), record_property)


@pytest.mark.long
@pytest.mark.timeout(1_500)
def test_no_valid_request_does_in_ten_minutes(cluster, record_property):
    run(
        cluster,
        float(os.environ.get("SHUNTER_REQUEST_FUZZ_LONG_SECONDS", "600")),
        record_property,
        brokers=len(BROKERS),
    )
