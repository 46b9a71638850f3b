"""The grants of one client of a bookie, as permissions to use ledgers (rule SEC-28)."""

from collections.abc import Callable

from ..core.bookie.permissions.ledger_owners import LedgerOwner
from ..core.bookie.permissions.ledger_uses import LedgerUse
from ..core.protocol.errors import RhumblineError
from ..security.caller import Caller
from ..security.grants import CLUSTER, Action, stream_resource
from .access_control import AccessControl

ACTIONS = {
    LedgerUse.APPEND: (Action.APPEND,),
    LedgerUse.READ: (Action.READ,),
    LedgerUse.FENCE: (Action.APPEND, Action.READ),
}
"""The actions on the stream of a ledger, all of which a use of the ledger needs."""


class LedgerAccess:
    """The permissions of one client. Implements LedgerPermissions."""

    def __init__(self, access: AccessControl, caller: Caller) -> None:
        self._access = access
        self._caller = caller

    @property
    def client(self) -> str:
        """See LedgerPermissions."""
        return str(self._caller.principal)

    @property
    def is_current(self) -> bool:
        """See LedgerPermissions."""
        return self._access.is_current

    def refusal(self, use: LedgerUse, owner: LedgerOwner) -> RhumblineError | None:
        """See LedgerPermissions. A ledger that belongs to no stream is a part of the cluster."""
        resource = stream_resource(*owner) if all(owner) else CLUSTER
        try:
            for action in ACTIONS[use]:
                self._access.check(self._caller, (action,), resource)
        except RhumblineError as error:
            return error
        return None

    def on_change(self, listener: Callable[[], None]) -> None:
        """See LedgerPermissions."""
        self._access.on_change(listener)

    def forget(self, listener: Callable[[], None]) -> None:
        """See LedgerPermissions."""
        self._access.forget(listener)
