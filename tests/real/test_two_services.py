"""Two services on two hosts keep one cluster: one dies or stands still in mid-drain, and the other goes on with it."""

import os
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from executor_process import Cluster
from live_producer import LiveProducer, fill
from serve_process import OPEN, SERVED, Service

from lab.testbed.failures import PartFailed
from lab.testbed.kraft import KRaftCluster
from lab.testbed.waiting import wait_until
from shunter.app.exit_codes import ExitCode
from shunter.app.service.running import STOP_WITHIN_S
from shunter.core.own_topics import WORDS_TOPIC as TOPIC

pytestmark = [pytest.mark.kraft, pytest.mark.timeout(900)]

PARTITIONS = 6
BROKERS = (1, 2, 3)
POLICY = SERVED.partition("[cluster.away]")[0].replace('journal = "moves.journal"', 'journal-topic = "__moves"') + (
    '[cluster.yard.conditions.drain]\ndo = "act"\n\n[service]\nlook-seconds = 2\n'
)


@pytest.fixture
def services(kraft: KRaftCluster, tmp_path: Path) -> Iterator[tuple[Service, Service]]:
    """Two services, each with a state folder and a journal's place as on a host of its own."""
    made = []
    for name in ("a", "b"):
        folder = tmp_path / name
        folder.mkdir()
        text = POLICY.format(bootstrap=kraft.bootstrap)
        (folder / "keeper.toml").write_text(
            text.replace("replicas-band", "throttles-left = { minutes = 0 }\nreplicas-band")
        )
        made.append(Service(folder, folder / "host"))
    yield made[0], made[1]
    for each in made:
        each.close()


def state(service: Service) -> str:
    rows = service.rows("status")
    return str(rows[0]["state"]) if rows else ""


def paused_by(service: Service) -> str:
    return str(service.rows("status")[0]["paused"])


def gives(service: Service, *words: str) -> None:
    """Give an order until it is taken."""
    said: list[str] = []

    def taken() -> bool:
        done = service.ask(*words)
        said.append(done.stderr + done.stdout)
        return done.returncode == ExitCode.DONE

    try:
        wait_until(taken, what=f"{words} is taken", timeout_s=90)
    except PartFailed as error:
        assert service.process is not None
        told = (
            said[-1],
            service.ask("status").stdout,
            service.ask("events").stdout[-3000:],
            service.process.errors[-20:],
        )
        raise AssertionError(told) from error


def holds_of(cluster: Cluster, broker: int) -> int:
    return sum(broker in each for each in cluster.replicas("tilted").values())


def drains_of(service: Service) -> list[tuple[str, str]]:
    return [(row["state"], row["outcome"]) for row in service.proposals() if row["scope"] == "drain"]


def test_a_drain_and_a_switch_outlive_the_service_that_got_them(
    kraft: KRaftCluster, services: tuple[Service, Service]
) -> None:
    a, b = services
    with closing(Cluster(kraft.bootstrap)) as cluster:
        cluster.make("tilted", dict.fromkeys(range(PARTITIONS), (1, 2)))
        fill(kraft.bootstrap, "tilted", PARTITIONS, 1_000_000, held_back=True)
        wait_until(lambda: cluster.in_sync("tilted"), what="all are in sync", timeout_s=60)
        with LiveProducer(kraft.bootstrap, "tilted", PARTITIONS, every_s=0.02) as producer:
            a.start()
            gives(a, "intend", "drain", "2")
            wait_until(lambda: cluster.ongoing() > 0, what="it moves", timeout_s=90)
            b.start()
            wait_until(lambda: state(b) == "standby", what="B stands by", timeout_s=60)
            refused = b.ask("withdraw", "drain", "2")
            assert refused.returncode != 0, "B has no say while A drives"
            assert a.ask("pause").returncode == 0
            wait_until(lambda: bool(paused_by(b)), what="B knows of A's switch", timeout_s=60)

            assert a.process is not None
            a.process.kill()
            wait_until(lambda: state(b) == "ok", what="B has taken over", timeout_s=120)
            assert paused_by(b), "the switch of A holds"
            assert not any(each["kind"] == "not-driven" for each in b.rows("events")), b.rows("events")
            kinds = {row["kind"] for row in b.rows("events")}
            assert {"intend", "proposed", "pause-all", "driver"} <= kinds, "B tells what A did, and who drives"
            drains = [row for row in b.proposals() if row["scope"] == "drain"]
            assert [row["state"] for row in drains] == ["running"], "it is A's proposal"

            a.start()
            wait_until(lambda: state(a) == "standby" and bool(paused_by(a)), what="A is a standby of it", timeout_s=60)
            gives(b, "resume")
            gives(b, "limit", "none")
            wait_until(lambda: holds_of(cluster, 2) == 0, what="broker 2 is drained", timeout_s=180)
            wait_until(
                lambda: not any(state in OPEN for state, _ in drains_of(b)), what="the drain ended", timeout_s=60
            )
            told = drains_of(b)
            # Topics of the cluster's own may have as many replicas as there are brokers, which no drain can change.
            assert len(told) == 1, told
            assert told[0][0] in ("done", "partly"), told

            stands_still(a, b, cluster)
        assert producer.failures == []
        assert producer.missing() == {}
        told = [(row["kind"], row["subject"]) for row in [*a.rows("events"), *b.rows("events")]]
        assert not any("throttles-left" in subject for _kind, subject in told), told
        assert cluster.throttles(BROKERS, ("tilted",)) == {}
        cluster.admin.delete_topics(["tilted", "__moves"])


def stands_still(a: Service, b: Service, cluster: Cluster) -> None:
    """B stands still until A has taken over; when it goes on, it can't write, and stands by."""
    assert b.process is not None
    os.kill(b.process.process.pid, signal.SIGSTOP)
    try:
        wait_until(lambda: state(a) == "ok", what="A has taken over", timeout_s=180)
        gives(a, "intend", "freeze-topic", "payments")
    except PartFailed as error:
        raise AssertionError((a.rows("status"), a.ask("events").stdout[-2000:])) from error
    finally:
        os.kill(b.process.process.pid, signal.SIGCONT)
    paused = b.ask("pause")
    assert paused.returncode != ExitCode.DONE, "it is not called done where it is not carried out"
    assert "not taken" in paused.stdout + paused.stderr or "give the order there" in paused.stdout + paused.stderr
    wait_until(lambda: state(b) == "standby", what="B stands by", timeout_s=120)
    assert not any(row["kind"] == "pause-not-sent" for row in b.rows("events")), (
        "nothing was taken that was then dropped"
    )
    assert not paused_by(a)
    assert b.ask("withdraw", "drain", "2").returncode != ExitCode.DONE
    assert holds_of(cluster, 2) == 0, "nobody refills the broker"
    assert TOPIC in cluster.admin.list_topics()
    told = str(a.rows("status")[0])
    assert "not driven" not in told, told
    assert "this host alone" not in told, told


def test_a_service_that_is_told_to_end_ends_though_its_cluster_is_gone(tmp_path: Path) -> None:
    """An SRE's find: a service whose brokers were all down lived on for more than a minute after SIGTERM."""
    with KRaftCluster(tmp_path / "k", node_ids=(1,)) as alone:
        (tmp_path / "keeper.toml").write_text(POLICY.format(bootstrap=alone.bootstrap))
        service = Service(tmp_path, tmp_path / "host")
        service.start()
        wait_until(lambda: state(service) == "ok", what="the cluster is driven", timeout_s=120)
        alone.nodes[1].kill()
        assert service.process is not None
        service.process.process.terminate()
        assert service.process.end(STOP_WITHIN_S + 10) == ExitCode.DONE
