"""Files with secrets (private keys, tokens, passwords) that more users can read than need to."""

import os
import stat

from ..core.runtime.event_log import EventLog

_LOG = EventLog(__name__)


def mode_of_readable(file: str) -> str | None:
    """Return the mode of a file that other users can read, such as "0644"; None if none can.

    The group of a file may read it if that is how this process reads it: the file belongs to
    another user, as files that Kubernetes mounts for a group do. Raises OSError.
    """
    found = os.stat(file)
    user = os.geteuid()
    needs_group = user not in (0, found.st_uid)
    forbidden = stat.S_IROTH if needs_group else stat.S_IROTH | stat.S_IRGRP
    return f"{stat.S_IMODE(found.st_mode):04o}" if found.st_mode & forbidden else None


def warn_if_readable(file: str) -> None:
    """Log a warning if other users can read a file with a secret, which was just read."""
    try:
        mode = mode_of_readable(file)
    except FileNotFoundError:
        return  # it is being replaced, and is read and checked again then
    if mode is not None:
        _LOG.warning("secret file readable", file=file, mode=mode)
