"""Exit statuses of commands; docs/exit-statuses.md has the table, and a test compares both."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit statuses; 2 is click's own for wrong usage."""

    DONE = 0
    """Everything that was asked for is done."""
    PARTLY = 1
    """The command ended, but something was not done or is not healthy."""
    USAGE = 2
    """The command line, a setting or the properties file can't be used."""
    CLUSTER = 3
    """The cluster does not answer, or refuses access."""
    HELD = 4
    """Another executor drives the journal, or the cluster."""
    JOURNAL = 5
    """The journal, the plan or another file that was named can't be read or written."""
    TURNED = 6
    """The command ended, but moves were stopped, rolled back or left by another command."""
    REFUSED = 7
    """The plan, the command, or every row of an input was refused, and nothing was begun."""
    LEFT = 130
    """The command left before the end; moves under way go on in the cluster."""
