"""Decides which streams move between the write proxies of a region (rules PRX-40, PRX-41). Pure.

The goal is that no proxy carries much more than the mean load of its region. A proxy sheds streams
only when it exceeds the mean by the tolerance, and until it is within half of it, so that small
changes move nothing. The hottest stream that fits moves first, because it needs the fewest moves. A
stream stays for a minimum time at each proxy, and a round has a limited number of moves.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum, unique
from typing import NamedTuple

from .load_report import BusyStream, LoadReport

EXCESS_MIN = 20.0
"""Load above the mean below which a proxy sheds nothing: record sets per second."""

STRAINED_CPU_PERCENT = 80
STRAINED_QUEUE_MS = 50
"""A proxy at or above one of these limits takes no streams, and sheds at half the tolerance."""

_SMALLEST_MOVE = 0.01
"""Share of the mean load below which a stream is not worth a move."""

_GAIN_MIN = 0.1
"""A stream too hot to fit moves only if the higher of both loads falls by this share."""


@unique
class MoveReason(StrEnum):
    """The reason why a stream moves."""

    LOAD = "load"
    """Its proxy carries more than the mean and the tolerance."""
    STRAIN = "strain"
    """Its proxy exceeds the mean by half the tolerance, and its CPU or its event loop is busy."""


class BalanceLimits(NamedTuple):
    """The settings of the decision; see ``ProxyConfig``."""

    tolerance_percent: int
    stay_ms: int
    moves_max: int


class StreamMove(NamedTuple):
    """A stream that should move, with the loads that were the reason, before the move."""

    key: str
    source: str
    target: str
    """Addresses of the present owner and of the next one."""
    load: float
    source_load: float
    target_load: float
    mean_load: float
    reason: MoveReason


@dataclass(slots=True)
class _Proxy:
    """A proxy during the planning: its load with the moves so far."""

    address: str
    load: float
    is_strained: bool
    takes_streams: bool
    movable: list[BusyStream]


def plan_moves(
    reports: Sequence[LoadReport],
    limits: BalanceLimits,
    *,
    accepting: Collection[str],
    pinned: Collection[str] = (),
    pending: Sequence[StreamMove] = (),
) -> list[StreamMove]:
    """Return the moves of one round, in the order in which they should be made.

    ``reports`` are those that are believed, of one region. ``accepting`` are the addresses that
    take streams; ``pinned`` the keys of streams that stay. ``pending`` are moves of recent rounds;
    one that the reports do not show yet counts as made. A proxy without a report neither sheds
    nor takes.
    """
    proxies = _proxies(reports, limits, accepting, pinned, pending)
    taking = [proxy for proxy in proxies if proxy.takes_streams]
    present = [proxy for proxy in proxies if proxy.address in accepting]
    if len(present) < 2 or not taking:
        return []
    mean = sum(proxy.load for proxy in proxies) / len(present)
    begins = mean + max(mean * limits.tolerance_percent / 100, EXCESS_MIN)
    ends = mean + max(mean * limits.tolerance_percent / 200, EXCESS_MIN / 2)
    moves: list[StreamMove] = []
    shedding = {
        proxy.address: (proxy, MoveReason.LOAD if proxy.load > begins else MoveReason.STRAIN)
        for proxy in proxies
        if proxy.load > (ends if proxy.is_strained else begins)
    }
    while shedding and len(moves) < limits.moves_max:
        source, reason = max(shedding.values(), key=lambda one: (one[0].load, one[0].address))
        others = [proxy for proxy in taking if proxy is not source]
        target = min(others, key=lambda proxy: (proxy.load, proxy.address), default=None)
        stream = None
        if target is not None and source.load > ends:
            stream = _choose(source, target, ends, mean)
        if stream is None or target is None:
            del shedding[source.address]
            continue
        loads = source.load, target.load, mean
        moves.append(
            StreamMove(stream.key, source.address, target.address, stream.load, *loads, reason)
        )
        source.movable.remove(stream)
        source.load -= stream.load
        target.load += stream.load
    return moves


def imbalance(loads: Iterable[float]) -> float:
    """Return the highest load divided by the mean; 1 if there is no load."""
    found = list(loads)
    total = sum(found)
    return max(found) * len(found) / total if total else 1.0


def _proxies(
    reports: Sequence[LoadReport],
    limits: BalanceLimits,
    accepting: Collection[str],
    pinned: Collection[str],
    pending: Sequence[StreamMove],
) -> list[_Proxy]:
    listed = {stream.key: report.address for report in reports for stream in report.hot}
    unseen: dict[str, float] = {}
    fixed = dict.fromkeys(pinned)
    for move in pending:
        fixed[move.key] = None
        at = listed.get(move.key)
        if at == move.source:
            unseen[move.source] = unseen.get(move.source, 0.0) - move.load
        if at != move.target:
            unseen[move.target] = unseen.get(move.target, 0.0) + move.load
    return [
        _Proxy(
            report.address,
            max(0.0, report.load + unseen.get(report.address, 0.0)),
            is_strained := _is_strained(report),
            takes_streams=report.address in accepting and not is_strained,
            movable=[
                stream
                for stream in report.hot
                if stream.held_ms >= limits.stay_ms and stream.key not in fixed
            ],
        )
        for report in sorted(reports, key=lambda report: report.address)
    ]


def _is_strained(report: LoadReport) -> bool:
    return report.cpu_percent >= STRAINED_CPU_PERCENT or report.queue_ms >= STRAINED_QUEUE_MS


def _choose(source: _Proxy, target: _Proxy, ends: float, mean: float) -> BusyStream | None:
    """Return the hottest stream that the target can take without shedding it again, or None.

    If none fits, a stream moves that lowers the higher load of both proxies enough.
    """

    def higher_after(stream: BusyStream) -> float:
        return max(source.load - stream.load, target.load + stream.load)

    worthwhile = [stream for stream in source.movable if stream.load >= mean * _SMALLEST_MOVE]
    fitting = [stream for stream in worthwhile if target.load + stream.load <= ends]
    if fitting:
        return max(fitting, key=lambda stream: (stream.load, stream.key))
    best = min(worthwhile, key=lambda stream: (higher_after(stream), stream.key), default=None)
    if best is not None and higher_after(best) <= source.load * (1 - _GAIN_MIN):
        return best
    return None
