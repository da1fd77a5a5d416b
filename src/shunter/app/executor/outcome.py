"""The exit status and the sentences at the end of a session."""

from __future__ import annotations

from shunter.app.executor.driving import Ended
from shunter.app.exit_codes import ExitCode
from shunter.core.executor.events import Fatal
from shunter.core.wording import counted

_TURNED = ("stopped", "rolled_back", "left")
_FATAL = {
    Fatal.CLUSTER: ExitCode.CLUSTER,
    Fatal.TAKEN: ExitCode.HELD,
    Fatal.CLAIMED: ExitCode.HELD,
    Fatal.FORSAKEN: ExitCode.HELD,
    Fatal.JOURNAL: ExitCode.JOURNAL,
    Fatal.UNWRITTEN: ExitCode.JOURNAL,
}
_KEPT = {
    Fatal.CLUSTER: "the journal keeps where it stood",
    Fatal.TAKEN: "the other executor looks after the moves under way; `shunter status` shows them",
    Fatal.CLAIMED: "if that executor has another journal, it leaves the moves under way alone: steps go on in the "
    "cluster, and throttles stay. `shunter resume` goes on when it has ended",
    Fatal.FORSAKEN: "nobody looks after the moves under way: steps go on in the cluster, and throttles stay until "
    "`shunter resume` goes on",
    Fatal.UNWRITTEN: "steps under way go on in the cluster, and throttles stay; `shunter resume` goes on when the journal "
    "can be written again",
    Fatal.JOURNAL: "steps under way go on in the cluster, and throttles stay. Repair the journal; if it is damaged, "
    "move it away and leave the .copy in place: `shunter resume` goes on from the copy",
}
_BAD = ("superseded", "foreign", "gone", "refused")


def exit_code(ended: Ended) -> ExitCode:
    """The exit status of a session that was driven to its end, or left."""
    if _refused(ended):
        return ExitCode.REFUSED
    if ended.finish is None and not ended.rest:
        return ExitCode.LEFT if ended.view.running else ExitCode.DONE
    if ended.finish is not None and ended.finish.fatal is not None:
        return _FATAL[ended.finish.kind]
    refused = ended.plan is not None and any(move.refused is not None for move in ended.plan.moves)
    partly = ended.command is not None and ended.command.partly
    back = {str(tp) for tp in ended.back}
    states = {row.state for row in ended.view.moves if row.state != "rolled_back" or row.partition not in back}
    if refused or partly or not states.isdisjoint(_BAD):
        return ExitCode.PARTLY
    if not states.isdisjoint(_TURNED):
        named = {str(tp) for tp in ended.named}
        others = {row.state for row in ended.view.moves if named and row.partition not in named}
        wanted = ended.command is not None and ended.command.accepted and others.isdisjoint(_TURNED)
        return ExitCode.DONE if wanted else ExitCode.TURNED
    return ExitCode.DONE


def _refused(ended: Ended) -> bool:
    """Whether the session's plan or command was refused as a whole."""
    plan = ended.plan is not None and ended.plan.error is not None
    return plan or (ended.command is not None and not ended.command.accepted)


def told_end(ended: Ended) -> list[str]:
    """The sentences at the end."""
    lines: list[str] = []
    if ended.plan is not None:
        if ended.plan.error is not None:
            lines.append(ended.plan.error)
        lines += [f"{move.tp} was not taken on: {move.refused}" for move in ended.plan.moves if move.refused]
    if ended.command is not None and not ended.command.accepted:
        lines.append(ended.command.text)
    if ended.finish is None and not ended.view.running:
        return [*lines, "left; nothing was under way"]
    if ended.finish is None and not ended.rest:
        lines.append("left running under the journal: `shunter resume` goes on, `shunter rollback` restores")
        return lines + _throttles_until_then(ended)
    if ended.finish is not None and ended.finish.fatal is not None:
        return [*lines, f"gave up: {ended.finish.fatal}; {_KEPT[ended.finish.kind]}"]
    if ended.plan is not None and ended.plan.error is not None:
        return lines
    if ended.view.owed:
        lines.append(f"throttles are still owed to {ended.view.owed}: see `shunter status`")
    if ended.rest:
        lines.append(f"{ended.rest} under the journal: `shunter resume` goes on")
        lines += _throttles_until_then(ended)
    if not ended.view.moves:
        return lines or ["nothing is under way"]
    for row in ended.view.moves:
        if row.state in _BAD:
            lines.append(f"{row.partition} {row.state}: {row.waits}")
    counts = ", ".join(f"{count} {state.replace('_', ' ')}" for state, count in sorted(ended.view.counts.items()))
    return [*lines, counts]


def _throttles_until_then(ended: Ended) -> list[str]:
    left = ended.view.throttles_left
    return [f"{counted(left, 'throttle setting stays', 'throttle settings stay')} until then"] if left else []
