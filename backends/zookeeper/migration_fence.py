"""What this store keeps beside its users' nodes, below ``<chroot>/.rhumbline``.

- The node itself: the state of the gate (see ``..gate``).
- ``gate-<epoch>``: every write checks in its own transaction that it exists. Who closes the store
  deletes it, and so no write that was begun before can happen after; a server that lost its data
  has none, so writes and versions of the old life never match the new one.
- ``guard-00`` .. ``guard-0f``: a znode's version begins at 0 again when it was deleted and made
  again, and ZooKeeper compares nothing else. So every creation also writes the guard that its path
  hashes to; compare-and-set reads that guard, then the node's czxid, and checks in the transaction
  that the guard has not moved: then the node is still the one that was meant.
"""

from collections.abc import Callable
from zlib import crc32

from ...core.protocol.errors import BadVersionError, NodeExistsError, NoNodeError
from ..migration_fence import FENCE_PATH, FenceState, decode_fence
from .client import ANY_VERSION, Multi, MultiFailed, Request, Requests, ZooKeeperConnection

GUARDS = 16
NAME = FENCE_PATH[1:]


class ZooKeeperFence:
    """The epoch of the store, and the checks that writes carry."""

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
        """The node that every write checks."""
        return f"{self._home}/gate-{self.state.epoch}"

    def guard(self, path: str) -> str:
        """The guard of a path (which is a full one, with the chroot)."""
        return f"{self._home}/guard-{crc32(path.encode()) % GUARDS:02x}"

    async def read_or_create(self, deadline: float) -> int:
        """Reads the gate, and makes what is missing in a new store; its znode version.

        Raises CorruptionError when the node holds something else, MetadataUnavailableError.
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

    async def refresh(self, deadline: float) -> bool:
        """Read the fence again; True if it has changed. Raises StoreFencedError."""
        before = self.state
        await self.read_or_create(deadline)
        self.state.check_open()
        return self.state != before

    async def condition(self, allowed_fence: FenceState | None, deadline: float) -> Request:
        """What a write checks: that the gate is open, or is this closed one."""
        if allowed_fence is None:
            return self._requests.check(self.path, ANY_VERSION)
        version = await self.read_or_create(deadline)
        self.state.check(allowed_fence)
        return self._requests.check(self._home, version)

    async def swap(self, old: FenceState, new: FenceState, deadline: float) -> bool:
        """Replaces the gate if it is ``old``. When it returns, no write that began before and
        checked ``old`` can happen any more."""
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
