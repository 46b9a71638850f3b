"""The streams of a region that do not have their default owner (rules PRX-41, PRX-43).

An assignment names the proxy that should serve a stream instead of the one that rendezvous hashing
prefers. It is made by the balancer, and may be replaced by it, or pinned by an operator. The table
is one bounded value; the functions here are pure.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from ...core.protocol.errors import CorruptionError, LimitExceededError
from ...core.protocol.metadata_record import decode_metadata_record, encode_metadata_record

TABLE_BYTES_MAX = 80 * 1024
"""Maximum size of the encoded table; a value in the metadata store may have 96 KiB."""

_FORMAT = 1


class AssignmentTable(NamedTuple):
    """The assignments of one region: addresses by the key of the stream, the oldest first."""

    moved: Mapping[str, str]
    """Assignments by the balancer."""
    pinned: Mapping[str, str]
    """Assignments by an operator; they come before those by the balancer."""

    def addresses(self) -> dict[str, str]:
        """Return the assigned address of each stream."""
        return {**self.moved, **self.pinned}

    def encode(self) -> bytes:
        """Encode the table. Each address is written once."""
        numbers: dict[str, int] = {}
        for address in (*self.moved.values(), *self.pinned.values()):
            numbers.setdefault(address, len(numbers))
        fields = {
            "addresses": list(numbers),
            "moved": [[key, numbers[address]] for key, address in self.moved.items()],
            "pinned": [[key, numbers[address]] for key, address in self.pinned.items()],
        }
        return encode_metadata_record(_FORMAT, fields)

    @classmethod
    def decode(cls, region: str, data: bytes) -> "AssignmentTable":
        """Decode the value of a region's node, also if a later program has added fields.

        Those are lost when this program changes the table. Raises CorruptionError,
        ForeignDataError.
        """
        name = f"assignments of region {region}"
        names = {"addresses": list, "moved": list, "pinned": list}
        fields = decode_metadata_record(
            name, data, version=_FORMAT, fields=names, ignores_unknown=True
        )
        addresses = fields["addresses"]
        for address in addresses:
            if not isinstance(address, str):
                raise CorruptionError(f"{name}: not an address: {str(address)[:80]}")

        def assigned(items: Iterable[object]) -> dict[str, str]:
            found = {}
            for item in items:
                match item:
                    case [str(key), int(number), *_] if not isinstance(
                        number, bool
                    ) and 0 <= number < len(addresses):
                        found[key] = addresses[number]
                    case _:
                        raise CorruptionError(f"{name}: not an assignment: {str(item)[:80]}")
            return found

        return cls(assigned(fields["moved"]), assigned(fields["pinned"]))

    def with_moves(
        self,
        moves: Mapping[str, str],
        *,
        members: Collection[str],
        hot: Collection[str],
        evictions_max: int,
    ) -> "AssignmentTable":
        """Return the table with ``moves`` (new addresses by key) and without what is not needed.

        Assignments to addresses that are not in ``members`` are removed. If the table would be too
        large, the oldest assignments of streams that are not ``hot`` are removed, at most
        ``evictions_max``, and then the last moves are left out.
        """
        kept = {
            key: address
            for key, address in self.moved.items()
            if address in members and key not in moves and key not in self.pinned
        }
        table = AssignmentTable({**kept, **moves}, self.pinned)
        surplus = table.size_bytes - TABLE_BYTES_MAX
        if surplus <= 0:
            return table
        remaining = dict(table.moved)
        evictable = [key for key in kept if key not in hot][:evictions_max]
        for key in (*evictable, *reversed(list(moves))):
            if surplus <= 0:
                break
            surplus -= _item_bytes(key)
            del remaining[key]
            if key in moves and key in self.moved:  # it stays where it is assigned now
                remaining[key] = self.moved[key]
                surplus += _item_bytes(key)
        return AssignmentTable(remaining, self.pinned)

    def with_pin(self, key: str, address: str) -> "AssignmentTable":
        """Return the table with a pinned stream, without the oldest moves if it has to make room.

        Raises LimitExceededError if it is full of pins.
        """
        moved = {other: assigned for other, assigned in self.moved.items() if other != key}
        table = AssignmentTable(moved, {**self.pinned, key: address})
        surplus = table.size_bytes - TABLE_BYTES_MAX
        for other in list(moved):
            if surplus <= 0:
                break
            del moved[other]
            surplus -= _item_bytes(other)
        if surplus > 0:
            raise LimitExceededError(
                f"the assignments of the region would exceed {TABLE_BYTES_MAX} bytes; unpin streams"
            )
        return table

    def without_pin(self, key: str) -> "AssignmentTable":
        """Return the table without the pin of a stream; the stream stays where it is."""
        pinned = {other: address for other, address in self.pinned.items() if other != key}
        moved = self.moved
        if key in self.pinned:
            moved = {**self.moved, key: self.pinned[key]}
        return AssignmentTable(moved, pinned)

    def without(self, key: str) -> "AssignmentTable":
        """Return the table without a stream, which returns to its default owner."""
        return AssignmentTable(
            {other: address for other, address in self.moved.items() if other != key},
            {other: address for other, address in self.pinned.items() if other != key},
        )

    @property
    def size_bytes(self) -> int:
        """The size of the encoded table."""
        return len(self.encode())


EMPTY = AssignmentTable({}, {})


def _item_bytes(key: str) -> int:
    return len(key) + len('["",0],')
