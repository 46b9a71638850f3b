"""The acknowledgements above a subscription's position, as they are stored with it (rule STR-36).

A consumer that acknowledges single records may finish a record before an earlier one. The position
of its subscription is then that of the first record that is not acknowledged, and the acknowledged
records above it are stored as ranges. Their number is bounded, because two ranges are separated by
at least one unacknowledged record, and a consumer has a limited number of those.
"""

from dataclasses import dataclass, replace
from typing import Any

from ...protocol.dlsn import Dlsn
from ...protocol.errors import CorruptionError, InvalidArgumentError

UNACKNOWLEDGED_LIMIT = 1_000
"""The highest number of unacknowledged records that a consumer may hold. It bounds the size of the
stored state to about 70 KiB; a value in the metadata store has at most 96 KiB."""

Range = tuple[Dlsn, Dlsn]
"""A range of positions: the first one, and the one after the last."""


@dataclass(frozen=True, slots=True)
class Acknowledgements:
    """The state of single records, stored in the node of the subscription."""

    owner: str
    """The id of the consumer that may change the state. Another one takes it over first."""
    delivered_to: Dlsn
    """No record from this position on was ever delivered."""
    ranges: tuple[Range, ...] = ()
    """Acknowledged records above the position of the subscription: ascending and disjoint."""
    deliveries: tuple[tuple[Dlsn, int], ...] = ()
    """The number of deliveries of each unacknowledged record that was delivered repeatedly. A
    record below ``delivered_to`` without a number was delivered once at most."""

    def above(self, position: Dlsn) -> "Acknowledgements":
        """Return what is left when everything below ``position`` is acknowledged."""
        return replace(
            self,
            delivered_to=max(self.delivered_to, position),
            ranges=tuple(
                (max(first, position), after) for first, after in self.ranges if after > position
            ),
            deliveries=tuple(item for item in self.deliveries if item[0] >= position),
        )

    def contains(self, position: Dlsn) -> bool:
        """Return whether the record at this position is acknowledged by a range."""
        return any(first <= position < after for first, after in self.ranges)

    def to_fields(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "owner": self.owner,
            "delivered_to": _text(self.delivered_to),
            "ranges": [[_text(first), _text(after)] for first, after in self.ranges],
            "deliveries": [[_text(position), count] for position, count in self.deliveries],
        }

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> "Acknowledgements":
        """Return the value of the JSON form. Raises CorruptionError."""
        try:
            found = cls(
                str(fields["owner"]),
                Dlsn.parse(fields["delivered_to"]),
                tuple((Dlsn.parse(first), Dlsn.parse(after)) for first, after in fields["ranges"]),
                tuple((Dlsn.parse(at), int(count)) for at, count in fields["deliveries"]),
            )
        except (InvalidArgumentError, KeyError, TypeError, ValueError) as error:
            raise CorruptionError(f"the acknowledgements of a subscription: {error}") from error
        ends = [end for pair in found.ranges for end in pair]
        if ends != sorted(ends):
            raise CorruptionError(f"the acknowledged ranges are not ascending: {fields['ranges']}")
        return found


def _text(position: Dlsn) -> str:
    return str(position.in_stream(""))
