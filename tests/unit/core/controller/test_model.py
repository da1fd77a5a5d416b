"""Random operators, brokers and failovers against the machine: safe after every step, and everything ends."""

import os

import hypothesis.strategies as st
from harness import Harness
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from shunter.core.controller.events import TopicDeletionsSubmitted
from shunter.model.partition import TopicPartition
from shunter.model.reassignment import Intervention, Phase, Strategy

BROKERS = (1, 2, 3, 4, 5)
replicas = st.lists(st.sampled_from(BROKERS), min_size=1, max_size=3, unique=True).map(tuple)
partitions = st.sampled_from([("t", 0), ("t", 1), ("u", 0), ("u", 1)])


class Yard(RuleBasedStateMachine):
    """A cluster in trouble. Every rule is an accident, or an order of an operator."""

    @initialize(
        strategy=st.sampled_from(Strategy),
        slices=st.sampled_from([1, 2, 500]),
        bound=st.sampled_from([0, 1]),
        roll_back=st.sampled_from([0, 60_000]),
    )
    def begin(self, strategy, slices, bound, roll_back):
        self.world = Harness(
            brokers=BROKERS,
            strategy=strategy,
            slice_partitions=slices,
            max_concurrent=bound,
            relax_after_ms=60_000,
            roll_back_after_ms=roll_back,
        ).start()
        self.world.create("t", [(1, 2, 3), (2, 3, 4)])
        self.world.create("u", [(3, 4, 5), (1,)])
        self.token = 1000
        self.originals = {}

    def next_token(self):
        self.token += 1
        return self.token

    def moving(self, tp):
        move = self.world.machine.state.reassignments.get(TopicPartition(*tp))
        return move is not None and move.phase is not Phase.DROPPING

    def exists(self, tp):
        return self.world.state(tp) is not None and tp[0] not in self.world.machine.state.deleting

    @rule(tp=partitions, wanted=replicas, strategy=st.sampled_from([None, *Strategy]))
    def submit(self, tp, wanted, strategy):
        token = self.next_token()
        before = self.world.replicas(tp) if self.exists(tp) else None
        was_moving = self.moving(tp)
        self.world.reassign({tp: wanted}, token=token, strategy=strategy)
        self.world.pass_time(20_000)
        if not was_moving and token in self.world.replies and self.world.result(token)[tp] == "NONE":
            self.originals[tp] = before

    @rule(tp=partitions, mode=st.sampled_from([None, *Intervention]))
    def cancel(self, tp, mode):
        self.world.reassign({tp: None}, token=self.next_token(), intervention=mode)

    @rule(tp=partitions, data=st.data())
    def isr_changes(self, tp, data):
        if not self.exists(tp):
            return
        state = self.world.state(tp)
        if state.leadership is None or state.leadership.leader not in self.world.live:
            return
        live = [id_ for id_ in state.assignment.replicas if id_ in self.world.live]
        isr = data.draw(st.lists(st.sampled_from(live), unique=True, min_size=1))
        if state.leadership.leader in isr:
            self.world.propose(tp, tuple(isr))

    @rule(id_=st.sampled_from(BROKERS))
    def dies(self, id_):
        if id_ in self.world.live and len(self.world.live) > 2:
            self.world.kill(id_)

    @rule(id_=st.sampled_from(BROKERS))
    def returns(self, id_):
        if id_ not in self.world.live:
            self.world.revive(id_)
        else:
            self.world.bounce(id_)

    @rule(id_=st.sampled_from(BROKERS))
    def falls_silent(self, id_):
        self.world.silent.add(id_)

    @rule()
    def answers(self):
        self.world.answer_all()

    @rule(ms=st.sampled_from([10, 1_000, 20_000, 120_000]))
    def time_passes(self, ms):
        self.world.pass_time(ms)

    @rule()
    def holds_writes(self):
        self.world.hold_writes = True

    @rule()
    def releases_writes(self):
        self.world.release_writes()

    @rule()
    def fails_over(self):
        self.world.fail_over()

    @rule(tp=partitions, wanted=replicas)
    def somebody_else_writes_a_state(self, tp, wanted):
        known = self.world.store.states.get(TopicPartition(*tp))
        if known is not None and not self.world.held_batches:
            self.world.store.states[TopicPartition(*tp)] = known._replace(partition_epoch=known.partition_epoch + 1)

    @precondition(lambda self: self.world.store.legacy is None)
    @rule(tp=partitions, wanted=replicas)
    def legacy_znode(self, tp, wanted):
        self.world.write_legacy({tp: wanted})

    @rule(tp=partitions, wanted=replicas)
    def extra_znode(self, tp, wanted):
        known = self.world.store.extra
        self.world.write_extra({**(known.targets if known is not None else {}), tp: wanted})

    @rule(tps=st.sets(partitions, min_size=1), wanted=replicas, legacy=st.booleans())
    def request_znode(self, tps, wanted, legacy):
        self.world.write_request(dict.fromkeys(sorted(tps), wanted), legacy=legacy)

    @precondition(lambda self: self.world.store.cancel is None)
    @rule()
    def cancel_znode(self):
        self.world.write_cancel()

    @precondition(lambda self: self.world.store.cancel is not None)
    @rule()
    def cancel_znode_goes(self):
        self.world.remove_cancel()

    @rule(name=st.sampled_from(["u"]))
    def topic_goes(self, name):
        self.world.feed(TopicDeletionsSubmitted((name,), self.next_token()))
        self.originals = {tp: value for tp, value in self.originals.items() if tp[0] != name}

    @invariant()
    def safe(self):
        if hasattr(self, "world"):
            self.world.check()

    def teardown(self):
        """Phase two: nothing fails any more, and everything ends."""
        if not hasattr(self, "world"):
            return
        world = self.world
        world.release_writes()
        if world.store.cancel is not None:
            world.remove_cancel()
        for id_ in BROKERS:
            if id_ not in world.live:
                world.revive(id_)
        world.answer_all()
        # Only now: a change that was paused while it waited for a silent broker is accepted when that broker answers.
        paused = [tp for tp, move in world.machine.state.reassignments.items() if move.phase is Phase.PAUSED]
        world.reassign(dict.fromkeys(paused), token=self.next_token(), intervention=Intervention.RESUME)
        world.pass_time(1_000_000)
        for _ in range(8):
            world.catch_up_all()
            world.pass_time(1_000_000)
        state = world.machine.state
        told = {tp: (move, world.machine.state.waiting.get(tp)) for tp, move in state.reassignments.items()}
        assert not state.reassignments, told
        assert not world.store.reassignments
        assert world.store.legacy is None
        assert world.store.extra is None
        assert not world.store.requests
        assert not world.store.owed, world.store.owed
        assert not world.store.deleting
        assert not world.machine.outbox.unanswered
        for topic in world.store.topics.values():
            for number, assignment in topic.assignments.items():
                tp = TopicPartition(topic.name, number)
                assert not assignment.in_motion, tp
                assert world.store.states[tp].target_replicas is None, tp
                for id_ in BROKERS:
                    hosts = tp in world.hosted.get(id_, {})
                    assert hosts == (id_ in assignment.replicas), (tp, id_, hosts, assignment)


TestYard = Yard.TestCase
TestYard.settings = settings(
    max_examples=int(os.environ.get("SHUNTER_MODEL_EXAMPLES", "100")),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
