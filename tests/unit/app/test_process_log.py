"""The log of a process can't fill a disk."""

from __future__ import annotations

import logging

from shunter.app.access.process_log import A_MINUTE, KINDS, Repeats, is_for_operators


def record(text: str, minute: int, *values: object) -> logging.LogRecord:
    made = logging.LogRecord("shunter.web", logging.WARNING, "", 0, text, values, None)
    made.created = minute * 60.0
    return made


def test_what_repeats_is_counted_and_other_things_are_shown() -> None:
    repeats = Repeats()
    shown = [repeats.filter(record("%s is late", 1, number)) for number in range(100)]
    assert sum(shown) == A_MINUTE
    assert repeats.filter(record("the disk is full", 1))
    first, second = record("%s is late", 2, "it"), record("%s is late", 2, "it")
    assert repeats.filter(first)
    assert repeats.filter(second)
    assert first.getMessage() == "it is late (80 more like this in the minute before)"
    assert second.getMessage() == "it is late"


def test_a_librarys_hint_to_its_developers_is_not_shown() -> None:
    hint = record("Task %r ran for 0.6s. It is blocking the event loop -- likely a tight sync loop", 1)
    assert is_for_operators(hint)
    hint.name = "kafka.net.selector"
    assert not is_for_operators(hint)


def test_many_kinds_are_bounded_too() -> None:
    repeats = Repeats()
    assert sum(repeats.filter(record(f"kind {number}", 1)) for number in range(2 * KINDS)) == KINDS + A_MINUTE
