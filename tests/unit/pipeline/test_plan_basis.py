"""The data that a plan rests on: if it is too old or covers too little, the cluster is refused, or the plan warns."""

from datetime import UTC, datetime

from shunter.pipeline.planning.plan_batch import Basis, FleetPlan, refusals, warning_of

NOW = datetime(2025, 3, 1, tzinfo=UTC)
DAY = 86_400
AT = int(NOW.timestamp())


def basis(name="yard", *, rates=100, rates_age=0, snapshot_age=0):
    until = AT - rates_age * DAY if rates else None
    return Basis(name, 100, rates, 100, until, None if snapshot_age is None else AT - snapshot_age * DAY)


def test_clusters_whose_data_is_old_or_thin_are_refused():
    asked = FleetPlan("p", now=NOW, least_rates_percent=90)
    found = dict(
        refusals(
            [basis("good", rates=90), basis("thin", rates=89), basis("old", snapshot_age=8), basis("none", rates=0, snapshot_age=None)],
            asked,
        )
    )  # fmt: skip
    assert sorted(found) == ["none", "old", "thin"]
    assert "its newest snapshot is 8.0 days old (2025-02-21 00:00 UTC), and may be 7: take a new one" in found["old"]
    assert found["thin"].startswith("89.0 % of its partitions have rates, and --least-rates-percent asks for 90")
    assert dict(refusals([basis(rates=0)], FleetPlan("p", now=NOW))) == {}
    assert dict(refusals([basis(snapshot_age=999)], FleetPlan("p"))) == {}


def test_a_plan_by_old_rates_says_so():
    asked = FleetPlan("p", now=NOW, rates_age=7.0 * DAY)
    assert (
        warning_of(basis(rates_age=8), asked)
        == "its newest rates are 8.0 days old: the plan carries the load of that time"
    )
    assert warning_of(basis(rates_age=6), asked) is None
    assert warning_of(basis(rates=0), asked) is None
    assert warning_of(basis(rates_age=8), FleetPlan("p", now=NOW)) is None


def test_a_cluster_that_snapshots_know_by_another_name_is_told():
    asked = FleetPlan("p", now=NOW, rates_age=7 * DAY)
    unseen = basis(name="prod", snapshot_age=None)
    told = warning_of(unseen, asked, ("kq3", "other"))
    assert told.startswith("there are snapshots of kq3 and 1 more, and none of prod: ")
    assert "with Kafka's own id as --cluster" in told
    assert warning_of(unseen, asked) is None
    assert warning_of(basis(), asked, ("yard",)) is None
    both = warning_of(basis(name="prod", rates_age=8, snapshot_age=None), asked, ("kq3",))
    assert both.count("; ") == 1
