"""Codecs of record sets. Decoding is bounded by the size that the header promised."""

from enum import IntEnum

import zstandard

from .errors import CorruptionError


class Codec(IntEnum):
    """How the body of a record set is coded."""

    NONE = 0
    ZSTD = 1


_ZSTD_LEVEL = 1  # the level that keeps up with the network on one core

# Contexts are costly to make (10 us) and serve one call at a time: they are lent out. List append
# and pop are atomic, so that loops in several threads may share them.
_encoders: list[zstandard.ZstdCompressor] = []
_decoders: list[zstandard.ZstdDecompressor] = []


def compress(codec: Codec, raw: bytes) -> bytes:
    """Codes ``raw``; the caller keeps the raw bytes when that does not make them smaller."""
    assert codec is Codec.ZSTD
    encoder = _encoders.pop() if _encoders else zstandard.ZstdCompressor(level=_ZSTD_LEVEL)
    coded = encoder.compress(raw)
    _encoders.append(encoder)
    return coded


def decompress(codec: Codec, coded: bytes, raw_bytes: int) -> bytes:
    """Decodes exactly ``raw_bytes`` bytes. Raises CorruptionError when it is anything else.

    The frame names its own size, which the library would allocate blindly; so it is compared
    with the bounded size from the header first.
    """
    assert codec is Codec.ZSTD
    decoder = _decoders.pop() if _decoders else zstandard.ZstdDecompressor()
    try:
        if zstandard.frame_content_size(coded) != raw_bytes:
            raise CorruptionError("compressed body: its size is not the header's")
        return decoder.decompress(coded, max_output_size=raw_bytes, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise CorruptionError(f"compressed body: {error}") from error
    finally:
        _decoders.append(decoder)
