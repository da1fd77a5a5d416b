"""`shunter pipeline collect --every` runs for weeks: it survives outages of its cluster, and ends on a signal."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lab.testbed.kraft import KRaftCluster
from lab.testbed.waiting import wait_until
from shunter.formats.inventory_files import decode_inventory

# Long: the client takes 15 s to give up a dead cluster.
pytestmark = [pytest.mark.kraft, pytest.mark.long, pytest.mark.timeout(400)]


def test_an_outage_is_told_and_left_out_and_a_signal_ends_it_in_order(work_dir: Path) -> None:
    out, told = work_dir / "snapshots", work_dir / "told"
    with KRaftCluster(work_dir / "kraft", node_ids=(1,), heap_mib=192) as cluster, told.open("w") as stream:
        command = [
            sys.executable, "-m", "shunter", "pipeline", "collect", "--bootstrap-server", cluster.bootstrap, "--every",
            "1s", "--out", str(out),
        ]  # fmt: skip
        with subprocess.Popen(command, stderr=stream) as collecting:
            try:
                wait_until(lambda: len(list(out.glob("*.jsonl"))) >= 2, what="two snapshots", timeout_s=60)
                cluster.nodes[1].stop()
                wait_until(lambda: "no snapshot" in told.read_text(), what="an outage is told", timeout_s=90)
                cluster.nodes[1].start()
                before = len(list(out.glob("*.jsonl")))
                wait_until(lambda: len(list(out.glob("*.jsonl"))) > before, what="it goes on", timeout_s=90)
                collecting.send_signal(signal.SIGINT)
                assert collecting.wait(60) == 0
            finally:
                collecting.kill()
    taken = sorted(out.iterdir())
    assert f"ended; {len(taken)} snapshots taken into {out}" in told.read_text()
    assert all(decode_inventory(path.read_bytes(), path.name).brokers for path in taken)
