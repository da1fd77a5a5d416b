"""The message of a refusal fits into the answers of every version, however long the refused names are."""

import pytest
from kio.index import load_response_schema

from shunter.core.topic_configs import UNKNOWN_RELEASES, check_topic_configs
from shunter.drivers.listener.handlers.messages import filled
from shunter.errors import RequestRejected
from shunter.wire.requests import encode_message

LONG = "x" * 32_767
"""The longest text of the older versions."""


@pytest.mark.parametrize("configs", [{"retention.ms": LONG}, {LONG: "1"}, {"message.format.version": LONG}])
@pytest.mark.parametrize("version", [1, 4, 5, 7])
def test_the_longest_sentence_about_a_configuration_can_be_written(configs, version):
    with pytest.raises(RequestRejected) as refused:
        check_topic_configs(configs, UNKNOWN_RELEASES)
    result = {"name": "t", "error_code": refused.value.error_code, "error_message": refused.value.message}
    values = {"topics": [{**result, "topic_id": None, "topic_config_error_code": 0, "configs": ()}]}
    assert len(encode_message(filled(load_response_schema(19, version), values))) < 8_000
