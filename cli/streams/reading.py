"""``stream read`` and ``stream tail``: print records to standard output."""

import asyncio
import sys
from collections.abc import Sequence
from contextlib import ExitStack

from ...core.log.namespace import Namespace
from ...core.protocol.dlsn import Dlsn
from ...core.protocol.errors import NoSuchObjectError
from ...core.protocol.start import EARLIEST, LATEST, AtEventTime, AtTime, AtTxid, Start
from ..output import TABLE, DocumentWriter, ProgressBar, print_message
from .records.last_records import read_last
from .records.record_documents import as_document
from .records.record_formats import record_format
from .records.record_parts import RecordPart, read_parts


class _Printer:
    """Prints records in the chosen form and counts them."""

    def __init__(self, form: str, rows: DocumentWriter | None) -> None:
        self.count = 0
        self._format = record_format(form)
        self._rows = rows
        self._out = sys.stdout.buffer

    def show(self, parts: Sequence[RecordPart]) -> None:
        """Print records."""
        self.count += sum(part.number for part in parts)
        if self._rows is not None:
            self._rows.write(as_document(record) for part in parts for record in part.records())
        else:
            self._out.writelines(map(self._format, parts))
            self._out.flush()


async def read_stream(
    namespace: Namespace,
    stream: str,
    *,
    form: str,
    output: str,
    follow: bool,
    waits: bool = False,
    start: Start | Dlsn = EARLIEST,
    end: Dlsn | None = None,
    limit: int | None = None,
    last: int | None = None,
) -> None:
    """Print records from ``start`` (or only the ``last`` ones) up to the current end.

    With ``follow`` or ``waits`` reading continues after that end, until ``limit`` or ``end``. With
    ``follow`` an interrupt is a success. Raises NoSuchStreamError, NoSuchObjectError (``start`` is
    beyond the end, and reading does not wait for it), TruncatedError, GapError, CorruptionError.
    """
    stop = await _end_of(namespace, stream)
    with ExitStack() as closing:
        rows = None if output == TABLE else closing.enter_context(DocumentWriter(output))
        progress = closing.enter_context(ProgressBar()) if not sys.stdout.isatty() else None
        printer = _Printer(form, rows)
        try:
            if last is not None:
                printer.show(await read_last(namespace, stream, last, stop))
                if not follow:
                    return
                start = stop
            reader = await namespace.open_reader(stream, start)
            try:
                limits = None if follow or waits else stop
                async for parts in read_parts(reader, _earlier(limits, end), limit):
                    printer.show(parts)
                    if progress is not None and not follow:
                        progress.show(f"{printer.count:,} records read", printer.count, limit)
            finally:
                await reader.aclose()
        except asyncio.CancelledError:
            if not follow:
                raise
    if not printer.count and not follow and not waits:
        _check_found(stream, start, stop)
    if follow:
        print_message(f"{printer.count:,} records of {stream} were printed")


def _check_found(stream: str, start: Start | Dlsn, stop: Dlsn) -> None:
    """Raise NoSuchObjectError if ``start`` is beyond the end ``stop``, where nothing was found.

    The position right after the last record is not: there is just nothing to read yet.
    """
    if isinstance(start, AtTxid):
        wanted = f"txid {start.txid} is above that of every record of stream {stream}"
    elif isinstance(start, AtTime | AtEventTime):
        wanted = f"stream {stream} has no record of this time or a later one"
    elif isinstance(start, Dlsn) and start > stop:
        wanted = f"position {start} is beyond the end of stream {stream}"
    else:
        return
    raise NoSuchObjectError(f"{wanted}, which is at {stop}; --wait --limit N waits for records")


async def _end_of(namespace: Namespace, stream: str) -> Dlsn:
    """Return the position after the last record that is readable now, and say if it may be old."""
    reader = await namespace.open_reader(stream, LATEST)
    await reader.aclose()
    if reader.metadata_age_ms is not None:
        print_message(
            f"the metadata store is out of reach: this is the end of {stream} that was known here "
            f"{reader.metadata_age_ms / 1000:.0f} s ago, there may be further records"
        )
    return reader.position


def _earlier(first: Dlsn | None, second: Dlsn | None) -> Dlsn | None:
    return min((end for end in (first, second) if end is not None), default=None)
