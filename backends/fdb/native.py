"""The official bindings: the one module that imports them.

They need FoundationDB's own client library (libfdb_c) on the machine, for API version 730. Their
network thread belongs to the process and does not survive a fork.
"""

from pathlib import Path

import fdb

from ...core.protocol.errors import ConfigurationError, MetadataUnavailableError
from .client import FdbTransaction

API_VERSION = 730

WATCHES_MAX = 100_000
"""Watches of this process at once (FoundationDB's default is a tenth of it). A path that is watched
is one; beyond the limit watches are tried again and again."""


class NativeBindings:
    """An open database of the real bindings. One of these for each handle; the bindings themselves
    keep one database a cluster file, so what is set on it here is the same for all."""

    def __init__(self, cluster_file: Path | None) -> None:
        try:
            fdb.api_version(API_VERSION)
            self._database = fdb.open(None if cluster_file is None else str(cluster_file))
            self._database.options.set_max_watches(WATCHES_MAX)
        except Exception as error:  # the bindings raise plain Exception for a missing library
            raise ConfigurationError(f"FoundationDB's client cannot be used: {error}") from error
        self.error: type[Exception] = fdb.FDBError

    def directory(self, names: tuple[str, ...], timeout_ms: int) -> bytes:
        """The prefix of a directory, made if it is not there. Blocks for the time-out at most.

        Raises MetadataUnavailableError. To make it again is safe, so an unknown outcome is tried
        again as any other.
        """
        transaction = self._database.create_transaction()
        transaction.options.set_timeout(timeout_ms)
        while True:
            try:
                prefix: bytes = fdb.directory.create_or_open(transaction, names).key()
                transaction.commit().wait()
                return prefix
            except fdb.FDBError as error:
                try:
                    transaction.on_error(error).wait()
                except fdb.FDBError as final:
                    raise MetadataUnavailableError(f"FoundationDB: {final}") from error

    def transaction(self) -> FdbTransaction:
        """A new transaction."""
        transaction: FdbTransaction = self._database.create_transaction()
        return transaction

    def first_at_or_after(self, key: bytes) -> object:
        """A key selector."""
        selector: object = fdb.KeySelector.first_greater_or_equal(key)
        return selector
