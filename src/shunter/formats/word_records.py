"""People's words about one cluster as records of a compacted topic: text keys, JSON values.

Keys: `intent KIND ABOUT`, `switch`, `proposal ID`, `plan ID PIECE` (the partitions that a proposal changes, cut into
pieces, because there may be 100,000), `answer KEY` (an order with an idempotency key) and `driver` (the service that
drives the cluster). No record names the cluster, because two services may call it by different names.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

import orjson

from shunter.errors import FormatError
from shunter.formats.own_records import read_record
from shunter.formats.service_records import decode_proposal, encode_changes, encode_proposal
from shunter.model.service import (
    OPEN,
    IntentKind,
    KeptIntent,
    KeptProposal,
    KeyedAnswer,
    KillSwitch,
    OrderDone,
    StoreBatch,
    Words,
)

DRIVER = "driver"
SWITCH = "switch"
PIECE_BYTES = 500_000
"""A plan is cut into pieces of so many bytes: brokers refuse batches of more than a million by default."""
ENDED_KEPT = 50
"""Proposals that are over and stay in the topic."""
ANSWERS_KEPT_MS = 7 * 24 * 3_600_000

Record = tuple[str, bytes | None]


class WordsDriver(NamedTuple):
    """The service that drives a cluster, and where it keeps its journal."""

    host: str
    process: int
    since_ms: int
    journal: str
    address: str = ""
    """Where it is reached; "": it does not say so."""

    def __str__(self) -> str:
        return f"the service {f'at {self.address} ' if self.address else ''}on {self.host} (process {self.process})"


def encode_driver(driver: WordsDriver) -> Record:
    """The record of the service that has taken the topic."""
    return DRIVER, orjson.dumps(driver._asdict())


def decode_driver(records: Mapping[str, bytes], place: str) -> WordsDriver | None:
    """The last service that took the topic; None: none ever did, so nobody's words are here.

    Raises:
        FormatError: the record is not one.
    """
    raw = records.get(DRIVER)
    return None if raw is None else read_record(WordsDriver, raw, f"{place}: {DRIVER}")


def encode_batch(batch: StoreBatch, records: Mapping[str, bytes]) -> list[Record]:
    """The records of a batch, and of what it lets go; empty: the batch has no words.

    Args:
        batch: Of one cluster.
        records: Those that the topic has.
    """
    made: list[Record] = [_intent(intent) for _cluster, intent in batch.intents]
    made = [*((f"intent {kind.value} {about}", None) for _cluster, kind, about in batch.intents_gone), *made]
    for proposal in batch.proposals:
        made += _proposal(proposal, records)
    made += [_switch(switch) for switch in batch.switches]
    made += [(SWITCH, None) for _cluster in batch.switches_gone]
    if batch.answer_gone:
        made.append((f"answer {batch.answer_gone}", None))
    if batch.answer is not None:
        made.append(_answer(batch.answer))
    # The last record of a key counts, so one transaction needs no other.
    return [*dict(made).items()]


def encode_words(words: Words) -> list[Record]:
    """The records of all words."""
    made = [_intent(each) for each in words.intents] + [_answer(each) for each in words.answers]
    made += [_switch(words.switch)] if words.switch is not None else []
    return made + [record for each in words.proposals for record in _proposal(each, {})]


def outdated(records: Mapping[str, bytes], now_ms: int) -> list[Record]:
    """Tombstones for proposals that ended long ago, and for answers that nobody asks for any more."""
    ended: list[tuple[int, str]] = []
    gone: list[Record] = []
    for key, raw in records.items():
        kind, _, rest = key.partition(" ")
        if kind == "proposal":
            document = orjson.loads(raw)
            if document["state"] not in {state.value for state in OPEN}:
                ended.append((int(document["changed_at_ms"]), rest))
        elif kind == "answer" and now_ms - int(orjson.loads(raw)["at_ms"]) > ANSWERS_KEPT_MS:
            gone.append((key, None))
    over = [proposal for _at_ms, proposal in sorted(ended, reverse=True)[ENDED_KEPT:]]
    return gone + [(f"proposal {proposal}", None) for proposal in over]


def _intent(intent: KeptIntent) -> Record:
    body = {"value": intent.value, "who": intent.who, "at_ms": intent.at_ms, "comment": intent.comment}
    return f"intent {intent.kind.value} {intent.about}", orjson.dumps(body)


def _switch(switch: KillSwitch) -> Record:
    body = {name: value for name, value in switch._asdict().items() if name not in ("cluster", "unsent")}
    return SWITCH, orjson.dumps(body)


def _answer(answer: KeyedAnswer) -> Record:
    body = {"order": answer.order, "at_ms": answer.at_ms, "done": answer.done}
    return f"answer {answer.key}", orjson.dumps(body, default=list)


def _proposal(proposal: KeptProposal, records: Mapping[str, bytes]) -> Iterator[Record]:
    yield f"proposal {proposal.id}", encode_proposal(proposal).encode()
    first = f"plan {proposal.id} 0"
    if proposal.state not in OPEN:
        at = 0
        while f"plan {proposal.id} {at}" in records:
            yield f"plan {proposal.id} {at}", None
            at += 1
    elif proposal.changes and first not in records:
        # A plan never changes: it is written once.
        raw = encode_changes(proposal).encode()
        for at, begin in enumerate(range(0, len(raw), PIECE_BYTES)):
            yield f"plan {proposal.id} {at}", raw[begin : begin + PIECE_BYTES]


def decode_words(records: Mapping[str, bytes], cluster: str, place: str) -> Words:
    """Read all words; `cluster` is its name in this service's policy file.

    Raises:
        FormatError: a record is not what its key says.
    """
    intents: list[KeptIntent] = []
    answers: list[KeyedAnswer] = []
    proposals: list[KeptProposal] = []
    switch: KillSwitch | None = None
    plans: defaultdict[str, dict[int, bytes]] = defaultdict(dict)
    for key, raw in records.items():
        kind, _, rest = key.partition(" ")
        if kind == "plan":
            proposal, _, piece = rest.rpartition(" ")
            plans[proposal][int(piece)] = raw
    for key, raw in sorted(records.items()):
        kind, _, rest = key.partition(" ")
        try:
            if kind == "intent":
                named, _, about = rest.partition(" ")
                intents.append(KeptIntent(IntentKind(named), about, **orjson.loads(raw)))
            elif key == SWITCH:
                document = orjson.loads(raw)
                switch = KillSwitch(cluster, **{**document, "kept": tuple(document["kept"])})
            elif kind == "answer":
                document = orjson.loads(raw)
                done = document["done"]
                found = None if done is None else OrderDone(done[0], done[1], tuple(done[2]))
                answers.append(KeyedAnswer(rest, document["order"], document["at_ms"], found))
            elif kind == "proposal":
                changes = b"".join(plans[rest][at] for at in sorted(plans[rest])) or b"[]"
                whole = decode_proposal(raw.decode(), f"{place}: {key}", changes.decode())
                proposals.append(replace(whole, cluster=cluster))
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
            way_out = "if nothing else helps, delete the topic and give those orders again"
            raise FormatError(place, f"{key} can't be read: {error!r}: {way_out}") from error
    return Words(tuple(intents), switch, tuple(proposals), tuple(answers))


def applied(records: Mapping[str, bytes], batch: Iterable[Record]) -> dict[str, bytes]:
    """The records after a batch."""
    found = dict(records)
    for key, value in batch:
        if value is None:
            found.pop(key, None)
        else:
            found[key] = value
    return found
