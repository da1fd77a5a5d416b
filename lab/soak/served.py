"""A KRaft cluster that the service keeps by a policy that may act, and the orders of people who change their minds."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from kafka.errors import KafkaError

from lab.demo.account import ProvedOrNot
from lab.demo.cluster_proof import check_journal, check_nothing_ongoing, check_throttles
from lab.demo.executor_process import ExecutorProcess
from lab.demo.service_process import ServiceProcess
from lab.soak.yard import BROKERS, HEAVY, PARTITIONS, PROPERTIES, SETTLED_WITHIN_S, Soak, Work
from lab.testbed.kraft import KRaftCluster
from lab.testbed.server import Server
from lab.testbed.waiting import wait_until
from shunter.app.executor.history import past_executions
from shunter.app.executor.session import Target
from shunter.errors import DriverError
from shunter.model.service import OPEN, OrderRefused

NAME = "soak"
POLICY = """\
mode = "{mode}"

[cluster.{name}]
bootstrap-server = "{bootstrap}"
journal = "{journal}"

[cluster.{name}.balance]
headroom-percent = 0

[cluster.{name}.conditions]
disk-band = {{ do = "act", minutes = 0, begin-percent = 30, end-percent = 15 }}
replicas-band = {{ do = "act", minutes = 0, begin-percent = 30, end-percent = 15 }}
leaders-band = {{ do = "propose", minutes = 0, begin-percent = 30, end-percent = 15 }}
broker-dead = {{ do = "act", minutes = 0 }}
broker-empty = {{ do = "act", minutes = 0 }}
drain = "act"
demote = "act"
disk-full = "off"
log-dir-full = "off"

[cluster.{name}.limits]
frozen-topics = ["__*"]
declined-minutes = 1
no-return-minutes = 1

[cluster.{name}.execution]
throttle = 300_000
max-concurrent = 4

[service]
look-seconds = 3
"""
RATES = (100_000, 200_000, 500_000, 1_000_000)
LOOKS = ("", "moves", "proposals?ended=true", "timeline", "topics", "executions", "forecasts")
SCOPES = ("drain", "demote", "rebalance", "fill", "leaders", "offline", "move")
WAITS = "waiting"
UNDER_WAY = {state.value for state in OPEN} - {WAITS}


class ServedSoak(Soak):
    """Three brokers, which are their own controllers, and `shunter serve`."""

    name = "served"

    def __init__(self, out: Path, seed: int, minutes: float) -> None:
        super().__init__(out, seed, minutes)
        self.cluster = KRaftCluster(self.folder, node_ids=BROKERS, properties=PROPERTIES)
        self._paused = False
        self._intents: dict[str, int] = {}
        """The broker of each intent that was given."""
        self._approved: set[str] = set()

    @property
    def bootstrap(self) -> str:
        """Addresses of all brokers."""
        return self.cluster.bootstrap

    @property
    def servers(self) -> Sequence[Server]:
        """The brokers."""
        return tuple(self.cluster.nodes.values())

    def start(self, stack: ExitStack) -> None:
        """Start the cluster, fill it, and start the service."""
        stack.enter_context(self.cluster)
        self.executor = ExecutorProcess(self.folder, self.bootstrap)
        self.service = ServiceProcess(self.folder / "service", self._policy("keep"), NAME)
        self.furnish(stack)
        stack.callback(self.service.kill)
        self.service.start()

    def processes(self) -> Mapping[str, int]:
        """The service's process."""
        return {} if self.service.pid is None else {"service": self.service.pid}

    def files(self, what: str) -> list[Path]:
        """The files of a series: the journal with its copy, the state folder, write-ahead logs of both, or logs."""
        logs = {path for pattern in ("*-wal", "service/s/*-wal") for path in self.folder.glob(pattern)}
        found = {
            "journal": {*self.folder.glob(f"{self.executor.journal.name}*")} - logs,
            "state": {*self.folder.glob("service/s/*")} - logs,
            "write-ahead logs": logs,
            "log": {*self.folder.glob("service/service-*.log")},
        }
        return sorted(found[what])

    def kill_process(self) -> None:
        """Kill the service, and start it again."""
        self.service.kill()
        self.service.start()

    def works(self) -> Mapping[str, Work]:
        """People's orders."""
        return {
            "drain": Work(2, lambda: self._intend("drain")),
            "demote": Work(1, lambda: self._intend("demote")),
            "propose": Work(3, self._propose),
            "decide": Work(4, self._decide),
            "kill switch": Work(8 if self._paused else 1, self._switch),
            "pause of moves": Work(1, lambda: self._turn("pause")),
            "resume of moves": Work(2, lambda: self._turn("resume")),
            "stop": Work(1, lambda: self._turn("stop")),
            "rollback": Work(2, lambda: self._turn("rollback")),
            "limit": Work(2, lambda: self._order("limit", bytes_per_s=self.chance.choice(RATES), max_in=2)),
            "withdrawal of a hold": Work(2, self._let_begin),
            "look": Work(4, lambda: bool(self.service.ask(self.chance.choice(LOOKS)))),
        }

    def settle(self) -> list[ProvedOrNot]:
        """Take everything back, let no new plan begin, and wait until the journal is closed."""
        (self.folder / "service" / "keeper.toml").write_text(self._policy("drive"), encoding="utf-8")
        wait_until(self._is_quiet, what="nothing is under way", timeout_s=SETTLED_WITHIN_S, interval_s=2)
        states = {each: self._state_of(each) for each in self._approved}
        lost = [f"{each} is {state}" for each, state in sorted(states.items()) if state in {"", *UNDER_WAY}]
        status = self.service.stop()
        _place, past = asyncio.run(past_executions(Target(self.bootstrap, None, self.executor.journal)))
        moves = [move for each in past for move in each.every_move]
        unended = [str(move.tp) for move in moves if move.ended is None]
        with closing(self.admin()) as admin:
            return [
                ProvedOrNot("every approved proposal came to an end", not lost, "; ".join(lost) or f"{len(states)}"),
                ProvedOrNot("every move has ended", not unended, f"{len(unended)} open of {len(moves)}"),
                ProvedOrNot("the service ends when it is told to", status == 0, f"exit status {status}"),
                check_journal(self.executor.order("status")),
                check_nothing_ongoing(admin),
                self._throttles(),
            ]

    def _policy(self, mode: str) -> str:
        return POLICY.format(mode=mode, name=NAME, bootstrap=self.bootstrap, journal=self.executor.journal)

    def _order(self, verb: str, **body: Any) -> bool:
        self.service.order(verb, **body)
        return True

    def _intend(self, intent: str) -> bool:
        """Give an intent about a broker, or take it back."""
        broker = self._intents.pop(intent, None)
        if broker is not None:
            return self._order("withdraw", intent=intent, brokers=[broker])
        self._intents[intent] = self.chance.choice(BROKERS)
        return self._order("intend", intent=intent, brokers=[self._intents[intent]])

    def _propose(self) -> bool:
        if self.chance.random() < 0.3:
            return self._order("propose", scope="rebalance", band_percent=5)
        moved = [f"{HEAVY}-{number}" for number in self.chance.sample(range(PARTITIONS[HEAVY]), 3)]
        return self._order("propose", scope="move", partitions=moved, to=self.chance.sample(BROKERS, 2))

    def _decide(self) -> bool:
        asked = self.service.ask("proposals")["proposals"]
        waiting = [each["proposal"]["id"] for each in asked if each["proposal"]["state"] == WAITS]
        if not waiting:
            return False
        chosen = self.chance.choice(waiting)
        verb = "approve" if self.chance.random() < 0.85 else "decline"
        self._order(verb, proposal=chosen, comment="by chance")
        if verb == "approve":
            self._approved.add(chosen)
        return True

    def _switch(self) -> bool:
        self._paused = not self._paused
        return self._order("pause" if self._paused else "resume")

    def _turn(self, verb: str) -> bool:
        """Turn one move, or one time in five all of them."""
        state = "paused" if verb == "resume" else "moving"
        moves = self._moves(state)
        if not moves:
            return False
        everything = verb in ("stop", "rollback") and self.chance.random() < 0.2
        return self._order(verb, partitions=[] if everything else [self.chance.choice(moves)])

    def _let_begin(self) -> bool:
        return self._order("withdraw", intent="hold", scope=self.chance.choice(SCOPES))

    def _moves(self, *states: str) -> list[str]:
        return [each["partition"] for each in self.service.ask("moves")["rows"] if each["state"] in states]

    def _state_of(self, proposal: str) -> str:
        """A proposal's state; "": the service does not know it."""
        try:
            return str(self.service.ask(f"proposals/{proposal}")["proposal"]["state"])
        except OrderRefused:
            return ""

    def _throttles(self) -> ProvedOrNot:
        """Whether all throttles were given back; those of a broker that was dead are once it is up again."""
        with closing(self.admin()) as admin:
            return check_throttles(admin, [*PARTITIONS, *self.topics], BROKERS)

    def _is_quiet(self) -> bool:
        """Lift what holds moves, and look whether any are left."""
        try:
            for intent in list(self._intents):
                self._order("withdraw", intent=intent, brokers=[self._intents.pop(intent)])
            if self._paused:
                self._order("resume")
                self._paused = False
            if paused := self._moves("paused"):
                self._order("resume", partitions=paused)
            asked = self.service.ask("proposals")["proposals"]
            under_way = [each for each in asked if each["proposal"]["state"] in UNDER_WAY]
            return not under_way and not self._moves("moving", "pending", "paused") and self._throttles().holds
        except (OrderRefused, DriverError, KafkaError) as refused:
            self.note("settling", "refused", refused)
            return False
