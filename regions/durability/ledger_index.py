"""The ledgers of a store, counted by layout, so that each layout is judged once.

An audit passes every ledger through ``note``; a ledger whose version has not changed costs a
dictionary lookup.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ...core.protocol.bookie_id import BookieId
from ...core.protocol.ledger_metadata import LedgerMetadata
from ...core.runtime.metadata_store import Version
from .ledger_layout import EntryCounts, LedgerLayout, layout_of, stream_of


class LayoutGroup:
    """The ledgers that have one layout, and of which the same bookies lack copies."""

    __slots__ = ("entries", "lacking", "layout", "ledgers", "length", "streams", "total")

    def __init__(self, layout: LedgerLayout, lacking: frozenset[BookieId], counts: int) -> None:
        self.layout = layout
        self.lacking = lacking
        """The members that lack copies (rule DSK-5)."""
        self.ledgers = 0
        self.entries = [0] * counts
        """Entries by part and write set, without those of open last fragments."""
        self.total = 0
        """Their sum."""
        self.length = 0
        """Payload bytes of closed ledgers."""
        self.streams: dict[str | None, int] = {}
        """Number of ledgers by stream; None: ledgers without one."""


_NONE: frozenset[int] = frozenset()
_NO_BOOKIES: frozenset[BookieId] = frozenset()


class _Counted(NamedTuple):
    """The share of one ledger in its group."""

    version: Version
    group: LayoutGroup
    stream: str | None
    entries: EntryCounts
    length: int


class LedgerIndex:
    """All ledgers of one store. It costs about half a kilobyte for each of them."""

    def __init__(self) -> None:
        self.changes = 0
        """Rises with every change of a group."""
        self.is_complete = False
        """True once a scan of all ledgers has ended."""
        self.unreadable = 0
        """Ledgers whose metadata is damaged, as of the last complete scan."""
        self._groups: dict[tuple[LedgerLayout, frozenset[BookieId]], LayoutGroup] = {}
        self._lacking: dict[BookieId, frozenset[int]] = {}
        self._ledgers: dict[int, _Counted] = {}
        self._scanned: dict[int, _Counted] = {}
        self._streams: dict[str, str] = {}  # one object for each name
        self._bookies: dict[BookieId, int] = {}  # number of the groups that name each of them

    def __len__(self) -> int:
        return len(self._ledgers.keys() | self._scanned.keys())

    def groups(self) -> Sequence[LayoutGroup]:
        """Return the groups, which later calls of ``note`` change."""
        return list(self._groups.values())

    def bookies(self) -> Iterable[BookieId]:
        """Return every bookie that a ledger names, each once."""
        return list(self._bookies)

    def mark_lacking(self, lacking: Mapping[BookieId, frozenset[int]]) -> None:
        """Note the ledgers of which bookies lack copies, in place of those that were noted."""
        before, self._lacking = self._lacking, {b: ids for b, ids in lacking.items() if ids}
        changed: set[int] = set()
        for bookie in {**before, **self._lacking}:
            changed |= before.get(bookie, _NONE) ^ self._lacking.get(bookie, _NONE)
        for ledger_id in sorted(changed):
            for known in (self._scanned, self._ledgers):
                counted = known.get(ledger_id)
                if counted is None:
                    continue
                group = self._group_of(ledger_id, counted.group.layout, len(counted.entries))
                if group is not counted.group:
                    self._remove(counted)
                    known[ledger_id] = counted._replace(group=group)
                    self._change(known[ledger_id], 1)

    def begin_scan(self) -> None:
        """Begin to read all ledgers; the ones that are not noted before ``end_scan`` are gone."""
        for ledger_id, counted in self._scanned.items():  # of a scan that was interrupted
            self._ledgers[ledger_id] = counted
        self._scanned = {}

    def note(self, metadata: LedgerMetadata, version: Version) -> None:
        """Count a ledger as it is now. Safe to repeat."""
        ledger_id = metadata.ledger_id
        known = self._scanned.get(ledger_id) or self._ledgers.pop(ledger_id, None)
        if known is None or known.version != version:
            if known is not None:
                self._remove(known)
            known = self._add(metadata, version)
        self._scanned[ledger_id] = known

    def end_scan(self, unreadable: int = 0) -> None:
        """Drop the ledgers that the scan has not found."""
        for counted in self._ledgers.values():
            self._remove(counted)
        self._ledgers = self._scanned
        self._scanned = {}
        self.unreadable = unreadable
        self.is_complete = True
        if len(self._streams) > 2 * len(self._ledgers):
            self._streams = {c.stream: c.stream for c in self._ledgers.values() if c.stream}

    def _add(self, metadata: LedgerMetadata, version: Version) -> _Counted:
        layout, entries = layout_of(metadata)
        group = self._group_of(metadata.ledger_id, layout, len(entries))
        name = stream_of(metadata)
        stream = None if name is None else self._streams.setdefault(name, name)
        counted = _Counted(version, group, stream, entries, metadata.length)
        self._change(counted, 1)
        return counted

    def _group_of(self, ledger_id: int, layout: LedgerLayout, counts: int) -> LayoutGroup:
        """Return the group of a ledger, which is made if there is none."""
        found = [bookie for bookie, ids in self._lacking.items() if ledger_id in ids]
        lacking = layout.bookies().intersection(found) if found else _NO_BOOKIES
        group = self._groups.get((layout, lacking))
        if group is None:
            group = self._groups[layout, lacking] = LayoutGroup(layout, lacking, counts)
            for bookie in layout.bookies():
                self._bookies[bookie] = self._bookies.get(bookie, 0) + 1
        return group

    def _remove(self, counted: _Counted) -> None:
        self._change(counted, -1)
        if counted.group.ledgers == 0:
            layout = counted.group.layout
            del self._groups[layout, counted.group.lacking]
            for bookie in layout.bookies():
                self._bookies[bookie] -= 1
                if not self._bookies[bookie]:
                    del self._bookies[bookie]

    def _change(self, counted: _Counted, sign: int) -> None:
        group = counted.group
        group.ledgers += sign
        group.length += sign * counted.length
        for index, number in enumerate(counted.entries):
            group.entries[index] += sign * number
            group.total += sign * number
        self.changes += 1
        left = group.streams.get(counted.stream, 0) + sign
        if left:
            group.streams[counted.stream] = left
        else:
            del group.streams[counted.stream]
