"""Files of the planner: the cluster that it plans from, and Kafka's reassignment JSON as its result.

The input (docs/planning.md, "Plan input"):
```
{"brokers": {"1": "rack-a", "2": {"rack": "rack-b", "disk_capacity": KiB, "bytes_in_capacity": B/s, "live": true, ...}},
 "partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2], "size": KiB, "bytes_in": B/s, "bytes_out": B/s,
                 "min_isr": 1, "isr": [1], "offline": [2], "leader": 1}]}
```
Reading works on whole columns, because a cluster may have a million partitions. Only if a column turns out wrong, its
rows are looked at one by one to name the row.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

from shunter.errors import FormatError
from shunter.formats.broker_facts import FACT_KEYS, read_facts
from shunter.formats.text_files import without_mark
from shunter.model.inventory import NOTHING_KNOWN, BrokerFacts, unknown_rack

_CAPACITIES = ("bytes_in_capacity", "bytes_out_capacity", "disk_capacity")
_BROKER_KEYS = {"rack", *_CAPACITIES, *FACT_KEYS}
_PARTITION_KEYS = {
    "topic", "partition", "replicas", "size", "bytes_in", "bytes_out", "min_isr", "isr", "offline", "leader",
}  # fmt: skip
ABSENT, UNKNOWN = -1, -2
"""In the tables of broker indexes: padding, and a row that is not known."""
_MOST_PARTITIONS = 100_000_000


class PlanInput(NamedTuple):
    """A cluster in columns; B brokers by ascending id, P partitions in the file's order, W the most replicas of one.

    `rack_of` indexes `racks`, `topic_of` indexes `topics`, `replicas` (P, W) indexes `brokers`, padded by -1.
    Sizes are KiB, rates bytes per second; columns that no row had are None. A broker without a capacity has inf.
    `isr` and `offline` are as `replicas`, and a row that is not known begins with -2; `leader` is -1 for nobody, or -2.
    """

    brokers: tuple[int, ...]
    racks: tuple[str, ...]
    rack_of: npt.NDArray[np.int32]
    topics: tuple[str, ...]
    topic_of: npt.NDArray[np.int32]
    numbers: npt.NDArray[np.int32]
    replicas: npt.NDArray[np.int32]
    sizes: npt.NDArray[np.float64]
    bytes_in: npt.NDArray[np.float64] | None
    bytes_out: npt.NDArray[np.float64] | None
    min_isr: npt.NDArray[np.int32] | None
    disk_capacity: npt.NDArray[np.float64] | None
    bytes_in_capacity: npt.NDArray[np.float64] | None
    bytes_out_capacity: npt.NDArray[np.float64] | None
    facts: tuple[BrokerFacts, ...]
    isr: npt.NDArray[np.int32] | None
    offline: npt.NDArray[np.int32] | None
    leader: npt.NDArray[np.int32] | None


class _Brokers(NamedTuple):
    """The brokers of a file, by ascending id."""

    ids: list[int]
    racks: list[str]
    rack_of: list[int]
    capacities: dict[str, npt.NDArray[np.float64] | None]
    facts: tuple[BrokerFacts, ...]


def read_plan_input(raw: bytes, place: str, *, ignore_racks: bool = False) -> PlanInput:
    """Read a plan input.

    Args:
        raw: The file's content.
        place: The file's name, for errors.
        ignore_racks: Take all brokers for one rack, whatever the file says.

    Raises:
        FormatError: Names the file and the row or key that breaks a rule, and the value.
    """
    with _collector_paused():
        try:
            document: Any = orjson.loads(without_mark(raw))
        except (UnicodeDecodeError, orjson.JSONDecodeError) as error:
            raise FormatError(place, f"is not JSON: {error}") from None
        if not isinstance(document, dict):
            raise FormatError(place, f"is a JSON {type(document).__name__}, not an object with brokers and partitions")
        for key, kind in (("brokers", dict), ("partitions", list)):
            if not isinstance(document.get(key), kind):
                raise FormatError(place, f"key {key!r} is missing or no JSON {_JSON_NAMES[kind]}")
            if not document[key]:
                raise FormatError(place, f"key {key!r} is empty: there is nothing to plan")
        brokers = _read_brokers(document["brokers"], place, ignore_racks=ignore_racks)
        return _read_partitions(document["partitions"], place, brokers)


_JSON_NAMES: dict[type, str] = {dict: "object", list: "array"}


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Pause the cycle collector: it would walk millions of fresh dicts again and again, and none of them is a cycle."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


def _read_brokers(found: dict[str, Any], place: str, *, ignore_racks: bool) -> _Brokers:
    by_id: dict[int, dict[str, Any]] = {}
    facts: dict[int, BrokerFacts] = {}
    # A snapshot of a cluster without racks says so of every broker.
    ignore_racks |= bool(found) and all(
        isinstance(each, dict) and each.get("rack", "") is None for each in found.values()
    )
    for key, value in found.items():
        if not key.isascii() or not key.isdigit() or int(key) >= 2**31 or int(key) in by_id:
            raise FormatError(place, f"brokers: key {key!r} is not a broker id of its own (0 to 2147483647)")
        entry: dict[str, Any] = value if isinstance(value, dict) else {"rack": value}
        unknown = sorted(set(entry) - _BROKER_KEYS)
        if unknown:
            raise FormatError(place, f"brokers.{key}: unknown key {unknown[0]!r}; known are {sorted(_BROKER_KEYS)}")
        facts[int(key)] = read_facts(entry, f"{place}: brokers.{key}")
        rack = entry.get("rack")
        # A dead broker tells no rack. It counts as in a rack of its own, where nothing is placed.
        unasked = ignore_racks or (rack is None and facts[int(key)].live is False)
        if not unasked and (not isinstance(rack, str) or not rack):
            rule = "name the rack of every broker, or plan without racks (--ignore-racks)"
            raise FormatError(place, f"brokers.{key}: rack is {rack!r}, not a name; {rule}")
        by_id[int(key)] = entry
    ids = sorted(by_id)
    names = ["" if ignore_racks else by_id[broker].get("rack") or unknown_rack(broker) for broker in ids]
    racks = sorted(set(names))
    index = {name: at for at, name in enumerate(racks)}
    capacities = {key: _capacity(by_id, ids, key, place) for key in _CAPACITIES}
    known = tuple(facts[broker] for broker in ids) if any(each != NOTHING_KNOWN for each in facts.values()) else ()
    return _Brokers(ids, racks, [index[name] for name in names], capacities, known)


def _capacity(by_id: dict[int, dict[str, Any]], ids: list[int], key: str, place: str) -> npt.NDArray[np.float64] | None:
    values = [by_id[broker].get(key) for broker in ids]
    for broker, value in zip(ids, values, strict=True):
        if value is not None and not (_is_number(value) and 0 < value < float("inf")):
            raise FormatError(place, f"brokers.{broker}.{key}: {value!r} is not a number above 0")
    if all(value is None for value in values):
        return None
    return np.array([np.inf if value is None else value for value in values], dtype=np.float64)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_index(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31


def _read_partitions(rows: list[Any], place: str, brokers: _Brokers) -> PlanInput:
    if len(rows) > _MOST_PARTITIONS:
        raise FormatError(place, f"partitions: {len(rows)} rows are more than {_MOST_PARTITIONS}")
    _check_rows(rows, place)
    names: list[str] = [row["topic"] for row in rows]
    topics = sorted(set(names))
    topic_index = {name: at for at, name in enumerate(topics)}
    topic_of = np.fromiter(map(topic_index.__getitem__, names), dtype=np.int32, count=len(rows))
    numbers = np.array([row["partition"] for row in rows], dtype=np.int32)
    _check_repeats(rows, topic_of, numbers, place)
    found = PlanInput(
        brokers=tuple(brokers.ids),
        racks=tuple(brokers.racks),
        rack_of=np.array(brokers.rack_of, dtype=np.int32),
        topics=tuple(topics),
        topic_of=topic_of,
        numbers=numbers,
        replicas=_replica_table(rows, brokers.ids, place),
        sizes=_amounts(rows, "size", place, needed=True),
        bytes_in=_optional(rows, "bytes_in", place),
        bytes_out=_optional(rows, "bytes_out", place),
        min_isr=_min_isr(rows, place),
        disk_capacity=brokers.capacities["disk_capacity"],
        bytes_in_capacity=brokers.capacities["bytes_in_capacity"],
        bytes_out_capacity=brokers.capacities["bytes_out_capacity"],
        facts=brokers.facts,
        isr=_known_brokers(rows, "isr", brokers.ids, place),
        offline=_known_brokers(rows, "offline", brokers.ids, place),
        leader=_leaders(rows, brokers.ids, place),
    )
    return _in_order(found)


def _in_order(found: PlanInput) -> PlanInput:
    """Sort by topic and partition: the planner takes equal items in the order in which they come."""
    order = np.lexsort((found.numbers, found.topic_of))
    if (np.diff(order) == 1).all():
        return found
    by_partition = (
        "topic_of", "numbers", "replicas", "sizes", "bytes_in", "bytes_out", "min_isr", "isr", "offline", "leader",
    )  # fmt: skip
    given = {name: getattr(found, name) for name in by_partition}
    return found._replace(**{name: values[order] for name, values in given.items() if values is not None})


def _refuse(rows: Sequence[Any], place: str, key: str, fits: Callable[[Any], bool], rule: str) -> FormatError:
    """Make the error for the first row whose value breaks the rule that its column broke."""
    for at, row in enumerate(rows):
        if not fits(row.get(key)):
            return FormatError(place, f"partitions[{at}].{key}: {row.get(key)!r} is not {rule}")
    return FormatError(place, f"partitions: {key} is not {rule}")


def _check_rows(rows: list[Any], place: str) -> None:
    if set(map(type, rows)) != {dict}:
        at = next(at for at, row in enumerate(rows) if type(row) is not dict)
        raise FormatError(place, f"partitions[{at}]: {rows[at]!r} is not an object")
    keys = set(map(tuple, rows))
    unknown = sorted(set(chain.from_iterable(keys)) - _PARTITION_KEYS)
    if unknown:
        at = next(at for at, row in enumerate(rows) if unknown[0] in row)
        known = sorted(_PARTITION_KEYS)
        raise FormatError(place, f"partitions[{at}]: unknown key {unknown[0]!r}; known are {known}")
    if set(map(type, _values(rows, "topic"))) != {str} or "" in {row["topic"] for row in rows}:
        raise _refuse(rows, place, "topic", lambda value: isinstance(value, str) and bool(value), "a topic's name")
    if not _all_indexes(_values(rows, "partition")):
        raise _refuse(rows, place, "partition", _is_index, "a partition number (0 to 2147483647)")
    if set(map(type, _values(rows, "replicas"))) != {list} or not all(row["replicas"] for row in rows):
        raise _refuse(rows, place, "replicas", lambda v: isinstance(v, list) and bool(v), "a list of broker ids")


def _values(rows: list[Any], key: str) -> Iterable[Any]:
    return (row.get(key) for row in rows)


def _all_indexes(values: Iterable[Any]) -> bool:
    found = list(values)
    return set(map(type, found)) <= {int} and (not found or (min(found) >= 0 and max(found) < 2**31))


def _check_repeats(
    rows: list[Any], topic_of: npt.NDArray[np.int32], numbers: npt.NDArray[np.int32], place: str
) -> None:
    keys = (topic_of.astype(np.int64) << 32) | numbers
    _, first = np.unique(keys, return_index=True)
    if len(first) == len(keys):
        return
    repeated = np.ones(len(keys), dtype=np.bool_)
    repeated[first] = False
    at = int(np.flatnonzero(repeated)[0])
    row = rows[at]
    earlier = int(np.flatnonzero(keys == keys[at])[0])
    rule = f"partition {row['topic']}-{row['partition']} is already row {earlier}; each may come once"
    raise FormatError(place, f"partitions[{at}]: {rule}")


def _replica_table(rows: list[Any], brokers: list[int], place: str) -> npt.NDArray[np.int32]:
    lists = [row["replicas"] for row in rows]
    flat = list(chain.from_iterable(lists))
    if not _all_indexes(flat):
        at = next(at for at, row in enumerate(lists) if not all(map(_is_index, row)))
        raise FormatError(place, f"partitions[{at}].replicas: {lists[at]!r} is not a list of broker ids")
    ids = np.array(brokers, dtype=np.int64)
    values = np.array(flat, dtype=np.int64)
    lengths = np.fromiter(map(len, lists), dtype=np.int64, count=len(lists))
    indexes = np.minimum(np.searchsorted(ids, values), len(ids) - 1)
    unknown = ids[indexes] != values
    if unknown.any():
        position = int(np.flatnonzero(unknown)[0])
        at = int(np.searchsorted(np.cumsum(lengths), position, side="right"))
        rule = f"replicas {lists[at]} name broker {int(values[position])}, which is not among the brokers"
        raise FormatError(place, f"partitions[{at}]: {rule}")
    table = np.full((len(lists), int(lengths.max())), -1, dtype=np.int32)
    table[np.arange(table.shape[1]) < lengths[:, None]] = indexes
    ordered = np.sort(table, axis=1)
    repeats = ((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any(axis=1)
    if repeats.any():
        at = int(np.flatnonzero(repeats)[0])
        twice = next(broker for broker in lists[at] if lists[at].count(broker) > 1)
        name = f"{rows[at]['topic']}-{rows[at]['partition']}"
        raise FormatError(place, f"partitions[{at}]: replicas {lists[at]} for {name} repeat broker {twice}")
    return table


def _amounts(rows: list[Any], key: str, place: str, *, needed: bool) -> npt.NDArray[np.float64]:
    values = list(_values(rows, key))
    if not needed:
        values = [0.0 if value is None else value for value in values]
    rule = "a number of at least 0"
    good = set(map(type, values)) <= {int, float}
    amounts = np.array(values, dtype=np.float64) if good else np.zeros(0)
    if not good or not np.isfinite(amounts).all() or float(amounts.min()) < 0:
        optional = not needed

        def fits(value: object) -> bool:
            return (optional and value is None) or (
                isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < float("inf")
            )

        raise _refuse(rows, place, key, fits, rule)
    return amounts


def _optional(rows: list[Any], key: str, place: str) -> npt.NDArray[np.float64] | None:
    if not any(key in row for row in rows):
        return None
    return _amounts(rows, key, place, needed=False)


def _min_isr(rows: list[Any], place: str) -> npt.NDArray[np.int32] | None:
    if not any("min_isr" in row for row in rows):
        return None
    values = [1 if row.get("min_isr") is None else row["min_isr"] for row in rows]
    if not _all_indexes(values):
        raise _refuse(rows, place, "min_isr", lambda v: v is None or _is_index(v), "a count of replicas")
    return np.array(values, dtype=np.int32)


def _known_brokers(rows: list[Any], key: str, ids: list[int], place: str) -> npt.NDArray[np.int32] | None:
    """(P, V) indexes of the brokers in an optional list of each row; UNKNOWN first where a row has none."""
    if not any(row.get(key) is not None for row in rows):
        return None
    index = {broker: at for at, broker in enumerate(ids)}

    def fits(value: object) -> bool:
        return value is None or (isinstance(value, list) and all(_is_index(each) and each in index for each in value))

    lists = [row.get(key) for row in rows]
    if not all(map(fits, lists)):
        raise _refuse(rows, place, key, fits, "a list of ids of brokers of this file")
    table = np.full((len(rows), max(1, *(len(each or ()) for each in lists), 1)), ABSENT, dtype=np.int32)
    lengths = np.fromiter((0 if each is None else len(each) for each in lists), np.int64, len(lists))
    flat = [index[broker] for each in lists if each for broker in each]
    table[np.arange(table.shape[1]) < lengths[:, None]] = flat
    table[[at for at, each in enumerate(lists) if each is None], 0] = UNKNOWN
    return table


def _leaders(rows: list[Any], ids: list[int], place: str) -> npt.NDArray[np.int32] | None:
    """(P,) index of the broker that leads each partition, ABSENT for nobody, UNKNOWN where a row does not say."""
    if not any(row.get("leader") is not None for row in rows):
        return None
    index: dict[object, int] = {broker: at for at, broker in enumerate(ids)} | {-1: ABSENT, None: UNKNOWN}

    def fits(value: object) -> bool:
        return value is None or (isinstance(value, int) and not isinstance(value, bool) and value in index)

    if not all(fits(row.get("leader")) for row in rows):
        raise _refuse(rows, place, "leader", fits, "the id of a broker of this file, nor -1 (nobody)")
    return np.array([index[row.get("leader")] for row in rows], dtype=np.int32)


def write_reassignment(
    changes: Iterable[tuple[str, int, list[int], list[int] | None]], elect: Container[tuple[str, int]] = ()
) -> bytes:
    """Write the JSON that kafka-reassign-partitions takes: version 1, the partitions that change, replicas in order.

    `original_replicas`, which Apache's tool passes over, let Shunter refuse a partition whose replicas have changed
    since the plan was made.

    Args:
        changes: (topic, partition, replicas, the replicas that it was planned from; None: not known).
        elect: Partitions of which the first replica is to be elected leader at the end.

    Raises:
        FormatError: a broker twice in one list of replicas, or a partition twice: Kafka would refuse all of it.
    """
    partitions: list[dict[str, Any]] = []
    written: set[tuple[str, int]] = set()
    for topic, number, replicas, original in changes:
        name = f"partition {topic}-{number}"
        if (topic, number) in written:
            raise FormatError("plan", f"{name} comes twice; each may come once")
        written.add((topic, number))
        _refuse_repeats(replicas, f"replicas {replicas} for {name}")
        _refuse_repeats(original or [], f"original replicas {original} of {name}")
        row: dict[str, Any] = {"topic": topic, "partition": number, "replicas": replicas}
        row |= {} if original is None else {"original_replicas": original}
        partitions.append(row | {"elect": True} if (topic, number) in elect else row)
    return orjson.dumps({"version": 1, "partitions": partitions}) + b"\n"


def _refuse_repeats(replicas: Sequence[int], name: str) -> None:
    for broker in replicas:
        if replicas.count(broker) > 1:
            raise FormatError("plan", f"{name} repeat broker {broker}")


def write_moves(moves: Iterable[dict[str, Any]]) -> bytes:
    """Write one JSON object per line."""
    return b"".join(orjson.dumps(move) + b"\n" for move in moves)
