"""Frames, headers and the primitives below them."""

import io

import kio_peer as peer
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.serial import writers
from kio.serial.readers import read_unsigned_varint

from shunter.errors import FormatError
from shunter.wire.framing import (
    frame_length,
    read_request_head,
    read_response_head,
    request_frame_head,
    request_header_version,
    response_frame,
    response_header_version,
    restamp_request,
    restamp_response,
    split_frames,
)
from shunter.wire.primitives import INT32, Cursor, array_length, nullable_string, string, unsigned_varint


@peer.PATIENT
@given(st.lists(st.binary(max_size=30), max_size=6), st.lists(st.integers(1, 20), min_size=1, max_size=40))
def test_frames_come_out_however_the_bytes_come_in(frames: list[bytes], steps: list[int]) -> None:
    stream = b"".join(INT32.pack(len(frame)) + frame for frame in frames)
    buffer = bytearray()
    got: list[bytes] = []
    position = 0
    while position < len(stream):
        step = steps[position % len(steps)]
        buffer += stream[position : position + step]
        position += step
        got += split_frames(buffer, 30)
    assert got == frames
    assert buffer == b""


@pytest.mark.parametrize("size", [-1, 31, 2**31 - 1])
def test_a_frame_of_a_wrong_size_is_refused(size: int) -> None:
    buffer = bytearray(INT32.pack(2) + b"ok" + INT32.pack(size))
    with pytest.raises(FormatError, match=f"peer-1: a frame of {size} bytes, and it must be from 0 to 30"):
        split_frames(buffer, 30, "peer-1")
    with pytest.raises(FormatError):
        frame_length(INT32.pack(size), 30)
    assert frame_length(INT32.pack(30), 30) == 30


def test_header_versions() -> None:
    assert request_header_version(7, 0) == 0
    assert request_header_version(7, 1) == 1
    assert request_header_version(7, 3) == 2
    assert (request_header_version(6, 5), request_header_version(6, 8)) == (1, 2)
    assert (response_header_version(6, 5), response_header_version(6, 8)) == (0, 1)
    assert {response_header_version(18, version) for version in range(5)} == {0}
    assert request_header_version(999, 0) is None
    assert response_header_version(3, 99) is None


def test_what_kio_does_not_know_can_not_be_sent() -> None:
    with pytest.raises(FormatError, match="API 3 has no version 99"):
        request_frame_head(3, 99, 1, "me", 0)
    with pytest.raises(FormatError, match="API 3 has no version 99"):
        response_frame(3, 99, 1, b"")


@peer.PATIENT
@given(
    st.sampled_from([(3, 4), (3, 12), (7, 0), (18, 4)]),
    st.integers(-(2**31), 2**31 - 1),
    st.none() | st.text(max_size=9),
)
def test_a_request_head_comes_back(choice: tuple[int, int], correlation_id: int, client_id: str | None) -> None:
    api_key, version = choice
    frame = request_frame_head(api_key, version, correlation_id, client_id, 0)[4:]
    kept = None if choice == (7, 0) else client_id
    assert read_request_head(frame) == (api_key, version, correlation_id, kept, len(frame))


def test_a_response_head_comes_back() -> None:
    for api_key, version in ((6, 8), (6, 5), (18, 4)):
        frame = response_frame(api_key, version, 7, b"xy")
        assert frame_length(frame, 100) == len(frame) - 4
        header_version = response_header_version(api_key, version)
        assert header_version is not None
        assert read_response_head(frame[4:], header_version) == (7, len(frame) - 4 - 2)


def test_passing_on_changes_the_correlation_id_alone() -> None:
    frame = request_frame_head(3, 12, 5, "me", 3)[4:] + b"abc"
    assert restamp_request(frame, 6) == request_frame_head(3, 12, 6, "me", 3) + b"abc"
    assert restamp_response(response_frame(3, 12, 6, b"abc")[4:], 5) == response_frame(3, 12, 5, b"abc")
    for restamp in (restamp_request, restamp_response):
        with pytest.raises(FormatError, match="which begins with"):
            restamp(b"\x00\x00", 1)


@peer.PATIENT
@given(st.integers(0, 2**31 - 1))
def test_varints_are_kios(value: int) -> None:
    with io.BytesIO() as buffer:
        writers.write_unsigned_varint(buffer, value)  # type: ignore[arg-type]
        expected = buffer.getvalue()
    assert unsigned_varint(value) == expected
    assert Cursor(expected, place="test").varint() == value
    assert read_unsigned_varint(expected, 0)[0] == value


@pytest.mark.parametrize("encoded", ["ffffffff08", "ffffffff0f", "8080808080", "80"])
def test_varints_that_are_none_are_refused(encoded: str) -> None:
    with pytest.raises(FormatError, match=r"longer than 31 bits|1 bytes are announced and 0 are left"):
        Cursor(bytes.fromhex(encoded), place="test").varint()


@peer.PATIENT
@given(st.none() | st.text(max_size=200), st.booleans())
def test_strings_come_back(text: str | None, flexible: bool) -> None:
    cursor = Cursor(nullable_string(text, flexible=flexible), place="test")
    assert cursor.nullable_string(flexible=flexible) == text
    cursor.finish()


def test_strings_that_can_not_be_are_refused() -> None:
    with pytest.raises(FormatError, match="40000 bytes does not fit"):
        string("x" * 40_000, flexible=False)
    with pytest.raises(FormatError, match="not UTF-8"):
        Cursor(b"\x02\xff", place="test").string(flexible=True)
    with pytest.raises(FormatError, match="null where null has no meaning"):
        Cursor(b"\x00", place="test").string(flexible=True)
    with pytest.raises(FormatError, match="-2 bytes are announced"):
        Cursor(b"\xff\xfe", place="test").string(flexible=False)


def test_lengths_that_can_not_be_are_refused() -> None:
    for count, rule in ((-2, "an array of -2 elements"), (3, "does not fit in the rest"), (99, "the limit is 50")):
        with pytest.raises(FormatError, match=rule):
            Cursor(INT32.pack(count), place="test", longest=50).array_length(flexible=False)
    assert Cursor(array_length(-1, flexible=True), place="test").array_length(flexible=True) is None
