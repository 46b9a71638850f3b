"""An archive on disk with a SQLite catalogue beside it, for tests of tables."""

from collections.abc import Callable
from pathlib import Path

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table import Table

from rhumbline.coldstore.iceberg.catalog_uri import CATALOG_NAME, catalog_properties
from rhumbline.coldstore.iceberg.iceberg_tables import IcebergTables
from rhumbline.coldstore.iceberg.registrar import TablePass, TableRegistrar
from rhumbline.coldstore.stores.local import LocalColdStore
from rhumbline.tests.support.fakes.log_world import ManualClock


class TableWorld:
    """Namespace "test" of an archive below ``root``."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.cold = LocalColdStore(root)
        self.uri = f"sqlite://{root.parent}/catalog.db"
        self.tables = IcebergTables(self.uri, self.cold.uri)
        self.clock = ManualClock()

    def registrar(
        self,
        namespace: str = "test",
        *,
        on_pass: Callable[[TablePass], None] | None = None,
        snapshots_kept_ms: int | None = None,
    ) -> TableRegistrar:
        """Return a registrar with no memory of earlier ones."""
        return TableRegistrar(
            self.cold, namespace, self.tables, self.clock, pause_ms=10, on_pass=on_pass,
            snapshots_kept_ms=snapshots_kept_ms,
        )  # fmt: skip

    def catalog(self) -> Catalog:
        """Return another connection to the catalogue."""
        return load_catalog(CATALOG_NAME, **catalog_properties(self.uri))

    def table(self, name: str = "s") -> Table:
        """Return a table as it is now."""
        return self.catalog().load_table(("test", name))

    def snapshots(self, name: str = "s") -> list[tuple[str, str | None]]:
        """Return the operation and the segment of each snapshot."""
        return [
            (str(one.summary.operation.value), one.summary.get("rhumbline.last-lssn"))
            for one in self.table(name).snapshots()
            if one.summary is not None
        ]

    async def close(self) -> None:
        """Close the store and the catalogue."""
        await self.tables.close()
        await self.cold.close()
