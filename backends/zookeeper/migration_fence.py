"""The migration fence and the guards of a ZooKeeper store, below ``<chroot>/.rhumbline``.

- The node ``.rhumbline`` itself holds the state of the fence (see ``..migration_fence``).
- ``gate-<epoch>``: every write checks in its own transaction that this node exists. Closing the
  store deletes it; no write that began earlier can take effect afterwards. A server that lost its
  data does not have the node, so writes and versions of the earlier content never match.
- ``guard-00`` .. ``guard-0f``: ZooKeeper compares only the version of a znode, which restarts at 0
  when the node is deleted and created again. Therefore every creation also writes the guard to
  which its path hashes. A compare-and-set reads that guard and then the node's czxid, and checks in
  its transaction that the guard is unchanged: the node is then still the same one.
"""

from collections.abc import Callable
from zlib import crc32

from ...core.protocol.errors import (
    BadVersionError,
    MetadataUnavailableError,
    NodeExistsError,
    NoNodeError,
)
from ..migration_fence import FENCE_PATH, FenceState, decode_fence
from .client import ANY_VERSION, Multi, MultiFailed, Request, Requests, ZooKeeperConnection

GUARDS = 16
NAME = FENCE_PATH[1:]


class ZooKeeperFence:
    """The fence as this process last read it, and the checks that all writes contain."""

    def __init__(
        self,
        connection: ZooKeeperConnection,
        requests: Requests,
        chroot: str,
        new_epoch: Callable[[], str],
    ) -> None:
        self._connection = connection
        self._requests = requests
        self._chroot = chroot
        self._home = f"{chroot}/{NAME}"
        self._new_epoch = new_epoch
        self.state = FenceState("", "")

    @property
    def path(self) -> str:
        """The path of the node that every write checks."""
        return f"{self._home}/gate-{self.state.epoch}"

    def guard(self, path: str) -> str:
        """Return the guard of a path; the path includes the chroot."""
        return f"{self._home}/guard-{crc32(path.encode()) % GUARDS:02x}"

    async def read_or_create(self, deadline: float) -> int:
        """Read the fence, or create the nodes of a new store; return the fence's znode version.

        Raises CorruptionError if the node is malformed, and MetadataUnavailableError.
        """
        while True:
            try:
                _, (data, stat) = await self._connection.read(
                    self._requests.sync(self._home), self._requests.get(self._home),
                    deadline=deadline,
                )  # fmt: skip
            except NoNodeError:
                await self._create(deadline)
                continue
            self.state = decode_fence(data, f"{self._home} in ZooKeeper")
            version: int = stat.version
            return version

    async def read_stale(self, connection: ZooKeeperConnection, deadline: float) -> None:
        """Read the fence as one server has it. Raises MetadataUnavailableError if it has none.

        Every linearizable read and every write verifies it later.
        """
        request = self._requests.get(self._home)
        (answer,) = await connection.read(request, deadline=deadline, missing_ok=True)
        if answer is None:
            raise MetadataUnavailableError("ZooKeeper: the server that responded has no fence")
        self.state = decode_fence(answer[0], f"{self._home} in ZooKeeper")

    async def refresh(self, deadline: float) -> bool:
        """Read the fence again; True if it has changed. Raises StoreFencedError."""
        before = self.state
        await self.read_or_create(deadline)
        self.state.check_open()
        return self.state != before

    async def condition(self, allowed_fence: FenceState | None, deadline: float) -> Request:
        """Return the check for a write: the fence is open, or is exactly ``allowed_fence``."""
        if allowed_fence is None:
            return self._requests.check(self.path, ANY_VERSION)
        version = await self.read_or_create(deadline)
        self.state.check(allowed_fence)
        return self._requests.check(self._home, version)

    async def swap(self, old: FenceState, new: FenceState, deadline: float) -> bool:
        """Replace the fence if it is ``old``; False if it is not.

        After the return, no write that began earlier and checked ``old`` can take effect.
        """
        version = await self.read_or_create(deadline)
        if self.state != old:
            return False
        operations = [self._requests.put(self._home, new.encode(), version)]
        if old.successor is None:
            operations.append(self._requests.delete(self.path, ANY_VERSION))
        if new.successor is None:
            operations.append(self._requests.create(f"{self._home}/gate-{new.epoch}", b""))
        try:
            await self._connection.write(Multi(operations), deadline=deadline)
        except MultiFailed as failure:
            if not isinstance(failure.error, BadVersionError):
                raise failure.error from failure
            return False
        self.state = new
        return True

    async def _create(self, deadline: float) -> None:
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
        state = FenceState(epoch, tree=epoch).encode()
        operations = [create(self._home, state), create(f"{self._home}/gate-{epoch}", b"")]
        operations += [create(f"{self._home}/guard-{number:02x}", b"") for number in range(GUARDS)]
        try:
            await self._connection.write(Multi(operations), deadline=deadline)
        except MultiFailed as failure:
            if not isinstance(failure.error, NodeExistsError):
                raise failure.error from failure
