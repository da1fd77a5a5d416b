"""The findings of a cluster's check-up: each with how bad it is, and what to do about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from shunter.core.executor.foresight.hold_ups import hold_up_of_others
from shunter.core.executor.state import ExecutorState
from shunter.core.leaderless import answering, judge_leaderless, ways_up
from shunter.core.own_topics import WORDS_TOPIC, shortage
from shunter.core.quorum import judge_quorum
from shunter.core.spare_replicas import TOO_FEW
from shunter.core.under_way import told_copy
from shunter.core.wording import NAMED, counted, named, told_brokers
from shunter.model.check_up import LOG_DIRS, MOVES, CheckedJournal, CheckedTopic, CheckUp, Finding, Level
from shunter.model.execution import ObservedTopic
from shunter.model.partition import BrokerId, TopicPartition

FULL = 0.85
VERY_FULL = 0.95
SKEW_MS = 5_000
"""Clocks further apart than this make times in journals and logs hard to compare. A reading is exact to about a second."""

_FORGOTTEN = "nothing is being moved: `shunter throttles list` shows them, `shunter throttles clear` takes them away"
_NEEDED = "whoever moves may need them; `shunter throttles list` shows them: look again when nothing moves any more"


def diagnose(seen: CheckUp, journal: CheckedJournal) -> tuple[Finding, ...]:
    """Judge a cluster. Most checks report something, if only that all is well."""
    checks = (
        ("unread", _unread(seen)),
        ("brokers", _brokers(seen)),
        ("listeners", _listeners(seen)),
        ("versions", _versions(seen)),
        ("quorum", _quorum(seen)),
        ("partitions", [*_own_topics(seen, journal), *_partitions(seen), *_uneven(seen, journal)]),
        ("min.insync.replicas", _min_isr(seen)),
        ("disks", _disks(seen, journal)),
        ("moves", _moves(seen, journal)),
        ("throttles", _throttles(seen, journal)),
        ("clocks", _clocks(seen)),
        ("certificate", _certificate(seen)),
        ("rights", _rights(seen)),
    )
    return tuple(finding for name, found in checks for finding in (found or _fine(name, seen)))


def _fine(name: str, seen: CheckUp) -> list[Finding]:
    """Say that all is well, unless that is not known: then another finding says what could not be read."""
    if name == "listeners" and any(broker.silent for broker in seen.brokers):
        return []
    unknown = any(what.startswith(_SEEN_BY.get(name, ())) for what, _why in seen.unread)
    told = None if unknown or (name == "moves" and not seen.at_rest) else _FINE.get(name)
    return [] if told is None else [Finding(Level.FINE, name, told)]


_FINE = {
    "brokers": "every broker that holds a replica is up",
    "listeners": "every listener that brokers advertise answers from here",
    "partitions": "every replica is in sync, and every partition has a leader",
    "min.insync.replicas": "every topic can lose a replica and still be written with acks=all",
    "disks": f"every log dir works and is less than {FULL:.0%} full",
    "moves": "nothing is being moved, and nobody drives the cluster",
    "throttles": "there is no throttle but those that an execution gives back",
    "rights": "every command is allowed",
}
_SEEN_BY: Mapping[str, tuple[str, ...]] = {
    "brokers": ("topics",),
    "listeners": ("listeners of",),
    "partitions": ("topics",),
    "min.insync.replicas": ("topics", "min.insync.replicas"),
    "disks": (LOG_DIRS,),
    "throttles": ("throttles",),
}
"""By check: how the names of those parts begin without which it is not known whether all is well."""


def _unread(seen: CheckUp) -> list[Finding]:
    silent = tuple(f" of broker {each.broker}" for each in seen.brokers if each.silent)  # They have a finding.
    return [
        Finding(Level.WARNING, "unread", f"{what} could not be looked at: {why}", "put that right and look again")
        for what, why in seen.unread
        if what not in seen.unanswered and not what.endswith(silent)
    ]


def _quorum(seen: CheckUp) -> list[Finding]:
    if not seen.unanswered:
        return [] if seen.quorum is None else [judge_quorum(seen.quorum)]
    hung = [each.broker for each in seen.brokers if each.silent]
    cut = [
        each.broker for each in seen.brokers if not each.silent and any(at.used and at.problem for at in each.listeners)
    ]
    gone = [*cut, *(each.broker for each in seen.fenced if each.problem)]
    told = (
        f"no controller answers ({', '.join(seen.unanswered)}): a leader of the metadata quorum that hangs, or a majority "
        "of its voters that is gone; until one leads nothing is elected, moved or changed, and what is shown below is of "
        "before"
    )
    ways = [f"restart what hangs: {told_brokers(hung)}"] if hung else []
    ways += [f"start {told_brokers(gone)}"] if gone else []
    advice = "; ".join([*ways, "start each controller that is down", "then look again"])
    return [Finding(Level.PROBLEM, "quorum", told, advice)]


def _brokers(seen: CheckUp) -> list[Finding]:
    up = {broker.broker for broker in seen.brokers}
    lost: Counter[int] = Counter()
    for topic in seen.topics:
        for partition in topic.partitions.values():
            lost.update(broker for broker in partition.replicas if broker not in up)
    fences = "" if seen.unanswered else "; the controller fences it when its heartbeats stay away"
    silent = [
        Finding(
            Level.PROBLEM,
            "brokers",
            f"broker {broker.broker} is listed as live, and {next(at.problem for at in broker.listeners if at.used)}",
            f"look at its process and its host{fences}",
        )
        for broker in seen.brokers
        if broker.silent
    ]
    fenced = dict(seen.fenced)
    return silent + [
        _gone(
            broker,
            lost[broker],
            fenced.get(broker),
            _EMPTY_ONE if not lost[broker] else _GIVEN_UP if _copied(seen, broker) else _NO_DATA,
        )
        for broker in sorted(lost.keys() | fenced.keys())
    ]


_FORMATTED = (
    ", format the new one (`kafka-storage.sh format --ignore-formatted`: a broker does not start on an empty one)"
)
_EMPTY_ONE = "if it never comes back, `kafka-cluster unregister` ends its registration"
_SEE_WHERE = (
    "`shunter plan --scope offline --dry-run` shows which offline replicas other brokers can take, and what holds up the "
    "rest"
)
_GIVEN_UP = f"if it never comes back, {_SEE_WHERE} (`--scope replace`: one broker in its place)"
_NO_DATA = "no plan can copy its replicas: no live broker has them in sync"


def _copied(seen: CheckUp, broker: BrokerId) -> bool:
    """Whether an offline replica of this broker is in sync on a live one, so that a plan can ask for a copy of it."""
    up = {each.broker for each in seen.brokers}
    return any(
        broker in each.replicas
        and (broker not in up or broker in each.offline)
        and not up.intersection(each.isr) <= set(each.offline)
        for topic in seen.topics
        for each in topic.partitions.values()
    )


def _gone(broker: int, replicas: int, fenced: str | None, gone: str) -> Finding:
    """The finding about a broker that is not live; `fenced` None: it is not registered, "": its process answers."""
    level = Level.PROBLEM if replicas else Level.WARNING
    holds = f"{'and ' if fenced is None else ''}holds {counted(replicas, 'replica')}"
    if fenced is None:
        return Finding(level, "brokers", f"broker {broker} is down, {holds}", f"start it; {gone}")
    told = f"broker {broker} is fenced: it is registered, but its heartbeats don't reach the controller; it {holds}"
    advice = f"see in its log why it hangs, or what cuts it off, and restart it; {gone}"
    if fenced and "does not answer" not in fenced:
        advice = f"start it; {gone}"
    return Finding(level, "brokers", f"{told}; its listener {fenced or 'answers'}", advice)


def _listeners(seen: CheckUp) -> list[Finding]:
    found: list[Finding] = []
    for broker in (each for each in seen.brokers if not each.silent):
        for listener in broker.listeners:
            if not listener.problem:
                continue
            told = f"broker {broker.broker}: listener {listener.name} at {listener.address} {listener.problem}"
            if listener.used:
                advice = "clients that come by your bootstrap servers are sent there: mend the network or the listener"
                found.append(Finding(Level.PROBLEM, "listeners", told, advice))
            else:
                advice = "nothing, if it is not meant to be reached from this host"
                found.append(Finding(Level.NOTE, "listeners", told, advice))
    return found


def _versions(seen: CheckUp) -> list[Finding]:
    releases: dict[str, list[int]] = {}
    for broker in seen.brokers:
        if broker.release:
            releases.setdefault(broker.release, []).append(broker.broker)
    if len(releases) <= 1:
        told = f"the Kafka of all brokers is {next(iter(releases))}" if releases else "no broker tells its version"
        return [Finding(Level.FINE, "versions", f"{told}; the controller is {seen.controlled_by}")]
    told = "; ".join(
        f"{release}: broker {', '.join(map(str, brokers))}" for release, brokers in sorted(releases.items())
    )
    advice = "end the upgrade before anything great is moved"
    return [Finding(Level.WARNING, "versions", f"brokers are of different releases of Kafka: {told}", advice)]


def _own_topics(seen: CheckUp, journal: CheckedJournal) -> Iterator[Finding]:
    """The journal's topic and that of people's words, if they take no write: then nobody can drive the cluster."""
    live = [broker.broker for broker in seen.brokers]
    for topic in seen.topics:
        if topic.name in (journal.topic, WORDS_TOPIC) and 0 in topic.partitions:
            short = shortage(f"topic {topic.name}", topic.partitions[0], topic.min_isr, live)
            if short is not None:
                what = "the journal" if topic.name == journal.topic else "people's words"
                yield Finding(Level.PROBLEM, "partitions", f"{what} can't be written: {short.told}", short.way_out)


def _partitions(seen: CheckUp) -> list[Finding]:
    bare: list[TopicPartition] = []
    leaderless: list[TopicPartition] = []
    below: dict[TopicPartition, set[BrokerId]] = {}
    late: dict[TopicPartition, set[BrokerId]] = {}
    for topic in seen.topics:
        for number, partition in topic.partitions.items():
            tp = TopicPartition(topic.name, number)
            move = seen.ongoing.get(tp) or seen.ended.get(tp)
            adding = () if move is None else move.adding
            target = {broker for broker in partition.replicas if broker not in adding}
            lacks = target.difference(partition.isr)
            if not partition.replicas:
                bare.append(tp)
            elif partition.leader < 0:
                leaderless.append(tp)
            elif len(partition.isr) < min(topic.min_isr, len(target)):
                below[tp] = lacks
            elif lacks:
                late[tp] = lacks
    kinds = (
        (
            bare,
            Level.PROBLEM,
            "no replicas: nobody can read or write there",
            "delete the topic, or give the partition replicas with kafka-reassign-partitions",
        ),
        (
            below,
            Level.PROBLEM,
            "fewer in sync than min.insync.replicas: acks=all is refused",
            _ways_back(seen, below, elsewhere=True),
        ),
        (late, Level.WARNING, "replicas out of sync", _ways_back(seen, late)),
    )
    found = [
        Finding(level, "partitions", f"{counted(len(tps), *nouns)} with {told} ({named(tps)})", advice)
        for tps, level, told, advice in kinds
        if tps
        for nouns in [
            ("more partition", "more partitions") if tps is late and (below or leaderless) else ("partition",)
        ]
    ]
    return [*judge_leaderless(seen, leaderless), *found]


def _ways_back(
    seen: CheckUp, lacking: Mapping[TopicPartition, AbstractSet[BrokerId]], *, elsewhere: bool = False
) -> str:
    """What brings replicas back in sync, by what keeps them from it. `lacking`: the brokers that each partition lacks.

    `elsewhere`: tell also that offline ones can be copied to other brokers, where they can.
    """
    partitions = {(topic.name, number): each for topic in seen.topics for number, each in topic.partitions.items()}
    up = answering(seen)
    late = {(broker, broker in partitions[tp].offline) for tp, brokers in lacking.items() for broker in brokers}
    gone = {broker for broker, offline in late if offline or broker not in up}
    slow = {broker for broker, _offline in late if broker not in gone}
    ways = ways_up(seen, gone)
    ways += [f"see whether {told_brokers(slow)} {'is' if len(slow) == 1 else 'are'} slow or throttled"] if slow else []
    told = ", ".join(ways)
    return f"{told}; {_SEE_WHERE}" if elsewhere and any(_copied(seen, broker) for broker in gone) else told


def _uneven(seen: CheckUp, journal: CheckedJournal) -> Iterator[Finding]:
    """Partitions with more or fewer replicas than most of their topic have.

    A move that ended between two steps leaves that, or a plan that could not change them all.

    Nothing is said while somebody may be between two steps, or it is not known whether something moves.
    """
    if journal.claimant or any(what == MOVES for what, _why in seen.unread):
        return
    moving = seen.ongoing.keys() | seen.ended.keys() | journal.open_moves | journal.just_ended
    for topic in seen.topics:
        # A partition in motion has replicas that come or leave, so it says nothing of how many are usual.
        still = {
            tp: each
            for number, each in sorted(topic.partitions.items())
            if (tp := TopicPartition(topic.name, number)) not in moving
        }
        counts = Counter(len(each.replicas) for each in still.values()).most_common(2)
        if not counts or (len(counts) == 2 and counts[0][1] == counts[1][1]):
            continue
        usual = counts[0][0]
        kinds: dict[str, list[TopicPartition]] = {"more": [], "fewer": []}
        for tp, each in still.items():
            if len(each.replicas) != usual:
                kinds["more" if len(each.replicas) > usual else "fewer"].append(tp)
        for kind, tps in kinds.items():
            if tps:
                most = f"{kind} than the {counted(usual, 'replica')} that most of {topic.name} have"
                told = f"{counted(len(tps), 'partition')} with {most} ({named(tps)})"
                plan = f"`shunter plan --scope change-replication --topics {topic.name} --replication {usual}`"
                does = "takes them away" if kind == "more" else "adds them"
                advice = f"nothing moves them now: {plan} {does}, or says what holds that up"
                yield Finding(Level.WARNING, "partitions", told, advice)


def _min_isr(seen: CheckUp) -> list[Finding]:
    never, tight, alone, worn = (dict[str, None]() for _kind in range(4))  # Names, in their order.
    lacking: dict[TopicPartition, set[BrokerId]] = {}
    for topic in seen.topics:
        for number, each in topic.partitions.items():
            settled = _settled(seen, topic, number)
            if 0 < len(settled) < topic.min_isr:
                never[topic.name] = None
            elif len(settled) == 1:
                alone[topic.name] = None
            elif len(settled) == topic.min_isr:
                tight[topic.name] = None
            elif settled and each.leader >= 0 and len(each.isr) <= topic.min_isr:
                worn[topic.name] = None
                comes = move.adding if (move := seen.ongoing.get(TopicPartition(topic.name, number))) else ()
                lacking[TopicPartition(topic.name, number)] = set(settled).difference(each.isr, comes)
    raised = "raise their replication, or lower min.insync.replicas"
    kinds = (
        (never, Level.PROBLEM, f"with fewer replicas than min.insync.replicas: {TOO_FEW}", raised),
        (tight, Level.WARNING, "with as many replicas as min.insync.replicas: one that is down stops acks=all", raised),
        (
            worn,
            Level.WARNING,
            "can lose no replica now: no more are in sync than min.insync.replicas",
            _ways_back(seen, lacking),
        ),
        (alone, Level.NOTE, "with one replica: what it has is gone with its broker", "raise their replication"),
    )
    return [
        Finding(level, "min.insync.replicas", f"{counted(len(names), 'topic')} {told} ({named(names)})", advice)
        for names, level, told, advice in kinds
        if names
    ]


def _settled(seen: CheckUp, topic: CheckedTopic, number: int) -> Sequence[int]:
    """A partition's replicas; of a partition that moves, those at the end of the move."""
    ongoing = seen.ongoing.get(TopicPartition(topic.name, number))
    return topic.partitions[number].replicas if ongoing is None else ongoing.target


def _disks(seen: CheckUp, journal: CheckedJournal) -> list[Finding]:
    found: list[Finding] = []
    for broker in seen.brokers:
        for log_dir in broker.log_dirs:
            where = f"broker {broker.broker}: log dir {log_dir.path}"
            if log_dir.error:
                formatted = _FORMATTED if seen.quorum is not None else ""
                advice = f"replace the disk{formatted}, and restart the broker; or restart it without that log dir"
                if _copied(seen, broker.broker):
                    advice += f"; {_SEE_WHERE}"
                found.append(Finding(Level.PROBLEM, "disks", f"{where} has failed: {log_dir.error}", advice))
                continue
            if log_dir.cordoned:
                plan_id = journal.cordons.get(broker.broker)
                by = f" by plan {plan_id}" if plan_id else ""
                way_out = f"`shunter undrain {broker.broker}`" if plan_id else "take it out of `cordoned.log.dirs`"
                told = f"{where} is cordoned{by}: it gets no new replicas"
                found.append(Finding(Level.NOTE, "disks", told, f"nothing, if that is meant; else {way_out}"))
            used = 1 - log_dir.usable / log_dir.total if log_dir.total > 0 else 0.0
            if used >= FULL:
                level = Level.PROBLEM if used >= VERY_FULL else Level.WARNING
                advice = "`shunter plan` spreads bytes over brokers; `shunter execute --disk-share` keeps a reserve"
                found.append(Finding(level, "disks", f"{where} is {used:.1%} full", advice))
    return found


def _moves(seen: CheckUp, journal: CheckedJournal) -> list[Finding]:
    found: list[Finding] = []
    if journal.claimant:
        told = f"under another journal the cluster is driven by {journal.claimant}"
        found.append(Finding(Level.NOTE, "moves", told, "ask there"))
    ours = journal.open_moves
    if journal.holder:
        told = f"an executor drives the cluster: {journal.holder}, {counted(len(ours), 'move')} open"
        found.append(Finding(Level.NOTE, "moves", told, "`shunter status` tells how they stand"))
    elif ours and journal.standing[0]:
        told, advice = journal.standing
        found.append(Finding(Level.WARNING, "moves", f"{told}, {counted(len(ours), 'move')} open", advice))
    elif ours:
        told = f"nobody drives {counted(len(ours), 'open move')} of journal {journal.place} ({named(sorted(ours))})"
        advice = "`shunter resume` goes on, `shunter rollback` restores, `shunter stop` ends them where they are"
        found.append(Finding(Level.WARNING, "moves", told, advice))
    others = sorted(seen.ongoing.keys() - ours - journal.just_ended)
    endless = {} if journal.claimant else _endless(seen, others)
    if endless:
        told = f"somebody else moves {counted(len(endless), 'partition')} that can't end now ({named(endless)})"
        tp, why = next(iter(endless.items()))
        found.append(Finding(Level.WARNING, "moves", told, f"{tp}: {why}"))
        others = [tp for tp in others if tp not in endless]
    if others:
        told = f"somebody else moves {counted(len(others), 'partition')} ({named(others)})"
        advice = "wait for their end, or adopt them by `shunter execute --take-over`"
        if journal.claimant:
            told = f"{counted(len(others), 'partition')} being moved ({named(others)}), not by this journal"
            advice = f"ask there: {journal.claimant} drives the cluster"
        found.append(Finding(Level.NOTE, "moves", told, advice))
    copies = [f"{copy.tp} {told_copy(copy)}" for copy in seen.copies if copy.tp not in ours]
    if copies:
        told = f"somebody else copies {counted(len(copies), 'replica')} between log dirs of a broker ({'; '.join(copies[:NAMED])})"
        found.append(Finding(Level.NOTE, "moves", told, "wait for their end: `shunter list` shows how they stand"))
    return found


def _endless(seen: CheckUp, tps: Sequence[TopicPartition]) -> dict[TopicPartition, str]:
    """Reassignments of others that can't end now: why, and the way out. Shunter's controller goes around dead brokers."""
    state = ExecutorState()
    state.cluster.ongoing = seen.ongoing
    state.cluster.brokers = {broker.broker: broker.rack for broker in seen.brokers}
    state.cluster.topics = {topic.name: ObservedTopic(None, topic.partitions, topic.min_isr) for topic in seen.topics}
    found = {} if seen.controlled_by == "Shunter" else {tp: hold_up_of_others(state, tp).stuck for tp in tps}
    return {tp: why for tp, why in found.items() if why}


def _throttles(seen: CheckUp, journal: CheckedJournal) -> list[Finding]:
    found: list[Finding] = []
    at_rest = seen.at_rest and not journal.moves
    if journal.owed_to:
        told = f"throttles are owed to {journal.owed_to}"
        found.append(Finding(Level.WARNING, "throttles", told, "`shunter status` says how they are given back"))
    if seen.throttles:
        listed = named(f"{key.kind} {key.name} {key.setting} = {value}" for key, value in seen.throttles)
        if journal.claimant:
            told = f"{counted(len(seen.throttles), 'throttle')} that this journal does not know: {listed}"
            advice = "who drives the cluster under another journal restores its own; look again when that has ended"
            return [*found, Finding(Level.NOTE, "throttles", told, advice)]
        told = f"{counted(len(seen.throttles), 'throttle')} that no execution restores: {listed}"
        level, advice = (Level.WARNING, _FORGOTTEN) if at_rest else (Level.NOTE, _NEEDED)
        found.append(Finding(level, "throttles", told, advice))
    if seen.partial:
        told = f"brokers differ about {counted(len(seen.partial), 'throttle')} of topics: {'; '.join(seen.partial[:NAMED])}"
        advice = "`shunter throttles clear` sets it on every broker, and takes it away again"
        advice = advice if at_rest else f"when nothing moves any more, {advice}"
        found.append(Finding(Level.WARNING, "throttles", told, advice))
    return found


def _clocks(seen: CheckUp) -> list[Finding]:
    if seen.clock_ahead_ms is None:
        return [Finding(Level.NOTE, "clocks", "these brokers don't tell their clocks: look at NTP on each host")]
    seconds = abs(seen.clock_ahead_ms) / 1000
    where = "ahead of" if seen.clock_ahead_ms > 0 else "behind"
    if abs(seen.clock_ahead_ms) >= SKEW_MS:
        told = f"the controller's clock is {seconds:.0f} s {where} this host's"
        return [Finding(Level.WARNING, "clocks", told, "see that NTP runs on both")]
    return [Finding(Level.FINE, "clocks", f"the controller's clock is within {SKEW_MS // 1000} s of this host's")]


def _certificate(seen: CheckUp) -> list[Finding]:
    """Nothing is said of a certificate that is well: most clients have none."""
    fault = seen.certificate
    return [] if fault is None else [Finding(Level.WARNING, "certificate", fault.told, fault.todo)]


_WANTED = (
    ("status, history, execute --dry-run", {"DESCRIBE"}, {"DESCRIBE", "DESCRIBE_CONFIGS"}, set[str]()),
    ("execute, resume, rollback, stop, undo", {"ALTER"}, set[str](), {"READ"}),
    (
        "--throttle, pause, limit, throttles clear",
        {"DESCRIBE_CONFIGS", "ALTER_CONFIGS"},
        {"ALTER_CONFIGS"},
        set[str](),
    ),
)
"""Commands, and the rights that they need beside those of the rows before: on Cluster, Topic, and the claim's Group."""


def _rights(seen: CheckUp) -> list[Finding]:
    if seen.operations is None:
        return [Finding(Level.NOTE, "rights", "these brokers don't tell what we may do")]
    found: list[Finding] = []
    for commands, cluster, topic, group in _WANTED:
        missing = [f"{name} on Cluster" for name in sorted(cluster - seen.operations)]
        for name in sorted(topic):
            lacking = [each.name for each in seen.topics if each.operations is not None and name not in each.operations]
            missing += [f"{name} on Topic {named(lacking)}"] if lacking else []
        if seen.claim_operations is not None:
            missing += [f"{name} on Group shunter-executor" for name in sorted(group - seen.claim_operations)]
        if missing:
            told = f"not allowed for {commands}: {'; '.join(missing)}"
            found.append(Finding(Level.WARNING, "rights", told, "grant them, or leave those commands to others"))
    return found
