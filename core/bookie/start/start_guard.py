"""The guard of a bookie's starts: it detects an older copy of the storage (rule BKE-25).

``check`` compares the directory with the record in the metadata store, ``limbo_reason`` adds what
the replay found, and ``claim`` makes the directory the only current one. Two things reveal a
copy from the same start: its end marker is another file than the one that the bookie wrote, and
its log ends before the end that ``record`` writes from time to time.
"""

from dataclasses import replace
from random import Random

from ...metadata.bookie_directory import BookieDirectory
from ...protocol.errors import (
    BadVersionError,
    DiskFailedError,
    NodeExistsError,
    NoNodeError,
    WrongClusterError,
)
from ...runtime.disk import Disk
from ...runtime.metadata_store import Version
from ..identity import Identity, write_identity
from ..log.end_marker import END_MARKER_PATH
from ..log.log_format import OFFSET_BITS, OFFSET_MASK
from .start_record import Freshness, StartRecord, compare, decode, encode

RECORD_MS = 30_000
"""Interval at which the end of the log is recorded while it moves, in milliseconds."""


class StartGuard:
    """Compares one storage directory with the record of its starts, and keeps the record."""

    def __init__(
        self, disk: Disk, directory: BookieDirectory, identity: Identity, random: Random
    ) -> None:
        self.identity = identity
        self._disk = disk
        self._directory = directory
        self._random = random
        self._record: StartRecord | None = None
        self._version: Version | None = None
        self._is_older_copy = False
        self._is_other_place = False

    async def check(self) -> None:
        """Reads the record and compares it with the directory.

        Raises WrongClusterError if the metadata store does not know the directory's last start,
        CorruptionError, ForeignDataError, MetadataError.
        """
        await self._read()
        freshness = compare(self.identity, self._record)
        if freshness is Freshness.NEWER_THAN_STORE:
            known = "no start" if self._record is None else f"start {self._record.start}"
            raise WrongClusterError(
                f"this storage was started {self.identity.start} times, but the metadata store "
                f"knows {known} of bookie {self.identity.bookie_id}: the store was restored from "
                "an older copy and may give ledger ids out again; restore a newer copy of the "
                "store, or format an empty directory as a new bookie"
            )
        self._is_older_copy = freshness is Freshness.OLDER_COPY
        marker = await self._marker()
        known = "" if self._record is None else self._record.marker
        self._is_other_place = "" not in (marker, known) and marker != known

    def limbo_reason(self, end: int) -> str | None:
        """Return why the storage must begin limbo, None if it need not.

        ``end`` is the position at which the log ends in this directory.
        """
        record = self._record
        if record is None:
            return None
        if self._is_older_copy:
            return (
                f"the directory is an older copy: its last start is number {self.identity.start}, "
                f"but start {record.start} came after it"
            )
        if end < record.end:
            return (
                f"the log ends at {_text_of(end)}, but it was durable up to "
                f"{_text_of(record.end)}: the directory is an older copy, or it lost the end of "
                "its log"
            )
        if self._is_other_place and not record.is_final:
            return (
                "the directory is a copy: its files are not those that the bookie wrote, and the "
                "bookie did not stop in an orderly way, so the copy may be older than its last ack"
            )
        return None

    @property
    def recorded_limbo(self) -> str:
        """Why the bookie was in limbo when the record was last written or read; empty if not."""
        return "" if self._record is None else self._record.limbo

    async def claim(self, end: int, limbo: str) -> None:
        """Makes this directory the current one: copies of it are older from now on.

        The identity file comes first and the metadata store second. A start that was interrupted
        in between is continued with the same token, so that a late write of it does no harm.
        Raises WrongClusterError if another process has claimed the bookie since ``check``.
        """
        await self._draw_token()
        identity = self.identity
        record = StartRecord(identity.start, identity.token, end, limbo, await self._marker())
        try:
            version = await self._directory.write_start(
                identity.bookie_id, encode(record), self._version
            )
        except (BadVersionError, NodeExistsError, NoNodeError) as error:
            raise WrongClusterError(
                f"another process has started bookie {identity.bookie_id} meanwhile"
            ) from error
        self._record, self._version = record, version

    async def _draw_token(self) -> None:
        """Writes the next token into the identity file, unless an interrupted start has done so."""
        identity, record = self.identity, self._record
        stored = "" if record is None else record.token
        if identity.token and identity.previous_token == stored and not self._is_older_copy:
            return
        self.identity = replace(
            identity,
            was_opened=True,
            start=1 if record is None else record.start + 1,
            token=f"{self._random.getrandbits(64):016x}",
            previous_token=stored,
        )
        await write_identity(self._disk, self.identity)

    async def record(self, end: int, limbo: str, *, is_final: bool = False) -> None:
        """Records how far the log is durable, and why the bookie is in limbo. Safe to repeat.

        ``is_final`` means that nothing will be acknowledged after it. Raises WrongClusterError if
        another process has claimed the bookie, MetadataError.
        """
        known, version = self._record, self._version
        assert known is not None and version is not None, "the start was claimed"
        record = replace(known, end=end, limbo=limbo, is_final=is_final)
        if record == known:
            return
        bookie = self.identity.bookie_id
        try:
            self._version = await self._directory.write_start(bookie, encode(record), version)
            self._record = record
        except BadVersionError:
            await self._read()  # an earlier write was late, or the store was migrated
            if self._record is None or self._record.token != self.identity.token:
                raise WrongClusterError(
                    f"another process has started a copy of bookie {bookie}"
                ) from None

    async def _marker(self) -> str:
        """Return the identity of the end marker's file; empty if there is none that can be read."""
        try:
            return await self._disk.file_identity(END_MARKER_PATH)
        except (FileNotFoundError, DiskFailedError):
            return ""

    async def _read(self) -> None:
        value = await self._directory.read_start(self.identity.bookie_id)
        self._record = None if value is None else decode(value.data)
        self._version = None if value is None else value.version


def _text_of(position: int) -> str:
    return f"file {position >> OFFSET_BITS}, byte {position & OFFSET_MASK}"
