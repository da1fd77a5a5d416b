"""kafka-reassign-partitions' command line, the order in which Java walks its sets, and its throttles."""

from collections.abc import Mapping

import pytest

from shunter.app.drop_in.options import UsageError, ValueRefused, VersionAsked, parse, usage
from shunter.app.drop_in.throttles import ThrottleRefused, change_throttles
from shunter.core.throttles import LEADER_RATE, LEADER_REPLICAS
from shunter.drivers.admin.blocking import LiveNode
from shunter.model.execution import ThrottleKey

AT = ("--bootstrap-server", "h:1")
LIST = ThrottleKey("topic", "t", LEADER_REPLICAS)
RATES = [ThrottleKey("broker", name, LEADER_RATE) for name in "12"]
WANTED: dict[ThrottleKey, str | None] = {LIST: "0:1", RATES[0]: "5", RATES[1]: "5"}


def test_values_are_given_in_both_ways_and_with_one_dash_or_two():
    options = parse(("--bootstrap-server=h:1", "-execute", "--reassignment-json-file", "p.json", "-throttle", "5"))
    assert options.action == "execute"
    assert options.value("bootstrap-server") == "h:1"
    assert options.value("reassignment-json-file") == "p.json"
    assert options.number("throttle") == 5
    assert options.number("timeout") == 10_000


def test_what_stands_behind_an_option_with_a_value_is_its_value():
    options = parse((*AT, "--generate", "--broker-list", "--5", "--topics-to-move-json-file="))
    assert options.value("broker-list") == "--5"
    assert options.value("topics-to-move-json-file") == ""


def test_words_that_are_no_option_are_passed_over_and_so_is_what_follows_two_dashes():
    assert parse((*AT, "-", "word", "--list", "--", "--verify")).given.keys() == {"bootstrap-server", "list"}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (("5", "6"), "Found multiple arguments for option throttle, but you asked for only one"),
        (("5", "x"), "Cannot parse argument 'x' of option throttle"),
        (("much",), "Cannot parse argument 'much' of option throttle"),
        (("9223372036854775808",), "Cannot parse argument '9223372036854775808' of option throttle"),
    ],
)
def test_a_value_is_looked_at_when_it_is_used(given, told):
    words = [word for value in given for word in ("--throttle", value)]
    options = parse((*AT, "--execute", "--reassignment-json-file", "p", *words))
    with pytest.raises(ValueRefused) as refused:
        options.number("throttle")
    assert str(refused.value) == told


def test_the_version_is_told_before_anything_is_judged():
    with pytest.raises(VersionAsked):
        parse(("--version", "--list", "--verify"))


def test_the_help_shows_what_options_take_and_their_defaults():
    told = " ".join(usage().split())
    assert "--throttle <Long: throttle>" in told
    assert "(default: 10000)" in told
    assert '{"topics": [{"topic": "foo"},{"topic": "foo1"}], "version":1}' in told


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "This tool helps to move topic partitions between replicas."),
        ((*AT, "--help"), "This tool helps to move topic partitions between replicas."),
        (AT, "Command must include exactly one action: --generate, --execute, --verify, --cancel, --list"),
        (
            (*AT, "--list", "--verify"),
            "Command must include exactly one action: --generate, --execute, --verify, --cancel, --list",
        ),
        (("--list",), "Please specify --bootstrap-server"),
        ((*AT, "--execute"), 'Missing required argument "[reassignment-json-file]"'),
        ((*AT, "--list", "--throttle", "5"), 'Option "[throttle]" can\'t be used with action "[list]"'),
        ((*AT, "--nonsense"), "nonsense is not a recognized option"),
        ((*AT, "--list", "--timeout"), "Option timeout requires an argument"),
        ((*AT, "--exec"), "exec is not a recognized option"),
        ((*AT, "-x5"), "x is not a recognized option"),
        ((*AT, "--cancel-all", "--stop", "--rollback"), "--stop and --rollback exclude each other"),
        ((*AT, "--remove-cancel"), 'Missing required argument "[zookeeper]"'),
    ],
)
def test_what_is_wrong_is_said_as_apaches_tool_says_it(arguments, told):
    with pytest.raises(UsageError) as refused:
        parse(arguments)
    assert str(refused.value) == told


BY = ("--zookeeper", "h:2181")
PLAN = ("--reassignment-json-file", "p")


@pytest.mark.parametrize(
    ("arguments", "refused"),
    [
        (("--execute", *PLAN, "--throttle", "5000"), "throttle"),
        (("--execute", *PLAN, "--replica-alter-log-dirs-throttle", "5000"), "replica-alter-log-dirs-throttle"),
        (("--execute", *PLAN, "--timeout", "5000"), "timeout"),
        (("--execute", *PLAN, "--additional"), "additional"),
        (("--execute", *PLAN, "--incremental"), "incremental"),
        (("--execute", *PLAN, "--cancel-others"), "cancel-others"),
        (("--execute", *PLAN, "--rollback"), "rollback"),
        (("--cancel", "--stop"), "stop"),
        (("--cancel", "--timeout", "5"), "timeout"),
        (("--list", "--command-config", "c"), "command-config"),
    ],
)
def test_what_zookeeper_can_not_carry_out_is_refused_and_not_passed_over(arguments, refused):
    with pytest.raises(UsageError) as told:
        parse((*BY, *arguments))
    action = arguments[0]
    assert str(told.value) == (
        f"--{refused} can't be carried out through --zookeeper with {action}: use --bootstrap-server"
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ("--execute", *PLAN),
        ("--execute-extra", *PLAN),
        ("--cancel", "--rollback"),
        ("--cancel", "--preserve-throttles"),
        ("--verify", *PLAN, "--preserve-throttles"),
        ("--verify-extra", *PLAN),
        ("--list", "--json"),
        ("--remove-cancel",),
    ],
)
def test_what_zookeeper_can_carry_out_is_taken(arguments):
    assert parse((*BY, *arguments)).action == arguments[0][2:]


@pytest.mark.parametrize("action", ["--cancel-all", "--generate", "--generate-extra"])
def test_actions_that_need_a_broker_say_so(action):
    more = () if action == "--cancel-all" else ("--topics-to-move-json-file", "t", "--broker-list", "1,2")
    with pytest.raises(UsageError, match=f"{action} can't be carried out through --zookeeper"):
        parse((*BY, action, *more))


def test_one_way_to_the_cluster_is_named():
    with pytest.raises(UsageError, match="exclude each other"):
        parse((*AT, *BY, "--list"))


@pytest.mark.parametrize("word", ["--stop", "--rollback"])
def test_a_word_about_cancels_is_refused_where_nothing_is_cancelled(word):
    with pytest.raises(UsageError, match="--execute cancels only with --incremental"):
        parse((*AT, "--execute", *PLAN, word))
    assert parse((*AT, "--execute", *PLAN, "--cancel-others", word)).action == "execute"
    assert parse((*AT, "--execute", *PLAN, "--incremental", word)).action == "execute"


def test_a_cancel_by_zookeeper_needs_no_file():
    assert parse(("--zookeeper", "h:2181", "--cancel")).action == "cancel"


class Cluster:
    """Brokers that keep what they are told; some settings are refused, some brokers die when they are asked."""

    def __init__(self, live: set[int], refuses: Mapping[ThrottleKey, str], dying: frozenset[int] = frozenset()) -> None:
        self.live, self.refuses, self.dying = live, refuses, dying
        self.written: dict[ThrottleKey, str | None] = {}

    def nodes(self) -> tuple[LiveNode, ...]:
        return tuple(LiveNode(broker, None) for broker in sorted(self.live))

    def write_settings(self, settings: Mapping[ThrottleKey, str | None]) -> dict[ThrottleKey, str]:
        refused = {key: why for key, why in self.refuses.items() if key in settings}
        for key, value in settings.items():
            if key.kind == "broker" and int(key.name) in self.dying:
                self.live.discard(int(key.name))
                refused[key] = "it did not answer"
            elif key not in refused:
                self.written[key] = value
        return refused

    def not_in_force(self, settings: Mapping[ThrottleKey, str | None]) -> dict[ThrottleKey, str]:
        return {key: "not seen" for key in settings if key not in self.written}


def change(cluster: Cluster) -> list[str]:
    told: list[str] = []
    change_throttles(cluster, WANTED, told.append)  # type: ignore[arg-type]
    return told


def test_topics_and_brokers_are_written() -> None:
    cluster = Cluster({1, 2}, {})
    assert change(cluster) == []
    assert cluster.written == WANTED


def test_a_refused_topic_ends_it_before_a_broker_is_written() -> None:
    cluster = Cluster({1, 2}, {LIST: "PolicyViolation: no"})
    with pytest.raises(ThrottleRefused, match="throttles of topic t were not changed: PolicyViolation: no"):
        change(cluster)
    assert cluster.written == {}


def test_a_refused_broker_that_lives_ends_it() -> None:
    with pytest.raises(ThrottleRefused, match="broker 2"):
        change(Cluster({1, 2}, {RATES[1]: "no"}))


def test_a_dead_broker_is_told_and_holds_up_nobody() -> None:
    cluster = Cluster({1}, {})
    assert change(cluster) == ["Warning: throttles of broker 2: it is not live; nothing was changed there"]
    assert RATES[0] in cluster.written


def test_a_broker_that_dies_while_it_is_asked_is_dead() -> None:
    cluster = Cluster({1, 2}, {}, frozenset({2}))
    assert change(cluster) == ["Warning: throttles of broker 2: it is not live; nothing was changed there"]
