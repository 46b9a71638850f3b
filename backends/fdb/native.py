"""FoundationDB's official Python bindings; no other module imports them.

They require FoundationDB's client library (libfdb_c) for API version 730. Their network thread
belongs to the process and does not survive a fork.
"""

from pathlib import Path

import fdb

from ...core.protocol.errors import ConfigurationError, MetadataUnavailableError
from .client import FdbTransaction

API_VERSION = 730

WATCHES_MAX = 100_000
"""Limit of concurrent watches of this process; FoundationDB's default is a tenth of it.

Each watched path needs one watch. Beyond the limit, setting a watch is retried until one is free.
"""


class NativeBindings:
    """An open database of the real bindings, for one store handle.

    The bindings keep one database per cluster file; options set here apply to all its handles.
    """

    def __init__(self, cluster_file: Path | None) -> None:
        try:
            fdb.api_version(API_VERSION)
            self._database = fdb.open(None if cluster_file is None else str(cluster_file))
            self._database.options.set_max_watches(WATCHES_MAX)
        except Exception as error:  # the bindings raise plain Exception for a missing library
            raise ConfigurationError(
                f"FoundationDB's client library cannot be used: {error}"
            ) from error
        self.error: type[Exception] = fdb.FDBError

    def directory(self, names: tuple[str, ...], timeout_ms: int) -> bytes:
        """Return the prefix of a directory and create it if needed; blocks up to ``timeout_ms``.

        The creation is idempotent and is therefore retried after an unknown outcome too. Raises
        MetadataUnavailableError.
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
        """Return a new transaction."""
        transaction: FdbTransaction = self._database.create_transaction()
        return transaction

    def first_at_or_after(self, key: bytes) -> object:
        """Return a key selector."""
        selector: object = fdb.KeySelector.first_greater_or_equal(key)
        return selector
