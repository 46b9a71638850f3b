"""The official bindings: the one module that imports them.

They need FoundationDB's own client library (libfdb_c) on the machine, for API version 730. Their
network thread belongs to the process and does not survive a fork.
"""

from pathlib import Path

import fdb

from ...core.protocol.errors import ConfigurationError
from .client import FdbTransaction

API_VERSION = 730


class NativeBindings:
    """An open database of the real bindings."""

    def __init__(self, cluster_file: Path | None) -> None:
        try:
            fdb.api_version(API_VERSION)
        except Exception as error:  # the bindings raise plain Exception for a missing library
            raise ConfigurationError(f"FoundationDB's client cannot be used: {error}") from error
        self.error: type[Exception] = fdb.FDBError
        self._database = fdb.open(None if cluster_file is None else str(cluster_file))

    def directory(self, names: tuple[str, ...]) -> bytes:
        """The prefix of a directory, made if it is not there. Blocks."""
        prefix: bytes = fdb.directory.create_or_open(self._database, names).key()
        return prefix

    def transaction(self) -> FdbTransaction:
        """A new transaction."""
        transaction: FdbTransaction = self._database.create_transaction()
        return transaction

    def first_at_or_after(self, key: bytes) -> object:
        """A key selector."""
        selector: object = fdb.KeySelector.first_greater_or_equal(key)
        return selector
