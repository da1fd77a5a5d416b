"""A first policy file for a cluster: three lines that only observe, and what to write next, from what the cluster is."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from shunter.app.evaluation.observation import take_sighting
from shunter.app.executor.session import Target
from shunter.core.keeper.judgement import judge
from shunter.core.keeper.sighting import Sighting
from shunter.core.wording import counted, told_bytes, told_time
from shunter.model.keeper import KeeperPolicy

MOST_TOLD = 5


def first_policy(name: str, target: Target, folder: Path) -> str:
    """Look at a cluster once, and write a policy for it. Blocks, and changes nothing.

    Args:
        name: The cluster's name in the file.
        target: Where the cluster is.
        folder: The folder of the file, to which its paths are relative.

    Raises:
        DriverError, FormatError, SettingsError: as `take_sighting`.
    """
    seen = take_sighting(target)
    properties = target.properties
    if properties is not None and properties.resolve().is_relative_to(folder.resolve()):
        properties = properties.resolve().relative_to(folder.resolve())
    access = [] if properties is None else [f'command-config = "{properties}"']
    lines = [
        'mode = "observe"',
        f"[cluster.{name}]",
        f'bootstrap-server = "{target.bootstrap}"',
        *access,
        "",
        *(f"# {each}" for each in _seen(seen)),
        "#",
        *(f"# {each}" if each else "#" for each in _next(name, seen)),
    ]
    return "\n".join(lines) + "\n"


def _seen(seen: Sighting) -> list[str]:
    taken = seen.inventory
    racks = {broker.rack for broker in taken.brokers} - {None}
    size = sum(bytes_ for each in taken.partitions for _broker, bytes_ in each.sizes)
    factors = Counter(len(each.replicas) for each in taken.partitions)
    told = ", ".join(f"{counted(many, 'partition')} with {factor}" for factor, many in sorted(factors.items()))
    head = f"{told_time(taken.taken_at_ms)}: {counted(len(taken.brokers), 'broker')}"
    head += f" in {counted(len(racks), 'rack')}" if racks else ", no racks"
    lines = [f"{head}, {told_bytes(size)}, replicas: {told or 'none'}."]
    holding = [each.sign for each in judge(seen, KeeperPolicy()).holding]
    lines += [f"It would tell: {each.subject.condition.value}: {each.text}" for each in holding[:MOST_TOLD]]
    if len(holding) > MOST_TOLD:
        lines.append(f"and {len(holding) - MOST_TOLD} more: `shunter serve FILE --once` shows all.")
    if not holding:
        lines.append("No condition holds.")
    return lines


def _next(name: str, seen: Sighting) -> list[str]:
    """What to write next, as lines that are not in force yet."""
    unsaid = [each.id for each in seen.inventory.brokers if each.disk_total_bytes is None]
    disks = ", ".join(f'{broker} = "1T"' for broker in unsaid)
    sizes = [f"disk-capacity = {{ {disks} }}  # these brokers do not say it themselves", ""] if unsaid else []
    return [
        'Once you agree with what it tells, write mode = "keep": then it proposes plans, and carries out those that',
        "people approve. Bounds come first:",
        "",
        f"[cluster.{name}.limits]",
        "moves = 200                    # replicas that one plan copies at the most",
        'windows = ["22:00-06:00"]      # or "Mon-Fri 22:00-06:00 Europe/Berlin"',
        "cool-off-minutes = 120         # after a person stopped something",
        "",
        *([f"[cluster.{name}.balance]", *sizes] if sizes else []),
        f"[cluster.{name}.execution]",
        'throttle = "50M"               # bytes per second of one broker',
        "",
        "[[notify]]",
        'kind = "slack"',
        'url = "https://hooks.slack.com/services/…"',
    ]
