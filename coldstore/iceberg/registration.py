"""Decides which change brings a table closer to its archive. Pure (rules ARC-41 and ARC-43)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ...core.protocol.errors import CorruptionError


@dataclass(frozen=True, slots=True)
class TableState:
    """The segments that a table has, as its own properties say."""

    first_lssn: int
    """The oldest segment whose records the table has, unless it has none."""
    last_lssn: int
    """The newest segment that was registered; ``first_lssn`` - 1 if there is none."""
    last_link: str
    """The link that the next segment must name; empty if no segment was registered."""
    relocation: int = 0
    """The newest relocation whose files the table has."""

    @property
    def next_lssn(self) -> int:
        """The segment that is registered next."""
        return self.last_lssn + 1


class Register(NamedTuple):
    """Add the records of a segment."""

    lssn: int


class Remove(NamedTuple):
    """Remove the records of the segments before ``below``, whose archives were deleted."""

    below: int


class Replace(NamedTuple):
    """Replace the files of segments that were moved, up to this relocation."""

    relocation: int


Step = Register | Remove | Replace


def next_step(
    state: TableState | None, archived: Sequence[int], relocation: int = 0
) -> Step | None:
    """Return the next change of a table; None if it equals the archive.

    ``archived`` are the LSSNs of the archived segments, ascending, and ``relocation`` is the number
    of the newest relocation. Without a ``state`` there is no table yet. Raises CorruptionError if
    the segment to register next is missing from the archive.
    """
    if state is None:
        return Register(archived[0]) if archived else None
    oldest = archived[0] if archived else state.next_lssn
    if state.first_lssn < min(oldest, state.next_lssn):
        return Remove(min(oldest, state.next_lssn))
    if oldest > state.next_lssn:  # those between were deleted before they were registered
        return Register(oldest)
    if state.next_lssn in archived:
        return Register(state.next_lssn)
    if archived and archived[-1] > state.next_lssn:
        raise CorruptionError(
            f"segment {state.next_lssn} is missing from the archive, which has later ones"
        )
    if relocation > state.relocation:
        return Replace(relocation)
    return None


def waiting_segments(state: TableState | None, archived: Sequence[int]) -> int:
    """Return the number of archived segments that the table does not have."""
    return sum(1 for lssn in archived if state is None or lssn > state.last_lssn)
