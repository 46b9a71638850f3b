"""Copies the archive of a stream to another name, for a new stream that is restored from it.

Each stream has archives of its own, so the retention of one never deletes what another reads. The
copies have the same records, positions and content digests; their manifests name the new stream.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from ...core.protocol.errors import CorruptionError, InvalidArgumentError, NoSuchObjectError
from ...core.runtime.cold_store import ColdStore
from ..archive.archive_folder import lssn_of_part
from ..archive.catalog import archived_segments, read_manifest
from ..archive.manifest import CHAIN_START, Manifest, Part
from ..proof.chain_tip import advance_tip, empty_tip
from ..stores.known_outcome import put_object


async def copy_archive(
    cold: ColdStore, manifests: Sequence[Manifest], *, stream: str, identity: str
) -> list[Manifest]:
    """Copy the segments of ``manifests``, which are in order, and return the new manifests.

    A repeat after an error continues, and keeps the identity of the first attempt. Raises
    InvalidArgumentError if ``stream`` has other archives, CorruptionError if a part is damaged or
    missing, and the errors of the cold store.
    """
    first = manifests[0]
    known = await _known_identity(cold, manifests, stream)
    if known is None:
        prefix = await _known_stream_id(cold, first.namespace, stream)
        known = prefix + identity[len(prefix) :]
    identity = known
    copies: list[Manifest] = []
    copied: set[str] = set()
    for manifest in manifests:
        copy = replace(
            manifest,
            stream=stream,
            stream_identity=identity,
            previous_link=copies[-1].link if copies else CHAIN_START,
        )
        for part in manifest.parts:
            if part.first_group and part.name in copied:
                continue
            copied.add(part.name)
            await _copy_part(cold, manifest.part_key(part), copy.part_key(part), part)
        if not copies:
            await advance_tip(cold, empty_tip(copy))
        is_new = await put_object(cold, copy.key, copy.encode())
        if not is_new and await read_manifest(cold, copy.folder, copy.lssn) != copy:
            raise CorruptionError(f"{copy.key}: another process has stored another manifest")
        copies.append(copy)
    await advance_tip(cold, empty_tip(copies[0]).with_last(copies[-1]))
    return copies


async def _known_identity(
    cold: ColdStore, manifests: Sequence[Manifest], stream: str
) -> str | None:
    """Return the identity of the manifests that an earlier attempt copied; None if it has none."""
    namespace, known = manifests[0].namespace, None
    wanted = {manifest.lssn: manifest for manifest in manifests}
    archives = await archived_segments(cold, namespace, stream)
    for folder, lssn in ((folder, lssn) for folder, found in archives.items() for lssn in found):
        found = await read_manifest(cold, folder, lssn)
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


async def _known_stream_id(cold: ColdStore, namespace: str, stream: str) -> str:
    """Return the stream id of the parts that an attempt copied before any manifest, or ""."""
    keys = [key.split("/") for key in await cold.list(f"{namespace}/{stream}")]
    found = {parts[2] for parts in keys if len(parts) == 4 and lssn_of_part(parts[3]) is not None}
    return found.pop() if len(found) == 1 else ""


async def _copy_part(cold: ColdStore, source: str, target: str, part: Part) -> None:
    try:
        data = await cold.get(source)
    except NoSuchObjectError as error:
        raise CorruptionError(f"{source}: the part is missing") from error
    if hashlib.sha256(data).hexdigest() != part.sha256:
        raise CorruptionError(f"{source}: the SHA-256 differs from that in the manifest")
    if not await put_object(cold, target, data) and await cold.get(target) != data:
        raise CorruptionError(f"{target}: the part already exists with different content")
