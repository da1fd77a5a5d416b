"""The verbs by what people do with them: where each is, and its help's first sentence."""

from __future__ import annotations

from typing import NamedTuple


class LazyVerb(NamedTuple):
    """A verb that is imported when it is called: `shunter plan` starts without Spark or kio, the help without any."""

    place: str
    """Module and name: `shunter.cli.steps:steps`."""
    summary: str
    """The first sentence of its help; a test compares the two."""


VERBS = {
    "Plan": {
        "steps": LazyVerb("shunter.cli.steps:steps", "Show a move of one partition on paper, step by step."),
        "plan": LazyVerb(
            "shunter.cli.plan:plan", "Plan the moves that bring a cluster into balance, with the fewest bytes."
        ),
    },
    "Move": {
        "execute": LazyVerb(
            "shunter.cli.execution.execute:execute",
            "Carry out PLAN (Kafka's reassignment JSON) on any cluster, under a journal.",
        ),
        "submit": LazyVerb(
            "shunter.cli.execution.submit:submit",
            "Hand PLAN to the cluster's controller by one request, and end; the controller carries it out by itself.",
        ),
        "drain": LazyVerb(
            "shunter.cli.plan:drain",
            "Move all replicas away from BROKERS (3, or 3,7), which may be dead; no other replica moves.",
        ),
        "move": LazyVerb(
            "shunter.cli.plan:move",
            "Move PARTITIONS (orders-3, or orders-3,orders-4; orders: all of a topic) to the brokers that you choose.",
        ),
        "demote": LazyVerb(
            "shunter.cli.plan:demote",
            "Take all leaderships from BROKERS (3, or 3,7): they become the last replica of what they led; nothing is copied.",
        ),
        "rebalance": LazyVerb(
            "shunter.cli.plan:rebalance",
            "Bring every broker within the band of its share (--band-percent), with the fewest bytes.",
        ),
        "undrain": LazyVerb(
            "shunter.cli.execution.undrain:undrain",
            "Let BROKERS (3, or 3,7) get replicas again: take back the cordon of `shunter drain --cordon`; nothing moves.",
        ),
        "resume": LazyVerb(
            "shunter.cli.execution.turn:resume",
            "Let paused moves go on; after a crash, go on from the executor's journal.",
        ),
        "rollback": LazyVerb(
            "shunter.cli.execution.turn:rollback",
            "Bring the original replicas back, in their order; asks first if any of them has to be copied again.",
        ),
        "stop": LazyVerb(
            "shunter.cli.execution.turn:stop",
            "End moves where they stand: new replicas that are in sync stay, the others are removed; nothing is copied.",
        ),
        "pause": LazyVerb(
            "shunter.cli.execution.turn:pause",
            "Let moves stand still: no step begins, and what was copied so far is kept.",
        ),
        "limit": LazyVerb(
            "shunter.cli.execution.turn:limit",
            "Change the throttle to RATE bytes per second and broker (50M, 1G; none lifts it), or the bounds on copies.",
        ),
        "relax": LazyVerb(
            "shunter.cli.execution.turn:relax",
            "Let moves go on now without replicas that are out of sync (relax the floor).",
        ),
        "undo": LazyVerb(
            "shunter.cli.execution.history:undo",
            "Move back the partitions that an ended execution moved: the last execution, or the one with this number.",
        ),
    },
    "Look": {
        "doctor": LazyVerb(
            "shunter.cli.doctor:doctor", "Examine a cluster before you move anything; nothing is changed."
        ),
        "status": LazyVerb(
            "shunter.cli.execution.look:status",
            "Show how moves stand: what they wait for, how much is copied, what a rollback would copy.",
        ),
        "watch": LazyVerb(
            "shunter.cli.execution.look:watch",
            "Follow moves until all have ended; ctrl-C ends the watching, not the moves.",
        ),
        "list": LazyVerb(
            "shunter.cli.execution.look:list_command",
            "List all moves of the cluster, pending ones too, under any controller and from any tool.",
        ),
        "verify": LazyVerb("shunter.cli.execution.verify:verify", "Compare PLAN with the cluster."),
        "history": LazyVerb(
            "shunter.cli.execution.history:history",
            "List past executions of the cluster's journal, and how they ended.",
        ),
        "throttles": LazyVerb(
            "shunter.cli.execution.throttles:throttles",
            "Find and remove replication throttles that are set in a cluster, whoever set them.",
        ),
        "config": LazyVerb(
            "shunter.cli.config:config",
            "Show each setting of the verbs that look and move, and where its value came from.",
        ),
    },
    "Keep clusters in balance": {
        "serve": LazyVerb(
            "shunter.cli.service.serve:serve",
            "Keep clusters in balance by a policy: look, propose, carry out what was approved.",
        ),
        "propose": LazyVerb(
            "shunter.cli.service.orders:propose",
            "Let the service plan by its last observation, within its policy, and keep the plan as a proposal.",
        ),
        "approve": LazyVerb(
            "shunter.cli.service.orders:approve", "Approve a proposal: it begins once nothing holds it back."
        ),
        "decline": LazyVerb(
            "shunter.cli.service.orders:decline",
            "Decline a proposal: its scope is not proposed again for the policy's declined-minutes.",
        ),
        "intend": LazyVerb(
            "shunter.cli.service.orders:intend",
            "Give the service an intent: it holds from now on, until it is withdrawn.",
        ),
        "withdraw": LazyVerb(
            "shunter.cli.service.orders:withdraw",
            "Take an intent back; a hold also if it followed from a stop, a rollback or a declined proposal.",
        ),
        "token": LazyVerb(
            "shunter.cli.service.token:token",
            "Make and remove tokens for the HTTP API of `shunter serve --tokens FILE`.",
        ),
    },
    "Run a controller": {
        "controller": LazyVerb(
            "shunter.cli.controller:controller",
            "Be the controller of a ZooKeeper-mode Kafka cluster of unmodified brokers.",
        ),
        "why": LazyVerb(
            "shunter.cli.why:why",
            "Show event by event what a controller decided, by which rule, and which broker acknowledged it when.",
        ),
        "hand-back": LazyVerb(
            "shunter.cli.hand_back:hand_back",
            "Hand a cluster back to Apache's controller: end its moves, resign, and wait until an Apache broker leads.",
        ),
    },
    "Install it": {
        "completion": LazyVerb(
            "shunter.cli.completion:completion",
            "Print the script by which SHELL completes verbs, options, and the settings file's clusters.",
        ),
        "bundle": LazyVerb(
            "shunter.cli.bundle:bundle", "Make a folder OUT from which Shunter is installed where there is no network."
        ),
    },
    "Data pipeline": {
        "pipeline": LazyVerb(
            "shunter.cli.pipeline.group:pipeline",
            "Turn samples and snapshots into a load model, plans, schedules, and accounts of past moves.",
        ),
    },
    "Apache's tools, replaced": {
        "kafka-reassign-partitions": LazyVerb(
            "shunter.cli.reassign_partitions:kafka_reassign_partitions",
            "Stand in for Apache's tool of that name: same options, output and exit status.",
        ),
        "kafka-topics": LazyVerb(
            "shunter.cli.topics:kafka_topics",
            "Describe topics as Apache's tool does, with `targetReplicas` for partitions that are being moved (KIP-455).",
        ),
    },
}
"""By heading of the help, in its order."""
