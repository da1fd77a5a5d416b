"""All topics and partitions of a cluster over the API: searched, in pages."""

from __future__ import annotations

from typing import Any

from web_house import House
from web_sights import LONG, keep, sighting
from web_yard import START_MS

from shunter.app.access.access_tokens import AccessRole

CLUSTER = "/api/v1/clusters/prod-eu"


async def asked(house: House, question: str) -> Any:
    async with house.client(AccessRole.READ) as client:
        answer = await client.get(f"{CLUSTER}/{question}")
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_every_partition_is_found_whatever_the_page_of_the_cluster_names(house: House) -> None:
    topics = {f"t{number:03d}": 10 for number in range(250)} | {LONG: 3}
    keep(house.yard, "prod-eu", sighting(4, topics, START_MS, dead=(3,)))
    page = await asked(house, "topics?search=MERCHANT&order=name")
    assert [(row["name"], row["partitions"]) for row in page["rows"]] == [(LONG, 3)]
    assert (await asked(house, "topics?limit=1"))["found"] == 251, "more than the 200 of the cluster's own page"
    found = await asked(house, f"partitions?topic={LONG}&limit=2")
    assert (found["found"], [row["partition"] for row in found["rows"]]) == (3, [f"{LONG}-0", f"{LONG}-1"])
    everything = await asked(house, "partitions?limit=1000&offset=2000")
    assert everything["found"] == everything["in_all"] == 2_503
    assert (everything["offset"], len(everything["rows"])) == (2000, 503)


async def test_partitions_by_state_and_broker(house: House) -> None:
    keep(house.yard, "prod-eu", sighting(4, {"orders": 40}, START_MS, dead=(3,)))
    whole = await asked(house, "partitions")
    assert next(iter(whole["counts"])) == "offline", "the worst first"
    lost = await asked(house, "partitions?state=offline")
    assert lost["found"] == whole["counts"]["offline"] > 0
    assert {row["leader"] for row in lost["rows"]} == {-1}
    assert lost["counts"] == whole["counts"], "counts do not depend on the state that is asked for"
    row = house.yard.facts["prod-eu"].observation
    assert row is not None
    told = (row.offline, row.under_min_isr, row.under_replicated)
    assert told == tuple(whole["counts"][state] for state in ("offline", "under min ISR", "under-replicated"))
    assert whole["in_all"] - row.under_replicated == whole["counts"]["healthy"]
    lacking = await asked(house, "partitions?state=under-replicated&limit=1000")
    assert (lacking["found"], len(lacking["rows"])) == (row.under_replicated, row.under_replicated)
    here = await asked(house, "partitions?broker=3&search=ORDERS-1")
    assert here["found"] > 0
    assert all(3 in row["replicas"] and 3 in row["offline"] for row in here["rows"])
    assert (await asked(house, "partitions?broker=9"))["found"] == 0


async def test_a_cluster_that_was_not_observed_has_none(house: House) -> None:
    house.yard.seen.clear()
    assert await asked(house, "topics") == {
        "observed_at_ms": None,
        "found": 0,
        "offset": 0,
        "rows": [],
        "partition": "",
    }
    assert (await asked(house, "partitions"))["rows"] == []
