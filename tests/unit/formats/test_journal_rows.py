"""Journal rows, orders' bodies and the keeper's memory: written and read, and refused if broken."""

import zlib
from typing import Any
from uuid import UUID

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter.errors import FormatError
from shunter.formats.journal import (
    JournalRow,
    decode_line,
    encode_line,
    options_from_json,
    options_to_json,
    partition_from_text,
)
from shunter.formats.keeper_memory import decode_memories, encode_memories
from shunter.formats.reassignment_json import decode_plan, encode_plan
from shunter.formats.service_records import decode_body, encode_body, encode_order
from shunter.model.execution import (
    BOUNDS,
    BoundsChanged,
    Command,
    CommandKind,
    CommandTaken,
    CopySeen,
    CopySight,
    Direction,
    DirectionChanged,
    ElectionBegun,
    ExecutionClosed,
    ExecutionOptions,
    FloorRelaxed,
    JournalEntry,
    LimitChanged,
    MoveAccepted,
    MoveClosed,
    MoveOrder,
    MovePaused,
    Order,
    Outcome,
    PlanAccepted,
    RateObserved,
    SizeObserved,
    StepAccepted,
    StepBegun,
    StepDropped,
    StepFinished,
    ThrottleKey,
    ThrottleRemembered,
    ThrottleRestored,
    ThrottleSet,
)
from shunter.model.keeper import Condition, Memory, Since, Subject
from shunter.model.limits import Window
from shunter.model.partition import TopicPartition
from shunter.model.reassignment import Strategy
from shunter.model.service import IntentKind, OrderKind, ServiceOrder

names = st.text("abz-._09", min_size=1, max_size=12)
partitions = st.builds(TopicPartition, names, st.integers(0, 99_999))
replicas = st.lists(st.integers(0, 2**31 - 1), max_size=5, unique=True).map(tuple)
texts = st.text(max_size=20)
numbers = st.integers(0, 2**60)
log_dirs = st.lists(st.tuples(st.integers(0, 9), texts), max_size=2).map(tuple)
keys = st.builds(ThrottleKey, st.sampled_from(["broker", "topic"]), names, names)
options = st.builds(
    ExecutionOptions,
    strategy=st.sampled_from(Strategy),
    throttle=st.none() | numbers,
    max_in=st.integers(0, 9),
    orders=st.lists(st.sampled_from(Order), max_size=3).map(tuple),
    disk_share=st.floats(0, 1),
    window=st.none()
    | st.builds(
        Window, st.integers(0, 719), st.integers(720, 1440), st.sampled_from([(), (0, 4)]), st.sampled_from(["", "UTC"])
    ),
    take_over=st.booleans(),
)
records = st.one_of(
    st.builds(PlanAccepted, texts, texts, options, numbers),
    st.builds(
        MoveAccepted,
        partitions,
        st.none() | st.uuids(),
        replicas,
        replicas,
        st.sampled_from(Strategy),
        numbers,
        log_dirs,
        st.booleans(),
        replicas,
        log_dirs,
        st.none() | st.integers(-1, 9),
    ),
    st.builds(StepBegun, partitions, numbers, replicas, replicas, texts, st.booleans()),
    st.builds(StepAccepted, partitions, numbers),
    st.builds(StepFinished, partitions, numbers, replicas, replicas, numbers),
    st.builds(StepDropped, partitions, numbers, texts),
    st.builds(ElectionBegun, partitions, st.integers(0, 9)),
    st.builds(CopySeen, partitions, numbers, st.sampled_from(CopySight)),
    st.builds(DirectionChanged, partitions, st.sampled_from(Direction)),
    st.builds(MovePaused, partitions, st.booleans()),
    st.builds(FloorRelaxed, partitions),
    st.builds(MoveClosed, partitions, st.sampled_from(Outcome), texts, replicas, numbers),
    st.builds(ThrottleRemembered, keys, st.none() | texts),
    st.builds(ThrottleSet, keys, texts),
    st.builds(ThrottleRestored, keys, st.booleans()),
    st.builds(LimitChanged, st.none() | numbers, texts),
    st.builds(BoundsChanged, st.lists(st.tuples(texts, numbers)).map(tuple), texts),
    st.builds(
        CommandTaken,
        st.builds(
            Command,
            st.sampled_from(CommandKind),
            st.lists(partitions, max_size=2).map(tuple),
            st.none() | numbers,
            texts,
            replicas,
            # Each name has only one bound.
            st.dictionaries(names, numbers, max_size=2).map(lambda bounds: tuple(bounds.items())),
        ),
    ),
    st.builds(RateObserved, st.integers(0, 9), numbers, st.booleans()),
    st.builds(SizeObserved, partitions, numbers),
    st.builds(ExecutionClosed, texts),
)
BROKERS = st.lists(st.integers(0, 9), max_size=3).map(tuple)
NAMES = st.lists(st.sampled_from(["a", "b-1", "c*"]), max_size=3).map(tuple)
NUMBERS = st.none() | st.integers(0, 10**9)
ORDERS = st.builds(
    ServiceOrder,
    st.sampled_from(OrderKind),
    st.sampled_from(["", "lab"]),
    intent=st.none() | st.sampled_from(IntentKind),
    scope=st.sampled_from(["", "drain"]),
    partitions=NAMES,
    brokers=BROKERS,
    replacements=st.dictionaries(st.integers(0, 9), st.integers(0, 9), max_size=3).map(lambda each: (*each.items(),)),
    topics=NAMES,
    to=BROKERS,
    without_brokers=BROKERS,
    without_topics=NAMES,
    band_percent=st.none() | st.sampled_from([0.5, 5.0]),
    most_gigabytes=st.none(),
    **dict.fromkeys(("replicas", "bytes_per_s", "most_moves", *BOUNDS), NUMBERS),
)
MEMORIES = {
    "prod": Memory(
        "id-1",
        7,
        (Since(Subject(Condition.DISK_BAND, "broker 3"), 5), Since(Subject(Condition.MOVES_STUCK, "t-0"), 6, "m")),
    ),
    "test": Memory("id-2", 8),
}


@given(st.builds(JournalEntry, st.integers(1, 2**60), numbers, texts, records))
def test_every_entry_comes_back_as_it_was(entry: JournalEntry) -> None:
    assert decode_line(encode_line(entry), "journal") == entry


@given(options)
def test_options_come_back_as_they_were(chosen: ExecutionOptions) -> None:
    assert options_from_json(orjson.loads(orjson.dumps(options_to_json(chosen)))) == chosen


@given(st.text(max_size=200))
def test_rows_of_anything_are_refused_by_name(body: str) -> None:
    with pytest.raises(FormatError, match="place, entry 7"):
        decode_line(JournalRow(7, body, zlib.crc32(body.encode())), "place")


@given(st.builds(JournalEntry, st.integers(1, 99), numbers, texts, records), st.data())
def test_a_row_with_a_changed_letter_is_refused(entry: JournalEntry, data: st.DataObject) -> None:
    row = encode_line(entry)
    at = data.draw(st.integers(0, len(row.body) - 1))
    changed = row.body[:at] + ("x" if row.body[at] != "x" else "y") + row.body[at + 1 :]
    with pytest.raises(FormatError, match="checksum"):
        decode_line(row._replace(body=changed), "place")


def test_topics_with_dashes_are_partitions_too() -> None:
    assert partition_from_text("orders-eu-12") == TopicPartition("orders-eu", 12)
    for wrong in ("orders", "orders-", "-1", "orders-x"):
        with pytest.raises(ValueError, match="is no partition"):
            partition_from_text(wrong)


def test_a_plan_is_read_as_apaches_tool_writes_it() -> None:
    text = (
        '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[3,1],"log_dirs":["any","/d"]},'
        '{"topic":"t","partition":1,"replicas":null},{"topic":"u","partition":0,"replicas":[1],"strategy":"all-at-once"}]}'
    )
    assert decode_plan(text, "plan.json") == (
        MoveOrder(TopicPartition("t", 0), (3, 1), None, ((1, "/d"),)),
        MoveOrder(TopicPartition("t", 1), ()),
        MoveOrder(TopicPartition("u", 0), (1,), Strategy.ALL_AT_ONCE),
    )


orders = st.builds(
    MoveOrder,
    partitions,
    st.lists(st.integers(0, 99), min_size=1, max_size=4, unique=True).map(tuple),
    st.none() | st.sampled_from(Strategy),
    st.just(()),
    st.lists(st.integers(0, 99), max_size=4, unique=True).map(tuple),
    st.booleans(),
)


@given(st.lists(orders, max_size=5).map(tuple))
def test_a_plan_comes_back_as_it_was(moves: tuple[MoveOrder, ...]) -> None:
    assert decode_plan(encode_plan(moves), "plan.json") == moves


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "not JSON"),
        ("[]", "a plan is a JSON object"),
        ('{"version":2}', "version 2 is not understood"),
        ('{"partitions":{}}', "'partitions' is a list"),
        ('{"partitions":[1]}', "partition 0: 1 is no JSON object"),
        ('{"partitions":[{"partition":0}]}', "topic None is no name"),
        ('{"partitions":[{"topic":"t","partition":-1}]}', "partition -1 of topic t"),
        ('{"partitions":[{"topic":"t","partition":0,"replicas":["1"]}]}', "no list of broker ids"),
        (
            '{"partitions":[{"topic":"t","partition":0,"replicas":[1],"log_dirs":[]}]}',
            "log_dirs has 0 entries, and replicas 1",
        ),
        ('{"partitions":[{"topic":"t","partition":0,"replicas":[1],"log_dirs":["d"]}]}', "not absolute"),
        ('{"partitions":[{"topic":"t","partition":0,"replicas":[1],"strategy":"fast"}]}', "none of incremental"),
    ],
)
def test_what_is_no_plan_is_refused_with_its_place(text: str, told: str) -> None:
    with pytest.raises(FormatError, match=told):
        decode_plan(text, "plan.json")


def test_ids_of_topics_survive() -> None:
    record = MoveAccepted(TopicPartition("t", 0), UUID(int=7), (1,), (2,), Strategy.INCREMENTAL, 0)
    entry = JournalEntry(1, 2, "c", record)
    assert decode_line(encode_line(entry), "j").record == record


@given(ORDERS)
def test_a_body_is_read_as_it_was_written(order: ServiceOrder) -> None:
    sent: dict[str, Any] = orjson.loads(orjson.dumps(encode_body(order)))
    assert decode_body(order.kind, order.cluster, sent) == order
    assert encode_order(decode_body(order.kind, order.cluster, sent)) == encode_order(order)


@pytest.mark.parametrize("body", [{"about": ["3"]}, {"intent": "explode"}, {"replacements": {"three": 7}}])
def test_what_is_no_body_is_an_error(body: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError)):
        decode_body(OrderKind.INTEND, "lab", body)


@pytest.mark.parametrize(
    ("order", "words"),
    [
        (ServiceOrder(OrderKind.INTEND, intent=IntentKind.REPLACE, replacements=((3, 7),)), ("replace", "3=7")),
        (ServiceOrder(OrderKind.LIMIT, bytes_per_s=5_000_000, max_in=0), ("bytes-per-s=5000000", "max-in=0")),
        (
            ServiceOrder(OrderKind.PROPOSE, scope="move", partitions=("t-1",), to=(4, 5), band_percent=2.5),
            ("move", "t-1", "to=4,5", "band-percent=2.5"),
        ),
        (ServiceOrder(OrderKind.PAUSE), ()),
    ],
)
def test_what_an_order_asks_for_in_words(order: ServiceOrder, words: tuple[str, ...]) -> None:
    assert order.about == words


def test_what_was_written_is_read() -> None:
    assert decode_memories(encode_memories(MEMORIES), "state") == MEMORIES


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        b"{}",
        b'{"version": 1}',
        b'{"version": 1, "clusters": 3}',
        b'{"version": 1, "clusters": {"a": {"cluster_id": "x", "at_ms": "late", "held": []}}}',
        encode_memories(MEMORIES).replace(b"disk-band", b"disk-brand"),
        encode_memories(MEMORIES)[:-20],
    ],
)
def test_what_is_no_state_is_refused_with_the_way_out(raw: bytes) -> None:
    with pytest.raises(FormatError, match=r"state: is no state of `shunter serve` .*delete this one"):
        decode_memories(raw, "state")


def test_another_version_is_refused() -> None:
    with pytest.raises(FormatError, match=r"version 2 is not understood, 1 is"):
        decode_memories(b'{"version": 2}', "state")
