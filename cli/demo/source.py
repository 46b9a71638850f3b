"""What the demo writes: the lines of a file, of standard input, or of a log found here."""

import hashlib
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ...core.protocol.errors import InvalidArgumentError
from ...core.protocol.record_set import RECORD_BYTES_MAX

_LOGS = (
    "/var/log/dpkg.log",
    "/var/log/syslog",
    "/var/log/messages",
    "/var/log/dnf.log",
    "/var/log/pacman.log",
    "/var/log/system.log",
    "/var/log/install.log",
    "/var/log/apk.log",
    "/var/log/*.log",
    "/var/log/*/*.log",
    "/usr/share/doc/*/changelog*",
    "/usr/share/common-licenses/*",
)
_LINES_MIN = 1_000
_STDIN_BYTES_MAX = 4 << 30


@dataclass(frozen=True, slots=True)
class Source:
    """A file of lines that was read through once."""

    path: Path
    label: str
    line_count: int
    size: int
    sha256: str

    def lines(self) -> Iterator[bytes]:
        """The lines with their ends: joined they are the file."""
        with self.path.open("rb") as file:
            yield from file


def open_source(file: str | None, stdin: BinaryIO, scratch: Path) -> Source:
    """The source that the user named: a path, "-" for standard input, None for a log found here.

    Standard input is copied into ``scratch`` first. Raises InvalidArgumentError.
    """
    if file == "-":
        return _scan(_spool(stdin, scratch), "standard input")
    if file is not None:
        return _scan(Path(file), file)
    found = find_log()
    return _scan(found, f"{found} (found on this machine)")


def find_log() -> Path:
    """A real log of some length on this machine. Raises InvalidArgumentError when there is none."""
    seen: list[tuple[int, Path]] = []
    for pattern in _LOGS:
        for path in sorted(Path("/").glob(pattern.removeprefix("/"))):
            count = _count_lines(path)
            if count >= _LINES_MIN:
                return path
            if count:
                seen.append((count, path))
    if not seen:
        raise InvalidArgumentError("no log file was found on this machine; name one: demo FILE")
    return max(seen)[1]


def _count_lines(path: Path) -> int:
    """Lines up to ``_LINES_MIN``; 0 for what cannot be read or is not text."""
    try:
        with path.open("rb") as file:
            head = file.read(1 << 20)
    except OSError:
        return 0
    return 0 if b"\x00" in head or path.suffix in (".gz", ".xz") else head.count(b"\n")


def _spool(stdin: BinaryIO, scratch: Path) -> Path:
    with tempfile.NamedTemporaryFile(dir=scratch, prefix="stdin-", delete=False) as file:
        while block := stdin.read(1 << 20):
            file.write(block)
            if file.tell() > _STDIN_BYTES_MAX:
                raise InvalidArgumentError("standard input is longer than 4 GiB; name a file")
        if shutil.disk_usage(scratch).free < 4 * file.tell():
            raise InvalidArgumentError("too little space to store standard input three times")
    return Path(file.name)


def _scan(path: Path, label: str) -> Source:
    digest = hashlib.sha256()
    count = size = 0
    try:
        with path.open("rb") as file:
            while line := file.readline(RECORD_BYTES_MAX + 1):
                digest.update(line)
                count += 1
                size += len(line)
                if len(line) > RECORD_BYTES_MAX:
                    raise InvalidArgumentError(
                        f"{label}: line {count} is longer than a record's {RECORD_BYTES_MAX} bytes"
                    )
    except OSError as error:
        raise InvalidArgumentError(f"{label}: {error.strerror}") from error
    if not count:
        raise InvalidArgumentError(f"{label} is empty: there is nothing to write")
    return Source(path, label, count, size, digest.hexdigest())
