"""Reads the states of all bookies, and the layouts of all ledgers, from the metadata store."""

from collections.abc import Collection, Iterable

from ...core.bookie.start_record import decode
from ...core.metadata.ledger_store import LedgerStore
from ...core.protocol.bookie_id import BookieId
from ...core.protocol.errors import CorruptionError, ForeignDataError
from ...core.protocol.placement import BookieInfo
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
    located = {info.bookie: info for info in await directory.locations(list(registered))}
    limbo = await _in_limbo(directory, list(registered))
    states = await directory.states.read()
    members: dict[BookieId, Member] = {}
    for bookie in dict.fromkeys([*cookies, *registered, *named]):
        region = await directory.region_of(bookie)
        info = located.get(bookie) or BookieInfo(bookie, region)
        state = copy_state(
            is_registered=bookie in registered,
            has_cookie=bookie in cookies,
            is_in_limbo=bookie in limbo,
            is_given_up=bookie in given_up,
            order=states.of(bookie, region),
        )
        accepts_adds = bookie in writable and bookie not in limbo
        accepts_ledgers = accepts_adds and states.of(bookie, region) is None
        members[bookie] = Member(state, info.path, accepts_adds, accepts_ledgers)
    return ClusterCopies(members)


async def _in_limbo(
    directory: SteeredDirectory, bookies: Collection[BookieId]
) -> dict[BookieId, None]:
    """Return the bookies whose record of starts says limbo, or cannot be understood."""
    found: dict[BookieId, None] = {}
    for bookie, value in (await directory.read_starts(list(bookies))).items():
        try:
            if decode(value.data).limbo:
                found[bookie] = None
        except (CorruptionError, ForeignDataError):
            found[bookie] = None  # nothing is proved
    return found


async def read_index(ledgers: LedgerStore) -> LedgerIndex:
    """Read all ledgers once. Raises MetadataUnavailableError."""
    index = LedgerIndex()
    damaged: list[CorruptionError] = []
    index.begin_scan()
    async for metadata, version in all_ledgers(ledgers, damaged.append):
        index.note(metadata, version)
    index.end_scan(len(damaged))
    return index
