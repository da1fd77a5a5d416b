"""A Shunter controller as a process of its own, as an operator would run it."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from lab.testbed.ports import LOOPBACK
from lab.testbed.probes import kafka_answers, zookeeper_get
from lab.testbed.server import Server


class ShunterController(Server):
    """`shunter controller` on the loopback. It counts as started once it has won `/controller`."""

    def __init__(
        self,
        folder: Path,
        zookeeper_connect: str,
        *,
        broker_id: int = 1000,
        port: int | None = None,
        listeners: Sequence[str] = (),
        options: Sequence[str] = (),
        start_timeout_s: float = 60.0,
    ) -> None:
        """Describe the controller; nothing starts yet.

        Args:
            folder: A folder of its own, for its log.
            zookeeper_connect: `HOST:PORT` and chroot.
            broker_id: An id that no broker has.
            port: None for one that the kernel chooses.
            listeners: `NAME://HOST:PORT`, secured by options, instead of a plaintext one at `port`.
            options: More options of `shunter controller`.
            start_timeout_s: Bound for each start, in seconds; after SIGKILL it waits for its old session to expire.
        """
        super().__init__(f"shunter-{broker_id}", folder, port=port, start_timeout_s=start_timeout_s)
        self.broker_id = broker_id
        self.zookeeper_connect = zookeeper_connect
        self.listeners = tuple(listeners)
        self.options = tuple(options)
        self._czxid_before = 0

    def _prepare(self, port: int) -> Sequence[str]:
        # A controller that was killed leaves `/controller` for a while. `_serves` waits for a newer znode.
        self._czxid_before = self._controller()[1]
        self.folder.mkdir(parents=True, exist_ok=True)
        return [
            sys.executable,
            "-m",
            "shunter",
            "controller",
            "--zookeeper",
            self.zookeeper_connect,
            *(f"--listener={listener}" for listener in self.listeners or (f"PLAINTEXT://{LOOPBACK}:{port}",)),
            "--broker-id",
            str(self.broker_id),
            *self.options,
        ]

    def _serves(self, port: int) -> bool:
        leader, czxid = self._controller()
        answers = bool(self.listeners) or kafka_answers(port)  # A secured listener refuses the plain probe.
        return leader == self.broker_id and czxid != self._czxid_before and answers

    def start_or_stand_by(self, timeout_s: float) -> None:
        """Start it, and wait until it leads or stands by.

        Raises:
            PartFailed: it does neither in time.
        """
        self.launch()
        self.process.wait_ready(
            lambda: self.is_leading() or "standing by: " in self.log_tail(),
            what="it leads or stands by",
            timeout_s=timeout_s,
        )

    def is_leading(self) -> bool:
        """Whether ZooKeeper says that this controller's broker id is the controller."""
        return self._controller()[0] == self.broker_id

    def _controller(self) -> tuple[int | None, int]:
        found = zookeeper_get(self.zookeeper_connect, "/controller")
        return (None, 0) if found is None else (json.loads(found[0]).get("brokerid"), found[1])

    @property
    def bootstrap(self) -> str:
        """`HOST:PORT` for clients."""
        return self.address
