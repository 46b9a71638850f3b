"""Draws the course of simulated balances as SVG: imbalance and moves over time."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from .balance_model import BalanceResult

_WIDTH, _LEFT, _RIGHT, _TOP, _BOTTOM = 960, 50, 80, 98, 40
_CURVES, _BARS, _GAP = 130, 46, 34
_HASHED, _BALANCED, _MOVES, _EVENT = "#c0392b", "#1f6fb2", "#b9c9dc", "#888"


@dataclass(frozen=True, slots=True)
class _Panel:
    """The scales of the part of the picture that shows one simulation."""

    top: float
    seconds: int
    high: float
    moves: int
    """The largest number of moves in a minute."""
    begins: float
    """The imbalance at which a proxy begins to shed streams."""

    def x(self, second: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * second / self.seconds

    def y(self, value: float) -> float:
        return self.top + _CURVES * (1 - (value - 1) / (self.high - 1))

    def bar(self, moves: float) -> float:
        return _BARS * moves / self.moves

    @property
    def base(self) -> float:
        """The coordinate on which the bars stand."""
        return self.top + _CURVES + 8 + _BARS


def plot(title: str, runs: Sequence[tuple[str, BalanceResult]]) -> str:
    """Return an SVG document with one panel for each labelled run."""
    height = _TOP + len(runs) * (_CURVES + 8 + _BARS + _GAP) + _BOTTOM - _GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        f'width="{_WIDTH}" height="{height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
        f'<text x="{_LEFT}" y="22" font-size="16">{escape(title)}</text>',
        f'<text x="{_LEFT}" y="42">Highest load of a proxy, divided by the mean, or by its '
        "hottest stream if that alone is above the mean. Dashed: the tolerance</text>",
        *_legend(),
    ]
    for number, (label, run) in enumerate(runs):
        panel = _panel(_TOP + number * (_CURVES + 8 + _BARS + _GAP), run)
        parts += _draw(panel, label, run, is_last=number == len(runs) - 1)
    return "\n".join([*parts, "</svg>\n"])


def _legend() -> Iterator[str]:
    entries = (
        (_HASHED, "by hashing alone"),
        (_BALANCED, "balanced"),
        (_MOVES, "streams moved in a minute"),
    )
    left = _LEFT
    for colour, label in entries:
        yield f'<rect x="{left}" y="56" width="18" height="6" fill="{colour}"/>'
        yield f'<text x="{left + 24}" y="64">{escape(label)}</text>'
        left += 48 + 7 * len(label)


def _panel(top: float, run: BalanceResult) -> _Panel:
    high = max(*run.avoidable, *run.hashed_avoidable)
    step = 0.5 if high < 4 else 2.0
    return _Panel(
        top,
        run.scenario.seconds,
        math.ceil(high / step) * step,
        max(1, *(count for _, count in _by_minute(run))),
        1 + run.scenario.limits.tolerance_percent / 100,
    )


def _by_minute(run: BalanceResult) -> list[tuple[int, int]]:
    rounds = 60 // run.scenario.round_s
    return [
        (first * run.scenario.round_s, sum(run.moves[first : first + rounds]))
        for first in range(0, len(run.moves), rounds)
    ]


def _draw(panel: _Panel, label: str, run: BalanceResult, *, is_last: bool) -> Iterator[str]:
    yield f'<text x="{_LEFT}" y="{panel.top - 8:.1f}" font-weight="bold">{escape(label)}</text>'
    yield from _ticks(panel, is_last=is_last)
    yield from _events(panel, run)
    width = panel.x(60) - panel.x(0) - 1
    for second, count in _by_minute(run):
        height = panel.bar(count)
        yield (
            f'<rect x="{panel.x(second):.1f}" y="{panel.base - height:.1f}" '
            f'width="{width:.1f}" height="{height:.1f}" fill="{_MOVES}"/>'
        )
    for colour, values in (
        (_HASHED, run.hashed_avoidable),
        (_BALANCED, run.avoidable),
    ):
        points = " ".join(
            f"{panel.x(number * run.scenario.round_s):.1f},{panel.y(value):.1f}"
            for number, value in enumerate(values)
        )
        yield f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>'


def _ticks(panel: _Panel, *, is_last: bool) -> Iterator[str]:
    step = next(step for step in (0.5, 1, 2, 5, 10) if (panel.high - 1) / step <= 5)
    value = 1.0
    while value <= panel.high:
        y = panel.y(value)
        ends = f'x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"'
        yield f'<line {ends} stroke="#e4e4e4"/>'
        yield f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>'
        value += step
    right = _WIDTH - _RIGHT
    y = panel.y(panel.begins)
    yield (
        f'<line x1="{_LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" stroke="{_BALANCED}" '
        'stroke-dasharray="6,4" stroke-opacity="0.6"/>'
    )
    yield (
        f'<line x1="{_LEFT}" x2="{right}" y1="{panel.base:.1f}" y2="{panel.base:.1f}" '
        'stroke="#888"/>'
    )
    top = panel.base - panel.bar(panel.moves)
    yield f'<text x="{right + 8}" y="{top + 8:.1f}">{panel.moves} / min</text>'
    minutes = panel.seconds // 60
    every = next(step for step in (1, 2, 5, 10, 30) if minutes / step <= 14)
    for minute in range(0, minutes + 1, every):
        if is_last:
            x, y = panel.x(60 * minute), panel.base + 18
            yield f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle">{minute} min</text>'


def _events(panel: _Panel, run: BalanceResult) -> Iterator[str]:
    marks = [(second, "shift") for second in run.shifts]
    lost = {begin: 0 for _, begin, _ in run.scenario.lost}
    for _, begin, _ in run.scenario.lost:
        lost[begin] += 1
    marks += [(second, f"{count} lost") for second, count in lost.items()]
    marks += [(begin, "drain") for _, begin, _ in run.scenario.drained]
    for second, name in marks:
        x = panel.x(second)
        yield (
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{panel.top:.1f}" y2="{panel.base:.1f}" '
            f'stroke="{_EVENT}" stroke-dasharray="3,3"/>'
        )
        yield (
            f'<text x="{x + 3:.1f}" y="{panel.top + 10:.1f}" fill="{_EVENT}" '
            f'font-size="10">{escape(name)}</text>'
        )
