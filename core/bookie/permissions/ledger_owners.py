"""The streams to which ledgers belong, read from the metadata of each ledger once."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import NamedTuple

from ...protocol.errors import (
    NoSuchLedgerError,
    RhumblineError,
    TooManyRequestsError,
    UnknownStateError,
)
from ...protocol.ledger_metadata import NAMESPACE_KEY, STREAM_KEY
from ...runtime.tasks import Tasks
from ..ledger_membership import MetadataReader

_OWNERS_MAX = 65_536
_READ_S_MAX = 5.0


class LedgerOwner(NamedTuple):
    """The stream to which a ledger belongs; both are empty if its metadata names none."""

    namespace: str = ""
    stream: str = ""


OnOwner = Callable[[LedgerOwner | RhumblineError], None]


class LedgerOwners:
    """The owners of ledgers, which never change. Each read is shared by all that wait for it."""

    def __init__(self, ledgers: MetadataReader, tasks: Tasks, waiting_count_max: int) -> None:
        self._ledgers = ledgers
        self._tasks = tasks
        self._waiting_count_max = waiting_count_max
        self._waiting_count = 0
        self._waiting: dict[int, list[OnOwner]] = {}
        self._owners: OrderedDict[int, LedgerOwner] = OrderedDict()

    def known(self, ledger_id: int) -> LedgerOwner | None:
        """Return the owner of a ledger if its metadata was read before."""
        found = self._owners.get(ledger_id)
        if found is not None:
            self._owners.move_to_end(ledger_id)
        return found

    def find(self, ledger_id: int, on_owner: OnOwner) -> None:
        """Call back once, later, with the owner or the reason for which it is not known.

        Calls for one ledger get their results in their order. Raises TooManyRequestsError if too
        many wait.
        """
        if self._waiting_count >= self._waiting_count_max:
            raise TooManyRequestsError(
                f"{self._waiting_count} requests wait for the owners of ledgers "
                f"(at most {self._waiting_count_max})"
            )
        self._waiting_count += 1
        waiting = self._waiting.get(ledger_id)
        if waiting is not None:
            waiting.append(on_owner)
            return
        self._waiting[ledger_id] = [on_owner]
        self._tasks.spawn(self._find(ledger_id), f"find the owner of ledger {ledger_id}")

    async def _find(self, ledger_id: int) -> None:
        found: LedgerOwner | RhumblineError = UnknownStateError("the bookie is shutting down")
        try:
            found = await self._read(ledger_id)
        finally:
            if isinstance(found, LedgerOwner):
                self._owners[ledger_id] = found
                if len(self._owners) > _OWNERS_MAX:
                    self._owners.popitem(last=False)
            waiting = self._waiting.pop(ledger_id)
            self._waiting_count -= len(waiting)
            for on_owner in waiting:
                on_owner(found)

    async def _read(self, ledger_id: int) -> LedgerOwner | RhumblineError:
        try:
            async with asyncio.timeout(_READ_S_MAX):
                metadata, _ = await self._ledgers.read(ledger_id)
        except NoSuchLedgerError as error:
            return error
        except (RhumblineError, TimeoutError):
            return UnknownStateError(f"the metadata of ledger {ledger_id} could not be read")
        return owner_of(metadata.custom)


def owner_of(custom: Mapping[str, bytes]) -> LedgerOwner:
    """Return the stream that the custom metadata of a ledger names."""
    try:
        return LedgerOwner(custom[NAMESPACE_KEY].decode(), custom[STREAM_KEY].decode())
    except (KeyError, UnicodeDecodeError):
        return LedgerOwner()
