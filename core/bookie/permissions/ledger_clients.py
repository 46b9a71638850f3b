"""The clients of a bookie: each connection gets the guard that its client needs."""

from collections.abc import Callable

from ...runtime.tasks import Tasks
from ..ledger_membership import MetadataReader
from ..server.requests import RequestConnection
from .frame_guard import FrameGuard, GuardedConnection, LedgerPermissions
from .ledger_owners import LedgerOwners

PermissionsOf = Callable[[RequestConnection], LedgerPermissions | None]
"""Returns the permissions of the client of a connection; None if it may use all ledgers."""


class LedgerClients:
    """Makes the guards of connections. Without ``permissions_of`` no connection needs one."""

    def __init__(self, ledgers: MetadataReader, tasks: Tasks, waiting_count_max: int) -> None:
        self.permissions_of: PermissionsOf | None = None
        self._owners = LedgerOwners(ledgers, tasks, waiting_count_max)

    def guard_of(self, connection: GuardedConnection) -> FrameGuard | None:
        """Return the guard of a new connection; None if its client may use all ledgers."""
        if self.permissions_of is None:
            return None
        permissions = self.permissions_of(connection)
        return None if permissions is None else FrameGuard(permissions, self._owners, connection)
