"""Reads the verified Parquet footers of the files of segments."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from ...core.runtime.cold_store import ColdStore
from ..archive.manifest import Manifest
from ..archive.part_file import PartFile


class PartFooter(NamedTuple):
    """A file with records of segments, and its Parquet footer."""

    key: str
    size_bytes: int
    footer: Any  # pyarrow's FileMetaData, which has no types


async def part_footers(cold: ColdStore, manifests: Iterable[Manifest]) -> list[PartFooter]:
    """Return the footer of each file of the segments once. Raises CorruptionError."""
    found: dict[str, PartFooter] = {}
    for manifest in manifests:
        for part in manifest.parts:
            key = manifest.part_key(part)
            if key not in found:
                file = await PartFile.open(cold, key, part)
                found[key] = PartFooter(key, part.size_bytes, file.footer)
    return list(found.values())
