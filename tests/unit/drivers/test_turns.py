"""Tasks that are ready at the same time let other tasks run in between."""

import asyncio
import time
from itertools import pairwise

from shunter.drivers.listener.turns import TURN_SECONDS, Turns


def busy(seconds):
    ends = time.perf_counter() + seconds
    while time.perf_counter() < ends:
        pass


async def test_others_get_their_turn_between_many_ready_tasks():
    turns, done, seen = Turns(), [], []

    async def one(number):
        await turns.mine()
        busy(TURN_SECONDS / 4)
        done.append(number)

    async def other():
        while len(done) < 40:
            seen.append(len(done))
            await asyncio.sleep(0)

    watching = asyncio.create_task(other())
    await asyncio.gather(*(one(number) for number in range(40)))
    await watching
    assert sorted(done) == list(range(40))
    steps = [later - earlier for earlier, later in pairwise(seen)]
    assert max(steps) <= 6, steps


async def test_whoever_is_alone_does_not_wait():
    turns = Turns()
    await asyncio.wait_for(turns.mine(), 1)
    await asyncio.wait_for(turns.mine(), 1)
