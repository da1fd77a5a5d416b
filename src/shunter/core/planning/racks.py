"""The spread of a partition's replicas over racks: as even as the brokers of the racks allow."""

from __future__ import annotations

import numpy as np

from shunter.core.planning.cluster import ABSENT, Flags, Floats, Indexes, distinct

_MASKS_KEPT = 20_000


class RackRules:
    """The even spread over racks, for any replication factor, also one above the number of racks.

    With n_r usable brokers in rack r, the ceiling is the smallest c with sum(min(c, n_r)) ≥ replicas: no rack holds
    more than c, and each holds at least min(n_r, c - 1). With fewer replicas than racks that is "one each at most".
    """

    def __init__(self, rack_of: Indexes, usable: Flags, racks: int) -> None:
        self.rack_of = rack_of
        self.usable = usable
        self.sizes = np.bincount(rack_of[usable], minlength=racks)
        self._racks: list[int] = rack_of.tolist()
        self._ceilings: dict[int, int] = {}
        self._masks: dict[tuple[int, ...], Floats] = {}
        self._shut = np.where(usable, 0.0, -np.inf)

    def ceiling(self, replicas: int) -> int:
        """The most replicas of one partition that a rack holds in an even spread."""
        if replicas not in self._ceilings:
            usable = max(1, int(self.sizes.max(initial=0)))
            fits = (c for c in range(1, usable + 1) if int(np.minimum(self.sizes, c).sum()) >= replicas)
            self._ceilings[replicas] = next(fits, usable)
        return self._ceilings[replicas]

    def uneven(self, replicas: Indexes) -> Flags:
        """(P,) whether a partition's replicas could be spread more evenly than they are."""
        partitions, width = replicas.shape
        present = replicas != ABSENT
        factor = present.sum(axis=1)
        held = np.zeros((partitions, len(self.sizes)), dtype=np.int16)
        for slot in range(width):
            rows = np.flatnonzero(present[:, slot])
            held[rows, self.rack_of[replicas[rows, slot]]] += 1
        bad = np.zeros(partitions, dtype=np.bool_)
        for replication in distinct(factor).tolist():
            ceiling = self.ceiling(replication)
            rows = np.flatnonzero(factor == replication)
            floor = np.minimum(self.sizes, ceiling - 1)
            # Dead brokers count in `held` and not in `sizes`: a rack can hold more than the ceiling where no other has room.
            has_room = (held[rows] < np.minimum(self.sizes, ceiling)).any(axis=1)
            too_many = (held[rows] > ceiling).any(axis=1) & has_room
            too_few = (held[rows] < floor).any(axis=1) & (held[rows] > floor).any(axis=1)
            bad[rows] = too_many | too_few
        return bad

    def openings(self, others: list[int], replicas: int, current: int) -> Floats:
        """The brokers where one replica may be, given the partition's other replicas.

        Args:
            others: Broker indexes of the other replicas.
            replicas: The replication factor.
            current: The rack that the replica is in now, -1 for a new one; it is kept open if no rack is allowed.

        Returns:
            (B,) 0 where it may be, -inf where it may not. The array is shared and must not be changed. Brokers that
            hold another replica are shut by their rack only with a ceiling of 1; otherwise the caller has to shut them.
        """
        ceiling = self.ceiling(replicas)
        racks = self._racks
        if ceiling == 1:
            blocked = tuple(sorted({racks[broker] for broker in others}))
            return self._mask(blocked, current)
        held = [0] * len(self.sizes)
        for broker in others:
            held[racks[broker]] += 1
        floor = np.minimum(self.sizes, ceiling - 1).tolist()
        wanting = [rack for rack in range(len(held)) if held[rack] < floor[rack]]
        if wanting:
            blocked = tuple(rack for rack in range(len(held)) if held[rack] >= floor[rack])
        else:
            blocked = tuple(rack for rack in range(len(held)) if held[rack] >= ceiling)
        return self._mask(blocked, current)

    def _mask(self, blocked: tuple[int, ...], current: int) -> Floats:
        mask = self._masks.get(blocked)
        if mask is None:
            mask = self._shut.copy()
            mask[np.isin(self.rack_of, blocked)] = -np.inf
            if len(self._masks) >= _MASKS_KEPT:
                self._masks.clear()
            self._masks[blocked] = mask
        if current in blocked and not np.isfinite(mask).any():
            return np.where(self.rack_of == current, self._shut, -np.inf)
        return mask
