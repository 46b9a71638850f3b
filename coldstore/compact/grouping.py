"""Chooses the segments whose records move to one file. Pure (rule ARC-62)."""

from collections.abc import Sequence

from ..archive.manifest import Manifest

FILE_SEGMENTS_MAX = 500
"""Maximum number of segments with records in one file."""


def plan_groups(manifests: Sequence[Manifest], file_bytes: int) -> list[tuple[Manifest, ...]]:
    """Return groups of consecutive segments of one stream, each for one file.

    ``manifests`` are in order, with the parts that the segments have now. A file ends before the
    segment with which its parts would exceed ``file_bytes``. Segments of half that size or more
    stay as they are, and so do those that were moved before and single parts. Segments without
    records have no file and are in no group.
    """
    groups: list[tuple[Manifest, ...]] = []
    group: list[Manifest] = []
    previous: Manifest | None = None
    size = 0
    for manifest in manifests:
        stored = stored_bytes(manifest)
        is_next = previous is None or manifest.lssn == previous.lssn + 1
        fits = size + stored <= file_bytes and len(group) < FILE_SEGMENTS_MAX
        if group and not (is_next and fits and _may_move(manifest, file_bytes)):
            groups.append(tuple(group))
            group, size = [], 0
        if manifest.parts and _may_move(manifest, file_bytes):
            group.append(manifest)
            size += stored
        previous = manifest
    groups.append(tuple(group))
    return [one for one in groups if sum(len(manifest.parts) for manifest in one) > 1]


def stored_bytes(manifest: Manifest) -> int:
    """Return the size of the files of a segment that has files of its own."""
    return sum(part.size_bytes for part in manifest.parts)


def _may_move(manifest: Manifest, file_bytes: int) -> bool:
    is_alone = all(not part.group_count for part in manifest.parts)
    return is_alone and 2 * stored_bytes(manifest) < file_bytes
