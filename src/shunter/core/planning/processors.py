"""The cost of a byte in a broker's processor time, fitted from brokers' own counters of received, led and sent bytes.

A broker's processors are busy for work / power. Work = idling + received x R + led x L + sent x S, with the same costs
for all brokers of a cluster; power is 1 for an average broker. The costs are found by least squares and are never below
0, so that a leader never costs less than a follower of the same partition. (Cruise Control's linear regression allows
costs below 0.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from shunter.core.planning.cluster import Floats

FEATURES = 4
"""1, and megabytes per second: received (as leader or follower), led (from producers), sent (to consumers and followers)."""
MB = 1e6
_ROUNDS = 200
_SETTLED = 1e-9
_POWERS = 0.1, 10.0
"""The least and the greatest power of a broker; 1 is the average."""
_CLEARLY_BETTER = 0.8
"""Fitted powers count if they bring the error over the held-back windows below this part of the error without them."""
_RIDGE = 1e-9
LEAST_CAPACITY = 0.01
"""The least capacity that a broker's processors are given, in average brokers."""


class BrokerWindows(NamedTuple):
    """The windows of one broker as sums of products of (1, received, led, sent, busy): all that least squares needs."""

    broker: int
    fitted: Floats
    """(5, 5) over the earlier windows."""
    held_back: Floats
    """(5, 5) over the later windows."""
    processors: float | None = None
    """How many processors the broker has; None: unknown."""


class ProcessorFit(NamedTuple):
    """Work in average brokers' processors, for one second; the costs are for one megabyte per second."""

    idling: float
    received: float
    led: float
    sent: float
    powers: tuple[float, ...]
    """The power of each broker, in the order in which the brokers were given."""
    fitted_powers: bool
    """Whether powers were fitted from the counters. Else they are the numbers of processors, or all alike."""
    error: float
    """The root mean square error over the held-back windows, as a share of a broker's processors."""
    mean: float
    """The mean share of processors that was busy in the held-back windows."""

    @property
    def relative_error(self) -> float:
        """The error as a share of the mean."""
        return self.error / self.mean if self.mean > 0 else float("inf")

    def share(self, at: int, received: float, led: float, sent: float) -> float:
        """How busy a broker (by place) is with these megabytes per second."""
        return (self.idling + self.received * received + self.led * led + self.sent * sent) / self.powers[at]


def capacity_left(power: float, idling: float) -> float:
    """The capacity that a broker's processors have left beside idling, in average brokers."""
    return max(power - idling, LEAST_CAPACITY)


def fit_processors(brokers: Sequence[BrokerWindows]) -> ProcessorFit | None:
    """Fit costs and powers to brokers' windows; None if there are too few windows.

    Two fits are tested on the later windows: one with powers that are known beforehand (the numbers of processors if
    every broker's is known, else all alike), and one with powers that are fitted from the counters. The second fit
    counts only if it is clearly better, because it can explain anything if brokers never change their load.
    """
    fitted = np.array([one.fitted for one in brokers])
    held_back = np.array([one.held_back for one in brokers])
    if not len(brokers) or fitted[:, 0, 0].sum() < 2 * FEATURES or held_back[:, 0, 0].sum() < 1:
        return None
    known = _known_powers(brokers)
    plain = _fitted(fitted, held_back, known, fitted_powers=False)
    if len(brokers) < 2 or not (fitted[:, 0, 0] >= 2 * FEATURES).all():
        return plain
    free = _fitted(fitted, held_back, _free_powers(fitted, known), fitted_powers=True)
    return free if free.error < _CLEARLY_BETTER * plain.error else plain


def _known_powers(brokers: Sequence[BrokerWindows]) -> Floats:
    told = np.array([one.processors or np.nan for one in brokers], dtype=np.float64)
    return np.ones(len(told)) if np.isnan(told).any() else told / told.mean()


def _fitted(fitted: Floats, held_back: Floats, powers: Floats, *, fitted_powers: bool) -> ProcessorFit:
    costs = _costs(fitted, powers)
    windows, missed = held_back[:, 0, 0].sum(), 0.0
    for products, power in zip(held_back, powers, strict=True):
        miss = np.append(costs / power, -1.0)
        missed += float(miss @ products @ miss)
    idling, received, led, sent = costs.tolist()
    return ProcessorFit(
        idling, received, led, sent, tuple(powers.tolist()), fitted_powers,
        error=float(np.sqrt(max(missed, 0.0) / windows)), mean=float(held_back[:, 0, 4].sum() / windows),
    )  # fmt: skip


def _costs(fitted: Floats, powers: Floats) -> Floats:
    """(4,) least squares with no cost below 0, from the normal equations."""
    normal = np.einsum("bij,b->ij", fitted[:, :FEATURES, :FEATURES], powers**-2.0)
    right = np.einsum("bi,b->i", fitted[:, :FEATURES, FEATURES], powers**-1.0)
    # Scale the columns to one size. The ridge makes two columns that always change together share their cost.
    from scipy.optimize import nnls  # noqa: PLC0415  # a second to import, and few callers need it

    size = np.sqrt(np.maximum(np.diag(normal), 1e-300))
    normal = normal / np.outer(size, size) + _RIDGE * np.eye(FEATURES)
    lower = np.linalg.cholesky(normal)
    found, _ = nnls(lower.T, np.linalg.solve(lower, right / size))
    return np.asarray(found / size)


def _free_powers(fitted: Floats, known: Floats) -> Floats:
    """Fit costs and powers in turns, each the best for the other; the mean power stays 1."""
    powers = known
    for _ in range(_ROUNDS):
        costs = _costs(fitted, powers)
        work = np.einsum("i,bij,j->b", costs, fitted[:, :FEATURES, :FEATURES], costs)
        busy = fitted[:, :FEATURES, FEATURES] @ costs
        found = np.clip(np.where(busy > 0, work / np.maximum(busy, 1e-300), powers), *_POWERS)
        found /= found.mean()
        settled = bool(np.abs(found - powers).max() < _SETTLED)
        powers = found
        if settled:
            break
    return powers
