"""No input crashes a decoder, keeps it busy or fills the memory: it is read, or refused with place and rule.

Inputs are mutations of accepted inputs, for SHUNTER_FUZZ_SECONDS for each decoder, and inputs that hypothesis draws.
"""

import os
import random
import time
import tracemalloc

import hypothesis.strategies as st
import pytest
from decoders import DECODERS, EXPECTED, FRAMES, SEEDS
from hypothesis import given

SECONDS = float(os.environ.get("SHUNTER_FUZZ_SECONDS", "0.2"))
LONG_SECONDS = float(os.environ.get("SHUNTER_FUZZ_LONG_SECONDS", "30"))
LONGEST_S = 1.0
"""Processor time for one input of at most a few kilobytes."""
MEMORY_BYTES = 16_000_000
WORDS = (
    b"-1", b"0", b"1e400", b"9" * 40, b"null", b"true", b'""', b"[]", b"{}", b"[[[[[[", b'"\\ud800"', b"\xff\xfe",
    b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\x80\x80\x80\x08", b"\0" * 9, b'"version":99', b"NaN", b"-0.0",
)  # fmt: skip


def attempt(decoder, raw, longest_s=LONGEST_S):
    """Decode; returns whether it was accepted."""
    began = time.process_time()
    try:
        decoder.decode(raw)
    except EXPECTED:
        accepted = False
    else:
        accepted = True
    assert time.process_time() - began < longest_s, f"{decoder.name} took too long over {raw[:200]!r}"
    return accepted


def mutate(chance, raw):
    data = bytearray(raw)
    for _ in range(chance.choice((1, 1, 2, 4, 16))):
        place = chance.randrange(len(data) + 1)
        match chance.randrange(6):
            case 0 if place < len(data):
                data[place] ^= 1 << chance.randrange(8)
            case 1:
                data[place:place] = chance.choice(WORDS)
            case 2:
                del data[place : place + chance.randrange(1, 9)]
            case 3:
                word = chance.choice(WORDS)
                data[place : place + len(word)] = word
            case 4:
                data[place:place] = data[place : place + chance.randrange(64)] * chance.choice((1, 2, 20))
            case _:
                del data[place:]
    return bytes(data)


def feed_mutations(decoder, seconds, salt=""):
    """Feed mutations for some seconds; accepted ones are mutated again. Returns how many inputs, how many accepted."""
    chance = random.Random(decoder.name + salt)
    corpus = [*decoder.examples, *SEEDS.get(decoder.name, ()), b"", b"{}", b'{"version":1}']
    until, inputs, accepted = time.monotonic() + seconds, 0, 0
    while inputs < 20 or time.monotonic() < until:
        raw = mutate(chance, chance.choice(corpus))
        inputs += 1
        if attempt(decoder, raw):
            accepted += 1
            if len(corpus) < 500:
                corpus.append(raw)
    return inputs, accepted


@pytest.mark.parametrize("decoder", DECODERS, ids=lambda decoder: decoder.name)
def test_mutations_are_read_or_refused(decoder, record_property):
    inputs, accepted = feed_mutations(decoder, SECONDS)
    record_property("inputs", inputs)
    record_property("accepted", accepted)


@pytest.mark.long
@pytest.mark.parametrize("decoder", DECODERS, ids=lambda decoder: decoder.name)
def test_mutations_are_read_or_refused_for_long(decoder, record_property):
    inputs, accepted = feed_mutations(decoder, LONG_SECONDS, salt=f" {time.time_ns()}")
    record_property("inputs", inputs)
    record_property("accepted", accepted)


@pytest.mark.parametrize("decoder", DECODERS, ids=lambda decoder: decoder.name)
def test_examples_are_accepted(decoder):
    for example in decoder.examples:
        decoder.decode(example)


@given(raw=st.binary(max_size=400), which=st.sampled_from(DECODERS))
def test_any_bytes_are_read_or_refused(raw, which):
    attempt(which, raw)


KEYS = (
    "version", "partitions", "topic", "partition", "replicas", "isr", "leader", "leader_epoch", "controller_epoch",
    "target", "original", "written", "phase", "strategy", "topic_id", "adding", "removing", "config", "endpoints",
    "listener_security_protocol_map", "features", "brokers", "at", "kind", "cause", "adding_replicas", "0",
)  # fmt: skip
documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=12,
)


@given(
    document=st.dictionaries(st.sampled_from(KEYS), documents, max_size=8),
    which=st.sampled_from([decoder for decoder in DECODERS if decoder not in FRAMES]),
)
def test_any_document_is_read_or_refused(document, which):
    import json

    attempt(which, json.dumps(document).encode("utf-8", "surrogatepass"))


BOMBS = {
    "deep arrays": b"[" * 100_000,
    "deep objects": b'{"a":' * 50_000,
    "great number": b'{"version":' + b"9" * 100_000 + b"}",
    "great exponent": b'{"version":1e1000000}',
    "long text": b'{"version":"' + b"x" * 1_000_000 + b'"}',
    "many keys": b"{" + b",".join(b'"%d":0' % number for number in range(50_000)) + b"}",
    "zeros": bytes(200_000),
    "ones": b"\xff" * 200_000,
    "greatest array": b"\x7f\xff\xff\xff" * 1_000,
}


@pytest.mark.parametrize("decoder", DECODERS, ids=lambda decoder: decoder.name)
def test_bombs_cost_time_and_memory_in_proportion(decoder):
    for name, raw in BOMBS.items():
        attempt(decoder, raw, longest_s=3.0)
        tracemalloc.start()
        try:
            attempt(decoder, raw, longest_s=60.0)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < MEMORY_BYTES + 100 * len(raw), f"{decoder.name} took {peak} bytes over {name} ({len(raw)} bytes)"


def test_a_request_that_names_a_greater_array_than_is_allowed_is_refused():
    request = next(decoder for decoder in FRAMES if decoder.name == "request")
    for head in SEEDS["request"][::6]:
        for length in (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07"):
            tracemalloc.start()
            try:
                attempt(request, head[:-64] + length * 16)
                _, peak = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            assert peak < MEMORY_BYTES
