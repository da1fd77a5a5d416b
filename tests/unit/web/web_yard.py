"""A service's backstage that behaves, in memory: clusters of any size, moves that go on, orders that count.

Tests of the web, the browser's tests and the benchmark of the page use it behind the real front. It decides nothing that
Shunter decides: it has figures of plausible size, and obeys.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from web_journal import past_and_present

from shunter.app.evaluation.policy import KeptCluster, ModelPlace
from shunter.app.executor.session import Target
from shunter.app.service.front import Front
from shunter.app.service.published import Published
from shunter.app.service.reports import Reports
from shunter.app.service.stories import Stories
from shunter.core.keeper.cluster_facts import ClusterFacts, ClusterObservation, Held, OpenExecution, Reach, ServiceRole
from shunter.core.keeper.intents import named_by
from shunter.core.keeper.sighting import Sighting
from shunter.core.keeper.situation import doing_about, severity_of, situation
from shunter.core.keeper.words import hold_of
from shunter.core.wording import counted, told_bytes
from shunter.model.execution import JournalEntry
from shunter.model.keeper import Condition, KeeperPolicy
from shunter.model.service import (
    BrokerEffect,
    EventSearch,
    HistoryEvent,
    IntentKind,
    KeptIntent,
    KeptProposal,
    KillSwitch,
    OrderDone,
    OrderKind,
    OrderRefused,
    PlannedChange,
    ProposalState,
    Refusal,
    ServiceOrder,
    Signature,
    Vote,
)
from shunter.views.contents import Contents
from shunter.views.controller_status import ControllerStatus
from shunter.views.execution import OPEN_STATES
from shunter.views.keeper import ConditionView, ProposalView
from shunter.views.keeper_picture import FleetAround, view_fleet
from shunter.views.service import (
    OURS,
    ControllersView,
    ControllerView,
    FleetRow,
    FleetView,
    FlowView,
    KeptBrokerView,
    KeptClusterView,
    KeptConditionView,
    KeptProposalView,
    MovesView,
    MoveView,
    OrderPreview,
    TimelineView,
    TopicGist,
)

GB = 10**9
TB = 10**12
START_MS = 1_795_400_000_000
"""2026-11-23, in the small hours."""


class Yard:
    """A `Backstage`. `tick` lets its moves go on; whoever reads the front sees it."""

    def __init__(
        self, sizes: dict[str, tuple[int, int]] | None = None, moves: int = 40, now_ms: Callable[[], int] | None = None
    ) -> None:
        """`sizes`: brokers and partitions of each cluster by name; `moves`: how many are open in the first one."""
        self.sizes = {"prod-eu": (12, 1_200)} if sizes is None else sizes
        self.now_ms = now_ms or (lambda: START_MS)
        self.published = Published(self.sizes)
        self.front = Front(self)
        self.paused: KillSwitch | None = None
        self.trouble = ""
        self.controlling = _controllers()
        self.lake: Path | None = None
        """A lake of the pipeline's, in which clusters have the ids that they have here."""
        self.orders: list[tuple[ServiceOrder, Signature]] = []
        self.kept: dict[str, list[KeptProposal]] = {name: [] for name in self.sizes}
        self.events: list[HistoryEvent] = []
        self.notes: list[tuple[str, str]] = []
        """Events of the service itself: kind and text."""
        self.journals: dict[str, list[JournalEntry]] = {}
        self.facts: dict[str, ClusterFacts] = {}
        self.seen: dict[str, Sighting] = {}
        """The last observation of clusters that the real keeper judged (`web_sights`)."""
        self._answered: dict[str, tuple[ServiceOrder, OrderDone]] = {}
        for index, name in enumerate(self.sizes):
            self._fill(name, moves if index == 0 else 0)
        self._stories = {
            name: Stories(lambda after, name=name: self.journals[name][after:], "kafka:moves") for name in self.sizes
        }

    # ---- the backstage

    def stories(self, cluster: str) -> Stories:
        return self._stories[cluster]

    def reports(self, cluster: str) -> Reports:
        target = Target("127.0.0.1:1", None, None)
        model = None if self.lake is None else ModelPlace(self.lake)
        kept = KeptCluster(cluster, target, KeeperPolicy(), model=model)
        return Reports(kept, lambda: self.published.page(cluster))

    def fleet(self) -> FleetView:
        rows = tuple(self.published.page(name).row for name in self.sizes)
        orders = (OrderKind.PAUSE,) if self.paused is None else (OrderKind.RESUME,)
        around = FleetAround("yard:1", self.paused, orders, "", self.trouble)
        return view_fleet(self.published.version, self.now_ms(), rows, around)

    def contents(self, cluster: str) -> Contents:
        return Contents(self.seen.get(cluster))

    async def proposal(self, cluster: str, proposal: str) -> KeptProposalView | None:
        every = await self.proposals(cluster, ended=True)
        return next((each for each in every if each.proposal.id == proposal), None)

    async def proposals(self, cluster: str, *, ended: bool) -> tuple[KeptProposalView, ...]:
        open_states = (ProposalState.WAITING, ProposalState.APPROVED, ProposalState.STARTING, ProposalState.RUNNING)
        found = [each for each in self.kept[cluster] if ended or each.state in open_states]
        return tuple(KeptProposalView(each, 1, 5_400_000, declined_minutes=1_440) for each in reversed(found))

    async def timeline(self, search: EventSearch) -> TimelineView:
        cluster, since_ms, until_ms, most, before, kind, who = search
        until = until_ms if until_ms is not None else 10**15
        fits = [each for each in self.events if cluster in ("", each.cluster) and since_ms <= each.at_ms < until]
        fits = [each for each in fits if before is None or each.number < before]
        fits = [each for each in fits if kind in ("", each.kind) and who in ("", each.who)]
        return TimelineView(
            self.published.version, tuple(fits[-most:]), len(fits) > most, None, "kafka-ops-1", START_MS
        )

    async def note(self, kind: str, told: str) -> None:
        """See `Backstage`."""
        self.notes.append((kind, told))

    async def carry_out(self, order: ServiceOrder, signature: Signature) -> OrderDone:
        if signature.key in self._answered:
            first, done = self._answered[signature.key]
            if first != order:
                raise OrderRefused(Refusal.KEY_REUSED, f"the key {signature.key} belongs to another order")
            return done
        done = self._obey(order, signature)
        self.orders.append((order, signature))
        self.happened(order.cluster, order.kind.value, done.text, who=signature.who, cause=signature.comment)
        if signature.key:
            self._answered[signature.key] = (order, done)
        self.published.tell(order.cluster)
        return done

    async def controllers(self, cluster: str) -> ControllersView:
        if cluster != next(iter(self.sizes)):
            return ControllersView(self.now_ms())
        return ControllersView(self.now_ms(), self.controlling)

    async def sketch(self, order: ServiceOrder, who: str) -> KeptProposalView:
        if order.scope == "nonsense":
            raise OrderRefused(Refusal.INVALID, "'nonsense' is no scope")
        made = self._proposal(order.cluster, order.scope or "rebalance")
        return KeptProposalView(replace(made, id=f"sketch-{who}"), 1, 5_400_000)

    def preview(self, order: ServiceOrder, who: str) -> OrderPreview:
        cost = sum(row.rollback_bytes or 0 for row in self._named(order))
        bytes_again = cost if order.kind is OrderKind.ROLL_BACK else 0
        told = f"{counted(len(self._named(order)), 'open move')}: {order.kind.value} for {who}"
        return OrderPreview(f"{told}. {told_bytes(bytes_again)} are copied again", len(self._named(order)), bytes_again)

    def _named(self, order: ServiceOrder) -> list[MoveView]:
        rows = self.published.moves(order.cluster or next(iter(self.sizes))).moves
        mine = [row for row in rows if row.whose == OURS and row.state in OPEN_STATES]
        return [row for row in mine if not order.partitions or row.partition in order.partitions]

    # ---- what it does

    def stand(self, name: str, **changes: object) -> None:
        """Change what is known about a cluster, and publish its situation; fields as `Facts` has them."""
        self.facts[name] = facts = replace(self.facts[name], **changes)  # type: ignore[arg-type]
        page, stands = self.published.page(name), situation(facts)
        seen = facts.observation
        row = replace(page.row, situation=stands, paused=facts.paused)
        if seen is not None:
            row = replace(
                row,
                offline=seen.offline,
                under_replicated=seen.under_replicated,
                under_min_isr=seen.under_min_isr,
                brokers_down=seen.brokers_down,
                conditions=len(seen.conditions),
            )
        else:
            row = FleetRow(name, "", stands)
        moves = replace(self.published.moves(name), situation=stands)
        conditions = (
            page.conditions
            if seen is None
            else tuple(
                replace(each, doing=doing_about(held, facts))
                for each, held in zip(page.conditions, seen.conditions, strict=False)
            )
        )
        self.published.show(name, replace(page, row=row, conditions=conditions), moves)

    def _obey(self, order: ServiceOrder, signature: Signature) -> OrderDone:
        kind, name = order.kind, order.cluster
        if order.is_switch and not (kind is OrderKind.RESUME and self._paused(name) is None):
            switch = KillSwitch(name, signature.who, self.now_ms(), signature.comment)
            self._switch(name, switch if kind is OrderKind.PAUSE else None)
            return OrderDone("paused" if kind is OrderKind.PAUSE else "resumed")
        if not name:
            raise OrderRefused(Refusal.INVALID, f"{kind.value} needs a cluster")
        if kind in (OrderKind.APPROVE, OrderKind.DECLINE):
            return self._decide(order, signature)
        if kind is OrderKind.PROPOSE:
            if not order.scope:
                raise OrderRefused(Refusal.INVALID, "propose needs a scope")
            made = self._proposal(name, order.scope)
            self.kept[name].append(made)
            return OrderDone(f"proposal {made.id} waits for approval", made.id)
        if kind is OrderKind.LIMIT:
            view, rate = self.published.moves(name), order.bytes_per_s
            given = {name: value for name, value in order.body.items() if name != "bytes_per_s"}
            limit = view.throttle_bytes_per_s if rate is None else rate or None
            self.published.show(name, moves=replace(view, throttle_bytes_per_s=limit, bounds={**view.bounds, **given}))
            if given:
                return OrderDone(f"from now on: {', '.join(order.about)}")
            return OrderDone("the throttle is lifted" if not rate else f"the throttle is {rate} bytes/s")
        states = {
            OrderKind.STOP: "stopped",
            OrderKind.PAUSE: "paused",
            OrderKind.RESUME: "moving",
            OrderKind.ROLL_BACK: "rolled-back",
        }
        if kind in states:
            return self._turn(name, order.partitions, states[kind])
        return self._intend(order, signature)

    def _paused(self, name: str) -> KillSwitch | None:
        return self.published.page(name).row.paused if name else self.paused

    def _switch(self, name: str, switch: KillSwitch | None) -> None:
        if not name:
            self.paused = switch
            return
        self.stand(name, switch=switch)

    def _decide(self, order: ServiceOrder, signature: Signature) -> OrderDone:
        every = self.kept[order.cluster]
        at = next((index for index, each in enumerate(every) if each.id == order.proposal), None)
        if at is None:
            raise OrderRefused(Refusal.NOT_FOUND, f"there is no proposal {order.proposal} of {order.cluster}")
        if every[at].state is not ProposalState.WAITING:
            raise OrderRefused(Refusal.ALREADY_DECIDED, f"proposal {every[at].id} is {every[at].state.value} already")
        yes = order.kind is OrderKind.APPROVE
        vote = Vote(signature.who, self.now_ms(), yes, signature.comment)
        state = ProposalState.RUNNING if yes else ProposalState.DECLINED
        every[at] = replace(every[at], state=state, votes=(*every[at].votes, vote), changed_at_ms=self.now_ms())
        page = self.published.page(order.cluster)
        waiting = sum(each.state is ProposalState.WAITING for each in every)
        self.published.show(order.cluster, replace(page, row=replace(page.row, proposals_waiting=waiting)))
        return OrderDone("approved: it begins now" if yes else "declined", every[at].id)

    def _turn(self, name: str, about: tuple[str, ...], state: str) -> OrderDone:
        view = self.published.moves(name)
        known = {move.partition for move in view.moves}
        if unknown := sorted(set(about) - known):
            raise OrderRefused(Refusal.NOT_FOUND, f"no open move of ours: {', '.join(unknown)}")

        def turned(move: MoveView) -> MoveView:
            ours = move.whose == "ours" and move.state in ("pending", "moving", "paused")
            return replace(move, state=state) if ours and (not about or move.partition in about) else move

        rows = tuple(map(turned, view.moves))
        self.published.show(name, moves=replace(view, moves=rows))
        states = [row.state for row in rows if row.whose == OURS and row.state in OPEN_STATES]
        self.stand(name, execution=OpenExecution(len(states), states.count("paused")))
        return OrderDone(f"{len(about) or 'all'} moves: {state}")

    def _intend(self, order: ServiceOrder, signature: Signature) -> OrderDone:
        page = self.published.page(order.cluster)
        if order.kind is OrderKind.CLEAR_THROTTLES:
            return OrderDone(f"{order.kind.value}: done")
        given = order.kind is OrderKind.INTEND
        kind, about, value = named_by(order, gives=given)[0]
        kept = tuple(each for each in page.intents if (each.kind, each.about) != (kind, about))
        if given:
            made = KeptIntent(kind, about, value, signature.who, self.now_ms(), signature.comment)
            kept = (*kept, made)
        elif len(kept) == len(page.intents):
            raise OrderRefused(Refusal.NOT_FOUND, f"there is no {kind.value} of {about} in {order.cluster}")
        brokers = tuple(
            replace(each, **_flag(kind, given, value)) if str(each.id) == about else each for each in page.brokers
        )
        self.published.show(order.cluster, replace(page, brokers=brokers, intents=kept))
        self.stand(order.cluster, holds=tuple(hold_of(each) for each in kept if each.kind is IntentKind.HOLD))
        return OrderDone(f"{order.kind.value} {kind.value} {about}: kept to from now on")

    def tick(self, name: str = "") -> None:
        """Let the moves of a cluster go on by a second's worth."""
        name = name or next(iter(self.sizes))
        view = self.published.moves(name)
        moved = tuple(map(_advanced, view.moves))
        copied = sum(move.copied_bytes or 0 for move in moved)
        left = int(((view.plan_bytes or 0) - copied) / (90 * 10**6) * 1000)
        self.published.show(
            name,
            replace(
                page := self.published.page(name),
                row=replace(page.row, share=copied / (view.plan_bytes or 1), left_ms=left),
            ),
            replace(
                view,
                at_ms=self.now_ms(),
                moves=moved,
                left_bytes=max(0, (view.plan_bytes or 0) - copied),
                share=copied / (view.plan_bytes or 1),
                copy_bytes_per_s=9.1e7 + (copied % 97) * 8e4,
                left_ms=left,
                low_ms=int(left * 0.8),
                high_ms=int(left * 1.35),
            ),
        )

    def happened(
        self, cluster: str, kind: str, text: str, *, ago_ms: int = 0, lasted_ms: int | None = None, **more: str
    ) -> None:
        at = self.now_ms() - ago_ms
        until = None if lasted_ms is None else at + lasted_ms
        self.events.append(HistoryEvent(len(self.events) + 1, cluster, at, kind, text, until_ms=until, **more))

    # ---- how it begins

    def _fill(self, name: str, moves: int) -> None:
        brokers_in_all, partitions = self.sizes[name]
        brokers = tuple(
            _broker(each, brokers_in_all, partitions, dead=name == "staging") for each in range(1, brokers_in_all + 1)
        )
        rows = tuple(_move(each, brokers_in_all) for each in range(moves))
        total = sum(row.total_bytes or 0 for row in rows)
        proposal = self._proposal(name, "rebalance")
        waits = name != "metrics"
        if waits:
            self.kept[name].append(proposal)
        held = tuple(Held(Condition(each.condition.condition), each.condition.text) for each in _conditions())
        down = tuple(each.id for each in brokers if not each.live)
        seen = ClusterObservation(
            self.now_ms() - 20_000,
            under_replicated=17 if name == "staging" else 0,
            brokers_down=down,
            conditions=held if waits else (),
        )
        self.facts[name] = ClusterFacts(
            name,
            self.now_ms(),
            Reach.ANSWERS,
            observation=seen,
            role=ServiceRole.DRIVES,
            execution=OpenExecution(moves),
            proposals=(replace(proposal, changes=()),) if waits else (),
        )
        row = FleetRow(
            name,
            f"id-of-{name}",
            situation(self.facts[name]),
            brokers=brokers_in_all,
            brokers_down=down,
            partitions=partitions,
            under_replicated=17 if name == "staging" else 0,
            under_min_isr=0,
            offline=0,
            balance=0.31 if waits else 0.04,
            disk_used=max(1 - (each.disk_usable or 0) / (each.disk_total or 1) for each in brokers),
            runway_days=41.0,
            conditions=2 if waits else 0,
            moves_open=moves,
            share=0.0 if moves else None,
            proposals_waiting=int(waits),
        )
        topics = tuple(
            TopicGist(f"topic-{each:03d}", max(1, partitions // 200), (3,), (200 - each) * 9 * GB, 0)
            for each in range(200)
        )
        page = KeptClusterView(
            2,
            row,
            brokers,
            _conditions() if waits else (),
            _prospects() if waits else (),
            topics=topics,
            intents=(KeptIntent(IntentKind.DRAIN, "9", 0, "ben", START_MS - 86_400_000, "old disks"),) if waits else (),
            topics_in_all=240,
            flows=_flows(rows),
            policy={
                **_file(name, self.sizes),
                "conditions": {"disk-band": {"do": "propose"}},
                "limits": {"moves": 200, "frozen-brokers": [11]},
            },
        )
        view = MovesView(
            2,
            self.now_ms(),
            proposal.id if moves else "",
            row.situation,
            rows,
            plan_bytes=total,
            left_bytes=total,
            share=0.0,
            throttle_bytes_per_s=100 * 10**6,
            bounds={"max_concurrent": 0, "max_in": 2, "max_out": 0, "max_per_rack": 0, "max_per_log_dir": 0},
            rollback_bytes=total // 3,
            silent_ms=0,
        )
        view = view if moves else replace(view, why_no_eta="nothing is being moved", throttle_bytes_per_s=None)
        self.published.show(name, page, view)
        self.journals[name] = past_and_present(name, self.now_ms(), view.proposal, rows)
        for hour in range(30):
            self._past(name, hour * 3_000_000)

    def _past(self, name: str, ago: int) -> None:
        self.happened(name, "look", "12 brokers, 2 conditions", ago_ms=ago)
        if ago % 9_000_000 == 0:
            self.happened(
                name,
                "condition",
                "broker 3 has 31 % more bytes than its share",
                ago_ms=ago,
                lasted_ms=2_400_000,
                subject="disk-band 3",
            )
            self.happened(
                name,
                "proposal",
                "rebalance: 40 replicas to copy",
                ago_ms=ago - 600_000,
                cause="disk-band 3",
                subject="p-7",
            )
            self.happened(
                name,
                "execution",
                "40 moves, all done",
                ago_ms=ago - 900_000,
                lasted_ms=1_700_000,
                who="anna",
                subject="p-7",
            )
        self.events.sort(key=lambda each: each.at_ms)
        self.events = [replace(each, number=at) for at, each in enumerate(self.events, start=1)]

    def _proposal(self, name: str, scope: str) -> KeptProposal:
        brokers_in_all, partitions = self.sizes[name]
        changes = tuple(
            PlannedChange(
                f"topic-{each % 200:03d}",
                each // 200,
                (each % brokers_in_all + 1, each % 5 + 1, 12),
                (each % brokers_in_all + 1, each % 5 + 1, 3),
            )
            for each in range(min(partitions, 100_000) // 3)
        )
        spread = tuple(
            BrokerEffect(
                each,
                ((60 + each * 37 % 50) * GB, 300 + each * 37 % 90, 100 + each * 11 % 40),
                ((84 + each % 3) * GB, 340 + each % 4, 118 + each % 3),
            )
            for each in range(1, brokers_in_all + 1)
        )
        number = len(self.kept[name]) + 1
        return KeptProposal(
            f"{name}-{number}",
            name,
            f"id-of-{name}",
            scope,
            ("disk-band",),
            ("broker 3 has 31 % more bytes than its share",),
            changes,
            len(changes),
            len(changes) * 2 * GB,
            12,
            len(changes) * GB,
            spread,
            self.now_ms(),
            ProposalState.WAITING,
            self.now_ms(),
            least_bytes=len(changes) * 2 * GB * 9 // 10,
        )


def _flag(kind: IntentKind, given: bool, value: int | None) -> dict[str, Any]:
    """What an intent changes of its broker."""
    flags: dict[IntentKind, dict[str, Any]] = {
        IntentKind.DRAIN: {"drained": given},
        IntentKind.DEMOTE: {"demoted": given},
        IntentKind.FREEZE_BROKER: {"frozen": given},
        IntentKind.ADD: {"added": given},
        IntentKind.REPLACE: {"replaced_by": value if given else None},
    }
    return flags.get(kind, {})


def _file(name: str, sizes: Mapping[str, object]) -> dict[str, Any]:
    """What the policy file says of where a cluster's controllers are: the first one's are Shunter's."""
    return {"controllers": [each.url for each in _controllers()]} if name == next(iter(sizes)) else {}


def _controllers() -> tuple[ControllerView, ...]:
    moves = {"moving": 3, "pending": 12, "rolling_back": 1}
    leads = ControllerStatus(
        1000, True, True, ("in charge: controller epoch 7",), 7, 12, 1_200, moves, 2, 0.004, 0, 0, 0.0003, 0.012
    )
    standby = ControllerStatus(
        1001, False, True, ("standing by: broker 1000 is the controller",), 0, 0, 0, {}, 0, 0.0, 0, 0, 0.0002, 0.001
    )
    down = "http://10.0.0.8:9464 does not answer: Connection refused"
    return (
        ControllerView("http://10.0.0.6:9464", leads),
        ControllerView("http://10.0.0.7:9464", standby),
        ControllerView("http://10.0.0.8:9464", None, down),
    )


def _broker(each: int, brokers: int, partitions: int, *, dead: bool) -> KeptBrokerView:
    used = 0.52 + (each * 37 % 41) / 100
    live = not (dead and each == 2)
    share = partitions * 3 // brokers
    return KeptBrokerView(
        each,
        f"rack-{each % min(6, brokers) + 1}",
        live,
        int(used * 3 * TB),
        4 * TB,
        int(4 * TB * (1 - used)),
        share + each % 7,
        (share // 3 + each % 5) if live else 0,
        share // 3,
        0 if live else share,
        receives=each % 4 if each % 3 == 0 else 0,
        gives=2 if each % 7 == 0 else 0,
        drained=each == 9,
        frozen=each == 11,
    )


def _move(each: int, brokers: int) -> MoveView:
    one, two, old, new = (
        each % brokers + 1,
        (each + 4) % brokers + 1,
        (each + 7) % brokers + 1,
        (each + 2) % brokers + 1,
    )
    partition = f"topic-{each % 200:03d}-{each // 200}"
    if each % 17 == 16:
        return MoveView(
            partition,
            "external",
            "moving",
            "",
            (),
            (one, two, old),
            (one, two),
            (one, two, new),
            None,
            0,
            None,
            None,
            None,
            "",
            "",
            (new,),
        )
    state = "moving" if each < 12 else "pending"
    here = (one, two, old, new) if state == "moving" else (one, two, old)
    size = (2 + each % 9) * GB
    return MoveView(
        partition,
        "ours",
        state,
        "forward",
        (one, two, old),
        here,
        (one, two, old),
        (one, two, new),
        here if state == "moving" else None,
        int(state == "moving"),
        size,
        0,
        0 if state == "pending" else size // 3,
        f"broker {new} to catch up" if state == "moving" else "its turn: 12 of 12 copies are under way",
        "",
        (new,) if state == "moving" else (),
    )


def _flows(rows: tuple[MoveView, ...]) -> tuple[FlowView, ...]:
    """What the service's own first moves take from one broker to another."""
    mine = [row for row in rows if row.whose == OURS][:24]
    ends = Counter((row.original[-1], row.target[-1]) for row in mine)
    moving = Counter((row.original[-1], row.target[-1]) for row in mine if row.state == "moving")
    return tuple(FlowView(*end, count, moving[end], count * 3 * GB) for end, count in ends.items())


def _advanced(move: MoveView) -> MoveView:
    if move.state != "moving" or move.total_bytes is None:
        return move
    return replace(move, copied_bytes=min(move.total_bytes, (move.copied_bytes or 0) + 25 * 10**6))


def _conditions() -> tuple[KeptConditionView, ...]:
    return (
        KeptConditionView(
            ConditionView(
                "disk-band",
                "3",
                "broker 3 has 31 % more bytes than its share, beyond 20 %",
                START_MS - 4_000_000,
                66,
                30,
                "disk skew",
                "above",
            ),
            "propose",
            severity_of(Condition.DISK_BAND),
            "a proposal waits for approval",
        ),
        KeptConditionView(
            ConditionView(
                "leaders-away",
                "",
                "212 partitions are not led by their first replica",
                START_MS - 900_000,
                15,
                15,
                "leader not preferred",
            ),
            "notify",
            severity_of(Condition.LEADERS_AWAY),
        ),
    )


def _prospects() -> tuple[ProposalView, ...]:
    why = ("broker 3 has 31 % more bytes than its share",)
    return (
        ProposalView("rebalance", "propose", True, ("disk-band",), why, 40, 40, 80 * GB, 12, (), ()),
        ProposalView(
            "leaders",
            "propose",
            False,
            ("leaders-band",),
            ("broker 5 leads too much",),
            9,
            0,
            0,
            9,
            (),
            ("rebalance is more urgent",),
        ),
    )
