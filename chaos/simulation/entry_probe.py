"""Reads entries from bookies, and sends late adds to deleted or fenced ledgers, for the checker.

This is a small client of its own that packs frames and computes digests, so that the checker does
not depend on the product's client.
"""

import asyncio
import struct

from crc32c import crc32c

from ...core.protocol.ledger_metadata import LedgerMetadata
from ...core.wire.entry import master_key
from ..checker.history import LateAdd
from ..checker.run_record import EntryCopy, Rules

_REQUEST = struct.Struct(">IBBHqq")
_ANSWER = struct.Struct(">BBHIqq")
_HEADER = struct.Struct(">qqqq")
_READ = 2
_ADD_HEAD = struct.Struct(">IBBH20s")
_ADD = 1
_NO_LEDGER = 1


class _ReadConnection(asyncio.Protocol):
    """A connection that pipelines reads and collects the valid copies."""

    def __init__(self) -> None:
        self.copies: dict[tuple[int, int], EntryCopy] = {}
        self.waiting = 0
        self.done = asyncio.Event()
        self._held = b""
        self._transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def read(self, wanted: list[tuple[int, int]]) -> None:
        """Send a read for each (ledger, entry). ``done`` is set after the last response."""
        assert isinstance(self._transport, asyncio.Transport)
        self.waiting = len(wanted)
        if not wanted:
            self.done.set()
        self._transport.write(
            b"".join(_REQUEST.pack(20, 2, _READ, 0, ledger, entry) for ledger, entry in wanted)
        )

    def data_received(self, data: bytes) -> None:
        self._held += data
        at = 0
        while len(self._held) - at >= 4:
            size = int.from_bytes(self._held[at : at + 4], "big")
            if len(self._held) - at - 4 < size:
                break
            self._on_response(self._held[at + 4 : at + 4 + size])
            at += 4 + size
        self._held = self._held[at:]

    def _on_response(self, frame: bytes) -> None:
        _, _, _, code, ledger, entry = _ANSWER.unpack_from(frame)
        copy = _copy_of(frame[_ANSWER.size :], ledger, entry) if code == 0 else None
        if copy is not None:
            self.copies[ledger, entry] = copy
        self.waiting -= 1
        if not self.waiting:
            self.done.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.done.set()


def _copy_of(body: bytes, ledger: int, entry: int) -> EntryCopy | None:
    """Return the copy in a response; None if its header or digest is wrong."""
    if len(body) < _HEADER.size + 4:
        return None
    header, digest, payload = body[: _HEADER.size], body[_HEADER.size : 36], body[36:]
    found_ledger, found_entry, lac, length = _HEADER.unpack(header)
    if (found_ledger, found_entry) != (ledger, entry):
        return None
    if crc32c(payload, crc32c(header)).to_bytes(4, "big") != digest:
        return None
    return EntryCopy(lac, length, payload)


async def read_entries(
    address: tuple[str, int], bookie: str, ledgers: list[LedgerMetadata]
) -> dict[tuple[int, int], EntryCopy] | None:
    """Return the valid copies of the entries that ``bookie`` should have, by (ledger, entry).

    ``ledgers`` are closed. Returns None if the bookie cannot be reached. Call it in a simulated
    process.
    """
    wanted = []
    for metadata in ledgers:
        rules = Rules(metadata)
        for entry_id in range(metadata.last_entry_id + 1):
            if bookie in rules.write_set(entry_id):
                wanted.append((metadata.ledger_id, entry_id))
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(30):
            transport, reading = await loop.create_connection(_ReadConnection, *address)
            reading.read(wanted)
            await reading.done.wait()
            transport.abort()
    except (OSError, TimeoutError):
        return None
    return reading.copies if not reading.waiting else None


_LATE_ADDS_S_MAX = 5.0
"""Time limit for all requests to one bookie."""


class _RequestConnection(asyncio.Protocol):
    """A connection with one request in flight at a time."""

    def __init__(self) -> None:
        self._code: asyncio.Future[int] | None = None
        self._held = b""
        self._transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    async def request(self, frame: bytes) -> int:
        """Send a frame and return the status code. Raises OSError if the connection breaks."""
        assert isinstance(self._transport, asyncio.Transport)
        self._code = asyncio.get_running_loop().create_future()
        self._transport.write(frame)
        return await self._code

    def data_received(self, data: bytes) -> None:
        self._held += data
        while len(self._held) >= 4:
            size = int.from_bytes(self._held[:4], "big")
            if len(self._held) - 4 < size:
                break
            frame, self._held = self._held[4 : 4 + size], self._held[4 + size :]
            if self._code is not None and not self._code.done():
                self._code.set_result(_ANSWER.unpack_from(frame)[3])

    def connection_lost(self, exc: Exception | None) -> None:
        if self._code is not None and not self._code.done():
            self._code.set_exception(exc or OSError("the connection was closed"))


async def send_late_adds(
    address: tuple[str, int], bookie: str, ledger_ids: list[int]
) -> list[LateAdd]:
    """Add an entry to each ledger that the bookie has deleted, and read it back (invariant L19).

    ``ledger_ids`` are deleted ledgers. Those that the bookie still has are skipped, because it may
    not have collected them yet. Call it in a simulated process.
    """
    found: list[LateAdd] = []
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(_LATE_ADDS_S_MAX):
            transport, connection = await loop.create_connection(_RequestConnection, *address)
            for ledger_id in ledger_ids:
                read = _REQUEST.pack(20, 2, _READ, 0, ledger_id, 0)
                if await connection.request(read) != _NO_LEDGER:
                    continue
                code = await connection.request(_late_entry(ledger_id, 0, b""))
                is_readable = await connection.request(read) == 0
                found.append(LateAdd(bookie, ledger_id, code == 0, is_readable))
            transport.abort()
    except (OSError, TimeoutError):
        return found
    return found


async def send_adds_behind_fences(address: tuple[str, int], ledgers: list[LedgerMetadata]) -> None:
    """Add an entry to each ledger, all of which the bookie has fenced.

    It follows the end of a closed ledger. In a ledger that was not closed it is the first entry.
    The answers are recorded on the wire (invariant L9). Call it in a simulated process.
    """
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(_LATE_ADDS_S_MAX):
            transport, connection = await loop.create_connection(_RequestConnection, *address)
            for metadata in ledgers:
                end = metadata.last_entry_id + 1
                await connection.request(_late_entry(metadata.ledger_id, end, metadata.password))
            transport.abort()
    except (OSError, TimeoutError):
        return  # a bookie that cannot be reached confirms nothing


def _late_entry(ledger_id: int, entry_id: int, password: bytes) -> bytes:
    payload = b"late"  # the bytes are part of a seed's fingerprint
    header = _HEADER.pack(ledger_id, entry_id, entry_id - 1, len(payload))
    entry = header + crc32c(payload, crc32c(header)).to_bytes(4, "big") + payload
    head = _ADD_HEAD.pack(24 + len(entry), 2, _ADD, 0, master_key(password))
    return head + entry
