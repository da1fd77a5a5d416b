"""An operator's file of wishes about topics."""

from __future__ import annotations

import pytest

from shunter.errors import FormatError
from shunter.formats.topic_wishes import decode_wishes
from shunter.model.inventory import TopicWish

TOPICS = ("clicks-a", "clicks-b", "orders")


def test_a_mark_at_the_start_is_no_part_of_the_file() -> None:
    assert decode_wishes("\ufeff[orders]\nreplication = 2".encode(), "wanted.toml", TOPICS) == (TopicWish("orders", 2),)


def test_names_go_before_patterns() -> None:
    text = b"""
        ["clicks-*"]
        replication = 3
        ["*"]
        replication = 2
        [clicks-b]
        racks = ["a", "b"]
        brokers = [1, 2]
    """
    assert decode_wishes(text, "wanted.toml", TOPICS) == (
        TopicWish("clicks-a", 3),
        TopicWish("clicks-b", 0, ("a", "b"), (1, 2)),
        TopicWish("orders", 2),
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"", "names no topic"),
        (b"[orders", "is no TOML"),
        (b"orders = 3", r"\[orders\] says nothing"),
        (b"[orders]\n", r"\[orders\] says nothing"),
        (b"[orders]\nreplicas = 3", "unknown key 'replicas'; known are replication, racks, brokers"),
        (b"[orders]\nreplication = 0", "replication = 0: a whole number from 1 on"),
        (b"[orders]\nreplication = true", "replication = True: a whole number"),
        (b"[orders]\nracks = 'a'", "a list of racks' names"),
        (b"[orders]\nbrokers = [-1]", "a list of broker ids"),
        (b"[order]\nreplication = 3", r"\[order\]: the cluster has no such topic"),
        (b"['x*']\nreplication = 3", r"\[x\*\]: the cluster has no such topic"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(text: bytes, told: str) -> None:
    with pytest.raises(FormatError, match=f"^wanted.toml: .*{told}"):
        decode_wishes(text, "wanted.toml", TOPICS)
