"""Frames do not depend on how the bytes are chunked; bad lengths are rejected at once."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rhumbline.core.protocol.errors import ProtocolError
from rhumbline.core.wire.frames import FRAME_BYTES_MAX, FrameSplitter


def framed(bodies: list[bytes]) -> bytes:
    return b"".join(len(body).to_bytes(4, "big") + body for body in bodies)


@given(
    bodies=st.lists(st.binary(min_size=1, max_size=40), max_size=12),
    cuts=st.lists(st.integers(0, 600), max_size=20),
)
def test_frames_do_not_depend_on_the_chunks(bodies: list[bytes], cuts: list[int]) -> None:
    data = framed(bodies)
    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    splitter = FrameSplitter()
    found: list[bytes] = []
    for start, stop in pairwise(edges):
        found += splitter.feed(data[start:stop])
    assert found == bodies
    assert splitter.held_bytes == 0


def test_frames_arrive_byte_by_byte() -> None:
    bodies = [b"a", b"bb", b"c" * 300]
    splitter = FrameSplitter()
    found = [frame for byte in framed(bodies) for frame in splitter.feed(bytes([byte]))]
    assert found == bodies


def test_only_a_partial_frame_is_held() -> None:
    splitter = FrameSplitter()
    assert splitter.feed(framed([b"abc"]) + b"\x00\x00") == [b"abc"]
    assert splitter.held_bytes == 2
    assert splitter.feed(b"\x00\x05hel") == []
    assert splitter.held_bytes == 7
    assert splitter.feed(b"lo\x00") == [b"hello"]
    assert splitter.held_bytes == 1


def test_one_byte_above_the_largest_frame_is_rejected() -> None:
    largest = FRAME_BYTES_MAX - 4
    body = bytes(largest)
    assert FrameSplitter().feed(framed([body])) == [body]
    with pytest.raises(
        ProtocolError, match="frame size 5242877 is not between 1 and 5242876 bytes"
    ):
        FrameSplitter().feed((largest + 1).to_bytes(4, "big"))


@pytest.mark.parametrize("length", [0, 17, 2**31, 2**32 - 1])
def test_a_bad_length_is_rejected_before_its_frame_arrives(length: int) -> None:
    splitter = FrameSplitter(frame_bytes_max=20)
    assert splitter.feed(framed([b"x" * 16])) == [b"x" * 16]
    head = length.to_bytes(4, "big")
    assert splitter.feed(head[:3]) == []
    with pytest.raises(ProtocolError):
        splitter.feed(head[3:])
