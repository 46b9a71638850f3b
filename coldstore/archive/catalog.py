"""What a cold store holds: manifests, by segment or found by listing. Needs no server."""

from ...core.protocol.errors import CorruptionError, NoSuchObjectError
from ...core.runtime.cold_store import ColdStore
from .manifest import MANIFEST_BYTES_MAX, Manifest, manifest_key

_MANIFEST = "manifest.json"


async def read_manifest(cold: ColdStore, namespace: str, stream: str, lssn: int) -> Manifest | None:
    """The manifest of a segment; None when it is not archived. Raises CorruptionError."""
    key = manifest_key(namespace, stream, lssn)
    try:
        data = await cold.get(key, 0, MANIFEST_BYTES_MAX + 1)
    except NoSuchObjectError:
        return None
    manifest = Manifest.decode(data)
    if (manifest.namespace, manifest.stream, manifest.lssn) != (namespace, stream, lssn):
        raise CorruptionError(f"{key}: the manifest of another segment")
    return manifest


async def list_manifests(cold: ColdStore, prefix: str = "") -> list[Manifest]:
    """Every archived segment below ``prefix`` (``namespace`` or ``namespace/stream``), in order.

    Raises CorruptionError for a manifest that is damaged or in the wrong place.
    """
    found = []
    for key in await cold.list(prefix):
        parts = key.split("/")
        if len(parts) != 4 or parts[3] != _MANIFEST or not parts[2].startswith("lssn="):
            continue
        number = parts[2].removeprefix("lssn=")
        if not number.isdecimal():
            raise CorruptionError(f"{key}: not the folder of a segment")
        manifest = await read_manifest(cold, parts[0], parts[1], int(number))
        if manifest is not None:  # None: deleted since it was listed
            found.append(manifest)
    return sorted(found, key=lambda one: (one.namespace, one.stream, one.lssn))


async def archived_lssns(cold: ColdStore, namespace: str, stream: str) -> list[int]:
    """The LSSNs of a stream's archived segments by listing alone, rising."""
    found = []
    for key in await cold.list(f"{namespace}/{stream}"):
        parts = key.split("/")
        if len(parts) == 4 and parts[3] == _MANIFEST:
            number = parts[2].removeprefix("lssn=")
            if number.isdecimal():
                found.append(int(number))
    return sorted(found)


async def archived_streams(cold: ColdStore, namespace: str) -> list[str]:
    """The streams of a namespace that have archived segments, by listing alone, in order."""
    split = [key.split("/") for key in await cold.list(namespace)]
    return sorted({parts[1] for parts in split if len(parts) == 4 and parts[3] == _MANIFEST})
