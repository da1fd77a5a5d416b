"""Balances leaders by reordering replicas, which moves no bytes.

Leader counts are a flow: a partition led by u with a follower on v is an edge u → v. To shift leaders along shortest
paths, from a broker above its band to a broker with room, is exact: when no path is left, no order of these replicas is
better.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable

import numpy as np

from shunter.core.planning.board import Board
from shunter.core.planning.cluster import ABSENT, Ints, Resource
from shunter.core.planning.facts import LEADS_FROM

_ROUNDS = 6
_TRIES = 400
_LEAST_GAIN = 1e-10
_FOLLOWING = (Resource.BYTES_OUT, Resource.PROCESSORS, Resource.LEADER_BYTES_IN)
"""Resources that go with the leader, at least in part."""


def balance_leaders(board: Board) -> None:
    """Bring leaders, and the rates that follow the leader, into their bands."""
    column = board.targets.aim(Resource.LEADERS)
    if column is not None:
        _LeaderCounts(board, column).balance()
        board.rebuild()
    if all(board.targets.aim(resource) is None for resource in _FOLLOWING):
        return
    for _ in range(_ROUNDS):
        before = board.total_violation()
        for resource in sorted((*_FOLLOWING, Resource.LEADERS)):
            at = board.targets.aim(resource)
            if at is not None:
                _shift(board, at, over=True)
                _shift(board, at, over=False)
        if board.total_violation() > before * 0.995:
            return


class _LeaderCounts:
    """Leader counts under change; plain lists, because they are changed one by one."""

    def __init__(self, board: Board, column: int) -> None:
        targets = board.targets
        scale = float(targets.scale[column])
        self.board = board
        self.rows: list[list[int]] = board.replicas.tolist()
        self.count: list[int] = np.rint(board.loads[:, column] * scale).astype(np.int64).tolist()
        self.least: list[int] = np.ceil(targets.low[:, column] * scale - 1e-9).astype(np.int64).tolist()
        most = np.minimum(targets.high[:, column] * scale, len(self.rows))
        self.most: list[int] = np.floor(most + 1e-9).astype(np.int64).tolist()
        self.members: list[bool] = targets.members.tolist()
        self.led: list[list[int]] = [[] for _ in self.count]
        for partition in np.flatnonzero(targets.movable).tolist():
            leader = self.rows[partition][0]
            if self.members[leader]:
                self.led[leader].append(partition)

    def balance(self) -> None:
        """Let brokers above the band give leaders away, let brokers below it take some, then shift along paths."""
        brokers = [broker for broker, member in enumerate(self.members) if member]
        for broker in sorted(brokers, key=lambda b: self.most[b] - self.count[b]):
            self._hand_down(broker)
        if any(self.count[b] < self.least[b] for b in brokers):
            self._take_up(brokers)
        for broker in brokers:
            while self.count[broker] > self.most[broker] and self._along_path(broker, giving=True):
                pass
        for broker in brokers:
            while self.count[broker] < self.least[broker] and self._along_path(broker, giving=False):
                pass
        self._level(brokers)

    def _level(self, brokers: list[int]) -> None:
        """If the band can't be reached, find the lowest ceiling that can be, and bring every broker below it."""
        asked = self.most
        below = max(asked[broker] for broker in brokers)
        above = max(self.count[broker] for broker in brokers)
        while above - below > 1:
            middle = (below + above) // 2
            self.most = [max(most, middle) for most in asked]
            for broker in brokers:
                while self.count[broker] > self.most[broker] and self._along_path(broker, giving=True):
                    pass
            if any(self.count[broker] > self.most[broker] for broker in brokers):
                below = middle
            else:
                above = middle
        self.most = asked

    def _room(self, broker: int) -> int:
        """How far above its lower bound a broker would be with one more leader; the best receiver has the lowest."""
        return self.count[broker] + 1 - self.least[broker]

    def _hand_down(self, broker: int) -> None:
        """Give a broker's leaders away until it is within the band, each to the follower that lacks most."""
        for partition in self.led[broker]:
            if self.count[broker] <= self.most[broker]:
                break
            self._to_neediest(partition, allowed=lambda to: self.count[to] < self.most[to])

    def _take_up(self, brokers: list[int]) -> None:
        """Let brokers give leaders down to their lower bound, to followers that are below theirs."""
        for broker in sorted(brokers, key=lambda b: self.least[b] - self.count[b]):
            for partition in list(self.led[broker]):
                if self.count[broker] <= self.least[broker]:
                    break
                if self.rows[partition][0] == broker:
                    self._to_neediest(partition, allowed=lambda to: self.count[to] < self.least[to])

    def _to_neediest(self, partition: int, *, allowed: Callable[[int], bool]) -> None:
        row = self.rows[partition]
        slots = [
            s
            for s in range(1, len(row))
            if row[s] != ABSENT and self.members[row[s]] and allowed(row[s]) and self.board.may_lead(partition, s)
        ]
        if slots:
            self._shift(partition, min(slots, key=lambda s: (self._room(row[s]), s)))

    def _shift(self, partition: int, slot: int) -> None:
        row = self.rows[partition]
        before, after = row[0], row[slot]
        self.board.lead_unweighed(partition, slot)
        row[0], row[slot] = after, before
        self.count[before] -= 1
        self.count[after] += 1
        self.led[after].append(partition)

    def _along_path(self, start: int, *, giving: bool) -> bool:
        """Shift leaders along a shortest path, away from `start` or towards it; False if there is no path.

        As many are shifted at once as the start, the end and each edge of the path allow. Partitions of different edges
        have different leaders, so to shift along one edge never uses up another.
        """
        edges = self._edges()
        towards = edges if giving else edges.T
        came: dict[int, int] = {start: start}
        queue = deque([start])
        while queue:
            here = queue.popleft()
            for there in np.flatnonzero(towards[here]).tolist():
                if there in came:
                    continue
                came[there] = here
                room = self.most[there] - self.count[there] if giving else self.count[there] - self.least[there]
                if room > 0:
                    self._follow(came, there, start, edges, room, giving=giving)
                    return True
                queue.append(there)
        return False

    def _edges(self) -> Ints:
        """(B, B) the number of partitions that the row's broker leads and the column's follows, and that may change."""
        board, brokers = self.board, len(self.count)
        members, leader = board.targets.members, board.replicas[:, 0].astype(np.int64)
        edges = np.zeros(brokers * brokers, dtype=np.int64)
        for slot in range(1, board.replicas.shape[1]):
            follower = board.replicas[:, slot]
            useful = (follower != ABSENT) & (board.fitness[:, slot] >= LEADS_FROM) & board.targets.movable
            rows = np.flatnonzero(useful & members[leader] & members[follower])
            edges += np.bincount(leader[rows] * brokers + follower[rows], minlength=len(edges))
        return edges.reshape(brokers, brokers)

    def _follow(self, came: dict[int, int], end: int, start: int, edges: Ints, room: int, *, giving: bool) -> None:
        path = [end]
        while path[-1] != start:
            path.append(came[path[-1]])
        steps = [(there, here) if not giving else (here, there) for there, here in itertools.pairwise(path)]
        asked = self.count[start] - self.most[start] if giving else self.least[start] - self.count[start]
        number = min(room, asked, *(int(edges[leader, follower]) for leader, follower in steps))
        chosen = [self._led_and_followed(leader, follower)[:number] for leader, follower in steps]
        for (_, follower), partitions in zip(steps, chosen, strict=True):
            for partition in partitions:
                self._shift(partition, self.rows[partition].index(follower))

    def _led_and_followed(self, leader: int, follower: int) -> list[int]:
        replicas, able = self.board.replicas, self.board.fitness[:, 1:] >= LEADS_FROM
        followed = ((replicas[:, 1:] == follower) & able).any(axis=1)
        both = (replicas[:, 0] == leader) & followed & self.board.targets.movable
        found: list[int] = np.flatnonzero(both).tolist()
        return found


def _shift(board: Board, column: int, *, over: bool) -> None:
    """Shift leaders one by one where that lowers the violation of all aims."""
    targets = board.targets
    load = board.loads[:, column]
    amount = load - targets.high[:, column] if over else targets.low[:, column] - load
    amount = np.where(targets.members, amount, 0.0)
    for broker in np.argsort(-amount, kind="stable").tolist():
        if amount[broker] <= _LEAST_GAIN:
            return
        held, slots = board.held_by(broker)
        wanted = held[(slots == 0) == over]
        weight = targets.leading[wanted, column]
        order = np.argsort(np.abs(weight - amount[broker]), kind="stable")
        failures = 0
        for partition in wanted[order].tolist():
            load_now = board.loads[broker, column]
            done = load_now <= targets.high[broker, column] if over else load_now >= targets.low[broker, column]
            if done or failures > _TRIES:
                break
            failures += 0 if _shift_one(board, partition, broker, column, over=over) else 1


def _shift_one(board: Board, partition: int, broker: int, column: int, *, over: bool) -> bool:
    targets = board.targets
    row: list[int] = board.replicas[partition].tolist()
    leader, weight = row[0], targets.leading[partition]
    slots = [
        s for s in range(1, len(row)) if row[s] != ABSENT and targets.members[row[s]] and board.may_lead(partition, s)
    ]
    if not over:
        slots = [s for s in slots if row[s] == broker]
    if not slots or not targets.members[leader]:
        return False
    lost = board.loss(leader, weight)
    found = [(board.loss(row[s], -weight) + lost, -s) for s in slots if _carries(board, row[s], partition)]
    if not found or max(found)[0] <= _LEAST_GAIN:
        return False
    board.lead(partition, -max(found)[1], targets.resources[column])
    return True


def _carries(board: Board, broker: int, partition: int) -> bool:
    after = board.loads[broker] + board.targets.leading[partition]
    return not bool((after > board.targets.hard[broker] + 1e-12).any())
