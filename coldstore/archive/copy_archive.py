"""Copies the archive of a stream to another name, for a new stream that is restored from it.

Each stream has archives of its own, so the retention of one never deletes what another reads. The
copies have the same records, positions and content digests; their manifests name the new stream.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from ...core.protocol.errors import CorruptionError, InvalidArgumentError, NoSuchObjectError
from ...core.runtime.cold_store import ColdStore
from ..stores.known_outcome import put_object
from .catalog import listed_lssns, read_manifest
from .manifest import CHAIN_START, Manifest, Part, manifest_key, segment_folder


async def copy_archive(
    cold: ColdStore, manifests: Sequence[Manifest], *, stream: str, identity: str
) -> list[Manifest]:
    """Copy the segments of ``manifests``, which are in order, and return the new manifests.

    A repeat after an error continues, and keeps the identity of the first attempt. Raises
    InvalidArgumentError if ``stream`` has other archives, CorruptionError if a part is damaged or
    missing, and the errors of the cold store.
    """
    first = manifests[0]
    identity = await _known_identity(cold, manifests, stream) or identity
    copies = []
    for manifest in manifests:
        copy = replace(
            manifest,
            stream=stream,
            stream_identity=identity,
            previous_digest=CHAIN_START if manifest is first else manifest.previous_digest,
        )
        key = manifest_key(copy.namespace, stream, copy.lssn)
        for part in manifest.parts:
            await _copy_part(cold, manifest, part, stream)
        if not await put_object(cold, key, copy.encode()):
            found = await read_manifest(cold, copy.namespace, stream, copy.lssn)
            if found != copy:
                raise CorruptionError(f"{key}: another process has stored another manifest")
        copies.append(copy)
    return copies


async def _known_identity(
    cold: ColdStore, manifests: Sequence[Manifest], stream: str
) -> str | None:
    """Return the identity of the copies that an earlier attempt made; None if there are none."""
    namespace, known = manifests[0].namespace, None
    wanted = {manifest.lssn: manifest for manifest in manifests}
    for lssn in await listed_lssns(cold, namespace, stream):
        found = await read_manifest(cold, namespace, stream, lssn)
        if found is None and lssn in wanted:
            continue  # parts of an interrupted attempt
        if (
            found is None
            or lssn not in wanted
            or found.content_digest != wanted[lssn].content_digest
        ):
            raise InvalidArgumentError(
                f"{cold.uri} has archives of {namespace}/{stream}, such as segment {lssn}: "
                "choose another name"
            )
        known = found.stream_identity
    return known


async def _copy_part(cold: ColdStore, manifest: Manifest, part: Part, stream: str) -> None:
    source = f"{segment_folder(manifest.namespace, manifest.stream, manifest.lssn)}/{part.name}"
    target = f"{segment_folder(manifest.namespace, stream, manifest.lssn)}/{part.name}"
    try:
        data = await cold.get(source)
    except NoSuchObjectError as error:
        raise CorruptionError(f"{source}: the part is missing") from error
    if hashlib.sha256(data).hexdigest() != part.sha256:
        raise CorruptionError(f"{source}: the SHA-256 differs from that in the manifest")
    if not await put_object(cold, target, data) and await cold.get(target) != data:
        raise CorruptionError(f"{target}: the part already exists with different content")
