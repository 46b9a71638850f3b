"""Pure functions that assign records to partitions, and partitions to group members."""

from collections.abc import Sequence
from typing import Protocol

from crc32c import crc32c

from ...protocol.errors import InvalidArgumentError

PARTITIONS_MAX = 10_000


def check_partition_count(count: int) -> int:
    """Return ``count`` if it is a valid number of partitions. Raises InvalidArgumentError."""
    if type(count) is not int or not 1 <= count <= PARTITIONS_MAX:
        raise InvalidArgumentError(
            f"partition count {count!r} is not between 1 and {PARTITIONS_MAX}"
        )
    return count


class Partitioner(Protocol):
    """Chooses a partition for each record."""

    def choose(self, key: bytes | None, count: int) -> int:
        """Return a partition from 0 to ``count`` - 1."""
        ...


class RoundRobin:
    """Assigns records to the partitions in turn, regardless of their keys."""

    def __init__(self) -> None:
        self._last = -1

    def choose(self, key: bytes | None, count: int) -> int:
        """Choose a partition, see Partitioner."""
        self._last = (self._last + 1) % count
        return self._last


class ByKey:
    """Assigns records by a hash of the key, the same in every process; keyless ones in turn.

    The assignment is that of linear hashing (rule STR-38): when a topic grows, a key either keeps
    its partition or moves to one of the new ones.
    """

    def __init__(self, first_count: int | None = None) -> None:
        """``first_count`` is the number of partitions with which the topic was created.

        None: the topic has not grown.
        """
        self._first_count = None if first_count is None else check_partition_count(first_count)
        self._keyless = RoundRobin()

    def choose(self, key: bytes | None, count: int) -> int:
        """Choose a partition, see Partitioner."""
        if key is None:
            return self._keyless.choose(key, count)
        return partition_of_key(key, count, self._first_count or count)


def partition_of_key(key: bytes, count: int, first_count: int) -> int:
    """Return the partition of ``key`` in a topic that was created with ``first_count`` partitions.

    Let n be ``first_count``, doubled as often as it stays at most ``count``. The partition is the
    CRC32C of the key modulo 2n if that partition exists, else modulo n. Each growth by one
    partition therefore splits one partition in two, and leaves the keys of all others alone.
    """
    doubled = first_count
    while 2 * doubled <= count:
        doubled *= 2
    number = crc32c(key)
    wanted = number % (2 * doubled)
    return wanted if wanted < count else number % doubled


def assign_partitions(count: int, members: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Assign partitions 0 to ``count`` - 1 to members, independent of the order of ``members``.

    The shares of two members differ by at most one. Each partition prefers the members in an order
    of its own, so that few partitions move needlessly when a member joins or leaves.
    """
    shares: dict[str, list[int]] = {member: [] for member in sorted(members)}
    if not shares:
        return {}
    least, more = divmod(count, len(shares))
    for partition in range(count):
        candidates = [m for m in shares if len(shares[m]) < least + (1 if more else 0)]
        chosen = max(candidates, key=lambda m: (crc32c(f"{partition}/{m}".encode()), m))
        shares[chosen].append(partition)
        if more and len(shares[chosen]) > least:
            more -= 1
    return {member: tuple(partitions) for member, partitions in shares.items()}
