"""Finds the manifests of a cold store, by segment or by listing. Contacts no cluster."""

from dataclasses import dataclass

from ...core.protocol.errors import CorruptionError, ForeignDataError, NoSuchObjectError
from ...core.runtime.cold_store import ColdStore
from .manifest import MANIFEST_BYTES_MAX, Manifest, manifest_key

_MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True)
class ManifestListing:
    """The manifests below a prefix, and the keys of those that cannot be used."""

    manifests: tuple[Manifest, ...]
    """Sorted by namespace, stream and LSSN."""
    faults: dict[str, CorruptionError | ForeignDataError]
    """Error by key, sorted; every message begins with the key."""


async def read_manifest(cold: ColdStore, namespace: str, stream: str, lssn: int) -> Manifest | None:
    """Return the manifest of a segment, or None if it is not archived.

    Raises CorruptionError, and ForeignDataError for another format; both name the object.
    """
    key = manifest_key(namespace, stream, lssn)
    try:
        data = await cold.get(key, 0, MANIFEST_BYTES_MAX + 1)
    except NoSuchObjectError:
        return None
    try:
        manifest = Manifest.decode(data)
    except (CorruptionError, ForeignDataError) as error:
        raise type(error)(f"{key}: {error}") from error
    if (manifest.namespace, manifest.stream, manifest.lssn) != (namespace, stream, lssn):
        raise CorruptionError(
            f"{key}: the manifest is of another segment: "
            f"{manifest.namespace}/{manifest.stream}/{manifest.lssn}"
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
        parts = key.split("/")
        if len(parts) != 4 or parts[3] != _MANIFEST or not parts[2].startswith("lssn="):
            continue
        number = parts[2].removeprefix("lssn=")
        try:
            if not number.isdecimal():
                raise CorruptionError(f"{key}: {number!r} is not a segment number")
            manifest = await read_manifest(cold, parts[0], parts[1], int(number))
        except (CorruptionError, ForeignDataError) as error:
            faults[key] = error
            continue
        if manifest is not None:  # None: the archive was deleted after the listing
            found.append(manifest)
    ordered = sorted(found, key=lambda m: (m.namespace, m.stream, m.lssn))
    return ManifestListing(tuple(ordered), faults)


async def archived_lssns(cold: ColdStore, namespace: str, stream: str) -> list[int]:
    """Return the LSSNs of a stream's archived segments, ascending, from a listing alone."""
    found = []
    for key in await cold.list(f"{namespace}/{stream}"):
        parts = key.split("/")
        if len(parts) == 4 and parts[3] == _MANIFEST:
            number = parts[2].removeprefix("lssn=")
            if number.isdecimal():
                found.append(int(number))
    return sorted(found)


async def listed_lssns(cold: ColdStore, namespace: str, stream: str) -> list[int]:
    """Return the LSSNs of a stream's segments of which anything is stored, ascending.

    Parts without a manifest count too: a deletion or an upload was interrupted.
    """
    found: dict[int, None] = {}
    for key in await cold.list(f"{namespace}/{stream}"):
        parts = key.split("/")
        if len(parts) == 4 and parts[2].startswith("lssn="):
            number = parts[2].removeprefix("lssn=")
            if number.isdecimal():
                found[int(number)] = None
    return sorted(found)


async def archived_streams(cold: ColdStore, namespace: str) -> list[str]:
    """Return the streams with archived segments, sorted, from a listing alone."""
    split = [key.split("/") for key in await cold.list(namespace)]
    return sorted({parts[1] for parts in split if len(parts) == 4 and parts[3] == _MANIFEST})
