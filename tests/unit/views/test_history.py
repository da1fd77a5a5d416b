"""What a history tells of other services, by the words that they left in the cluster."""

from __future__ import annotations

from dataclasses import replace

from shunter.model.service import (
    IntentKind,
    KeptIntent,
    KeptProposal,
    KillSwitch,
    ProposalState,
    Vote,
    Words,
)
from shunter.views.history import told_words

NOW = 9_000
WAITS = KeptProposal(
    "drain-1",
    "c",
    "id",
    "drain",
    ("drain",),
    ("broker 3 is drained",),
    (),
    2,
    7,
    0,
    7,
    (),
    1_000,
    ProposalState.WAITING,
    1_000,
)
DRAIN = KeptIntent(IntentKind.DRAIN, "3", 0, "anna", 900, "old disks")
NONE = Words()


def told(before: Words, after: Words) -> list[tuple[int, str, str, str]]:
    return [(each.at_ms, each.kind, each.who, each.subject) for each in told_words("c", before, after, NOW)]


def test_a_host_that_knows_nothing_tells_all_that_the_words_have_when_it_happened() -> None:
    done = replace(WAITS, state=ProposalState.DONE, changed_at_ms=5_000, votes=(Vote("ben", 2_000, True, "go"),))
    words = Words((DRAIN,), KillSwitch("c", "carl", 3_000), (done,))
    events = told_words("c", NONE, words, NOW)
    assert [(each.at_ms, each.kind, each.who, each.subject) for each in events] == [
        (900, "intend", "anna", "3"),
        (1_000, "proposed", "", "drain-1"),
        (2_000, "approve", "ben", "drain-1"),
        (3_000, "pause-all", "carl", ""),
        (5_000, "proposal-done", "", "drain-1"),
    ]
    assert {(each.cluster, each.facts["source"]) for each in events} == {
        ("c", "read from the cluster's topic of people's words")
    }
    assert told_words("c", words, words, NOW) == ()


def test_what_changed_is_told_once() -> None:
    before = Words((DRAIN,), None, (WAITS,))
    voted = replace(WAITS, votes=(Vote("ben", 2_000, False, ""),), state=ProposalState.DECLINED, changed_at_ms=2_000)
    assert told(before, Words((DRAIN,), None, (voted,))) == [
        (2_000, "decline", "ben", "drain-1"),
        (2_000, "proposal-declined", "", "drain-1"),
    ]


def test_what_was_taken_back_has_no_time_and_says_so() -> None:
    before = Words((DRAIN,), KillSwitch("c", "carl", 3_000))
    events = told_words("c", before, NONE, NOW)
    assert [(each.at_ms, each.kind) for each in events] == [(NOW, "withdraw"), (NOW, "resume-all")]
    assert all("the cluster has no time of it" in each.text for each in events)
    assert "the pause was lifted by the process that took over" in events[-1].text
    by = told_words("c", before, NONE, NOW, "the service on lab-2 (process 7)")[-1].text
    assert by.startswith("the pause was lifted by the service on lab-2 (process 7); seen now")
    lifted = Words((DRAIN,), KillSwitch("c", "dora", 3_000, lifted=True))
    assert told(before, lifted) == [(NOW, "resume-all", "dora", "")]
    assert told(lifted, Words((DRAIN,))) == [], "it was told when it was lifted"
