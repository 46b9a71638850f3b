"""The input of the demo: lines of a file, of standard input, or of a log file of this host."""

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
    """A file of lines whose count, size and digest are known."""

    path: Path
    label: str
    line_count: int
    size: int
    sha256: str

    def lines(self) -> Iterator[bytes]:
        """Yield the lines with their line ends; joined they are the file."""
        with self.path.open("rb") as file:
            yield from file


def open_source(file: str | None, stdin: BinaryIO, scratch: Path) -> Source:
    """Open a path, "-" for standard input, or None for a log file found on this host.

    Standard input is copied into ``scratch`` first. Raises InvalidArgumentError.
    """
    if file == "-":
        return _scan(_spool(stdin, scratch), "standard input")
    if file is not None:
        return _scan(Path(file), file)
    found = find_log()
    return _scan(found, f"{found} (found on this machine)")


def find_log() -> Path:
    """Find a log file with many lines on this host. Raises InvalidArgumentError if none exists."""
    seen: list[tuple[int, Path]] = []
    for pattern in _LOGS:
        for path in sorted(Path("/").glob(pattern.removeprefix("/"))):
            count = _count_lines(path)
            if count >= _LINES_MIN:
                return path
            if count:
                seen.append((count, path))
    if not seen:
        raise InvalidArgumentError("no log file found on this machine; name one: demo FILE")
    return max(seen)[1]


def _count_lines(path: Path) -> int:
    """Count the lines in the first MiB; 0 if the file is unreadable or not text."""
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
            raise InvalidArgumentError("not enough free space for three copies of standard input")
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
                        f"{label}: line {count} is longer than {RECORD_BYTES_MAX} bytes"
                    )
    except OSError as error:
        raise InvalidArgumentError(f"{label}: {error.strerror}") from error
    if not count:
        raise InvalidArgumentError(f"{label} is empty")
    return Source(path, label, count, size, digest.hexdigest())
