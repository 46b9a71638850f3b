"""Publishes where the records of segments lie (rules ARC-60 and ARC-67)."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from ...core.protocol.errors import InvalidArgumentError, UnavailableError
from ...core.runtime.cold_store import ColdStore
from ...core.runtime.tasks import for_each
from ..archive.archive_folder import ArchiveFolder
from ..archive.manifest import MANIFEST_BYTES_MAX, Manifest
from ..archive.relocation import (
    ERASED_SETS_MAX,
    SEGMENTS_MAX,
    Erasure,
    MovedSegment,
    Relocation,
    Relocations,
)
from ..index.changes import note_rewrite
from ..proof.chain_tip import read_tip
from ..proof.erasure_chain import cover_erasures, stored_relocations
from ..stores.known_outcome import put_object

_STATS_AT_A_TIME = 16


class SegmentMove(NamedTuple):
    """Some segments of one stream, which move at the same moment."""

    manifests: tuple[Manifest, ...]
    """The segments as they were when their records were read."""
    segments: tuple[MovedSegment, ...]
    """The same segments as they will be."""


async def publish(
    cold: ColdStore,
    moves: Sequence[SegmentMove],
    wall_ms: Callable[[], int],
    erasure: Erasure | None = None,
) -> list[Relocation]:
    """Publish moves of one stream.

    The change is noted for the index before and afterwards, so that a crash between the two leaves
    a note. An erasure is complete when the tip names it. Raises the errors of
    ``cover_erasures``, UnavailableError if a segment has moved since it was read, because the move
    would undo an erasure, if retention has deleted it, or if a relocation is published at the same
    time, and, before anything is published, InvalidArgumentError if a relocation would be larger
    than readers accept, or NoSuchObjectError if a file was deleted before it was published.
    """
    folder = moves[0].manifests[0].folder
    known = await stored_relocations(cold, folder)
    _check_current(moves, known)
    await _check_kept(cold, moves)
    await cover_erasures(cold, folder, known)
    relocations = _relocations(moves, known, wall_ms, erasure)
    encoded = [one.encode() for one in relocations]
    for one, data in zip(relocations, encoded, strict=True):
        if len(data) > MANIFEST_BYTES_MAX:
            raise InvalidArgumentError(
                f"{one.key}: would have {len(data)} bytes, more than {MANIFEST_BYTES_MAX}: erase "
                "fewer records"
            )
    await _check_stored(cold, moves)
    await note_moves(cold, folder)
    for one, data in zip(relocations, encoded, strict=True):
        if not await put_object(cold, one.key, data):
            raise UnavailableError(f"{one.key}: published by another job")
    await cover_erasures(cold, folder, Relocations([*known.known, *relocations]))
    await note_moves(cold, folder)
    return relocations


async def note_moves(cold: ColdStore, folder: ArchiveFolder) -> None:
    """Make readers of the index read the manifests of a stream again (rule ARC-45)."""
    tip = await read_tip(cold, folder)
    if tip is not None:
        await note_rewrite(cold, folder, tip.name)


def _check_current(moves: Sequence[SegmentMove], known: Relocations) -> None:
    for manifest in (one for move in moves for one in move.manifests):
        if known.apply(manifest) != manifest:
            raise UnavailableError(
                f"{manifest.key}: the records of the segment were moved or erased meanwhile by "
                "another job: repeat this one"
            )


async def _check_kept(cold: ColdStore, moves: Sequence[SegmentMove]) -> None:
    """Raise UnavailableError if a segment was deleted: the new file would bring it back."""
    first = min((one for move in moves for one in move.manifests), key=lambda one: one.lssn)
    tip = await read_tip(cold, first.folder)
    if tip is not None and first.lssn < tip.first_lssn:
        raise UnavailableError(
            f"{first.key}: retention has deleted the segment meanwhile: repeat this job"
        )


async def _check_stored(cold: ColdStore, moves: Sequence[SegmentMove]) -> None:
    """Raise NoSuchObjectError if a file is gone: a staged file that is a day old is deleted."""
    keys = {
        manifest.part_key(part)
        for move in moves
        for manifest, segment in zip(move.manifests, move.segments, strict=True)
        for part in segment.parts
    }

    async def stat(key: str) -> None:
        await cold.stat(key)

    await for_each(sorted(keys), stat, _STATS_AT_A_TIME)


def _relocations(
    moves: Sequence[SegmentMove],
    known: Relocations,
    wall_ms: Callable[[], int],
    erasure: Erasure | None,
) -> list[Relocation]:
    """Return the relocations that follow the known ones, with all moves."""
    found: list[Relocation] = []
    number, last = known.last_number, known.last_erasure
    for batch in batches(moves):
        number += 1
        first = batch[0].manifests[0]
        segments = tuple(segment for move in batch for segment in move.segments)
        names = (first.namespace, first.stream, first.stream_identity)
        relocation = Relocation(*names, number, wall_ms(), segments)
        if erasure is not None:
            link = None if last is None else last.erasure_link
            last = relocation = replace(relocation, erasure=erasure, previous_erasure=link)
        found.append(relocation)
    return found


def batches(
    moves: Sequence[SegmentMove], sets_max: int = ERASED_SETS_MAX
) -> Iterator[list[SegmentMove]]:
    """Yield whole moves, as many as one relocation may have."""
    batch: list[SegmentMove] = []
    segments = sets = 0
    for move in moves:
        erased = sum(len(one.erased) for one in move.segments)
        is_full = segments + len(move.segments) > SEGMENTS_MAX or sets + erased > sets_max
        if batch and is_full:
            yield batch
            batch, segments, sets = [], 0, 0
        batch.append(move)
        segments, sets = segments + len(move.segments), sets + erased
    if batch:
        yield batch
