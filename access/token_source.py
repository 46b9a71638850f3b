"""The token that this process presents, from a string or a file."""

import os
from pathlib import Path

from ..core.protocol.errors import ConfigurationError
from ..security.secret_files import warn_if_readable


class TokenSource:
    """A token. A file is read again when it changes. The token is never part of a message."""

    def __init__(self, token: str = "", *, file: str = "") -> None:
        """Raises ConfigurationError if the file cannot be read."""
        self._file = file
        self._token = token
        self._stamp: tuple[int, int, int] | None = None
        if file:
            self.current()

    def current(self) -> str:
        """Return the token. Raises ConfigurationError if its file cannot be read."""
        if self._file:
            try:
                found = os.stat(self._file)
                stamp = (found.st_ino, found.st_size, found.st_mtime_ns)
                if stamp != self._stamp:
                    self._token = Path(self._file).read_text(encoding="utf-8").strip()
                    self._stamp = stamp
                    warn_if_readable(self._file)
            except (OSError, UnicodeDecodeError) as error:
                raise ConfigurationError(f"token file {self._file}: {error}") from error
        return self._token


def token_source(token: str | None, file: str = "") -> TokenSource | None:
    """Return the source of a given token or of a file's; None if there is neither."""
    if token or file:
        return TokenSource(token or "", file="" if token else file)
    return None
