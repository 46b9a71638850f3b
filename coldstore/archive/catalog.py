"""Finds the manifests of a cold store, by segment or by listing. Contacts no cluster."""

from dataclasses import dataclass

from ...core.protocol.errors import CorruptionError, ForeignDataError, NoSuchObjectError
from ...core.runtime.cold_store import ColdStore
from .archive_folder import ArchiveFolder, ChainKey, chains_of, lssn_of_part, parse_chain_key
from .manifest import MANIFEST_BYTES_MAX, Manifest


@dataclass(frozen=True, slots=True)
class ManifestListing:
    """The manifests below a prefix, and the keys of those that cannot be used."""

    manifests: tuple[Manifest, ...]
    """Sorted by namespace, stream, stream id and LSSN."""
    faults: dict[str, CorruptionError | ForeignDataError]
    """Error by key, sorted; every message begins with the key."""


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


async def scan_manifests(cold: ColdStore, prefix: str = "") -> ManifestListing:
    """Return the manifests below ``prefix``; one that cannot be used does not hide the others.

    Raises the errors of the cold store.
    """
    found: list[Manifest] = []
    faults: dict[str, CorruptionError | ForeignDataError] = {}
    for key in sorted(await cold.list(prefix)):
        parsed = parse_chain_key(key)
        if parsed is None:
            continue
        try:
            if parsed.lssn is None:
                raise CorruptionError(f"{key}: {parsed.name!r} is not the name of a manifest")
            manifest = await read_manifest(cold, parsed.folder, parsed.lssn)
        except (CorruptionError, ForeignDataError) as error:
            faults[key] = error
            continue
        if manifest is not None:  # None: the archive was deleted after the listing
            found.append(manifest)
    return ManifestListing(tuple(sorted(found, key=lambda m: (m.folder, m.lssn))), faults)


async def archived_segments(
    cold: ColdStore, namespace: str, stream: str
) -> dict[ArchiveFolder, list[int]]:
    """Return the LSSNs with a manifest, ascending, from a listing alone.

    There is one entry for each stream of the name that has archived segments.
    """
    found: dict[ArchiveFolder, list[int]] = {}
    for parsed in map(parse_chain_key, await cold.list(chains_of(namespace, stream))):
        if parsed is not None and parsed.lssn is not None:
            found.setdefault(parsed.folder, []).append(parsed.lssn)
    return {folder: sorted(lssns) for folder, lssns in found.items()}


async def archived_lssns(cold: ColdStore, folder: ArchiveFolder) -> list[int]:
    """Return the LSSNs of a stream's archived segments, ascending, from a listing alone."""
    keys = (ChainKey(folder, key.rpartition("/")[2]) for key in await cold.list(folder.chain))
    return sorted(key.lssn for key in keys if key.lssn is not None)


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


async def archived_streams(cold: ColdStore, namespace: str) -> list[str]:
    """Return the streams with archived segments, sorted, from a listing alone."""
    parsed = map(parse_chain_key, await cold.list(namespace))
    return sorted({key.folder.stream for key in parsed if key is not None and key.lssn is not None})
