"""Range queries in spans, against a small server that keeps to Prometheus' documented API: its limit, errors and tokens."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

import pytest
from click.testing import CliRunner

from shunter.app.pipeline.prometheus_collection import PrometheusSpan, collect_prometheus
from shunter.cli.pipeline.group import pipeline
from shunter.drivers.service.prometheus_api import MOST_POINTS, PrometheusServer
from shunter.errors import DriverError, FormatError, SettingsError

T0 = 1_738_368_000


class Answering(BaseHTTPRequestHandler):
    """One series whose value is its time. More than 11,000 points, or a wrong token, is refused as Prometheus does."""

    token = None

    def do_POST(self):
        asked = {
            name: value
            for name, (value,) in parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode()).items()
        }
        start, end, step = (int(asked[name]) for name in ("start", "end", "step"))
        if self.path != "/prom/api/v1/query_range":
            self.tell(404, None)
        elif self.token is not None and self.headers["Authorization"] not in self.token:
            self.tell(401, None)
        elif (end - start) / step > MOST_POINTS:
            self.tell(400, {"status": "error", "errorType": "bad_data", "error": "exceeded maximum resolution of 11,000 points per timeseries."})  # fmt: skip
        elif (self.headers["X-Scope-OrgID"] or "team-a|team-b") != "team-a|team-b":
            self.tell(400, {"status": "error", "error": "no such tenant"})
        elif asked["query"] == "up{":
            self.tell(400, {"status": "error", "errorType": "bad_data", "error": 'invalid parameter "query"'})
        elif asked["query"] == "down":
            self.tell(502, None, b"<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n</html>\r\n")
        else:
            values = [[at, str(at)] for at in range(start, end + 1, step)]
            result = [{"metric": {"__name__": "kafka_log_log_size", "topic": "t"}, "values": values}]
            warned = {"warnings": ["one store did not answer"]} if asked["query"] == "partial" else {}
            self.tell(200, {"status": "success", "data": {"resultType": "matrix", "result": result}, **warned})

    def tell(self, status, document, page=b""):
        self.send_response(status)
        self.end_headers()
        self.wfile.write(page if document is None else json.dumps(document).encode())

    def log_message(self, *_):
        pass


@pytest.fixture
def serve():
    servers = []

    def start(token=None):
        server = ThreadingHTTPServer(("127.0.0.1", 0), type("Own", (Answering,), {"token": token}))
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}/prom"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def points(path):
    (series,) = json.loads(path.read_bytes())["data"]["result"]
    return [at for at, _ in series["values"]]


def test_spans_meet_in_one_point_and_the_next_run_goes_on(serve, tmp_path):
    server = PrometheusServer(serve() + "/")
    first = list(collect_prometheus(server, tmp_path, PrometheusSpan(T0 + 3_601, T0 - 7, 60, 1_500)))
    assert [(one.start - T0, one.end - T0, one.series) for one in first] == [
        (-60, 1_440, 1),
        (1_440, 2_940, 1),
        (2_940, 3_600, 1),
    ]
    assert points(first[0].path)[-1] == points(first[1].path)[0]
    assert list(collect_prometheus(server, tmp_path, PrometheusSpan(T0 + 3_630, step=60))) == [], "not a step later"
    (later,) = collect_prometheus(server, tmp_path, PrometheusSpan(T0 + 7_200, step=60))
    assert points(later.path) == list(range(T0 + 3_600, T0 + 7_201, 60))
    assert sorted(path.name[0] for path in tmp_path.iterdir()) == ["p"] * 4, "whole files alone"


@pytest.mark.parametrize(
    "odd", ["prometheus-{}-{} (1).json", "prometheus-nodes-{}-99{}.json", "prometheus-{}-²{}.json"]
)
def test_a_file_with_an_odd_name_does_not_count_among_the_answers(serve, tmp_path, odd):
    server = PrometheusServer(serve())
    list(collect_prometheus(server, tmp_path, PrometheusSpan(T0 + 60, T0)))
    (tmp_path / odd.format(T0, T0 + 60)).write_text("{}")
    (later,) = collect_prometheus(server, tmp_path, PrometheusSpan(T0 + 120))
    assert (later.start, later.end) == (T0 + 60, T0 + 120)


def test_no_query_asks_for_more_than_prometheus_gives(serve, tmp_path):
    far = PrometheusSpan(T0 + 30_000, T0, 1, 10**9)
    assert [one.end - one.start for one in collect_prometheus(PrometheusServer(serve()), tmp_path, far)] == [
        10_999,
        10_999,
        8_002,
    ]


def test_a_token_from_a_file(serve, tmp_path):
    url, token = serve(("Bearer s3cret", "Basic MTIzNDU6czNjcmV0")), tmp_path / "token"
    with pytest.raises(DriverError, match="answers 401: nothing; it asks for a token: give --token-file"):
        list(collect_prometheus(PrometheusServer(url), tmp_path, PrometheusSpan(T0 + 60, T0)))
    token.write_text("s3cret\n")
    assert (
        len(list(collect_prometheus(PrometheusServer(url, token), tmp_path / "out", PrometheusSpan(T0 + 60, T0)))) == 1
    )
    as_user = PrometheusServer(url, token, user="12345", tenant="team-a|team-b")
    assert len(list(collect_prometheus(as_user, tmp_path / "basic", PrometheusSpan(T0 + 60, T0)))) == 1
    with pytest.raises(DriverError, match="no such tenant"):
        list(collect_prometheus(PrometheusServer(url, token, tenant="c"), tmp_path / "c", PrometheusSpan(T0 + 60, T0)))
    with pytest.raises(FormatError, match="can't be read as a token"):
        list(collect_prometheus(PrometheusServer(url, tmp_path / "none"), tmp_path, PrometheusSpan(T0 + 60, T0)))


@pytest.mark.parametrize(
    ("asked", "suffix", "error", "words"),
    [
        (PrometheusSpan(T0 + 60, T0, query="up{"), "", DriverError, 'answers 400: invalid parameter "query"'),
        (
            PrometheusSpan(T0 + 60, T0),
            "/else",
            DriverError,
            "nothing is at /api/v1/query_range there: does the URL lack a prefix",
        ),
        (
            PrometheusSpan(T0 + 60, T0, query="down"),
            "",
            DriverError,
            "answers 502: <html> <head><title>502 Bad Gateway</title></head> </html>",
        ),
        (PrometheusSpan(T0, T0), "", SettingsError, "--since is not before --until"),
        (PrometheusSpan(T0 + 60), "", SettingsError, "has no earlier answer to continue from: give --since"),
        (PrometheusSpan(T0 + 60, T0, 60, 30), "", SettingsError, "a span of 30 s is shorter than a step of 60 s"),
    ],
)
def test_what_goes_wrong_is_said(serve, tmp_path, asked, suffix, error, words):
    with pytest.raises(error) as told:
        list(collect_prometheus(PrometheusServer(serve() + suffix), tmp_path, asked))
    assert words in str(told.value)


def test_the_command_tells_of_each_file(serve, tmp_path):
    asked = [
        "collect-prometheus",
        serve(),
        "--since",
        "2025-02-01",
        "--until",
        "2025-02-01T01:00:00",
        "--out",
        str(tmp_path),
    ]
    ended = CliRunner().invoke(pipeline, [*asked, "--query", "partial"])
    assert ended.exit_code == 0, ended.output
    assert (
        f"prometheus-{T0}-{T0 + 3_600}.json: 1 series from 2025-02-01 00:00 UTC to 2025-02-01 01:00 UTC" in ended.output
    )
    assert "the server warns: one store did not answer" in ended.output
    ended = CliRunner().invoke(
        pipeline, ["collect-prometheus", "ftp://x", "--since", "2025-02-01", "--out", str(tmp_path)]
    )
    assert (ended.exit_code, "is no http or https URL" in ended.output) == (1, True)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--cluster-label", "cluster"], "--cluster-label cluster: say by which value too, as in cluster=prod-eu"),
        (["--cluster-label", "=x"], "neither part may be empty"),
        (["--cluster-label", "cluster=x", "--query", "up"], "put it into yours"),
        (["--user", "12345"], "name that with --token-file"),
    ],
)
def test_options_that_do_not_fit_are_said(options, words):
    ended = CliRunner().invoke(pipeline, ["collect-prometheus", "http://127.0.0.1:1", *options])
    assert (ended.exit_code, words in ended.output) == (2, True), ended.output
