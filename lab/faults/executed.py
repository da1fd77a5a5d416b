"""The executor on a KRaft cluster of the newest Kafka."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

from lab.demo.account import ProvedOrNot
from lab.demo.cluster_proof import check_journal, check_nothing_ongoing, check_throttles
from lab.demo.executor_process import ExecutorProcess
from lab.faults.faulted import ADDED, BROKERS, PROPERTIES, RATE_BYTES_PER_S, Fault, FaultedCluster
from lab.testbed.kraft import KRaftCluster
from lab.testbed.process import run_bounded
from lab.testbed.server import Server
from lab.testbed.waiting import wait_until
from shunter.model.partition import BrokerId

OTHER = "other"
"""A second log dir of each broker."""
DRIVES_WITHIN_S = 60.0


class ExecutedCluster(FaultedCluster):
    """Four nodes, which are their own controllers, and `shunter execute` with its journal in a file."""

    title = "executor, KRaft"

    def __init__(self, folder: Path) -> None:
        """Describe it; nothing starts yet."""
        super().__init__(folder)
        self.cluster = KRaftCluster(
            folder / "kafka", node_ids=BROKERS, heap_mib=200, properties=PROPERTIES, more_log_dirs=(OTHER,)
        )

    @property
    def bootstrap(self) -> str:
        """Addresses of all brokers."""
        return self.cluster.bootstrap

    @property
    def brokers(self) -> Mapping[int, Server]:
        """The nodes."""
        return self.cluster.nodes

    def start(self, stack: ExitStack) -> None:
        """Start the cluster."""
        stack.enter_context(self.cluster)
        self.executor = ExecutorProcess(self.folder, self.bootstrap)
        stack.callback(self.executor.kill)

    def faults(self) -> Sequence[Fault]:
        """Those of brokers, and of the executor, the controller and a log dir."""
        return [
            Fault("SIGKILL of the executor", self.executor.kill, 3, self._resume),
            Fault("SIGSTOP of the executor", self._pause, 30, self._continue),
            Fault("SIGKILL of the controller", self._kill_controller, 8, self.start_dead),
            Fault("two of four controllers dead", self._lose_quorum, 15, self.start_dead),
            *self.of_brokers(),
            Fault("a log dir of the added broker fails", self._fail_log_dir, 15, self._mend_log_dir),
        ]

    def begin(self, plan: Path) -> None:
        """`shunter execute`, throttled."""
        self.executor.start("execute", str(plan), "--yes", "--throttle", str(RATE_BYTES_PER_S))
        wait_until(self._drives, what="copies are under way", timeout_s=DRIVES_WITHIN_S)

    def hurry(self) -> None:
        """Raise the throttle, if anything is left to be moved."""
        self.turn("limit", "50M")

    def command(self, verb: str) -> Sequence[str]:
        """The journal says which moves."""
        sure = () if verb in ("limit", "status") else ("--yes",)
        return ("--bootstrap-server", self.bootstrap, "--journal", str(self.executor.journal), "--json", *sure)

    def is_over(self) -> bool:
        """Whether the journal is closed. An executor that ended by itself before that is a failure."""
        status = self._status()
        return not status["running"] and status["holder"] is None

    def left_over(self) -> Sequence[ProvedOrNot]:
        """Reassignments, throttles, and what the journal says."""
        with closing(self.admin()) as admin:
            return [
                check_journal(self._status()),
                check_nothing_ongoing(admin),
                check_throttles(admin, [self.topic], BROKERS),
            ]

    def _status(self) -> Mapping[str, object]:
        done = run_bounded(self.shunter("status"), timeout_s=60)
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        found: dict[str, object] = json.loads(lines[-1]) if lines else {"running": True, "holder": None}
        return found

    def _drives(self) -> bool:
        view = self.executor.look()
        return view is not None and view["counts"].get("moving", 0) > 0

    def _resume(self) -> None:
        """Drive on, unless an order of another shell does so."""
        status = self._status()
        if status["running"] and status["holder"] is None:
            self.executor.start("resume", "--yes")

    def _pause(self) -> None:
        self.executor.process.pause()

    def _continue(self) -> None:
        self.executor.process.resume()

    def _leader(self) -> BrokerId:
        with closing(self.admin()) as admin:
            return int(admin.describe_metadata_quorum()["topics"][0]["partitions"][0]["leader_id"])

    def _kill_controller(self) -> None:
        self.cluster.nodes[self._leader()].kill()

    def _lose_quorum(self) -> None:
        leads = self._leader()
        for node in (leads, next(each for each in BROKERS if each != leads)):
            self.cluster.nodes[node].kill()

    def _fail_log_dir(self) -> None:
        """A log dir that is no folder fails at the next checkpoint."""
        failed = self.cluster.nodes[ADDED].folder / OTHER
        failed.rename(failed.with_name("was-other"))
        failed.write_text("", encoding="utf-8")

    def _mend_log_dir(self) -> None:
        node = self.cluster.nodes[ADDED]
        node.kill()
        failed = node.folder / OTHER
        failed.unlink()
        failed.with_name("was-other").rename(failed)
        node.start()
