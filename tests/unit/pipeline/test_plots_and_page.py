"""The report is one file that needs no other, and its plots show the given figures."""

import re
import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest

from shunter.pipeline.reports.plots import (
    BrokerBar,
    EstimateAndOutcome,
    FlowArrow,
    Lane,
    PlotSpan,
    amount,
    bars,
    duration,
    estimates,
    flows,
    timeline,
)
from shunter.pipeline.reports.report_page import Listing, ReportData, page


def marks(svg, kind):
    root = ET.fromstring(svg)
    return [element for element in root.iter() if element.get("class") == kind]


def test_bars_are_as_tall_as_their_loads():
    svg = bars([BrokerBar("1", 30.0, 20.0), BrokerBar("2", 10.0, 20.0)], unit="bytes", title="disk")
    before = [float(mark.get("height")) for mark in marks(svg, "before")]
    after = [float(mark.get("height")) for mark in marks(svg, "after")]
    assert before[0] == pytest.approx(3 * before[1], rel=0.01)
    assert after[0] == after[1] == pytest.approx(before[0] * 2 / 3, rel=0.01)
    assert [mark[0].text for mark in marks(svg, "before")] == ["broker 1 before: 30 B", "broker 2 before: 10 B"]


def test_flows_are_as_wide_as_their_bytes():
    svg = flows(
        [FlowArrow("broker 1", "broker 2", 300.0, 3), FlowArrow("broker 1", "broker 3", 100.0, 1)], title="flows"
    )
    widths = [float(mark.get("stroke-width")) for mark in marks(svg, "flow")]
    assert widths[0] == pytest.approx(3 * widths[1], rel=0.01)
    assert marks(svg, "flow")[0][0].text == "broker 1 to broker 2: 300 B in 3 copies"


def test_timeline_and_estimates():
    lanes = [
        Lane(
            "t-0",
            (
                PlotSpan(0.0, 10.0, "planned", "p"),
                PlotSpan(0.0, 5.0, "step", "s"),
                PlotSpan(5.0, 20.0, "stall", "paused"),
            ),
        )
    ]
    svg = timeline(lanes, title="time")
    wide = {kind: float(marks(svg, kind)[0].get("width")) for kind in ("planned", "step", "stall")}
    assert wide["stall"] == pytest.approx(3 * wide["step"], rel=0.01)
    assert wide["planned"] == pytest.approx(2 * wide["step"], rel=0.01)
    told = estimates(
        [EstimateAndOutcome("p1", 50.0, 80.0, 100.0, 120.0), EstimateAndOutcome("p2", 50.0, 80.0, 100.0, None)],
        title="eta",
    )
    assert [mark[0].text for mark in marks(told, "after")] == ["took 2 min"]
    assert len(marks(told, "planned")) == 2


def test_nothing_draws_nothing():
    assert bars([], unit="", title="") == flows([], title="") == timeline([], title="") == estimates([], title="") == ""


@pytest.mark.parametrize(
    ("value", "unit", "told"),
    [
        (0, "bytes", "0 B"),
        (1500, "bytes", "1.5 kB"),
        (5 * 10**12, "bytes/s", "5 TB/s"),
        (12345, "", "1.234e+04"),
        (7, "", "7"),
    ],
)
def test_amounts(value, unit, told):
    assert amount(value, unit) == told


def test_durations():
    assert [duration(seconds) for seconds in (1.5, 600, 7200, 200_000)] == ["1.5 s", "10 min", "2 h", "2.31 d"]


def test_the_page_stands_alone_and_escapes_what_it_shows():
    data = ReportData(
        title="Cluster <c1>",
        facts=(("moves", "3 & more"),),
        loads=(("disk", (BrokerBar("1", 1.0, 2.0),)),),
        flows=(FlowArrow("broker 1", "broker <2>", 1.0, 1),),
        flows_left_out=2,
        lanes=(Lane("t-0", (PlotSpan(0, 1, "step", "<b>"),)),),
        estimates=(EstimateAndOutcome("p", 1, 2, 3, 2.5),),
        listings=(Listing("Moves", ("partition",), (("<script>",),), 5), Listing("Empty", ("x",), ())),
    )
    text = page(data)
    assert "<script" not in text
    assert "Cluster &lt;c1&gt;" in text
    assert "2 smaller flows are not drawn" in text
    assert "Empty" not in text
    assert re.findall(r"""(?:src|href)\s*=|url\(|@import|https?://""", text) == []
    assert text.count("<svg") == 4


def test_waiting_is_a_thin_line_and_times_are_round():
    lane = Lane("t-0", (PlotSpan(0.0, 900.0, "wait", "waiting"), PlotSpan(900.0, 1_150.0, "step", "adds 3")))
    drawn = timeline([lane], title="moves")
    heights = dict(re.findall(r'class="(wait|step)"[^>]* height="([0-9.]+)"', drawn))
    assert float(heights["wait"]) < float(heights["step"])
    assert re.findall(r">([0-9.]+ (?:s|min))<", drawn) == ["0 s", "5 min", "10 min", "15 min"]


def test_thin_flows_keep_room_for_their_names():
    sources = [FlowArrow("broker 1", f"broker {number}", 1.0 if number > 2 else 1e9, 1) for number in range(2, 9)]
    places = [float(y) for y in re.findall(r'<text x="790.0" y="([0-9.]+)"', flows(sources, title="flows"))]
    assert len(places) == 7
    assert min(below - above for above, below in pairwise(places)) >= 13


def test_columns_of_numbers_have_their_names_above_them():
    listing = Listing("L", ("what", "size", "nothing"), (("a", "1.5 GiB", ""), ("b", "20 MiB", "")))
    drawn = page(ReportData("t", (), listings=(listing,)))
    assert '<th>what</th><th class="number">size</th><th>nothing</th>' in drawn
