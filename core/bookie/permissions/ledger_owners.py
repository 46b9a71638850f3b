"""The streams to which ledgers belong, read from the metadata of each ledger once."""

import asyncio
from collections import Counter, OrderedDict
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


class _Waiting(NamedTuple):
    """A request that waits for the owner of its ledger."""

    client: str
    on_owner: OnOwner


class LedgerOwners:
    """The owners of ledgers, which never change. Each read is shared by all that wait for it.

    A client may take a place for waiting while it has fewer places than are free, so that one
    client leaves half of them to others.
    """

    def __init__(self, ledgers: MetadataReader, tasks: Tasks, waiting_count_max: int) -> None:
        self._ledgers = ledgers
        self._tasks = tasks
        self._waiting_count_max = waiting_count_max
        self._waiting_count = 0
        self._count_by_client: Counter[str] = Counter()
        self._waiting: dict[int, list[_Waiting]] = {}
        self._owners: OrderedDict[int, LedgerOwner] = OrderedDict()

    def known(self, ledger_id: int) -> LedgerOwner | None:
        """Return the owner of a ledger if its metadata was read before."""
        found = self._owners.get(ledger_id)
        if found is not None:
            self._owners.move_to_end(ledger_id)
        return found

    def find(self, ledger_id: int, client: str, on_owner: OnOwner) -> None:
        """Call back once, later, with the owner or the reason for which it is not known.

        Calls for one ledger get their results in their order. Raises TooManyRequestsError if too
        many requests of ``client`` wait.
        """
        count = self._count_by_client[client]
        if count >= self._waiting_count_max - self._waiting_count:
            raise TooManyRequestsError(
                f"{count} requests of this client and {self._waiting_count - count} others wait "
                f"for the owners of ledgers (at most {self._waiting_count_max} in all)"
            )
        self._waiting_count += 1
        self._count_by_client[client] = count + 1
        waiting = self._waiting.setdefault(ledger_id, [])
        waiting.append(_Waiting(client, on_owner))
        if len(waiting) > 1:
            return
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
            for client, _ in waiting:
                self._release(client)
            for _, on_owner in waiting:
                on_owner(found)

    def _release(self, client: str) -> None:
        self._count_by_client[client] -= 1
        if not self._count_by_client[client]:
            del self._count_by_client[client]

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
