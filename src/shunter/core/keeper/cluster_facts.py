"""Everything that is known about a cluster at one moment: what `situation` works out how it stands from."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from shunter.model.keeper import Condition, Hold
from shunter.model.service import KeptProposal, KillSwitch, ProposalState

CLAIM_FRESH_MS = 7_000
"""For so long the last confirmation of the claim counts: two heartbeats, and their answers."""
HEARD_FRESH_MS = 15_000
"""For so long a standby believes who drives: it asks every five seconds, and an answer takes some more."""


class Reach(Enum):
    """Whether the last attempt to observe the cluster succeeded."""

    UNSEEN = "starting"
    """There was no attempt yet."""
    ANSWERS = "answers"
    SILENT = "unreachable"


class ServiceRole(Enum):
    """What this service is to the cluster."""

    DRIVES = "drives"
    STANDBY = "standby"
    """Another process drives the cluster."""
    IDLE = "idle"
    """This service does not drive the cluster, and it is not known that another process does."""
    OBSERVES = "observes"
    """The policy says so: this service changes nothing in the cluster."""


class Age(Enum):
    """Whether figures are of now, of an earlier time, or not known at all."""

    CURRENT = "current"
    OLD = "old"
    UNKNOWN = "unknown"


class WordsPlace(Enum):
    """What a service knows of people's words about a cluster (intents, kill switch, proposals, votes)."""

    UNREAD = "unread"
    """They may be in the cluster and were not read yet: nothing is begun, and no order is taken."""
    READ = "read"
    """They are in the cluster, and another service writes them."""
    TAKEN = "taken"
    """They are in the cluster, and this service alone writes them."""
    ALONE = "alone"
    """They are on this host."""

    @property
    def known(self) -> bool:
        """Whether this service knows all words, and may write."""
        return self in (WordsPlace.TAKEN, WordsPlace.ALONE)


class OpenExecution(NamedTuple):
    """The execution that this service drives: numbers of open moves."""

    open: int
    paused: int = 0
    stuck: int = 0
    silent_since_ms: int | None = None
    """Since when the cluster has not answered the executor; None: it answers."""
    why_stuck: str = ""
    """Why the first of the stuck moves can't end, and the way out."""
    copying: int = 0
    """Paused moves with a step under way that can end: a pause slows their copies, and ends none."""
    back: int = 0
    """Moves that are being rolled back."""
    stopping: int = 0
    """Moves that are being stopped."""


class Held(NamedTuple):
    """A condition that holds: its kind, the sentence about it, and why the observation proposed no plan for it.

    `scope`: of the plan that mends it; "": the policy lets none be proposed.
    """

    condition: Condition
    text: str
    why_no_plan: tuple[str, ...] = ()
    scope: str = ""
    comes: str = ""
    """What this service does about it by itself, once it has held for the policy's minutes; "": nothing, or it has."""


@dataclass(frozen=True, slots=True)
class ClusterObservation:
    """What the last successful observation saw."""

    at_ms: int
    offline: int = 0
    """Partitions without a leader."""
    under_min_isr: int = 0
    under_replicated: int = 0
    brokers_down: tuple[int, ...] = ()
    """Brokers that hold replicas or are registered, and are not live."""
    down_empty: tuple[int, ...] = ()
    """Those of them that hold no replica."""
    conditions: tuple[Held, ...] = ()
    journal_open: int = 0
    """Open moves in the journal."""
    external: int = 0
    """Moves of other tools."""
    unattributed: int = 0
    """Moves under way, of which it is not known whose they are, because the journal can't be read."""
    throttles_left: int = 0
    safe: tuple[int, ...] = ()
    """Brokers that are drained or replaced, hold no replica, get none, and that nothing needs."""
    kept: tuple[str, ...] = ()
    """Of those that something needs: what, a sentence each."""


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """Everything that is known about a cluster at one moment."""

    name: str
    now_ms: int
    reach: Reach = Reach.UNSEEN
    reach_why: str = ""
    """Why the cluster can't be observed."""
    silent_since_ms: int = 0
    """Since when, while `reach` is `SILENT`."""
    observation: ClusterObservation | None = None
    stale_ms: int = 240_000
    """From this age on an observation is old, even if the cluster answered then."""
    role: ServiceRole = ServiceRole.IDLE
    driver: str = ""
    """The other process that drives the cluster."""
    claimed_at_ms: int | None = None
    """When the claim of who drives the cluster, this service or `driver`, was last confirmed; None: it keeps none."""
    idle_why: str = ""
    """Why this service does not drive the cluster; "": its executor is being started."""
    unanswered: bool = False
    """No broker answered this service's last attempt to drive: as far as is known, nobody can."""
    undriven: bool = False
    """For a while nobody could drive it, as far as is known, though brokers may answer: its quorum may be lost."""
    execution: OpenExecution | None = None
    """None: this service does not drive the cluster."""
    lost_pause: str = ""
    """That a kill switch that was given here never reached the cluster, until somebody has seen it."""
    switch: KillSwitch | None = None
    fleet_paused: bool = False
    policy_trouble: str = ""
    """Why the present policy file is not in force; "": it is."""
    proposals: tuple[KeptProposal, ...] = ()
    """Open proposals."""
    holds: tuple[Hold, ...] = ()
    """Scopes of which nothing begins by itself, by people's words."""
    store_trouble: str = ""
    store_lost: bool = False
    """The store can't be used at all, so no order is taken."""
    words: WordsPlace = WordsPlace.ALONE
    words_why: str = ""
    """Why people's words can't be read, or why they live on this host alone."""

    @property
    def paused(self) -> KillSwitch | None:
        """The kill switch, while it is in force: that of this service, or of the process that drives."""
        if self.switch is None or self.switch.lifted:
            return None
        if self.role is ServiceRole.OBSERVES:
            return None
        theirs = self.words is WordsPlace.READ and not self.switch.unsent
        return self.switch if theirs or self.role is not ServiceRole.STANDBY else None

    @property
    def not_paused(self) -> bool:
        """Whether it is known that the cluster is not paused as a whole: who drives it knows all words."""
        return self.role is ServiceRole.DRIVES and self.words.known and self.paused is None

    @property
    def held(self) -> tuple[Hold, ...]:
        """The holds that are in force: those of this service, or of the process that drives."""
        theirs = self.words is WordsPlace.READ
        if self.role is ServiceRole.OBSERVES or (self.role is ServiceRole.STANDBY and not theirs):
            return ()
        return tuple(each for each in self.holds if each.until_ms is None or self.now_ms < each.until_ms)

    @property
    def unclaimed_since_ms(self) -> int | None:
        """Since when it is not confirmed that this service, or `driver`, still drives the cluster; None: it is."""
        fresh_ms = {ServiceRole.DRIVES: CLAIM_FRESH_MS, ServiceRole.STANDBY: HEARD_FRESH_MS}.get(self.role)
        at_ms = self.claimed_at_ms
        return None if fresh_ms is None or at_ms is None or self.now_ms - at_ms <= fresh_ms else at_ms

    @property
    def unsure(self) -> bool:
        """Whether another process may drive the cluster, and is to get the kill switch: this service could not bring it."""
        return self.role is ServiceRole.IDLE and not (self.words.known or self.unanswered or self.undriven)

    @property
    def unanswered_since_ms(self) -> int | None:
        """Since when the cluster has not answered this service's executor; None: it answers, or another process drives it.

        An executor without open moves asks nothing: then it is known by the observations that fail.
        """
        if self.open_moves and self.execution is not None:
            return self.execution.silent_since_ms
        ours = self.role in (ServiceRole.DRIVES, ServiceRole.IDLE)
        return self.silent_since_ms if ours and self.reach is Reach.SILENT else None

    @property
    def stale(self) -> bool:
        """Whether the observation is older than any should be."""
        return self.observation is not None and self.now_ms - self.observation.at_ms > self.stale_ms

    @property
    def age(self) -> Age:
        """How current the observation is.

        A cluster that does not answer the executor, or does not confirm who drives it, may have changed since then.
        """
        if self.observation is None:
            return Age.UNKNOWN
        silent_ms = None if self.execution is None else self.execution.silent_since_ms
        doubts = (each for each in (self.unclaimed_since_ms, silent_ms) if each is not None)
        doubted = any(self.observation.at_ms <= since_ms + CLAIM_FRESH_MS for since_ms in doubts)
        return Age.CURRENT if self.reach is Reach.ANSWERS and not self.stale and not doubted else Age.OLD

    @property
    def open_moves(self) -> int:
        """Open moves of the service's journal, as far as they are known."""
        if self.execution is not None:
            return self.execution.open
        return 0 if self.observation is None else self.observation.journal_open

    @property
    def carried_out(self) -> KeptProposal | None:
        """The proposal whose moves are open; None: there is none, or its plan was handed in."""
        if self.execution is None or not self.execution.open:
            return None
        return next((each for each in self.proposals if each.state is ProposalState.RUNNING), None)
