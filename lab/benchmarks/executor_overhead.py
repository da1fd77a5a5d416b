"""How long the executor takes for near-empty partitions, compared with one kafka-reassign-partitions --execute for all.

Both run as an operator runs them, on the same real KRaft cluster, one after the other. The time is from the start of
the command until the controller lists no reassignment and the assignment is the target.

    python lab/benchmarks/executor_overhead.py [--moves 2000] [--rounds 3] [--all-at-once]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from kafka.admin import NewTopic

from lab.testbed import tools
from lab.testbed.kraft import KRaftCluster
from lab.testbed.probes import brokers_known_at
from lab.testbed.process_figures import cpu_seconds, resident_mib
from lab.testbed.waiting import wait_until
from shunter.drivers.admin.client import PinnedAdminClient
from shunter.model.partition import Replicas, TopicPartition

BROKERS = (1, 2, 3)
TOPICS = 4
PATIENCE_S = 600.0


def wait_for_brokers(cluster: KRaftCluster) -> None:
    """Wait until each broker names all brokers."""
    wait_until(
        lambda: all(brokers_known_at(node.port) == set(BROKERS) for node in cluster.nodes.values()),
        what="every broker knows all brokers",
        timeout_s=60,
    )


def placements(moves: int, shift: int) -> dict[tuple[str, int], list[int]]:
    """Two replicas of every partition. With the next shift one replica of each is on a new broker."""
    each = moves // TOPICS
    return {
        (f"bench{topic}", number): [BROKERS[(number + shift) % 3], BROKERS[(number + shift + 1) % 3]]
        for topic in range(TOPICS)
        for number in range(each)
    }


def write_plan(path: Path, wanted: dict[tuple[str, int], list[int]]) -> Path:
    """Write a plan file."""
    partitions = [{"topic": t, "partition": n, "replicas": r} for (t, n), r in wanted.items()]
    path.write_text(json.dumps({"version": 1, "partitions": partitions}))
    return path


def wait_until_there(admin: PinnedAdminClient, wanted: dict[tuple[str, int], list[int]]) -> None:
    """Wait until no reassignment is under way and every broker's metadata have the wanted replicas."""
    names = [f"bench{topic}" for topic in range(TOPICS)]
    until = time.monotonic() + PATIENCE_S
    behind = list(BROKERS)
    while time.monotonic() < until:
        if not admin.list_partition_reassignments():
            behind = [broker for broker in behind if not _is_there(admin.replicas_at(broker, names), wanted)]
            if not behind:
                return
        time.sleep(0.1)
    raise SystemExit("the moves did not end")


def _is_there(seen: Mapping[TopicPartition, Replicas], wanted: dict[tuple[str, int], list[int]]) -> bool:
    return all(list(seen.get(TopicPartition(*key), ())) == replicas for key, replicas in wanted.items())


def by_the_tool(cluster: KRaftCluster, plan: Path) -> float:
    """Run Apache's tool, which ends when the controller has accepted everything; returns when it was started."""
    began = time.monotonic()
    arguments = ["--bootstrap-server", cluster.bootstrap, "--reassignment-json-file", str(plan), "--execute"]
    done = tools.kafka_tool(tools.REASSIGN_PARTITIONS, *arguments, version=cluster.version, timeout_s=PATIENCE_S)
    if done.returncode != 0:
        raise SystemExit(done.stdout + done.stderr)
    return began


def by_the_executor(cluster: KRaftCluster, plan: Path, journal: Path, extra: list[str]) -> tuple[float, float, float]:
    """Run the executor; returns when it was started, its processor seconds, and its largest resident MiB."""
    began = time.monotonic()
    command = [sys.executable, "-c", "from shunter.cli import main; main()", "execute", str(plan), "--yes", *extra]
    command += ["--bootstrap-server", cluster.bootstrap, "--journal", str(journal)]
    told = journal.with_suffix(".out")
    with told.open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
    most = 0.0
    seconds = 0.0
    while process.poll() is None:
        try:
            seconds = cpu_seconds(process.pid)
            most = max(most, resident_mib(process.pid))
        except OSError:
            break
        time.sleep(0.1)
    if process.wait() != 0:
        raise SystemExit(f"the executor ended with {process.returncode}: {told.read_text()[-3000:]}")
    return began, seconds, most


def main() -> None:
    """Run the rounds and print medians."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--moves", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--all-at-once", action="store_true")
    parser.add_argument("--heap", type=int, default=512)
    options = parser.parse_args()
    extra = ["--all-at-once"] if options.all_at_once else []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with KRaftCluster(folder / "kraft", node_ids=BROKERS, heap_mib=options.heap) as cluster:
            wait_for_brokers(cluster)
            admin = PinnedAdminClient(bootstrap_servers=cluster.bootstrap.split(","), request_timeout_ms=120_000)
            shift = 0
            now = placements(options.moves, shift)
            for topic in range(TOPICS):
                listed = {n: replicas for (t, n), replicas in now.items() if t == f"bench{topic}"}
                admin.create_topics([NewTopic(f"bench{topic}", replica_assignments=listed)])
            wait_until_there(admin, now)
            tool: list[float] = []
            ours: list[float] = []
            for turn in range(options.rounds + 1):
                shift += 1
                wanted = placements(options.moves, shift)
                began = by_the_tool(cluster, write_plan(folder / "tool.json", wanted))
                wait_until_there(admin, wanted)
                tool.append(time.monotonic() - began)
                shift += 1
                wanted = placements(options.moves, shift)
                journal = folder / f"{turn}.journal"
                began, seconds, most = by_the_executor(
                    cluster, write_plan(folder / "ours.json", wanted), journal, extra
                )
                wait_until_there(admin, wanted)
                ours.append(time.monotonic() - began)
                print(
                    f"round {turn}: tool {tool[-1]:.2f} s, executor {ours[-1]:.2f} s "
                    f"({seconds:.2f} s of processor, {seconds / ours[-1]:.0%} of a core, {most:.0f} MiB)",
                    flush=True,
                )
            admin.close()
            # The first round is a warm-up for the brokers' JVMs and the page cache.
            one, other = statistics.median(tool[1:]), statistics.median(ours[1:])
            print(f"{len(now)} moves, medians: tool {one:.2f} s, executor {other:.2f} s, ratio {other / one:.2f}")


if __name__ == "__main__":
    main()
