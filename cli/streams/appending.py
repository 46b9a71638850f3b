"""``stream append``: appends records from a file or standard input, and reports the outcome."""

import asyncio
import os
import stat
import sys
import time
from collections import deque
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import BinaryIO

from ...client.units import show_bytes, show_ms
from ...core.log.namespace import Namespace
from ...core.log.write.batch import AppendMany
from ...core.log.write.stream_writer import StreamWriter
from ...core.protocol.dlsn import Dlsn
from ...core.protocol.errors import InvalidArgumentError, RhumblineError
from ..output import TABLE, ProgressBar, print_message, print_record
from ..output_schema import integer, maybe, record, text
from .records.record_documents import InputRecord, parse_documents
from .records.record_files import read_records

APPENDED = record(
    {
        "stream": text("Name of the stream."),
        "records": integer("Acknowledged records."),
        "size_bytes": integer("Their payload."),
        "first": maybe(text("DLSN of the first one.")),
        "last": maybe(text("DLSN of the last one.")),
        "took_ms": integer("Time from the first record to the last acknowledgement."),
    }
)
"""The schema of ``stream append``."""

_TICKETS_MAX = 256
_LINE_BYTES_MAX = 8 << 20  # of JSON, in which a byte of a record takes up to six
_PROGRESS_SECONDS = 0.2


@dataclass(slots=True)
class _Tally:
    """Counts of the records acknowledged so far."""

    records: int = 0
    bytes: int = 0
    first: Dlsn | None = None
    last: Dlsn | None = None


class _Appender:
    """Appends batches, keeps them in flight and counts their acknowledgements in order."""

    def __init__(
        self,
        writer: StreamWriter,
        *,
        txid: int | None,
        verbose: bool,
        input_bytes: int | None,
        common: InputRecord | None = None,
    ) -> None:
        """``common`` holds the attributes of every record."""
        self.tally = _Tally()
        self._writer = writer
        self._txids = None if txid is None else count(txid)
        self._common = InputRecord(b"") if common is None else common
        self._verbose = verbose
        self._input_bytes = input_bytes
        self._tickets: deque[tuple[AppendMany, int]] = deque()
        self._progress = ProgressBar()
        self._shown_at = 0.0

    async def append(self, payloads: list[bytes]) -> None:
        """Append a batch; wait while too many batches are in flight."""
        common = self._common
        if common == InputRecord(b""):
            await self._submit(
                self._writer.append_many(payloads, self._next_txids(payloads)), payloads
            )
        else:
            await self.append_records([common._replace(payload=payload) for payload in payloads])

    async def append_records(self, records: list[InputRecord]) -> None:
        """Append records with attributes of their own, which replace the common ones."""
        if not records:
            return
        common = self._common
        payloads = [one.payload for one in records]
        ticket = self._writer.append_many(
            payloads,
            self._next_txids(payloads),
            keys=[common.key if one.key is None else one.key for one in records],
            headers=[{**(common.headers or {}), **(one.headers or {})} for one in records],
            event_times=[
                common.event_time if one.event_time is None else one.event_time for one in records
            ],
        )
        await self._submit(ticket, payloads)

    def _next_txids(self, payloads: list[bytes]) -> list[int] | None:
        return None if self._txids is None else [next(self._txids) for _ in payloads]

    async def _submit(self, ticket: AppendMany, payloads: list[bytes]) -> None:
        self._tickets.append((ticket, sum(map(len, payloads))))
        await self._writer.room()
        while self._tickets and (self._tickets[0][0].is_done or len(self._tickets) > _TICKETS_MAX):
            await self._settle_oldest()

    async def finish(self) -> None:
        """Wait for the acknowledgement of all batches."""
        try:
            while self._tickets:
                await self._settle_oldest()
        finally:
            self._progress.clear()

    async def _settle_oldest(self) -> None:
        ticket, size = self._tickets[0]
        result = await ticket
        self._tickets.popleft()
        tally = self.tally
        tally.records += result.record_count
        tally.bytes += size
        tally.first = tally.first or result.first
        tally.last = result.last
        if self._verbose:
            sys.stdout.write("".join(f"{dlsn}\n" for dlsn in ticket.dlsns()))
            sys.stdout.flush()
        now = time.monotonic()
        if now - self._shown_at > _PROGRESS_SECONDS:
            self._shown_at = now
            self._progress.show(
                f"{tally.records:,} records, {show_bytes(tally.bytes)} appended",
                tally.bytes,
                self._input_bytes,
            )


async def append_records(
    namespace: Namespace,
    stream: str,
    *,
    output: str,
    file: Path | None,
    length_prefixed: bool,
    txid: int | None,
    verbose: bool,
    is_json: bool = False,
    common: InputRecord | None = None,
) -> None:
    """Append all records and report how many were acknowledged, also after a failure.

    ``common`` holds the attributes of every record. With ``is_json`` the lines are JSON objects,
    as ``stream read --format json`` prints them. Raises the error that stopped it, after the
    report.
    """
    policy = (await namespace.describe(stream)).policy
    source = _open(file)
    started = time.monotonic()
    appender = None
    try:
        async with await namespace.open_writer(stream) as writer:
            appender = _Appender(
                writer,
                txid=txid,
                verbose=verbose and output == TABLE,
                input_bytes=_size_of(source),
                common=common,
            )
            try:
                async for records in read_records(
                    source,
                    is_length_prefixed=length_prefixed,
                    size_max=_LINE_BYTES_MAX if is_json else policy.record_bytes_max,
                ):
                    if is_json:
                        await appender.append_records(parse_documents(records))
                    else:
                        await appender.append(records)
            finally:
                await appender.finish()
    except (RhumblineError, asyncio.CancelledError):
        if appender is not None:
            print_message(_summary(appender.tally, stream, started) + ", then it failed")
        raise
    finally:
        if file is not None:
            source.close()
    if output != TABLE:
        tally = appender.tally
        print_record(
            {
                "stream": stream,
                "records": tally.records,
                "size_bytes": tally.bytes,
                "first": tally.first and str(tally.first),
                "last": tally.last and str(tally.last),
                "took_ms": round((time.monotonic() - started) * 1000),
            },
            output,
        )
    else:
        print_message(_summary(appender.tally, stream, started))


def _open(file: Path | None) -> BinaryIO:
    if file is None:
        return sys.stdin.buffer
    try:
        return file.open("rb")
    except OSError as error:
        raise InvalidArgumentError(f"{file}: {error.strerror}") from error


def _size_of(source: BinaryIO) -> int | None:
    """Return the bytes that a regular file holds; None for a pipe or a terminal."""
    try:
        found = os.fstat(source.fileno())
    except (OSError, ValueError):
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def _summary(tally: _Tally, stream: str, started: float) -> str:
    took = show_ms((time.monotonic() - started) * 1000)
    if not tally.records:
        return f"nothing was appended to {stream}"
    return (
        f"{tally.records:,} records, {show_bytes(tally.bytes)}, appended to {stream} in {took}: "
        f"{tally.first} to {tally.last}"
    )
