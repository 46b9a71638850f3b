"""Asks every bookie for every entry that metadata says it has, in the plain words of the protocol,
and offers entries of deleted ledgers.

A client of its own, of a few lines, so that what judges the product does not read through it:
frames are packed and digests computed here.
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


class _Asker(asyncio.Protocol):
    """Sends reads and collects the answers."""

    def __init__(self) -> None:
        self.copies: dict[tuple[int, int], EntryCopy] = {}
        self.waiting = 0
        self.done = asyncio.Event()
        self._held = b""
        self._transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def ask(self, wanted: list[tuple[int, int]]) -> None:
        """Asks for (ledger, entry)s."""
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
            self._answer(self._held[at + 4 : at + 4 + size])
            at += 4 + size
        self._held = self._held[at:]

    def _answer(self, frame: bytes) -> None:
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
    """A valid copy, or None."""
    if len(body) < _HEADER.size + 4:
        return None
    header, digest, payload = body[: _HEADER.size], body[_HEADER.size : 36], body[36:]
    found_ledger, found_entry, lac, length = _HEADER.unpack(header)
    if (found_ledger, found_entry) != (ledger, entry):
        return None
    if crc32c(payload, crc32c(header)).to_bytes(4, "big") != digest:
        return None
    return EntryCopy(lac, length, payload)


async def probe(
    address: tuple[str, int], bookie: str, ledgers: list[LedgerMetadata]
) -> dict[tuple[int, int], EntryCopy] | None:
    """The valid copies of closed ledgers' entries that ``bookie`` should have; by (ledger, entry).

    None when the bookie cannot be asked. Runs in a simulated process.
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
            transport, asker = await loop.create_connection(_Asker, *address)
            asker.ask(wanted)
            await asker.done.wait()
            transport.abort()
    except (OSError, TimeoutError):
        return None
    return asker.copies if not asker.waiting else None


_TALK_S_MAX = 5.0
"""With one bookie."""


class _Talker(asyncio.Protocol):
    """One request at a time: what was asked last is answered by a code."""

    def __init__(self) -> None:
        self._code: asyncio.Future[int] | None = None
        self._held = b""
        self._transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    async def ask(self, frame: bytes) -> int:
        """The code of the answer. Raises OSError when the connection breaks."""
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
            self._code.set_exception(exc or OSError("the connection is over"))


async def add_late(address: tuple[str, int], bookie: str, ledger_ids: list[int]) -> list[LateAdd]:
    """Sends each of some deleted ledgers that the bookie has forgotten an entry, and reads it.

    Those that it still has are left alone: it may not know yet. Runs in a simulated process.
    """
    found: list[LateAdd] = []
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(_TALK_S_MAX):
            transport, talker = await loop.create_connection(_Talker, *address)
            for ledger_id in ledger_ids:
                read = _REQUEST.pack(20, 2, _READ, 0, ledger_id, 0)
                if await talker.ask(read) != _NO_LEDGER:
                    continue
                code = await talker.ask(_late_entry(ledger_id))
                is_readable = await talker.ask(read) == 0
                found.append(LateAdd(bookie, ledger_id, code == 0, is_readable))
            transport.abort()
    except (OSError, TimeoutError):
        return found
    return found


def _late_entry(ledger_id: int) -> bytes:
    payload = b"late"
    header = _HEADER.pack(ledger_id, 0, -1, len(payload))
    entry = header + crc32c(payload, crc32c(header)).to_bytes(4, "big") + payload
    head = _ADD_HEAD.pack(24 + len(entry), 2, _ADD, 0, master_key(b""))
    return head + entry
