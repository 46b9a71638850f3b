"""Follows a stream for a page: new records in small batches, with a filter."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from typing import Any

from ....core.log.namespace import Namespace
from ....core.log.read.record_batch import Record
from ....core.protocol.dlsn import Dlsn
from ....core.protocol.errors import RhumblineError
from ....core.protocol.start import LATEST
from ....core.runtime.event_log import EventLog
from ....core.runtime.tasks import Tasks
from ...streams.records.record_documents import as_document
from ..event_streams import ServerEvent

_LOG = EventLog(__name__)

_FLUSH_S = 0.25
_SILENCE_S = 5.0
_RECORDS_MAX = 100
"""Records of one event; of more, the newest are sent and the others counted."""
_KEPT_BYTES_MAX = 4_000
"""Bytes of a record that is kept whole until the next event; of a larger one, the shown part is."""
_CHARACTERS_MAX = 1_000
_VALUES = ("payload", "payload_hex", "key", "key_hex")


class LiveTail:
    """Reads one stream from a position on, until the iteration ends."""

    def __init__(
        self, namespace: Namespace, stream: str, *, after: Dlsn | None, wanted: str
    ) -> None:
        """``after``: the position at which to continue; None: the present end.

        ``wanted``: only records whose payload or key contains this text; ASCII letters match in
        either case.
        """
        self._namespace = namespace
        self._stream = stream
        self._after = after
        self._wanted = wanted.encode().lower()
        self._records: deque[Record | dict[str, Any]] = deque(maxlen=_RECORDS_MAX)
        self._passed = 0
        self._skipped = 0
        self._position: Dlsn | None = None
        self._error = ""
        self._is_over = False

    async def events(self) -> AsyncGenerator[ServerEvent]:
        """Yield batches of records. One without records tells the position, or that nothing came.

        ``passed`` counts the records since the event before, ``skipped`` those of them that
        matched and were too many, and ``position`` is where a later tail continues. The last event
        has an ``error`` if the stream cannot be read on.
        """
        tasks = Tasks()
        tasks.spawn(self._read(), "read for a live tail")
        loop = asyncio.get_running_loop()
        sent_at = loop.time()
        is_placed = False
        try:
            while True:
                await asyncio.sleep(_FLUSH_S)
                is_over = self._is_over
                is_silent = loop.time() - sent_at >= _SILENCE_S
                if self._passed or is_over or is_silent or (self._position and not is_placed):
                    sent_at = loop.time()
                    is_placed = self._position is not None
                    yield ServerEvent("records", self._take())
                if is_over:
                    return
        finally:
            await tasks.aclose()

    def _take(self) -> dict[str, Any]:
        event: dict[str, Any] = {
            "records": [one if isinstance(one, dict) else _shown(one) for one in self._records],
            "passed": self._passed,
            "skipped": self._skipped,
        }
        if self._position is not None:
            event["position"] = str(self._position)
        if self._error:
            event["error"] = self._error
        self._records.clear()
        self._passed = self._skipped = 0
        return event

    async def _read(self) -> None:
        try:
            reader = await self._namespace.open_reader(
                self._stream,
                LATEST if self._after is None else self._after,
                on_truncated=lambda _wanted, _first: None,
            )
            try:
                self._position = reader.position
                while (batch := await reader.next_batch()) is not None:
                    self._add(batch.records())
                    self._position = reader.position
                    await asyncio.sleep(0)  # a long backlog leaves room for other pages
            finally:
                await reader.aclose()
        except RhumblineError as error:
            self._error = str(error)
        except Exception as error:
            self._error = f"{type(error).__name__}: {error}"
            _LOG.error("live tail failed", exception=error, stream=self._stream)
        finally:
            self._is_over = True

    def _add(self, records: list[Record]) -> None:
        self._passed += len(records)
        for record in records:
            if not self._wanted or self._wanted in _searched(record):
                self._skipped += len(self._records) == _RECORDS_MAX
                is_large = len(record.payload) + len(record.key or b"") > _KEPT_BYTES_MAX
                self._records.append(_shown(record) if is_large else record)


def _searched(record: Record) -> bytes:
    return b"\n".join((record.key or b"", record.payload)).lower()


def _shown(record: Record) -> dict[str, Any]:
    """Return a record as ``stream read`` prints it, with long values cut."""
    found = as_document(record)
    for name in _VALUES:
        value = found.get(name, "")
        if len(value) > _CHARACTERS_MAX:
            found[name] = f"{value[:_CHARACTERS_MAX]}…"
    return {**found, "size_bytes": len(record.payload), "created_ms": record.created_ms}
