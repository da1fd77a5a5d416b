"""Handlers in a few simulated worlds with clients, so that a bug in a changed handler shows here."""

import pytest

from lab.simulation.runs import run_seed


@pytest.mark.parametrize("seed", [1, 15])
def test_handlers_serve_the_clients_of_a_simulated_world(seed):
    outcome = run_seed(seed)
    assert outcome.violation is None
    assert outcome.coverage.counts["operation", "odd_creation"] + outcome.coverage.counts["operation", "odd_growth"]
