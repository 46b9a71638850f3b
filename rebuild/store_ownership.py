"""Decides which ledgers and namespaces belong to the store that is filled (rule BAK-10).

The number in a ledger's id names the store that issued it, but a namespace that was moved has taken
its ledgers along (rule LED-28). The place records say so: those in the backup of the store, and
those in the stores of the cluster that still exist, which are newer. A namespace is in a regional
store if the global store has a reservation of its name (rule STR-29). What another store has now
counts more than what a backup says.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping, Sequence

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
    issued = _issued_in(stores[0].nodes)
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
        self._asked = {other.store_number for other in others}
        self._places = _places_in(base or {})
        self._elsewhere: dict[int, int] = {}
        self._homes: dict[str, Region | None] = {}
        """The region of the store that has a namespace, None for the global store, as the other
        stores say."""
        self._moving: set[str] = set()
        """Namespaces whose move was not complete: their metadata may be in either store."""
        for other in others:
            self._add(other)

    def has_ledger(self, ledger_id: int) -> bool:
        """Return whether the metadata of a ledger belongs to this store."""
        if ledger_id in self._elsewhere:
            return False
        place = self._places.get(ledger_id, store_number_of(ledger_id))
        has_left = ledger_id in self._places and place in self._asked
        return place == self.number or has_left

    def has_namespace(self, name: str) -> bool:
        """Return whether a namespace, if it exists, is in this store."""
        return self._home_of(name) == self.region

    def findings(self, nodes: Mapping[str, bytes]) -> list[RebuildFinding]:
        """Return what could not be rebuilt in ``nodes``, the content of the store."""
        found = []
        for name, region in sorted(self._homes.items()):
            if region == self.region and namespace_path(name) not in nodes:
                text = "it has no records, so its policy is unknown: create it again"
                found.append(RebuildFinding("empty-namespace", name, text))
        for name in sorted(self._moving):
            text = "it was being moved between stores: compare it, and repeat `namespace move`"
            found.append(RebuildFinding("moving", name, text))
        for name, number in sorted(self._known_stores().items()):
            if number not in self._asked:
                text = "this store was not given: what was moved since the backup may be in both"
                found.append(RebuildFinding("unchecked-store", name, text))
        return found

    def identity_nodes(self) -> dict[str, bytes]:
        """Return the nodes that make an empty store this one."""
        if self._own is None:
            issued = {own.region: own for one in self._others if (own := one.own_record)}
            return {_PATHS.regional_stores: encode_issued(issued)} if issued else {}
        first_ids = f"{_PATHS.long_ids}/{high_name(high_bits_of(self.number).start)}"
        return {_PATHS.own_store: self._own.encode(), first_ids: b""}

    def settle_namespaces(
        self, nodes: MutableMapping[str, bytes], new_token: Callable[[], str], now_ms: int
    ) -> None:
        """Change ``nodes`` so that they hold the namespaces of this store and no others.

        The global store gets a reservation for each namespace of a regional store.
        """
        for name, data in _namespaces_in(nodes):
            reservation = NamespaceReservation.decode(name, data)
            region = self.region if reservation is None else reservation.region
            if self._home_of(name) != region:
                path = namespace_path(name)
                for node in [one for one in nodes if one == path or one.startswith(f"{path}/")]:
                    del nodes[node]
        if self._own is not None:
            return
        for name, region in self._homes.items():
            path = namespace_path(name)
            if region is not None and not nodes.get(path):
                nodes[path] = NamespaceReservation(new_token(), now_ms, region).encode()

    def _home_of(self, name: str) -> Region | None:
        """Return the region of the store that has a namespace; None is the global store."""
        if name in self._homes:
            return self._homes[name]
        if self._base is None:
            return None
        data = self._base.get(namespace_path(name))
        reservation = NamespaceReservation.decode(name, data) if data else None
        if reservation is None:
            return self.region
        issued = _issued_in(self._base).get(reservation.region)
        has_left = issued is not None and issued.number in self._asked
        return self.region if has_left else reservation.region

    def place_records(self, own: Iterable[int]) -> dict[str, bytes]:
        """Return the nodes that say where moved ledgers are.

        ``own`` are the ledgers of this store.
        """
        here = (id_ for id_ in own if store_number_of(id_) != self.number or id_ in self._places)
        there = ((id_, number) for id_, number in self._elsewhere.items()
                 if store_number_of(id_) == self.number)  # fmt: skip
        numbers = dict.fromkeys(here, self.number) | dict(there)
        return {_PATHS.place(id_): encode_place(number) for id_, number in numbers.items()}

    def _known_stores(self) -> dict[str, int]:
        """Return the numbers of the other stores that the backup knows, by region or ``global``."""
        if self._base is None:
            return {}
        if self._own is not None:
            return {"global": GLOBAL_STORE}
        return {str(region): one.number for region, one in _issued_in(self._base).items()}

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
                self._homes[name] = reservation.region
            elif move is not None and move.phase is MovePhase.ARRIVING:
                arriving.add(name)
            else:
                self._homes[name] = None if own is None else own.region
        for ledger_id, path in ledger_ids_in(other.nodes).items():
            if other.nodes[path] and _namespace_of(ledger_id, other.nodes[path]) not in arriving:
                self._elsewhere[ledger_id] = other.store_number


def _issued_in(nodes: Mapping[str, bytes]) -> dict[Region, RegionalStoreRecord]:
    data = nodes.get(_PATHS.regional_stores)
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
