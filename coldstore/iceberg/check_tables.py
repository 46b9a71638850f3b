"""Verifies that the tables of archives equal their archives (rule ARC-50)."""

from collections.abc import Iterable

from ...core.protocol.errors import CorruptionError, RhumblineError
from ...core.runtime.cold_store import ColdStore
from ...core.runtime.tasks import for_each
from ..archive.archive_folder import ArchiveFolder
from ..archive.catalog import read_manifest
from ..archive.manifest import Manifest
from ..archive.relocation import listed_relocations, read_relocations
from ..proof.chain_tip import ChainTip, read_tip
from .iceberg_tables import IcebergTables
from .part_footers import part_footers
from .registration import TableState

_TABLES_AT_A_TIME = 4
_ATTEMPTS_MAX = 5


async def check_tables(
    cold: ColdStore, tables: IcebergTables, folders: Iterable[ArchiveFolder]
) -> dict[str, CorruptionError]:
    """Return the faults of the tables of archives, by the name of the archive.

    A table may lack the newest segments, and have those that retention has just deleted. Tables of
    damaged archives are compared as far as the archive can be read. Raises the errors of the cold
    store.
    """
    found: dict[str, CorruptionError] = {}

    async def check(folder: ArchiveFolder) -> None:
        name = "/".join(folder)
        try:
            texts = await _differences(cold, tables, folder)
        except RhumblineError as error:
            texts = [str(error)]
        if texts:
            found[name] = CorruptionError(f"table of {name}: {'; '.join(texts)}")

    await for_each(sorted(folders), check, _TABLES_AT_A_TIME)
    return found


async def _differences(cold: ColdStore, tables: IcebergTables, folder: ArchiveFolder) -> list[str]:
    """Return what differs in a table that did not change meanwhile."""
    texts: list[str] = []
    for _ in range(_ATTEMPTS_MAX):
        state = await tables.state(folder)
        if state is None:
            return await tables.differences(folder, None, [], 0)
        tip = await read_tip(cold, folder)
        if tip is None:
            return []  # the listing of the archive reports it
        texts, manifests = await _segments(cold, folder, state, tip)
        parts = await part_footers(cold, manifests)
        texts += await tables.differences(folder, state, parts, tip.first_lssn)
        if not texts or await tables.state(folder) == state:
            break
    return texts


async def _segments(
    cold: ColdStore, folder: ArchiveFolder, state: TableState, tip: ChainTip
) -> tuple[list[str], list[Manifest]]:
    """Return faults, and the manifests of the segments that the table has, with its parts."""
    numbers = await listed_relocations(cold, folder)
    known = [one for one in numbers if one <= state.relocation]
    relocations = await read_relocations(cold, folder, known)
    found: list[Manifest] = []
    for lssn in range(max(state.first_lssn, tip.first_lssn), state.last_lssn + 1):
        manifest = await read_manifest(cold, folder, lssn)
        if manifest is None:
            return [f"it has segment {lssn}, the archive does not"], found
        found.append(manifest)
    texts = []
    if found and found[-1].link != state.last_link:
        texts = [f"segment {state.last_lssn} has another link than the archive"]
    if state.first_lssn > tip.first_lssn <= tip.last_lssn:
        texts += [f"it begins with segment {state.first_lssn}, the archive with {tip.first_lssn}"]
    return texts, [relocations.apply(one) for one in found]
