"""What this store keeps beside its users' nodes, below ``<chroot>/.rhumbline``.

- The node itself: JSON with the store's epoch and, when the store was replaced, its successor.
- ``gate-<epoch>``: every write checks in its own transaction that it exists. Who fences the store
  deletes it, and so no write that was begun before can happen after; a server that lost its data
  has none, so writes and versions of the old life never match the new one.
- ``guard-00`` .. ``guard-0f``: a znode's version begins at 0 again when it was deleted and made
  again, and ZooKeeper compares nothing else. So every creation also writes the guard that its path
  hashes to; compare-and-set reads that guard, then the node's czxid, and checks in the transaction
  that the guard has not moved: then the node is still the one that was meant.
"""

import json
from collections.abc import Callable
from zlib import crc32

from ...core.protocol.errors import (
    CorruptionError,
    MetadataUnavailableError,
    NodeExistsError,
    NoNodeError,
    StoreFencedError,
)
from .client import ANY_VERSION, Connection, Multi, MultiFailed, Requests

GUARDS = 16
NAME = ".rhumbline"


class Gate:
    """The epoch of the store, and the checks that writes carry."""

    def __init__(
        self, connection: Connection, requests: Requests, chroot: str, new_epoch: Callable[[], str]
    ) -> None:
        self._connection = connection
        self._requests = requests
        self._chroot = chroot
        self._home = f"{chroot}/{NAME}"
        self._new_epoch = new_epoch
        self.epoch = ""
        self.successor: str | None = None

    @property
    def path(self) -> str:
        """The node that every write checks."""
        return f"{self._home}/gate-{self.epoch}"

    def guard(self, path: str) -> str:
        """The guard of a path (which is a full one, with the chroot)."""
        return f"{self._home}/guard-{crc32(path.encode()) % GUARDS:02x}"

    async def enter(self, deadline: float) -> None:
        """Reads the epoch, and makes what is missing in a new store.

        Raises CorruptionError when the node holds something else, MetadataUnavailableError.
        """
        while True:
            try:
                _, (data, _) = await self._connection.read(
                    self._requests.sync(self._home), self._requests.get(self._home),
                    deadline=deadline,
                )  # fmt: skip
            except NoNodeError:
                await self._make(deadline)
                continue
            try:
                state = json.loads(data)
                self.epoch, self.successor = str(state["epoch"]), state.get("successor")
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise CorruptionError(f"{self._home} in ZooKeeper is not ours: {error}") from error
            return

    async def check_open(self, deadline: float) -> None:
        """Looks again, after a write found no gate. Raises StoreFencedError if that is why."""
        await self.enter(deadline)
        if self.successor is not None:
            raise StoreFencedError(f"writes go to {self.successor}")

    async def fence(self, successor: str | None, deadline: float) -> None:
        """Closes the store for writes in favour of ``successor``, or with None opens it again.

        When it returns, no write that began before can happen any more. Safe to repeat.
        """
        await self.enter(deadline)
        if self.successor == successor:
            return
        state = json.dumps({"epoch": self.epoch, "successor": successor}).encode()
        operations = [self._requests.put(self._home, state, ANY_VERSION)]
        if self.successor is None:
            operations.append(self._requests.delete(self.path, ANY_VERSION))
        elif successor is None:
            operations.append(self._requests.create(self.path, b""))
        try:
            await self._connection.write(Multi(operations), deadline=deadline)
        except MultiFailed as failure:
            raise MetadataUnavailableError(f"somebody else fences: {failure.error}") from failure
        self.successor = successor

    async def _make(self, deadline: float) -> None:
        create = self._requests.create
        above = ""
        for part in self._chroot.split("/")[1:]:
            above += f"/{part}"
            try:
                await self._connection.write(Multi([create(above, b"")]), deadline=deadline)
            except MultiFailed as failure:
                if not isinstance(failure.error, NodeExistsError):
                    raise failure.error from failure
        epoch = self._new_epoch()
        state = json.dumps({"epoch": epoch, "successor": None}).encode()
        operations = [create(self._home, state), create(f"{self._home}/gate-{epoch}", b"")]
        operations += [create(f"{self._home}/guard-{number:02x}", b"") for number in range(GUARDS)]
        try:
            await self._connection.write(Multi(operations), deadline=deadline)
        except MultiFailed as failure:
            if not isinstance(failure.error, NodeExistsError):
                raise failure.error from failure
