"""Stories, event by event: the controller's events, and what it asked for (etcd raft's `testdata`, in small).

Each file of `transcripts` has prose (`#`), actions (`>`), and their consequences: the event as the machine gets it,
and below it the writes, transitions, requests and replies of its `Ready`, in their order. Only two things are left out:
metadata that is only sent again, and answers without a consequence.

Write the lines with `>` by hand; `SHUNTER_WRITE_TRANSCRIPTS=1 pytest …/test_transcripts.py` writes the others. Read them
before you commit them: a transcript that changed is a decision that changed.
"""

import os
from pathlib import Path

import pytest
from harness import US, Harness

from shunter.core.controller.events import BatchWritten, RequestAnswered
from shunter.core.controller.machine import ControllerMachine
from shunter.core.controller.ready import SendLeaderAndIsr, SendStopReplica, SendUpdateMetadata
from shunter.model.partition import ReplicaAssignment
from shunter.model.reassignment import Intervention
from shunter.model.records import CloseReassignment, PutPartition, PutReassignment, PutTopic

FOLDER = Path(__file__).parent / "transcripts"
STORIES = sorted(FOLDER.glob("*.txt"))


class Recording(ControllerMachine):
    """The machine, with a line for every part of its `Ready`."""

    def __init__(self, settings, lines):
        super().__init__(settings)
        self.lines = lines

    def handle(self, envelope):
        ready = super().handle(envelope)
        told = [*written(ready), *changed(ready), *sent(ready), *replied(ready), *noticed(ready)]
        if told or not isinstance(envelope.event, BatchWritten | RequestAnswered):
            self.lines += [type(envelope.event).__name__, *(f"    {line}" for line in told)]
        return ready


class Recorder(Harness):
    """The harness with a machine that is recorded."""

    def __init__(self, brokers):
        super().__init__(brokers)
        self.lines = []
        self.machine = Recording(self.settings, self.lines)
        self.tokens = 0

    def fail_over(self):
        self.machine = Recording(self.settings, self.lines)
        self.events.clear()
        self.unanswered.clear()
        self.start()


def listed(ids):
    return "[" + ", ".join(map(str, ids)) + "]"


def placed(assignment):
    if not assignment.in_motion:
        return listed(assignment.replicas)
    return f"{listed(assignment.replicas)} (adding {listed(assignment.adding)}, removing {listed(assignment.removing)})"


def led(state):
    return f"leader {state.leader}, ISR {listed(state.isr)}, leader epoch {state.leader_epoch}"


def written(ready):
    for record in ready.writes.records if ready.writes is not None else ():
        match record:
            case PutTopic(topic):
                places = ", ".join(f"{topic.name}-{n} on {placed(each)}" for n, each in topic.assignments.items())
                yield f"write     {places}"
            case PutPartition(tp, state):
                yield f"write     {tp}: {led(state)}"
            case PutReassignment(tp, move):
                yield f"write     move of {tp}: {move.phase.value}, {listed(move.original)} to {listed(move.target)}"
            case CloseReassignment(tp):
                yield f"write     move of {tp}: closed"
            case _:
                yield f"write     {type(record).__name__}"


def changed(ready):
    for each in ready.transitions:
        before, after = (phase.value if phase is not None else "nothing" for phase in (each.before, each.after))
        yield f"durable   {each.tp}: {before} -> {after}, {each.trigger.value}"


def sent(ready):
    for request in ready.requests:
        if isinstance(request, SendLeaderAndIsr):
            for topic in request.topics:
                for number, partition in topic.partitions:
                    where = placed(ReplicaAssignment(*partition.assignment))
                    yield f"to {request.broker}      LeaderAndIsr {topic.name}-{number} on {where}: {led(partition.leadership)}"
        elif isinstance(request, SendStopReplica):
            for stop in request.partitions:
                yield f"to {request.broker}      StopReplica {stop.tp}{', delete' if stop.delete else ''}"
        elif isinstance(request, SendUpdateMetadata) and request.topics:
            names = [f"{topic.name}-{number}" for topic in request.topics for number, _ in topic.partitions]
            yield f"to {','.join(map(str, request.brokers))}  UpdateMetadata {', '.join(names)}"


def replied(ready):
    for _, reply in ready.replies:
        for each in getattr(reply, "partitions", ()):
            error = getattr(each[1], "name", None)
            yield f"reply     {each[0]}: {error or led(each[1])}"
        for each in getattr(reply, "topics", ()):
            yield f"reply     {each.name}: {each.error.name}"


def noticed(ready):
    for notice in ready.notices:
        yield f"notice    {notice.kind}: {notice.about}"


def parse(text):
    """`t-0` and `1,2,3` as the harness has them."""
    name, _, number = text.rpartition("-")
    return name, int(number)


def ids(text):
    return tuple(int(each) for each in text.split(","))


def act(world, verb, *words):
    """Do what one line says."""
    match verb, *words:
        case "topic", name, replicas:
            world.create(name, [ids(replicas)])
        case "move", tp, replicas:
            world.tokens += 1
            world.reassign({parse(tp): ids(replicas)}, token=world.tokens)
        case ("stop" | "roll-back" | "pause" | "resume") as how, tp:
            mode = {"stop": Intervention.STOP, "roll-back": Intervention.ROLL_BACK}.get(how)
            mode = mode or {"pause": Intervention.PAUSE, "resume": Intervention.RESUME}[how]
            world.tokens += 1
            world.reassign({parse(tp): None}, token=world.tokens, intervention=mode)
        case "catches-up", tp, broker:
            world.catch_up(parse(tp), int(broker))
        case "dies", broker:
            world.kill(int(broker))
        case "comes-back", broker:
            world.revive(int(broker))
        case ["controller-dies"]:
            world.fail_over()
        case _:
            raise AssertionError(f"what does {verb} {words} mean?")


def told(story):
    """The story again, with the present consequences of each action."""
    world, lines = None, []
    for line in story.splitlines():
        if line.startswith("#") or (not line and (not lines or lines[-1])):
            lines.append(line)
        if not line.startswith("> "):
            continue
        lines.append(line)
        verb, *words = line[2:].split()
        if verb == "brokers":
            world = Recorder(tuple(int(each) for each in words))
            world.start()
        else:
            act(world, verb, *words)
        lines += world.lines
        world.lines.clear()
        world.check()
    return "\n".join(lines).rstrip() + "\n"


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_a_story_goes_as_it_is_told(path):
    story = path.read_text()
    now = told(story)
    if os.environ.get("SHUNTER_WRITE_TRANSCRIPTS"):
        path.write_text(now)
    assert now == story


def test_there_are_stories():
    assert len(STORIES) >= 5
    assert US not in {1, 2, 3, 4}
