"""Rules about the machine itself, checked with every event that it handles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shunter.core.controller.events import BrokersRead, Envelope
from shunter.core.controller.machine import ControllerMachine
from shunter.core.controller.ready import Ready
from shunter.core.controller.tasks import CANCELLED_TIMES, Priority
from shunter.model.partition import TopicPartition
from shunter.model.reassignment import Phase

if TYPE_CHECKING:
    from lab.simulation.process import ShunterProcess
    from lab.simulation.world import World


QUEUE_BOUND = 20_000
CHANNEL_BOUND = 400
SLICE_SLACK = 12
"""How many partitions one item may decide beyond the slice's bound."""


class MachineRules:
    """Looks at a machine after each event."""

    def __init__(self, world: World) -> None:
        """Begin."""
        self._world = world
        self.deepest = 0
        self._phases: dict[str, dict[TopicPartition, Phase]] = {}
        """By process: the phase of each move, by the transitions."""

    def handled(self, process: ShunterProcess, machine: ControllerMachine, envelope: Envelope, ready: Ready) -> None:
        """Check a machine after an event."""
        state = machine.state
        if isinstance(envelope.event, BrokersRead):
            for broker in state.brokers.values():
                if process.epochs.get(broker.id) != broker.epoch:
                    process.epochs[broker.id] = broker.epoch
                    process.learned_us[broker.id] = self._world.scheduler.now_us
        if ready.writes is not None:
            process.decided_us = self._world.scheduler.now_us
            process.decided_live = frozenset(state.brokers) - state.shutting_down
            process.decided_offline = dict(state.offline_replicas)
            self._order(machine)
            self._slice(machine)
        self._bounds(process, machine)
        for notice in ready.notices:
            if notice.kind == "request-met-a-bug":  # The machine has refused a request because of a bug, and goes on.
                self._world.safety.violate("nothing raises", f"{process.name}: {notice.text}")
        self._transitions(process, machine, ready)
        for waiting, _ in machine.state.waiting.values():
            self._world.coverage.count("waiting", waiting.reason.value)
        if ready.wake_at_ms is not None and ready.wake_at_ms > envelope.now_ms + 3_600_000:
            self._world.safety.violate("a wake-up is near", f"{process.name} asks for {ready.wake_at_ms}")

    def _transitions(self, process: ShunterProcess, machine: ControllerMachine, ready: Ready) -> None:
        """The transitions cover each move from acceptance to end. Source: docs/decisions/0002-decide-and-apply.md.

        A topic's deletion removes its moves' records, and an election reads them again: neither is a transition.
        """
        records = machine.state.reassignments
        if ready.resigned or not machine.state.active:
            self._phases.pop(process.name, None)
            return
        known = self._phases.setdefault(process.name, {})
        for told in ready.transitions:
            before = known.get(told.tp, told.before)
            if before is not told.before:
                self._world.safety.violate("transitions join", f"{told} comes after the phase {before}")
            if told.after is None:
                known.pop(told.tp, None)
            else:
                known[told.tp] = told.after
            self._world.coverage.count("trigger", told.trigger.value)
        for tp in {told.tp for told in ready.transitions} & records.keys():
            if records[tp].phase is not known.get(tp):
                told_last = f"{tp} is {records[tp].phase.value}, and the transitions say {known.get(tp)}"
                self._world.safety.violate("transitions join", told_last)
        for tp in sorted(known.keys() - records.keys()):
            if machine.state.partition(tp) is not None:
                self._world.safety.violate("transitions join", f"{tp} moves no more, and no transition told its end")
        self._phases[process.name] = {tp: phase for tp, phase in known.items() if tp in records}

    def _order(self, machine: ControllerMachine) -> None:
        """Deaths and cancels are not held up by submissions.

        Source: design, "deaths of brokers, controlled shutdowns and cancels overtake waiting work".
        """
        outstanding = machine.outstanding
        if outstanding is None or not outstanding.tasks:
            return
        lowest = max(task.priority for task in outstanding.tasks)
        for priority in (Priority.LIVENESS, Priority.CANCEL):
            if machine.intake.queue.queues[priority] and priority < lowest:
                told = f"a batch of {lowest.name} work was handed out while {priority.name} work waits"
                self._world.safety.violate("deaths and cancels are not held up", told)

    def _slice(self, machine: ControllerMachine) -> None:
        """No event holds the queue for long. Source: design, "a large submission is taken in slices"."""
        outstanding = machine.outstanding
        if outstanding is None:
            return
        size = outstanding.draft.size
        cancels = any(task.priority is Priority.CANCEL for task in outstanding.tasks)
        bound = machine.settings.slice_partitions * (CANCELLED_TIMES if cancels else 1) + SLICE_SLACK
        if size > bound:
            self._world.safety.violate("work is taken in slices", f"a draft of {size}, {bound} are allowed")

    def _bounds(self, process: ShunterProcess, machine: ControllerMachine) -> None:
        """Memory and queues stay bounded. Source: issue; TIGER_STYLE, "put a limit on everything"."""
        depth = machine.intake.queue.pending() + len(machine.held)
        self.deepest = max(self.deepest, depth)
        if depth > QUEUE_BOUND:
            self._world.safety.violate("queues stay bounded", f"{process.name} has {depth} items waiting")
        for broker, channel in process.channels.channels.items():
            if channel.length() > CHANNEL_BOUND:
                told = f"{process.name} holds {channel.length()} requests for broker {broker}"
                self._world.safety.violate("queues stay bounded", told)
