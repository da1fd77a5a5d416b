"""The command line of kafka-reassign-partitions, and the order in which Java walks its sets."""

import pytest

from shunter.app.java_order import hash_set_order
from shunter.app.reassign_options import UsageError, parse

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


def test_a_cancel_by_zookeeper_needs_no_file():
    assert parse(("--zookeeper", "h:2181", "--cancel")).action == "cancel"


def test_javas_order():
    """As `new HashSet<>(…)` of Java 17 printed them."""
    assert hash_set_order([1000, 3, 2, 1, 17]) == [1, 17, 2, 3, 1000]
    assert hash_set_order(["foo", "bar", "foo"]) == ["bar", "foo"]
    assert hash_set_order(["t-1", "orders", "payments-eu", "x"]) == ["x", "t-1", "orders", "payments-eu"]
