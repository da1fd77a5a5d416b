"""A compacted topic, and people's words in one: written, read as they were written, bounded; who may say there are none."""

import socket
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any, NoReturn

import pytest
from kafka import errors as kafka_errors

from shunter.core.own_topics import partition_of
from shunter.drivers.journal import compacted_topic
from shunter.drivers.journal.compacted_topic import Clients, CompactedTopic
from shunter.errors import DriverError, FormatError
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

TRANSACTIONS = 50
NOW = 10_000_000_000
CHANGES = tuple(PlannedChange("orders", at, (1, 2), (1, 3)) for at in range(60_000))


class Admin:
    """A cluster in which brokers 2 and 5 are down."""

    def __init__(self, short: str, number: int) -> None:
        self.short, self.number = short, number

    def describe_topics(self, names: Sequence[str]) -> list[dict[str, Any]]:
        return [self._topic(name, 1 if name == "j" else TRANSACTIONS) for name in names]

    def _topic(self, name: str, partitions: int) -> dict[str, Any]:
        parts = [
            {
                "partition_index": number,
                "replica_nodes": [2, 3, 5],
                "isr_nodes": [3] if (name, number) == (self.short, self.number) else [3, 5],
                "leader_id": 3,
            }
            for number in range(partitions)
        ]
        return {"name": name, "error_code": 0, "partitions": parts}

    def describe_cluster(self) -> dict[str, Any]:
        return {"brokers": [{"broker_id": broker} for broker in (1, 3)]}

    def close(self) -> None:
        """Nothing is open."""


def why_not(monkeypatch: pytest.MonkeyPatch, short: str, number: int) -> str:
    def least(_client: object, names: Sequence[str]) -> dict[str, int]:
        return dict.fromkeys(names, 2)

    def times_out() -> NoReturn:
        raise kafka_errors.KafkaTimeoutError("Timeout expired while initializing transactional state in 60000 ms")

    monkeypatch.setattr(compacted_topic, "min_insync", least)
    topic = CompactedTopic({}, "j", "shunter-executor-j", Clients(lambda _configuration: Admin(short, number)))
    with pytest.raises(DriverError) as refused:
        topic.guarded("taking", times_out)
    return str(refused.value)


@pytest.mark.parametrize(
    ("short", "number", "place"),
    [
        ("j", 0, "topic j"),
        (
            "__transaction_state",
            partition_of("shunter-executor-j", TRANSACTIONS),
            f"__transaction_state-{partition_of('shunter-executor-j', TRANSACTIONS)}",
        ),
    ],
)
def test_an_error_names_the_partition_that_takes_no_write(
    monkeypatch: pytest.MonkeyPatch, short: str, number: int, place: str
) -> None:
    """An outsider's find: a time-out was told, and not that brokers of an internal topic were down."""
    told = why_not(monkeypatch, short, number)
    assert told == f"taking topic j: {place} has 1 of 2 needed replicas in sync (3 of 2,3,5); start broker 2 or 5"


def test_the_error_stays_where_nothing_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    other = (partition_of("shunter-executor-j", TRANSACTIONS) + 1) % TRANSACTIONS
    assert "initializing transactional state" in why_not(monkeypatch, "__transaction_state", other)


class AloneAdmin(Admin):
    """The controller does not answer; one broker does, and knows the topics."""

    def list_topics(self) -> list[str]:
        return ["j"]

    def describe_topics(self, names: Sequence[str]) -> list[dict[str, Any]]:
        return []

    def create_topics(self, _topics: object) -> NoReturn:
        raise kafka_errors.KafkaConnectionError


def test_a_topic_that_exists_is_not_made_and_an_error_names_the_broker_and_the_cause() -> None:
    """An outsider's find: "making topic __shunter_journal: the connection failed", though the topic was there."""
    asked: list[object] = []

    def connect(configuration: object) -> AloneAdmin:
        asked.append(configuration)
        return AloneAdmin("", 0)

    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        closed = f"127.0.0.1:{listening.getsockname()[1]}"
    where = {"bootstrap_servers": closed}
    CompactedTopic(where, "j", "shunter-executor-j", Clients(connect)).make()
    assert len(asked) == 1
    with pytest.raises(DriverError, match="making topic k: the connection failed") as refused:
        CompactedTopic(where, "k", "shunter-executor-k", Clients(connect)).make()
    assert str(refused.value).endswith(f"; {closed} refuses connections: nothing listens there")


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
    with pytest.raises(FormatError, match="driver: this is no record of a WordsDriver"):
        decode_driver({"driver": b"[]"}, "topic")
