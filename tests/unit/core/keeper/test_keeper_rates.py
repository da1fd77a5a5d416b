"""Balance by bytes in and out and by processors, from a load model only if it is fresh and complete."""

from __future__ import annotations

from dataclasses import replace

import pytest
from keeper_clusters import NOON_MS, carried_out, cluster, look, only, ready

from shunter.core.keeper.judgement import Judgement
from shunter.core.keeper.load_model import with_model
from shunter.core.keeper.sighting import Sighting
from shunter.model.keeper import Condition, KeeperPolicy
from shunter.model.load_model import LoadModel, PartitionRates, ProcessorModel

HOUR_MS = 3_600_000
ROWS = {"t": [[1], [1], [2], [2], [3], [3]]}
UNEVEN = {("name:t", at): PartitionRates(rate, 0.0) for at, rate in enumerate((90.0, 80.0, 5.0, 5.0, 10.0, 10.0))}
"""Rates of a cluster whose bytes and replicas are even, but whose producers' bytes are not."""
PROCESSORS = ProcessorModel(0.1, 1e-3, 2e-3, 1e-3, {1: 1.0, 2: 1.0, 3: 1.0})
FRESH = LoadModel(UNEVEN, NOON_MS - 3 * HOUR_MS)


def held(judged: Judgement) -> dict[str, str]:
    return {f"{each.sign.subject.condition.value} {each.sign.subject.about}": each.sign.text for each in judged.holding}


def seen(model: LoadModel = FRESH, hours: int = 24) -> Sighting:
    return with_model(cluster(ROWS), model, hours)


@pytest.mark.parametrize(
    ("condition", "model"),
    [
        (Condition.BYTES_IN_BAND, FRESH),
        (
            Condition.BYTES_OUT_BAND,
            replace(FRESH, rates={key: PartitionRates(0.0, told.bytes_in) for key, told in UNEVEN.items()}),
        ),
        (Condition.PROCESSORS_BAND, replace(FRESH, processors=PROCESSORS)),
    ],
)
def test_an_uneven_rate_is_seen_and_evened_out(condition: Condition, model: LoadModel) -> None:
    policy = only(condition)
    judged = look(seen(model), policy)
    assert {f"{condition.value} broker {broker}" for broker in (1, 2, 3)} == set(held(judged))
    assert all("by rates up to 3.0 hours ago" in told for told in held(judged).values())
    proposal = ready(judged)
    assert proposal is not None
    assert (proposal.scope.value, proposal.conditions) == ("rebalance", (condition,))
    later = carried_out(seen(model), proposal)
    rates = {1: 0.0, 2: 0.0, 3: 0.0}
    for each in later.inventory.partitions:
        rates[each.replicas[0]] += UNEVEN[("name:t", each.partition)].bytes_in or 0.0
    assert max(rates.values()) < 170, "broker 1 had 170 of 200"
    assert "1.0 hours" not in str(held(look(later, policy)))


@pytest.mark.parametrize("known", [range(0), range(1), range(1, 6)])
def test_bytes_out_that_nobody_told_are_not_taken_for_none(known: range) -> None:
    """Snapshots have no consumers' bytes, and bytes that a source did not count are not a reason to move anything."""
    rates = {
        (topic, at): told._replace(bytes_out=50.0 if at in known else None) for (topic, at), told in UNEVEN.items()
    }
    load = seen(replace(FRESH, rates=rates, processors=PROCESSORS)).load
    assert load.bytes_in is not None
    assert load.bytes_out is None
    policy = only(Condition.BYTES_OUT_BAND, Condition.PROCESSORS_BAND)
    assert look(seen(replace(FRESH, rates=rates, processors=PROCESSORS)), policy).holding == ()


def test_a_few_partitions_that_nobody_told_of_count_as_none() -> None:
    rates = {
        (topic, at): told._replace(bytes_out=None if at in (2, 3) else 50.0) for (topic, at), told in UNEVEN.items()
    }
    found = seen(replace(FRESH, rates=rates)).load.bytes_out
    assert found is not None
    assert found.tolist() == [50.0, 50.0, 0.0, 0.0, 50.0, 50.0]


def test_without_a_model_no_rate_is_judged() -> None:
    policy = only(Condition.BYTES_IN_BAND, Condition.BYTES_OUT_BAND, Condition.PROCESSORS_BAND, Condition.MODEL_UNUSED)
    assert look(cluster(ROWS), policy).holding == ()
    assert list(held(look(seen(), policy))), "and by one they are"


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (replace(FRESH, until_ms=NOON_MS - 25 * HOUR_MS), "its newest rates are 25 hours old, and model-hours = 24"),
        (LoadModel(), "it has no rates of this cluster"),
        (replace(FRESH, rates=dict(list(UNEVEN.items())[:5])), "the rates of 5 of 6 partitions, and 90% are wanted"),
    ],
)
def test_a_model_that_is_old_or_thin_is_told_and_nothing_is_judged_by_it(model: LoadModel, why: str) -> None:
    policy = only(Condition.BYTES_IN_BAND, Condition.PROCESSORS_BAND, Condition.MODEL_UNUSED)
    judged = look(seen(replace(model, processors=PROCESSORS)), policy)
    assert list(held(judged)) == ["model-unused "]
    assert why in held(judged)["model-unused "]
    assert judged.proposals == ()
    assert seen(model).load.bytes_in is None


def test_a_topic_is_known_by_its_id_before_its_name() -> None:
    made = cluster(ROWS)
    partitions = tuple(each._replace(topic_id="uuid") for each in made.inventory.partitions)
    made = replace(made, inventory=made.inventory._replace(partitions=partitions))
    rates = {("uuid", at): PartitionRates(float(at), None) for at in range(6)}
    found = with_model(made, LoadModel({**UNEVEN, **rates}, NOON_MS), 1)
    assert found.load.bytes_in is not None
    assert found.load.bytes_in.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


def test_a_broker_that_nobody_measured_is_an_average_one() -> None:
    found = seen(replace(FRESH, processors=PROCESSORS._replace(powers={1: 2.0, 2: 0.05})))
    assert found.load.processor_capacity is not None
    assert found.load.processor_capacity.tolist() == pytest.approx([1.9, 0.01, 0.9])


def test_every_other_plan_keeps_to_the_rates_too() -> None:
    policy = KeeperPolicy(only(Condition.BROKER_EMPTY).watches)
    made = with_model(cluster(ROWS, brokers=(1, 2, 3, 4)), FRESH, 24)
    proposal = ready(look(made, policy))
    assert proposal is not None
    assert proposal.scope.value == "fill"
    assert {each.original[0] for each in proposal.changes} == {1}, "it takes from the broker that carries most"
