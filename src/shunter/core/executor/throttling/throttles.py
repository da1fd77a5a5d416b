"""Replication throttles: remembered before they are touched, set, adapted, and given back exactly.

Other tools' settings are respected. Their rate stays in force if it is lower than the executor's, their list is added
to, and a setting that another tool changed while the executor worked is left as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from shunter.core.executor.events import SettingsAltered
from shunter.core.executor.foresight.hold_ups import told_urgent
from shunter.core.executor.ready import AlterSettings, Collected, ReadSettings
from shunter.core.executor.state import LATE_MS, ExecutorState, Move, Throttle
from shunter.core.executor.throttling.others import LOOK_AGAIN_MS, OthersThrottles
from shunter.core.executor.throttling.pausing import held_brokers, note_others, paused_copies, paused_within
from shunter.core.throttles import (
    CORDONED_LOG_DIRS,
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    LISTS,
    LOG_DIR_RATE,
    RATES,
    is_theirs,
    lower_than,
    respectful,
    shared_lists,
    told_lower,
    told_shared,
)
from shunter.model.execution import (
    JournalRecord,
    ThrottleKey,
    ThrottleRemembered,
    ThrottleRestored,
    ThrottleSet,
)
from shunter.model.notice import Notice
from shunter.model.partition import BrokerId, TopicPartition

RETRY_MS = 2_000
TOLD = 4
"""A notice names at most this many settings."""
FRESH_MS = 2_000
"""A decision about a setting needs a read of it that is no older than this: Kafka has no compare-and-set for it."""
SEEN_MS = 30_000
"""A copy begins only if its throttle was seen in force within this time: another tool may have removed it."""


@dataclass(slots=True)
class ThrottleBook:
    """The settings that this process read, and the reads and requests whose answers it waits for."""

    own: dict[ThrottleKey, str | None] = field(default_factory=dict[ThrottleKey, str | None])
    effective: dict[ThrottleKey, str | None] = field(default_factory=dict[ThrottleKey, str | None])
    reading: set[ThrottleKey] = field(default_factory=set[ThrottleKey])
    read_at_ms: dict[ThrottleKey, int] = field(default_factory=dict[ThrottleKey, int])
    """When each setting was read last; a setting that this process wrote since is not here."""
    requests: dict[int, tuple[tuple[ThrottleKey, str | None], ...]] = field(
        default_factory=dict[int, tuple[tuple[ThrottleKey, str | None], ...]]
    )
    restored: set[ThrottleKey] = field(default_factory=set[ThrottleKey])
    """Settings that were given back and confirmed, but for which the journal has no entry yet."""
    retry_at_ms: dict[ThrottleKey, int] = field(default_factory=dict[ThrottleKey, int])
    """When settings that could not be read are read again."""
    apart: set[ThrottleKey] = field(default_factory=set[ThrottleKey])
    """Settings whose last request failed. They are read broker by broker, so that a silent broker delays no other."""
    look_again_ms: int | None = None
    """When rates in force are read again; None: there are none."""
    lower_in_force: dict[ThrottleKey, int] = field(default_factory=dict[ThrottleKey, int])
    """Other tools' rates that hold in place of the executor's, because they are lower; bytes per second."""
    others: OthersThrottles = field(default_factory=OthersThrottles)
    shared: frozenset[str] = frozenset()
    """Topics of which another tool's list puts ordinary replication under the executor's rate too."""

    def fresh(self, key: ThrottleKey, now_ms: int) -> bool:
        """Whether a setting was read lately, and after this process wrote it."""
        looked_ms = self.read_at_ms.get(key)
        return looked_ms is not None and now_ms - looked_ms <= FRESH_MS and key not in self.reading

    def on_read(
        self,
        state: ExecutorState,
        own: dict[ThrottleKey, str | None],
        effective: dict[ThrottleKey, str | None],
        now_ms: int,
    ) -> None:
        """Take in settings that were read; a value that may be out of date is read again a little later."""
        for key, found in own.items():
            self.reading.discard(key)
            self.apart.discard(key)
            if is_doubtful(state, key, found, now_ms):
                self.retry_at_ms[key] = now_ms + RETRY_MS
                continue
            self.retry_at_ms.pop(key, None)
            self.read_at_ms[key] = now_ms
            self.own[key], self.effective[key] = found, effective.get(key)
            throttle = state.throttles.get(key)
            note_others(state, key, found, effective.get(key))
            if throttle is not None and throttle.applied == found:
                throttle.seen_at_ms = now_ms

    def keep(self, keys: Collection[ThrottleKey]) -> None:
        """Forget what was read, except for `keys`, which are owed. The next plan, perhaps days later, reads anew."""
        for known in (self.own, self.effective, self.read_at_ms):
            for key in [key for key in known if key not in keys]:
                del known[key]
        self.look_again_ms = None
        self.lower_in_force, self.shared, self.others = {}, frozenset(), OthersThrottles()

    def forget(self, key: ThrottleKey) -> None:
        """Forget a setting that the executor no longer holds: it has to be read before it is set again."""
        self.own.pop(key, None)
        self.effective.pop(key, None)
        self.read_at_ms.pop(key, None)
        self.restored.discard(key)

    def on_read_failed(self, keys: Iterable[ThrottleKey], now_ms: int) -> None:
        """Read these settings again a little later."""
        for key in keys:
            self.reading.discard(key)
            self.apart.add(key)
            self.retry_at_ms[key] = now_ms + RETRY_MS

    def on_altered(self, state: ExecutorState, answer: SettingsAltered, now_ms: int) -> None:
        """Take in which settings the cluster accepted."""
        for key, value in self.requests.pop(answer.request_id, ()):
            throttle = state.throttles.get(key)
            if throttle is None or throttle.request_id != answer.request_id:
                continue  # The setting was forgotten, and perhaps remembered anew. This answers an older request.
            throttle.request_id, throttle.asked_at_ms = 0, now_ms
            throttle.note_refusal(now_ms, refused=key in answer.refused)
            if key in answer.errors:
                throttle.retry_at_ms = now_ms + RETRY_MS
                self.apart.add(key)
                continue
            throttle.applied, throttle.seen_at_ms = value, now_ms
            throttle.untouched_since_ms = None
            self.own[key] = value
            if value == throttle.before and value != throttle.value:
                self.restored.add(key)

    def on_denied(self, state: ExecutorState, request_id: int, denied: Collection[ThrottleKey], now_ms: int) -> bool:
        """Take in which settings the executor may not change; returns whether it can go on all the same.

        It can if each of them was to be given back and already has its former value: then it was never changed. Without
        this, an execution whose throttle was denied could never end.
        """
        asked = dict(self.requests.get(request_id, ()))
        if not denied or not all(self._is_as_before(state, key, asked) for key in denied):
            return False
        self.on_alter_failed(state, request_id, now_ms)
        self.restored |= set(denied)
        return True

    def _is_as_before(self, state: ExecutorState, key: ThrottleKey, asked: Mapping[ThrottleKey, str | None]) -> bool:
        throttle = state.throttles.get(key)
        if throttle is None or key not in asked:
            return False
        return throttle.before == asked[key] == self.own.get(key) and asked[key] != throttle.value

    def on_alter_failed(self, state: ExecutorState, request_id: int, now_ms: int) -> None:
        """Take in that no answer came: the settings may or may not have been changed."""
        for key, _value in self.requests.pop(request_id, ()):
            throttle = state.throttles.get(key)
            if throttle is not None and throttle.request_id == request_id:
                throttle.request_id, throttle.retry_at_ms, throttle.asked_at_ms = 0, now_ms + RETRY_MS, now_ms
                throttle.note_refusal(now_ms, refused=False)


def is_doubtful(state: ExecutorState, key: ThrottleKey, found: str | None, now_ms: int) -> bool:
    """Whether a value may come from a broker that has not learnt of the executor's last change, and so be out of date.

    Such a broker may show the executor's value although it was given back. Or it may show another tool's value from
    before, which other brokers did not show when the executor looked. Nothing is decided by such a value, because both
    mistakes are bad: the executor's value would be kept as another tool's, or another tool's would be overwritten. Once
    all brokers must have learnt of the change (`LATE_MS`), the value counts as another tool's.
    """
    given, throttle = state.given_back.get(key), state.throttles.get(key)
    if throttle is not None and throttle.is_late(found, now_ms):
        return True
    if given is None or (throttle is not None and not is_theirs(found, throttle.before, throttle.ours)):
        return False
    return given.may_be_shown(found, now_ms)


def desired_settings(state: ExecutorState) -> dict[ThrottleKey, str]:
    """The settings to be made if no other tool had set any, for all brokers and topics of open moves.

    Sources are all replicas that may lead during the move; destinations are all that are copied. Kafka does not throttle
    a replica that is in sync, so a list may name more replicas than are copied right now. A paused copy is held at the
    broker that receives it.
    """
    wanted: dict[ThrottleKey, str] = {}
    moves = state.open_moves()
    live = state.cluster.brokers
    if state.options.log_dir_throttle is not None:
        for broker in sorted({owner for move in moves for owner, _path in move.asked_for} & live.keys()):
            wanted[ThrottleKey("broker", str(broker), LOG_DIR_RATE)] = str(state.options.log_dir_throttle)
    for broker in sorted(paused_within(state)[0] & live.keys()):
        rate = min(state.options.pause_rate, state.options.log_dir_throttle or state.options.pause_rate)
        wanted[ThrottleKey("broker", str(broker), LOG_DIR_RATE)] = str(rate)
    limit = state.limit
    if limit is not None:
        involved = {broker for move in moves for broker in (*move.current, *move.goal, *move.copying)}
        for broker in sorted(involved & live.keys()):
            for setting in (LEADER_RATE, FOLLOWER_RATE):
                wanted[ThrottleKey("broker", str(broker), setting)] = str(limit)
    pause_rate = state.options.pause_rate
    for broker in sorted(held_brokers(state) & live.keys()):
        rate = pause_rate if limit is None else min(limit, pause_rate)
        wanted[ThrottleKey("broker", str(broker), FOLLOWER_RATE)] = str(rate)
    if moves and not state.turned:
        cordons = ((broker, value) for broker, value in state.options.cordons if broker in live)
        wanted.update((ThrottleKey("broker", str(broker), CORDONED_LOG_DIRS), value) for broker, value in cordons)
    wanted.update(_paused_lists(state) if limit is None else _lists(state, {move.tp.topic for move in moves}))
    return wanted


def _paused_lists(state: ExecutorState) -> dict[ThrottleKey, str]:
    """Lists for an execution without a limit: they name only paused copies, and all others run at full speed."""
    listed: dict[str, list[tuple[int, BrokerId]]] = {}
    for move in paused_copies(state):
        listed.setdefault(move.tp.topic, []).extend(_entries(move.tp, move.copying))
    return {ThrottleKey("topic", topic, FOLLOWER_REPLICAS): _listed(listed[topic]) for topic in sorted(listed)}


def _lists(state: ExecutorState, topics: set[str]) -> dict[ThrottleKey, str]:
    leaders: dict[str, list[tuple[int, BrokerId]]] = {}
    followers: dict[str, list[tuple[int, BrokerId]]] = {}
    for tp in state.moves:
        if tp.topic in topics:
            move = state.moves[tp]
            leaders.setdefault(tp.topic, []).extend(_entries(tp, _holders(move)))
            followers.setdefault(tp.topic, []).extend(_entries(tp, _copied(move)))
    wanted: dict[ThrottleKey, str] = {}
    for topic in sorted(topics):
        if followers.get(topic):  # Else nothing is copied, as when only the order of replicas changes.
            wanted[ThrottleKey("topic", topic, LEADER_REPLICAS)] = _listed(leaders.get(topic, []))
            wanted[ThrottleKey("topic", topic, FOLLOWER_REPLICAS)] = _listed(followers[topic])
    return wanted


def _holders(move: Move) -> tuple[BrokerId, ...]:
    """Brokers that may lead while the move goes on."""
    under_way = () if move.step is None else move.step.after
    return move.original + move.target + move.current + under_way


def _copied(move: Move) -> tuple[BrokerId, ...]:
    """Brokers that are or will be copied to: the target's new ones, and those that are wanted again after a drop."""
    new = tuple(broker for broker in move.target if broker not in move.original)
    again = tuple(broker for broker in move.goal if broker not in move.current)
    return new + move.copying + (again if move.open else ())


def _entries(tp: TopicPartition, brokers: tuple[BrokerId, ...]) -> list[tuple[int, BrokerId]]:
    return [(tp.partition, broker) for broker in brokers]


def _listed(entries: list[tuple[int, BrokerId]]) -> str:
    return ",".join(f"{partition}:{broker}" for partition, broker in sorted(set(entries)))


def decide_throttles(
    state: ExecutorState, book: ThrottleBook, wanted: dict[ThrottleKey, str], now_ms: int, out: Collected
) -> list[JournalRecord]:
    """Choose which settings to remember, to set and to declare restored; asks for the reads that must come first."""
    records: list[JournalRecord] = []
    unread: list[ThrottleKey] = []
    theirs: list[ThrottleKey] = []
    book.restored -= wanted.keys()  # A setting that is wanted again has to be given back once more.
    for key, value in wanted.items():
        throttle = state.throttles.get(key)
        if throttle is None:
            records += _take(book, key, value, now_ms, unread, theirs)
        else:
            records += _adapt(book, key, throttle, value, now_ms, unread, out)
    for key, throttle in state.throttles.items():
        if key not in wanted:
            records += _give_back(state, book, key, throttle, now_ms, unread, out)
    _tell_given_back(state, records, out)
    book.others.look(state, now_ms, out)
    _note_lower(state, book, wanted, theirs, out)
    _read(book, unread + _due_again(book, theirs + _in_force(state, wanted), now_ms, out), now_ms, out)
    return records


def _in_force(state: ExecutorState, wanted: dict[ThrottleKey, str]) -> list[ThrottleKey]:
    """The executor's rates that brokers have taken. Lists are too long to be read often; each copy checks its own."""
    return [
        key
        for key, throttle in state.throttles.items()
        if key in wanted and key.setting in RATES and throttle.applied == throttle.value and not throttle.request_id
    ]


def _take(
    book: ThrottleBook,
    key: ThrottleKey,
    value: str,
    now_ms: int,
    unread: list[ThrottleKey],
    theirs: list[ThrottleKey],
) -> list[JournalRecord]:
    """Remember a setting and choose a value; no entries if the value that is set throttles as much or more."""
    if key not in book.own:
        unread.append(key)
        return []
    before = book.own[key]
    chosen = respectful(key, value, before, book.effective.get(key))
    if chosen is None:
        theirs.append(key)
        return []
    if not book.fresh(key, now_ms):
        unread.append(key)
        return []
    return [ThrottleRemembered(key, before), ThrottleSet(key, chosen)]


def _adapt(
    book: ThrottleBook,
    key: ThrottleKey,
    throttle: Throttle,
    value: str,
    now_ms: int,
    unread: list[ThrottleKey],
    out: Collected,
) -> list[JournalRecord]:
    """Choose another value. If another tool changed the setting since, start over as if it had never been touched.

    A setting whose value is not known to be in force is read before it is written: another tool may have changed it
    while no executor ran.
    """
    if throttle.request_id:
        return []  # A request is under way, and would take effect after this look.
    chosen = respectful(key, value, throttle.before, throttle.before)
    if chosen is None:
        chosen = throttle.before
    fresh = book.fresh(key, now_ms)
    given_back = chosen == throttle.before == throttle.applied
    if chosen is None or (chosen == throttle.value == throttle.applied and not fresh and not given_back):
        return []
    if not fresh:
        unread.append(key)
        return []
    found = book.own[key]
    if is_theirs(found, throttle.before, throttle.ours):
        left = _left(key, throttle, found, out)
        over = respectful(key, value, found, book.effective.get(key))
        return left if over is None else [*left, ThrottleRemembered(key, found), ThrottleSet(key, over)]
    if throttle.applied != found:
        throttle.applied = None  # Another tool removed the value since: it is set again.
    if chosen == throttle.before == throttle.value == found:
        return _release(key, throttle)  # After a pause somebody's lower rate is theirs again, and they can lift it.
    return [] if chosen == throttle.value else [ThrottleSet(key, chosen)]


def _left(key: ThrottleKey, throttle: Throttle, found: str | None, out: Collected) -> list[JournalRecord]:
    told = f"{key.setting} of {key.kind} {key.name} is {found!r}, not {throttle.value!r} as we set it: left as it is"
    out.notices.append(Notice("throttle-left", key.name, told))
    return _release(key, throttle, left=True)


def _release(key: ThrottleKey, throttle: Throttle, *, left: bool = False) -> list[JournalRecord]:
    """Declare that the executor no longer holds a setting; no request changes it while that entry is being written."""
    throttle.released = True
    return [ThrottleRestored(key, left=left)]


def _tell_given_back(state: ExecutorState, records: Sequence[JournalRecord], out: Collected) -> None:
    """Report settings that have another tool's value again: its owner may have forgotten it."""
    back = [record.key for record in records if isinstance(record, ThrottleRestored) and not record.left]
    theirs = [
        f"{key.kind} {key.name} {key.setting} = {before}"
        for key in back
        if (before := state.throttles[key].before) and key not in state.cordons
    ]
    if theirs:
        more = f" and {len(theirs) - TOLD} more" if len(theirs) > TOLD else ""
        told = f"the value that another tool had set is given back: {'; '.join(theirs[:TOLD])}{more} (`shunter throttles list`)"
        out.notices.append(Notice("throttle-theirs-again", "", told))


def _note_lower(
    state: ExecutorState,
    book: ThrottleBook,
    wanted: dict[ThrottleKey, str],
    theirs: Sequence[ThrottleKey],
    out: Collected,
) -> None:
    """Note others' lower rates, and lists that put ordinary replication under ours; report both if they changed."""
    lower = lower_than({key: wanted[key] for key in theirs}, book.own, book.effective)
    # A limit that was raised above their rate left their rate in force.
    back = {key: loan.before for key, loan in state.throttles.items() if key in wanted and loan.value == loan.before}
    lower |= lower_than({key: wanted[key] for key in back}, back, {})
    lower |= book.others.lower
    if lower.items() - book.lower_in_force.items():
        own = {**book.others.own, **book.own, **back}
        told = told_lower(lower, own, limited=state.limit is not None)
        out.notices.append(
            Notice("throttle-lower", "", told + told_urgent(state, state.open_moves(), lower, begun=True))
        )
    book.lower_in_force = lower
    shared = shared_lists(theirs, book.own)
    if shared - book.shared:
        out.notices.append(Notice("throttle-shared", "", told_shared(shared)))
    book.shared = shared


def _due_again(book: ThrottleBook, hold: list[ThrottleKey], now_ms: int, out: Collected) -> list[ThrottleKey]:
    """Settings that are to be read again: if another tool removed one, the executor's value has to take its place."""
    due: list[ThrottleKey] = []
    if not hold:
        book.look_again_ms = None
        return due
    if book.look_again_ms is None or now_ms >= book.look_again_ms:
        due = [] if book.look_again_ms is None else hold
        book.look_again_ms = now_ms + LOOK_AGAIN_MS
    out.wake(book.look_again_ms)
    return due


def _give_back(
    state: ExecutorState,
    book: ThrottleBook,
    key: ThrottleKey,
    throttle: Throttle,
    now_ms: int,
    unread: list[ThrottleKey],
    out: Collected,
) -> list[JournalRecord]:
    if key in book.restored:
        return _release(key, throttle)
    if throttle.request_id:
        return []  # A request is under way, and would take effect after this look.
    if key.setting == CORDONED_LOG_DIRS and int(key.name) in dict(state.options.cordons) and not state.turned:
        return _release(key, throttle, left=True)  # The execution is done, and the cordon is meant to stay.
    if key.kind == "broker" and int(key.name) not in state.cluster.brokers:
        return []  # Only the broker itself can change its settings; it is asked when it is back.
    if _went_with_its_topic(state, key, throttle):
        return _release(key, throttle)
    due = None if throttle.untouched_since_ms is None else throttle.untouched_since_ms + LATE_MS
    if due is not None and now_ms < due:
        out.wake(due)
        return []
    if not book.fresh(key, now_ms):
        unread.append(key)
        return []
    found = book.own[key]
    if is_theirs(found, throttle.before, throttle.ours):
        return _left(key, throttle, found, out)
    if found != throttle.before or throttle.applied is None:
        throttle.untouched_since_ms = None
        return []
    if due is not None:
        return _release(key, throttle)
    throttle.untouched_since_ms = now_ms
    out.wake(now_ms + LATE_MS)
    return []


def _went_with_its_topic(state: ExecutorState, key: ThrottleKey, throttle: Throttle) -> bool:
    """Whether a setting was deleted with its topic.

    Every change of it has to be refused since some time, and the topic has to be seen absent after that. An older look
    says nothing: the topic may have been made anew since, and the new one may have taken the executor's value.
    """
    if key.kind != "topic" or throttle.refused_since_ms is None:
        return False
    cluster = state.cluster
    looked_ms = cluster.topics_at_ms.get(key.name, -1)
    return looked_ms >= throttle.refused_since_ms and cluster.topics.get(key.name) is None


def _read(book: ThrottleBook, keys: list[ThrottleKey], now_ms: int, out: Collected) -> None:
    due: dict[str, list[ThrottleKey]] = {}
    for key in keys:
        retry_at_ms = book.retry_at_ms.get(key, now_ms)
        if now_ms < retry_at_ms:
            out.wake(retry_at_ms)
        elif key not in book.reading:
            book.reading.add(key)
            due.setdefault(key.name if key in book.apart and key.kind == "broker" else "", []).append(key)
    out.reads.extend(ReadSettings(tuple(some)) for some in due.values())


def send_settings(
    state: ExecutorState,
    book: ThrottleBook,
    wanted: dict[ThrottleKey, str],
    now_ms: int,
    new_id: Callable[[], int],
    out: Collected,
) -> None:
    """Ask for every setting that is durable and not in force yet, and give back settings that no move needs."""
    due: list[tuple[ThrottleKey, str | None]] = []
    for key, throttle in state.throttles.items():
        if (
            throttle.request_id
            or throttle.released
            or (key.kind == "broker" and int(key.name) not in state.cluster.brokers)
        ):
            continue
        if key in wanted:
            value = throttle.value
            if value is None or throttle.applied == value or not book.fresh(key, now_ms):
                continue  # The setting was not read since it was written: another tool may have changed it.
        else:
            value, found = throttle.before, book.own.get(key)
            if not book.fresh(key, now_ms) or key in book.restored or is_theirs(found, throttle.before, throttle.ours):
                continue
            if throttle.applied is not None and found == value:
                continue  # Another tool gave it back, or the broker that answered is late.
            # If the executor's value was never confirmed, the old value is written even if it shows: the request that
            # sets the executor's value may still be on its way.
        if now_ms < throttle.retry_at_ms:
            out.wake(throttle.retry_at_ms)
            continue
        due.append((key, value))
    if not due:
        return
    request_id = new_id()
    for key, value in due:
        throttle = state.throttles[key]
        throttle.request_id, throttle.asked_at_ms = request_id, now_ms
        if value != throttle.value or key.setting in LISTS:
            throttle.applied = None  # It is given back, or its list may get shorter: it may no longer be in force.
        book.read_at_ms.pop(key, None)
    book.requests[request_id] = tuple(due)
    out.requests.append(AlterSettings(request_id, tuple(due)))


@dataclass(slots=True)
class Gate:
    """Resources ('broker 1', 'topic t') whose throttles don't let a copy begin.

    `late`: the throttle is not in force yet. `unseen`: it was in force when last seen, which is long ago. `looked_for`:
    the unseen settings that a copy waits for. `others_known`: what others have set was read, or can't be.
    """

    late: set[str] = field(default_factory=set[str])
    unseen: dict[str, list[ThrottleKey]] = field(default_factory=dict[str, list[ThrottleKey]])
    looked_for: list[ThrottleKey] = field(default_factory=list[ThrottleKey])
    others_known: bool = True
    what: str = "its throttle"

    def refusal(self, names: Collection[str]) -> str | None:
        """The reason why a copy that touches these resources may not begin; None if it may."""
        if late := self.late.intersection(names):
            return f"waits for {self.what} to be in force at {min(late)}"
        unseen = [key for name in names for key in self.unseen.get(name, ())]
        self.looked_for += unseen
        return "looks whether its throttle is in force" if unseen else None


def gate(state: ExecutorState, book: ThrottleBook, wanted: dict[ThrottleKey, str], now_ms: int) -> Gate:
    """Find the wanted settings that don't let a copy begin."""
    found = Gate(not_in_force(state, book, wanted), others_known=book.others.is_known(now_ms))
    if all(key.setting == CORDONED_LOG_DIRS for key in wanted):
        found.what = "the cordon"
    for key in wanted:
        throttle = state.throttles.get(key)
        if throttle is not None and now_ms - throttle.seen_at_ms > SEEN_MS:
            found.unseen.setdefault(f"{key.kind} {key.name}", []).append(key)
    return found


def look(book: ThrottleBook, passed: Gate, now_ms: int, out: Collected) -> None:
    """Read the settings that copies wait for."""
    _read(book, [key for key in passed.looked_for if not book.fresh(key, now_ms)], now_ms, out)


def not_in_force(state: ExecutorState, book: ThrottleBook, wanted: dict[ThrottleKey, str]) -> set[str]:
    """Names of resources ('broker 1', 'topic t') whose throttle is not in force yet: no copy there may begin."""
    late: set[str] = set()
    for key, value in wanted.items():
        throttle = state.throttles.get(key)
        if throttle is None:
            known = key in book.own
            if known and respectful(key, value, book.own[key], book.effective.get(key)) is None:
                continue
            late.add(f"{key.kind} {key.name}")
        elif throttle.released or not (_covers(key, throttle.applied, value) and _covers(key, throttle.value, value)):
            late.add(f"{key.kind} {key.name}")
    return late


def _covers(key: ThrottleKey, value: str | None, wanted: str) -> bool:
    """Whether a value that the cluster has, or is about to have, throttles everything that `wanted` names.

    A list has to contain all entries. Any rate counts; None, for no rate, does not.
    """
    if value is None or key.setting not in LISTS:
        return value is not None
    return value.strip() == "*" or set(wanted.split(",")) <= set(value.split(","))
