"""The API: what it answers, that the OpenAPI document says so, orders with keys, problems."""

from __future__ import annotations

import asyncio
import json
import platform
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner
from pydantic import TypeAdapter
from web_house import House
from web_lake import keep_lake
from web_yard import START_MS, Yard

from shunter import __version__
from shunter.app.access.access_tokens import AccessRole, add_token
from shunter.cli.main import main
from shunter.formats.service_records import encode_body
from shunter.model.service import IntentKind, OrderKind, Refusal, ServiceOrder
from shunter.views.service import render
from shunter.web.answers import model_of
from shunter.web.ordering import VERBS
from shunter.web.reception import STATUSES
from shunter.web.server import WebOptions, serving

CLUSTER = "/api/v1/clusters/prod-eu"
READ = {
    "/api/v1/session": "/api/v1/session",
    "/api/v1/fleet": "/api/v1/fleet",
    "/api/v1/clusters/{name}": CLUSTER,
    "/api/v1/clusters/{name}/topics": f"{CLUSTER}/topics?search=o&order=name&limit=3",
    "/api/v1/clusters/{name}/partitions": f"{CLUSTER}/partitions?search=o&broker=2&limit=3",
    "/api/v1/clusters/{name}/moves": f"{CLUSTER}/moves?search=topic-00&state=moving&offset=1&limit=3",
    "/api/v1/clusters/{name}/moves/{partition}": f"{CLUSTER}/moves/topic-002-0?execution=1",
    "/api/v1/clusters/{name}/controllers": f"{CLUSTER}/controllers",
    "/api/v1/clusters/{name}/executions": f"{CLUSTER}/executions",
    "/api/v1/clusters/{name}/executions/{execution}/moves": f"{CLUSTER}/executions/1/moves?search=topic&limit=2",
    "/api/v1/clusters/{name}/forecasts": f"{CLUSTER}/forecasts",
    "/api/v1/clusters/{name}/proposals": f"{CLUSTER}/proposals?ended=true",
    "/api/v1/clusters/{name}/proposals/{proposal}": f"{CLUSTER}/proposals/prod-eu-1",
    "/api/v1/clusters/{name}/proposals/{proposal}/changes": f"{CLUSTER}/proposals/prod-eu-1/changes?limit=2",
    "/api/v1/clusters/{name}/reports": f"{CLUSTER}/reports",
    "/api/v1/clusters/{name}/reports/{report}": f"{CLUSTER}/reports/runway?search=topic&limit=2",
    "/api/v1/clusters/{name}/timeline": f"{CLUSTER}/timeline?most=7",
    "/api/v1/timeline": "/api/v1/timeline",
    "/health": "/health",
}
"""A question for each route that answers with JSON."""
OTHERS = {"/metrics", "/ready", "/api/v1/events", "/api/v1/login", "/api/v1/callback"}
"""Routes whose answers are tested below."""


def client(house: House, role: AccessRole = AccessRole.ADMINISTER, **headers: str) -> httpx.AsyncClient:
    return house.client(role, **headers)


class TestTheDocument:
    def test_it_has_every_route_and_no_other(self, house: House) -> None:
        paths = house.application.openapi()["paths"]
        reads = {path for path, each in paths.items() if "get" in each}
        assert reads == READ.keys() | OTHERS
        orders = {path for path, each in paths.items() if "post" in each} - {"/api/v1/session"}
        for_clusters = {f"/api/v1/clusters/{{name}}/{verb.kind.value}" for verb in VERBS}
        orders -= {"/api/v1/clusters/{name}/sketch", "/api/v1/clusters/{name}/preview", "/api/v1/fleet/preview"}
        assert orders == for_clusters | {f"/api/v1/fleet/{verb.kind.value}" for verb in VERBS if verb.fleet}

    async def test_it_is_served_to_everybody(self, house: House) -> None:
        async with house.client() as nobody:
            answer = await nobody.get("/api/v1/openapi.json")
        assert answer.json() == json.loads(json.dumps(house.application.openapi()))

    def test_every_order_of_the_service_has_a_route(self) -> None:
        assert {verb.kind for verb in VERBS} == set(OrderKind)

    def test_every_refusal_has_a_status(self) -> None:
        assert STATUSES.keys() == set(Refusal)

    def test_403_is_for_rights_alone(self) -> None:
        assert STATUSES[Refusal.NOT_ALLOWED] == 409
        assert 403 not in STATUSES.values()

    def test_every_operation_says_what_it_is(self, house: House) -> None:
        operations = [each for path in house.application.openapi()["paths"].values() for each in path.values()]
        assert all(each["summary"] and each["description"] for each in operations)
        names = [each["operationId"] for each in operations]
        assert len(set(names)) == len(names)
        assert {"fleet", "past-moves", "proposal", "intend", "fleet-pause", "fleet-timeline"} <= {*names}
        assert all(re.fullmatch("[a-z-]+", name) for name in names), "they are names in clients that are made of them"

    @pytest.mark.parametrize("path", READ)
    async def test_answers_are_as_it_says(self, house: House, path: str, tmp_path: Path) -> None:
        house.yard.lake = keep_lake(tmp_path / "lake", "id-of-prod-eu")
        async with client(house) as asker:
            answer = await asker.get(READ[path])
        assert answer.status_code == 200, answer.text
        validate(house.application.openapi(), path, answer.json())

    def test_an_answer_that_is_not_as_it_says_is_found(self, house: House) -> None:
        document = house.application.openapi()
        with pytest.raises(AssertionError, match="surprise"):
            validate(document, "/health", {"status": "alive", "why": "", "surprise": 1})
        with pytest.raises(AssertionError, match="status"):
            validate(document, "/health", {"why": ""})
        wrong = {"text": "", "bytes": "1", "moves": 1}
        with pytest.raises(AssertionError, match="integer"):
            validate(document, "/api/v1/clusters/{name}/preview", wrong, "post")


def validate(document: dict[str, Any], path: str, value: Any, method: str = "get") -> None:
    """Compare an answer with the schema that the document has for a route, unknown fields included."""
    schema = document["paths"][path][method]["responses"]["200"]["content"]["application/json"]["schema"]
    _fits(document, schema, value, path)


def _fits(document: dict[str, Any], schema: dict[str, Any], value: Any, at: str) -> None:
    if "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        problems = []
        for each in schema["anyOf"]:
            try:
                return _fits(document, each, value, at)
            except AssertionError as error:
                problems.append(str(error))
        raise AssertionError("; ".join(problems))
    kind = schema.get("type")
    if kind == "object":
        assert isinstance(value, dict), f"{at}: object"
        properties = schema.get("properties")
        missing = set(schema.get("required", ())) - value.keys()
        assert not missing, f"{at}: {missing} missing"
        for name, each in value.items():
            assert properties is None or name in properties, f"{at}: {name} is not in the document"
            _fits(document, (properties or {}).get(name, {}), each, f"{at}.{name}")
    elif kind == "array":
        assert isinstance(value, list), f"{at}: array"
        for each in value:
            _fits(document, schema.get("items", {}), each, f"{at}[]")
    elif kind is not None:
        types = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "null": type(None)}
        assert isinstance(value, types[kind]), f"{at}: {value!r} is no {kind}"
        assert not (kind == "integer" and isinstance(value, bool)), f"{at}: {value!r} is no integer"
    assert "enum" not in schema or value in schema["enum"], f"{at}: {value!r}"
    return None


def test_views_are_rendered_as_their_models_say(house: House) -> None:
    view = house.yard.front.cluster("prod-eu")
    assert TypeAdapter(model_of(type(view))).validate_json(render(view), strict=False)


class TestReading:
    async def test_moves_come_in_pages(self, house: House) -> None:
        async with client(house) as asker:
            every = (await asker.get(f"{CLUSTER}/moves?limit=1000")).json()
            page = (await asker.get(f"{CLUSTER}/moves?offset=3&limit=2")).json()
            moving = (await asker.get(f"{CLUSTER}/moves?state=moving")).json()
            none = (await asker.get(f"{CLUSTER}/moves?offset=1000")).json()
        assert every["found"] == len(every["rows"]) == 40
        assert page["rows"] == every["rows"][3:5]
        assert moving["found"] == every["counts"]["moving"] == len(moving["rows"])
        assert (none["found"], none["rows"]) == (40, [])
        summary = every["summary"]
        assert {"copy_bytes_per_s", "throttle_bytes_per_s"} < summary.keys()
        assert not {"bytes_per_s", "limit"} & summary.keys(), "a rate and a throttle have names that tell them apart"
        assert every["counts"] == {"moving": 12, "pending": 26, "external": 2}, "nobody here can turn those of others"

    @pytest.mark.parametrize(
        ("path", "rows"),
        [
            ("moves?limit=7", "rows"),
            ("moves?limit=3&state=moving&search=topic", "rows"),
            ("timeline?most=3", "events"),
            ("proposals/prod-eu-1/changes?limit=3", "rows"),
            ("executions/1/moves?limit=1", "rows"),
        ],
    )
    async def test_each_page_names_the_next_one(self, house: House, path: str, rows: str) -> None:
        place, _, query = path.partition("?")
        found: list[Any] = []
        async with client(house) as asker:
            whole = re.sub(r"(limit|most)=\d+", r"\1=1000", query)
            every = (await asker.get(f"{CLUSTER}/{place}?{whole}")).json()
            asked: str | None = f"?{query}"
            pages = 0
            while asked is not None:
                page = (await asker.get(f"{CLUSTER}/{place}{asked}")).json()
                found = [*page[rows], *found] if rows == "events" else [*found, *page[rows]]
                asked, pages = page["next"], pages + 1
        assert found == every[rows]
        assert every["next"] is None
        assert pages > 1

    async def test_a_move_has_a_story_and_executions_have_moves(self, house: House) -> None:
        async with client(house) as asker:
            now = (await asker.get(f"{CLUSTER}/moves/topic-001-0")).json()
            then = (await asker.get(f"{CLUSTER}/moves/topic-001-0?execution=1")).json()
            executions = (await asker.get(f"{CLUSTER}/executions")).json()["executions"]
            page = (await asker.get(f"{CLUSTER}/executions/1/moves?state=rolled-back")).json()
            nowhere = await asker.get(f"{CLUSTER}/moves/nothing-0")
            never = await asker.get(f"{CLUSTER}/executions/9/moves")
        assert [step["state"] for step in now["steps"]] == ["under way", "to come"]
        assert [step["state"] for step in then["steps"]] == ["done", "done"]
        assert now["executions"] == then["executions"] == [1, 2]
        assert [each["number"] for each in executions] == [2, 1], "the latest first"
        assert [row["partition"] for row in page["rows"]] == ["topic-002-0"]
        assert page["counts"] == {"done": 1, "rolled-back": 1, "gone": 1}
        assert (nowhere.status_code, never.status_code) == (404, 404)

    async def test_rate_and_estimate_are_kept_for_pages_that_come_later(self, house: House) -> None:
        async with client(house) as asker:
            for second in range(3):
                house.yard.now_ms = lambda at=START_MS + second * 1_000: at
                house.yard.tick()
                before = (await asker.get(f"{CLUSTER}/forecasts")).json()
                assert len(before["at_ms"]) == second, "the point of this version is not noted yet"
                house.reception.forecasts.note("prod-eu", house.yard.front.moves("prod-eu"))
            told = (await asker.get(f"{CLUSTER}/forecasts")).json()
        assert told["at_ms"] == [START_MS, START_MS + 1_000, START_MS + 2_000]
        assert all(
            low < end < high for low, end, high in zip(told["low_ms"], told["end_ms"], told["high_ms"], strict=True)
        )

    async def test_what_did_not_change_is_not_sent_again(self, house: House) -> None:
        async with client(house) as asker:
            first = await asker.get(f"{CLUSTER}/moves")
            again = await asker.get(f"{CLUSTER}/moves", headers={"if-none-match": first.headers["etag"]})
            house.yard.tick()
            changed = await asker.get(f"{CLUSTER}/moves", headers={"if-none-match": first.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        assert changed.status_code == 200
        assert changed.json()["summary"]["left_bytes"] < first.json()["summary"]["left_bytes"]

    async def test_what_is_looked_at_from_far_ahead_is_another_answer(self, house: House, tmp_path: Path) -> None:
        # A service that was restarted begins its versions anew: a tag of the run before must not hit.
        async with client(house) as asker:
            tag = (await asker.get(f"{CLUSTER}/moves")).headers["etag"]
            (tmp_path / "other").mkdir()
            async with client(House(tmp_path / "other")) as second:
                assert (await second.get(f"{CLUSTER}/moves", headers={"if-none-match": tag})).status_code == 200

    async def test_the_cost_of_a_rollback_is_told_first(self, house: House) -> None:
        verb = {"verb": "rollback"}
        async with client(house, AccessRole.READ) as asker:
            one = (await asker.post(f"{CLUSTER}/preview", json={**verb, "partitions": ["topic-001-0"]})).json()
            every = (await asker.post(f"{CLUSTER}/preview", json=verb)).json()
            gone = await asker.post(f"{CLUSTER}/preview", json={**verb, "partitions": ["gone-0"] * 50_000})
            fleet = (await asker.post("/api/v1/fleet/preview", json={"verb": "pause"})).json()
        for path, told in ((f"{CLUSTER}/preview", one), ("/api/v1/fleet/preview", fleet)):
            validate(house.application.openapi(), path.replace("prod-eu", "{name}"), told, "post")
        assert (one["moves"], one["bytes"]) == (1, 1_000_000_000)
        assert "1.0 GB are copied again" in one["text"]
        assert every["moves"] == 38, "two of the forty moves are another tool's"
        assert every["bytes"] > one["bytes"]
        assert gone.status_code == 404

    async def test_the_timeline_is_cut_out(self, house: House) -> None:
        async with client(house) as asker:
            every = (await asker.get(f"{CLUSTER}/timeline")).json()["events"]
            hour = (await asker.get(f"{CLUSTER}/timeline?since_ms={START_MS - 3_600_000}&most=2")).json()
        assert len(hour["events"]) == 2
        assert hour["more"]
        assert hour["events"] == every[-2:]

    async def test_the_timeline_is_of_one_kind_or_of_one_person(self, house: House) -> None:
        async with client(house) as asker:
            every = (await asker.get(f"{CLUSTER}/timeline")).json()["events"]
            kind, who = every[0]["kind"], next(each["who"] for each in every if each["who"])
            found = {
                name: (await asker.get(f"/api/v1/timeline?{name}={value}&most=1")).json()
                for name, value in (("kind", kind), ("who", who))
            }
            more = (
                (await asker.get(f"/api/v1/timeline{found['kind']['next']}")).json()
                if found["kind"]["next"]
                else found["kind"]
            )
        assert {each["kind"] for each in (*found["kind"]["events"], *more["events"])} == {kind}
        assert {each["who"] for each in found["who"]["events"]} == {who}

    async def test_what_the_pipeline_wrote_is_read(self, house: House, tmp_path: Path) -> None:
        async with client(house) as asker:
            none = (await asker.get(f"{CLUSTER}/reports")).json()
            refused = await asker.get(f"{CLUSTER}/reports/runway")
            house.yard.lake = keep_lake(tmp_path / "lake", "id-of-prod-eu")
            there = (await asker.get(f"{CLUSTER}/reports")).json()
            runway = (await asker.get(f"{CLUSTER}/reports/runway?limit=1")).json()
            topics = (await asker.get(f"{CLUSTER}/reports/runway?search=TOPIC-0")).json()
            other = await asker.get(f"{CLUSTER}/reports/manifest")
        assert "names no lake" in none["why"]
        assert (refused.status_code, refused.json()["type"]) == (404, "urn:shunter:not-found")
        assert there["model"]["with_rates"] == 2
        assert [each["name"] for each in there["reports"] if each["rows"]] == ["data_quality", "runway", "anomalies"]
        assert runway["rows"][0][:2] == ["broker", "3"], "who is full first comes first"
        assert topics["found"] == 2
        assert (other.status_code, other.json()["type"]) == (404, "urn:shunter:not-found")

    async def test_metrics_and_readiness(self, house: House) -> None:
        async with client(house) as asker:
            metrics = (await asker.get("/metrics")).text
            assert (await asker.get("/ready")).status_code == 200
            house.yard.trouble = "the store is full"
            assert (await asker.get("/ready")).json() == {"status": "not ready", "why": "the store is full"}
        assert 'shunter_service_moves_open{cluster="prod-eu"} 40.0' in metrics
        assert 'shunter_service_cluster_state{cluster="prod-eu",state="ok"} 1.0' in metrics
        assert f'shunter_build_info{{python="{platform.python_version()}",version="{__version__}"}} 1.0' in metrics
        assert 'shunter_service_broker_replicas{broker="1",cluster="prod-eu"}' in metrics
        assert 'shunter_service_observations_total{cluster="prod-eu",outcome="seen"} 0.0' in metrics
        assert 'shunter_service_copied_bytes_total{cluster="prod-eu"} 0.0' in metrics
        async with client(house) as asker:
            await asker.request("BREW", "/api/v1/fleet")
            later = (await asker.get("/metrics")).text
        assert 'shunter_service_http_requests_total{method="GET",status="200"} 2.0' in later
        assert 'shunter_service_http_requests_total{method="other",status="405"} 1.0' in later

    async def test_one_proposal_is_asked_for_by_its_id(self, house: House) -> None:
        async with client(house) as asker:
            one = (await asker.get(f"{CLUSTER}/proposals/prod-eu-1")).json()
            none = await asker.get(f"{CLUSTER}/proposals/other-1")
        assert (one["proposal"]["id"], one["proposal"]["changes"]) == ("prod-eu-1", [])
        assert (none.status_code, none.json()["type"]) == (404, "urn:shunter:not-found")


TYPED: dict[str, tuple[dict[str, Any], ServiceOrder]] = {
    "approve": ({"proposal": "drain-1"}, ServiceOrder(OrderKind.APPROVE, proposal="drain-1")),
    "limit": ({"bytes_per_s": 5_000_000}, ServiceOrder(OrderKind.LIMIT, bytes_per_s=5_000_000)),
    "intend": (
        {"intent": "replace", "replacements": {"3": 7}},
        ServiceOrder(OrderKind.INTEND, intent=IntentKind.REPLACE, replacements=((3, 7),)),
    ),
    "withdraw": (
        {"intent": "freeze-topic", "topics": ["audit-*"]},
        ServiceOrder(OrderKind.WITHDRAW, intent=IntentKind.FREEZE_TOPIC, topics=("audit-*",)),
    ),
    "stop": (
        {"partitions": ["orders-3", "orders-4"]},
        ServiceOrder(OrderKind.STOP, partitions=("orders-3", "orders-4")),
    ),
    "propose": (
        {"scope": "drain", "brokers": [3], "most_moves": 50, "without_topics": ["a", "b"], "band_percent": 5},
        ServiceOrder(
            OrderKind.PROPOSE, scope="drain", brokers=(3,), most_moves=50, without_topics=("a", "b"), band_percent=5
        ),
    ),
}


class TestBodies:
    @pytest.mark.parametrize("verb", TYPED)
    async def test_each_order_has_the_fields_of_its_kind(self, house: House, verb: str) -> None:
        body, order = TYPED[verb]
        async with client(house) as asker:
            answer = await asker.post(f"{CLUSTER}/{verb}", json=body | {"comment": "x"})
        assert answer.status_code in (200, 404, 409), answer.text
        kind = next(each for each in VERBS if each.kind.value == verb)
        assert kind.body(**body).order(kind.kind, "") == order
        assert encode_body(order) == {
            name: tuple(each) if isinstance(each, list) else each for name, each in body.items()
        }

    def test_every_field_of_an_order_is_in_a_body(self) -> None:
        named = {name for verb in VERBS for name in verb.body.model_fields} - {"comment"}
        assert named == {*ServiceOrder._fields} - {"kind", "cluster"}

    @pytest.mark.parametrize(
        ("verb", "body", "told"),
        [
            ("intend", {"intent": "drain", "brokers": [True]}, "must be a number or null"),
            ("intend", {"intent": "drain", "broker": 3}, "Extra inputs are not permitted"),
            ("intend", {"intent": "explode", "brokers": [3]}, "Input should be 'drain', 'demote'"),
            ("pause", {"brokers": [3]}, "Extra inputs are not permitted"),
            ("intend", {"intent": "replication", "topics": ["t"], "replicas": 0}, "greater than or equal to 1"),
            ("intend", {"intent": "replace", "replacements": {"three": 7}}, "String should match pattern"),
        ],
    )
    async def test_what_does_not_fit_is_refused(self, house: House, verb: str, body: dict[str, Any], told: str) -> None:
        async with client(house) as asker:
            answer = await asker.post(f"{CLUSTER}/{verb}", json=body)
        assert (answer.status_code, answer.json()["type"]) == (400, "urn:shunter:invalid")
        assert told in answer.json()["detail"]
        assert house.yard.orders == []

    async def test_partitions_are_no_order_to_the_fleet(self, house: House) -> None:
        async with client(house) as asker:
            answer = await asker.post("/api/v1/fleet/pause", json={"partitions": ["orders-3"]})
        assert (answer.status_code, house.yard.orders) == (400, [])


class TestASketch:
    async def test_it_is_as_the_document_says_and_keeps_nothing(self, house: House) -> None:
        async with client(house, AccessRole.OPERATE) as asker:
            answer = await asker.post(f"{CLUSTER}/sketch", json={"scope": "rebalance"})
            refused = await asker.post(f"{CLUSTER}/sketch", json={"scope": "nonsense"})
        document = house.application.openapi()
        validate(document, "/api/v1/clusters/{name}/sketch", answer.json(), "post")
        assert (answer.json()["proposal"]["changes"], answer.json()["proposal"]["moves"]) == ([], 400)
        assert (refused.status_code, refused.json()["type"]) == (422, "urn:shunter:invalid")
        assert (len(house.yard.kept["prod-eu"]), house.yard.orders) == (1, [])

    async def test_it_needs_more_than_to_look(self, house: House) -> None:
        async with client(house, AccessRole.READ) as asker:
            assert (await asker.post(f"{CLUSTER}/sketch", json={"scope": "rebalance"})).status_code == 403

    async def test_the_command_line_asks_for_one_over_http(self, tmp_path: Path) -> None:
        secret = add_token(tmp_path / "tokens.json", "anna", AccessRole.OPERATE, None)
        (tmp_path / "secret").write_text(secret)
        options = WebOptions(port=0, tokens=tmp_path / "tokens.json")
        async with serving(Yard().front, options) as address:
            command = ["propose", "rebalance", "--dry-run", "--cluster", "prod-eu", "--service", address]
            told = await asyncio.to_thread(
                CliRunner().invoke, main, [*command, "--token-file", str(tmp_path / "secret"), "--json"]
            )
        (line,) = told.stdout.splitlines()
        assert (told.exit_code, json.loads(line)["moves"]) == (0, 400), told.output
        assert "changes" in json.loads(line)


class TestOrders:
    async def test_a_key_makes_an_order_one(self, house: House) -> None:
        async with client(house) as asker:
            body = {"proposal": "prod-eu-1", "comment": "go"}
            first = await asker.post(f"{CLUSTER}/approve", json=body, headers={"idempotency-key": "k1"})
            again = await asker.post(f"{CLUSTER}/approve", json=body, headers={"idempotency-key": "k1"})
            other = await asker.post(f"{CLUSTER}/approve", json={"proposal": "x"}, headers={"idempotency-key": "k1"})
            late = await asker.post(f"{CLUSTER}/approve", json=body, headers={"idempotency-key": "k2"})
        assert first.json() == again.json()
        assert [each[1].comment for each in house.yard.orders] == ["go"]
        assert (other.status_code, other.json()["type"]) == (422, "urn:shunter:key-reused")
        assert (late.status_code, late.json()["type"]) == (409, "urn:shunter:already-decided")

    async def test_the_kill_switch_is_for_the_fleet_too(self, house: House) -> None:
        async with client(house) as asker:
            assert (await asker.post("/api/v1/fleet/pause", json={"comment": "fire"})).status_code == 200
            fleet = (await asker.get("/api/v1/fleet")).json()
        assert (fleet["paused"]["who"], fleet["paused"]["comment"]) == ("administerr", "fire")

    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"nonsense",
            b"[]",
            b'{"bytes_per_s": -1}',
            b'{"bytes_per_s": true}',
            b'{"bytes_per_s": "5"}',
            b'{"bytes_per_s": 1e16}',
            b'{"bytes_per_s": 1.5}',
            b'{"surprise": 1}',
            b'{"comment": 1}',
            b"\xff",
        ],
    )
    async def test_a_body_that_is_none_is_refused(self, house: House, body: bytes) -> None:
        async with client(house, **{"content-type": "application/json"}) as asker:
            answer = await asker.post(f"{CLUSTER}/limit", content=body)
        assert answer.status_code == 400
        assert answer.headers["content-type"] == "application/problem+json"
        assert house.yard.orders == []

    async def test_a_number_is_a_number_however_it_is_written(self, house: House) -> None:
        async with client(house, **{"content-type": "application/json"}) as asker:
            answer = await asker.post(f"{CLUSTER}/limit", content=b'{"bytes_per_s": 5e6}')
        assert answer.status_code == 200
        assert house.yard.orders[-1][0].bytes_per_s == 5_000_000

    async def test_a_method_that_is_none_is_told_all_that_there_are(self, house: House) -> None:
        async with client(house) as asker:
            answer = await asker.put("/api/v1/session")
        assert (answer.status_code, answer.headers["allow"]) == (405, "DELETE, GET, POST")

    async def test_refusals_are_problems(self, house: House) -> None:
        async with client(house) as asker:
            answer = await asker.post("/api/v1/clusters/elsewhere/pause", json={})
        problem = answer.json()
        assert (answer.status_code, problem["type"], problem["status"]) == (404, "urn:shunter:not-found", 404)
        assert "prod-eu" in problem["detail"], "it says which clusters there are"
        assert problem["instance"] == "/api/v1/clusters/elsewhere/pause"

    async def test_an_error_of_ours_is_a_problem_and_tells_nothing(self, house: House) -> None:
        async def broken(*_args: object, **_more: object) -> None:
            raise RuntimeError("a password, perhaps")

        house.yard.proposals = broken  # type: ignore[assignment,method-assign]
        async with client(house) as asker:
            answer = await asker.get(f"{CLUSTER}/proposals")
        assert (answer.status_code, answer.json()["type"]) == (500, "urn:shunter:internal-error")
        assert "password" not in answer.text

    @pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
    async def test_other_methods_are_problems(self, house: House, method: str) -> None:
        async with client(house) as asker:
            answer = await asker.request(method, "/api/v1/fleet")
        assert (answer.status_code, answer.headers["content-type"]) == (405, "application/problem+json")
