"""The secrets of namespaces in a file, and the passwords of new ledgers, derived from them."""

import os
from collections.abc import Mapping
from pathlib import Path

from ..core.protocol.errors import ConfigurationError, InvalidArgumentError
from ..core.protocol.ledger_metadata import NAMESPACE_KEY
from ..security.ledger_passwords import ledger_password, parse_ledger_secrets
from ..security.secret_files import warn_if_readable


class LedgerSecrets:
    """The file ``security.ledger_secrets``, which is read again when it changes."""

    def __init__(self, file: str) -> None:
        """Without a ``file`` all passwords are empty. Raises ConfigurationError."""
        self._file = file
        self._secrets: Mapping[str, str] = {}
        self._stamp: tuple[int, int, int] | None = None
        self._read()

    def password_of(self, ledger_id: int, custom: Mapping[str, bytes]) -> bytes:
        """Return the password of a new ledger with this custom metadata.

        It is empty if the file has no secret of the ledger's namespace. Raises ConfigurationError
        if the file cannot be read: a ledger without its password would be unprotected.
        """
        self._read()
        secret = self._secrets.get(custom.get(NAMESPACE_KEY, b"").decode())
        return b"" if secret is None else ledger_password(secret, ledger_id)

    def _read(self) -> None:
        if not self._file:
            return
        try:
            found = os.stat(self._file)
            stamp = (found.st_ino, found.st_size, found.st_mtime_ns)
            if stamp != self._stamp:
                text = Path(self._file).read_text(encoding="utf-8")
                self._secrets, self._stamp = parse_ledger_secrets(text), stamp
                warn_if_readable(self._file)
        except (OSError, UnicodeDecodeError, InvalidArgumentError) as error:
            raise ConfigurationError(f"security.ledger_secrets: {self._file}: {error}") from error
