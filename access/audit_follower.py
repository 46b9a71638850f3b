"""Follows the files of an audit log, whose writers rename them, and remembers how far it has read.

The files are the buffer between the processes that write the log and a slower receiver: writers
never wait. Lines are lost to the receiver only if the oldest file is deleted before it was read
(``audit.files_kept``), which is noticed (rule SEC-41).
"""

import fcntl
import hashlib
import os
import threading
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, NamedTuple

from ..core.protocol.errors import ClosedError, ConfigurationError
from ..core.runtime.event_log import EventLog
from .audit_position import PRODUCER_BYTES, AuditPosition, decode_position

_LOG = EventLog(__name__)

_READ_BYTES = 128 << 10


class AuditLines(NamedTuple):
    """Lines without line endings, which a producer numbers without gaps."""

    producer: bytes
    first_sequence: int
    lines: list[bytes]


class AuditFollower:
    """Reads the lines of an audit log in order. One process at a time may use it, from any thread.

    The position is durable before lines are returned. After a crash the same lines are returned
    under the same numbers, so a receiver that knows the numbers takes none of them twice. A file is
    recognised by the hash of its first line, whatever it is called.
    """

    def __init__(self, path: Path) -> None:
        """``path`` is ``audit.file``; the position is kept beside it, in FILE.forwarded.

        Raises ConfigurationError if the position cannot be read, or another process follows
        the log.
        """
        self.gap_count = 0
        """Number of times that files were deleted before they were read."""
        self._path = path
        self._position_file = path.with_name(f"{path.name}.forwarded")
        self._lock = threading.Lock()
        self._is_closed = False
        self._file: BinaryIO | None = None
        self._was_renamed = False
        self._count = 0
        """Number of lines that were read and not committed."""
        self._lock_fd = self._locked()
        try:
            self._position = self._load()
        except BaseException:
            os.close(self._lock_fd)
            raise

    def read(self) -> AuditLines | None:
        """Return the lines that follow those of the last ``commit``; None if there are none yet.

        At most 128 KiB. Raises OSError, ConfigurationError for a file with a longer line.
        """
        with self._lock:
            self._check_open()
            if self._file is None:
                self._open_next()
            while self._file is not None:
                data = self._read_whole_lines(self._file)
                if data:
                    self._was_renamed = False
                    lines = [line for line in data.split(b"\n") if line]
                    self._hand_over(len(data), len(lines))
                    if lines:
                        return AuditLines(self._position.producer, self._position.sequence, lines)
                    self._settle()
                elif self._is_newest(self._file):
                    return None
                elif not self._was_renamed:
                    self._was_renamed = True  # a last line may follow: look again at the next call
                    return None
                else:
                    self._open_next()
            return None

    def commit(self) -> None:
        """Remember, durably, that the lines of the last ``read`` were received. Raises OSError."""
        with self._lock:
            self._check_open()
            if self._count:
                self._settle()

    def renumber(self) -> None:
        """Number the lines anew, for a receiver that lacks the last ones. Raises OSError."""
        with self._lock:
            self._check_open()
            self._store(replace(self._position, producer=_new_producer(), sequence=0))

    def close(self) -> None:
        """Let another process follow. Safe to repeat."""
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                self._close_file()
                os.close(self._lock_fd)

    # --- position -------------------------------------------------------------------------------

    def _locked(self) -> int:
        fd = os.open(f"{self._position_file}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(fd)
            raise ConfigurationError(f"{self._path}: another process forwards it") from error
        return fd

    def _load(self) -> AuditPosition:
        try:
            return decode_position(self._position_file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return AuditPosition(_new_producer())
        except (ConfigurationError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"{self._position_file}: {error}") from error

    def _hand_over(self, size: int, count: int) -> None:
        self._count = count
        end = self._position.offset + size
        if self._position.end != end:
            self._store(replace(self._position, end=end))

    def _settle(self) -> None:
        position = self._position
        if position.offset != position.end:
            sequence = position.sequence + self._count
            self._store(replace(position, offset=position.end, sequence=sequence))
            self._count = 0

    def _store(self, position: AuditPosition) -> None:
        part = self._position_file.with_name(f".{self._position_file.name}.part")
        with part.open("w", encoding="utf-8") as file:
            file.write(position.encode())
            file.flush()
            os.fsync(file.fileno())
        part.replace(self._position_file)
        self._position = position

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedError("the follower of the audit log is closed")

    # --- files ----------------------------------------------------------------------------------

    def _read_whole_lines(self, file: BinaryIO) -> bytes:
        """Return the lines that were handed over before, or else as many as there are."""
        position = self._position
        file.seek(position.offset)
        handed_over = position.end - position.offset
        if handed_over:
            data = file.read(handed_over)
            if len(data) == handed_over and data.endswith(b"\n"):
                return data
            raise ConfigurationError(f"{self._path}: a file was changed after it was read")
        data = file.read(_READ_BYTES)
        whole = data.rfind(b"\n") + 1
        if len(data) == _READ_BYTES and not whole:
            raise ConfigurationError(
                f"{self._path}: not an audit log: the line at byte {position.offset} is longer "
                f"than {_READ_BYTES} bytes"
            )
        return data[:whole]

    def _is_newest(self, file: BinaryIO) -> bool:
        try:
            found, own = os.stat(self._path), os.fstat(file.fileno())
        except FileNotFoundError:
            return True  # a writer has renamed it and not yet created the next one
        return (found.st_dev, found.st_ino) == (own.st_dev, own.st_ino)

    def _open_next(self) -> None:
        """Open the file at the position, or the one after it if that was read to its end."""
        has_ended = self._file is not None
        self._close_file()
        opened = self._open_all()
        try:
            names = [_first_line_hash(file) for file in opened]
            own = self._position.file
            if own in names:
                number = names.index(own) + has_ended
            else:
                number = 0
                if own and names:
                    self._skip_gap()
            if number >= len(names) or not names[number]:
                return  # the newest one is still empty
            if names[number] != self._position.file:
                self._position = replace(self._position, file=names[number], offset=0, end=0)
            self._was_renamed = False
            self._file = opened.pop(number)
        finally:
            for file in opened:
                file.close()

    def _skip_gap(self) -> None:
        """Begin again with the oldest file: the one at the position was deleted."""
        self.gap_count += 1
        _LOG.error("audit lines missed", file=self._path)
        self._position = AuditPosition(_new_producer())

    def _open_all(self) -> list[BinaryIO]:
        """Open the files that exist, from the oldest to the newest, while nobody renames them."""
        with ExitStack() as closing:
            opened: list[BinaryIO] = []
            with suppress(FileNotFoundError):
                newest = self._path.open("rb")
                closing.callback(newest.close)
                fcntl.flock(newest, fcntl.LOCK_SH)
                opened.append(newest)
            numbers = [
                int(file.suffix[1:])
                for file in self._path.parent.glob(f"{self._path.name}.*")
                if file.suffix[1:].isdigit()
            ]
            for number in sorted(numbers):
                file = self._path.with_name(f"{self._path.name}.{number}").open("rb")
                closing.callback(file.close)
                opened.append(file)
            if opened:
                fcntl.flock(opened[0], fcntl.LOCK_UN)
            closing.pop_all()
            return opened[::-1]

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def _new_producer() -> bytes:
    return os.urandom(PRODUCER_BYTES)


def _first_line_hash(file: BinaryIO) -> str:
    """Return the hash of the first line of a file; empty if it has none yet."""
    line = file.readline(_READ_BYTES)
    return hashlib.sha256(line).hexdigest() if line.endswith(b"\n") else ""
