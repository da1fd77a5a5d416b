"""`/admin/shunter/crashes`, written and read."""

import pytest

from shunter.errors import FormatError
from shunter.formats.znodes.crashes import decode_crashes, encode_crashes
from shunter.model.crashes import RememberedCrash

CRASH = RememberedCrash(1_000, 61_000, 1, "BrokersRead#3", "KeyError: 'x'", (("partition", "t-0"), ("legacy", "")))


def test_both_ways():
    assert decode_crashes(encode_crashes((CRASH, CRASH._replace(times=2)))) == (CRASH, CRASH._replace(times=2))
    assert decode_crashes(None) == ()


@pytest.mark.parametrize(
    "broken",
    [b"", b"x", b"[]", b'{"version":2,"crashes":[]}', b'{"version":1,"crashes":{}}', b'{"version":1,"crashes":[{}]}'],
)
def test_what_is_broken_is_refused_with_its_path(broken):
    with pytest.raises(FormatError, match="/admin/shunter/crashes"):
        decode_crashes(broken)
