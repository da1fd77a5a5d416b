"""The picture of a cluster: what flows between brokers while moves run."""

from dataclasses import replace

from shunter.core.keeper.cluster_facts import Age, ClusterFacts, OpenExecution, Reach, ServiceRole
from shunter.core.keeper.situation import unseen
from shunter.views.execution import ExecutionView, MoveRow
from shunter.views.keeper_picture import Surrounding, dressed, view_moves
from shunter.views.service import FleetRow, FlowView, KeptClusterView


def row(state: str, direction: str, current: tuple[int, ...], step: tuple[int, ...] | None = None) -> MoveRow:
    """A move of a partition from brokers 0, 1, 2 to 3, 4, 2."""
    return MoveRow("t-0", state, direction, (0, 1, 2), current, (3, 4, 2), step, 1, "", "", 100, 60, 0)


def flows(*rows: MoveRow) -> tuple[FlowView, ...]:
    execution = ExecutionView(0, "c", "p", True, None, {}, 0, 0, None, None, None, None, "", 0, (), 0, 0, "", rows)
    page = KeptClusterView(1, FleetRow("lab", "c", unseen("lab")))
    return dressed(page, Surrounding(ClusterFacts("lab", 0), (), execution)).flows


def test_replicas_flow_from_where_they_go_to_where_they_come() -> None:
    begun = row("moving", "forward", (0, 1, 2, 3), (0, 1, 2, 3))
    assert flows(begun) == (FlowView(0, 3, 1, 1, 20), FlowView(1, 4, 1, 1, 20))
    half = row("moving", "forward", (1, 2, 3, 4), (1, 2, 3, 4))
    assert [(each.source, each.target) for each in flows(half)] == [(1, 4)], "the first replica has arrived"
    waits = row("pending", "forward", (0, 1, 2))
    assert flows(waits, waits)[0] == FlowView(0, 3, 2, 0, 40)
    assert flows(row("done", "forward", (3, 4, 2))) == ()


def test_a_rollback_flows_back() -> None:
    back = row("moving", "back", (3, 4, 2, 1), (3, 4, 2, 1))
    assert [(each.source, each.target) for each in flows(back)] == [(3, 0), (4, 1)]


def test_of_a_move_that_has_ended_it_is_not_said_who_is_in_sync() -> None:
    """Found by hand: moves that had ended were shown with replicas out of sync, by what was seen while they ran."""
    rows = (row("done", "forward", (3, 4, 2)), row("moving", "forward", (0, 1, 2, 3)))
    execution = ExecutionView(1, "c", "p", True, None, {}, 0, 0, None, None, None, None, "", 0, (), 0, 0, "", rows)
    open_move, ended = view_moves(execution, {"t-0": (1, 2)}, (), ClusterFacts("lab", 0)).moves
    assert (open_move.state, open_move.isr) == ("moving", (1, 2))
    assert (ended.state, ended.replicas, ended.isr) == ("done", (3, 4, 2), None), "[] would be an empty ISR"


def test_a_replica_that_is_being_copied_is_one_of_the_replicas() -> None:
    """An outsider's find: beside its copy's bytes the page said of the replica that it "will come"."""
    rows = (row("moving", "forward", (0, 1, 2), (0, 1, 2, 3)), row("pending", "forward", (0, 1, 2)))
    execution = ExecutionView(1, "c", "p", True, None, {}, 0, 0, None, None, None, None, "", 0, (), 0, 0, "", rows)
    copies, waits = view_moves(execution, {}, (), ClusterFacts("lab", 0)).moves
    assert (copies.replicas, waits.replicas) == ((0, 1, 2, 3), (0, 1, 2))


def test_what_is_being_added_is_told_from_what_was_there_before() -> None:
    """An SRE's find: on the way back an original replica on a broker that was down was drawn as one that is added."""
    rows = (row("moving", "back", (3, 4, 2), (0, 1, 2, 3, 4)), row("moving", "back", (0, 3, 4, 2), (0, 1, 2)))
    execution = ExecutionView(1, "c", "p", True, None, {}, 0, 0, None, None, None, None, "", 0, (), 0, 0, "", rows)
    both, one = view_moves(execution, {}, (), ClusterFacts("lab", 0)).moves
    assert (both.adding, one.adding) == ((0, 1), (1,)), "broker 0 was there all the time"


def test_the_whole_has_no_end_while_a_move_is_stuck() -> None:
    going = ExecutionView(1, "c", "p", True, None, {}, 100, 50, 0.0, 18_000, 13_000, 22_000, "", 0, (), 0, 0, "", ())
    page, facts = KeptClusterView(0, FleetRow("lab", "", unseen("lab"))), ClusterFacts("lab", 0)
    ends = view_moves(going, {}, (), facts)
    assert (ends.left_ms, ends.low_ms, ends.high_ms, ends.why_no_eta) == (18_000, 13_000, 22_000, "")
    assert dressed(page, Surrounding(facts, (), going)).row.left_ms == 18_000
    held = replace(going, held="18 stuck: it can't end without broker 3, which is down")
    none = view_moves(held, {}, (), facts)
    assert (none.left_ms, none.low_ms, none.high_ms) == (None, None, None)
    assert none.why_no_eta == f"the moves that go on end in 18 s (13 s to 22 s); {held.held}"
    assert dressed(page, Surrounding(facts, (), held)).row.left_ms is None


def test_the_silence_grows_while_the_driven_cluster_answers_nobody_though_no_move_is_open() -> None:
    idle = ExecutionView(1, "c", "", False, None, {}, 0, 0, None, None, None, None, "", 0, (), 0, 0, "", ())
    facts = ClusterFacts("lab", 100_000, role=ServiceRole.DRIVES, execution=OpenExecution(0), reach=Reach.ANSWERS)
    silent = replace(facts, reach=Reach.SILENT, silent_since_ms=10_000)
    assert view_moves(idle, {}, (), facts).silent_ms == 0
    seen = view_moves(idle, {}, (), silent)
    assert (seen.silent_ms, seen.situation.moves) == (90_000, Age.OLD)
    theirs = replace(silent, role=ServiceRole.STANDBY, execution=None)
    assert view_moves(None, {}, (), theirs).silent_ms is None
    assert view_moves(None, {}, (), replace(theirs, role=ServiceRole.IDLE)).silent_ms == 90_000
    moving = replace(silent, execution=OpenExecution(3, silent_since_ms=40_000))
    assert view_moves(replace(idle, running=True), {}, (), moving).silent_ms == 60_000
