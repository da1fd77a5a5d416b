"""Records of who drives, as another version of Shunter wrote them."""

from dataclasses import asdict, is_dataclass
from typing import Any

import orjson
import pytest

from shunter.drivers.journal.claimants import Claimant
from shunter.errors import FormatError
from shunter.formats.own_records import read_record
from shunter.formats.word_records import WordsDriver
from shunter.model.execution import LeaseHolder

RECORDS = (
    LeaseHolder("one", "h", 7, 1_000, "https://h:1"),
    Claimant("anna", "h", 7, 1_000, "h:/j", "https://h:1"),
    WordsDriver("h", 7, 1_000, "kafka:j", "https://h:1"),
)


def fields(record: Any) -> dict[str, Any]:
    return asdict(record) if is_dataclass(record) and not isinstance(record, type) else record._asdict()


@pytest.mark.parametrize("record", RECORDS, ids=lambda each: type(each).__name__)
def test_a_record_of_another_version_is_read(record: Any) -> None:
    """Found by hand: an older executor ended with a TypeError at the lease of a newer one, which had an address more."""
    later = orjson.dumps({**fields(record), "zone": "a"})
    assert read_record(type(record), later, "here") == record
    earlier = orjson.dumps({name: value for name, value in fields(record).items() if name != "address"})
    assert fields(read_record(type(record), earlier, "here")) == {**fields(record), "address": ""}
    for broken in (b"{", b"[1]", b"1", b"{}"):
        with pytest.raises(FormatError, match=f"here: this is no record of a {type(record).__name__}"):
            read_record(type(record), broken, "here")
