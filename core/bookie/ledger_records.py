"""The state of ledgers apart from their entries, journaled as state records in the write log.

A ledger's record holds its whole state (master key, fence, explicit LAC), so it can be applied any
number of times. A fence is never removed (rule BKE-11), the key is the first one seen, and the LAC
never falls, whatever the order of records.

A new log file begins with a snapshot of all state. It is taken in pieces while adds continue: a
change meanwhile is also in a later record.
"""

import struct
import sys
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ..protocol.errors import CorruptionError
from ..protocol.ledger_metadata import NO_ENTRY
from .limbo import Limbo

if TYPE_CHECKING:
    from .server.long_poll import ParkedPoll

MASTER_KEY_BYTES = 20
LAC_BODY_BYTES_MAX = 64

_LEDGER = 1
_TOMBSTONE = 2
_SNAPSHOT_END = 3
_MANIFEST = 4
_LIMBO = 5
_LIMBO_CLEARED = 6
_BOOT = 7
_CLEAN_END = 8
_SORTED_LEDGERS = 9
_SEAL = 10
_LIMBO_BOUND = 11

_LEDGER_FIELDS = struct.Struct(">BqBqqH20s")
_TOMBSTONE_FIELDS = struct.Struct(">Bqq")
_COUNT_FIELDS = struct.Struct(">BQ")
_COPY_FIELDS = struct.Struct(">Bq")
_NUMBER = struct.Struct(">Q")
_PAIR = struct.Struct(">QQ")
_IS_LITTLE_ENDIAN = sys.byteorder == "little"
_LAC = struct.Struct(">q")
_FENCED = 1
_PROVEN = 2


class LedgerRecord:
    """The state of one ledger. Only the bookie changes it, between awaits."""

    __slots__ = (
        "is_fence_durable",
        "is_fenced",
        "is_proven",
        "lac",
        "lac_body",
        "lac_changed_ms",
        "ledger_id",
        "master_key",
        "polls",
        "accepts_adds",
    )

    def __init__(self, ledger_id: int, master_key: bytes) -> None:
        self.ledger_id = ledger_id
        self.master_key = master_key
        self.is_proven = False
        """True if the ledger's metadata was seen to name this bookie: the condition for denials."""
        self.is_fenced = False
        self.is_fence_durable = False
        self.accepts_adds = False
        """True if plain adds need no further check: proven, not fenced, not in limbo."""
        self.lac = NO_ENTRY
        self.lac_changed_ms = 0
        self.lac_body = b""
        """Body of the highest explicit LAC, unchanged."""
        self.polls: dict[ParkedPoll, None] | None = None
        """Long polls that wait for this ledger; created when the first one parks."""

    def take_lac_body(self, body: bytes) -> None:
        """Keeps the body of an explicit LAC, unless a higher one is known (rule BKE-13)."""
        if not self.lac_body or lac_of_body(body) >= lac_of_body(self.lac_body):
            self.lac_body = body

    def encode(self) -> bytes:
        """Return the state record of this ledger."""
        flags = (_FENCED if self.is_fenced else 0) | (_PROVEN if self.is_proven else 0)
        size = len(self.lac_body)
        head = _LEDGER_FIELDS.pack(
            _LEDGER, self.ledger_id, flags, self.lac, self.lac_changed_ms, size, self.master_key
        )
        return head + self.lac_body


class LedgerBytes(NamedTuple):
    """The bytes of each ledger's entries in a sorted file, by column: 16 bytes for each ledger."""

    ledgers: "array[int]"
    sizes: "array[int]"


@dataclass(slots=True)
class LogManifest:
    """The files in use: sorted files, and logs from ``log_floor`` on. Others are leftovers."""

    log_floor: int = 0
    sorted_files: dict[int, int] = field(default_factory=dict)
    """File number -> end of the file, in bytes; those with older entries come first."""

    def encode(self) -> bytes:
        """Return the state record of the manifest."""
        numbers = [self.log_floor]
        for number, end in self.sorted_files.items():
            numbers += (number, end)
        return bytes([_MANIFEST]) + struct.pack(f">{len(numbers)}Q", *numbers)


class LedgerRecords:
    """All ledgers of a bookie, the tombstones of deleted ones, and the bookie's own state."""

    def __init__(self) -> None:
        self.ledgers: dict[int, LedgerRecord] = {}
        self.tombstones: dict[int, int] = {}
        """Ledger id -> wall-clock milliseconds of its deletion."""
        self.copies: dict[int, bytes] = {}
        """Ledger id -> copy of its metadata, encoded, from which a lost store is rebuilt."""
        self.manifest = LogManifest()
        self.limbo = Limbo()
        self.boot_id = ""
        """Boot of the operating system in which the storage was last opened."""
        self.is_clean = False
        """True if the last record marks an orderly shutdown."""
        self.deletion_count = 0
        """Number of ledgers deleted since the start."""
        self.sorted_ledgers = LedgerBytes(array("Q"), array("Q"))
        """The last record of this kind, read from a sorted file."""
        self.sealed_for = 0
        """Number of the next log, according to the last seal record."""
        self.has_complete_snapshot = False
        """True if a complete snapshot was read."""

    def create(self, ledger_id: int, master_key: bytes) -> LedgerRecord:
        """Creates the state of a new ledger, which the caller journals."""
        assert ledger_id not in self.ledgers
        assert len(master_key) == MASTER_KEY_BYTES
        ledger = self.ledgers[ledger_id] = LedgerRecord(ledger_id, master_key)
        return ledger

    def delete(self, ledger_id: int, wall_ms: int) -> bytes:
        """Deletes a ledger and leaves a tombstone; returns the record to journal."""
        self.ledgers.pop(ledger_id, None)
        self.copies.pop(ledger_id, None)
        self.tombstones[ledger_id] = wall_ms
        self.deletion_count += 1
        return _TOMBSTONE_FIELDS.pack(_TOMBSTONE, ledger_id, wall_ms)

    def keep_copy(self, ledger_id: int, metadata: bytes) -> bytes:
        """Keep a copy of a ledger's metadata (rule BAK-1); return the record to journal.

        The ledger's own record must follow it in the log.
        """
        self.copies[ledger_id] = metadata
        return _COPY_FIELDS.pack(_CLEAN_END, ledger_id) + metadata

    def finish_replay(self) -> None:
        """Updates what follows from the replayed records: they are durable."""
        for ledger in self.ledgers.values():
            ledger.is_fence_durable = ledger.is_fenced
        self.refresh_accepts_adds()

    def refresh_accepts_adds(self) -> None:
        """Updates ``accepts_adds`` of all ledgers, after a change of limbo."""
        for ledger in self.ledgers.values():
            self.refresh_accepts_adds_of(ledger)

    def refresh_accepts_adds_of(self, ledger: LedgerRecord) -> None:
        """Updates ``accepts_adds`` after a change of one ledger."""
        in_limbo = self.limbo.covers(ledger.ledger_id)
        ledger.accepts_adds = ledger.is_proven and not ledger.is_fenced and not in_limbo

    def snapshot(self) -> Iterator[bytes]:
        """Yield the state records that rebuild everything; the last one holds the ledger count."""
        yield boot_record(self.boot_id)
        yield self.manifest.encode()
        yield from limbo_records(self.limbo)
        for ledger_id, wall_ms in list(self.tombstones.items()):
            yield _TOMBSTONE_FIELDS.pack(_TOMBSTONE, ledger_id, wall_ms)
        count = 0
        for ledger in list(self.ledgers.values()):
            count += 1
            metadata = self.copies.get(ledger.ledger_id)
            if metadata is not None:
                yield self.keep_copy(ledger.ledger_id, metadata)
            yield ledger.encode()
        yield _COUNT_FIELDS.pack(_SNAPSHOT_END, count)

    def apply(self, record: bytes) -> None:
        """Applies a state record. Raises CorruptionError if it is malformed."""
        handler = _HANDLERS.get(record[0]) if record else None
        if handler is None:
            raise CorruptionError(f"unknown kind of state record: {record[:1].hex()!r}")
        self.is_clean = False
        try:
            handler(self, record)
        except (struct.error, UnicodeDecodeError) as error:
            raise CorruptionError(f"damaged state record: {record[:40].hex()}") from error

    def _apply_ledger(self, record: bytes) -> None:
        _, ledger_id, flags, lac, changed_ms, size, key = _LEDGER_FIELDS.unpack_from(record)
        body = record[_LEDGER_FIELDS.size :]
        if len(body) != size:
            raise CorruptionError(f"the state record of ledger {ledger_id} is truncated")
        ledger = self.ledgers.get(ledger_id)
        if ledger is None:
            if ledger_id in self.tombstones:
                self.tombstones.pop(ledger_id)
            ledger = self.create(ledger_id, key)
        ledger.is_fenced = ledger.is_fenced or bool(flags & _FENCED)
        ledger.is_proven = ledger.is_proven or bool(flags & _PROVEN)
        if body:
            ledger.take_lac_body(body)
            lac = max(lac, lac_of_body(body))
        if lac > ledger.lac:
            ledger.lac, ledger.lac_changed_ms = lac, changed_ms

    def _apply_tombstone(self, record: bytes) -> None:
        _, ledger_id, wall_ms = _TOMBSTONE_FIELDS.unpack(record)
        self.ledgers.pop(ledger_id, None)
        self.copies.pop(ledger_id, None)
        self.tombstones[ledger_id] = wall_ms

    def _apply_snapshot_end(self, record: bytes) -> None:
        if len(self.ledgers) >= _COUNT_FIELDS.unpack(record)[1]:
            self.has_complete_snapshot = True

    def _apply_manifest(self, record: bytes) -> None:
        numbers = [number for (number,) in _NUMBER.iter_unpack(record[1:])]
        if not len(numbers) % 2:
            raise CorruptionError("a manifest record is truncated")
        files = dict(zip(numbers[1::2], numbers[2::2], strict=True))
        self.manifest = LogManifest(numbers[0], files)

    def _apply_sorted_ledgers(self, record: bytes) -> None:
        if (len(record) - 1) % _PAIR.size:
            raise CorruptionError("the ledgers of a sorted file are truncated")
        pairs = array("Q", record[1:])
        if _IS_LITTLE_ENDIAN:
            pairs.byteswap()
        self.sorted_ledgers = LedgerBytes(pairs[0::2], pairs[1::2])

    def _apply_limbo(self, record: bytes) -> None:
        _, below = _COUNT_FIELDS.unpack(record)
        if below == 0:
            self.limbo.end()
            return
        self.limbo.begin()
        if below != _NO_BOUND:
            self.limbo.limit(below)

    def _apply_limbo_bound(self, record: bytes) -> None:
        self.limbo.limit(_COUNT_FIELDS.unpack(record)[1])

    def _apply_limbo_cleared(self, record: bytes) -> None:
        self.limbo.clear(_COUNT_FIELDS.unpack(record)[1])

    def _apply_seal(self, record: bytes) -> None:
        self.sealed_for = _COUNT_FIELDS.unpack(record)[1]

    def _apply_boot(self, record: bytes) -> None:
        self.boot_id = record[1:].decode("ascii")

    def _apply_clean_end(self, record: bytes) -> None:
        """Apply a clean end or, if it has contents, a copy of a ledger's metadata.

        Programs that know no copies read one as a clean end. The ledger's record, which follows it,
        revokes that.
        """
        if len(record) == 1:
            self.is_clean = True
            return
        _, ledger_id = _COPY_FIELDS.unpack_from(record)
        self.copies[ledger_id] = record[_COPY_FIELDS.size :]


_NO_BOUND = 2**64 - 1


def lac_of_body(body: bytes) -> int:
    """Return the LAC from an explicit LAC's body: ledger id, LAC, digest. Raises struct.error."""
    lac: int = _LAC.unpack_from(body, _LAC.size)[0]
    return lac


def boot_record(boot_id: str) -> bytes:
    """Return the record of the operating system's boot, which is journaled at each start."""
    return bytes([_BOOT]) + boot_id.encode("ascii")


def clean_end_record() -> bytes:
    """Return the last record of an orderly shutdown: nothing after it was acknowledged."""
    return bytes([_CLEAN_END])


def seal_record(next_number: int) -> bytes:
    """Return the last record of a log file: the log continues in another, durable file."""
    return _COUNT_FIELDS.pack(_SEAL, next_number)


def sorted_ledgers_record(ledger_bytes: dict[int, int]) -> bytes:
    """Return the first record of a sorted file: the bytes of each ledger in it."""
    return bytes([_SORTED_LEDGERS]) + b"".join(_PAIR.pack(*item) for item in ledger_bytes.items())


def limbo_records(limbo: Limbo) -> Iterator[bytes]:
    """Yield the state records of a limbo; the first one resets it."""
    if not limbo.is_active:
        yield _COUNT_FIELDS.pack(_LIMBO, 0)
        return
    first, *others = sorted(limbo.bounds.values()) or [_NO_BOUND]
    yield _COUNT_FIELDS.pack(_LIMBO, first)
    for below in others:
        yield _COUNT_FIELDS.pack(_LIMBO_BOUND, below)
    for ledger_id in limbo.cleared:
        yield limbo_cleared_record(ledger_id)


def limbo_cleared_record(ledger_id: int) -> bytes:
    """Return the record that releases a ledger from limbo."""
    return _COUNT_FIELDS.pack(_LIMBO_CLEARED, ledger_id)


_HANDLERS: dict[int, Callable[[LedgerRecords, bytes], None]] = {
    _LEDGER: LedgerRecords._apply_ledger,
    _TOMBSTONE: LedgerRecords._apply_tombstone,
    _SNAPSHOT_END: LedgerRecords._apply_snapshot_end,
    _MANIFEST: LedgerRecords._apply_manifest,
    _LIMBO: LedgerRecords._apply_limbo,
    _LIMBO_BOUND: LedgerRecords._apply_limbo_bound,
    _LIMBO_CLEARED: LedgerRecords._apply_limbo_cleared,
    _BOOT: LedgerRecords._apply_boot,
    _CLEAN_END: LedgerRecords._apply_clean_end,
    _SORTED_LEDGERS: LedgerRecords._apply_sorted_ledgers,
    _SEAL: LedgerRecords._apply_seal,
}
