"""What is known about one cluster: how it answers, what the last observation saw, who drives it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from shunter.app.service.driving import Driving
from shunter.app.service.words import ClusterWords
from shunter.core.keeper.cluster_facts import ClusterFacts, ClusterObservation, Reach, ServiceRole
from shunter.core.keeper.situation import LIFTS_IT, OBSERVED, situation, stand_told, why_refused
from shunter.core.keeper.words import hold_of
from shunter.core.wording import told_ms
from shunter.drivers.admin.bootstrap_probe import NoBrokerAnswers
from shunter.drivers.journal.journals import JournalFenced
from shunter.errors import ShunterError
from shunter.model.execution import Command, CommandKind, ExecutionOptions
from shunter.model.service import IntentKind, OrderKind, StoreBatch
from shunter.views.execution import OPEN_STATES, ExecutionView
from shunter.views.keeper_picture import facts_of_execution
from shunter.views.service import EXTERNAL, UNKNOWN, ClusterCounts, MoveView

RESUME = OrderKind.RESUME
UNSURE_MS = 20_000
"""For so long one failure says nothing about a cluster or its driver: a broker that died is named for up to 18 s."""
STALE_LOOKS, LOOK_S = 3, 20.0
"""An observation is old after this many times the time between two, and the time that one may take."""


@dataclass(frozen=True, slots=True)
class ShellGate:
    """Judges orders that other shells give to the service's executor by the facts by which the service's are judged."""

    facts: Callable[[], ClusterFacts]
    taken: Callable[[str, str, str], None]
    by_policy: ExecutionOptions

    def options(self, wanted: ExecutionOptions) -> ExecutionOptions:
        """The policy's throttle holds for a plan that has none, unless it joins an execution, whose rate stays."""
        if wanted.throttle is not None or self.facts().open_moves:
            return wanted
        return replace(wanted, throttle=self.by_policy.throttle)

    def refusal(self, command: Command | None) -> str:
        """Why a command is not taken now, or (None) a plan: the kill switch of the service holds."""
        facts = self.facts()
        if command is None and facts.paused is not None:
            return f"{facts.name} is paused as a whole by {facts.paused.who}, so nothing begins: {LIFTS_IT}"
        refused = None if command is None or command.kind is not CommandKind.RESUME else why_refused(RESUME, facts)
        return "" if refused is None else refused[1]


NOTHING = StoreBatch()


@dataclass(slots=True)
class Known:
    """Mutable; it belongs to one keeper."""

    name: str
    stale_ms: int
    me: str
    """This service, in a sentence."""
    drives_since_ms: int | None = None
    """Since when this service drives the cluster; None: it does not."""
    undriven_ms: int | None = None
    """Since when it is not known who drives; None: it is known."""
    told_undriven: bool = False
    """People were told that."""
    driver_kind: str = "driver"
    """The kind of the event that says who drives the cluster."""
    reach: Reach = Reach.UNSEEN
    reach_why: str = ""
    silent_since_ms: int = 0
    """Since when the cluster can't be observed."""
    held_by: str = ""
    """The other process that drives the cluster; "": there is none, or it is unknown."""
    held_at_ms: int = 0
    """When that was last heard."""
    idle_why: str = ""
    """Why this service does not drive the cluster, if no other process does."""
    unanswered: bool = False
    """No broker answered the last attempt to observe or to drive the cluster."""
    doubted: bool = False
    """The executor has no answer, or it is not confirmed who drives the cluster: it may be gone."""
    observation: ClusterObservation | None = None
    moves: tuple[MoveView, ...] = ()
    """As the last observation saw them."""
    execution: ExecutionView | None = None
    """The latest view of the execution that this service drives."""
    fleet_paused: Callable[[], bool] = lambda: False
    """Whether the kill switch of the whole fleet is on."""
    policy_trouble: Callable[[], str] = lambda: ""
    """Why the present policy file is not in force."""

    def driven(self, former: str, now_ms: int) -> str:
        """Note that this service drives the cluster; returns that in a sentence. `former`: who drove it before."""
        self.held_by, self.idle_why, self.drives_since_ms = "", "", now_ms
        self.unanswered = self.doubted = False
        self._known_who_drives()
        return f"{self.me} drives {self.name}" + (f"; before, {former} did" if former else "")

    def left(self, holder: str, why: str, now_ms: int) -> tuple[str, int | None]:
        """Note that this service does not drive the cluster: another process does (`holder`), or why none does.

        Returns what is new about who drives, in a sentence, and since when this service drove until now.
        """
        if holder or not why:
            self._known_who_drives()
            self.held_at_ms = now_ms
        elif self.undriven_ms is None:
            self.undriven_ms = now_ms
        if self.held_by and self._is_unsure(now_ms):
            return "", None  # One question failed: as far as is known, that process still drives it.
        before, self.held_by, self.idle_why = self.held_by, holder, why
        since_ms, self.drives_since_ms = self.drives_since_ms, None
        if since_ms is not None:
            return (
                f"{self.me} no longer drives {self.name}: {f'{holder} does' if holder else why or OBSERVED}",
                since_ms,
            )
        return (f"{holder} drives {self.name}; {self.me} stands by" if holder not in ("", before) else ""), None

    def _known_who_drives(self) -> None:
        self.driver_kind = "driven-again" if self.told_undriven else "driver"
        self.undriven_ms, self.told_undriven = None, False

    def undriven(self, now_ms: int) -> str:
        """Why nobody has driven the cluster for a while, as far as is known, once; "": it is not so, or was told."""
        # The reason may change with each attempt, by the broker that is asked: people are told once that there is one.
        if self.undriven_ms is None or self._is_unsure(now_ms) or self.told_undriven:
            return ""
        self.told_undriven = True
        return f"nothing can be carried out in {self.name}: {self.idle_why}"

    def _is_unsure(self, now_ms: int) -> bool:
        """Whether others may drive it all the same. Where no broker answers, nobody does."""
        return self.undriven_ms is not None and now_ms - self.undriven_ms < UNSURE_MS and not self.unanswered

    def view(self, view: ExecutionView | None, counts: ClusterCounts) -> None:
        """Note a view of the execution; what ended and was copied since the last view is counted."""
        before, self.execution = self.execution, view
        if before is None or view is None:
            return
        for state, many in view.counts.items():
            if state not in OPEN_STATES:
                counts.moves[state] += max(0, many - before.counts.get(state, 0))
        counts.copied_bytes += max(0, view.copied_bytes - before.copied_bytes)

    def not_observed(self, why: str, now_ms: int) -> bool:
        """Note that an observation failed; returns whether the one before did not."""
        new = self.reach is not Reach.SILENT
        self.reach, self.reach_why = Reach.SILENT, why
        self.silent_since_ms = now_ms if new else self.silent_since_ms
        return new

    def observed(self, observation: ClusterObservation, moves: tuple[MoveView, ...], now_ms: int) -> str:
        """Note an observation; returns in a sentence that the cluster answers again, if the one before failed."""
        silent = self.reach is Reach.SILENT
        self.idle_why = "" if self.unanswered else self.idle_why  # It answers: its executor is being started.
        self.reach, self.reach_why, self.unanswered = Reach.ANSWERS, "", False
        self.observation, self.moves = observation, moves
        return f"{self.name} answers again after {told_ms(now_ms - self.silent_since_ms)}" if silent else ""

    def failed(self, error: ShunterError) -> bool:
        """Note that an attempt to drive the cluster failed; returns whether an outage, or its end, is news by that."""
        if isinstance(error, JournalFenced):
            self.undriven_ms = None  # Somebody has just begun to drive it. The next attempt tells who.
        before, self.unanswered = self.unanswered, isinstance(error, NoBrokerAnswers)
        return self.unanswered is not before

    def doubts(self, facts: ClusterFacts) -> bool:
        """Note whether the cluster answers the executor and confirms who drives it; returns whether that is news.

        Then a look of now says at once how the cluster stands, and not the next one, which may be a minute away.
        """
        silent = facts.execution is not None and facts.execution.silent_since_ms is not None
        before, self.doubted = self.doubted, silent or facts.unclaimed_since_ms is not None
        return self.doubted is not before

    @property
    def shown(self) -> ExecutionView | None:
        """The latest view, without rate and end while these are of an earlier time: another may drive, or nobody answers."""
        view = self.execution
        silent = self.reach is Reach.SILENT
        if view is None or not (silent or self.doubted):
            return view
        held = "the cluster does not answer" if silent else "the cluster does not confirm it now"
        return replace(view, bytes_per_s=None, left_ms=None, low_ms=None, high_ms=None, held=held)

    @property
    def attributed(self) -> tuple[MoveView, ...]:
        """The moves that the last observation saw, each with whose it is, as far as that is known now."""
        return self._attributed(self.execution)[1]

    def _attributed(self, view: ExecutionView | None) -> tuple[ClusterObservation | None, tuple[MoveView, ...]]:
        """Say whose the observed moves are, if the observation could not read the journal: its driver has it in memory."""
        seen = self.observation
        if view is None or seen is None or not seen.unattributed:
            return seen, self.moves
        ours = {row.partition for row in view.moves}
        moves = tuple(
            replace(each, whose=EXTERNAL) if each.whose == UNKNOWN else each
            for each in self.moves
            if each.whose != UNKNOWN or each.partition not in ours
        )
        external = sum(each.whose == EXTERNAL for each in moves)
        return replace(seen, unattributed=0, external=external), moves

    def stood(self, batch: StoreBatch, now_ms: int, driving: Driving | None, words: ClusterWords) -> StoreBatch:
        """A batch whose events say how the cluster stands once it is applied, not before it."""
        if not batch.events:
            return batch
        stands = stand_told(situation(self.facts(now_ms, driving, words, batch)))
        return replace(batch, events=tuple(replace(each, facts=stands) for each in batch.events))

    def facts(
        self, now_ms: int, driving: Driving | None, words: ClusterWords, batch: StoreBatch = NOTHING
    ) -> ClusterFacts:
        """Everything that a situation is worked out from; `batch`: as it is once that is applied."""
        proposals, intents = words.after(batch)
        records = words.records
        view = None if driving is None else self.execution
        observation, _moves = self._attributed(view)
        role = ServiceRole.STANDBY if self.held_by else ServiceRole.IDLE
        if driving is not None:
            role = ServiceRole.DRIVES
        elif words.cluster.policy.observes:
            role = ServiceRole.OBSERVES
        return ClusterFacts(
            name=self.name,
            now_ms=now_ms,
            reach=self.reach,
            reach_why=self.reach_why,
            silent_since_ms=self.silent_since_ms,
            observation=observation,
            stale_ms=self.stale_ms,
            role=role,
            driver=self.held_by,
            claimed_at_ms=self.held_at_ms if driving is None else driving.claimed_at_ms(),
            unanswered=self.unanswered,
            undriven=self.undriven_ms is not None and not self._is_unsure(now_ms),
            lost_pause=words.lost_pause,
            idle_why=records.trouble if records.lost else self.idle_why,
            execution=None if view is None else facts_of_execution(view),
            switch=words.switch,
            fleet_paused=self.fleet_paused(),
            policy_trouble=self.policy_trouble(),
            proposals=tuple(proposals.values()),
            holds=tuple(hold_of(each) for each in intents if each.kind is IntentKind.HOLD),
            store_trouble=records.trouble,
            store_lost=records.lost,
            words=words.words_place,
            words_why="" if words.shared is None else words.shared.why,
        )
