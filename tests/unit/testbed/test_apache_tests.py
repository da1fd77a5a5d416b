"""The comparison with Apache's own tests: its reading of JUnit's reports, and the page that it writes."""

from pathlib import Path

import pytest

from lab.testbed.apache_tests import page as pages
from lab.testbed.apache_tests.__main__ import CLASSES, PAGE
from lab.testbed.apache_tests.jars import AGENT, apache_test_jars
from lab.testbed.apache_tests.page import former, page, partly_run, reasons, store, stored
from lab.testbed.apache_tests.results import (
    CaseOutcome,
    Result,
    differences,
    failed_methods,
    read_feed,
    read_reports,
)
from lab.testbed.apache_tests.run import JudgedController, selection
from lab.testbed.artifacts import pinned_checksums
from lab.testbed.ivy import module_descriptor

ROOT = Path(__file__).parents[3]
REPORT = """<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="JUnit Jupiter" tests="3">
<testcase name="testCreate(String)[1]" classname="kafka.server.CreateTopicsRequestTest" time="2.5">
<system-out><![CDATA[
unique-id: [engine:junit-jupiter]/[class:kafka.server.CreateTopicsRequestTest]
display-name: [1] quorum=zk
]]></system-out>
</testcase>
<testcase name="testCreate(String)[2]" classname="kafka.server.CreateTopicsRequestTest" time="0.0">
<skipped><![CDATA[org.opentest4j.TestAbortedException: KRaft]]></skipped>
<system-out><![CDATA[display-name: [2] quorum=kraft
]]></system-out>
</testcase>
<testcase name="testErrors(String)[1]" classname="kafka.server.CreateTopicsRequestTest" time="1.0">
<failure message="expected: &lt;40&gt; but was: &lt;0&gt;" type="AssertionFailedError"><![CDATA[trace]]></failure>
<system-out><![CDATA[display-name: [1] quorum=zk
]]></system-out>
</testcase>
<testcase name="testErrors(String)[2]" classname="kafka.server.CreateTopicsRequestTest" time="0.0">
<error message="NullPointerException" type="NullPointerException"><![CDATA[at tearDown]]></error>
<system-out><![CDATA[display-name: [2] quorum=kraft
]]></system-out>
</testcase>
</testsuite>
"""
PASSED, LEFT_OUT = Result(CaseOutcome.PASSED), Result(CaseOutcome.LEFT_OUT)


def failed(told):
    return Result(CaseOutcome.FAILED, told)


def test_reports_are_read_by_test_and_variant(tmp_path):
    (tmp_path / "TEST-junit-jupiter.xml").write_text(REPORT)
    assert read_reports(tmp_path) == {
        "CreateTopicsRequestTest.testCreate [1] quorum=zk": PASSED,
        "CreateTopicsRequestTest.testCreate [2] quorum=kraft": LEFT_OUT,
        "CreateTopicsRequestTest.testErrors [1] quorum=zk": failed("expected: <40> but was: <0>"),
        "CreateTopicsRequestTest.testErrors [2] quorum=kraft": LEFT_OUT,
    }


def test_a_variant_that_is_left_out_does_not_stand_for_one_that_ran(tmp_path):
    """In classes with `@ClusterTest` the variant begins with the method's name; each variant is a test of its own."""
    cases = "".join(
        f'<testcase name="testList()[{number}]" classname="kafka.T" time="1">{inside}<system-out><![CDATA[\n'
        f"display-name: testList [{number}] Type={kind}\n]]></system-out></testcase>"
        for number, kind, inside in ((1, "ZK", '<failure message="no"/>'), (2, "KRaft", "<skipped/>"))
    )
    (tmp_path / "TEST-junit-jupiter.xml").write_text(f"<testsuite>{cases}</testsuite>")
    assert read_reports(tmp_path) == {"T.testList [1] Type=ZK": failed("no"), "T.testList [2] Type=KRaft": LEFT_OUT}


def test_of_a_class_that_was_ended_counts_what_it_told_before(tmp_path):
    """JUnit writes its report at the very end; the lines that it prints before have the same names."""
    (tmp_path / "console.txt").write_text("""JUnit Jupiter > T > testA(String) > [1] quorum=zk :: STARTED
JUnit Jupiter > T > testA(String) > [1] quorum=zk :: SUCCESSFUL
JUnit Jupiter > T > testA(String) > [2] quorum=kraft :: ABORTED
	Reason: org.opentest4j.TestAbortedException: KRaft
JUnit Jupiter > T > testB() > testB [1] Type=ZK, Security=PLAINTEXT :: FAILED
	org.opentest4j.AssertionFailedError: it waited ==> expected: <true> but was: <false>
JUnit Jupiter > T > testB() :: FINISHED
JUnit Jupiter > T > testC() :: STARTED
""")
    told = "it waited ==> expected: <true> but was: <false>"
    assert read_feed(tmp_path / "console.txt") == {
        "T.testA [1] quorum=zk": PASSED._replace(method="testA(java.lang.String)"),
        "T.testA [2] quorum=kraft": LEFT_OUT._replace(method="testA(java.lang.String)"),
        "T.testB [1] Type=ZK, Security=PLAINTEXT": failed(told)._replace(method="testB"),
    }


def test_a_run_without_a_report_is_an_error_that_names_the_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match=str(tmp_path)):
        read_reports(tmp_path)


def test_only_what_passes_with_apache_can_differ():
    apache = {"a": PASSED, "b": PASSED, "c": failed("flaky"), "d": LEFT_OUT, "e": PASSED}
    shunter = {"a": PASSED, "b": failed("no"), "c": failed("no"), "d": LEFT_OUT}
    assert differences(apache, shunter) == {"b": failed("no"), "e": failed("it did not run")}


def test_the_page_has_a_line_of_why_for_each_difference(tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "reasons", lambda _: {"T.b": "Shunter says more."})
    outcome = {
        JudgedController.APACHE: {"T.a": PASSED, "T.b": PASSED},
        JudgedController.SHUNTER: {"T.a": failed("x|y"), "T.b": failed("z")},
    }
    store(tmp_path, "kafka.T", outcome)
    written = page(stored(tmp_path), ("kafka.T", "kafka.U"))
    assert written.endswith("nobody has run them:\n\n- `kafka.U`\n")
    assert "- `kafka.T`: 0 passed, 2 failed, 2 differ; Apache's: 2 passed\n" in written
    assert "- `kafka.T`: `b`: Shunter says more.\n" in written
    assert "- `kafka.T`: `a`: not looked into (open): x|y\n" in written


def test_tests_that_differ_for_one_reason_share_a_line(monkeypatch):
    monkeypatch.setattr(pages, "reasons", lambda _: {"T.b [1] quorum=zk": "Because.", "T.a": "Because."})
    outcome = {JudgedController.SHUNTER: {"T.b [1] quorum=zk": failed("z"), "T.a": failed("y")}}
    assert "- `kafka.T`: `a`, `b`: Because.\n" in page({"kafka.T": outcome})


def test_lines_of_classes_that_ran_on_another_machine_stay(monkeypatch):
    monkeypatch.setattr(pages, "reasons", lambda _: {"Old.b": "Because.", "New.a": "Now."})
    passed, no = {"Old.a": PASSED, "Old.b": PASSED}, {"Old.a": PASSED, "Old.b": failed("no")}
    old = {"kafka.Old": {JudgedController.APACHE: passed, JudgedController.SHUNTER: no}}
    new = {"kafka.New": {JudgedController.APACHE: {"New.a": PASSED}, JudgedController.SHUNTER: {"New.a": failed("!")}}}
    before = page(old, ("kafka.Old", "kafka.New"))
    assert "`kafka.New`" in before, "it was not run"
    assert page(new, ("kafka.Old", "kafka.New"), before=former(before)) == page({**old, **new})
    mended = {"kafka.Old": {JudgedController.APACHE: passed, JudgedController.SHUNTER: passed}}
    assert page(mended, before=former(before)) == page(mended)


def test_what_explains_moves_by_steps_explains_nothing_all_at_once():
    variant = "[1] Type=ZK, MetadataVersion=4.0-IV1,Security=PLAINTEXT"
    by_steps = f"ReassignPartitionsCommandTest.testCancellationWithAddingReplicaInIsr {variant}"
    outcome = {
        JudgedController.APACHE: {by_steps: PASSED},
        JudgedController.SHUNTER: {by_steps: failed("no")},
        JudgedController.AT_ONCE: {by_steps: failed("no")},
    }
    assert pages.unexplained(outcome) == {f"{by_steps} (shunter-all-at-once)": failed("no")}
    assert "not looked into" in page({"kafka.T": outcome})
    assert "not looked into" not in page({"kafka.T": {**outcome, JudgedController.AT_ONCE: {by_steps: PASSED}}})


def test_results_of_one_controller_alone_are_no_comparison(tmp_path):
    store(tmp_path, "kafka.T", {JudgedController.APACHE: {"T.a": PASSED}})
    assert stored(tmp_path) == {}


def test_a_class_of_which_some_tests_ran_is_told_as_such(tmp_path):
    outcome = {JudgedController.APACHE: {"T.a": PASSED}, JudgedController.SHUNTER: {"T.a": PASSED}}
    store(tmp_path, "kafka.T", outcome)
    store(tmp_path, "kafka.U", outcome, partly=True)
    assert partly_run(tmp_path) == {"kafka.U"}
    written = page(stored(tmp_path), (), partly_run(tmp_path))
    assert "- `kafka.T`: 1 passed; Apache's: 1 passed\n" in written
    assert "- `kafka.U` (some of its tests): 1 passed; Apache's: 1 passed\n" in written


def test_methods_are_selected_one_by_one():
    assert selection("kafka.T") == ["--select-class=kafka.T"]
    assert selection("kafka.T#a,b(java.lang.String)") == [
        "--select-method=kafka.T#a",
        "--select-method=kafka.T#b(java.lang.String)",
    ]
    assert selection("kafka.T#a(java.lang.String, int),b") == [
        "--select-method=kafka.T#a(java.lang.String, int)",
        "--select-method=kafka.T#b",
    ]


def test_what_failed_can_be_run_again_by_its_method(tmp_path):
    """Methods with and without arguments, and variants of one method, as JUnit writes them."""
    inside = "unique-id: [engine:junit-jupiter]/[class:kafka.T]/"
    cases = "".join(
        f'<testcase name="n" classname="kafka.T" time="1">{ended}<system-out><![CDATA[\n{inside}{id_}\n'
        f"display-name: [{number}]\n]]></system-out></testcase>"
        for number, (ended, id_) in enumerate(
            (
                ('<failure message="no"/>', "[test-template:a(java.lang.String)]/[test-template-invocation:#1]"),
                ('<failure message="no"/>', "[test-template:a(java.lang.String)]/[test-template-invocation:#2]"),
                ('<error message="no"/>', "[method:b()]"),
                ("", "[method:c()]"),
                ("<skipped/>", "[method:d()]"),
            )
        )
    )
    (tmp_path / "TEST-junit-jupiter.xml").write_text(f"<testsuite>{cases}</testsuite>")
    assert failed_methods([read_reports(tmp_path)]) == ["a(java.lang.String)", "b"]
    assert failed_methods([{"T.c": PASSED}]) == []
    assert failed_methods([{"kafka.T": failed("the class did not end within 10 s")}]) is None


def test_where_only_we_were_tried_each_failure_has_a_line(tmp_path):
    store(tmp_path, "kafka.T", {JudgedController.SHUNTER: {"T.a": PASSED, "T.b": failed("no"), "T.c": LEFT_OUT}})
    written = page(stored(tmp_path))
    assert "- `kafka.T`: 1 passed, 1 failed, 1 differ\n" in written
    assert "- `kafka.T`: `b`: not looked into (open): no\n" in written
    assert pages.unexplained(stored(tmp_path)["kafka.T"]) == {}, "nothing was found with Apache's controller to compare"


def test_the_page_is_what_is_written_from_its_own_lines():
    """`./test --apache` writes it. This fails if it was changed by hand."""
    document = (ROOT / PAGE).read_text()
    assert page({}, CLASSES, before=former(document)) == document


def test_every_jar_that_is_asked_for_is_pinned():
    pinned = pinned_checksums("3.9.1", kind="apache-tests")
    for module in apache_test_jars().modules:
        suffix = f"-{module.classifier}" if module.classifier else ""
        assert f"{module.name}-{module.revision}{suffix}.jar" in pinned


def test_a_jar_with_a_classifier_is_asked_for_alone():
    descriptor = module_descriptor(apache_test_jars().modules[:1], ())
    assert 'transitive="false"' in descriptor
    assert 'classifier="test"' in descriptor


def test_each_reason_is_a_sentence():
    assert all(why.endswith((".", "(open)")) for judged in JudgedController for why in reasons(judged).values())


def test_the_agent_is_shipped_as_source():
    assert sorted(path.name for path in AGENT.iterdir()) == ["Controllers.java", "ShunterAgent.java"]
