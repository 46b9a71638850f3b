"""Codecs of record sets. Decoding is bounded by the size that the header promised."""

from enum import IntEnum

import zstandard

from .errors import CorruptionError


class Codec(IntEnum):
    """How the body of a record set is coded."""

    NONE = 0
    ZSTD = 1


_ZSTD_LEVEL = 1  # the level that keeps up with the network on one core

_encoder = zstandard.ZstdCompressor(level=_ZSTD_LEVEL, write_content_size=True)
_decoder = zstandard.ZstdDecompressor()


def compress(codec: Codec, raw: bytes) -> bytes:
    """Codes ``raw``; the caller keeps the raw bytes when that does not make them smaller."""
    assert codec is Codec.ZSTD
    return _encoder.compress(raw)


def decompress(codec: Codec, coded: bytes, raw_bytes: int) -> bytes:
    """Decodes exactly ``raw_bytes`` bytes. Raises CorruptionError when it is anything else.

    The frame names its own size, which the library would allocate blindly; so it is compared
    with the bounded size from the header first.
    """
    assert codec is Codec.ZSTD
    try:
        if zstandard.frame_content_size(coded) != raw_bytes:
            raise CorruptionError("compressed body: its size is not the header's")
        return _decoder.decompress(coded, max_output_size=raw_bytes, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise CorruptionError(f"compressed body: {error}") from error
