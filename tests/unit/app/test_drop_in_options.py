"""The command line of kafka-reassign-partitions, and the order in which Java walks its sets."""

import pytest

from shunter.app.drop_in.java_order import hash_set_order
from shunter.app.drop_in.options import UsageError, parse

AT = ("--bootstrap-server", "h:1")


def test_values_are_given_in_both_ways_and_names_may_be_cut_short():
    options = parse(("--bootstrap-server=h:1", "--exec", "--reassignment-json-file", "p.json", "--throttle", "5"))
    assert options.action == "execute"
    assert options.values == {"bootstrap-server": "h:1", "reassignment-json-file": "p.json", "throttle": "5"}
    assert options.number("throttle", -1) == 5
    assert options.number("timeout", 10_000) == 10_000


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
        (
            (*AT, "--execute", "--reassignment-json-file", "p", "--throttle", "much"),
            "Cannot parse argument 'much' of option throttle",
        ),
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
        f"--{refused} can't be carried out by way of --zookeeper with {action}: use --bootstrap-server"
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
    with pytest.raises(UsageError, match=f"{action} can't be carried out by way of --zookeeper"):
        parse((*BY, action, *more))


def test_one_way_to_the_cluster_is_named():
    with pytest.raises(UsageError, match="exclude each other"):
        parse((*AT, *BY, "--list"))


@pytest.mark.parametrize("word", ["--stop", "--rollback"])
def test_a_word_about_cancels_is_refused_where_nothing_is_cancelled(word):
    with pytest.raises(UsageError, match="--execute cancels nothing"):
        parse((*AT, "--execute", *PLAN, word))
    assert parse((*AT, "--execute", *PLAN, "--cancel-others", word)).action == "execute"
    assert parse((*AT, "--execute", *PLAN, "--incremental", word)).action == "execute"


def test_a_cancel_by_zookeeper_needs_no_file():
    assert parse(("--zookeeper", "h:2181", "--cancel")).action == "cancel"


def test_javas_order():
    """As `new HashSet<>(…)` of Java 17 printed them."""
    assert hash_set_order([1000, 3, 2, 1, 17]) == [1, 17, 2, 3, 1000]
    assert hash_set_order(["foo", "bar", "foo"]) == ["bar", "foo"]
    assert hash_set_order(["t-1", "orders", "payments-eu", "x"]) == ["x", "t-1", "orders", "payments-eu"]
