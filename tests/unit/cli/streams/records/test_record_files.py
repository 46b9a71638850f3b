"""Records from input: lines and length-prefixed records, for any size of the reads."""

import asyncio
import io
import struct

import pytest

from rhumbline.cli.streams.records import record_files
from rhumbline.cli.streams.records.record_files import read_records
from rhumbline.core.protocol.errors import InvalidArgumentError


def records(data: bytes, *, is_length_prefixed: bool = False, size_max: int = 100) -> list[bytes]:
    async def run() -> list[bytes]:
        found: list[bytes] = []
        async with asyncio.timeout(120):
            async for batch in read_records(
                io.BytesIO(data), is_length_prefixed=is_length_prefixed, size_max=size_max
            ):
                found += batch
        return found

    return asyncio.run(run())


def prefixed(*payloads: bytes) -> bytes:
    return b"".join(struct.pack(">I", len(payload)) + payload for payload in payloads)


@pytest.mark.parametrize("chunk_bytes", [1, 3, 1 << 20])
def test_records_are_assembled_across_reads(
    chunk_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_files, "_CHUNK_BYTES", chunk_bytes)
    assert records(b"one\n\ntwo\nend") == [b"one", b"", b"two", b"end"]
    assert records(b"one\n") == [b"one"]
    assert records(b"") == []
    payloads = [b"a\nb", b"", b"\x00" * 50]
    assert records(prefixed(*payloads), is_length_prefixed=True) == payloads


def test_endless_line_is_refused_before_it_fills_memory() -> None:
    with pytest.raises(
        InvalidArgumentError, match="longer than 100 bytes, the maximum of a record"
    ):
        records(b"x" * 1000)


def test_input_without_length_prefixes_is_detected() -> None:
    with pytest.raises(InvalidArgumentError, match="is this input length-prefixed"):
        records(b"just some text\n", is_length_prefixed=True)
    with pytest.raises(InvalidArgumentError, match="ends within a record"):
        records(prefixed(b"abc")[:-1], is_length_prefixed=True)
