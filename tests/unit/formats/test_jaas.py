"""`sasl.jaas.config` is read as Kafka reads it; `tests/real/test_security_beside_java.py` asks Kafka's own parser."""

from __future__ import annotations

import pytest

from jaas_cases import MODULE, REFUSED, REFUSED_WHOLE, TAKEN
from shunter.errors import FormatError
from shunter.formats.security.jaas import jaas_options


@pytest.mark.parametrize("said", TAKEN)
def test_what_kafka_takes(said):
    assert jaas_options(MODULE + said, "place") == TAKEN[said]


@pytest.mark.parametrize("flag", ["required", "REQUIRED", "Requisite", "sufficient", '"optional"'])
def test_every_flag(flag):
    assert jaas_options(f"'the module' {flag} u=x;", "place") == {"u": "x"}


@pytest.mark.parametrize("said", [*(MODULE + each for each in REFUSED), *REFUSED_WHOLE])
def test_what_kafka_refuses_is_refused_with_a_way_out(said):
    with pytest.raises(FormatError, match=r"^place: (is|has|does not) .*: (put|write|it may) "):
        jaas_options(said, "place")


def test_no_value_is_told():
    for said in ("u=planted@x;", 'u="planted', "planted@x=y;", "u=x planted;"):
        with pytest.raises(FormatError) as refused:
            jaas_options(MODULE + said, "place")
        assert "planted" not in str(refused.value)
