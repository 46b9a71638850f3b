"""Codecs of record sets. Decoding is bounded by the size that the header states."""

from enum import IntEnum

import zstandard

from .errors import CorruptionError


class Codec(IntEnum):
    """The coding of a record set's body."""

    NONE = 0
    ZSTD = 1


_ZSTD_LEVEL = 1  # the level that keeps up with the network on one core

# Contexts are expensive to create (10 us) and serve one call at a time, so they are pooled. List
# append and pop are atomic: event loops in several threads may share the pools.
_encoders: list[zstandard.ZstdCompressor] = []
_decoders: list[zstandard.ZstdDecompressor] = []


def compress(codec: Codec, raw: bytes) -> bytes:
    """Compress ``raw``. The result may be larger; the caller then keeps the raw bytes."""
    assert codec is Codec.ZSTD
    encoder = _encoders.pop() if _encoders else zstandard.ZstdCompressor(level=_ZSTD_LEVEL)
    coded = encoder.compress(raw)
    _encoders.append(encoder)
    return coded


def decompress(codec: Codec, coded: bytes, raw_bytes: int) -> bytes:
    """Decompress exactly ``raw_bytes`` bytes. Raises CorruptionError for any other result.

    The compressed frame states its own size, which the library allocates without a check, so that
    size is first compared with the bounded size from the record set's header.
    """
    assert codec is Codec.ZSTD
    decoder = _decoders.pop() if _decoders else zstandard.ZstdDecompressor()
    try:
        if zstandard.frame_content_size(coded) != raw_bytes:
            raise CorruptionError("compressed body: its size differs from the header's")
        return decoder.decompress(coded, max_output_size=raw_bytes, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise CorruptionError(f"compressed body: {error}") from error
    finally:
        _decoders.append(decoder)
