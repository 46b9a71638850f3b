"""The decisions of a balancer over several rounds: the moves, and the changed assignments. Pure."""

from collections import deque
from collections.abc import Collection, Sequence
from typing import NamedTuple

from .assignments import AssignmentTable
from .balance_plan import BalanceLimits, StreamMove, plan_moves
from .load_report import LoadReport

_PENDING_ROUNDS = 3
"""Rounds within which a move that no report shows yet counts as made."""


class RoundDecision(NamedTuple):
    """The result of one round: the changed assignments, and the moves that they contain."""

    table: AssignmentTable
    moves: list[StreamMove]


class BalanceRounds:
    """Decides round by round, and remembers the moves that the reports may not show yet."""

    def __init__(self, limits: BalanceLimits) -> None:
        self._limits = limits
        self._round = 0
        self._pending: deque[tuple[int, StreamMove]] = deque()

    def decide(
        self,
        reports: Sequence[LoadReport],
        table: AssignmentTable,
        *,
        members: Collection[str],
        accepting: Collection[str],
    ) -> RoundDecision:
        """Return the decision of the next round.

        ``members`` are the addresses of the registered proxies of the region, ``accepting`` those
        that take streams. The moves count as made only after ``ordered``.
        """
        self._round += 1
        while self._pending and self._pending[0][0] <= self._round - _PENDING_ROUNDS:
            self._pending.popleft()
        on_their_way = [
            stream.key
            for report in reports
            for stream in report.hot
            if table.moved.get(stream.key, report.address) in accepting
            and table.moved.get(stream.key, report.address) != report.address
        ]
        moves = plan_moves(
            reports,
            self._limits,
            accepting=accepting,
            pinned=dict.fromkeys([*table.pinned, *on_their_way]),
            pending=[move for _, move in self._pending],
        )
        changed = table.with_moves(
            {move.key: move.target for move in moves},
            members=members,
            hot={stream.key for report in reports for stream in report.hot},
            evictions_max=self._limits.moves_max,
        )
        made = [move for move in moves if changed.moved.get(move.key) == move.target]
        return RoundDecision(changed, made)

    def ordered(self, moves: Sequence[StreamMove]) -> None:
        """Note that the moves of the last round were written."""
        self._pending.extend((self._round, move) for move in moves)

    def forget(self) -> None:
        """Forget the moves, when another process has decided meanwhile."""
        self._pending.clear()
