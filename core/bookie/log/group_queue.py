"""The commit groups that wait for the disk, and which of them is written next.

If one ledger gets far more than the others, an add to another ledger would wait for all the bytes
of that ledger that arrived before it. So the large ledgers of a group are set aside
(group_split.py), and groups of small and of large ledgers are written in turn. An add to a small
ledger then waits for about one large group, which is limited to ``CONTENDED_BYTES_MAX``.

A ledger stays large until nothing of it is set aside, which keeps the order of its records. A group
with an urgent state record, such as a fence, is written after everything that arrived before it.
"""

from collections import deque

from .commit_group import CommitGroup
from .group_split import split_group

CONTENDED_BYTES_MAX = 1 << 20
"""Size at which a group is closed while adds of large ledgers are set aside."""


class GroupQueue:
    """The closed groups of one write log, in order of arrival, and the large ledgers in them."""

    def __init__(self) -> None:
        self.bytes = 0
        self._large_turns = 0  # number of groups set aside that are written next
        self._closed: deque[CommitGroup] = deque()
        self._large: deque[CommitGroup] = deque()
        self._waiting: dict[int, int] = {}  # ledger id -> number of groups set aside with it

    def __bool__(self) -> bool:
        """True if a group waits."""
        return bool(self._closed or self._large)

    @property
    def is_contended(self) -> bool:
        """True while adds of large ledgers are set aside."""
        return bool(self._large)

    @property
    def needs_group(self) -> bool:
        """True if the open group should be closed before the next ``take``."""
        return not self._closed and not self._large_turns

    def append(self, group: CommitGroup) -> None:
        """Adds a group that is closed for appends, and not empty."""
        self._closed.append(group)
        self.bytes += group.body_bytes

    def put_back(self, group: CommitGroup) -> None:
        """Puts back the group that ``take`` returned last."""
        self._closed.appendleft(group)
        self.bytes += group.body_bytes

    def take(self) -> CommitGroup:
        """Remove and return the group that is written next."""
        group = None if self._large_turns else self._take_small()
        if group is None:
            group = self._take_large()
        self.bytes -= group.body_bytes
        return group

    def take_all(self) -> list[CommitGroup]:
        """Remove and return all groups: those of a ledger are in order of arrival."""
        groups = [*self._large, *self._closed]
        self._large.clear()
        self._closed.clear()
        self._waiting.clear()
        self.bytes = self._large_turns = 0
        return groups

    def _take_small(self) -> CommitGroup | None:
        """Remove and return the next group of small ledgers, None if there is none."""
        while self._closed:
            group = self._closed[0]
            if self._large and group.has_urgent_state:
                break
            parts = split_group(group, self._waiting)
            self._closed.popleft()  # only now: if the division fails, the group can be refused
            if parts is not None:
                group, second = parts
                self._set_aside(second)
            if group.count:
                self._large_turns = min(len(self._large), 0 if self._closed else 1)
                return group
        self._large_turns = len(self._large)  # nothing small waits
        return None

    def _set_aside(self, group: CommitGroup) -> None:
        self._large.append(group)
        for ledger_id in _ledger_ids(group):
            self._waiting[ledger_id] = self._waiting.get(ledger_id, 0) + 1

    def _take_large(self) -> CommitGroup:
        self._large_turns -= 1
        group = self._large.popleft()
        for ledger_id in _ledger_ids(group):
            self._waiting[ledger_id] -= 1
            if not self._waiting[ledger_id]:
                del self._waiting[ledger_id]
        return group


def _ledger_ids(group: CommitGroup) -> set[int]:
    return {ledger.ledger_id for ledger, _, _, _, _ in group.adds}
