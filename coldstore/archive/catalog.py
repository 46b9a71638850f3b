"""Finds the manifests of a cold store, by segment or by listing. Contacts no cluster."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ...core.protocol.errors import CorruptionError, ForeignDataError, NoSuchObjectError
from ...core.runtime.cold_store import ColdStore
from ...core.runtime.tasks import for_each
from ..proof.chain_tip import ChainTip, lost_tip_error, read_tip
from ..proof.erasure_chain import stored_relocations
from .archive_folder import (
    ArchiveFolder,
    MergedName,
    TipName,
    chains_of,
    lssn_of_part,
    parse_chain_key,
)
from .manifest import MANIFEST_BYTES_MAX, Manifest
from .relocation import Relocations, read_relocations

CHAINS_AT_A_TIME = 32
"""Number of streams whose manifests are read at a time."""


@dataclass(frozen=True, slots=True)
class ManifestListing:
    """The manifests below a prefix, and the keys of those that cannot be used."""

    manifests: tuple[Manifest, ...]
    """Sorted by namespace, stream, stream id and LSSN."""
    tips: dict[ArchiveFolder, ChainTip]
    """The tips of the chains that can be used."""
    faults: dict[str, CorruptionError | ForeignDataError]
    """Error by key, sorted; every message begins with the key."""
    folders: frozenset[ArchiveFolder]
    """All archives below the prefix, those without a usable object too."""

    def faults_of(self, folder: ArchiveFolder) -> list[CorruptionError | ForeignDataError]:
        """Return the errors of one archive."""
        inside = f"{folder.chain}/"
        return [error for key, error in self.faults.items() if f"{key}/".startswith(inside)]


class ListedChain(NamedTuple):
    """The objects of a chain according to a listing, or to the index of the namespace."""

    lssns: list[int]
    """Segments that have a manifest, ascending."""
    tips: list[TipName]
    manifests: Mapping[int, Manifest] | None = None
    """Manifests that need not be read, because the index has them; None without an index."""
    tip: ChainTip | None = None
    """The tip of the chain, if it need not be read either."""
    relocations: tuple[int, ...] | None = ()
    """The numbers of its relocations, ascending; None: not known. None of those that the given
    manifests already contain."""


def missing_manifest_error(folder: ArchiveFolder, lssn: int) -> CorruptionError:
    """Return the error for a manifest that the tip covers and that does not exist."""
    return CorruptionError(
        f"{folder.manifest(lssn)}: the manifest is missing, although the chain holds segment {lssn}"
    )


async def read_manifest(cold: ColdStore, folder: ArchiveFolder, lssn: int) -> Manifest | None:
    """Return the manifest of a segment, or None if it is not archived.

    Raises CorruptionError, and ForeignDataError for another format; both name the object.
    """
    key = folder.manifest(lssn)
    try:
        data = await cold.get(key, 0, MANIFEST_BYTES_MAX + 1)
    except NoSuchObjectError:
        return None
    try:
        manifest = Manifest.decode(data)
    except (CorruptionError, ForeignDataError) as error:
        raise type(error)(f"{key}: {error}") from error
    if (manifest.folder, manifest.lssn) != (folder, lssn):
        raise CorruptionError(
            f"{key}: the manifest is of another segment: "
            f"segment {manifest.lssn} of {'/'.join(manifest.folder)}"
        )
    return manifest


async def list_manifests(cold: ColdStore, prefix: str = "") -> list[Manifest]:
    """Return the manifests below ``prefix`` (``namespace`` or ``namespace/stream``), sorted.

    Raises CorruptionError for a manifest that is damaged or stored under the wrong key, and
    ForeignDataError for one of another format.
    """
    listing = await scan_manifests(cold, prefix)
    for error in listing.faults.values():
        raise error
    return list(listing.manifests)


async def scan_manifests(
    cold: ColdStore,
    prefix: str = "",
    *,
    known: Callable[[ArchiveFolder, ListedChain], ListedChain] = lambda _, listed: listed,
) -> ManifestListing:
    """Return the manifests below ``prefix``; one that cannot be used does not hide the others.

    Manifests that a tip covers and that do not exist are faults, and so is a missing tip. ``known``
    returns a listed chain with the tip and the manifests that need not be read. Raises the errors
    of the cold store.
    """
    found: list[Manifest] = []
    tips: dict[ArchiveFolder, ChainTip] = {}
    faults: dict[str, CorruptionError | ForeignDataError] = {}
    chains, others = await _listed_chains(cold, prefix)
    for key in others:
        faults[key] = CorruptionError(f"{key}: not the name of a manifest or a tip")

    async def scan(folder: ArchiveFolder) -> None:
        chain = known(folder, chains[folder])
        held = chain.manifests or {}
        try:
            tip = chain.tip or await read_tip(cold, folder, chain.tips)
            if tip is None:
                raise lost_tip_error(folder)
        except (CorruptionError, ForeignDataError) as error:
            faults[folder.tips] = error
        else:
            tips[folder] = tip
        relocations = await _relocations(cold, folder, chains[folder], tips.get(folder), faults)
        covered = tips[folder].covered if folder in tips else range(0)
        for lssn in sorted({*chain.lssns, *covered}):
            try:
                manifest = held.get(lssn) or await read_manifest(cold, folder, lssn)
                if manifest is not None:
                    found.append(relocations.apply(manifest))
                elif lssn in covered:
                    raise missing_manifest_error(folder, lssn)
            except (CorruptionError, ForeignDataError) as error:
                faults[folder.manifest(lssn)] = error

    await for_each(list(chains), scan, CHAINS_AT_A_TIME)
    ordered = sorted(found, key=lambda m: (m.folder, m.lssn))
    return ManifestListing(tuple(ordered), tips, dict(sorted(faults.items())), frozenset(chains))


async def _relocations(
    cold: ColdStore,
    folder: ArchiveFolder,
    chain: ListedChain,
    tip: ChainTip | None,
    faults: dict[str, CorruptionError | ForeignDataError],
) -> Relocations:
    """Return the relocations of a chain; if one cannot be used, add a fault and return none."""
    try:
        if tip is None:  # a fault of its own: what was erased cannot be proved
            return await read_relocations(cold, folder, chain.relocations or ())
        return await stored_relocations(cold, folder, listed=chain.relocations, tip=tip)
    except (CorruptionError, ForeignDataError) as error:
        faults[folder.relocations] = error
        return Relocations()


async def listed_archives(cold: ColdStore, prefix: str = "") -> list[ArchiveFolder]:
    """Return the archives below ``prefix`` (``namespace`` or ``namespace/stream``), sorted."""
    return sorted((await _listed_chains(cold, prefix))[0])


async def listed_chains(
    cold: ColdStore, namespace: str, stream: str
) -> dict[ArchiveFolder, ListedChain]:
    """Return the chains of all streams that had this name, from a listing alone."""
    return (await _listed_chains(cold, chains_of(namespace, stream)))[0]


async def listed_namespace(
    cold: ColdStore, namespace: str
) -> dict[str, dict[ArchiveFolder, ListedChain]]:
    """Return the chains of a namespace by the name of the stream, from one listing."""
    found: dict[str, dict[ArchiveFolder, ListedChain]] = {}
    for folder, chain in (await _listed_chains(cold, namespace))[0].items():
        found.setdefault(folder.stream, {})[folder] = chain
    return found


async def _listed_chains(
    cold: ColdStore, prefix: str
) -> tuple[dict[ArchiveFolder, ListedChain], list[str]]:
    """Return the chains below ``prefix``, and the keys in their folders that have other names."""
    found: dict[ArchiveFolder, ListedChain] = {}
    others: list[str] = []
    for key in sorted(await cold.list(prefix)):
        parsed = parse_chain_key(key)
        if parsed is None:
            continue
        chain = found.setdefault(parsed.folder, ListedChain([], []))
        if parsed.lssn is not None:
            chain.lssns.append(parsed.lssn)
        elif parsed.tip is not None:
            chain.tips.append(parsed.tip)
        elif parsed.relocation is not None:
            numbers = (*(chain.relocations or ()), parsed.relocation)
            found[parsed.folder] = chain._replace(relocations=numbers)
        else:
            others.append(key)
    return found, others


async def archived_segments(
    cold: ColdStore, namespace: str, stream: str
) -> dict[ArchiveFolder, list[int]]:
    """Return the LSSNs with a manifest, ascending, from a listing alone.

    There is one entry for each stream of the name that has archived segments.
    """
    chains = await listed_chains(cold, namespace, stream)
    return {folder: chain.lssns for folder, chain in chains.items() if chain.lssns}


async def archived_lssns(cold: ColdStore, folder: ArchiveFolder) -> list[int]:
    """Return the LSSNs of a stream's archived segments, ascending, from a listing alone."""
    chains, _ = await _listed_chains(cold, folder.chain)
    return chains[folder].lssns if folder in chains else []


async def stored_parts(cold: ColdStore, folder: ArchiveFolder) -> dict[int, list[str]]:
    """Return the names of the stored parts by segment.

    Parts that no manifest names count too: a deletion or an upload was interrupted.
    """
    found: dict[int, list[str]] = {}
    for key in await cold.list(folder.records):
        name = key.rpartition("/")[2]
        if (lssn := lssn_of_part(name)) is not None:
            found.setdefault(lssn, []).append(name)
    return found


async def stored_merged(cold: ColdStore, folder: ArchiveFolder) -> list[MergedName]:
    """Return the names of the stored files that hold several segments, staged ones too."""
    keys = [*await cold.list(folder.records), *await cold.list(folder.staged)]
    names = (MergedName.parse(key.rpartition("/")[2]) for key in keys)
    return sorted(name for name in names if name is not None)


async def archived_streams(cold: ColdStore, namespace: str) -> list[str]:
    """Return the streams with archived segments, sorted, from a listing alone."""
    parsed = map(parse_chain_key, await cold.list(namespace))
    return sorted({key.folder.stream for key in parsed if key is not None and key.lssn is not None})
