"""How a cluster stands: over the product of all facts, no sentence says anything else than the facts."""

from dataclasses import replace

import pytest
from every_situation import (
    BAND,
    DEAD,
    DRAIN,
    HELD,
    LATE,
    NOW_MS,
    OBSERVED,
    THEM,
    THROWN,
    UNCLAIMED_MS,
    WHY_SILENT,
    every,
    proposal,
)

from shunter.core.keeper.cluster_facts import Age, ClusterFacts, OpenExecution, Reach, ServiceRole, WordsPlace
from shunter.core.keeper.situation import (
    STATES,
    ClusterSeverity,
    ClusterSituation,
    doing_about,
    severity_of,
    situation,
    unseen,
    why_refused,
    why_unobserved,
    worst,
)
from shunter.core.wording import told_time
from shunter.model.keeper import Condition
from shunter.model.service import OrderKind, ProposalState, Refusal, Vote

RANK = list(ClusterSeverity)
ALL = [(facts, situation(facts)) for facts in every()]
LAB = ClusterFacts(
    "lab", NOW_MS, Reach.ANSWERS, observation=OBSERVED, role=ServiceRole.DRIVES, execution=OpenExecution(0)
)
IDLE_WORDS = ("nothing moves", "moves nothing", "nothing is being", "nothing is done")


def told(stands: ClusterSituation) -> str:
    """Every sentence of a situation."""
    return " | ".join((stands.headline, *stands.notes, stands.doing))


class TestEveryCombination:
    def test_there_are_thousands(self) -> None:
        assert len(ALL) > 2_000

    def test_nothing_is_better_than_the_worst_that_is_known(self) -> None:
        for facts, stands in ALL:
            seen = facts.observation
            for held in () if seen is None else seen.conditions:
                assert RANK.index(stands.severity) <= RANK.index(severity_of(held.condition)), facts
            if seen is not None and seen.brokers_down:
                assert RANK.index(stands.severity) <= RANK.index(ClusterSeverity.WARNING), (
                    "a broker down is never healthy"
                )
            if seen is not None and (seen.offline or seen.under_min_isr or seen.brokers_down != seen.down_empty):
                assert stands.severity is ClusterSeverity.CRITICAL, facts
            if facts.reach is Reach.SILENT:
                assert (stands.severity, stands.headline) == (
                    ClusterSeverity.CRITICAL,
                    f"does not answer: {WHY_SILENT}",
                )
            if stands.severity is ClusterSeverity.OK:
                assert (stands.headline, stands.notes, stands.figures) == ("healthy", (), Age.CURRENT)

    def test_old_figures_are_told_as_old_and_unknown_ones_not_at_all(self) -> None:
        for facts, stands in ALL:
            assert (stands.figures is Age.UNKNOWN) == (facts.observation is None) == (stands.observed_at_ms is None)
            if stands.figures is not Age.CURRENT:
                silent = facts.execution is not None and facts.execution.silent_since_ms is not None
                doubted = silent or facts.unclaimed_since_ms is not None
                assert stands.unserved or doubted, "whether the service is ready is told by the same facts"
            for sentence in (stands.headline, *stands.notes):
                if "partition" in sentence or "broker 3" in sentence:
                    assert (stands.figures is Age.OLD) == sentence.startswith("when last observed, "), facts

    def test_figures_of_before_a_doubt_are_old_and_those_seen_in_it_are_not(self) -> None:
        """An SRE's find: "4 brokers, all live", half a minute after one hung, beside a claim that nobody confirmed."""
        claimed_ms = NOW_MS - 30_000
        for seen_ms, age in ((claimed_ms + 3_000, Age.OLD), (NOW_MS - 5_000, Age.CURRENT)):
            seen = replace(OBSERVED, at_ms=seen_ms)
            facts = replace(LAB, observation=seen, claimed_at_ms=claimed_ms)
            assert situation(facts).figures is age
            silent = replace(LAB, observation=seen, execution=OpenExecution(3, silent_since_ms=claimed_ms))
            assert situation(silent).figures is age
            assert "the last observation is old" not in (situation(facts).headline, *situation(facts).notes)

    def test_figures_of_moves_are_old_while_the_claim_is_not_confirmed(self) -> None:
        """An SRE's find: a service that had lost its claim counted the end of another's moves down, as current."""
        claimed_ms = NOW_MS - 30_000
        stands = situation(replace(LAB, execution=OpenExecution(3), claimed_at_ms=claimed_ms))
        assert (stands.moves, stands.moves_at_ms) == (Age.OLD, claimed_ms)
        assert situation(replace(LAB, execution=OpenExecution(3))).moves is Age.CURRENT

    def test_nothing_is_done_is_never_said_while_moves_go_on(self) -> None:
        for facts, stands in ALL:
            execution = facts.execution
            if execution is not None and execution.open > execution.paused:
                assert not any(words in told(stands) for words in IDLE_WORDS), facts
                assert f"{execution.open} moves" in stands.doing
                for held in () if facts.observation is None else facts.observation.conditions:
                    assert not any(words in doing_about(held, facts) for words in IDLE_WORDS), facts

    def test_a_standby_is_shown_as_one_whatever_holds_and_takes_no_order(self) -> None:
        for facts, stands in ALL:
            if facts.role is ServiceRole.STANDBY:
                assert stands.driver == THEM
                assert THEM in stands.doing
                assert stands.doing.startswith(f"this service stands by: {THEM} drives the cluster")
                assert (stands.orders, stands.why_not) == ((), why_refused(OrderKind.PAUSE, facts, whole=True)[1])  # type: ignore[index]
                theirs = facts.words is WordsPlace.READ
                assert theirs or "paused by" not in told(stands), "its own switch is in force nowhere yet"
                if facts.observation is not None and facts.observation.journal_open:
                    assert "106 moves of the journal" in stands.doing, "never: nothing moves"
            assert stands.state in STATES
            assert (stands.state == "standby") == (facts.role is ServiceRole.STANDBY and facts.reach is Reach.ANSWERS)

    def test_that_this_service_drives_is_said_only_while_its_claim_is_confirmed(self) -> None:
        """Seen by two: for 25 s after the death of the claim's coordinator both said that they drive the cluster."""
        for facts, stands in ALL:
            unclaimed = facts.claimed_at_ms is not None and NOW_MS - facts.claimed_at_ms == UNCLAIMED_MS
            assert ("is not confirmed since 2026-11-23 02:12:55 UTC" in told(stands)) == unclaimed, facts
            assert (stands.unclaimed_since_ms is not None) == unclaimed
            if unclaimed:
                assert (stands.driver, stands.state == "ok", stands.severity is ClusterSeverity.OK) == (
                    "",
                    False,
                    False,
                )
                held = () if facts.observation is None else facts.observation.conditions
                for sentence in (stands.doing, *(doing_about(each, facts) for each in held)):
                    assert "this service rolls back" not in sentence or "unless another service drives" in sentence
            elif facts.role is ServiceRole.DRIVES:
                assert stands.driver == "this service"

    def test_a_standby_says_who_drives_only_while_it_hears_of_that(self) -> None:
        """An outsider's find: a minute after the driver's death, beside a dead coordinator: "A drives the cluster"."""
        for facts, _stands in ALL:
            if facts.role is not ServiceRole.STANDBY:
                continue
            stands = situation(replace(facts, claimed_at_ms=NOW_MS - 16_000))
            assert f"{THEM} drove the cluster at 2026" in stands.doing
            assert "whether it still does is not known" in told(stands)
            assert (stands.driver, stands.state == "standby") == ("", False)
            assert situation(replace(facts, claimed_at_ms=NOW_MS - 14_000)).driver == THEM

    def test_what_heals_or_what_that_waits_for_is_told_by_who_drives(self) -> None:
        """Found by hand: the page said that a heal waits, and `serve status` that nothing moves, or that others do."""
        for facts, stands in ALL:
            seen = facts.observation
            if facts.role is ServiceRole.DRIVES and seen is not None and DEAD in seen.conditions:
                about = doing_about(DEAD, facts)
                made = [each.id for each in facts.proposals if "broker-dead" in each.conditions]
                said = [*made, *(each.told for each in facts.held), about]
                assert stands.figures is not Age.CURRENT or any(each in told(stands) for each in said), facts

    def test_a_pause_is_told_exactly_while_it_is_in_force(self) -> None:
        for facts, stands in ALL:
            assert ("paused by anna since" in told(stands)) == (facts.paused is not None), facts
            lifted = facts.switch is not None and facts.switch.lifted
            assert ("lifted the pause" in told(stands)) == (
                lifted and facts.role not in (ServiceRole.STANDBY, ServiceRole.OBSERVES)
            ), facts
            if "lifted the pause" in told(stands) and facts.role is ServiceRole.DRIVES:
                later = facts.reach is Reach.SILENT
                assert ("are resumed once the cluster answers" in told(stands)) == later, "nothing is resumed before"

    def test_a_hold_is_told_exactly_while_it_is_in_force(self) -> None:
        for facts, stands in ALL:
            assert (f"scope offline is {HELD.told}" in told(stands)) == bool(facts.held), facts
            assert (facts.role is ServiceRole.DRIVES) <= (facts.held == facts.holds)
            if facts.held:
                assert stands.severity is not ClusterSeverity.OK
            if facts.observation is None or DEAD not in facts.observation.conditions or not facts.held:
                continue
            if facts.role is ServiceRole.DRIVES and not any("broker-dead" in e.conditions for e in facts.proposals):
                assert doing_about(DEAD, facts) == HELD.told, facts
                if facts.execution == OpenExecution(0) and facts.paused is None:
                    assert HELD.told in stands.doing

    def test_no_order_is_offered_that_would_be_refused(self) -> None:
        for facts, stands in ALL:
            for kind in stands.orders:
                assert None in (why_refused(kind, facts), why_refused(kind, facts, whole=True))
            open_moves = 0 if facts.execution is None else facts.execution.open
            if facts.paused is not None and not open_moves:
                assert OrderKind.PAUSE not in stands.orders, "it is paused already"
            if not open_moves:
                assert not {OrderKind.STOP, OrderKind.ROLL_BACK, OrderKind.LIMIT} & {*stands.orders}
            if facts.store_trouble or not facts.words.known:
                kept_here = facts.unanswered or (facts.switch is not None and facts.switch.unsent)
                may = {OrderKind.PAUSE, *([OrderKind.RESUME] if kept_here and not facts.store_trouble else [])}
                assert set(stands.orders) <= may, "no other one can be kept"
            if OrderKind.APPROVE in stands.orders:
                assert any(each.state is ProposalState.WAITING for each in facts.proposals)

    def test_an_order_that_is_not_offered_has_its_reason_unless_it_would_change_nothing(self) -> None:
        """Found by hand: in an outage dead buttons said that nothing would change, with 17 moves open and a hold."""
        for facts, stands in ALL:
            for kind in set(OrderKind) - {*stands.orders}:
                why = stands.refusals.get(kind.value, stands.why_not)
                refused = why_refused(kind, facts)
                assert why or (refused is None and facts.words.known and not facts.store_trouble), (kind, facts)
                if kind not in (OrderKind.PAUSE, OrderKind.RESUME) and refused is not None:
                    assert why == refused[1], (kind, facts)
            if facts.store_trouble and facts.role is ServiceRole.DRIVES:
                assert facts.store_trouble in stands.refusals["stop"]

    def test_where_words_live_is_told_and_nothing_is_taken_before_they_are_known(self) -> None:
        for facts, stands in ALL:
            said = facts.words_why != "" and facts.reach is not Reach.SILENT
            assert ("approvals live on this host alone" in told(stands)) == (said and facts.words.known), facts
            assert ("approvals are not known" in told(stands)) == (said and not facts.words.known), facts
            if said and not facts.words.known:
                assert RANK.index(stands.severity) <= RANK.index(ClusterSeverity.WARNING), facts
                assert stands.unserved or facts.role is ServiceRole.STANDBY
            if not facts.words.known:
                for kind in (OrderKind.INTEND, OrderKind.APPROVE, OrderKind.WITHDRAW):
                    assert why_refused(kind, facts) is not None

    def test_words_that_are_just_being_read_are_told_before_an_order_is_refused_for_it(self) -> None:
        """An SRE's find: `intend` was refused, and `serve status` did not say why."""
        facts = replace(LAB, words=WordsPlace.UNREAD)
        assert why_refused(OrderKind.INTEND, facts) is not None
        assert "approvals are not known" in situation(facts).headline

    def test_no_advice_names_a_flag(self) -> None:
        for _facts, stands in ALL:
            assert "--" not in told(stands).replace("--service SERVICE", "")


class TestWhatIsTold:
    def test_a_dead_broker_that_a_running_execution_heals(self) -> None:
        running = proposal(ProposalState.RUNNING, "broker-dead")
        seen = replace(OBSERVED, brokers_down=(3,), conditions=(DEAD, BAND, LATE))
        facts = replace(LAB, observation=seen, execution=OpenExecution(151), proposals=(running,))
        assert situation(facts).headline == "broker 3 down"
        assert not any("151 replicas" in note for note in situation(facts).notes), "one thing is said once"
        assert situation(facts).doing == "this service carries out offline-running: 151 moves open"
        about = [doing_about(held, facts) for held in seen.conditions]
        assert about == [
            "being mended: this service carries out offline-running: 151 moves open",
            "a plan for this has to wait for the end of 151 open moves",
            "where the cause is broker down: being mended: this service carries out offline-running: 151 moves open",
        ]
        assert doing_about(LATE, replace(facts, observation=OBSERVED)) == "no plan mends this"
        handed_in = replace(facts, proposals=())
        assert situation(handed_in).doing == (
            "this service carries out a plan that was handed in: 151 moves open; "
            "broker down: a plan for this has to wait for the end of 151 open moves"
        )

    @pytest.mark.parametrize(
        ("state", "words"),
        [
            (ProposalState.WAITING, "proposal offline-waiting waits for approval"),
            (ProposalState.APPROVED, "proposal offline-approved begins once nothing holds it back"),
            (ProposalState.STARTING, "proposal offline-starting is being begun"),
        ],
    )
    def test_a_condition_with_a_proposal(self, state: ProposalState, words: str) -> None:
        assert doing_about(DEAD, replace(LAB, proposals=(proposal(state, "broker-dead"),))) == words

    def test_a_proposal_that_people_approved_is_told_so(self) -> None:
        voted = replace(proposal(ProposalState.APPROVED, "broker-dead"), votes=(Vote("anna", 1, True),))
        told = "proposal offline-approved is approved and begins once nothing holds it back"
        assert doing_about(DEAD, replace(LAB, proposals=(voted,))) == told

    def test_a_condition_with_a_proposal_that_this_service_does_not_carry_out(self) -> None:
        left = replace(LAB, role=ServiceRole.IDLE, execution=None, idle_why="no broker answers")
        running = replace(left, proposals=(proposal(ProposalState.RUNNING, "broker-dead"),))
        assert doing_about(DEAD, running) == (
            "proposal offline-running has begun, and this service does not carry it out: no broker answers"
        )

    def test_a_condition_without_one(self) -> None:
        assert doing_about(BAND, LAB) == "another plan comes first"
        assert doing_about(DRAIN, LAB) == "a plan is proposed after the next observation"
        standby = replace(LAB, role=ServiceRole.STANDBY, driver=THEM, execution=None)
        assert doing_about(BAND, standby) == f"decided by who drives the cluster, by its own observations: {THEM}"

    def test_a_hold_that_was_lifted_or_has_ended_is_not_told(self) -> None:
        seen = replace(OBSERVED, brokers_down=(3,), conditions=(DEAD._replace(why_no_plan=()),))
        held = replace(LAB, observation=seen, holds=(HELD,))
        assert situation(held).doing == f"this service moves nothing; scope offline is {HELD.told}"
        for free in (replace(held, holds=()), replace(held, holds=(HELD._replace(until_ms=NOW_MS),))):
            assert "held" not in told(situation(free))
            assert doing_about(free.observation.conditions[0], free) == "a plan is proposed after the next observation"  # type: ignore[union-attr]

    def test_what_holds_an_approved_proposal_back(self) -> None:
        night = proposal(ProposalState.APPROVED, "broker-dead", held_back=("it is night",))
        doing = situation(replace(LAB, proposals=(night,))).doing
        assert doing == "this service moves nothing; offline-approved begins once nothing holds it back: it is night"
        free = replace(LAB, proposals=(replace(night, held_back=()),))
        assert situation(free).doing.endswith("begins once nothing holds it back")

    def test_what_begins_by_itself_is_told_before_it_does(self) -> None:
        comes = "broker down: a plan begins by itself once it has held for 2 minutes"
        seen = replace(OBSERVED, brokers_down=(3,), conditions=(DEAD._replace(comes=comes),))
        assert situation(replace(LAB, observation=seen)).doing == f"this service moves nothing; {comes}"
        held = replace(LAB, observation=seen, holds=(HELD,))
        assert "by itself once" not in situation(held).doing, "a hold keeps it back"

    def test_moves_that_are_stuck_are_told_with_their_reason(self) -> None:
        stuck = OpenExecution(
            23, stuck=23, why_stuck="t-0: it can't end without broker 5; `shunter rollback`, given its name, ends it"
        )
        assert "23 moves can't end now: t-0: it can't end without broker 5" in told(
            situation(replace(LAB, execution=stuck))
        )

    def test_moves_under_a_kill_switch(self) -> None:
        pausing = situation(replace(LAB, switch=THROWN, execution=OpenExecution(151, paused=7)))
        assert pausing.doing == "151 moves of a plan that was handed in are being paused by anna"
        paused = situation(replace(LAB, switch=THROWN, execution=OpenExecution(102, paused=102)))
        assert paused.doing == "nothing moves: 102 moves of a plan that was handed in are paused by anna"
        # An SRE's find: the message that the pause is lifted said that all moves are paused.
        lifted = situation(replace(LAB, switch=THROWN._replace(lifted=True), execution=OpenExecution(41, paused=41)))
        assert lifted.doing == "41 moves of a plan that was handed in are being resumed"
        by_name = situation(replace(LAB, execution=OpenExecution(3, paused=3)))
        assert by_name.doing == "nothing moves: 3 moves of a plan that was handed in are paused"
        copying = situation(replace(LAB, execution=OpenExecution(11, paused=11, copying=5)))
        assert copying.doing == (
            "no step begins: 11 moves of a plan that was handed in are paused; 5 copies under way end by themselves, slowly"
        )
        one = situation(replace(LAB, execution=OpenExecution(11, paused=11, copying=1))).doing
        assert one.endswith("1 copy under way ends by itself, slowly")
        back = situation(replace(LAB, execution=OpenExecution(3, back=3)))
        assert back.doing == "this service rolls back a plan that was handed in: 3 moves open"
        stopped = situation(replace(LAB, execution=OpenExecution(3, stopping=3)))
        assert stopped.doing == "this service stops a plan that was handed in: 3 moves open"
        some = situation(replace(LAB, execution=OpenExecution(3, paused=2)))
        assert some.doing.endswith("3 moves open, 2 of them paused")
        assert paused.headline == "paused by anna since 2026-11-23 02:12 UTC (incident 12)"
        silent = replace(LAB, switch=THROWN._replace(comment=""))
        assert situation(silent).headline == "paused by anna since 2026-11-23 02:12 UTC"
        assert situation(silent).doing == "this service moves nothing, and nothing begins: paused by anna"

    def test_moves_that_nobody_drives(self) -> None:
        left = replace(LAB, role=ServiceRole.IDLE, execution=None, observation=replace(OBSERVED, journal_open=4))
        assert situation(left).doing == (
            "this service does not drive the cluster: its executor is being started; 4 moves of the journal open when last "
            f"observed ({told_time(OBSERVED.at_ms)}): steps under way go on, and this service begins no other"
        )
        assert situation(left).moves is Age.OLD, "who drove it until just now knew better"
        assert situation(left).unserved == "not driven: its executor is being started"
        away = situation(replace(left, reach=Reach.SILENT, reach_why=WHY_SILENT)).doing
        assert "4 moves of the journal open when last observed (2026-11-23 " in away
        assert away.endswith("what steps under way do since then is not known, and no other step begins here")

    def test_while_the_cluster_does_not_answer_nothing_is_said_to_go_on(self) -> None:
        for facts, stands in ALL:
            silent = facts.execution is not None and facts.execution.silent_since_ms is not None
            if silent or (facts.role is ServiceRole.IDLE and facts.reach is not Reach.ANSWERS):
                assert "go on" not in stands.doing, facts
                assert "being paused" not in stands.doing, facts
                assert not silent or "what steps under way do since then is not known" in stands.doing, facts

    def test_an_order_that_has_to_be_kept_in_a_silent_cluster_is_not_offered(self) -> None:
        """An SRE's find: the driver offered to approve a plan, and that failed after half a minute."""
        away = replace(
            LAB,
            reach=Reach.SILENT,
            reach_why=WHY_SILENT,
            words=WordsPlace.TAKEN,
            proposals=(proposal(ProposalState.WAITING, "disk-band"),),
            execution=OpenExecution(2),
        )
        assert {OrderKind.APPROVE, OrderKind.STOP} < set(situation(replace(away, reach=Reach.ANSWERS)).orders)
        turns = {OrderKind.STOP, OrderKind.PAUSE, OrderKind.ROLL_BACK, OrderKind.LIMIT}
        assert set(situation(away).orders) == turns, "the journal takes these"
        told = f"lab does not answer, and people's words are kept there: {WHY_SILENT}"
        assert why_refused(OrderKind.APPROVE, away) == (Refusal.UNREACHABLE, told)
        assert why_refused(OrderKind.APPROVE, replace(away, words=WordsPlace.ALONE)) is None

    def test_conditions_of_one_kind_are_one_sentence(self) -> None:
        seen = replace(OBSERVED, conditions=(BAND, BAND, LATE))
        assert (
            situation(replace(LAB, observation=seen)).headline
            == "conditions hold: disk skew (2 brokers), under-replicated"
        )
        one = situation(replace(LAB, observation=replace(OBSERVED, conditions=(BAND,))))
        assert (one.severity, one.headline) == (ClusterSeverity.WARNING, BAND.text)

    def test_a_cluster_that_was_never_seen(self) -> None:
        stands = unseen("lab")
        assert (stands.severity, stands.headline, stands.figures) == (
            ClusterSeverity.UNKNOWN,
            "not observed yet",
            Age.UNKNOWN,
        )
        assert stands.unserved == "not observed yet"

    def test_the_worst_of_none_is_that_all_is_well(self) -> None:
        assert worst([]) is ClusterSeverity.OK
        assert (
            worst([ClusterSeverity.NOTE, ClusterSeverity.CRITICAL, ClusterSeverity.UNKNOWN]) is ClusterSeverity.CRITICAL
        )


class TestRefusals:
    def refused(self, kind: OrderKind, facts: ClusterFacts, *, whole: bool = False) -> Refusal | None:
        found = why_refused(kind, facts, whole=whole)
        return None if found is None else found[0]

    def test_a_kill_switch_of_the_fleet_is_lifted_for_the_fleet_alone(self) -> None:
        paused = replace(LAB, switch=THROWN)
        assert self.refused(OrderKind.RESUME, paused, whole=True) is None
        of_fleet = replace(paused, fleet_paused=True)
        assert self.refused(OrderKind.RESUME, of_fleet, whole=True) is Refusal.NOT_ALLOWED
        assert self.refused(OrderKind.RESUME, LAB, whole=True) is Refusal.ALREADY_DECIDED
        assert self.refused(OrderKind.RESUME, paused) is Refusal.NOT_ALLOWED

    def test_throttles_stay_while_anything_moves(self) -> None:
        assert self.refused(OrderKind.CLEAR_THROTTLES, LAB) is None
        moving = replace(LAB, observation=replace(OBSERVED, external=1))
        assert self.refused(OrderKind.CLEAR_THROTTLES, moving) is Refusal.NOT_ALLOWED
        assert self.refused(OrderKind.CLEAR_THROTTLES, replace(LAB, reach=Reach.SILENT)) is Refusal.UNREACHABLE
        assert why_unobserved(replace(LAB, observation=None)) == (Refusal.UNREACHABLE, "lab was not observed yet")

    def test_without_the_store_only_the_kill_switch_is_taken(self) -> None:
        lost = replace(LAB, role=ServiceRole.IDLE, execution=None, store_trouble="damaged", store_lost=True)
        assert {kind for kind in OrderKind if self.refused(kind, lost, whole=True) is None} == {OrderKind.PAUSE}
        assert all(self.refused(kind, lost) is not None for kind in OrderKind)
        assert self.refused(OrderKind.STOP, replace(lost, store_lost=False)) is Refusal.UNREACHABLE

    def test_a_refusal_names_the_cause_that_is_known(self) -> None:
        seen = replace(LAB, role=ServiceRole.OBSERVES, execution=None)
        assert why_refused(OrderKind.INTEND, seen) == (
            Refusal.NOT_ALLOWED, 'lab is only observed: write mode = "keep" into the policy file first',
        )  # fmt: skip
        waits = "keeper.toml: [[notify]] changed, which needs a restart of the service"
        refused = why_refused(OrderKind.INTEND, replace(seen, policy_trouble=waits))
        assert refused == (Refusal.NOT_ALLOWED, f"lab is only observed: {waits}")
        unread = replace(LAB, words=WordsPlace.UNREAD, reach=Reach.SILENT, reach_why=WHY_SILENT)
        assert why_refused(OrderKind.INTEND, unread) == (
            Refusal.STORE, f"people's words about lab are not read yet: the cluster does not answer: {WHY_SILENT}",
        )  # fmt: skip
        assert why_refused(OrderKind.INTEND, replace(unread, reach=Reach.ANSWERS))[1].endswith("again in a moment")  # type: ignore[index]

    def test_every_condition_has_a_severity(self) -> None:
        assert {severity_of(each) for each in Condition} == {
            ClusterSeverity.CRITICAL,
            ClusterSeverity.WARNING,
            ClusterSeverity.NOTE,
        }
