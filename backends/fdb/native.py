"""FoundationDB's official Python bindings; no other module imports them.

They require FoundationDB's client library (libfdb_c) for API version 730. It is found where the
dynamic linker finds it, or in the folder that RHUMBLINE_FDB_HOME names. The bindings' network
thread belongs to the process and does not survive a fork.
"""

import os
from pathlib import Path
from typing import NamedTuple

import fdb

from ...core.protocol.errors import ConfigurationError, MetadataUnavailableError
from .bindings import FdbTransaction
from .errors import describe, tls_hint
from .library import load_library

API_VERSION = 730

WATCHES_MAX = 100_000
"""Limit of concurrent watches of this process; FoundationDB's default is a tenth of it.

Each watched path needs one watch. Beyond the limit, setting a watch is retried until one is free.
"""

_CERTIFICATE = "FDB_TLS_CERTIFICATE_FILE"
_DEFAULT_CERTIFICATE = Path("/etc/foundationdb/cert.pem")
_DEFAULT_CLUSTER_FILES = (Path("fdb.cluster"), Path("/etc/foundationdb/fdb.cluster"))


class TlsFiles(NamedTuple):
    """The files of this process for TLS; None where FoundationDB's environment variables decide."""

    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None


class _Network:
    """The bindings' network, of which a process has one; TLS is set before it starts."""

    def __init__(self) -> None:
        self._tls: TlsFiles | None = None
        self._is_started = False

    def prepare(self, tls: TlsFiles) -> None:
        """Set the files for TLS, once. Raises ConfigurationError if it is too late for them."""
        if tls in (TlsFiles(), self._tls):
            return
        if self._tls is not None:
            raise ConfigurationError(
                "a process has one set of TLS files for FoundationDB, and a store was opened with "
                f"others: {_names(self._tls)}"
            )
        if self._is_started or _has_network_thread():
            raise ConfigurationError(
                "FoundationDB's network was started without the TLS files of this store: open a "
                "store with tls_ca, tls_cert and tls_key before any other in the process, or set "
                "FDB_TLS_CA_FILE, FDB_TLS_CERTIFICATE_FILE and FDB_TLS_KEY_FILE"
            )
        if tls.ca is not None:
            fdb.options.set_tls_ca_path(str(tls.ca))
        if tls.cert is not None and tls.key is not None:
            fdb.options.set_tls_cert_path(str(tls.cert))
            fdb.options.set_tls_key_path(str(tls.key))
        self._tls = tls

    def started(self) -> None:
        """Record that a database was opened, which starts the network."""
        self._is_started = True

    @property
    def has_certificate(self) -> bool:
        """True if this process can prove its identity to servers with TLS."""
        if self._tls is not None and self._tls.cert is not None:
            return True
        return _CERTIFICATE in os.environ or _DEFAULT_CERTIFICATE.exists()


_NETWORK = _Network()


class NativeBindings:
    """An open database of the real bindings, for one store handle.

    The bindings keep one database per cluster file; options set here apply to all its handles.
    """

    def __init__(self, cluster_file: Path | None, tls: TlsFiles) -> None:
        load_library()
        self._cluster_file = cluster_file
        try:
            fdb.api_version(API_VERSION)
            _NETWORK.prepare(tls)
            self._database = fdb.open(None if cluster_file is None else str(cluster_file))
            _NETWORK.started()
            self._database.options.set_max_watches(WATCHES_MAX)
        except ConfigurationError:
            raise
        except Exception as error:  # the bindings raise plain Exception for a missing library
            raise ConfigurationError(
                f"FoundationDB's client library cannot be used: {describe(error)}"
            ) from error
        self.error: type[Exception] = fdb.FDBError

    @property
    def hint(self) -> str:
        """A possible reason why the cluster never responded: a disagreement about TLS."""
        default = os.environ.get("FDB_CLUSTER_FILE")
        files = [Path(default)] if default else list(_DEFAULT_CLUSTER_FILES)
        for file in files if self._cluster_file is None else [self._cluster_file]:
            try:
                cluster = file.read_text(errors="replace")
            except OSError:
                continue
            return tls_hint(cluster, has_certificate=_NETWORK.has_certificate)
        return ""

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
                    raise MetadataUnavailableError(describe(final) + self.hint) from error

    def transaction(self) -> FdbTransaction:
        """Return a new transaction."""
        transaction: FdbTransaction = self._database.create_transaction()
        return transaction

    def first_at_or_after(self, key: bytes) -> object:
        """Return a key selector."""
        selector: object = fdb.KeySelector.first_greater_or_equal(key)
        return selector


def _has_network_thread() -> bool:
    """Return whether other code of this process has started the bindings' network."""
    return getattr(getattr(fdb, "impl", None), "_network_thread", None) is not None


def _names(tls: TlsFiles) -> str:
    return ", ".join(str(file) for file in tls if file is not None)
