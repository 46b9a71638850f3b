"""Ledger metadata: the record that decides what a ledger is, and the legal changes to it.

Every change is made by compare-and-set on the store's version (bug B4); this module only says what
the next value is. Invariants, checked at construction:

1. fragment keys strictly rise, the first is 0;
2. each fragment names exactly E distinct bookies;
3. a closed ledger's last fragment starts at most at ``last_entry_id + 1``;
4. R ranges start at entry 0 and strictly rise. No ranges means R = 1 (BookKeeper's rule);
5. what regions are allowed, if that is said, parses.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import pairwise

from .bookie_id import BookieId, check_region
from .errors import CorruptionError, InvalidArgumentError
from .quorum import Quorum

NO_ENTRY = -1
"""The entry id that means "none" (LAC and last entry of an empty ledger)."""

R_KEY = "rhumbline.r"
"""Custom metadata key: R by entry id, as text ``first:R,first:R`` (first rises, from 0)."""

REGIONS_KEY = "rhumbline.regions"
"""Custom metadata key: the only regions whose bookies may hold the ledger, as ``eu,us``; the first
one is home. No key: all regions."""


class LedgerState(Enum):
    """OPEN -> IN_RECOVERY -> CLOSED, or OPEN -> CLOSED; never back."""

    OPEN = 1
    IN_RECOVERY = 2
    CLOSED = 3


class DigestType(Enum):
    """How an entry's digest is made; the value is BookKeeper's in ledger metadata."""

    CRC32 = 1
    HMAC = 2
    CRC32C = 3
    DUMMY = 4


@dataclass(frozen=True, slots=True)
class Fragment:
    """The ensemble of a range of entries: from ``first_entry_id`` to the next fragment's."""

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

    # --- questions ------------------------------------------------------------------------------

    @property
    def last_fragment(self) -> Fragment:
        """The fragment that takes new entries."""
        return self.fragments[-1]

    def fragment_of(self, entry_id: int) -> Fragment:
        """The fragment that holds ``entry_id`` (which may be beyond the end)."""
        assert entry_id >= 0
        for fragment in reversed(self.fragments):
            if fragment.first_entry_id <= entry_id:
                return fragment
        raise AssertionError("the first fragment starts at 0")

    def r_ranges(self) -> tuple[tuple[int, int], ...]:
        """((first entry id, R), ...), rising. ((0, 1),) when the ledger has no region rule."""
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
        """E, WQ, AQ and the R that holds for ``entry_id``."""
        r = next(r for first, r in reversed(self.r_ranges()) if first <= max(entry_id, 0))
        return Quorum(self.ensemble_size, self.write_quorum, self.ack_quorum, r)

    def allowed_regions(self) -> tuple[str, ...]:
        """The regions whose bookies may become members, home first; () when all may."""
        try:
            return allowed_regions(self.custom)
        except CorruptionError as error:
            raise CorruptionError(f"ledger {self.ledger_id}: {error}") from error

    def bookies(self) -> list[BookieId]:
        """Every bookie that any fragment names, each once, in order of appearance."""
        return list(dict.fromkeys(b for fragment in self.fragments for b in fragment.bookies))

    # --- changes --------------------------------------------------------------------------------

    def with_fragment(self, first_entry_id: int, bookies: tuple[BookieId, ...]) -> "LedgerMetadata":
        """The ensemble from an entry on; replaces the last fragment if it starts there."""
        assert self.last_fragment.first_entry_id <= first_entry_id, (
            "a change below the last fragment"
        )
        kept = tuple(f for f in self.fragments if f.first_entry_id < first_entry_id)
        return replace(self, fragments=(*kept, Fragment(first_entry_id, bookies)))

    def with_bookies_of(
        self, first_entry_id: int, bookies: tuple[BookieId, ...]
    ) -> "LedgerMetadata":
        """Other holders of an existing fragment (repair: the new ones have full copies)."""
        assert any(f.first_entry_id == first_entry_id for f in self.fragments)
        return replace(
            self,
            fragments=tuple(
                Fragment(first_entry_id, bookies) if f.first_entry_id == first_entry_id else f
                for f in self.fragments
            ),
        )

    def with_r(self, first_entry_id: int, r: int) -> "LedgerMetadata":
        """R from ``first_entry_id`` on, replacing what was said for that id and later ones."""
        ranges = [(first, old) for first, old in self.r_ranges() if first < first_entry_id]
        if not ranges or ranges[-1][1] != r:
            ranges.append((first_entry_id, r))
        if ranges[0][0] != 0:
            ranges.insert(0, (0, 1))
        text = ",".join(f"{first}:{value}" for first, value in ranges)
        return replace(self, custom={**self.custom, R_KEY: text.encode("ascii")})

    def in_recovery(self) -> "LedgerMetadata":
        """OPEN -> IN_RECOVERY."""
        assert self.state is LedgerState.OPEN
        return replace(self, state=LedgerState.IN_RECOVERY)

    def closed(self, last_entry_id: int, length: int) -> "LedgerMetadata":
        """The end, written once. Fragments that would start beyond it are dropped with it."""
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
    """What REGIONS_KEY says in a ledger's custom metadata. Raises CorruptionError."""
    text = custom.get(REGIONS_KEY)
    if text is None:
        return ()
    try:
        return tuple(check_region(name) for name in text.decode("ascii").split(","))
    except (UnicodeDecodeError, InvalidArgumentError) as error:
        raise CorruptionError(f"bad {REGIONS_KEY}: {text[:80]!r}") from error
