"""Finds FoundationDB's client library, libfdb_c, before the bindings load it."""

import ctypes
import os
from pathlib import Path

from ...core.protocol.errors import ConfigurationError

HOME = "RHUMBLINE_FDB_HOME"
"""The environment variable that names a folder with FoundationDB's programs and libfdb_c.so."""

LIBRARY = "libfdb_c.so"


def load_library() -> None:
    """Load libfdb_c from the folder that RHUMBLINE_FDB_HOME names, if it is set.

    The bindings load the library by its name afterwards, which the dynamic linker then resolves to
    the loaded one. Raises ConfigurationError.
    """
    home = os.environ.get(HOME)
    if not home:
        return
    path = Path(home) / LIBRARY
    try:
        ctypes.CDLL(str(path.resolve()))
    except OSError as error:
        raise ConfigurationError(f"{HOME} is {home!r}: {error}") from error
