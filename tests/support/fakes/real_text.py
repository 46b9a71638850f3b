"""Real text of any length, from source files, licences and logs that exist on most machines."""

import sys
import sysconfig
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

_FOLDERS = ("/usr/share/common-licenses", "/usr/share/doc", "/var/log")


def lines(size: int) -> Iterator[bytes]:
    """Yield lines of about ``size`` bytes in total, repeating the files as often as needed."""
    left = size
    for path in cycle(_files()):
        for line in path.read_bytes().splitlines(keepends=True):
            yield line
            left -= len(line)
            if left <= 0:
                return


def _files() -> list[Path]:
    found = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    for folder in _FOLDERS:
        found += sorted(path for path in Path(folder).glob("**/*") if _is_text(path))
    assert found, f"no text was found on this machine ({sys.platform})"
    return found


def _is_text(path: Path) -> bool:
    try:
        if not path.is_file() or path.suffix in (".gz", ".xz"):
            return False
        with path.open("rb") as file:
            head = file.read(4096)
    except OSError:
        return False
    return bool(head) and b"\0" not in head
