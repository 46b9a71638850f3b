"""Decides which ledgers and namespaces belong to the store that is filled (rule BAK-10).

The number in a ledger's id names the store that issued it, but a namespace that was moved has taken
its ledgers along (rule LED-28). The place records say so: those in the backup of the store, and
those in the stores of the cluster that still exist, which are newer. A namespace is in a regional
store if the global store has a reservation of its name (rule STR-29).
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from ..core.log.metadata.namespace_record import MovePhase, NamespaceRecord, NamespaceReservation
from ..core.log.metadata.paths import ROOT as NAMESPACES
from ..core.log.metadata.paths import namespace_path
from ..core.metadata.cluster_layout import ROOT, Paths
from ..core.metadata.ledger_ids import GLOBAL_STORE, store_number_of
from ..core.metadata.ledger_places import decode_place, encode_place
from ..core.metadata.ledger_store import high_bits_of, high_name
from ..core.metadata.regional_store_records import RegionalStoreRecord, decode_issued, encode_issued
from ..core.protocol.bookie_id import Region
from ..core.protocol.errors import InvalidArgumentError
from ..core.wire import ledger_metadata as codec
from .backup import Backup, ledger_ids_in
from .found_streams import RebuildFinding, segment_name

_PATHS = Paths()


def issued_record(others: Sequence[Backup], region: Region) -> RegionalStoreRecord:
    """Return the record of the store of ``region``, as the global store has it.

    Raises InvalidArgumentError if the global store is not among ``others``, or has no such record.
    """
    stores = [one for one in others if one.store_number == GLOBAL_STORE]
    if not stores:
        raise InvalidArgumentError(
            f"to rebuild the store of region {region}, name the global store as one that exists"
        )
    issued = _issued(stores[0])
    if region not in issued:
        known = ", ".join(sorted(issued)) or "none"
        raise InvalidArgumentError(
            f"{stores[0].store} knows no metadata store of region {region}, only of: {known}"
        )
    return issued[region]


class StoreOwnership:
    """The part of one store in the metadata of a cluster."""

    def __init__(
        self,
        own: RegionalStoreRecord | None,
        base: Mapping[str, bytes] | None,
        others: Sequence[Backup],
    ) -> None:
        """``own`` is the record of a regional store, and None for the global one.

        ``base`` are the nodes of the store's backup, None without one.
        """
        self._own, self._base, self._others = own, base, others
        self.number = GLOBAL_STORE if own is None else own.number
        self.region = None if own is None else own.region
        self._places = _places_in(base or {})
        self._elsewhere: dict[int, int] = {}
        self._names: dict[str, Region] = {}
        """Namespaces in regional stores, as the other stores say."""
        self._moving: set[str] = set()
        """Namespaces whose move was not complete: their metadata may be in either store."""
        for other in others:
            self._add(other)

    def has_ledger(self, ledger_id: int) -> bool:
        """Return whether the metadata of a ledger belongs to this store."""
        if ledger_id in self._elsewhere:
            return False
        return self._places.get(ledger_id, store_number_of(ledger_id)) == self.number

    def has_namespace(self, name: str) -> bool:
        """Return whether a namespace, if it exists, is in this store."""
        if self._base is not None:
            data = self._base.get(namespace_path(name), b"")
            return not data or NamespaceReservation.decode(name, data) is None
        return self._names.get(name) == self.region

    def findings(self, nodes: Mapping[str, bytes]) -> list[RebuildFinding]:
        """Return what could not be rebuilt in ``nodes``, the content of the store."""
        found = []
        for name, region in sorted(self._names.items()):
            if region == self.region and namespace_path(name) not in nodes:
                text = "it has no records, so its policy is unknown: create it again"
                found.append(RebuildFinding("empty-namespace", name, text))
        for name in sorted(self._moving):
            text = "it was being moved between stores: compare it, and repeat `namespace move`"
            found.append(RebuildFinding("moving", name, text))
        return found

    def identity_nodes(self) -> dict[str, bytes]:
        """Return the nodes that make an empty store this one."""
        if self._own is None:
            issued = {own.region: own for one in self._others if (own := one.own_record)}
            return {_PATHS.regional_stores: encode_issued(issued)} if issued else {}
        first_ids = f"{_PATHS.long_ids}/{high_name(high_bits_of(self.number).start)}"
        return {_PATHS.own_store: self._own.encode(), first_ids: b""}

    def reservations(self, new_token: Callable[[], str], now_ms: int) -> dict[str, bytes]:
        """Return the nodes of the global store for namespaces in regional stores."""
        if self._own is not None:
            return {}
        return {
            namespace_path(name): NamespaceReservation(new_token(), now_ms, region).encode()
            for name, region in self._names.items()
        }

    def place_records(self, own: Iterable[int]) -> dict[str, bytes]:
        """Return the nodes that say where moved ledgers are.

        ``own`` are the ledgers of this store.
        """
        here = (id_ for id_ in own if store_number_of(id_) != self.number or id_ in self._places)
        there = ((id_, number) for id_, number in self._elsewhere.items()
                 if store_number_of(id_) == self.number)  # fmt: skip
        numbers = dict.fromkeys(here, self.number) | dict(there)
        return {_PATHS.place(id_): encode_place(number) for id_, number in numbers.items()}

    def _add(self, other: Backup) -> None:
        """Take in what another store says."""
        self._places |= _places_in(other.nodes)
        own = other.own_record
        arriving = set()
        for name, data in _namespaces_in(other.nodes):
            reservation = NamespaceReservation.decode(name, data)
            move = (reservation or NamespaceRecord.decode(name, data)).move
            if move is not None:
                self._moving.add(name)
            if reservation is not None:
                self._names[name] = reservation.region
            elif move is not None and move.phase is MovePhase.ARRIVING:
                arriving.add(name)
            elif own is not None:
                self._names[name] = own.region
        for ledger_id, path in ledger_ids_in(other.nodes).items():
            if other.nodes[path] and _namespace_of(ledger_id, other.nodes[path]) not in arriving:
                self._elsewhere[ledger_id] = other.store_number


def _issued(backup: Backup) -> dict[Region, RegionalStoreRecord]:
    data = backup.nodes.get(_PATHS.regional_stores)
    return {} if data is None else decode_issued(data)


def _places_in(nodes: Mapping[str, bytes]) -> dict[int, int]:
    """Return the number of the store that has each moved ledger."""
    below = f"{_PATHS.places}/"
    records = {
        f"{ROOT}/{path.removeprefix(below)}": data
        for path, data in nodes.items()
        if path.startswith(below) and data
    }
    return {
        ledger_id: decode_place(ledger_id, records[path])
        for ledger_id, path in ledger_ids_in(records).items()
    }


def _namespaces_in(nodes: Mapping[str, bytes]) -> Collection[tuple[str, bytes]]:
    below = f"{NAMESPACES}/"
    names = (
        (path.removeprefix(below), data) for path, data in nodes.items() if path.startswith(below)
    )
    return [(name, data) for name, data in names if "/" not in name and data]


def _namespace_of(ledger_id: int, data: bytes) -> str | None:
    named = segment_name(codec.decode(ledger_id, data))
    return None if named is None else named.namespace
