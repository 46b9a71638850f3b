"""Ledger metadata: the record that defines a ledger, and the legal changes to it.

Every change is a compare-and-set on the store's version (rules LED-1..LED-3, bug B4); this module
only computes the next value. Invariants, checked at construction:

1. the first entry ids of the fragments strictly increase, and the first one is 0;
2. each fragment names exactly E distinct bookies;
3. the last fragment of a closed ledger starts at ``last_entry_id + 1`` or below;
4. the ranges of R start at entry 0 and strictly increase; without ranges R is 1 (as BookKeeper);
5. the list of allowed regions, if there is one, parses.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import pairwise

from .bookie_id import BookieId, check_region
from .errors import CorruptionError, InvalidArgumentError
from .placement import NO_RULE, SpreadRule, parse_spread_rule
from .quorum import Quorum

NO_ENTRY = -1
"""The entry id that means "none": LAC and last entry of an empty ledger."""

NAMESPACE_KEY = "rhumbline.namespace"
STREAM_KEY = "rhumbline.stream"
LSSN_KEY = "rhumbline.lssn"
STREAM_ID_KEY = "rhumbline.stream-id"
EPOCH_KEY = "rhumbline.epoch"
"""Custom metadata keys: the segment for which the ledger was made. A lost namespace can be rebuilt
from them, and bookies learn from them whose ledger it is.
"""

R_KEY = "rhumbline.r"
"""Custom metadata key: R by entry id, as ``first:R,first:R``; ``first`` rises from 0."""

REGIONS_KEY = "rhumbline.regions"
"""Custom metadata key: the regions whose bookies may hold the ledger, as ``eu,us``, home first.

Without the key all regions are allowed.
"""

SPREAD_KEY = "rhumbline.spread"
"""Custom metadata key: the domains that each write set must lie in, as ``region:2,rack:3``."""

MOVING_KEY = "rhumbline.moving"
"""Custom metadata key: the metadata is being moved to another store and must not change here."""


RETURNS_KEY = "rhumbline.returns"
"""Custom metadata key: how often bookies have returned surplus copies of the ledger."""


class LedgerState(Enum):
    """The state of a ledger: OPEN -> IN_RECOVERY -> CLOSED, or OPEN -> CLOSED; never back."""

    OPEN = 1
    IN_RECOVERY = 2
    CLOSED = 3


class DigestType(Enum):
    """The digest of a ledger's entries; the values are those of BookKeeper's ledger metadata."""

    CRC32 = 1
    HMAC = 2
    CRC32C = 3
    DUMMY = 4


@dataclass(frozen=True, slots=True)
class Fragment:
    """The ensemble of a range of entries, from ``first_entry_id`` up to the next fragment."""

    first_entry_id: int
    bookies: tuple[BookieId, ...]


@dataclass(frozen=True, slots=True)
class LedgerMetadata:
    """One version of a ledger's metadata. ``length`` is in payload bytes, valid when CLOSED."""

    ledger_id: int
    ensemble_size: int
    write_quorum: int
    ack_quorum: int
    fragments: tuple[Fragment, ...]
    state: LedgerState = LedgerState.OPEN
    last_entry_id: int = NO_ENTRY
    length: int = 0
    digest_type: DigestType = DigestType.CRC32C
    password: bytes = b""
    custom: Mapping[str, bytes] = field(default_factory=dict)
    created_ms: int | None = None
    creation_token: int = 0

    def __post_init__(self) -> None:
        keys = [fragment.first_entry_id for fragment in self.fragments]
        if not keys or keys[0] != 0 or any(a >= b for a, b in pairwise(keys)):
            raise CorruptionError(f"ledger {self.ledger_id}: fragments start at {keys}")
        for fragment in self.fragments:
            if len(fragment.bookies) != self.ensemble_size:
                raise CorruptionError(
                    f"ledger {self.ledger_id}: fragment {fragment.first_entry_id} has "
                    f"{len(fragment.bookies)} bookies, not {self.ensemble_size}"
                )
            if len(set(fragment.bookies)) != len(fragment.bookies):
                raise CorruptionError(
                    f"ledger {self.ledger_id}: fragment {fragment.first_entry_id} "
                    "names a bookie twice"
                )
        if self.state is LedgerState.CLOSED and keys[-1] > self.last_entry_id + 1:
            raise CorruptionError(
                f"ledger {self.ledger_id}: closed at {self.last_entry_id}, "
                f"last fragment at {keys[-1]}"
            )
        self.quorum_at(0)
        self.allowed_regions()
        self.spread_rule()

    # --- queries --------------------------------------------------------------------------------

    @property
    def last_fragment(self) -> Fragment:
        """The fragment that receives new entries."""
        return self.fragments[-1]

    def fragment_of(self, entry_id: int) -> Fragment:
        """Return the fragment of ``entry_id``, which may be beyond the last entry."""
        assert entry_id >= 0
        for fragment in reversed(self.fragments):
            if fragment.first_entry_id <= entry_id:
                return fragment
        raise AssertionError("the first fragment starts at 0")

    def r_ranges(self) -> tuple[tuple[int, int], ...]:
        """Return ((first entry id, R), ...), ascending; ((0, 1),) if there is no region rule."""
        text = self.custom.get(R_KEY)
        if text is None:
            return ((0, 1),)
        try:
            pairs = [part.split(":") for part in text.decode("ascii").split(",")]
            ranges = tuple((int(first), int(r)) for first, r in pairs)
        except (UnicodeDecodeError, ValueError) as error:
            raise CorruptionError(f"ledger {self.ledger_id}: bad {R_KEY}: {text[:80]!r}") from error
        firsts = [first for first, _ in ranges]
        if firsts[0] != 0 or any(a >= b for a, b in pairwise(firsts)):
            raise CorruptionError(f"ledger {self.ledger_id}: bad {R_KEY}: {text[:80]!r}")
        return ranges

    def quorum_at(self, entry_id: int) -> Quorum:
        """Return E, WQ, AQ and the R that applies to ``entry_id``."""
        r = next(r for first, r in reversed(self.r_ranges()) if first <= max(entry_id, 0))
        return Quorum(self.ensemble_size, self.write_quorum, self.ack_quorum, r)

    def spread_rule(self) -> SpreadRule:
        """Return the domains that each write set must lie in, by level."""
        return spread_rule(self.custom)

    def allowed_regions(self) -> tuple[str, ...]:
        """Return the regions whose bookies may become members, home first; () if all may."""
        try:
            return allowed_regions(self.custom)
        except CorruptionError as error:
            raise CorruptionError(f"ledger {self.ledger_id}: {error}") from error

    def possible_r(self, wanted: int) -> int:
        """Return ``wanted``, or the highest R below it that this ledger can satisfy.

        AQ copies lie in at most AQ regions, and in at most as many as the ledger is allowed.
        """
        return min(wanted, self.ack_quorum, len(self.allowed_regions()) or wanted)

    def bookies(self) -> list[BookieId]:
        """Return every bookie that any fragment names, each once, in order of appearance."""
        return list(dict.fromkeys(b for fragment in self.fragments for b in fragment.bookies))

    @property
    def return_count(self) -> int:
        """The number of times that a bookie has returned surplus copies (rule BKE-31).

        What a bookie listed or stored before the count rose may be gone. Raises CorruptionError.
        """
        data = self.custom.get(RETURNS_KEY, b"0")
        if not data.isdigit():
            raise CorruptionError(f"ledger {self.ledger_id}: bad count of returns {data[:20]!r}")
        return int(data)

    # --- changes --------------------------------------------------------------------------------

    def with_return(self) -> "LedgerMetadata":
        """Return a copy of closed metadata that counts one more return of surplus copies."""
        assert self.state is LedgerState.CLOSED, "copies of open ledgers are never surplus (BKE-31)"
        count = str(self.return_count + 1).encode()
        return replace(self, custom={**self.custom, RETURNS_KEY: count})

    def with_fragment(self, first_entry_id: int, bookies: tuple[BookieId, ...]) -> "LedgerMetadata":
        """Return a copy with a new ensemble from an entry on.

        The last fragment is replaced if it starts at the same entry.
        """
        assert self.last_fragment.first_entry_id <= first_entry_id, (
            "a change below the last fragment"
        )
        kept = tuple(f for f in self.fragments if f.first_entry_id < first_entry_id)
        return replace(self, fragments=(*kept, Fragment(first_entry_id, bookies)))

    def with_bookies_of(
        self, first_entry_id: int, bookies: tuple[BookieId, ...]
    ) -> "LedgerMetadata":
        """Return a copy with other bookies, holding full copies, for an existing fragment."""
        assert any(f.first_entry_id == first_entry_id for f in self.fragments)
        return replace(
            self,
            fragments=tuple(
                Fragment(first_entry_id, bookies) if f.first_entry_id == first_entry_id else f
                for f in self.fragments
            ),
        )

    def with_r(self, first_entry_id: int, r: int) -> "LedgerMetadata":
        """Return a copy with another R from ``first_entry_id`` on, for all later entries."""
        ranges = [(first, old) for first, old in self.r_ranges() if first < first_entry_id]
        if not ranges or ranges[-1][1] != r:
            ranges.append((first_entry_id, r))
        text = ",".join(f"{first}:{value}" for first, value in ranges)
        return replace(self, custom={**self.custom, R_KEY: text.encode("ascii")})

    def with_r_between(self, first: int, last: int, r: int) -> "LedgerMetadata":
        """Return a copy with R = ``r`` for the entries ``first`` to ``last`` and no others."""
        changed = self.with_r(first, r)
        for start, old in self.r_ranges():
            later = max(start, last + 1)
            if self.state is not LedgerState.CLOSED or later <= self.last_entry_id:
                changed = changed.with_r(later, old)
        return changed

    def in_recovery(self) -> "LedgerMetadata":
        """Return a copy that is IN_RECOVERY instead of OPEN."""
        assert self.state is LedgerState.OPEN
        return replace(self, state=LedgerState.IN_RECOVERY)

    def closed(self, last_entry_id: int, length: int) -> "LedgerMetadata":
        """Return a closed copy, without the fragments that would start beyond its end."""
        assert self.state is not LedgerState.CLOSED
        assert last_entry_id >= NO_ENTRY
        assert length >= 0
        kept = tuple(f for f in self.fragments if f.first_entry_id <= max(last_entry_id, 0))
        return replace(
            self,
            state=LedgerState.CLOSED,
            last_entry_id=last_entry_id,
            length=length,
            fragments=kept,
        )


def allowed_regions(custom: Mapping[str, bytes]) -> tuple[str, ...]:
    """Return the regions that REGIONS_KEY lists in custom metadata. Raises CorruptionError."""
    text = custom.get(REGIONS_KEY)
    if text is None:
        return ()
    try:
        return tuple(check_region(name) for name in text.decode("ascii").split(","))
    except (UnicodeDecodeError, InvalidArgumentError) as error:
        raise CorruptionError(f"bad {REGIONS_KEY}: {text[:80]!r}") from error


def spread_rule(custom: Mapping[str, bytes]) -> SpreadRule:
    """Return the rule that SPREAD_KEY holds in custom metadata. Raises CorruptionError."""
    text = custom.get(SPREAD_KEY)
    if text is None:
        return NO_RULE
    try:
        return parse_spread_rule(text.decode("ascii").split(","))
    except (UnicodeDecodeError, InvalidArgumentError) as error:
        raise CorruptionError(f"bad {SPREAD_KEY}: {text[:80]!r}") from error
