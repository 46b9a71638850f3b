"""Rows reach the streams that they name once and in order, also when a task is retried."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager

import pyarrow as pa
import pytest

from rhumbline.core.protocol.errors import ConfigurationError, DuplicateRecordError
from rhumbline.core.protocol.record_set import decode_entry
from rhumbline.spark.write import stream_router
from rhumbline.spark.write.stream_router import OpenedStream, route_rows

PRODUCER = b"p" * 16


class Log:
    """Streams in memory that skip record sets which they have, as real ones do."""

    def __init__(self, *, knows_rows: bool) -> None:
        self.payloads: dict[str, list[bytes]] = {}
        self.opened: list[str] = []
        self.most_open = 0
        self._open = 0
        self._knows_rows = knows_rows

    @asynccontextmanager
    async def open(self, stream: str) -> AsyncIterator[OpenedStream]:
        self.opened.append(stream)
        self._open += 1
        self.most_open = max(self.most_open, self._open)
        held = self.payloads.setdefault(stream, [])
        try:
            yield OpenedStream(_Writer(held), len(held) if self._knows_rows else 0)
        finally:
            self._open -= 1


class _Writer:
    def __init__(self, held: list[bytes]) -> None:
        self._held = held

    async def room(self) -> None:
        """Accept every append."""

    def append_set(self, encoded: bytes, *, keeps_txids: bool = False) -> Awaitable[object]:
        (found,) = decode_entry(encoded)
        if found.first_sequence < len(self._held):
            raise DuplicateRecordError("the stream has it")
        assert found.first_sequence == len(self._held), "a row is missing"
        self._held.extend(found.payloads())
        return asyncio.sleep(0)


def rows(count: int, streams: int) -> list[tuple[str, bytes]]:
    return [(f"s{n * n % streams}", b"%d" % n * 50) for n in range(count)]


def batches_of(given: list[tuple[str, bytes]], size: int) -> list[pa.RecordBatch]:
    return [
        pa.RecordBatch.from_pydict(
            {"stream": [s for s, _ in given[at : at + size]],
             "payload": [p for _, p in given[at : at + size]]}
        )
        for at in range(0, len(given), size)
    ]  # fmt: skip


@pytest.mark.parametrize("knows_rows", [True, False])
@pytest.mark.parametrize(("writers", "buffered"), [(256, 64 << 20), (2, 64 << 20), (256, 5000)])
def test_every_stream_gets_its_rows_once(
    knows_rows: bool, writers: int, buffered: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_router, "WRITERS_MAX", writers)
    monkeypatch.setattr(stream_router, "BUFFERED_BYTES", buffered)
    given = rows(1000, streams=7)
    log = Log(knows_rows=knows_rows)
    for part, size in ((given[:700], 100), (given, 33), (given, 1000)):
        asyncio.run(route_rows(log.open, PRODUCER, batches_of(part, size)))
        if not knows_rows and part != given:
            log.payloads.clear()  # a task that was retried there repeats all of its rows
    for stream, held in log.payloads.items():
        assert held == [payload for name, payload in given if name == stream]
    assert log.most_open <= writers


def test_a_row_without_a_stream_is_refused() -> None:
    batch = pa.RecordBatch.from_pydict({"stream": ["a", None], "payload": [b"1", b"2"]})
    log = Log(knows_rows=True)
    with pytest.raises(ConfigurationError, match="a row has no stream"):
        asyncio.run(route_rows(log.open, PRODUCER, [batch]))
