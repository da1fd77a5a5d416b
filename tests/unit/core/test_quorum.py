"""How the metadata quorum stands, in a sentence: who is missing, who is behind, and what one more loss means."""

import pytest

from shunter.core.check_up import diagnose
from shunter.core.quorum import judge_quorum, needs
from shunter.model.check_up import CheckedJournal, CheckUp, Level, Quorum, Voter

LEADS, FOLLOWS = Voter(1, 0, 0), Voter(2, 400, 900)


WHOLE = "voters of the metadata quorum caught up, node 1 leads"
LAST = "; if one more is lost, nothing is elected, moved or changed any more"


@pytest.mark.parametrize(
    ("voters", "level", "told"),
    [
        ((LEADS, FOLLOWS, Voter(3, 0, 500)), Level.FINE, f"3 of 3 {WHOLE}"),
        (
            (LEADS, FOLLOWS, Voter(3, 45_200, 45_700)),
            Level.PROBLEM,
            f"2 of 3 {WHOLE}; voter 3 last fetched 45 s ago{LAST}",
        ),
        (
            (LEADS, FOLLOWS, Voter(3, 0, 500), Voter(4, 300, 500), Voter(5, None, None)),
            Level.WARNING,
            f"4 of 5 {WHOLE}; voter 5 has not fetched since the leader was elected",
        ),
        (
            (LEADS, FOLLOWS, Voter(3, 100, 61_000)),
            Level.PROBLEM,
            f"2 of 3 {WHOLE}; voter 3 fetches, and has not had everything for 61 s{LAST}",
        ),
        ((LEADS,), Level.FINE, "1 of 1 voter of the metadata quorum caught up, node 1 leads"),
    ],
)
def test_voters_that_are_behind_are_named_with_what_one_more_loss_means(
    voters: tuple[Voter, ...], level: Level, told: str
) -> None:
    """An outsider's find: no command said a word about the quorum in an incident."""
    found = judge_quorum(Quorum(1, voters))
    assert (found.level, found.text) == (level, told)


def test_a_leader_that_tells_no_times_leaves_them_unknown() -> None:
    found = judge_quorum(Quorum(1, (Voter(1, None, None), Voter(2, None, None))))
    assert found.text == "node 1 leads 2 voters of the metadata quorum; how far they are is not told"


def test_without_a_quorum_doctor_says_nothing_of_one() -> None:
    for quorum, told in ((None, []), (Quorum(1, (LEADS,)), ["quorum"])):
        seen = CheckUp("c", 1, "Apache", (), (), quorum=quorum)
        assert [each.check for each in diagnose(seen, CheckedJournal("/j")) if each.check == "quorum"] == told


@pytest.mark.parametrize(
    ("voters", "node", "needed"),
    [
        ((LEADS, FOLLOWS, Voter(3, 0, 500)), 3, False),
        ((LEADS, FOLLOWS, Voter(3, 0, 500), Voter(4, 45_000, 45_000)), 3, True),  # An outsider's find: one was dead.
        ((LEADS, FOLLOWS, Voter(3, 0, 500), Voter(4, 45_000, 45_000)), 4, False),
        ((LEADS, FOLLOWS), 2, True),
        ((LEADS, FOLLOWS), 7, False),
    ],
)
def test_a_quorum_needs_whom_it_has_no_majority_without(voters: tuple[Voter, ...], node: int, *, needed: bool) -> None:
    assert needs(Quorum(1, voters), node) is needed
