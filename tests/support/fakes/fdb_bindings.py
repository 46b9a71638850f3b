"""A fake of the FoundationDB bindings over ``fdb_model``, with the calls that Rhumbline uses.

Tests on it show the behaviour of Rhumbline, not that of FoundationDB.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from rhumbline.backends.fdb import native
from rhumbline.tests.support.fakes.fdb_model import ModelCluster, ModelError, ModelTransaction


class FakeFdbModule:
    """A replacement of the module ``fdb`` with one cluster, which is the model."""

    FDBError = ModelError
    KeySelector = SimpleNamespace(first_greater_or_equal=lambda key: key)

    def __init__(self, cluster: ModelCluster) -> None:
        self.cluster = cluster
        self.opened: list[str | None] = []
        self.max_watches = 0
        self.calls: list[str] = []
        """Options of the network, and openings of databases, in order."""
        self.options = SimpleNamespace(
            set_tls_ca_path=lambda path: self.calls.append(f"ca {path}"),
            set_tls_cert_path=lambda path: self.calls.append(f"cert {path}"),
            set_tls_key_path=lambda path: self.calls.append(f"key {path}"),
        )
        self.directory = SimpleNamespace(create_or_open=self._create_or_open)

    def api_version(self, version: int) -> None:
        """Check the API version, as the bindings do."""
        assert version == 730

    def open(self, file: str | None) -> Any:  # noqa: ANN401 - as the bindings' own
        """Return a database of the cluster, whatever the file."""
        self.opened.append(file)
        self.calls.append("open")
        return SimpleNamespace(
            create_transaction=self.cluster.transaction,
            options=SimpleNamespace(set_max_watches=self._set_max_watches),
        )

    def _set_max_watches(self, count: int) -> None:
        self.max_watches = count

    def _create_or_open(self, transaction: ModelTransaction, names: tuple[str, ...]) -> Any:  # noqa: ANN401
        key = "/".join(("dir", *names)).encode()
        transaction.get(key).wait()
        transaction.set(key, b"")
        return SimpleNamespace(key=lambda: key)


@contextmanager
def fake_fdb() -> Iterator[FakeFdbModule]:
    """Make every ``fdb:`` URI that this process opens meanwhile use one model."""
    module = FakeFdbModule(ModelCluster())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "fdb", module)
        patch.setattr(native, "_NETWORK", native._Network())
        yield module
