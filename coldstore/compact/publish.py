"""Publishes where the records of segments lie (rules ARC-60 and ARC-67)."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from ...core.protocol.errors import UnavailableError
from ...core.runtime.cold_store import ColdStore
from ..archive.archive_folder import ArchiveFolder
from ..archive.manifest import Manifest
from ..archive.relocation import (
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
    ``stored_relocations``, and UnavailableError if a segment has moved since it was read, because
    the move would undo an erasure, or if a relocation is published at the same time.
    """
    folder = moves[0].manifests[0].folder
    done: list[Relocation] = []
    known = await stored_relocations(cold, folder)
    _check_current(moves, known)
    number, last = known.last_number, known.last_erasure
    await note_moves(cold, folder)
    for batch in _batches(moves):
        number += 1
        first = batch[0].manifests[0]
        segments = tuple(segment for move in batch for segment in move.segments)
        names = (first.namespace, first.stream, first.stream_identity)
        relocation = Relocation(*names, number, wall_ms(), segments)
        if erasure is not None:
            link = None if last is None else last.erasure_link
            last = relocation = replace(relocation, erasure=erasure, previous_erasure=link)
        if not await put_object(cold, relocation.key, relocation.encode()):
            raise UnavailableError(f"{relocation.key}: published by another job")
        done.append(relocation)
    await cover_erasures(cold, folder, Relocations([*known.known, *done]))
    await note_moves(cold, folder)
    return done


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


def _batches(moves: Sequence[SegmentMove]) -> Iterator[list[SegmentMove]]:
    """Yield whole moves, as many as one relocation may have."""
    batch: list[SegmentMove] = []
    size = 0
    for move in moves:
        if batch and size + len(move.segments) > SEGMENTS_MAX:
            yield batch
            batch, size = [], 0
        batch.append(move)
        size += len(move.segments)
    if batch:
        yield batch
