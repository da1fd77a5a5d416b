"""Reassignments by znode: KIP-236's cancel, extra and request znodes, and the legacy znode that they stand beside.

One rule says what a cancel ends and what it holds back: a znode that was created before `/admin/reassign_cancel` is
cancelled; a znode that is created while `/admin/reassign_cancel` exists waits until that is removed.

Source: KIP-236; docs/decisions/0110-znode-protocols.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from shunter.core.controller.brokers.elections import min_isr
from shunter.core.controller.draft import Draft
from shunter.core.controller.events import BatchRefused, ReassignmentChange, ReplyToken
from shunter.core.controller.moves.adoption import Adoption
from shunter.core.controller.moves.reassignments import Moves
from shunter.core.controller.ready import Reply
from shunter.core.controller.review import Reason, Reviews
from shunter.core.controller.state import ControllerState
from shunter.core.controller.tasks import Priority, Task, TaskQueue
from shunter.core.reassignment import original_replicas, same_route, validate_top
from shunter.core.wording import counted
from shunter.errors import ErrorCode
from shunter.model.notice import Notice
from shunter.model.partition import Replicas, TopicPartition
from shunter.model.reassignment import Intervention, unfinished
from shunter.model.records import (
    CreateReassignmentRequest,
    DeleteReassignmentRequest,
    PutExtraReassignments,
    PutLegacyReassignments,
    Record,
)
from shunter.model.settings import ControllerSettings
from shunter.model.snapshot import LegacyReassignments, ReassignmentRequest

LEGACY = "/admin/reassign_partitions"
EXTRA = "/admin/reassign_partitions_extra"
CANCEL = "/admin/reassign_cancel"

LEGACY_WEIGHT_AT_MOST = 600_000
"""Bytes of the legacy znode, roughly, beyond which extra entries wait until others have left it. The znode has to fit
into a ZooKeeper request together with the batch's other records."""

Item = tuple[TopicPartition, Replicas]


@dataclass(slots=True)
class ZnodeProtocols:
    """Takes over requests that tools and people write into znodes. One instance per term."""

    state: ControllerState
    settings: ControllerSettings
    queue: TaskQueue
    moves: Moves
    adoption: Adoption
    reviews: Reviews
    taking: set[str] = field(default_factory=set[str])
    """Request znodes whose partitions are being taken."""
    done: set[str] = field(default_factory=set[str])
    """Request znodes that were deleted; a read from before the deletion may still name them."""
    weight: tuple[Draft, int] | None = None
    bridged: int | None = None
    """czxid of the legacy znode that was made into a request."""

    # ---- start-up

    def start_up(self) -> list[Notice]:
        """After the moves' records, take over znodes from the time without a controller: requests, then the rest.

        Source: KIP-236, "On controller failover".
        """
        if self.state.cancel is not None:
            return self._begin_cancel(Priority.NORMAL)
        if self.state.legacy is not None:
            self.bridged = self.state.legacy.czxid
            if not self.state.legacy.targets:
                # No partition would ever remove an empty znode, and tools refuse to write while it exists.
                self.queue.add(Task(Priority.NORMAL, (None,), self._bridge, in_order=True))
        self._take_requests(self.state.requests.values())
        self.reviews.mark(Reason.NAMED_TWICE, self.adoption.named_twice())
        self._take_extra()
        return []

    # ---- /admin/reassign_cancel

    def on_cancel_found(self, czxid: int | None) -> list[Notice]:
        """The cancel znode was created or removed; the controller never deletes it."""
        before, self.state.cancel = self.state.cancel, czxid
        if czxid == before:
            return []
        if czxid is not None:
            return self._begin_cancel(Priority.CANCEL)
        notices = [Notice("cancel-removed", CANCEL, "new reassignments are taken again")]
        if self.state.legacy is not None:
            notices += self._take_legacy(self.state.legacy)
        self._take_requests(self.state.requests.values())
        self._take_extra()
        return notices

    def _begin_cancel(self, priority: Priority) -> list[Notice]:
        """Roll back all moves together, and drop requests from before the cancel znode."""

        def gathered(_: list[Any]) -> list[tuple[ReplyToken, Reply]]:
            # The moves are gathered only now: a batch that was being written at the time may have accepted more.
            moving = {tp for tp, move in self.state.reassignments.items() if unfinished(move)}
            # The start-up's reviews may not have reached these yet: they may have no record, and are adopted later.
            moving |= self.adoption.unreconciled
            if moving:
                self.queue.add(Task(Priority.CANCEL, sorted(moving), self._roll_back))
            return []

        self.queue.add(Task(priority, (None,), self._drop_older, gathered))
        told = f"rolling back {counted(len(self.state.reassignments), 'move')}; nothing new starts while it exists"
        return [Notice("cancel-found", CANCEL, told)]

    def _roll_back(self, draft: Draft, tp: TopicPartition) -> None:
        self.adoption.reconcile_first(draft, tp)
        self.moves.intervene(draft, tp, Intervention.ROLL_BACK)

    def _drop_older(self, draft: Draft, _: None) -> None:
        """Remove entries from the znodes that were written before the cancel and have not begun."""
        cancel = self.state.cancel
        if cancel is None:
            return
        legacy, extra = self.state.legacy, self.state.extra
        if legacy is not None and legacy.czxid < cancel:
            unbegun = {tp for tp in legacy.targets if self._legacy_move(draft, tp) is not True}
            if unbegun or not legacy.targets:
                self.moves.forget_legacy(draft, unbegun)
        if extra is not None and extra.czxid < cancel:
            draft.extra_targets().clear()
            told = f"{counted(len(extra.targets), 'entry was', 'entries were')} written before the cancel and had not begun: dropped"
            draft.notices.append(Notice("extra-cancelled", EXTRA, told))
        for name, request in sorted(self.state.requests.items()):
            if request.czxid < cancel:
                draft.other_records.append(DeleteReassignmentRequest(name))
                told = f"{counted(len(request.targets), 'partition')}: written before the cancel; dropped"
                draft.notices.append(Notice("request-cancelled", name, told))

    def _waits(self, place: str, czxid: int) -> list[Notice] | None:
        """Notices about a znode that the cancel znode ends or holds back; None while there is no cancel znode."""
        if self.state.cancel is None:
            return None
        if czxid < self.state.cancel:
            self.queue.add(Task(Priority.CANCEL, (None,), self._drop_older))
            return []
        return [Notice("held-back", place, f"waits: {CANCEL} exists")]

    # ---- /admin/reassign_partitions

    def on_legacy_found(self, legacy: LegacyReassignments | None) -> list[Notice]:
        """The legacy znode was written. While its moves are under way, further writes are ignored."""
        if self.state.left_out.legacy:
            self.state.left_out = self.state.left_out._replace(legacy=False)
            self._take_extra()
        before, self.state.legacy = self.state.legacy, legacy
        if legacy is None:
            self.bridged = None
            return []
        if before is not None and before.czxid == legacy.czxid and dict(before.targets) == dict(legacy.targets):
            return []
        return self._take_legacy(legacy)

    def _take_legacy(self, legacy: LegacyReassignments) -> list[Notice]:
        held = self._waits(LEGACY, legacy.czxid)
        if held is not None:
            return held
        if self.bridged == legacy.czxid and self._legacy_under_way():
            return self._ignore_further(legacy)
        self.bridged = legacy.czxid
        if legacy.originals:
            self.queue.add(Task(Priority.NORMAL, (None,), self._hide_originals, in_order=True))
        self.queue.add(Task(Priority.NORMAL, (None,), self._bridge, in_order=True))
        return []

    def _legacy_under_way(self) -> bool:
        begun = any(move.legacy and unfinished(move) for move in self.state.reassignments.values())
        return begun or any(request.legacy for request in self.state.requests.values())

    def _ignore_further(self, legacy: LegacyReassignments) -> list[Notice]:
        """KIP-455: "Once the znode is non-empty, further writes to it will be ignored."."""
        asked = {tp for request in self.state.requests.values() if request.legacy for tp in request.targets}
        moved = {tp for tp, move in self.state.reassignments.items() if move.legacy}
        foreign = set(legacy.targets) - asked - moved
        if not foreign:
            return []
        self.queue.add(Task(Priority.NORMAL, (foreign,), self.moves.forget_legacy, in_order=True))
        told = f"{counted(len(foreign), 'partition was', 'partitions were')} written into it while its moves are under way: ignored"
        return [Notice("legacy-ignored", LEGACY, told)]

    def _hide_originals(self, draft: Draft, _: None) -> None:
        """Remove `original_replicas` from the legacy znode: Apache's parser would reject the whole znode for it."""
        if self.state.legacy is not None:
            draft.legacy_targets()

    def _bridge(self, draft: Draft, _: None) -> None:
        """Make the legacy znode into a request, which comes back by the watch (KIP-236)."""
        legacy = self.state.legacy
        if legacy is None or draft.state.cancel is not None:
            return
        wanted = {tp: replicas for tp, replicas in legacy.targets.items() if self._legacy_move(draft, tp) is not False}
        foreign = {tp for tp in legacy.targets if self._legacy_move(draft, tp) is False}
        for tp in sorted(foreign):
            self._warn_of_conflict(draft, tp, legacy=True)
        foreign |= self._never_possible(draft, wanted)
        if foreign or not legacy.targets:
            self.moves.forget_legacy(draft, foreign)
        if wanted:
            draft.other_records.append(CreateReassignmentRequest(tuple(sorted(wanted.items()))))

    def _never_possible(self, draft: Draft, wanted: dict[TopicPartition, Replicas]) -> set[TopicPartition]:
        """Take entries out of `wanted` that no request znode can hold: they repeat a broker, or name an id below 0."""
        odd = {
            tp for tp, replicas in wanted.items() if len({*replicas}) < len(replicas) or min(replicas, default=0) < 0
        }
        for tp in sorted(odd):
            _, told = self.moves.refusal_by_znode(draft, tp, wanted.pop(tp)) or (None, "")
            draft.notices.append(Notice("legacy-refused", str(tp), told))
        return odd

    def _legacy_move(self, draft: Draft, tp: TopicPartition) -> bool | None:
        """Whether a partition moves by the legacy route (True) or by another (False); None: it does not move."""
        move = draft.unfinished(tp)
        return None if move is None else move.legacy

    def _warn_of_conflict(self, draft: Draft, tp: TopicPartition, *, legacy: bool) -> None:
        theirs, ours = ("the legacy znode", "another way") if legacy else ("a request znode", "the legacy znode")
        told = f"asked for by {theirs}, but it is being moved by {ours}: the request is ignored"
        draft.notices.append(Notice("legacy-ignored" if legacy else "request-ignored", str(tp), told))

    # ---- /admin/reassignment_requests

    def on_requests_found(self, requests: tuple[ReassignmentRequest, ...]) -> list[Notice]:
        """Take over the new children of the requests' folder."""
        known = self.state.requests
        self.done &= {request.name for request in requests}
        requests = tuple(request for request in requests if request.name not in self.done)
        # Of a request that is known, the state's copy counts: this read may be older than the last write to it.
        self.state.requests = {request.name: known.get(request.name, request) for request in requests}
        notices: list[Notice] = []
        for request in requests:
            held = self._waits(request.name, request.czxid) if request.name not in known else []
            notices += held or []
        if self.state.cancel is None:
            self._take_requests(requests)
        return notices

    def _take_requests(self, requests: Iterable[ReassignmentRequest]) -> None:
        for request in sorted(requests, key=lambda each: each.name):
            if request.name in self.taking:
                continue
            self.taking.add(request.name)
            items: list[Item | None] = [*sorted(request.targets.items()), None]
            decide = partial(self._take_request, request=request)
            taken = partial(self._taken, name=request.name)
            self.queue.add(Task(Priority.NORMAL, items, decide, taken, in_order=True))

    def _taken(self, _: list[None], *, name: str) -> list[tuple[ReplyToken, Reply]]:
        self.taking.discard(name)
        return []

    def _take_request(self, draft: Draft, item: Item | None, *, request: ReassignmentRequest) -> None:
        """Take one partition of a request; after the last, delete it."""
        if request.name not in self.state.requests or draft.state.cancel is not None:
            return  # The request was withdrawn, or the cancel znode ends it or holds it back.
        if item is None:
            draft.other_records.append(DeleteReassignmentRequest(request.name))
            return
        tp, target = item
        self.adoption.reconcile_first(draft, tp)
        if tp not in draft.requested(request.name):
            return  # It was cancelled before its turn came.
        if self._is_rewritten(tp, request):
            told = f"{request.name} was made from a former legacy znode: the present one counts"
            draft.notices.append(Notice("request-ignored", str(tp), told))
            return
        if not same_route(self._legacy_move(draft, tp), legacy=request.legacy):
            self._warn_of_conflict(draft, tp, legacy=request.legacy)
            if request.legacy:
                self.moves.forget_legacy(draft, {tp})
        elif request.legacy:
            self._submit_legacy(draft, tp, target)
        else:
            self._submit_requested(draft, tp, target)

    def _is_rewritten(self, tp: TopicPartition, request: ReassignmentRequest) -> bool:
        """Whether a request was made from a legacy znode, and a newer legacy znode names the partition too.

        A failover reads both at once, and takes the legacy znode first where a partition moves already.
        """
        legacy = self.state.legacy
        return request.legacy and legacy is not None and request.czxid < legacy.czxid and tp in legacy.targets

    def _submit_legacy(self, draft: Draft, tp: TopicPartition, target: Replicas) -> bool:
        """Begin a move by the legacy route; returns whether one is under way now."""
        legacy, partition = self.state.legacy, draft.partition(tp)
        given = legacy.originals.get(tp) if legacy is not None else None
        original = original_replicas(partition.assignment, given) if partition is not None else ()
        change = ReassignmentChange(tp, target, forced=True)
        _, error, message = self.moves.submit(draft, change, legacy_original=original)
        move = draft.reassignment(tp)
        if error is ErrorCode.NONE and move is not None and self._legacy_move(draft, tp):
            self.moves.tell_originals(draft, tp, given, move.original)
            return True
        if message:
            draft.notices.append(Notice("legacy-refused", str(tp), message))
        self.moves.forget_legacy(draft, {tp})
        return False

    def _submit_requested(self, draft: Draft, tp: TopicPartition, target: Replicas) -> None:
        known, partition = draft.unfinished(tp), draft.partition(tp)
        if partition is not None:
            top = known.top if known is not None else len(partition.assignment.original)
            warning = validate_top(top, min_isr(self.state, self.settings, tp.topic), place=tp)
            if warning is not None:
                draft.notices.append(Notice("request-ignored", str(tp), warning))
                return
        _, error, message = self.moves.submit(draft, ReassignmentChange(tp, target or None), requested=True)
        if error is not ErrorCode.NONE:
            draft.notices.append(Notice("request-refused", str(tp), message or error.name))

    # ---- /admin/reassign_partitions_extra

    def on_extra_found(self, extra: LegacyReassignments | None) -> list[Notice]:
        """The extra znode was written: more reassignments while some are in flight."""
        self.state.extra = extra
        if extra is None:
            return []
        held = self._waits(EXTRA, extra.czxid)
        if held is not None:
            return held
        self._take_extra()
        return []

    def _take_extra(self) -> None:
        extra = self.state.extra
        if extra is None:
            return
        items: list[TopicPartition | None] = [*sorted(extra.targets), None]
        self.queue.add(Task(Priority.NORMAL, items, self._take_extra_entry, in_order=True))

    def _take_extra_entry(self, draft: Draft, tp: TopicPartition | None) -> None:
        """Put one entry into the legacy znode and begin it, in one write with its removal from the extra znode."""
        extra = self.state.extra
        if extra is None or draft.state.cancel is not None or draft.state.left_out.legacy:
            return  # The legacy znode can't be read, so nothing can be added to it.
        if tp is None:
            if not extra.targets:
                draft.extra_targets()
            return
        target = draft.extra_listed.get(tp)
        if target is None:
            return
        if self._legacy_move(draft, tp) is False:
            self._warn_of_conflict(draft, tp, legacy=True)
        else:
            listed = draft.legacy_listed
            if tp not in listed and self._weigh(draft, listed) > LEGACY_WEIGHT_AT_MOST:
                return  # The entry's turn comes when others have left the legacy znode.
            draft.legacy_targets()[tp] = target
            self._submit_legacy(draft, tp, target)
        draft.extra_targets().pop(tp)

    def _weigh(self, draft: Draft, listed: Mapping[TopicPartition, Replicas]) -> int:
        """Bytes of the legacy znode, roughly: the names are counted once per draft, the entries each time."""
        if self.weight is None or self.weight[0] is not draft:
            self.weight = (draft, sum(80 + len(tp.topic) for tp in listed) - 110 * len(listed))
        return self.weight[1] + 110 * len(listed)

    # ---- after a write

    def on_committed(self, draft: Draft) -> None:
        """A draft is durable: note deleted requests, and take extra entries that waited for room beside legacy ones."""
        self.done.update(each.name for each in draft.other_records if isinstance(each, DeleteReassignmentRequest))
        self.done.update(name for name, left in draft.requests.items() if not left)
        # While the cancel znode exists, a write only takes entries out, perhaps of a znode that it holds back.
        if draft.legacy is not None and self.state.legacy is not None and self.state.cancel is None:
            self.bridged = self.state.legacy.czxid
        waiting = self.state.extra is not None and self.state.cancel is None
        if waiting and draft.legacy is not None and draft.extra is None:
            self._take_extra()

    def on_refused(self, event: BatchRefused, records: tuple[Record, ...]) -> list[Notice]:
        """Another process wrote into a znode that the batch was writing: the znode's new contents count.

        If ZooKeeper refused for another reason, nothing was read, and the state of these znodes still counts.
        """
        notices: list[Notice] = []
        if event.reason != "version":
            return notices
        if any(isinstance(record, PutLegacyReassignments) for record in records):
            notices += self.on_legacy_found(event.legacy)
            self.state.left_out = self.state.left_out._replace(legacy=event.legacy_unreadable)
        if any(isinstance(record, PutExtraReassignments) for record in records):
            notices += self.on_extra_found(event.extra)
        return notices
