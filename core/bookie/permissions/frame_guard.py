"""Serves the frames of one client that may use only some ledgers (rules SEC-28 to SEC-30).

A use of a ledger is decided once for each connection, when its first frame arrives. When the
permissions of clients may have changed, every use that the connection has made is decided again,
and the connection is closed if one of them is no longer allowed. This ends long polls and reads in
progress, and adds that were not acknowledged by then never are.
"""

from collections.abc import Callable
from typing import Protocol

from ...protocol.errors import (
    NoSuchLedgerError,
    RhumblineError,
    TooManyRequestsError,
    UnauthorizedError,
    UnknownStateError,
)
from ..server.requests import RequestConnection
from .ledger_owners import LedgerOwner, LedgerOwners
from .ledger_uses import LedgerUse, Need, need_of, refusal_of

_USES_MAX = 16_384

CLOSED_BY_CHANGE = "permission-ended"
"""The reason for which a connection is closed when a permission of its client has ended."""


class LedgerPermissions(Protocol):
    """The permissions of one client. All calls return at once."""

    @property
    def client(self) -> str:
        """The name of the client, which all its connections share."""
        ...

    @property
    def is_current(self) -> bool:
        """True if decisions can be made, and earlier ones still hold."""
        ...

    def refusal(self, use: LedgerUse, owner: LedgerOwner) -> RhumblineError | None:
        """Return why the client may not use the ledgers of a stream now; None if it may."""
        ...

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` whenever decisions may have changed, until ``forget``."""
        ...

    def forget(self, listener: Callable[[], None]) -> None:
        """Stop calling ``listener``. Safe to repeat."""
        ...


class GuardedConnection(RequestConnection, Protocol):
    """The connection of a client whose frames are checked."""

    def serve_checked(self, frame: bytes) -> None:
        """Serves a frame that was permitted."""
        ...

    def refused(self, use: str, ledger_id: int, error: RhumblineError) -> None:
        """Notes a refusal, for the audit log."""
        ...

    def close(self, reason: str, error: RhumblineError | None = None) -> None:
        """Closes the connection. Safe to repeat."""
        ...


class FrameGuard:
    """The checks of one connection, from its begin until ``close``."""

    def __init__(
        self, permissions: LedgerPermissions, owners: LedgerOwners, connection: GuardedConnection
    ) -> None:
        self.adds: dict[int, None] = {}
        """Ledgers to which adds are permitted without another look."""
        self._permissions = permissions
        self._owners = owners
        self._connection = connection
        self._permitted: dict[Need, LedgerOwner] = {}
        self._has_forgotten = False
        self._is_closed = False
        permissions.on_change(self._recheck)

    def close(self) -> None:
        """Stop checking: the connection is closed. Safe to repeat."""
        self._is_closed = True
        self._permissions.forget(self._recheck)

    @property
    def is_current(self) -> bool:
        """True if the permissions that were given still hold."""
        return self._permissions.is_current

    def begin(self) -> None:
        """Prepare for the frames of a chunk: without current permissions, each is decided anew."""
        if not self.is_current:
            self._forget_uses()

    def admits(self, frame: bytes) -> bool:
        """Return whether a frame may be served now.

        Otherwise it was refused, or it is served as soon as the owner of its ledger is known.
        Raises ProtocolError if it is malformed.
        """
        need = need_of(frame)
        if need is None or need in self._permitted:
            return True
        owner = self._owners.known(need.ledger_id)
        if owner is not None:
            return self._is_permitted(need, frame, owner)
        size = len(frame)
        try:
            self._owners.find(
                need.ledger_id,
                self._permissions.client,
                lambda found: self._continue(need, frame, found),
            )
        except TooManyRequestsError as error:
            self._refuse(need, frame, error)
        else:
            self._connection.add_inflight(size)
        return False

    def _continue(self, need: Need, frame: bytes, found: LedgerOwner | RhumblineError) -> None:
        self._connection.release_inflight(len(frame))
        if self._is_closed:
            return
        if isinstance(found, RhumblineError):
            if isinstance(found, NoSuchLedgerError) and need.use is not LedgerUse.READ:
                found = UnknownStateError(str(found))  # a writer could take it for a proof
            self._refuse(need, frame, found)
        elif self._is_permitted(need, frame, found):
            self._connection.serve_checked(frame)

    def _is_permitted(self, need: Need, frame: bytes, owner: LedgerOwner) -> bool:
        refusal = self._permissions.refusal(need.use, owner)
        if refusal is not None:
            self._refuse(need, frame, refusal)
            return False
        if len(self._permitted) >= _USES_MAX:
            self._forget_uses()
        self._permitted[need] = owner
        if need.use is LedgerUse.APPEND:
            self.adds[need.ledger_id] = None
        return True

    def _refuse(self, need: Need, frame: bytes, error: RhumblineError) -> None:
        if isinstance(error, UnauthorizedError):
            self._connection.refused(need.use.value, need.ledger_id, error)
        self._connection.send(refusal_of(frame, error))

    def _forget_uses(self) -> None:
        """Forget what was permitted. Since it may be in progress, the next change closes."""
        self._has_forgotten = self._has_forgotten or bool(self._permitted)
        self._permitted.clear()
        self.adds.clear()

    def _recheck(self) -> None:
        uses = {(need.use, owner) for need, owner in self._permitted.items()}
        if self._has_forgotten or any(self._permissions.refusal(*one) is not None for one in uses):
            self._connection.close(CLOSED_BY_CHANGE)
