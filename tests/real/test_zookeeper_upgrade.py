"""Versions that change under way in ZooKeeper mode, with Shunter as the controller of brokers that always move.

Source: the design documents' chapters on compatibility and upgrades: KIP-455, and the KIP on the max broker epoch.
"""

import json
import random
import threading
from contextlib import ExitStack, closing, suppress
from itertools import permutations

import pytest
from kazoo.client import KazooClient
from test_controller_hand_over import IDS, follow, wait_deleted
from test_max_broker_epoch import switch, two_passes
from yard import HELD_BACK, Yard, plan_of

from lab.demo.proof import Leftovers
from lab.faults.transactions import LiveTransactions
from lab.testbed.cluster import ZooKeeperCluster
from lab.testbed.waiting import wait_until
from shunter.drivers.admin.blocking import BlockingAdmin
from shunter.drivers.admin.reassignments import AlterOptions
from shunter.errors import DriverError, ErrorCode, RequestRejected
from shunter.formats.znodes import paths as znodes

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(1_800),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

BOUND_S = 120
OLD, NEW = "2.8.2", "3.9.2"
PROTOCOL = "inter.broker.protocol.version"
ROLLS = ((NEW, "2.8"), (OLD, "2.8"), (NEW, "2.8"), (NEW, "3.4"), (NEW, "3.9"))
"""Each gives all brokers another version, or another protocol, one broker after the other."""
RATE = 250_000
WRITTEN, COMMITTED = "written", "committed"
TARGETS = tuple(permutations(IDS, 2))


class Mover:
    """Begins a move of some partition that rests, again and again, whoever is the controller."""

    def __init__(self, yard, partitions):
        self.yard, self.bootstrap = yard, yard.bootstrap
        self.topics = sorted({tp.topic for tp in partitions})
        self.ends = {tp: {replicas.replicas} for tp, replicas in self.found().items()}
        """Where each partition may be at the end: more than one place only after a request without an answer."""
        self.under_way = {}
        self.begun = self.ended = self.cut_short = self.refused = self.unanswered = 0
        self.chance = random.Random(28)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join(BOUND_S)

    def found(self):
        with closing(Leftovers(self.yard.cluster.zookeeper_connect)) as leftovers:
            return leftovers.assignments(self.topics)

    def wait_for_more(self, count=3):
        """Wait until so many more moves have begun, and have ended at their targets."""
        begun, ended = self.begun + count, self.ended + count
        wait_until(lambda: self.begun >= begun and self.ended >= ended, what=f"{count} more moves", timeout_s=BOUND_S)

    def _run(self):
        while not self._over.wait(0.3):
            with suppress(DriverError), BlockingAdmin({"bootstrap_servers": self.bootstrap}) as admin:
                self._turn(admin)

    def _turn(self, admin):
        listed, found = admin.list_moves(), self.found()
        resting = sorted(found.keys() - listed.keys())
        for tp in resting:
            if (target := self.under_way.pop(tp, None)) is not None:
                self.ended += found[tp].replicas == target
                self.cut_short += found[tp].replicas != target
        chosen = self.chance.sample(resting, min(2, len(resting)))
        targets = {tp: self.chance.choice([each for each in TARGETS if each != found[tp].replicas]) for tp in chosen}
        try:
            answers = admin.alter_moves(targets, AlterOptions())
        except (DriverError, RequestRejected) as failed:
            answers = dict.fromkeys(targets, failed)
        for tp, target in targets.items():
            refusal = answers[tp]
            if refusal is None:
                self.begun += 1
                self.ends[tp] = {target}
                self.under_way[tp] = target
            elif isinstance(refusal, RequestRejected) and refusal.error_code is ErrorCode.INVALID_REPLICA_ASSIGNMENT:
                self.refused += 1  # It names a broker that is being restarted.
            else:
                self.unanswered += 1
                self.ends[tp].add(target)


class Upgrade:
    """A cluster of three brokers under a Shunter in the first pass, and what its operators do."""

    def __init__(self, folder, stack):
        self.folder = folder
        properties = {
            PROTOCOL: "2.8",
            "replica.lag.time.max.ms": 5_000,
            **HELD_BACK,
        }
        cluster = ZooKeeperCluster(
            folder, broker_ids=IDS, version=OLD, properties=properties, heap_mib=160, before_brokers=self._lead
        )
        stack.enter_context(cluster)
        self.yard = Yard(cluster, self.controller, self.settings)
        self.zk = KazooClient(cluster.zookeeper_connect)
        self.zk.start()
        stack.callback(self.zk.close)
        stack.callback(self.zk.stop)
        self.led = []
        """The versions of the brokers that were the controller in between."""

    def _lead(self, cluster, stack):
        log = f"log-dir={self.folder / 'log'}"
        options = ("--set", "session-timeout-ms=4000", "--set", log, "--takeover", "preempt")
        self.controller, self.settings = two_passes(self.folder, cluster.zookeeper_connect, *options)
        stack.enter_context(self.controller)

    @property
    def brokers(self):
        return self.yard.cluster.brokers

    def restart(self, id_, version, protocol):
        broker = self.brokers[id_]
        broker.stop(BOUND_S)
        broker.version = version
        broker._properties[PROTOCOL] = protocol
        broker.start()
        self.yard.cluster.wait_for_metadata()
        wait_until(self.in_sync, what=f"all is in sync, with {broker.name} at {version}", timeout_s=BOUND_S)

    def in_sync(self):
        """Whether every replica is in sync that is not being added."""
        with closing(Leftovers(self.yard.cluster.zookeeper_connect)) as leftovers:
            found = leftovers.assignments(self.zk.get_children("/brokers/topics"))
        return all(
            {*at.replicas} - {*at.adding} <= {*json.loads(self.zk.get(znodes.state(*tp))[0])["isr"]}
            for tp, at in found.items()
        )

    def two_passes(self, mover):
        """Put the greatest epoch of all brokers into all requests, and then each broker's own again; moves go on."""
        for word in ("max", "per-broker"):
            switch(self.controller, self.settings, word)
            mover.wait_for_more()
        assert "STALE_BROKER_EPOCH" not in self.controller.log_tail(10_000)

    def let_apache_lead(self, mover):
        """Kill Shunter in the middle of moves, let a broker lead and move, and start Shunter again."""
        wait_until(lambda: bool(self.yard.moving()), what="moves are under way", timeout_s=BOUND_S)
        self.controller.kill()
        follow(self.yard, None)
        self.led.append(self.brokers[json.loads(self.zk.get(znodes.CONTROLLER)[0])["brokerid"]].version)
        mover.wait_for_more()
        self.controller.start()
        follow(self.yard, self.controller)

    def copies(self):
        """(broker, partition) of each replica of the test's topics on disk."""
        places = [(id_, path) for id_, broker in self.brokers.items() for path in broker.data_folder.iterdir()]
        return {(id_, path.name) for id_, path in places if path.name.startswith((WRITTEN, COMMITTED))}

    def settle(self, mover):
        """Let all moves end without a throttle, and check that each ended where it should and left nothing."""
        self.yard.throttle(WRITTEN, None)
        wait_until(lambda: self.yard.moving() == set(), what="nothing moves", timeout_s=BOUND_S)
        found = mover.found()
        assert {tp: at for tp, at in found.items() if at.in_motion or at.replicas not in mover.ends[tp]} == {}
        places = {(id_, f"{tp.topic}-{tp.partition}") for tp, at in found.items() for id_ in at.replicas}
        wait_until(lambda: self.copies() == places, what="dropped replicas are deleted", timeout_s=BOUND_S)
        with closing(Leftovers(self.yard.cluster.zookeeper_connect)) as leftovers:
            wait_until(lambda: leftovers.check_znodes().holds, what="no znode is left", timeout_s=BOUND_S)
            throttled = leftovers.check_throttles([WRITTEN, COMMITTED], [*IDS])
        assert throttled.holds, throttled


def test_versions_and_protocols_roll_while_partitions_move_and_controllers_die(tmp_path):
    """No acknowledged record is lost or doubled, committed transactions are whole, and each move ends at its target."""
    with ExitStack() as stack:
        upgrade = Upgrade(tmp_path, stack)
        yard = upgrade.yard
        partitions = [*yard.create(WRITTEN, (1, 2)), *yard.create(COMMITTED, (2, 3), partitions=3)]
        traffic = stack.enter_context(yard.traffic(partitions[:4], records=50))
        transactions = stack.enter_context(LiveTransactions(yard.bootstrap, COMMITTED, 3))
        yard.throttle(WRITTEN, RATE)
        with Mover(yard, partitions) as mover:
            upgrade.let_apache_lead(mover)
            for version, protocol in ROLLS:
                for id_ in IDS:
                    upgrade.restart(id_, version, protocol)
                    if id_ == 1 and protocol == "2.8":
                        upgrade.two_passes(mover)
                    if (id_ == 2 and protocol == "2.8") or (id_ == 3 and version == OLD):
                        upgrade.let_apache_lead(mover)
        upgrade.settle(mover)
        assert upgrade.controller.is_leading()
    assert upgrade.led.count(OLD) >= 2, upgrade.led
    assert traffic.failures == []
    print(
        f"{traffic.acked:,} records and {len(transactions.committed):,} transactions; longest gap of one partition "
        f"{traffic.longest_gap_s:.1f} s, of transactions {transactions.longest_gap_s:.1f} s; {mover.begun} moves, "
        f"{mover.ended} ended at their targets, {mover.cut_short} were cut short; {mover.refused} were refused, "
        f"{mover.unanswered} not answered; in between led {upgrade.led}"
    )


def test_a_move_that_no_broker_was_told_of_is_found_and_told_again(tmp_path):
    """KIP-455: "part of the reassignment is "stuck". Partitions with a targetReplica of C will never complete until the
    controller gets restarted and a new LeaderAndIsr is sent out."
    """
    with ExitStack() as stack:
        upgrade = Upgrade(tmp_path, stack)
        yard, zk, topic = upgrade.yard, upgrade.zk, znodes.topic("t")
        partitions = yard.create("t", (1, 2), partitions=1)
        stack.enter_context(yard.traffic(partitions))

        # The controller that wrote this is gone, and Apache's, which leads now, has not read it.
        upgrade.controller.kill()
        follow(yard, None)
        found = json.loads(zk.get(topic)[0])
        in_motion = {"partitions": {"0": [2, 3, 1]}, "adding_replicas": {"0": [3]}, "removing_replicas": {"0": [1]}}
        zk.set(topic, json.dumps(found | in_motion).encode())
        with BlockingAdmin({"bootstrap_servers": yard.bootstrap}) as admin:
            assert admin.list_moves() == {}
        upgrade.controller.start()
        yard.wait_moved(partitions, (2, 3), timeout_s=BOUND_S)
        assert "reconciled: t-0: adopt" in upgrade.controller.log_tail(10_000)
        wait_deleted(yard, 1, partitions)

        # The broker that gets a replica dies before it has read the request, and is upgraded.
        broker = upgrade.brokers[1]
        broker.pause()
        zk.create("/admin/reassign_partitions", json.dumps(plan_of(partitions, (3, 1))).encode())
        wait_until(
            lambda: "1" in str(json.loads(zk.get(topic)[0])["adding_replicas"]), what="it begins", timeout_s=BOUND_S
        )
        broker.kill()
        assert not (broker.data_folder / "t-0").exists()
        upgrade.restart(1, NEW, "2.8")
        yard.wait_moved(partitions, (3, 1), timeout_s=BOUND_S)
