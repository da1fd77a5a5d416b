"""What the exit status of an execution's commands, and of the pipeline's, means; documented in docs/executor.md and docs/pipeline.md."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit statuses; 2 is click's own for wrong usage."""

    DONE = 0
    """Everything that was asked for is done."""
    PARTLY = 1
    """The execution ended, and some moves were refused, superseded, or their topics are gone."""
    USAGE = 2
    CLUSTER = 3
    """The cluster does not answer, or does not let us."""
    HELD = 4
    """Another executor drives the journal."""
    JOURNAL = 5
    """The journal or the plan can't be read."""
    TURNED = 6
    """It ended, stopped or rolled back at somebody's word."""
    REFUSED = 7
    """The plan, the command, or every row of an input was refused; nothing was begun."""
    LEFT = 130
    """Left running under the journal."""
