"""An order's body: read back as it was written, and the same order gives the same text."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shunter.formats.service_records import decode_body, encode_body, encode_order
from shunter.model.execution import BOUNDS
from shunter.model.service import IntentKind, OrderKind, ServiceOrder

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
