"""A controller writes down what brought it down, and the next controller sets that aside; with a fake ZooKeeper."""

import pytest

from shunter.core.controller.events import TopicDeletionsSubmitted
from shunter.core.controller.suspects import Crash, Suspect, SuspectKind, content_of
from shunter.drivers.listener.callers import Callers
from shunter.drivers.zookeeper.crash_guard import CrashGuard, path_of
from shunter.drivers.zookeeper.requests import Create, Znode
from shunter.errors import DriverError, ErrorCode, RequestRejected
from shunter.formats.znodes.crashes import decode_crashes

PATH = "/admin/shunter/crashes"
DELETION = TopicDeletionsSubmitted(("orders",), 7)


class Znodes:
    """A fake of client, store and clock, with one znode."""

    def __init__(self):
        self.data = None
        self.set_aside = {}
        self.clock = None
        self.ms = 1_000_000
        self.failure = None

    def now_ms(self):
        return self.ms

    async def get(self, path):
        assert path == PATH
        if self.failure is not None:
            raise self.failure
        return None if self.data is None else Znode(self.data, 1, 1, 0, 0, 0, 0)

    async def amend(self, decide):
        for operation in await decide():
            assert isinstance(operation, Create) is (self.data is None)
            self.data = operation.data


@pytest.fixture
def znodes():
    return Znodes()


def guard(znodes):
    return CrashGuard(znodes, znodes, znodes)


async def test_a_callers_request_is_refused_until_its_time_is_over(znodes):
    crash = Crash("TopicDeletionsSubmitted#7", "KeyError: 'x'", (Suspect(SuspectKind.CALLER, content_of(DELETION)),))
    await guard(znodes).remember(crash)
    (remembered,) = decode_crashes(znodes.data)
    assert b"orders" not in znodes.data, "a request may hold secrets: only its digest is kept"
    assert remembered.until_ms == znodes.ms + 60_000

    succeeding = guard(znodes)
    await succeeding.recall()
    callers = Callers(lambda event, cause: None)
    callers.refuse = succeeding.refusal
    with pytest.raises(RequestRejected, match=r"not tried again for 60 s.*KeyError") as refused:
        await callers.submit(lambda token: TopicDeletionsSubmitted(("orders",), token), 1_000)
    assert refused.value.error_code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert succeeding.refusal(TopicDeletionsSubmitted(("others",), 7)) is None
    znodes.ms += 60_000
    assert succeeding.refusal(DELETION) is None


async def test_znodes_are_set_aside_and_again_for_longer(znodes):
    suspects = (Suspect(SuspectKind.PARTITION, "a-b-0"), Suspect(SuspectKind.LEGACY, ""))
    await guard(znodes).remember(Crash("BrokersRead#1", "bug", suspects))
    await guard(znodes).remember(Crash("BrokersRead#1", "bug", suspects))
    await guard(znodes).recall()
    assert znodes.set_aside == {
        "/brokers/topics/a-b/partitions/0/state": znodes.ms + 120_000,
        "/admin/reassign_partitions": znodes.ms + 120_000,
    }
    znodes.ms += 120_000
    await guard(znodes).recall()
    assert znodes.set_aside == {}


@pytest.mark.parametrize("data", [b"{", b'{"version":9}'])
async def test_what_can_not_be_read_is_left_alone_and_told(znodes, data, caplog):
    znodes.data = data
    await guard(znodes).recall()
    assert "nothing is set aside" in caplog.text
    await guard(znodes).remember(Crash("cause", "bug", ()))
    assert znodes.data == data


async def test_a_zookeeper_that_refuses_does_not_keep_the_process_from_ending(znodes, caplog):
    znodes.failure = DriverError("refused", retriable=False)
    await guard(znodes).remember(Crash("cause", "bug", ()))
    await guard(znodes).recall()
    assert "could not be written down: refused" in caplog.text


def test_a_suspect_of_a_later_version_is_passed_over():
    assert path_of("cosmic-ray", "x") is None
    assert path_of("partition", "nonsense") is None
