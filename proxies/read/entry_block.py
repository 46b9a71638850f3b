"""Blocks of consecutive entries, encoded once for all readers."""

from collections.abc import Sequence

from ...core.log.read.entry_source import Chunk
from ..rpc import rhumbline_pb2 as pb

BLOCK_BYTES_MAX = 1 << 20
"""Target size of a message with entries; a larger entry gets a separate message."""

EntryPosition = tuple[int, int]
"""(lssn, entry id)."""


class EntryBlock:
    """Consecutive entries of one segment; without entries it is the end of a segment.

    ``end`` is the position after the last entry. The end of a segment has the position after its
    last entry as ``start`` and the first position of the next segment as ``end``.
    """

    __slots__ = ("_encoded", "end", "entries", "size", "start", "start_sequence_id")

    def __init__(
        self,
        start: EntryPosition,
        end: EntryPosition,
        entries: Sequence[bytes],
        start_sequence_id: int | None,
    ) -> None:
        self.start = start
        self.end = end
        self.entries = entries
        self.start_sequence_id = start_sequence_id
        self.size = sum(map(len, entries))
        """Bytes of the entries."""
        self._encoded = b""

    @property
    def is_segment_end(self) -> bool:
        """True if the block has no entries."""
        return self.end[0] != self.start[0]

    def holds(self, position: EntryPosition) -> bool:
        """Return whether a reader at ``position`` may continue with this block."""
        return position == self.start or (
            self.start < position < self.end and self.start[0] == self.end[0]
        )

    def encoded(self) -> bytes:
        """Return the block as an encoded ReadResponse."""
        if not self._encoded:
            message = pb.ReadResponse(
                lssn=self.start[0], first_entry_id=self.start[1], entries=self.entries
            )
            if self.start_sequence_id is not None:
                message.start_sequence_id = self.start_sequence_id
            self._encoded = message.SerializeToString()
            self.entries = ()  # the encoded form replaces them
        return self._encoded

    def payloads(self) -> Sequence[bytes]:
        """Return the payloads of the entries."""
        return self.entries or list(pb.ReadResponse.FromString(self._encoded).entries)

    def starting_at(self, position: EntryPosition) -> "EntryBlock":
        """Return the part of the block from ``position`` on."""
        if position == self.start:
            return self
        part = self.payloads()[position[1] - self.start[1] :]
        return EntryBlock(position, self.end, part, self.start_sequence_id)


def segment_end(start: EntryPosition, following: EntryPosition) -> EntryBlock:
    """Return the block for the end of a segment at ``start``, with the next position."""
    return EntryBlock(start, following, (), None)


def split_into_blocks(chunk: Chunk) -> list[EntryBlock]:
    """Split a chunk of entries into blocks; an empty chunk has none."""
    if not chunk.entries:
        return []
    blocks: list[EntryBlock] = []
    part: list[bytes] = []
    first = chunk.entries[0].entry_id
    size = 0

    def finish() -> None:
        start, end = (chunk.lssn, first), (chunk.lssn, first + len(part))
        blocks.append(EntryBlock(start, end, part, chunk.start_sequence_id))

    for entry in chunk.entries:
        payload = bytes(entry.payload)
        if part and size + len(payload) > BLOCK_BYTES_MAX:
            finish()
            first, part, size = entry.entry_id, [], 0
        part.append(payload)
        size += len(payload)
    finish()
    return blocks
