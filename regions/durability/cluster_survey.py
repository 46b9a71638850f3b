"""Reads the states of all bookies, and the layouts of all ledgers, from the metadata store."""

from collections.abc import Collection, Iterable
from contextlib import suppress

from ...core.metadata.ledger_store import LedgerStore
from ...core.protocol.bookie_id import BookieId
from ...core.protocol.errors import BookieUnavailableError, CorruptionError
from ...core.protocol.placement import BookieInfo
from ...core.wire.lost_ledgers import LostLedgers
from ..ledger_scan import all_ledgers
from ..steered_directory import SteeredDirectory
from .copy_states import ClusterCopies, Member, copy_state
from .ledger_index import LedgerIndex


async def read_cluster(
    directory: SteeredDirectory,
    named: Iterable[BookieId],
    *,
    given_up: Collection[BookieId] = (),
) -> ClusterCopies:
    """Read the states of all bookies that are known, and of those that ledgers name.

    ``given_up``: the bookies that repair counts as lost (rule RPR-4). Nothing is taken from a
    cache: raises MetadataUnavailableError if the registrations cannot be read, CorruptionError.
    """
    cookies = dict.fromkeys(await directory.all_known())
    writable = dict.fromkeys(await directory.writable())
    read_only = dict.fromkeys(await directory.read_only())
    registered = {**writable, **read_only}
    lost = await _lost_ledgers(directory, registered)
    located = {info.bookie: info for info in await directory.locations(list(registered))}
    proved = await _proved(directory, located)
    states = await directory.states.read()
    members: dict[BookieId, Member] = {}
    for bookie in dict.fromkeys([*cookies, *registered, *named]):
        region = await directory.region_of(bookie)
        info = located.get(bookie) or BookieInfo(bookie, region)
        state = copy_state(
            is_registered=bookie in registered,
            has_cookie=bookie in cookies,
            is_in_limbo=bookie not in proved,
            is_incomplete=bookie in lost and lost[bookie].are_all,
            is_given_up=bookie in given_up,
            order=states.of(bookie, region),
        )
        accepts_adds = bookie in writable and bookie in proved
        accepts_ledgers = accepts_adds and states.of(bookie, region) is None
        members[bookie] = Member(state, info.path, accepts_adds, accepts_ledgers)
    return ClusterCopies(members, {bookie: found.ids for bookie, found in lost.items()})


async def _proved(
    directory: SteeredDirectory, registered: Iterable[BookieId]
) -> dict[BookieId, None]:
    """Return the bookies whose registrations can be read, and do not say limbo."""
    found: dict[BookieId, None] = {}
    for bookie in registered:
        try:
            if not (await directory.registration(bookie)).is_in_limbo:
                found[bookie] = None
        except (BookieUnavailableError, CorruptionError):
            continue  # it left meanwhile
    return found


async def _lost_ledgers(
    directory: SteeredDirectory, registered: Iterable[BookieId]
) -> dict[BookieId, LostLedgers]:
    """Return the ledgers of which bookies say that they lack copies, by bookie."""
    found: dict[BookieId, LostLedgers] = {}
    for bookie in registered:
        with suppress(BookieUnavailableError, CorruptionError):  # then the bookie is not proved
            if lost := (await directory.registration(bookie)).lost_ledgers:
                found[bookie] = lost
    return found


async def read_durability(
    ledgers: LedgerStore, directory: SteeredDirectory
) -> tuple[LedgerIndex, ClusterCopies]:
    """Read all ledgers, and the states of all bookies that are known or named.

    Raises MetadataUnavailableError, CorruptionError.
    """
    index = await read_index(ledgers)
    cluster = await read_cluster(directory, index.bookies())
    index.mark_lacking(cluster.lacking)
    return index, cluster


async def read_index(ledgers: LedgerStore) -> LedgerIndex:
    """Read all ledgers once. Raises MetadataUnavailableError."""
    index = LedgerIndex()
    damaged: list[CorruptionError] = []
    index.begin_scan()
    async for metadata, version in all_ledgers(ledgers, damaged.append):
        index.note(metadata, version)
    index.end_scan(len(damaged))
    return index
