"""Who drives a cluster, as a service knows it: one question that failed says nothing about that."""

from __future__ import annotations

from shunter.app.service.known import UNSURE_MS, Known
from shunter.drivers.journal.journals import JournalFenced

THEM = "process 7 on other (lease x)"
FAILED = "making topic __shunter_journal: the connection failed"


def test_a_standby_whose_question_failed_once_stands_by() -> None:
    """An outsider's find: three seconds after a broker died, a pager heard that nothing can be carried out."""
    known = Known("prod", 0, "this service")
    known.left(THEM, "", 0)
    for now_ms in (1_000, UNSURE_MS):
        assert known.left("", FAILED, now_ms) == ("", None)
        assert (known.held_by, known.idle_why, known.undriven(now_ms)) == (THEM, "", "")
    now_ms = 1_000 + UNSURE_MS
    known.left("", FAILED, now_ms)
    assert (known.held_by, known.idle_why) == ("", FAILED)
    assert known.undriven(now_ms) == f"nothing can be carried out in prod: {FAILED}"
    # An outsider's find: 62 messages in seven minutes, for each broker that was asked gave another reason.
    known.left("", "DescribeCluster failed", now_ms + 5_000)
    assert known.undriven(now_ms + 5_000) == "", "told once"
    known.driven("", now_ms + 10_000)
    known.left("", FAILED, now_ms + 20_000)
    assert known.undriven(now_ms + 20_000 + UNSURE_MS) == f"nothing can be carried out in prod: {FAILED}"


def test_a_driver_that_lost_its_claim_asks_who_has_it_before_it_says_that_nobody_drives() -> None:
    known = Known("prod", 0, "this service")
    known.driven("", 0)
    told, since_ms = known.left("", "the claim was lost", 5_000)
    assert (told, since_ms) == ("this service no longer drives prod: the claim was lost", 0)
    assert known.undriven(5_000) == ""
    told, _since_ms = known.left(THEM, "", 8_000)
    assert told == f"{THEM} drives prod; this service stands by"
    assert known.undriven(100_000) == ""


def test_whoever_is_fenced_knows_that_somebody_drives_and_an_alarm_is_taken_back() -> None:
    """An SRE's find: "nothing can be carried out: another executor took it over", and no message that it was over."""
    known = Known("prod", 0, "this service")
    known.left("", "the claim is not confirmed", 1_000)
    known.failed(JournalFenced("topic j: another executor took it over", retriable=False))
    known.left("", "topic j: another executor took it over", UNSURE_MS + 1_001)
    assert known.undriven(UNSURE_MS + 1_001) == "", "who drives is asked next"
    known.left(THEM, "", UNSURE_MS + 3_000)
    assert known.driver_kind == "driver"
    known.left("", FAILED, 100_000)
    known.left("", FAILED, 100_000 + UNSURE_MS)
    assert known.undriven(100_000 + UNSURE_MS) != ""
    known.driven("", 200_000)
    assert known.driver_kind == "driven-again"
    known.left(THEM, "", 300_000)
    assert known.driver_kind == "driver"
