"""People's words in a topic: read as they were written, whole plans included, and bounded; who may say there are none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shunter.errors import FormatError
from shunter.formats.word_records import (
    ANSWERS_KEPT_MS,
    ENDED_KEPT,
    PIECE_BYTES,
    WordsDriver,
    applied,
    decode_driver,
    decode_words,
    encode_batch,
    encode_driver,
    encode_words,
    outdated,
)
from shunter.model.service import (
    IntentKind,
    KeptIntent,
    KeptProposal,
    KeyedAnswer,
    KillSwitch,
    OrderDone,
    PlannedChange,
    ProposalState,
    StoreBatch,
    Vote,
    Words,
)

NOW = 10_000_000_000
CHANGES = tuple(PlannedChange("orders", at, (1, 2), (1, 3)) for at in range(60_000))


def proposal(name: str, state: ProposalState = ProposalState.WAITING, at_ms: int = NOW) -> KeptProposal:
    votes = (Vote("anna", 1, approves=True, by="user"),)
    few = CHANGES[:2]
    return KeptProposal(name, "prod", "c", "drain", ("drain",), (), few, 1, 1, 0, 1, (), 1, state, at_ms, votes=votes)


WORDS = Words(
    (
        KeptIntent(IntentKind.DRAIN, "3", 0, "anna", 1, "old disks"),
        KeptIntent(IntentKind.FREEZE_TOPIC, "a b*", 0, "b", 2),
    ),
    KillSwitch("prod", "anna", 5, "incident", ("t-0",), fleet=True),
    (proposal("drain-1"),),
    (
        KeyedAnswer("k 1", "[order]", NOW, OrderDone("done", "drain-1", ("not b",))),
        KeyedAnswer("k2", "[order]", NOW, None),
    ),
)


def written(words: Words) -> dict[str, bytes]:
    return applied({}, encode_words(words))


def test_words_are_read_as_they_were_written_under_another_name_of_the_cluster() -> None:
    found = decode_words(written(WORDS), "prod", "topic")
    assert (set(found.intents), found.switch, found.proposals) == (set(WORDS.intents), WORDS.switch, WORDS.proposals)
    assert set(found.answers) == set(WORDS.answers)
    other = decode_words(written(WORDS), "eu", "topic")
    assert other.switch is not None
    assert {other.switch.cluster, other.proposals[0].cluster} == {"eu"}


def test_an_unsent_switch_is_sent_as_one_that_was() -> None:
    assert WORDS.switch is not None
    found = decode_words(written(replace(WORDS, switch=WORDS.switch._replace(unsent=True))), "prod", "topic")
    assert found.switch == WORDS.switch


def test_a_long_plan_is_cut_and_written_once_and_goes_with_its_end() -> None:
    long = replace(proposal("drain-1"), changes=CHANGES)
    first = encode_batch(StoreBatch((long,)), {})
    assert max(len(value or b"") for _key, value in first) <= PIECE_BYTES
    records = applied({}, first)
    assert decode_words(records, "prod", "topic").proposals == (long,)
    voted = replace(long, state=ProposalState.APPROVED)
    assert [key for key, _value in encode_batch(StoreBatch((voted,)), records)] == ["proposal drain-1"]
    done = replace(long, state=ProposalState.DONE)
    ended = applied(records, encode_batch(StoreBatch((done,)), records))
    assert ended.keys() == {"proposal drain-1"}


def test_a_batch_takes_back_and_the_last_word_about_a_thing_counts() -> None:
    records = written(WORDS)
    again = KeptIntent(IntentKind.DRAIN, "3", 0, "ben", 9)
    batch = StoreBatch(
        intents=(("prod", again),),
        intents_gone=(("prod", IntentKind.DRAIN, "3"), ("prod", IntentKind.FREEZE_TOPIC, "a b*")),
        switches_gone=("prod",),
        answer_gone="k2",
    )
    after = decode_words(applied(records, encode_batch(batch, records)), "prod", "topic")
    assert (after.intents, after.switch) == ((again,), None)
    assert [each.key for each in after.answers] == ["k 1"]
    assert encode_batch(StoreBatch(), records) == []


def test_what_is_old_goes() -> None:
    many = tuple(proposal(f"drain-{at}", ProposalState.DONE, at) for at in range(ENDED_KEPT + 3))
    records = written(replace(WORDS, proposals=(*many, proposal("drain-open", at_ms=0))))
    gone = [key for key, _none in outdated(records, NOW + ANSWERS_KEPT_MS)]
    assert sorted(gone) == ["proposal drain-0", "proposal drain-1", "proposal drain-2"]
    gone = [key for key, _none in outdated(records, NOW + ANSWERS_KEPT_MS + 1)]
    assert {"answer k 1", "answer k2"} < set(gone)


@pytest.mark.parametrize("key", ["switch", "intent drain 3", "intent sing 3", "proposal drain-1", "answer k"])
def test_a_record_that_is_not_what_its_key_says_is_named(key: str) -> None:
    with pytest.raises(FormatError, match=key.partition(" ")[0]):
        decode_words({key: b'{"who": 1}'}, "prod", "topic")


def test_who_drives_is_written_and_nobody_is_said_where_nobody_did() -> None:
    mine = WordsDriver("a", 7, 1, "kafka:moves")
    assert decode_driver(applied({}, [encode_driver(mine)]), "topic") == mine
    assert decode_driver({}, "topic") is None
    with pytest.raises(FormatError, match="driver is no record of a service"):
        decode_driver({"driver": b"[]"}, "topic")
