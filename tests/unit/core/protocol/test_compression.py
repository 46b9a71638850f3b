"""Compression: round trips, and the stated size is the only one that is accepted."""

import pytest
import zstandard

from rhumbline.core.protocol.compression import Codec, compress, decompress
from rhumbline.core.protocol.errors import CorruptionError

RAW = b"rhumbline " * 100


def test_the_numbers_of_the_codecs_are_those_of_the_format() -> None:
    assert [(codec.name, int(codec)) for codec in Codec] == [("NONE", 0), ("ZSTD", 1)]


def test_bodies_round_trip_again_and_again() -> None:
    for count in range(1, 5):
        coded = compress(Codec.ZSTD, RAW * count)
        assert len(coded) < len(RAW)
        assert decompress(Codec.ZSTD, coded, len(RAW) * count) == RAW * count


@pytest.mark.parametrize("stated", [0, len(RAW) - 1, len(RAW) + 1])
def test_another_size_than_the_stated_one_is_corrupt(stated: int) -> None:
    with pytest.raises(CorruptionError, match="size differs"):
        decompress(Codec.ZSTD, compress(Codec.ZSTD, RAW), stated)


def test_bytes_after_the_frame_are_corrupt() -> None:
    with pytest.raises(CorruptionError):
        decompress(Codec.ZSTD, compress(Codec.ZSTD, RAW) + b"x", len(RAW))


@pytest.mark.parametrize("coded", [b"", b"garbage!", compress(Codec.ZSTD, RAW)[:-3]])
def test_damaged_frames_are_corrupt_and_the_next_body_is_decoded(coded: bytes) -> None:
    with pytest.raises(CorruptionError):
        decompress(Codec.ZSTD, coded, len(RAW))
    assert decompress(Codec.ZSTD, compress(Codec.ZSTD, RAW), len(RAW)) == RAW


def test_a_frame_without_its_size_is_corrupt() -> None:
    coded = zstandard.ZstdCompressor(write_content_size=False).compress(RAW)
    with pytest.raises(CorruptionError):
        decompress(Codec.ZSTD, coded, len(RAW))
