"""Copies the parts of an archived segment to another cold store, unchanged."""

import hashlib

from ...core.protocol.errors import CorruptionError, NoSuchObjectError
from ...core.runtime.cold_store import ColdStore
from ..archive.manifest import Manifest, Part
from ..stores.known_outcome import put_object


async def copy_parts(source: ColdStore, target: ColdStore, manifest: Manifest) -> None:
    """Copy all parts that ``manifest`` names. Safe to repeat.

    They are an archive in ``target`` once the manifest is published there, after those of the
    segments before it. Raises NoSuchObjectError, CorruptionError if a part is damaged or if
    ``target`` has another one, and the errors of the stores.
    """
    for part in manifest.parts:
        key = manifest.part_key(part)
        if part.first_group and await _has(target, key, part):
            continue  # compared with the first segment of the file
        data = await source.get(key)
        if hashlib.sha256(data).hexdigest() != part.sha256:
            raise CorruptionError(f"{key}: the SHA-256 differs from that in the manifest")
        if not await put_object(target, key, data) and await target.get(key) != data:
            raise CorruptionError(f"{key}: the target has a part with other content")


async def _has(cold: ColdStore, key: str, part: Part) -> bool:
    """True if the store has a file of this size."""
    try:
        return (await cold.stat(key)).size_bytes == part.size_bytes
    except NoSuchObjectError:
        return False
