"""A bookie with metadata in memory, and a client that exchanges frames over a real socket."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from random import Random
from typing import NoReturn

from rhumbline.backends.memory import MemoryStore, MemoryTree
from rhumbline.core.bookie.bookie import Bookie
from rhumbline.core.bookie.config import BookieConfig
from rhumbline.core.bookie.identity import IDENTITY_FILE, decode_identity, format_storage
from rhumbline.core.bookie.log.commit_group import Outbox
from rhumbline.core.bookie.start.start_record import StartRecord
from rhumbline.core.bookie.start.start_record import encode as encode_start
from rhumbline.core.metadata.bookie_directory import BookieDirectory
from rhumbline.core.metadata.cluster_layout import Paths, initialise_cluster
from rhumbline.core.metadata.ledger_store import LedgerStore
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.errors import (
    CorruptionError,
    ForeignDataError,
    MetadataUnavailableError,
    NoNodeError,
    RhumblineError,
)
from rhumbline.core.protocol.ledger_metadata import NO_ENTRY, DigestType, Fragment, LedgerMetadata
from rhumbline.core.runtime.runtime import Runtime
from rhumbline.core.wire import bookkeeper_pb2 as pb
from rhumbline.core.wire import v2, v3
from rhumbline.core.wire.entry import EntryDigest, encode_entry, encode_lac, master_key
from rhumbline.tests.support.fakes.ledger_numbers import create
from rhumbline.tests.unit.core.bookie.memory_disk import MemoryDisk

PASSWORD = b"secret"
KEY = master_key(PASSWORD)
DIGEST = EntryDigest(DigestType.CRC32C, PASSWORD)


class CountingSink:
    """Counts the delivered responses."""

    def __init__(self) -> None:
        self.count = 0

    def deliver(self, outbox: Outbox) -> None:
        self.count += len(outbox.adds)

    def reject(self, outbox: Outbox, error: RhumblineError) -> None:
        raise error


async def until(condition: Callable[[], object]) -> None:
    """Let other tasks run until the condition is true."""
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0)


class FixedClock:
    """A wall clock with a fixed time."""

    def __init__(self) -> None:
        self.now_ms = 1_700_000_000_000

    def wall_ms(self) -> int:
        return self.now_ms


def entry(
    ledger_id: int, entry_id: int, payload: bytes = b"hello", lac: int | None = None
) -> bytes:
    """Return an entry as a writer encodes it."""
    known = entry_id - 1 if lac is None else lac
    return encode_entry(DIGEST, ledger_id, entry_id, known, 5 * (entry_id + 1), payload)


def lac_body(ledger_id: int, lac: int) -> bytes:
    """Return the body of an explicit LAC."""
    return encode_lac(DIGEST, ledger_id, lac)


class World:
    """The metadata of a cluster, and bookies on disks in memory."""

    def __init__(self, seed: int = 7) -> None:
        self.tree = MemoryTree()
        self.store = MemoryStore(self.tree)
        self.clock = FixedClock()
        self.runtime = Runtime(self.clock, Random(seed))
        self.ledgers = LedgerStore(self.store)
        self.directory = BookieDirectory(self.store)
        self.instance_id = ""

    async def start(self) -> None:
        self.instance_id = await initialise_cluster(self.store, self.runtime.random)

    async def format(self, disk: MemoryDisk, name: str = "b1") -> BookieId:
        return await format_storage(
            disk, self.runtime, name, "east", "r1", self.instance_id, self.directory
        )

    async def rewind_starts(self, disk: MemoryDisk) -> None:
        """Make the record of starts that of the moment in which the disk was copied.

        A copy of a disk then stands for a kill at that moment, and not for a restored backup.
        """
        if IDENTITY_FILE not in disk.files:
            return
        with suppress(CorruptionError, ForeignDataError):
            identity = decode_identity(bytes(disk.files[IDENTITY_FILE]))
            path = Paths().start(identity.bookie_id)
            with suppress(NoNodeError):
                await self.store.delete(path)
            if identity.token:
                record = StartRecord(identity.start, identity.token, 0, "")
                await self.store.create(path, encode_start(record))

    async def open(
        self, disk: MemoryDisk, config: BookieConfig | None = None, *, is_backup: bool = False
    ) -> Bookie:
        if not is_backup:
            await self.rewind_starts(disk)
        config = config or BookieConfig(log_file_bytes=1 << 20)
        bookie = await Bookie.open(self.runtime, disk, config, self.ledgers, self.directory)
        await bookie.serve("127.0.0.1", 0)
        return bookie

    async def make_ledger(self, ledger_id: int, bookie: BookieId) -> None:
        """Creates the metadata of an open ledger that names the bookie."""
        await create(
            self.store,
            LedgerMetadata(
                ledger_id, 1, 1, 1, (Fragment(0, (bookie,)),), password=PASSWORD, creation_token=1
            ),
        )

    async def aclose(self) -> None:
        self.directory.close()
        await self.store.close()


class Wire:
    """One connection to a bookie."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._txn = 0

    @classmethod
    async def connect(cls, bookie: Bookie) -> "Wire":
        return cls(*await asyncio.open_connection("127.0.0.1", bookie.port))

    def send(self, frame: bytes) -> None:
        self.writer.write(frame)

    async def frame(self) -> bytes:
        async with asyncio.timeout(60):
            size = int.from_bytes(await self.reader.readexactly(4), "big")
            return await self.reader.readexactly(size)

    async def is_closed(self) -> bool:
        async with asyncio.timeout(60):
            return await self.reader.read(1) == b""

    async def request(self, frame: bytes) -> v2.Response:
        self.send(frame)
        return v2.decode_response(await self.frame())

    async def add(self, data: bytes, flags: int = 0, key: bytes = KEY) -> int:
        self.send(v2.encode_add(key, data, flags))
        return await self.add_response()

    async def add_response(self) -> int:
        response = v2.decode_response(await self.frame())
        assert isinstance(response, v2.AddResponse)
        return response.code

    async def read(self, ledger_id: int, entry_id: int) -> tuple[int, bytes]:
        response = await self.request(v2.encode_read(ledger_id, entry_id))
        assert isinstance(response, v2.ReadResponse)
        return response.code, response.body

    async def fence(self, ledger_id: int, entry_id: int = -1, key: bytes = KEY) -> int:
        response = await self.request(v2.encode_read(ledger_id, entry_id, v2.FLAG_FENCE, key))
        assert isinstance(response, v2.ReadResponse)
        return response.code

    def next_txn(self) -> int:
        self._txn += 1
        return self._txn

    async def request3(self, request: pb.Request) -> pb.Response:
        self.send(v3.frame(request))
        return await self.response3()

    async def response3(self) -> pb.Response:
        return v3.decode_response(await self.frame())

    async def aclose(self) -> None:
        self.writer.close()


async def introduce(wire: Wire, ledger_id: int) -> int:
    """Send an explicit LAC of -1, and return the status of the response."""
    request = v3.write_lac_request(
        wire.next_txn(), ledger_id, NO_ENTRY, KEY, lac_body(ledger_id, NO_ENTRY)
    )
    return v3.status_of(await wire.request3(request))


async def unavailable(*_: object, **__: object) -> NoReturn:
    """Fail as the calls of a metadata store that cannot be reached do."""
    raise MetadataUnavailableError("the store is unavailable")


@asynccontextmanager
async def one_bookie(
    config: BookieConfig | None = None, disk: MemoryDisk | None = None
) -> AsyncIterator[tuple[World, Bookie, Wire]]:
    """Yield a world, a serving bookie with the metadata of ledgers 1 to 9, and a client."""
    world = World()
    await world.start()
    disk = disk or MemoryDisk()
    bookie_id = await world.format(disk)
    bookie = await world.open(disk, config)
    for ledger_id in range(1, 10):
        await world.make_ledger(ledger_id, bookie_id)
    wire = await Wire.connect(bookie)
    try:
        yield world, bookie, wire
    finally:
        await wire.aclose()
        await bookie.aclose()
        await world.aclose()
