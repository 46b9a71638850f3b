"""Load reports, assignments and the elected balancer of a region in the metadata store.

::

    /rhumbline/loads/<region>/<member id>    ephemeral: the load report of a write proxy
    /rhumbline/balancers/<region>            ephemeral: member id of the elected balancer
    /rhumbline/assignments/<region>          the streams without their default owner

Proxies without a region use the name ``NONE``, which no region can have.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from ...core.metadata import idempotent_writes
from ...core.protocol.errors import (
    BadVersionError,
    CorruptionError,
    IndeterminateError,
    MetadataUnavailableError,
    NodeExistsError,
    NoNodeError,
)
from ...core.runtime.metadata_store import (
    Check,
    Create,
    MetadataReads,
    MetadataStore,
    Operation,
    Put,
    Session,
    Version,
    Watch,
)
from .assignments import EMPTY, AssignmentTable
from .load_report import LoadReport

LOADS = "/rhumbline/loads"
BALANCERS = "/rhumbline/balancers"
ASSIGNMENTS = "/rhumbline/assignments"

_NO_REGION = "NONE"
_TRIES_MAX = 16
_REPORTS_PER_READ = 100


class StoredTable(NamedTuple):
    """The assignments of a region, and the version of their node; None if it does not exist."""

    table: AssignmentTable
    version: Version | None


class StoredReport(NamedTuple):
    """A report, and the version of its node, which changes each time it is published."""

    report: LoadReport
    version: Version


async def read_reports(store: MetadataReads, region: str) -> list[StoredReport]:
    """Return the published reports of a region. Raises MetadataUnavailableError."""
    folder = _path(LOADS, region)
    try:
        names = await store.children(folder)
    except NoNodeError:
        return []
    found = []
    for first in range(0, len(names), _REPORTS_PER_READ):
        part = names[first : first + _REPORTS_PER_READ]
        values = await store.get_all([f"{folder}/{name}" for name in part])
        for name, value in zip(part, values, strict=True):
            if value is None:
                continue  # the proxy has just left
            try:
                found.append(StoredReport(LoadReport.decode(name, value.data), value.version))
            except CorruptionError:
                continue  # an unreadable report is not believed
    return found


async def read_table(store: MetadataReads, region: str) -> StoredTable:
    """Return the assignments of a region. Raises MetadataUnavailableError, CorruptionError."""
    value = await idempotent_writes.read_if_exists(store, _path(ASSIGNMENTS, region))
    if value is None:
        return StoredTable(EMPTY, None)
    return StoredTable(AssignmentTable.decode(region, value.data), value.version)


async def assignment_regions(store: MetadataReads) -> list[str]:
    """Return the regions that have assignments. Raises MetadataUnavailableError."""
    try:
        names = await store.children(ASSIGNMENTS)
    except NoNodeError:
        return []
    return ["" if name == _NO_REGION else name for name in names]


async def change_table(
    store: MetadataStore, region: str, change: Callable[[AssignmentTable], AssignmentTable]
) -> AssignmentTable:
    """Apply a change to the assignments of a region, and return them.

    ``change`` is called again if another writer came first. Raises MetadataUnavailableError,
    IndeterminateError, and what ``change`` raises.
    """
    for _ in range(_TRIES_MAX):
        stored = await read_table(store, region)
        changed = change(stored.table)
        if changed == stored.table or await write_table(store, region, stored, changed):
            return changed
    raise MetadataUnavailableError(
        f"the assignments of region {region} changed during {_TRIES_MAX} attempts"
    )


async def write_table(
    store: MetadataStore,
    region: str,
    stored: StoredTable,
    changed: AssignmentTable,
    *,
    conditions: tuple[Operation, ...] = (),
) -> bool:
    """Replace the assignments that were read, if the conditions hold.

    Returns False if they do not hold any more, or the table was changed meanwhile. Raises
    MetadataUnavailableError, IndeterminateError.
    """
    path, data = _path(ASSIGNMENTS, region), changed.encode()
    write = Create(path, data) if stored.version is None else Put(path, data, stored.version)
    try:
        await idempotent_writes.transact(store, conditions, write)
    except (NodeExistsError, NoNodeError, BadVersionError):
        return False
    return True


class BalanceNodes:
    """The nodes that one write proxy writes: its report, and the balancer if it is elected."""

    def __init__(self, store: MetadataStore, region: str) -> None:
        self.region = region
        self._store = store
        self._reported: tuple[str, Session] | None = None

    async def publish(self, report: LoadReport, sequence: int, session: Session) -> None:
        """Publish the report for as long as ``session`` lasts.

        Raises SessionLostError, MetadataUnavailableError, IndeterminateError.
        """
        path = f"{_path(LOADS, self.region)}/{report.member_id}"
        data = report.encode(sequence)
        if self._reported == (path, session):
            try:
                await self._store.put(path, data)
            except NoNodeError:
                self._reported = None  # the session has ended; the next one has another path
            return
        try:
            await self._store.create(path, data, ephemeral=session)
        except NodeExistsError:  # an earlier attempt with an unknown outcome
            await self._store.put(path, data)
        self._reported = path, session

    async def elect(self, member_id: str, session: Session) -> Check | None:
        """Return the condition under which this proxy is the balancer; None if another one is.

        Raises SessionLostError, MetadataUnavailableError.
        """
        path = _path(BALANCERS, self.region)
        value = await idempotent_writes.read_if_exists(self._store, path)
        if value is None:
            try:
                _, version = await self._store.create(path, member_id.encode(), ephemeral=session)
            except (NodeExistsError, IndeterminateError):
                return None  # the next round reads it
            return Check(path, version)
        return Check(path, value.version) if value.data == member_id.encode() else None

    def watch_assignments(self, callback: Callable[[], None]) -> Watch:
        """Call back after assignments of any region changed."""
        return self._store.watch(ASSIGNMENTS, callback, prefix=True)

    async def assigned(self) -> dict[str, Mapping[str, str]]:
        """Return the assigned addresses by region and key of the stream.

        Raises MetadataUnavailableError, CorruptionError.
        """
        regions = await assignment_regions(self._store)
        tables = [(region, await read_table(self._store, region)) for region in regions]
        return {region: stored.table.addresses() for region, stored in tables}


def _path(root: str, region: str) -> str:
    return f"{root}/{region or _NO_REGION}"
