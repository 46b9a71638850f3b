"""A file system of its own in memory, which can be full. Needs root."""

import shutil
import subprocess
from pathlib import Path

from ....core.protocol.errors import ConfigurationError

_CHUNK = bytes(1 << 16)


class SmallDisk:
    """A tmpfs at a directory, until ``close``."""

    def __init__(self, directory: Path, size_bytes: int) -> None:
        directory.mkdir()
        self.directory = directory
        command = ["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", str(directory)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ConfigurationError(f"no file system can be mounted here: {done.stderr.strip()}")
        self.filler = directory / "core-dump-of-another-program"

    def fill(self, left_bytes: int) -> None:
        """Let another program write a file until only ``left_bytes`` are free."""
        with self.filler.open("ab", buffering=0) as file:
            while (room := self.free_bytes() - left_bytes) > 0:
                file.write(_CHUNK[:room])

    def free_bytes(self) -> int:
        """Return the free space."""
        return shutil.disk_usage(self.directory).free

    def remove_file(self) -> None:
        """Delete the file of the other program."""
        self.filler.unlink()

    def close(self) -> None:
        """Unmount it. Safe to repeat."""
        subprocess.run(["umount", "-l", str(self.directory)], capture_output=True, check=False)
