"""Orders and answers in the journal's topic: withdrawn by any shell, and deleted when nobody waits for them any more."""

import pytest
from kafka import errors as kafka_errors

from lab.simulation.executor.topic import JournalTopic
from lab.simulation.scheduler import Scheduler
from shunter.drivers.journal.journals import ANSWER_WITHIN_S, LEASE_MS, JournalFenced, JournalForsaken, Presence
from shunter.drivers.journal.topic import ANSWERS_KEPT_MS, TopicJournal
from shunter.errors import DriverError

NOW = 1_000_000
STOP = {"kind": "stop"}
LATER = NOW + ANSWERS_KEPT_MS


@pytest.fixture
def topic() -> JournalTopic:
    return JournalTopic(Scheduler(1), lambda _entry: None)


def opened(topic: JournalTopic, owner: str) -> TopicJournal:
    return topic.journal(owner, Presence(owner, 1, lambda _process: True))


def driving(topic: JournalTopic, owner: str = "driver", now_ms: int = NOW) -> TopicJournal:
    driver = opened(topic, owner)
    driver.acquire(now_ms)
    return driver


def kept(topic: JournalTopic) -> set[str]:
    """The keys that compaction leaves in the end."""
    last = {record.key.decode(): record.value for record in topic.committed()}
    return {key.partition("-")[0] for key, value in last.items() if value is not None}


def answered(topic: JournalTopic, driver: TopicJournal) -> tuple[TopicJournal, int]:
    """Return a shell, and the number of its order, which was answered."""
    shell = opened(topic, "shell")
    number = shell.order("command", STOP, NOW)
    assert [order.number for order in driver.orders()] == [number]
    driver.answer(number, "done")
    assert driver.orders() == ()
    return shell, number


def test_a_shell_withdraws_an_order_that_it_did_not_send_itself(topic: JournalTopic) -> None:
    number = opened(topic, "shell").order("command", STOP, NOW)
    assert opened(topic, "other").withdraw(number, NOW)
    assert opened(topic, "driver").orders() == ()
    assert not opened(topic, "third").withdraw(number, NOW)


def test_an_answer_is_deleted_when_no_shell_waits_for_it_any_more(topic: JournalTopic) -> None:
    driver = driving(topic)
    shell, number = answered(topic, driver)
    driver.orders()
    driver.renew(NOW)
    driver.renew(LATER - 1)
    assert ANSWERS_KEPT_MS > 2 * ANSWER_WITHIN_S * 1000
    assert shell.answer_to(number) == "done"
    driver.renew(LATER)
    assert shell.answer_to(number) is None
    assert kept(topic) == {"lease"}
    assert opened(topic, "reader").orders() == ()
    written = topic.end
    driver.renew(LATER + 1)
    assert topic.end == written + 2, "the lease, and the end of its transaction"


def test_the_next_executor_deletes_what_the_former_one_left_and_a_fenced_one_deletes_nothing(
    topic: JournalTopic,
) -> None:
    """As versions before this one did, the former executor answers and deletes nothing."""
    former = driving(topic)
    shell, number = answered(topic, former)
    former.renew(NOW)
    successor = driving(topic, "successor", LATER)
    with pytest.raises(JournalFenced, match="another executor took it over"):
        former.renew(LATER)
    successor.renew(LATER)
    assert shell.answer_to(number) == "done", "by the successor's clock, a shell may wait for it since this moment"
    successor.renew(LATER + ANSWERS_KEPT_MS)
    assert shell.answer_to(number) is None
    assert kept(topic) == {"lease"}


def test_a_fenced_executor_knows_whether_anybody_drives_now(topic: JournalTopic) -> None:
    former = driving(topic)
    successor = driving(topic, "successor", NOW + LEASE_MS)
    with pytest.raises(JournalFenced, match="is driven by process 1 on successor"):
        former.check()
    successor.release()
    for lost in (former.check, lambda: former.renew(NOW + LEASE_MS)):
        with pytest.raises(JournalForsaken, match="no executor has it any more"):
            lost()


def test_a_clock_that_was_set_back_does_not_keep_answers(topic: JournalTopic) -> None:
    driver = driving(topic)
    shell, number = answered(topic, driver)
    driver.orders()
    driver.renew(NOW + 100 * ANSWERS_KEPT_MS)
    driver.renew(NOW)
    driver.renew(LATER)
    assert shell.answer_to(number) is None


def test_an_order_is_deleted_though_the_first_answer_failed(
    topic: JournalTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver, shell = driving(topic), opened(topic, "shell")
    number = shell.order("command", STOP, NOW)
    driver.orders()

    def refuse() -> None:
        raise kafka_errors.NotEnoughReplicasError

    with monkeypatch.context() as patched:
        patched.setattr(topic, "guard", refuse)
        with pytest.raises(DriverError, match="NotEnoughReplicas"):
            driver.answer(number, "done")
    driver.answer(number, "done")
    assert shell.answer_to(number) == "done"
    assert kept(topic) == {"answer", "lease"}
