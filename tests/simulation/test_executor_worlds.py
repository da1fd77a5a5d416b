"""The executor's worlds from seeds: safety with every event, and an end once faults are mended; within a time limit."""

import os
import subprocess
import sys
import time

import pytest
from click.testing import CliRunner
from executor_mutants import EXECUTOR_MUTANTS
from mutants import hunt

from lab.simulation.command import simulate
from lab.simulation.coverage import Coverage
from lab.simulation.kinds import EXECUTOR
from lab.simulation.runs import run_seed, shrink

SMOKE_SECONDS = 5
SMOKE_WORLDS = 100
LONG_MINUTES = float(os.environ.get("SHUNTER_SIMULATION_MINUTES", "120"))
QUICK = ("throttle_not_restored", "rollback_in_another_order", "journal_not_synced")
"""Mutants that the default run hunts, with a few seeds each."""


def run_worlds(first_seed, seconds, least, most=None):
    """Run worlds for `seconds`, but at least `least` and at most `most`; returns coverage and count."""
    began, seed, coverage = time.monotonic(), first_seed, Coverage()
    while seed - first_seed < least or time.monotonic() - began < seconds:
        if most is not None and seed - first_seed >= most:
            break
        outcome = run_seed(seed, kind=EXECUTOR)
        told = f"./simulate --world executor --seed {seed} --shrink: {outcome.violation}"
        assert outcome.violation is None, told
        coverage.add(outcome.coverage)
        seed += 1
    return coverage, seed - first_seed


def test_executor_worlds_keep_every_rule(record_property):
    coverage, worlds = run_worlds(1, SMOKE_SECONDS, least=5, most=SMOKE_WORLDS)
    gaps = ", ".join(coverage.gaps(EXECUTOR.expected)) or "nothing"
    record_property("simulated", f"{worlds} executor's worlds; never happened: {gaps}")
    assert coverage.counts["outcome", "done"] > 10
    assert coverage.counts["entry", "ExecutionClosed"] > 5


@pytest.mark.long
@pytest.mark.timeout(LONG_MINUTES * 60 + 600)
def test_executor_worlds_keep_every_rule_for_hours(record_property):
    coverage, worlds = run_worlds(1_000_000, LONG_MINUTES * 60, least=1)
    gaps = coverage.gaps(EXECUTOR.expected)
    record_property("simulated", f"{worlds} executor's worlds; never happened: {', '.join(gaps) or 'nothing'}")
    assert not [gap for gap in gaps if gap.startswith(("fault:", "operation:", "entry:"))]


@pytest.mark.parametrize(
    "seed",
    [
        3090,  # Another tool moved a replica to the log dir that a new plan named, and the move waited for ever.
        52001144,  # A replica that had been in its log dir was to come again, and nobody asked for that log dir.
        42000285,  # A size that nobody knew counted as 0, and the copy filled its log dir.
        48000136,  # A leader that was seen half copied counted as the partition's size.
        43000089,  # A replica that another tool copied elsewhere was not looked at again, and its move never ended.
        44000120,  # A look between a request and its arrival showed no copy, and a step began beyond the bound.
        49000059,  # A copy arrived before it was given up, so the request began one back, and a rule blamed the window.
        99002444,  # A topic made anew took a list late, which counted as a refusal: the list stayed.
        98202598,  # A new process did not know that a cancel had found nothing to cancel, and believed a late broker.
        98202900,  # A write waited for its thread and counted as old, so an old look at the lease was believed after it.
        98202865,  # News of a replica back in sync came between a request and its sending, and a rule used the news.
        91000494,  # The journal was damaged after it was read, and before the reading process got the result.
        97334777,  # A setting was asked for while the cluster was unreachable, and a rule ignored the client's timeout.
        97518585,  # A lost step was repeated although it dropped a replica that a new target has; its broker was down.
        97335422,  # A step to a former, smaller target was repeated while a replica that stays was out of sync.
        97313144,  # A pause cancelled a step that had ended unseen, and its dropped replicas were copied again.
        97310850,  # A process had followed the journal's topic before it was damaged, and a rule did not know that.
        97310380,  # A move waited for a disk with room for a deleted topic of the same name.
        97305787,  # A replica was moved out of its log dir while its move waited to end, and the move ended as done.
        97303545,  # A broker returned a deleted topic's list, and a rule did not know that the broker was late.
        98100250,  # A plan took for the originals replicas that a late broker showed from before the last move ended.
        97630422,  # Another tool's move went on for a minute, and a rule had forgotten that it was another tool's.
        97603810,  # A cancel led to replicas that an earlier target had reached unseen, and another tool was blamed.
        97581226,  # Two processes took a free lease at once. The loser was paused, and set a throttle later.
        97566264,  # Another tool set the same list as the executor before, and a rule wanted it kept.
        99310543,  # A lost step was repeated after the goal had grown, and a rule judged it by the new goal.
        271170076,  # A plan's sizes were taken for told when a running copy's were, so it was judged without them.
        1000884,  # Another tool's target had ended a copy, and a rule went on counting it.
        271270174,  # A move that seemed to end elsewhere had given its copies up, and was done without its log dirs.
        96000300,  # A list that a process with another clock had given back was remembered as another tool's.
    ],
)
def test_an_executor_seed_that_failed_once_fails_no_more(seed):
    assert run_seed(seed, kind=EXECUTOR).violation is None


def test_an_executor_world_without_faults_ends_every_move():
    outcome = run_seed(8, kind=EXECUTOR, faults=())
    assert outcome.violation is None
    assert outcome.acknowledged > 5


def test_one_seed_under_two_hash_seeds_is_one_executor_trace():
    program = (
        "from lab.simulation.kinds import EXECUTOR; from lab.simulation.runs import run_seed;"
        "print(run_seed(3, kind=EXECUTOR).digest)"
    )
    running = [
        subprocess.Popen(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            stdout=subprocess.PIPE,
            text=True,
        )
        for hash_seed in ("1", "2")
    ]
    digests = {process.communicate(timeout=120)[0] for process in running}
    assert digests == {run_seed(3, kind=EXECUTOR).digest + "\n"}


def test_executor_mutants_are_found(record_property):
    """Check that the rules find deliberate bugs. The long run hunts all mutants."""
    quick = [mutant for mutant in EXECUTOR_MUTANTS if mutant.name in QUICK]
    for mutant in quick:
        assert hunt(mutant) is not None, f"{mutant.name} was not found within {mutant.within} seeds"
    assert len(quick) == len(QUICK)
    record_property("simulated", f"{len(quick)} of {len(EXECUTOR_MUTANTS)} executor's mutants were hunted, and found")


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("mutant", EXECUTOR_MUTANTS, ids=lambda mutant: mutant.name)
def test_every_executor_mutant_is_found(mutant):
    assert hunt(mutant) is not None, f"{mutant.name} was not found within {mutant.within} seeds"


def test_a_failing_executor_world_shrinks_and_says_how_to_run_it_again():
    mutant = next(mutant for mutant in EXECUTOR_MUTANTS if mutant.name == "throttle_not_restored")
    with mutant.applied():
        failed = hunt(mutant)
        smaller = shrink(failed, kind=EXECUTOR, most_runs=20)
        told = CliRunner().invoke(simulate, ["--world", "executor", "--seed", str(failed.seed)])
    assert len(smaller.kinds) < len(failed.kinds)
    assert smaller.violation.rule == failed.violation.rule
    assert told.exit_code == 1
    assert f"./simulate --world executor --seed {failed.seed} " in told.output.splitlines()[-1]
