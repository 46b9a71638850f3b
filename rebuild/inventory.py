"""The inventory of a bookie: its identity, and the entries and metadata of each of its ledgers.

Inventories of all bookies are what a lost metadata store is rebuilt from (rule BAK-2). Each is a
sealed file. It contains the passwords of ledgers, so it is as secret as the metadata store.
"""

import base64
import binascii
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from ..core.protocol.bookie_id import BookieId, Region, check_bookie_id, check_region
from ..core.protocol.errors import CorruptionError, InvalidArgumentError
from ..core.protocol.ledger_metadata import NO_ENTRY
from .sealed_file import seal, unseal

KIND = "inventory"


class EndFacts(NamedTuple):
    """The facts about a ledger up to an entry, which this entry carries."""

    entry_id: int
    length_bytes: int
    """Payload bytes of the ledger up to the entry."""
    has_records: bool
    """True if the entry holds record sets, so that the other fields are known."""
    record_count: int = 0
    last_txid: int = 0
    ends_stream: bool = False
    producers_entry: int = NO_ENTRY
    created_ms: int = 0


class HeldRange(NamedTuple):
    """Consecutive entry ids, both ends included."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class HeldLedger:
    """One ledger on one bookie."""

    ledger_id: int
    ranges: tuple[HeldRange, ...] = ()
    """The entries that the bookie holds, in order."""
    lac: int = NO_ENTRY
    is_in_limbo: bool = False
    """True if entries that the bookie has acknowledged may be missing in ``ranges``."""
    metadata: bytes = b""
    """The copy of the ledger's metadata; empty if there is none."""
    tail: tuple[EndFacts, ...] = ()
    """The facts of the last entries."""

    def holds(self, entry_id: int) -> bool:
        """Return True if the bookie holds the entry."""
        return self.holds_all(entry_id, entry_id)

    def holds_all(self, first: int, last: int) -> bool:
        """Return True if the bookie holds all entries from ``first`` to ``last``."""
        at = bisect_right(self.ranges, (first, 1 << 63)) - 1
        return at >= 0 and self.ranges[at].last >= last

    def holds_any(self, first: int, last: int) -> bool:
        """Return True if the bookie holds an entry from ``first`` to ``last``."""
        at = bisect_right(self.ranges, (last, 1 << 63)) - 1
        return at >= 0 and self.ranges[at].last >= first

    @property
    def last_entry_id(self) -> int:
        """The highest entry, NO_ENTRY if there is none."""
        return self.ranges[-1].last if self.ranges else NO_ENTRY


@dataclass(frozen=True, slots=True)
class BookieInventory:
    """The content of one bookie's directory, whose open ledgers are fenced."""

    bookie_id: BookieId
    instance_id: str
    region: Region
    rack: Region
    start: int
    token: str
    taken_ms: int
    highest_ledger_id: int
    """Highest id of a ledger that is or was on the bookie; -1 if there was none."""
    is_in_limbo: bool = False
    ledgers: tuple[HeldLedger, ...] = ()

    def encode(self) -> bytes:
        """Return the bytes of the inventory's file. Raises LimitExceededError."""
        fields = {name: value for name, value in asdict(self).items() if name != "ledgers"}
        return seal(KIND, {**fields, "ledgers": [_fields_of(ledger) for ledger in self.ledgers]})

    @classmethod
    def decode(cls, data: bytes, name: str) -> "BookieInventory":
        """Decode a file. Raises ForeignDataError, CorruptionError; ``name`` is for their text."""
        content = unseal(KIND, data, name)
        try:
            ledgers = tuple(_ledger_of(fields) for fields in content.pop("ledgers"))
            found = cls(**content, ledgers=ledgers)
            check_bookie_id(found.bookie_id)
            check_region(found.region)
            check_region(found.rack)
            numbers = (found.start, found.taken_ms, found.highest_ledger_id)
            if any(type(number) is not int for number in numbers):
                raise ValueError("a number is not an integer")
        except (TypeError, ValueError, KeyError, InvalidArgumentError) as error:
            raise CorruptionError(f"{name} is not a valid inventory: {error}") from error
        return found


def ranges_of(entry_ids: Iterable[int]) -> tuple[HeldRange, ...]:
    """Return rising entry ids as ranges."""
    ranges: list[HeldRange] = []
    for entry_id in entry_ids:
        if ranges and ranges[-1].last == entry_id - 1:
            ranges[-1] = ranges[-1]._replace(last=entry_id)
        else:
            ranges.append(HeldRange(entry_id, entry_id))
    return tuple(ranges)


def _fields_of(ledger: HeldLedger) -> dict[str, Any]:
    return {
        "id": ledger.ledger_id,
        "ranges": ledger.ranges,
        "lac": ledger.lac,
        "limbo": ledger.is_in_limbo,
        "metadata": base64.b64encode(ledger.metadata).decode(),
        "tail": ledger.tail,
    }


def _ledger_of(fields: dict[str, Any]) -> HeldLedger:
    """Decode a ledger. Raises ValueError, TypeError, KeyError."""
    ranges = tuple(HeldRange(int(first), int(last)) for first, last in fields["ranges"])
    below = -1
    for first, last in ranges:
        if not below < first <= last:
            raise ValueError(f"ledger {fields['id']}: ranges are not in order")
        below = last
    try:
        metadata = base64.b64decode(fields["metadata"], validate=True)
    except binascii.Error as error:
        raise ValueError(f"ledger {fields['id']}: {error}") from error
    return HeldLedger(
        ledger_id=int(fields["id"]),
        ranges=ranges,
        lac=int(fields["lac"]),
        is_in_limbo=bool(fields["limbo"]),
        metadata=metadata,
        tail=tuple(EndFacts(*facts) for facts in fields["tail"]),
    )
