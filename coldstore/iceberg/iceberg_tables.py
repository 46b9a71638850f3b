"""Creates and changes the Iceberg tables of archived streams.

Each change is one commit, which replaces the table's metadata in the catalogue by compare-and-set.
The properties that say which segments the table has change in the same commit, so a crash leaves a
table either as it was or with the whole segment, and a repeat finds out which (rule ARC-41).
"""

from collections.abc import Callable, Container, Sequence
from contextlib import suppress
from typing import NamedTuple, TypeVar

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.expressions.parser import parse
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BinaryType,
    FixedType,
    IcebergType,
    IntegerType,
    LongType,
    MapType,
    NestedField,
    StringType,
    TimestamptzType,
)

from ...core.protocol.dlsn import STREAM_ID_CHARACTERS
from ...core.protocol.errors import (
    CorruptionError,
    RhumblineError,
    UnavailableError,
    UnknownOutcomeError,
)
from ..archive.archive_folder import ArchiveFolder, last_lssn_of_file
from ..archive.manifest import Manifest
from ..archive.schema import BOUNDED, COLUMNS, SORT_ORDER
from ..stores.blocking_calls import BlockingCalls
from .avro_decoder import decode_within_bounds
from .catalog_uri import CATALOG_NAME, catalog_properties, cold_location, storage_properties
from .compare_table import ExpectedTable, table_differences
from .part_footers import PartFooter
from .registration import TableState

T = TypeVar("T")

_TYPES: dict[str, IcebergType] = {
    "int64": LongType(),
    "int32": IntegerType(),
    "timestamp[us, tz=UTC]": TimestamptzType(),
    "fixed_size_binary[16]": FixedType(16),
    "binary": BinaryType(),
}
_HEADERS = MapType(13, StringType(), 14, BinaryType(), value_required=True)

_FIRST, _LAST, _LINK = "rhumbline.first-lssn", "rhumbline.last-lssn", "rhumbline.last-link"
_IDENTITY, _RELOCATION = "rhumbline.stream-identity", "rhumbline.last-relocation"

EXPIRED_MIN = 20
"""Snapshots are removed in groups of at least this size."""


class TableChange(NamedTuple):
    """The result of a call that changes a table."""

    state: TableState
    """The state of the table now."""
    was_made: bool
    """False if another process had changed the table, so that the call changed nothing."""


class TableSummary(NamedTuple):
    """A table of the catalogue that holds an archived stream."""

    table: str
    namespace: str
    stream: str
    stream_id: str
    state: TableState
    snapshots: int
    records: int
    files: int
    metadata_location: str

    @property
    def folder(self) -> ArchiveFolder:
        """The archive."""
        return ArchiveFolder(self.namespace, self.stream, self.stream_id)


class IcebergTables:
    """The tables of one catalogue over one cold store. Calls wait for each other.

    Every method raises UnavailableError if the catalogue or the cold store fails, and
    UnknownOutcomeError if a commit may have succeeded.
    """

    def __init__(self, uri: str, cold_uri: str, *, timeout_ms: int = 60_000) -> None:
        """Raises ConfigurationError for a bad URI; does not contact the catalogue."""
        decode_within_bounds()
        self._properties = {**storage_properties(cold_uri), **catalog_properties(uri)}
        self._location = cold_location(cold_uri)
        self._calls = BlockingCalls("Iceberg catalogue", threads=1, timeout_ms=timeout_ms)
        self._catalog: Catalog | None = None

    async def state(self, folder: ArchiveFolder) -> TableState | None:
        """Return the segments that the table of an archive has, or None if there is no table."""
        return await self._calls.read(lambda: _mapped(lambda: self._state(folder)))

    async def register(
        self, manifests: Sequence[Manifest], parts: Sequence[PartFooter], state: TableState | None
    ) -> TableChange:
        """Add the records of a segment to a table in ``state``; None: create it first.

        If the segment shares a file with others, ``manifests`` are those of all of them, and files
        that the table has of them are replaced.
        """
        return await self._calls.write(
            lambda: _mapped(lambda: self._register(manifests, parts, state))
        )

    async def file_keys(self, folder: ArchiveFolder) -> set[str]:
        """Return the keys of the files that the table of an archive has."""
        return await self._calls.read(lambda: _mapped(lambda: self._file_keys(folder)))

    async def replace(
        self,
        folder: ArchiveFolder,
        removed: set[str],
        parts: Sequence[PartFooter],
        relocation: int,
        state: TableState,
    ) -> TableChange:
        """Replace files of a table in ``state`` by those to which the same records were moved."""
        return await self._calls.write(
            lambda: _mapped(lambda: self._replace(folder, removed, parts, relocation, state))
        )

    async def remove(self, folder: ArchiveFolder, below: int, state: TableState) -> TableChange:
        """Remove the records of the segments before ``below`` from a table in ``state``."""
        return await self._calls.write(lambda: _mapped(lambda: self._remove(folder, below, state)))

    async def expire_snapshots(self, folder: ArchiveFolder, before_ms: int) -> int:
        """Remove the snapshots that were made before ``before_ms``, and return their number.

        The current snapshot, and those that branches and tags name, are kept. Nothing is removed
        until there are ``EXPIRED_MIN`` such snapshots, because each removal is a commit.
        """
        return await self._calls.write(lambda: _mapped(lambda: self._expire(folder, before_ms)))

    async def differences(
        self, folder: ArchiveFolder, state: TableState | None, parts: Sequence[PartFooter],
        first_lssn: int,
    ) -> list[str]:  # fmt: skip
        """Return what is wrong in a table that was in ``state``, whose files must be ``parts``.

        Files of segments before ``first_lssn`` may be left. Nothing is wrong if there is no table.
        """
        return await self._calls.read(
            lambda: _mapped(lambda: self._differences(folder, state, parts, first_lssn))
        )

    async def summaries(self, namespace: str) -> list[TableSummary]:
        """Return the tables of a namespace's archives, sorted by name."""
        return await self._calls.read(lambda: _mapped(lambda: self._summaries(namespace)))

    async def close(self) -> None:
        """Close without waiting for a call in progress."""
        await self._calls.close()

    # --- in the thread --------------------------------------------------------------------------

    def _opened(self) -> Catalog:
        if self._catalog is None:
            self._catalog = load_catalog(CATALOG_NAME, **self._properties)
        return self._catalog

    def _state(self, folder: ArchiveFolder) -> TableState | None:
        table = self._find(folder)
        return None if table is None else _state_of(table)

    def _find(self, folder: ArchiveFolder) -> Table | None:
        """Return the table of an archive (rule ARC-42)."""
        for name in _names_of(folder):
            try:
                table = self._opened().load_table((folder.namespace, name))
            except NoSuchTableError:
                continue
            if table.properties.get(_IDENTITY, "").startswith(folder.stream_id):
                return table
        return None

    def _create(self, manifest: Manifest) -> Table:
        folder = manifest.folder
        catalog = self._opened()
        catalog.create_namespace_if_not_exists((folder.namespace,))
        properties = {
            "format-version": "2",
            **self._fixed_properties(folder),
            _IDENTITY: manifest.stream_identity,
            _FIRST: str(manifest.lssn),
            _LAST: str(manifest.lssn - 1),
            _LINK: "",
        }
        for name in _names_of(folder):
            with suppress(TableAlreadyExistsError):  # maybe of another stream that had the name
                return catalog.create_table(
                    (folder.namespace, name),
                    _schema(),
                    location=self._records_location(folder),
                    partition_spec=UNPARTITIONED_PARTITION_SPEC,
                    sort_order=_sort_order(),
                    properties=properties,
                )
            if self._find(folder) is not None:
                break
        raise UnavailableError(f"another process creates the table of {'/'.join(folder)}")

    def _fixed_properties(self, folder: ArchiveFolder) -> dict[str, str]:
        """Return the properties of a table that never change."""
        return {
            "write.metadata.path": self._metadata_location(folder),
            "write.metadata.previous-versions-max": "100",
            "write.metadata.delete-after-commit.enabled": "true",
            "commit.manifest-merge.enabled": "true",
            "commit.retry.num-retries": "0",  # the registrar retries after it read the state again
            "gc.enabled": "false",  # the files belong to the archive
            "write.metadata.metrics.default": "none",
            **{f"write.metadata.metrics.column.{name}": "full" for name in BOUNDED},
            "write.metadata.metrics.column.key": "truncate(16)",
            "rhumbline.namespace": folder.namespace,
            "rhumbline.stream": folder.stream,
        }

    def _records_location(self, folder: ArchiveFolder) -> str:
        return f"{self._location}/{folder.records}"

    def _metadata_location(self, folder: ArchiveFolder) -> str:
        return f"{self._location}/{folder.namespace}/{folder.stream}/_iceberg/{folder.stream_id}"

    def _register(
        self, manifests: Sequence[Manifest], parts: Sequence[PartFooter], state: TableState | None
    ) -> TableChange:
        first, last = manifests[0], manifests[-1]
        table = self._find(first.folder)
        if table is None and state is None:
            table = self._create(first)
            state = _state_of(table)
        if table is None:
            raise CorruptionError(f"the table of {'/'.join(first.folder)} was dropped")
        if (found := _state_of(table)) != state:
            return TableChange(found, was_made=False)
        has_records = state.first_lssn <= state.last_lssn
        changed = {
            _FIRST: str(state.first_lssn if has_records else first.lssn),
            _LAST: str(last.lssn),
            _LINK: last.link,
        }
        summary = {
            _FIRST: str(first.lssn),
            _LAST: str(last.lssn),
            "rhumbline.content-digest": last.content_digest,
            "rhumbline.manifest": last.key,
        }
        held = self._files_of(table, first.lssn) if first.lssn <= state.last_lssn else []
        self._change_files(table, held, parts, changed, summary)
        return TableChange(_state_of(table), was_made=True)

    def _files_of(self, table: Table, first_lssn: int) -> list[DataFile]:
        """Return the files of segments from ``first_lssn`` on."""
        return [one.file for one in table.scan(f"lssn >= {first_lssn}").plan_files()]

    def _change_files(
        self,
        table: Table,
        removed: Sequence[DataFile],
        added: Sequence[PartFooter],
        properties: dict[str, str],
        summary: dict[str, str],
    ) -> None:
        """Remove and add files and set properties in one commit."""
        files = [self._data_file(table, part) for part in added]
        with table.transaction() as transaction:
            transaction.set_properties(properties)
            update = transaction.update_snapshot(summary)
            with update.overwrite() if removed else update.merge_append() as change:
                for file in removed:
                    change.delete_data_file(file)
                for file in files:
                    change.append_data_file(file)

    def _file_keys(self, folder: ArchiveFolder) -> set[str]:
        table = self._find(folder)
        if table is None:
            raise CorruptionError(f"the table of {'/'.join(folder)} was dropped")
        return {self._key_of(one.file) for one in table.scan().plan_files()}

    def _key_of(self, file: DataFile) -> str:
        return file.file_path.removeprefix(f"{self._location}/")

    def _replace(
        self,
        folder: ArchiveFolder,
        removed: set[str],
        parts: Sequence[PartFooter],
        relocation: int,
        state: TableState,
    ) -> TableChange:
        table = self._find(folder)
        if table is None:
            raise CorruptionError(f"the table of {'/'.join(folder)} was dropped")
        if (found := _state_of(table)) != state:
            return TableChange(found, was_made=False)
        changed = {_RELOCATION: str(relocation)}
        if removed or parts:
            files = [one.file for one in table.scan().plan_files()]
            old = [file for file in files if self._key_of(file) in removed]
            self._change_files(table, old, parts, changed, changed)
        else:
            with table.transaction() as transaction:
                transaction.set_properties(changed)
        return TableChange(_state_of(table), was_made=True)

    def _remove(self, folder: ArchiveFolder, below: int, state: TableState) -> TableChange:
        table = self._find(folder)
        if table is None:
            raise CorruptionError(f"the table of {'/'.join(folder)} was dropped")
        if (found := _state_of(table)) != state:
            return TableChange(found, was_made=False)
        removed = {
            "rhumbline.removed-first-lssn": str(state.first_lssn),
            "rhumbline.removed-last-lssn": str(below - 1),
        }
        with table.transaction() as transaction:
            transaction.set_properties({_FIRST: str(below)})
            with transaction.update_snapshot(removed).delete() as delete:
                delete.delete_by_predicate(parse(f"lssn < {below}"))
        return TableChange(_state_of(table), was_made=True)

    def _expire(self, folder: ArchiveFolder, before_ms: int) -> int:
        table = self._find(folder)
        if table is None:
            return 0
        named = {one.snapshot_id for one in table.metadata.refs.values()}
        expired = [
            one
            for one in table.snapshots()
            if one.timestamp_ms < before_ms and one.snapshot_id not in named
        ]
        if len(expired) < EXPIRED_MIN:
            return 0
        table.maintenance.expire_snapshots().by_ids([one.snapshot_id for one in expired]).commit()
        kept = _next_to_removed(expired, table.refresh().snapshots(), named)
        needed = {one.manifest_path for near in kept for one in near.manifests(table.io)}
        for snapshot in expired:
            for manifest in snapshot.manifests(table.io):
                if manifest.manifest_path not in needed:
                    needed.add(manifest.manifest_path)  # deleted once
                    table.io.delete(manifest.manifest_path)
            table.io.delete(snapshot.manifest_list)
        return len(expired)

    def _differences(
        self, folder: ArchiveFolder, state: TableState | None, parts: Sequence[PartFooter],
        first_lssn: int,
    ) -> list[str]:  # fmt: skip
        table = self._find(folder)
        if table is None:
            return self._foreign_table(folder)
        if _state_of(table) != state:
            return ["the table has changed"]

        def is_deleted(path: str) -> bool:
            last = last_lssn_of_file(path.rpartition("/")[2])
            return last is not None and last < first_lssn

        expected = ExpectedTable(
            location=self._records_location(folder),
            schema=_schema(),
            sort_order=_sort_order(),
            properties=self._fixed_properties(folder),
            files=[self._data_file(table, part) for part in parts],
            may_have=is_deleted,
        )
        return list(table_differences(table, expected))

    def _foreign_table(self, folder: ArchiveFolder) -> list[str]:
        """Return what is wrong if a table lies where that of the archive belongs."""
        for name in _names_of(folder):
            with suppress(NoSuchTableError):
                table = self._opened().load_table((folder.namespace, name))
                if table.location() == self._records_location(folder):
                    return [f"the property {_IDENTITY} is {table.properties.get(_IDENTITY)!r}"]
        return []

    def _data_file(self, table: Table, part: PartFooter) -> DataFile:
        statistics = data_file_statistics_from_parquet_metadata(
            parquet_metadata=part.footer,
            stats_columns=compute_statistics_plan(table.schema(), table.properties),
            parquet_column_mapping=parquet_path_to_id_mapping(table.schema()),
        )
        return DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=f"{self._location}/{part.key}",
            file_format=FileFormat.PARQUET,
            partition=Record(),
            file_size_in_bytes=part.size_bytes,
            sort_order_id=table.sort_order().order_id,
            spec_id=table.spec().spec_id,
            equality_ids=None,
            key_metadata=None,
            **statistics.to_serialized_dict(),
        )

    def _summaries(self, namespace: str) -> list[TableSummary]:
        catalog = self._opened()
        if not catalog.namespace_exists((namespace,)):
            return []
        tables = [catalog.load_table(name) for name in sorted(catalog.list_tables((namespace,)))]
        return [_summary_of(table) for table in tables if _IDENTITY in table.properties]


def _mapped(call: Callable[[], T]) -> T:
    """Call pyiceberg, whose errors have no common class besides Exception."""
    try:
        return call()
    except RhumblineError:
        raise
    except CommitStateUnknownException as error:
        raise UnknownOutcomeError(f"Iceberg catalogue: {error}") from error
    except CommitFailedException as error:
        raise UnavailableError(f"another process changed the table: {error}") from error
    except Exception as error:
        raise UnavailableError(f"Iceberg catalogue: {type(error).__name__}: {error}") from error


def _names_of(folder: ArchiveFolder) -> tuple[str, str]:
    """Return the names that the table of an archive may have: the second if the first is taken."""
    return folder.stream, f"{folder.stream}_{folder.stream_id}"


def _state_of(table: Table) -> TableState:
    found = table.properties
    try:
        relocation = int(found.get(_RELOCATION, "0"))
        return TableState(int(found[_FIRST]), int(found[_LAST]), found[_LINK], relocation)
    except (KeyError, ValueError) as error:
        raise CorruptionError(
            f"table {'.'.join(table.name())}: the properties {_FIRST}, {_LAST} and {_LINK} do "
            "not name its segments: drop the table, and it will be created again"
        ) from error


def _summary_of(table: Table) -> TableSummary:
    snapshot = table.current_snapshot()
    totals = {} if snapshot is None or snapshot.summary is None else snapshot.summary
    return TableSummary(
        table=".".join(table.name()),
        namespace=table.properties["rhumbline.namespace"],
        stream=table.properties["rhumbline.stream"],
        stream_id=table.properties[_IDENTITY][:STREAM_ID_CHARACTERS],
        state=_state_of(table),
        snapshots=len(table.snapshots()),
        records=int(totals.get("total-records", "0") or 0),
        files=int(totals.get("total-data-files", "0") or 0),
        metadata_location=table.metadata_location,
    )


def _next_to_removed(
    expired: Sequence[Snapshot], kept: Sequence[Snapshot], named: Container[int]
) -> list[Snapshot]:
    """Return kept snapshots which together name every manifest of ``expired`` that is needed.

    The snapshots that name a manifest are connected by parents. So one of them is named by a branch
    or a tag, or is the parent of a removed snapshot, or has a removed parent.
    """
    parents = {one.parent_snapshot_id for one in expired}
    known = {one.snapshot_id for one in kept}
    return [
        one
        for one in kept
        if one.snapshot_id in named
        or one.snapshot_id in parents
        or one.parent_snapshot_id not in known
    ]


def _schema() -> Schema:
    fields = [
        NestedField(
            column.field_id,
            column.name,
            _HEADERS if column.name == "headers" else _TYPES[str(column.kind)],
            required=column.is_required,
            doc=column.description,
        )
        for column in COLUMNS
    ]
    return Schema(*fields)


def _sort_order() -> SortOrder:
    ids = {column.name: column.field_id for column in COLUMNS}
    return SortOrder(
        *(
            SortField(
                source_id=ids[name],
                transform=IdentityTransform(),
                direction=SortDirection.ASC,
                null_order=NullOrder.NULLS_LAST,
            )
            for name in SORT_ORDER
        )
    )
