"""A controller with five real brokers and 2,000 partitions: how long it takes to start, to take over and to answer.

    python lab/benchmarks/controller_startup.py [--topics 20] [--partitions 100] [--brokers 5] [--rounds 5] [--deaths 2]

Starts ZooKeeper (each write waits for the disk, as in production), `shunter controller` and unmodified Apache Kafka 3.9
brokers on this machine, with the controller's default settings except those in `running`. Everything is measured from
outside, over the protocol, by wall time, and printed as median (lowest to highest).
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader

from lab.testbed.cluster import ZooKeeperCluster
from lab.testbed.controller import ShunterController
from lab.testbed.process_figures import cpu_seconds, peak_mib, resident_mib
from lab.testbed.zookeeper import ZooKeeperServer
from shunter.drivers.listener.handlers.messages import filled
from shunter.drivers.reassignment_rpc import list_reassignments
from shunter.errors import DriverError
from shunter.wire.framing import SIZE_BYTES, read_response_head, request_frame_head, response_header_version
from shunter.wire.requests import ALTER_PARTITION, CREATE_TOPICS, encode_message

REPLICATION = 3
SAMPLES = 40
POLL_S = 0.005
BOUND_S = 120.0
# Metadata v1 for all topics. Its answer is decoded by hand, because polling has to be cheap here.
ALL_METADATA = struct.pack(">ihhihi", 14, 3, 1, 9, -1, -1)


class Caller:
    """One connection, one request at a time."""

    def __init__(self, port: int) -> None:
        """Connect to `port` on the loopback."""
        self.socket = socket.create_connection(("127.0.0.1", port), 30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def raw(self, frame: bytes) -> bytes:
        """Send a whole frame; returns the answer without its size."""
        self.socket.sendall(frame)
        return self._received(struct.unpack(">i", self._received(SIZE_BYTES))[0])

    def ask(self, api_key: int, version: int, values: dict[str, Any]) -> tuple[Any, float]:
        """Send a request of plain values; returns (kio's response, milliseconds until the answer was complete)."""
        body = encode_message(filled(load_request_schema(api_key, version), values))
        frame = request_frame_head(api_key, version, 7, "benchmark", len(body)) + body
        began = time.perf_counter()
        answer = self.raw(frame)
        taken = (time.perf_counter() - began) * 1000
        _, offset = read_response_head(answer, response_header_version(api_key, version) or 0)
        response, _ = entity_reader(load_response_schema(api_key, version))(answer, offset)
        return response, taken

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()

    def _received(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            chunk = self.socket.recv(size - len(received))
            if not chunk:
                raise ConnectionError("closed in the middle of an answer")
            received += chunk
        return bytes(received)


def leaders(answer: bytes) -> Iterator[tuple[str, int, int]]:
    """(topic, partition, leader) of a Metadata v1 answer."""
    at = 8
    for _ in range(struct.unpack_from(">i", answer, 4)[0]):
        at += 6 + struct.unpack_from(">h", answer, at + 4)[0] + 4
        at += 2 + max(0, struct.unpack_from(">h", answer, at)[0])
    topics = struct.unpack_from(">i", answer, at + 4)[0]
    at += 8
    for _ in range(topics):
        length = struct.unpack_from(">h", answer, at + 2)[0]
        name = answer[at + 4 : at + 4 + length].decode()
        at += 5 + length
        count = struct.unpack_from(">i", answer, at)[0]
        at += 4
        for _ in range(count):
            _, number, leader, replicas = struct.unpack_from(">hiii", answer, at)
            at += 14 + 4 * replicas
            at += 4 + 4 * struct.unpack_from(">i", answer, at)[0]
            yield name, number, leader


def wait(condition: Callable[[], bool], what: str) -> float:
    """Wait until a condition holds; returns the seconds waited."""
    began = time.perf_counter()
    while not condition():
        if time.perf_counter() - began > BOUND_S:
            raise TimeoutError(f"waited {BOUND_S} s in vain: {what}")
        time.sleep(POLL_S)
    return time.perf_counter() - began


class Bench:
    """The cluster under measurement."""

    def __init__(self, cluster: ZooKeeperCluster, controller: ShunterController, zookeeper: KazooClient) -> None:
        """Keep the cluster's parts, and begin without results."""
        self.cluster = cluster
        self.controller = controller
        self.zookeeper = zookeeper
        self.rows: list[tuple[str, str]] = []

    def tell(self, what: str, samples: list[float], unit: str) -> None:
        """Add a row: median (lowest to highest), number of samples."""
        digits = 2 if unit == "s" else 1
        low, middle, high = min(samples), statistics.median(samples), max(samples)
        told = f"{middle:.{digits}f} {unit} ({low:.{digits}f} to {high:.{digits}f}, n = {len(samples)})"
        self.rows.append((what, told))
        print(f"  {what}: {told}", flush=True)

    def in_charge(self) -> bool:
        """Whether the controller has read everything and answers requests as the controller."""
        try:
            list_reassignments("127.0.0.1", self.controller.port, timeout_s=5)
        except DriverError:
            return False
        return True

    def leads(self) -> bool:
        """Whether ZooKeeper names this controller."""
        try:
            held = json.loads(self.zookeeper.get("/controller")[0])
        except NoNodeError:
            return False
        return bool(held["brokerid"] == self.controller.broker_id)

    def epoch(self) -> int:
        """The controller epoch as ZooKeeper has it."""
        return int(self.zookeeper.get("/controller_epoch")[0])

    def all_led(self, port: int, count: int, *, but: int | None = None) -> bool:
        """Whether a node returns `count` partitions to clients, each with a leader that is not `but`."""
        caller = Caller(port)
        try:
            led = [leader for name, _, leader in leaders(caller.raw(ALL_METADATA)) if name.startswith("bench")]
        except OSError:
            return False
        finally:
            caller.close()
        return len(led) >= count and all(leader >= 0 and leader != but for leader in led)


def create(bench: Bench, topics: int, partitions: int) -> None:
    """Create all partitions, with one request for each topic."""
    caller = Caller(bench.controller.port)
    taken = [create_topic(caller, f"bench-{number:03d}", partitions) for number in range(topics)]
    caller.close()
    bench.tell(f"a topic of {partitions} partitions created: request → answered", taken, "ms")
    for broker in bench.cluster.brokers.values():
        wait(lambda port=broker.port: bench.all_led(port, topics * partitions), "every broker knows all")  # type: ignore[misc]


def create_topic(caller: Caller, name: str, partitions: int) -> float:
    """Create one topic; returns milliseconds until the answer, which comes when all partitions have leaders."""
    topic = {"name": name, "num_partitions": partitions, "replication_factor": REPLICATION}
    response, taken = caller.ask(CREATE_TOPICS, 5, {"topics": [topic], "timeout": 60_000, "validate_only": False})
    assert int(response.topics[0].error_code) == 0, response
    return taken


def restarts(bench: Bench, rounds: int, *, count: int) -> None:
    """Kill the controller (SIGKILL) and start it again at once."""
    starts: list[float] = []
    spent: list[float] = []
    for _ in range(rounds):
        bench.controller.kill()
        began = time.perf_counter()
        bench.controller.launch()
        wait(bench.in_charge, "the controller is in charge again")
        starts.append(time.perf_counter() - began)
        spent.append(cpu_seconds(bench.controller.process.pid))
        wait(lambda: bench.all_led(bench.controller.port, count), "everything is led")
    bench.tell("SIGKILL and started again at once → in charge", starts, "s")
    bench.tell("the same, processor time", spent, "s")


def starts(bench: Bench, rounds: int) -> None:
    """Stop the controller (SIGTERM), which gives the controllership back to Apache; a start takes it over again."""
    back: list[float] = []
    begun: list[float] = []
    for _ in range(rounds):
        epoch = bench.epoch()
        process = bench.controller.process.pid
        began = time.perf_counter()
        os.kill(process, 15)
        wait(lambda epoch=epoch: bench.epoch() > epoch, "an Apache broker is the controller")  # type: ignore[misc]
        back.append(time.perf_counter() - began)
        bench.controller.stop()
        began = time.perf_counter()
        bench.controller.launch()
        wait(bench.in_charge, "the controller is in charge again")
        begun.append(time.perf_counter() - began)
    bench.tell("SIGTERM → an Apache broker has won the election", back, "s")
    bench.tell("start (takeover=preempt, from a live Apache controller) → in charge", begun, "s")


def depositions(bench: Bench, rounds: int) -> None:
    """Delete `/controller`: brokers and Shunter contend, and with `preempt` Shunter wins in the end."""
    taken: list[float] = []
    contested = 0
    for _ in range(rounds):
        epoch = bench.epoch()
        began = time.perf_counter()
        bench.zookeeper.delete("/controller")
        wait(lambda epoch=epoch: bench.epoch() > epoch, "somebody is elected")  # type: ignore[misc]
        wait(lambda: bench.leads() and bench.in_charge(), "the controller is in charge again")
        taken.append(time.perf_counter() - began)
        contested += bench.epoch() - epoch > 1
    bench.tell(f"/controller deleted → in charge again (an Apache broker won first {contested} times)", taken, "s")


def isr_changes(bench: Bench, topic: str) -> None:
    """Send AlterPartition as a leader does, shrinking and growing an ISR in turn; answers come when it is durable."""
    state, _ = bench.zookeeper.get(f"/brokers/topics/{topic}/partitions/0/state")
    leadership = json.loads(state)
    topic_id = json.loads(bench.zookeeper.get(f"/brokers/topics/{topic}")[0])["topic_id"]
    isr, leader = list(leadership["isr"]), leadership["leader"]
    epochs = {id_: bench.zookeeper.exists(f"/brokers/ids/{id_}").czxid for id_ in isr}
    caller = Caller(bench.controller.port)
    version = bench.zookeeper.exists(f"/brokers/topics/{topic}/partitions/0/state").version
    taken: list[float] = []
    smaller = [id_ for id_ in isr if id_ != next(other for other in isr if other != leader)]
    for wanted in itertools.islice(itertools.cycle((smaller, isr)), SAMPLES):
        partition = {
            "partition_index": 0,
            "leader_epoch": leadership["leader_epoch"],
            "new_isr_with_epochs": [{"broker_id": id_, "broker_epoch": epochs[id_]} for id_ in wanted],
            "leader_recovery_state": 0,
            "partition_epoch": version,
        }
        asked = {"topic_id": uuid_of(topic_id), "partitions": [partition]}
        values = {"broker_id": leader, "broker_epoch": epochs[leader], "topics": [asked]}
        response, milliseconds = caller.ask(ALTER_PARTITION, 3, values)
        answered = response.topics[0].partitions[0]
        assert int(answered.error_code) == 0, response
        version = answered.partition_epoch
        taken.append(milliseconds)
    caller.close()
    bench.tell("an ISR change (AlterPartition): request → durable and answered", taken, "ms")


def uuid_of(text: str) -> Any:
    """A topic id from its text in the znode."""
    import base64  # noqa: PLC0415
    import uuid  # noqa: PLC0415

    return uuid.UUID(bytes=base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))


def deaths(bench: Bench, rounds: int, count: int) -> None:
    """Kill a broker (SIGKILL); one figure is from the kill, one from the moment when its registration is gone."""
    killed: list[float] = []
    known: list[float] = []
    for round_ in range(rounds):
        victim = sorted(bench.cluster.brokers)[round_ % len(bench.cluster.brokers)]
        broker = bench.cluster.brokers[victim]
        witness = next(other for id_, other in bench.cluster.brokers.items() if id_ != victim)
        began = time.perf_counter()
        broker.kill()
        wait(lambda victim=victim: bench.zookeeper.exists(f"/brokers/ids/{victim}") is None, "the session is over")  # type: ignore[misc]
        noticed = time.perf_counter()
        wait(lambda victim=victim, port=witness.port: bench.all_led(port, count, but=victim), "new leaders are known")  # type: ignore[misc]
        ended = time.perf_counter()
        killed.append(ended - began)
        known.append((ended - noticed) * 1000)
        broker.start()
        bench.cluster.wait_for_metadata()
    led = count // len(bench.cluster.brokers)
    bench.tell(f"a broker that leads {led} or more: registration gone → all new leaders known to clients", known, "ms")
    bench.tell("the same from SIGKILL (the brokers' session timeout is 6 s)", killed, "s")


def memory(bench: Bench, when: str) -> None:
    """Note the resident memory of the controller's process, now and at its peak."""
    pid = bench.controller.process.pid
    told = f"{resident_mib(pid):.0f} MiB now, {peak_mib(pid):.0f} MiB at the most"
    bench.rows.append((f"memory (resident), {when}", told))
    print(f"  memory, {when}: {told}", flush=True)


@contextmanager
def running(brokers: int, folder: Path) -> Iterator[Bench]:
    """Run a ZooKeeper that syncs, the controller and the brokers."""
    held: dict[str, ShunterController] = {}
    options = ("--takeover", "preempt", "--set", "takeover-cool-down-ms=0", "--log-level", "warning")

    def start_controller(cluster: ZooKeeperCluster, stack: ExitStack) -> None:
        controller = ShunterController(folder / "controller", cluster.zookeeper_connect, options=options)
        held["controller"] = stack.enter_context(controller)

    with ExitStack() as stack:
        server = stack.enter_context(ZooKeeperServer(folder / "zookeeper", force_sync=True, heap_mib=256))
        cluster = stack.enter_context(
            ZooKeeperCluster(
                folder,
                broker_ids=tuple(range(1, brokers + 1)),
                zookeeper=server,
                before_brokers=start_controller,
                properties={"log.index.size.max.bytes": 65_536, "log.segment.bytes": 16_777_216},
                heap_mib=256,
                metadata_timeout_s=180,
                progress=lambda line: print(f"  {line}", flush=True),
            )
        )
        client = KazooClient(server.connect_string)
        client.start()
        stack.callback(client.close)
        stack.callback(client.stop)
        yield Bench(cluster, held["controller"], client)


def machine() -> str:
    """A description of the machine."""
    models = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    gibibytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr.splitlines()
    processor = models[0].split(":")[1].strip() if models else platform.processor()
    return (
        f"{os.cpu_count()} cores ({processor}), {gibibytes:.0f} GiB, Linux {platform.release()}, "
        f"Python {platform.python_version()}, {java[0] if java else 'Java unknown'}"
    )


def main() -> int:
    """Measure everything once and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--brokers", type=int, default=5)
    parser.add_argument("--topics", type=int, default=20)
    parser.add_argument("--partitions", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5, help="starts, restarts and depositions each")
    parser.add_argument("--deaths", type=int, default=2, help="brokers killed")
    arguments = parser.parse_args()
    count = arguments.topics * arguments.partitions
    before = os.getloadavg()
    with (
        tempfile.TemporaryDirectory(prefix="shunter-bench-") as folder,
        running(arguments.brokers, Path(folder)) as bench,
    ):
        create(bench, arguments.topics, arguments.partitions)
        memory(bench, f"after {count} partitions were created")
        caller = Caller(bench.controller.port)
        taken = [create_topic(caller, f"single-{number:03d}", 1) for number in range(SAMPLES)]
        caller.close()
        bench.tell("a topic of one partition created: request → answered", taken, "ms")
        restarts(bench, arguments.rounds, count=count)
        memory(bench, "after a restart, everything read")
        starts(bench, arguments.rounds)
        depositions(bench, arguments.rounds)
        isr_changes(bench, "single-000")
        deaths(bench, arguments.deaths, count)
        memory(bench, "at the end")
        rows = bench.rows
    after = os.getloadavg()
    print(f"\n{arguments.brokers} brokers, {count} partitions, replication factor {REPLICATION}\n{machine()}")
    busy = max(before[0], after[0]) - (os.cpu_count() or 1)
    noise = "others were using the machine, too: read the lowest figures" if before[0] > 1 else "a calm machine"
    print(f"load average (1 min) {before[0]:.1f} before, {after[0]:.1f} after ({noise}; {max(0.0, busy):.1f} over)\n")
    width = max(len(what) for what, _ in rows)
    for what, told in rows:
        print(f"{what:<{width}}  {told}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
