"""`python -m lab.testbed.apache_tests [CLASS…]`: run Apache's tests with both controllers, and write the page."""

from __future__ import annotations

import argparse
import re
import sys
import time
from pathlib import Path

from lab.testbed.__main__ import tell
from lab.testbed.apache_tests.jars import class_path
from lab.testbed.apache_tests.page import (
    NOTHING,
    former,
    page,
    partly_run,
    reasons,
    store,
    stored,
    unexplained,
)
from lab.testbed.apache_tests.results import CaseOutcome, Result, differences, failed_methods
from lab.testbed.apache_tests.run import TIMEOUT_S, JudgedController, run_class
from shunter.drivers.host.cache import cache_folder
from shunter.errors import DriverError

CLASSES = (
    "kafka.admin.AddPartitionsTest",
    "kafka.admin.AdminZkClientTest",
    "kafka.admin.ConfigCommandIntegrationTest",
    "kafka.admin.DeleteTopicTest",
    "kafka.admin.ListOffsetsIntegrationTest",
    "kafka.admin.RemoteTopicCrudTest",
    "kafka.admin.UserScramCredentialsCommandTest",
    "kafka.api.AdminClientWithPoliciesIntegrationTest",
    "kafka.api.ConsumerBounceTest",
    "kafka.api.ConsumerTopicCreationTest",
    "kafka.api.GroupCoordinatorIntegrationTest",
    "kafka.api.PlaintextAdminIntegrationTest",
    "kafka.api.PlaintextProducerSendTest",
    "kafka.api.ProducerFailureHandlingTest",
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
    "kafka.server.AdvertiseBrokerTest",
    "kafka.server.AlterReplicaLogDirsRequestTest",
    "kafka.server.AlterUserScramCredentialsRequestTest",
    "kafka.server.ApiVersionsRequestTest",
    "kafka.server.ApiVersionsResponseIntegrationTest",
    "kafka.server.BrokerEpochIntegrationTest",
    "kafka.server.ClientQuotasRequestTest",
    "kafka.server.ControllerIdMetricTest",
    "kafka.server.ControllerMutationQuotaTest",
    "kafka.server.CreateTopicsRequestTest",
    "kafka.server.CreateTopicsRequestWithPolicyTest",
    "kafka.server.DeleteRecordsRequestTest",
    "kafka.server.DeleteTopicsRequestTest",
    "kafka.server.DeleteTopicsRequestWithDeletionDisabledTest",
    "kafka.server.DescribeClusterRequestTest",
    "kafka.server.DescribeLogDirsRequestTest",
    "kafka.server.DescribeUserScramCredentialsRequestTest",
    "kafka.server.DynamicConfigChangeTest",
    "kafka.server.DynamicConfigTest",
    "kafka.server.EdgeCaseRequestTest",
    "kafka.server.FetchFromFollowerIntegrationTest",
    "kafka.server.FetchRequestBetweenDifferentIbpTest",
    "kafka.server.FinalizedFeatureChangeListenerTest",
    "kafka.server.KafkaServerTest",
    "kafka.server.LeaderElectionTest",
    "kafka.server.ListOffsetsRequestTest",
    "kafka.server.LogDirFailureTest",
    "kafka.server.LogOffsetTest",
    "kafka.server.LogRecoveryTest",
    "kafka.server.MetadataRequestBetweenDifferentIbpTest",
    "kafka.server.MetadataRequestTest",
    "kafka.server.OffsetsForLeaderEpochRequestTest",
    "kafka.server.ReplicaFetchTest",
    "kafka.server.ReplicationQuotasTest",
    "kafka.server.RequestQuotaTest",
    "kafka.server.ServerGenerateBrokerIdTest",
    "kafka.server.ServerShutdownTest",
    "kafka.server.ServerStartupTest",
    "kafka.server.StopReplicaRequestTest",
    "kafka.server.TopicIdWithOldInterBrokerProtocolTest",
    "kafka.server.UpdateFeaturesTest",
    "kafka.server.epoch.EpochDrivenReplicationProtocolAcceptanceTest",
    "kafka.server.epoch.EpochDrivenReplicationProtocolAcceptanceWithIbp26Test",
    "kafka.server.epoch.LeaderEpochIntegrationTest",
    "org.apache.kafka.tiered.storage.integration.DeleteTopicTest",
    "org.apache.kafka.tiered.storage.integration.PartitionsExpandTest",
    "org.apache.kafka.tiered.storage.integration.ReassignReplicaExpandTest",
    "org.apache.kafka.tiered.storage.integration.ReassignReplicaMoveTest",
    "org.apache.kafka.tiered.storage.integration.ReassignReplicaShrinkTest",
    "org.apache.kafka.tools.FeatureCommandTest",
    "org.apache.kafka.tools.LeaderElectionCommandTest",
    "org.apache.kafka.tools.LogDirsCommandTest",
    "org.apache.kafka.tools.TopicCommandIntegrationTest",
    "org.apache.kafka.tools.reassign.ReassignPartitionsCommandTest",
)
"""The published classes that need a controller and run in ZooKeeper mode on plaintext listeners."""
MOVING = (
    "org.apache.kafka.tiered.storage.integration.ReassignReplicaExpandTest",
    "org.apache.kafka.tiered.storage.integration.ReassignReplicaMoveTest",
    "org.apache.kafka.tiered.storage.integration.ReassignReplicaShrinkTest",
    "org.apache.kafka.tools.TopicCommandIntegrationTest",
    "org.apache.kafka.tools.reassign.ReassignPartitionsCommandTest",
)
"""Classes that move partitions. They run once more with the strategy all at once."""
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
        "--ours-first", action="store_true", help="run with Apache's controller only what failed with Shunter's"
    )
    parser.add_argument(
        "--within", type=float, default=TIMEOUT_S, metavar="SECONDS", help="how long one class may take"
    )
    parser.add_argument(
        "--page",
        action="store_true",
        help=f"write {PAGE} from all results that are kept here; other classes' lines stay",
    )
    return parser.parse_args()


def main() -> int:
    """Run, compare, write; the exit status."""
    asked = arguments()
    kept = cache_folder() / "apache-tests-results"
    try:
        jars = class_path(tell)
        open_ones = 0
        for name in asked.classes or CLASSES:
            run = _Runs(name, jars, asked.within)
            open_ones += _judge(run, kept, again=asked.again, ours_first=asked.ours_first)
    except DriverError as error:
        tell(str(error))
        return 2
    if asked.page or not asked.classes:
        outcomes, partly = stored(kept), partly_run(kept)
        before = former(PAGE.read_text()) if PAGE.is_file() else NOTHING
        PAGE.write_text(page(outcomes, CLASSES, partly, before))
        tell(f"{PAGE} is written")
    return 1 if open_ones else 0


class _Runs:
    """Runs of one class, or of some methods of it, with each controller."""

    def __init__(self, asked: str, jars: list[Path], within_s: float) -> None:
        self.asked = asked
        self.name, _, self.methods = asked.partition("#")
        self.whole = True
        self._jars = jars
        self._within_s = within_s

    def with_controller(self, judged: JudgedController, only: list[str] | None = None) -> dict[str, Result]:
        """Run the class or methods asked for, or only the methods `only` of the class; print how it ended."""
        asked = self.asked if only is None else f"{self.name}#{','.join(only)}"
        started = time.monotonic()
        folder = cache_folder() / "apache-tests-runs" / f"{re.split('[(,]', asked)[0]}-{judged.value}"
        found, whole = run_class(asked, judged, self._jars, folder, within_s=self._within_s)
        self.whole = self.whole and whole
        ended = [result.verdict for result in found.values()]
        passed, failed = ended.count(CaseOutcome.PASSED), ended.count(CaseOutcome.FAILED)
        took = f"{time.monotonic() - started:.0f} s{'' if whole else ', ended before its last test'} ({folder})"
        tell(f"{asked} with {judged.value}: {passed} passed, {failed} failed, {took}")
        return found


def _judge(run: _Runs, kept: Path, *, again: bool, ours_first: bool) -> int:
    """Run one class, or some methods of it, with each controller; returns the number of unexplained differences."""
    known = stored(kept).get(run.name, {})
    partly = bool(run.methods) and (not known or run.name in partly_run(kept))
    outcome = {judged: dict(results) for judged, results in known.items()} if run.methods else {}
    ours = [JudgedController.SHUNTER, *([JudgedController.AT_ONCE] if run.name in MOVING else [])]
    found: dict[JudgedController, dict[str, Result]] = {}
    for judged in [*ours, JudgedController.APACHE] if ours_first else [JudgedController.APACHE, *ours]:
        apache = judged is JudgedController.APACHE
        only = failed_methods(found.values()) if apache and ours_first else None
        if apache and judged in known and not (again or partly):
            outcome[judged] = dict(known[judged])
        elif only != []:
            found[judged] = run.with_controller(judged, only)
            outcome[judged] = {**outcome.get(judged, {}), **found[judged]}
    store(kept, run.name, outcome, partly=partly or not run.whole)
    apaches = outcome.get(JudgedController.APACHE, {})
    for judged in outcome.keys() - {JudgedController.APACHE}:
        explained = reasons(judged)
        for test, result in differences(apaches, outcome[judged]).items():
            why = explained.get(test, "nobody has looked into this")
            sys.stdout.write(f"{test} ({judged.value}): {result.told}\n    {why}\n")
    return len(unexplained(outcome))


if __name__ == "__main__":
    sys.exit(main())
