"""Computes the nodes of a metadata store from inventories and, if there is one, a backup.

This is a pure function. Bookies are the truth about ledgers, and the backup is the truth about what
bookies do not know: policies, grants, subscriptions, schemas (rules BAK-2 to BAK-7). The cluster's
other metadata stores tell what belongs to this one now (rule BAK-10).
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..core.bookie.identity import Identity, cookie_of
from ..core.bookie.start.start_record import StartRecord
from ..core.bookie.start.start_record import encode as encode_start
from ..core.log.metadata.namespace_record import NamespaceRecord
from ..core.log.metadata.paths import ROOT as NAMESPACES
from ..core.log.metadata.paths import StreamPaths, namespace_path
from ..core.log.metadata.stream_metadata import StreamHead, StreamRecord
from ..core.metadata.cluster_layout import LAYOUT, SHORT_LEDGER_IDS_END, Paths
from ..core.metadata.holds.garbage_hold import GarbageHold
from ..core.metadata.ledger_ids import GLOBAL_STORE, id_range_of
from ..core.metadata.ledger_store import high_bits_of, high_name
from ..core.protocol.bookie_id import BookieId, Region
from ..core.protocol.errors import InvalidArgumentError, NoSuchNamespaceError, WrongClusterError
from ..core.protocol.ledger_metadata import NO_ENTRY, LedgerMetadata
from ..core.protocol.segments import (
    Residence,
    Segment,
    SegmentEnd,
    decode_segment,
    encode_segment,
)
from ..core.wire import cookie as cookies
from ..core.wire import ledger_metadata as codec
from .backup import Backup, ledger_ids_in
from .found_streams import (
    RebuildFinding,
    RebuiltStream,
    StreamState,
    derived_policy,
    rebuild_stream,
    segment_name,
)
from .inventory import BookieInventory
from .ledger_ends import FoundLedger, Holder, find_ledger, newest_metadata
from .store_ownership import StoreOwnership, issued_record

ID_MARGIN = 1_000
"""Number of ledger ids above the highest known one that are not used (rule BAK-6)."""

UNKNOWN = (
    "the feature level, grants, quotas and declared regions",
    "topics, subscriptions and their positions, schemas",
    "policies, except for quorum, regions and spread",
    "truncations within the segments that bookies hold, seals, archives of segments",
)
"""The data that cannot be known without a backup."""


@dataclass(slots=True)
class RebuiltTree:
    """The nodes to store, the lowest number of the next sequential children, and the findings."""

    nodes: dict[str, bytes]
    sequences: dict[str, int]
    findings: list[RebuildFinding] = field(default_factory=list)
    ledgers: int = 0
    decided_ledgers: list[int] = field(default_factory=list)
    """Ledgers whose end was decided now."""
    unknown_ledgers: list[int] = field(default_factory=list)
    """Ledgers on bookies for which nobody has metadata: kept, and not readable."""
    streams: int = 0
    records: int = 0
    """Records in the segments of all streams."""


def rebuild_tree(
    inventories: Sequence[BookieInventory],
    backup: Backup | None,
    *,
    others: Sequence[Backup] = (),
    region: Region | None = None,
    lost: Collection[BookieId],
    now_ms: int,
    new_token: Callable[[], str],
) -> RebuiltTree:
    """Return the content of the store.

    ``inventories`` are those of all bookies except ``lost``. ``others`` are the cluster's other
    metadata stores, as they are now. ``region`` is that of a regional store without a backup.
    Raises InvalidArgumentError if an inventory is missing or given twice, or ``region`` has no
    store; WrongClusterError if something is of another cluster.
    """
    return _Rebuild(inventories, backup, others, region, lost, now_ms, new_token).run()


class _Rebuild:
    """The state of one computation."""

    def __init__(
        self,
        inventories: Sequence[BookieInventory],
        backup: Backup | None,
        others: Sequence[Backup],
        region: Region | None,
        lost: Collection[BookieId],
        now_ms: int,
        new_token: Callable[[], str],
    ) -> None:
        self._paths = Paths()
        self._inventories = inventories
        self._backup = backup
        self._lost = frozenset(lost)
        self._now_ms = now_ms
        self._new_token = new_token
        self._others = others
        own = backup.own_record if backup is not None else None
        if backup is None and region is not None:
            own = issued_record(others, region)
        self._ownership = StoreOwnership(own, None if backup is None else backup.nodes, others)
        self._number = self._ownership.number
        self._regions: dict[BookieId, Region] = {}
        self._base_ledgers: dict[int, LedgerMetadata] = {}
        self._found: dict[int, FoundLedger] = {}
        nodes = {} if backup is None else dict(backup.nodes)
        self._tree = RebuiltTree(nodes, {} if backup is None else dict(backup.sequences))

    def run(self) -> RebuiltTree:
        self._check_inventories()
        self._add_cluster()
        self._find_ledgers()
        self._check_members()
        self._add_streams()
        self._store_ledgers()
        self._raise_ids()
        hold = GarbageHold("rebuild" if self._backup is None else "restore", self._now_ms)
        self._tree.nodes[self._paths.garbage_hold] = hold.encode()
        return self._tree

    # --- the cluster ----------------------------------------------------------------------------

    def _check_inventories(self) -> None:
        if not self._inventories:
            raise InvalidArgumentError("no inventory was given")
        seen: dict[BookieId, None] = {}
        for inventory in self._inventories:
            bookie = inventory.bookie_id
            if bookie in seen:
                raise InvalidArgumentError(f"there are two inventories of bookie {bookie}")
            if bookie in self._lost:
                raise InvalidArgumentError(f"bookie {bookie} is lost, but has an inventory")
            seen[bookie] = None
            self._regions[bookie] = inventory.region
        instances = {inventory.instance_id for inventory in self._inventories}
        stores = self._others if self._backup is None else (*self._others, self._backup)
        instances.update(store.instance_id for store in stores)
        if len(instances) > 1:
            raise WrongClusterError(f"different clusters: {', '.join(sorted(instances))}")

    def _add_cluster(self) -> None:
        nodes, paths = self._tree.nodes, self._paths
        for path in (paths.root, paths.available, paths.read_only, paths.cookies, paths.regions):
            nodes.setdefault(path, b"")
        nodes.setdefault(paths.layout, LAYOUT)
        nodes.setdefault(paths.instance_id, self._inventories[0].instance_id.encode())
        for path, data in self._ownership.identity_nodes().items():
            nodes.setdefault(path, data)
        self._ownership.settle_namespaces(nodes, self._new_token, self._now_ms)
        for inventory in self._inventories:
            if self._ownership.region not in (None, inventory.region):
                continue  # a bookie of another region does not use this store
            bookie = inventory.bookie_id
            identity = Identity(bookie, inventory.instance_id, inventory.region, inventory.rack)
            nodes[paths.region(bookie)] = inventory.region.encode("ascii")
            nodes[paths.cookie(bookie)] = cookies.encode(cookie_of(identity))
            if inventory.token:
                record = StartRecord(inventory.start, inventory.token, 0, "")
                nodes[paths.start(bookie)] = encode_start(record)

    def _check_members(self) -> None:
        """Check that every bookie that may hold entries has an inventory or is declared lost."""
        if self._backup is not None:
            below = f"{self._paths.cookies}/"
            known = [path[len(below) :] for path in self._backup.nodes if path.startswith(below)]
        else:
            members = (found.metadata.bookies() for found in self._found.values())
            known = [str(bookie) for bookies in members for bookie in bookies]
        missing = sorted({*known} - {*map(str, self._regions)} - {*map(str, self._lost)})
        if missing:
            raise InvalidArgumentError(
                f"there is no inventory of {', '.join(missing[:5])}"
                f"{' and others' if missing[5:] else ''}: take it, or declare the bookie lost"
            )

    # --- ledgers --------------------------------------------------------------------------------

    def _find_ledgers(self) -> None:
        base = {} if self._backup is None else self._backup.nodes
        for ledger_id, path in ledger_ids_in(base).items():
            if base[path]:
                self._base_ledgers[ledger_id] = codec.decode(ledger_id, base[path])
        for ledger_id, having in sorted(self._holders().items()):
            newest = newest_metadata(ledger_id, having, self._base_ledgers.get(ledger_id))
            if newest is not None:
                found = find_ledger(newest, having, self._regions, self._lost)
                self._found[ledger_id] = found
                if found.was_decided:
                    self._tree.decided_ledgers.append(ledger_id)
            elif any(holder.held.ranges for holder in having):
                self._tree.unknown_ledgers.append(ledger_id)
        named = {
            segment.ledger_id
            for state in streams_in(base).values()
            for segment in state.segments.values()
        }
        for ledger_id, old in self._base_ledgers.items():
            if ledger_id in self._found or not self._ownership.has_ledger(ledger_id):
                continue
            if self._may_exist(old, ledger_id in named):
                self._found[ledger_id] = find_ledger(old, [], self._regions, self._lost)

    def _holders(self) -> dict[int, list[Holder]]:
        """Return the bookies that hold each ledger of the store."""
        holders: dict[int, list[Holder]] = {}
        for inventory in self._inventories:
            for held in inventory.ledgers:
                if self._ownership.has_ledger(held.ledger_id):
                    holder = Holder(inventory.bookie_id, held)
                    holders.setdefault(held.ledger_id, []).append(holder)
        return holders

    def _may_exist(self, base: LedgerMetadata, is_named: bool) -> bool:
        """True if a ledger of the backup that no bookie holds may still exist.

        Enough bookies may be lost to have held all of its acknowledged copies, or it is empty and
        belongs to a segment of the backup (``is_named``). Any other one was deleted since the
        backup, such as a ledger that was created in advance.
        """
        is_empty = base.last_entry_id == NO_ENTRY
        return len(self._lost) >= base.ack_quorum or (is_named and is_empty)

    def _store_ledgers(self) -> None:
        for ledger_id in self._base_ledgers:
            if ledger_id not in self._found:
                del self._tree.nodes[self._paths.ledger(ledger_id)]
        for ledger_id, found in self._found.items():
            self._tree.nodes[self._paths.ledger(ledger_id)] = codec.encode(found.metadata)
        self._tree.nodes.update(self._ownership.place_records(self._found))
        self._tree.ledgers = len(self._found)

    def _raise_ids(self) -> None:
        """Keep ids from being issued again, also those that only lost bookies knew."""
        own = self._known_ids()
        sequences, paths = self._tree.sequences, self._paths
        if self._number == GLOBAL_STORE:
            self._raise(paths.ids, self._highest_short_id() + 1 + ID_MARGIN)
        long = [id_ for id_ in own if id_ >= SHORT_LEDGER_IDS_END]
        high = max(
            (id_ >> 32 for id_ in long if id_ >> 32 in high_bits_of(self._number)), default=0
        )
        if high:
            low = max(id_ & 0xFFFFFFFF for id_ in long if id_ >> 32 == high)
            self._raise(f"{paths.long_ids}/{high_name(high)}", low + 1 + ID_MARGIN)
        for path in sequences:
            self._tree.nodes.setdefault(path, b"")

    def _known_ids(self) -> set[int]:
        """Return the ids of all ledgers that are or were known to anybody."""
        known = {one.highest_ledger_id for one in self._inventories}
        known.update(self._found, self._base_ledgers, self._tree.unknown_ledgers)
        for inventory in self._inventories:
            known.update(held.ledger_id for held in inventory.ledgers)
        return known

    def _highest_short_id(self) -> int:
        return max((id_ for id_ in self._known_ids() if id_ < SHORT_LEDGER_IDS_END), default=-1)

    def _highest_own_id(self) -> int:
        """Return the highest id that this store has issued with the path that it issues."""
        if self._number == GLOBAL_STORE:
            return self._highest_short_id()
        own = id_range_of(self._number)
        return max((id_ for id_ in self._known_ids() if id_ in own), default=own.start)

    def _raise(self, path: str, number: int) -> None:
        self._tree.sequences[path] = max(number, self._tree.sequences.get(path, 0))

    # --- streams --------------------------------------------------------------------------------

    def _add_streams(self) -> None:
        base = {
            key: state
            for key, state in streams_in({} if self._backup is None else self._backup.nodes).items()
            if self._ownership.has_namespace(key[0])
        }
        by_stream: dict[tuple[str, str], list[FoundLedger]] = {key: [] for key in base}
        for found in self._found.values():
            named = segment_name(found.metadata)
            if named is not None:
                by_stream.setdefault((named.namespace, named.stream), []).append(found)
        for (namespace, stream), ledgers in sorted(by_stream.items()):
            if self._ownership.has_namespace(namespace):
                self._add_stream(namespace, stream, ledgers, base.get((namespace, stream)))
            else:
                text = f"{len(ledgers)} ledgers are of a namespace that is not in this store"
                self._leave_out("other-store", f"{namespace}/{stream}", text, ledgers)
        self._tree.findings += self._ownership.findings(self._tree.nodes)

    def _leave_out(
        self, kind: str, subject: str, text: str, ledgers: Sequence[FoundLedger]
    ) -> None:
        """Treat ledgers like those without metadata: their entries are kept."""
        for found in ledgers:
            ledger_id = found.metadata.ledger_id
            self._found.pop(ledger_id, None)
            self._tree.unknown_ledgers.append(ledger_id)
        self._tree.findings.append(RebuildFinding(kind, subject, text))

    def _add_stream(
        self, namespace: str, stream: str, ledgers: list[FoundLedger], base: StreamState | None
    ) -> None:
        subject = f"{namespace}/{stream}"
        own = self._ledgers_of_newest(subject, ledgers, base)
        result = rebuild_stream(
            subject,
            own,
            base,
            is_kept=self._found.__contains__,
            fill_gap=self._fill_gap,
            new_token=self._new_token,
        )
        self._tree.findings += result.findings
        for ledger_id in result.dropped:
            self._found.pop(ledger_id, None)
            self._tree.unknown_ledgers.append(ledger_id)
        if base is not None:
            self._remove_stream(namespace, stream, base, is_deleted=result.state is None)
        if result.state is not None:
            self._store_stream(namespace, stream, result, own)

    def _fill_gap(self, lssn: int, previous: Segment) -> Segment:
        """Return an empty segment whose empty ledger has an id of the margin."""
        like = self._found[previous.ledger_id].metadata
        ledger_id = self._highest_own_id() + 1
        self._found[ledger_id] = FoundLedger(
            replace(like, ledger_id=ledger_id, fragments=like.fragments[:1],
                    last_entry_id=NO_ENTRY, length=0),
            None,
        )  # fmt: skip
        segment = replace(
            previous, lssn=lssn, ledger_id=ledger_id, is_completed=False, completed_ms=0,
            last_entry_id=NO_ENTRY, last_txid=0, record_count=0, length_bytes=0,
            start_sequence_id=0, ends_stream=False, residence=Residence.HOT, archive_link="",
        )  # fmt: skip
        end = SegmentEnd(NO_ENTRY, 0, 0, 0, ends_stream=False)
        return segment.completed(end, previous=previous, completed_ms=previous.completed_ms)

    def _ledgers_of_newest(
        self, subject: str, ledgers: list[FoundLedger], base: StreamState | None
    ) -> list[FoundLedger]:
        """Return the ledgers of one stream, if several had the name one after another."""

        def id_of(found: FoundLedger) -> str:
            named = segment_name(found.metadata)
            return "" if named is None else named.stream_id

        known = [found for found in ledgers if id_of(found)]
        newest = max(known, key=lambda found: found.metadata.ledger_id, default=None)
        wanted = base.record.stream_id if base is not None else ""
        wanted = id_of(newest) if newest is not None and not wanted else wanted
        others = [found for found in known if id_of(found) != wanted]
        if others:
            text = f"{len(others)} ledgers are of another stream that had the name"
            self._leave_out("other-stream", subject, text, others)
        return [found for found in ledgers if found not in others]

    def _remove_stream(
        self, namespace: str, stream: str, base: StreamState, *, is_deleted: bool
    ) -> None:
        """Remove the older nodes; subscriptions and schemas of the stream stay if it does."""
        paths = StreamPaths(namespace, stream)
        if is_deleted:
            below = f"{paths.stream}/"
            for path in [path for path in self._tree.nodes if path.startswith(below)]:
                del self._tree.nodes[path]
        for path in (paths.stream, paths.head, *map(paths.segment, base.segments)):
            self._tree.nodes.pop(path, None)

    def _store_stream(
        self, namespace: str, stream: str, result: RebuiltStream, ledgers: Sequence[FoundLedger]
    ) -> None:
        assert result.state is not None
        nodes, state, paths = self._tree.nodes, result.state, StreamPaths(namespace, stream)
        where = namespace_path(namespace)
        if where not in nodes and ledgers:
            policy = derived_policy(ledgers[-1].metadata)
            nodes[where] = NamespaceRecord(self._new_token(), self._now_ms, policy).encode()
        nodes[paths.stream] = state.record.encode()
        nodes[paths.head] = state.head.encode()
        for lssn, segment in state.segments.items():
            nodes[paths.segment(lssn)] = encode_segment(segment)
        self._tree.streams += 1
        self._tree.records += sum(segment.record_count for segment in state.segments.values())


def streams_in(nodes: Mapping[str, bytes]) -> dict[tuple[str, str], StreamState]:
    """Return the streams among the nodes of a store, by namespace and name.

    Raises CorruptionError, ForeignDataError.
    """
    found: dict[tuple[str, str], StreamState] = {}
    segments: dict[tuple[str, str], dict[int, Segment]] = {}
    for path, data in sorted(nodes.items()):
        parts = path.removeprefix(f"{NAMESPACES}/").split("/")
        if not path.startswith(f"{NAMESPACES}/") or len(parts) < 3 or parts[1] != "streams":
            continue
        key = parts[0], parts[2]
        if len(parts) == 3:
            paths = StreamPaths(*key)
            head = nodes.get(paths.head)
            if head is not None and data:
                segments[key] = {}
                record = StreamRecord.decode(key[1], data)
                found[key] = StreamState(record, StreamHead.decode(key[1], head), segments[key])
        elif len(parts) == 5 and parts[3] == "segments" and key in segments:
            segments[key][int(parts[4])] = decode_segment(int(parts[4]), data)
    return found


def namespaces_in(nodes: Mapping[str, bytes]) -> list[str]:
    """Return the namespaces of a store, except for reservations. Raises CorruptionError."""
    names = []
    for path, data in sorted(nodes.items()):
        name = path.removeprefix(f"{NAMESPACES}/")
        if path.startswith(f"{NAMESPACES}/") and "/" not in name and data:
            try:
                NamespaceRecord.decode(name, data)
            except NoSuchNamespaceError:
                continue
            names.append(name)
    return names
