"""A controller with a deliberate bug: every decision that it makes by itself about the topic `poison` raises.

Usage: python poisoned_controller.py ARGUMENTS OF shunter…
"""

from shunter.__main__ import run
from shunter.core.controller.brokers import elections


def poisoned(decide):
    def deciding(draft, *arguments):
        if any(getattr(argument, "topic", "") == "poison" for argument in arguments):
            raise KeyError("a deliberate bug")
        return decide(draft, *arguments)

    return deciding


if __name__ == "__main__":
    elections.elect_offline = poisoned(elections.elect_offline)
    elections.elect_first = poisoned(elections.elect_first)
    run()
