"""What `shunter controller --check` makes of what it found: each finding names the value, the rule and the way out."""

from dataclasses import replace

import pytest

from shunter.core.controller_check import BrokerFound, Cause, Facts, ListenerFault, WayBack, findings
from shunter.model.check_up import Level
from shunter.model.security.listeners import CertificateFault, FaultKind
from shunter.model.settings import ControllerSettings

SETTINGS = {
    "inter.broker.listener.name": "INTERNAL",
    "inter.broker.protocol.version": "3.9-IV0",
    "num.partitions": "1",
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "unclean.leader.election.enable": "false",
    "delete.topic.enable": "true",
    "auto.leader.rebalance.enable": "true",
    "leader.imbalance.per.broker.percentage": "10",
}
OURS = ControllerSettings(1000)
ACLS = "kafka.security.authorizer.AclAuthorizer"


def broker(number, rack=None, unreachable=None, settings=None, **changed):
    known = {**SETTINGS, **{name.replace("__", "."): value for name, value in changed.items()}, **(settings or {})}
    return BrokerFound(number, f"kafka{number}:9092", rack, unreachable, None if unreachable else known)


GOOD = Facts(
    listeners=("INTERNAL",),
    hosts=("10.0.0.5",),
    brokers=(broker(1), broker(2), broker(3)),
    topics=2,
    partitions=7,
)


def bad(facts, settings=OURS):
    return [finding for finding in findings(facts, settings) if finding.level is not Level.FINE]


def test_a_cluster_that_is_ready_has_nothing_in_the_way():
    assert bad(GOOD) == []
    told = [finding.text for finding in findings(GOOD, OURS)]
    assert "3 of 3 brokers answer us" in told
    assert "2 topics with 7 partitions can be read" in told


@pytest.mark.parametrize("address", ["localhost:9092", "127.0.0.1:9092", "::1:9092", "[::1]:9092"])
def test_brokers_of_this_machine_find_a_controller_on_the_loopback(address):
    facts = replace(GOOD, hosts=("127.0.0.1",), brokers=(broker(1)._replace(address=address),))
    assert bad(facts) == []


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "LocalHost"])
@pytest.mark.parametrize("address", ["127.example.com:9092", "localhost.example.com:9092"])
def test_a_broker_whose_name_only_begins_like_the_loopback_is_on_another_machine(host, address):
    facts = replace(GOOD, hosts=(host,), brokers=(broker(1)._replace(address=address),))
    (found,) = bad(facts)
    assert "brokers such as 1 are on other machines" in found.text


WAY = WayBack("INTERNAL", "shunter", 9090, ("10.0.0.5",))


def test_what_can_be_seen_of_the_brokers_way_to_us_is_not_taken_for_more():
    facts = replace(GOOD, ways_back=(WAY,), brokers=(broker(1)._replace(sees_us_at="10.0.0.5"),))
    assert bad(facts) == []
    (told,) = [finding for finding in findings(facts, OURS) if finding.check == "way back"]
    assert "whether brokers reach INTERNAL://shunter:9090 can't be seen from here" in told.text
    assert "nc -vz shunter 9090" in told.advice


def certificate(kind, *, by_brokers=True):
    fault = CertificateFault(kind, "its certificate (CN=x) is bad", "renew it")
    return replace(GOOD, certificates=(ListenerFault("INTERNAL", fault, by_brokers),))


PROBLEMS = {
    "certificate": (certificate(FaultKind.UNUSABLE), "listener INTERNAL: its certificate (CN=x) is bad"),
    "certificate of another authority": (certificate(FaultKind.UNTRUSTED), "listener INTERNAL: its certificate"),
    "certificate for another host": (certificate(FaultKind.OTHER_HOST), "listener INTERNAL: its certificate"),
    "taken port": (replace(GOOD, closed_listeners=("INTERNAL://:9090 can't be opened",)), "can't be opened"),
    "loopback": (replace(GOOD, hosts=("localhost",)), "brokers such as 1 are on other machines"),
    "migration": (replace(GOOD, kraft="/migration is there"), "/migration is there"),
    "broker id": (replace(GOOD, id_taken="a broker has the id 1000"), "a broker has the id 1000"),
    "no brokers": (replace(GOOD, brokers=()), "no broker is registered"),
    "nobody answers": (replace(GOOD, brokers=(broker(1, unreachable="refused"),)), "broker 1 at kafka1:9092: refused"),
    "listener": (
        replace(GOOD, listeners=("PLAINTEXT",)),
        "brokers 1, 2, 3 look for their controller on a listener INTERNAL",
    ),
    "control plane": (
        replace(GOOD, brokers=(broker(1, control__plane__listener__name="CONTROL"),)),
        "on a listener CONTROL",
    ),
    "rights": (replace(GOOD, refused=(("/brokers/topics", "create children"),)), "does not let us create children"),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_an_obstacle_names_its_way_out(name):
    facts, told = PROBLEMS[name]
    problems = [finding for finding in bad(facts) if finding.level is Level.PROBLEM]
    assert [told in finding.text for finding in problems] == [True]
    assert problems[0].advice


WARNINGS = {
    "certificate for clients": (certificate(FaultKind.UNUSABLE, by_brokers=False), "(CN=x) is bad", "renew it"),
    "doubtful certificate": (certificate(FaultKind.DOUBTFUL), "(CN=x) is bad", "renew it"),
    "certificate that expires soon": (certificate(FaultKind.EXPIRES), "(CN=x) is bad", "renew it"),
    "listener of clients": (
        replace(GOOD, brokers=(broker(1)._replace(listeners=("INTERNAL", "OUTSIDE")),)),
        "clients that come to brokers 1 by listener OUTSIDE would not see the controller",
        "--listener OUTSIDE://HOST:PORT as well, or have tools bootstrap by INTERNAL",
    ),
    "controller": (replace(GOOD, controller="broker 2"), "broker 2 leads now", "--takeover preempt"),
    "one broker": (replace(GOOD, brokers=(broker(1), broker(2, unreachable="refused"))), "broker 2 at", "open the way"),
    "no address": (replace(GOOD, ways_back=(WAY._replace(addresses=()),)), "has no address", "advertised_listener"),
    "not reached by ourselves": (
        replace(GOOD, ways_back=(WAY._replace(unreached="refused"),)),
        "could not connect to shunter:9090 from this machine: refused",
        "advertised_listener",
    ),
    "another address": (
        replace(GOOD, ways_back=(WAY,), brokers=(broker(1), broker(2)._replace(sees_us_at="10.9.9.9"))),
        "brokers 2 see us come from 10.9.9.9, and would look for us at shunter:9090",
        "advertised_listener",
    ),
    "silent": (
        replace(GOOD, brokers=(broker(1), BrokerFound(2, "kafka2:9092"))),
        "brokers 2 do not tell",
        "DescribeConfigs",
    ),
    "racks": (replace(GOOD, brokers=(broker(1, rack="a"), broker(2))), "brokers 2 have no rack", "broker.rack"),
    "versions": (
        replace(GOOD, brokers=(broker(1), broker(2, inter__broker__protocol__version="2.8"))),
        "brokers differ: 2.8 on 2; 3.9-IV0 on 1",
        "alike",
    ),
    "default": (
        replace(GOOD, brokers=(broker(1, min__insync__replicas="2"),)),
        "the brokers have 2, and Shunter would decide by 1",
        "set default_min_isr=2",
    ),
    "flag": (
        replace(GOOD, brokers=(broker(1, delete__topic__enable="false"),)),
        "Shunter would decide by true",
        "set delete_topics=false",
    ),
    "policy": (
        replace(GOOD, brokers=(broker(1, create__topic__policy__class__name="com.example.Policy"),)),
        "brokers 1 have one",
        "topic_policy_",
    ),
    "authorizer": (
        replace(GOOD, brokers=(broker(1, authorizer__class__name=ACLS),)),
        "brokers 1 have one",
        "no authorizer: name a broker's file that has one with --server-properties",
    ),
    "another authorizer": (
        replace(
            GOOD,
            authorizes=True,
            brokers=(broker(1, authorizer__class__name=ACLS), broker(2, authorizer__class__name="x.Y")),
        ),
        "brokers 2 have another than AclAuthorizer",
        "compare what theirs allows",
    ),
    "unreadable": (replace(GOOD, unreadable=(("/brokers/topics/t", "no JSON"),)), "can't be read: no JSON", "mend"),
    "large": (replace(GOOD, largest=("/brokers/topics/t", 900_000)), "has 900000 bytes", "no more partitions"),
    "without replicas": (
        replace(GOOD, without_replicas=("t-1", "t-2")),
        "2 partitions have no replicas: nobody can read or write there (t-1, t-2)",
        "delete the topic",
    ),
    "moves": (
        replace(GOOD, moves=("t-1", "t-2")),
        "2 partitions are being moved: Shunter would go on with them (t-1, t-2)",
        "wait",
    ),
    "requests": (replace(GOOD, requests=("/admin/reassign_partitions",)), "asked for moves in", "take them over"),
}


@pytest.mark.parametrize("name", WARNINGS)
def test_a_warning_is_no_obstacle_and_says_what_to_do(name):
    facts, told, todo = WARNINGS[name]
    (finding,) = bad(facts)
    assert finding.level is Level.WARNING
    assert told in finding.text
    assert todo in finding.advice


def test_the_authorizer_that_we_have_too_is_no_finding():
    facts = replace(GOOD, authorizes=True, brokers=(broker(1, authorizer__class__name=ACLS),))
    assert bad(facts) == []


@pytest.mark.parametrize("cause", Cause)
def test_the_way_out_goes_with_the_cause(cause):
    """A wrong password was told to be mended by a plaintext listener."""
    facts = replace(GOOD, brokers=(broker(1), broker(2, unreachable="refused")._replace(cause=cause)))
    (finding,) = bad(facts)
    named = {
        Cause.NO_LISTENER: "PLAINTEXT listener",
        Cause.NETWORK: "open the way",
        Cause.CLOSED: "listener.security.protocol.map",
        Cause.LOGIN: "password in the sasl.jaas.config",
        Cause.ITS_CERTIFICATE: "into the ssl.truststore of --server-properties",
        Cause.ITS_HOST: "a certificate for that host",
        Cause.OUR_CERTIFICATE: "broker's ssl.truststore",
    }
    assert [word for word in named.values() if word in finding.advice] == [named[cause]]


def test_problems_come_first_and_long_lists_are_cut():
    many = tuple(broker(number, min__insync__replicas="2") for number in range(1, 13))
    found = findings(replace(GOOD, brokers=many, listeners=("PLAINTEXT",)), OURS)
    assert [finding.level for finding in found] == sorted((f.level for f in found), key=list(Level).index, reverse=True)
    assert "brokers 1, 2, 3, 4, 5, 6, 7, 8 and 4 more look" in found[0].text


def test_a_dynamic_default_of_the_cluster_is_ours_as_well():
    facts = replace(
        GOOD, brokers=(broker(1, min__insync__replicas="2"),), dynamic_defaults={"min.insync.replicas": "2"}
    )
    assert not bad(facts)
    (finding,) = bad(replace(facts, dynamic_defaults={"min.insync.replicas": "3"}))
    assert "would decide by 3" in finding.text


def test_a_chroot_without_a_cluster_is_told_as_that():
    """`/cluster/id can't be read: is empty` misled: nobody has to mend that znode."""
    facts = replace(GOOD, brokers=(), unreadable=(("/cluster/id", "is empty"),))
    (finding,) = bad(facts)
    assert finding.text.startswith("no broker is registered in this ZooKeeper, and there is no /cluster/id")
    assert finding.text.endswith("the chroot does not look like a Kafka cluster's")
