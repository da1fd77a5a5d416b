"""The cost of a look for the service after the cluster was read.

    python lab/benchmarks/keeper_look.py [--brokers 200 --partitions 100000]

The cluster has skewed sizes and places, and a tenth of its brokers are new and empty (planning_inputs.py). Each
broker has two log dirs of which one has more replicas, or one log dir (`--log-dirs 1`). Printed are wall and
processor time of

- `think`, as the planning process runs it: judging, planning, a trial of the plan on paper, and the page; at the
first look,
  and at a later one that reviews the proposal of the first;
- packing the question, which the service itself does, and unpacking it; passing the answer back.
"""

from __future__ import annotations

import argparse
import cProfile
import pickle
import pstats
import random
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from planning_inputs import planning_input

from shunter.app.evaluation.observation import sighting_of
from shunter.app.service.thinking import LookQuestion, Thought, packed, think, unpacked
from shunter.core.keeper.sighting import Sighting
from shunter.model.check_up import CheckedJournal, CheckedTopic, CheckUp
from shunter.model.execution import ObservedPartition
from shunter.model.inventory import BrokerDisks, Disk, DiskReplica, Inventory, InventoryBroker, InventoryPartition
from shunter.model.keeper import DEFAULTS, KeeperPolicy

TIB = 2**40
A_TOPIC = 20
Done = TypeVar("Done")


def sighting(brokers: int, partitions: int, seed: int, log_dirs: int) -> Sighting:
    """Draw a cluster as a look sees it. With one log dir per broker there are no log dirs to balance."""
    drawn = random.Random(seed)
    shape = (brokers, 5, partitions // A_TOPIC, A_TOPIC, 3, brokers // 10)
    made = planning_input(shape, seed)
    held: dict[int, list[DiskReplica]] = {int(broker): [] for broker in made["brokers"]}
    found: list[InventoryPartition] = []
    for row in made["partitions"]:
        replicas, size = tuple(row["replicas"]), row["size"] * 1024
        sizes = tuple(sorted((broker, size) for broker in replicas))
        name, number = row["topic"], row["partition"]
        found.append(InventoryPartition(name, None, number, replicas, replicas, replicas[0], 0, 1, 2, sizes))
        for broker in replicas:
            held[broker].append(DiskReplica(name, number, f"/data/{int(drawn.random() < 0.7)}", size))
    shelves = tuple(Disk(f"/data/{at}", 8 * TIB, 6 * TIB) for at in range(2))
    live = tuple(
        InventoryBroker(broker, f"host{broker}", made["brokers"][str(broker)], 16 * TIB, 12 * TIB) for broker in held
    )
    disks = tuple(BrokerDisks(broker, shelves, tuple(replicas)) for broker, replicas in held.items())
    disks = disks if log_dirs > 1 else ()
    taken = Inventory("bench", 1_800_000_000_000, live, tuple(found), (), disks)
    topics: dict[str, dict[int, ObservedPartition]] = {}
    for each in found:
        topics.setdefault(each.topic, {})[each.partition] = ObservedPartition(each.replicas, each.isr, each.leader)
    checked = tuple(CheckedTopic(name, 2, held_there) for name, held_there in topics.items())
    return sighting_of(taken, CheckUp("bench", 1, "Apache (KRaft)", (), checked), CheckedJournal("j"), ())


def timed(what: str, work: Callable[[], Done]) -> Done:
    """Do the work, and print its time."""
    wall, processor = time.perf_counter(), time.process_time()
    done = work()
    print(f"{what:<28} {time.perf_counter() - wall:6.2f} s  {time.process_time() - processor:6.2f} s of processor time")
    return done


def passed_on(value: Any) -> Any:
    """A copy of the value, as it arrives in another process."""
    return pickle.loads(pickle.dumps(value))


def main() -> None:
    """Draw a cluster, measure each part of a look, print."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--brokers", type=int, default=200)
    options.add_argument("--partitions", type=int, default=100_000)
    options.add_argument("--seed", type=int, default=7)
    options.add_argument(
        "--log-dirs", type=int, choices=(1, 2), default=2, help="Of each broker; 1: plans move replicas."
    )
    options.add_argument("--profile", action="store_true", help="Say where the time of the first look goes.")
    asked = options.parse_args()
    policy = KeeperPolicy({each: replace(watch, minutes=0) for each, watch in DEFAULTS.items()})
    seen = sighting(asked.brokers, asked.partitions, asked.seed, asked.log_dirs)
    question = LookQuestion("bench", seen, policy, policy, None, (), {})
    goes = timed("the question is packed", lambda: packed(question))
    pieces = (goes.rest, *goes.partitions, *goes.disks)
    print(f"  {len(pieces):,} pieces, {sum(map(len, pieces)) / 1e6:.0f} MB")
    timed("the question is unpacked", lambda: unpacked(goes))
    with cProfile.Profile() as profile:
        if not asked.profile:
            profile.disable()
        thought: Thought = timed("think, first look", lambda: think(question))
        profile.disable()
    for each in thought.page.prospects:
        waits = each.held_back[0] if each.held_back else "ready"
        print(f"  {each.scope}: {each.moves:,} replicas, {each.bytes / 1e12:.2f} TB; {waits}")
    timed("the answer comes back", lambda: passed_on(thought))
    later = replace(seen, inventory=seen.inventory._replace(taken_at_ms=seen.at_ms + 60_000))
    again = replace(question, sighting=later, memory=thought.memory, kept=thought.changed)
    timed("think, with that proposal", lambda: think(again))
    if asked.profile:
        pstats.Stats(profile).sort_stats("cumulative").print_stats(40)


if __name__ == "__main__":
    main()
