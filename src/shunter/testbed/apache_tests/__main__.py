"""`python -m shunter.testbed.apache_tests [CLASS…]`: run Apache's tests with both controllers, and write the page."""

from __future__ import annotations

import argparse
import re
import sys
import time
from pathlib import Path

from shunter.errors import DriverError
from shunter.testbed.__main__ import tell
from shunter.testbed.apache_tests.jars import class_path
from shunter.testbed.apache_tests.page import page, partly_run, reasons, store, stored, unexplained
from shunter.testbed.apache_tests.results import CaseOutcome, differences
from shunter.testbed.apache_tests.run import TIMEOUT_S, JudgedController, run_class
from shunter.testbed.artifacts import cache_folder

CLASSES = (
    "kafka.admin.AddPartitionsTest",
    "kafka.admin.ConfigCommandIntegrationTest",
    "kafka.admin.DeleteTopicTest",
    "kafka.admin.ListOffsetsIntegrationTest",
    "kafka.admin.RemoteTopicCrudTest",
    "kafka.admin.UserScramCredentialsCommandTest",
    "kafka.api.AdminClientWithPoliciesIntegrationTest",
    "kafka.api.ConsumerTopicCreationTest",
    "kafka.api.MetricsTest",
    "kafka.api.PlaintextAdminIntegrationTest",
    "kafka.api.PlaintextProducerSendTest",
    "kafka.api.ProducerSendWhileDeletionTest",
    "kafka.api.RackAwareAutoTopicCreationTest",
    "kafka.api.TransactionsBounceTest",
    "kafka.api.TransactionsExpirationTest",
    "kafka.api.TransactionsTest",
    "kafka.controller.ControllerFailoverTest",
    "kafka.controller.ControllerIntegrationTest",
    "kafka.coordinator.transaction.ProducerIdsIntegrationTest",
    "kafka.integration.MetricsDuringTopicCreationDeletionTest",
    "kafka.integration.MinIsrConfigTest",
    "kafka.integration.UncleanLeaderElectionTest",
    "kafka.metrics.MetricsTest",
    "kafka.server.AlterReplicaLogDirsRequestTest",
    "kafka.server.AlterUserScramCredentialsRequestTest",
    "kafka.server.ApiVersionsRequestTest",
    "kafka.server.BrokerEpochIntegrationTest",
    "kafka.server.ControllerIdMetricTest",
    "kafka.server.ControllerMutationQuotaTest",
    "kafka.server.CreateTopicsRequestTest",
    "kafka.server.CreateTopicsRequestWithPolicyTest",
    "kafka.server.DeleteRecordsRequestTest",
    "kafka.server.DeleteTopicsRequestTest",
    "kafka.server.DeleteTopicsRequestWithDeletionDisabledTest",
    "kafka.server.DescribeClusterRequestTest",
    "kafka.server.DescribeUserScramCredentialsRequestTest",
    "kafka.server.DynamicConfigChangeTest",
    "kafka.server.EdgeCaseRequestTest",
    "kafka.server.FetchFromFollowerIntegrationTest",
    "kafka.server.FetchRequestBetweenDifferentIbpTest",
    "kafka.server.LeaderElectionTest",
    "kafka.server.ListOffsetsRequestTest",
    "kafka.server.LogDirFailureTest",
    "kafka.server.LogOffsetTest",
    "kafka.server.LogRecoveryTest",
    "kafka.server.MetadataRequestBetweenDifferentIbpTest",
    "kafka.server.MetadataRequestTest",
    "kafka.server.MetadataVersionIntegrationTest",
    "kafka.server.OffsetsForLeaderEpochRequestTest",
    "kafka.server.ReplicationQuotasTest",
    "kafka.server.ServerShutdownTest",
    "kafka.server.ServerStartupTest",
    "kafka.server.StopReplicaRequestTest",
    "kafka.server.TopicIdWithOldInterBrokerProtocolTest",
    "kafka.server.UpdateFeaturesTest",
    "kafka.server.epoch.EpochDrivenReplicationProtocolAcceptanceTest",
    "kafka.server.epoch.EpochDrivenReplicationProtocolAcceptanceWithIbp26Test",
    "kafka.server.epoch.LeaderEpochIntegrationTest",
    "org.apache.kafka.tools.FeatureCommandTest",
    "org.apache.kafka.tools.LeaderElectionCommandTest",
    "org.apache.kafka.tools.TopicCommandIntegrationTest",
    "org.apache.kafka.tools.reassign.ReassignPartitionsCommandTest",
    "unit.kafka.server.AllocateProducerIdsRequestTest",
)
"""Those of the published classes that need a controller and run in ZooKeeper mode on plaintext listeners."""
MOVING = (
    "org.apache.kafka.tools.TopicCommandIntegrationTest",
    "org.apache.kafka.tools.reassign.ReassignPartitionsCommandTest",
)
"""Classes that move partitions: they run once more, all at once."""
PAGE = Path("docs") / "apache-tests.md"


def arguments() -> argparse.Namespace:
    """The command's arguments."""
    parser = argparse.ArgumentParser(
        prog="./test --apache",
        description="Run Apache's own integration tests with Apache's controller and with Shunter's, and compare.",
        epilog="Exit status: 0 every difference has its line of why; 1 one has not; 2 the tests could not be run.",
    )
    parser.add_argument(
        "classes", nargs="*", metavar="CLASS", help="test classes, or CLASS#METHOD[,METHOD…]; none: the standing list"
    )
    parser.add_argument("--again", action="store_true", help="run Apache's side too where its results are kept already")
    parser.add_argument(
        "--within", type=float, default=TIMEOUT_S, metavar="SECONDS", help="how long one class may take"
    )
    parser.add_argument("--page", action="store_true", help=f"write {PAGE} from all results that are kept")
    return parser.parse_args()


def main() -> int:
    """Run, compare, write; the exit status."""
    asked = arguments()
    kept = cache_folder() / "apache-tests-results"
    try:
        jars = class_path(tell)
        open_ones = 0
        for name in asked.classes or CLASSES:
            open_ones += _judge(name, jars, kept, again=asked.again, within_s=asked.within)
    except DriverError as error:
        tell(str(error))
        return 2
    if asked.page or not asked.classes:
        PAGE.write_text(page(stored(kept), CLASSES, partly_run(kept)))
        tell(f"{PAGE} is written")
    return 1 if open_ones else 0


def _judge(asked: str, jars: list[Path], kept: Path, *, again: bool, within_s: float) -> int:
    """Run one class, or some methods of it, with each controller; how many differences nobody has explained."""
    name, method, _ = asked.partition("#")
    known = stored(kept).get(name, {})
    partly = bool(method) and (not known or name in partly_run(kept))
    outcome = {judged: dict(results) for judged, results in known.items()} if method else {}
    for judged in JudgedController:
        if judged is JudgedController.AT_ONCE and name not in MOVING:
            continue
        if judged in known and judged is JudgedController.APACHE and not (again or partly):
            outcome[judged] = dict(known[judged])
            continue
        started = time.monotonic()
        folder = cache_folder() / "apache-tests-runs" / f"{re.split('[(,]', asked)[0]}-{judged.value}"
        found = run_class(asked, judged, jars, folder, within_s=within_s)
        outcome[judged] = {**outcome.get(judged, {}), **found}
        ended = [result.verdict for result in found.values()]
        passed, failed = ended.count(CaseOutcome.PASSED), ended.count(CaseOutcome.FAILED)
        tell(
            f"{asked} with {judged.value}: {passed} passed, {failed} failed, {time.monotonic() - started:.0f} s ({folder})"
        )
    store(kept, name, outcome, partly=partly)
    for judged in outcome.keys() - {JudgedController.APACHE}:
        explained = reasons(judged)
        for test, result in differences(outcome[JudgedController.APACHE], outcome[judged]).items():
            why = explained.get(test, "nobody has looked into this")
            sys.stdout.write(f"{test} ({judged.value}): {result.told}\n    {why}\n")
    return len(unexplained(outcome))


if __name__ == "__main__":
    sys.exit(main())
