"""All decoders of data that other programs write, in one table: name, decoder of bytes, and inputs that it accepts."""

import struct
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from shunter.errors import FormatError, ShunterError
from shunter.formats import client_properties, inventory_files, journal, plan_files, reassignment_json, tool_json
from shunter.formats.znodes import admin as admin_znodes
from shunter.formats.znodes import brokers as broker_znodes
from shunter.formats.znodes import configs as config_znodes
from shunter.formats.znodes import features as feature_znode
from shunter.formats.znodes import reassignments as reassignment_znodes
from shunter.formats.znodes import requests as request_znodes
from shunter.formats.znodes import topics as topic_znodes
from shunter.model.broker import Broker, Endpoint
from shunter.model.partition import LeaderAndIsr, ReplicaAssignment, TopicPartition
from shunter.model.reassignment import Phase, Reassignment, Strategy
from shunter.model.settings import WireLimits
from shunter.model.topic import Topic
from shunter.pipeline.sources.cruise_control import decode_broker_sample, decode_partition_sample
from shunter.wire.answers import decode_control_response
from shunter.wire.framing import read_request_head, read_response_head, split_frames
from shunter.wire.requests import SERVED, UnsupportedVersionError, decode_request

TP = TopicPartition("orders", 3)
ID = UUID(int=77)
LIMITS = WireLimits(frame_bytes=1 << 20, array_length=10_000)
EXPECTED = (FormatError, ShunterError, UnsupportedVersionError)
"""The errors that a decoder may raise: Shunter's own, which name place and rule."""


class Decoder(NamedTuple):
    """One decoder. `examples` are inputs that it reads without an error."""

    name: str
    decode: Callable[[bytes], Any]
    examples: tuple[bytes, ...]


def _move() -> Reassignment:
    return Reassignment(
        ID, (1, 2, 3), (4, 5, 6), Strategy.INCREMENTAL, Phase.MOVING, ReplicaAssignment((1, 2, 4), (4,)), 17, 3
    )


def _broker() -> bytes:
    endpoints = (Endpoint("PLAINTEXT", "PLAINTEXT", "::1", 9092), Endpoint("TLS", "SSL", "host", 9093))
    return broker_znodes.encode_broker(Broker(1, 5, endpoints, "r1", (("metadata", 1, 2),)), timestamp_ms=1)


def _topic() -> bytes:
    return topic_znodes.encode_topic(
        Topic("orders", ID, {0: ReplicaAssignment((1, 2, 3), (3,), (1,)), 1: ReplicaAssignment((2,))})
    )


def _journal_row(body: bytes) -> Any:
    text = body.decode("utf-8", "replace")
    row = journal.JournalRow(1, text, zlib.crc32(text.encode()))
    return journal.decode_line(row, "journal")


ZNODES = (
    Decoder("broker znode", lambda raw: broker_znodes.decode_broker("1", raw, 5), (_broker(),)),
    Decoder("process of a broker znode", lambda raw: broker_znodes.decode_process(raw, "place"), (_broker(),)),
    Decoder("controller znode", broker_znodes.decode_controller, (broker_znodes.encode_controller(7, timestamp_ms=1),)),
    Decoder("controller epoch", broker_znodes.decode_controller_epoch, (b"17",)),
    Decoder("cluster id", broker_znodes.decode_cluster_id, (broker_znodes.encode_cluster_id("x"),)),
    Decoder(
        "migration znode",
        broker_znodes.decode_migration_owner,
        (b'{"version":0,"kraft_controller_id":3000,"kraft_metadata_offset":5}',),
    ),
    Decoder(
        "feature znode",
        feature_znode.decode_features,
        (b'{"version":2,"status":1,"features":{"f":{"max_version_level":3}}}',),
    ),
    Decoder("topic znode", lambda raw: topic_znodes.decode_topic("orders", raw, 1, {}), (_topic(),)),
    Decoder(
        "state znode",
        lambda raw: topic_znodes.decode_state("place", raw, 1, {}),
        (
            topic_znodes.encode_state(LeaderAndIsr(1, 5, (1, 2), 3, 9)),
            topic_znodes.encode_state(LeaderAndIsr(1, 5, (1, 2), 3, 9, True, (3, 4))),
        ),
    ),
    Decoder(
        "move's record",
        lambda raw: reassignment_znodes.decode_reassignment("place", raw, version=0, czxid=1),
        (reassignment_znodes.encode_reassignment(_move()),),
    ),
    Decoder(
        "owed deletions",
        lambda raw: reassignment_znodes.decode_owed_deletions("place", raw, 1),
        (reassignment_znodes.encode_owed_deletions(((TP, 4),)),),
    ),
    Decoder(
        "owed replicas",
        lambda raw: reassignment_znodes.decode_owed_replicas("place", raw, 1),
        (reassignment_znodes.encode_owed_replicas(None, ((0, 3, (1, 2)),)),),
    ),
    Decoder(
        "controller id",
        lambda raw: broker_znodes.decode_controller_id("100", raw),
        (broker_znodes.encode_controller_id(),),
    ),
    Decoder(
        "legacy znode",
        lambda raw: admin_znodes.decode_legacy_reassignments(raw, 1),
        (admin_znodes.encode_legacy_reassignments([(TP, (1, 2))], {TP: (3,)}),),
    ),
    Decoder("partitions", partial(admin_znodes.decode_partitions, "place"), (admin_znodes.encode_partitions((TP,)),)),
    Decoder(
        "log dir event", partial(admin_znodes.decode_log_dir_event, "place"), (admin_znodes.encode_log_dir_event(3),)
    ),
    Decoder(
        "producer ids",
        admin_znodes.decode_producer_id_block,
        (admin_znodes.encode_producer_id_block(admin_znodes.ProducerIdBlock(1, 0, 999)),),
    ),
    Decoder(
        "request znode",
        lambda raw: request_znodes.decode_request("request_0000000001", raw, czxid=1),
        (request_znodes.encode_request([(TP, (1, 2))], legacy=False),),
    ),
    Decoder("configuration", partial(config_znodes.decode_config, "place"), (config_znodes.encode_config({"a": "b"}),)),
    Decoder(
        "configuration change",
        partial(config_znodes.decode_config_change, "place"),
        (config_znodes.encode_config_change(config_znodes.ConfigChange("topics", "orders")),),
    ),
)

FILES = (
    Decoder(
        "plan",
        lambda raw: reassignment_json.decode_plan(raw, "plan.json"),
        (b'{"version":1,"partitions":[{"topic":"orders","partition":3,"replicas":[1,2],"log_dirs":["any","any"]}]}',),
    ),
    Decoder(
        "tool's reassignment",
        lambda raw: tool_json.parse_reassignment(raw.decode("utf-8", "replace")),
        (b'{"version":1,"partitions":[{"topic":"orders","partition":3,"replicas":[1,2]}]}',),
    ),
    Decoder(
        "tool's topics",
        lambda raw: tool_json.parse_topics(raw.decode("utf-8", "replace")),
        (b'{"version":1,"topics":[{"topic":"orders"}]}',),
    ),
    Decoder("plan input", lambda raw: plan_files.read_plan_input(raw, "input.json"), ()),
    Decoder("inventory", lambda raw: inventory_files.decode_inventory(raw, "inventory.json"), ()),
    Decoder(
        "client properties",
        lambda raw: client_properties.parse_properties(raw.decode("utf-8", "replace")),
        (b"bootstrap.servers=a:1\n# x\nsasl.jaas.config = a b \\\n  c",),
    ),
    Decoder(
        "journal entry",
        _journal_row,
        (b'{"at":1,"cause":"x","kind":"floor-relaxed","tp":"orders-3"}',),
    ),
    Decoder(
        "Cruise Control partition sample",
        decode_partition_sample,
        (struct.pack(">bi4dqi", 0, 7, *[1.5] * 4, 99, 4) + b"t",),
    ),
    Decoder(
        "Cruise Control broker sample",
        decode_broker_sample,
        (struct.pack(">bih1s13dq2i41d", 5, 7, 1, b"h", *[1.5] * 13, 99, 1, 2, *[2.5] * 41),),
    ),
)


def _requests() -> tuple[bytes, ...]:
    """Requests of every served API and version: a head, and zeros in place of the body."""
    heads = []
    for api_key, (lowest, highest) in sorted(SERVED.items()):
        heads += [
            api_key.to_bytes(2, "big") + version.to_bytes(2, "big") + b"\0\0\0\1\0\1x" + bytes(64)
            for version in range(lowest, highest + 1)
        ]
    return tuple(heads)


def _control_response(api_key: int, version: int, raw: bytes) -> Any:
    return decode_control_response(api_key, version, raw, lambda: {ID: "orders"})


FRAMES = (
    Decoder("frames", lambda raw: split_frames(bytearray(raw), 1 << 20), (b"\0\0\0\3abc\0\0\0\1d",)),
    Decoder("request head", read_request_head, _requests()[:8]),
    Decoder("response head", lambda raw: read_response_head(raw, 1), (b"\0\0\0\1\0",)),
    Decoder("request", lambda raw: decode_request(raw, LIMITS), ()),
    Decoder("LeaderAndIsr answer", partial(_control_response, 4, 7), (b"\0\0\0\1\0\0\0\1\0",)),
    Decoder("LeaderAndIsr answer v4", partial(_control_response, 4, 4), (b"\0\0\0\1\0\0\0\1\0",)),
    Decoder("StopReplica answer", partial(_control_response, 5, 4), (b"\0\0\0\1\0\0\0\1\0",)),
    Decoder("UpdateMetadata answer", partial(_control_response, 6, 8), (b"\0\0\0\1\0\0\0\0",)),
)

DECODERS = (*ZNODES, *FILES, *FRAMES)
SEEDS: dict[str, tuple[bytes, ...]] = {"request": _requests(), "plan input": (b'{"brokers":[],"partitions":[]}',)}
"""More inputs from which mutation may begin. They need not be accepted."""
