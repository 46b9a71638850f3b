"""Which partition a record goes to, and which member of a group reads which: pure decisions."""

from collections.abc import Sequence
from typing import Protocol

from crc32c import crc32c

from ...protocol.errors import InvalidArgumentError

PARTITIONS_MAX = 10_000


def check_partition_count(count: int) -> int:
    """Returns ``count`` if a topic may have so many partitions. Raises InvalidArgumentError."""
    if type(count) is not int or not 1 <= count <= PARTITIONS_MAX:
        raise InvalidArgumentError(f"{count!r} partitions: a topic has 1 to {PARTITIONS_MAX}")
    return count


class Partitioner(Protocol):
    """Chooses a partition for each record."""

    def choose(self, key: bytes | None, count: int) -> int:
        """0 .. ``count`` - 1."""
        ...


class RoundRobin:
    """Each record to the partition after the last one's, whatever its key."""

    def __init__(self) -> None:
        self._last = -1

    def choose(self, key: bytes | None, count: int) -> int:
        """See Partitioner."""
        self._last = (self._last + 1) % count
        return self._last


class ByKey:
    """Records of one key to one partition, the same in every process; those without in turn."""

    def __init__(self) -> None:
        self._keyless = RoundRobin()

    def choose(self, key: bytes | None, count: int) -> int:
        """See Partitioner."""
        return self._keyless.choose(key, count) if key is None else crc32c(key) % count


def assigned(count: int, members: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Partitions 0 .. ``count`` - 1 shared out: the same for every order of ``members``.

    Nobody has two more than another. Each partition prefers members in an order of its own, so
    that one who comes or goes moves few partitions beside those that must move.
    """
    shares: dict[str, list[int]] = {member: [] for member in sorted(members)}
    if not shares:
        return {}
    least, more = divmod(count, len(shares))
    for partition in range(count):
        open_to = [m for m in shares if len(shares[m]) < least + (1 if more else 0)]
        taker = max(open_to, key=lambda m: (crc32c(f"{partition}/{m}".encode()), m))
        shares[taker].append(partition)
        if more and len(shares[taker]) > least:
            more -= 1
    return {member: tuple(partitions) for member, partitions in shares.items()}
