"""The audit record of a ledger that an operator closed at its provable end (rule REC-19).

It is part of the ledger's custom metadata and, as one line of text, of the segment's metadata and
of its archive.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from .bookie_id import BookieId
from .errors import CorruptionError
from .ledger_metadata import NO_ENTRY

PROVABLE_END_KEY = "rhumbline.provable-end"
"""Custom metadata key of a ledger; present only if its end was not proven by a recovery."""


@dataclass(frozen=True, slots=True)
class ProvableEnd:
    """What a recovery found in a ledger whose end cannot be proven."""

    last_entry_id: int
    """The end: the last entry of which a copy was found, with no undecided entry before it that is
    not known to be acknowledged. NO_ENTRY if there is none."""
    confirmed: int
    """The highest LAC that was found: entries up to it were certainly acknowledged."""
    highest_seen: int
    """The highest entry of which a copy is known to exist; NO_ENTRY if there is none."""
    doubtful_from: int
    """The first entry beyond the end that may have been acknowledged."""
    silent: tuple[str, ...]
    """The bookies whose missing responses cause the doubt, each as ``id (region)``."""
    is_writer_fenced: bool
    """False if bookies that did not respond could still acknowledge entries of the old writer."""
    closed_ms: int = 0
    """Time of day in ms at which the operator confirmed."""
    reason: str = ""
    """What the operator gave as the reason."""

    @property
    def lost_count(self) -> int:
        """The number of entries beyond the end that were certainly acknowledged."""
        return max(0, self.confirmed - self.last_entry_id)

    def describe(self) -> str:
        """Return one line for readers, archives and logs."""
        end = "before its first entry" if self.last_entry_id == NO_ENTRY else (
            f"at entry {self.last_entry_id}"
        )  # fmt: skip
        text = f"closed {end} by an operator; entry {self.doubtful_from} and later ones may have "
        text += f"been acknowledged; no response from {', '.join(self.silent) or 'no bookie'}"
        if self.lost_count:
            text += f"; {self.lost_count} entries were certainly acknowledged and are lost"
        return f"{text}; reason: {self.reason}" if self.reason else text

    def encode(self) -> bytes:
        """Return the value for the custom metadata of the ledger."""
        return json.dumps(asdict(self), separators=(",", ":")).encode()


def provable_end_of(custom: Mapping[str, bytes]) -> ProvableEnd | None:
    """Return the audit record in a ledger's custom metadata, or None. Raises CorruptionError."""
    data = custom.get(PROVABLE_END_KEY)
    if data is None:
        return None
    try:
        fields: dict[str, Any] = json.loads(data)
        return ProvableEnd(**{**fields, "silent": tuple(fields["silent"])})
    except (ValueError, TypeError, KeyError) as error:
        raise CorruptionError(f"bad {PROVABLE_END_KEY}: {data[:80]!r}") from error


def silent_bookie(bookie: BookieId, region: str | None) -> str:
    """Return the name of a bookie in an audit record."""
    return f"{bookie} ({region or 'region unknown'})"
