"""Draws the 99th percentile of appends over time as SVG, on a logarithmic axis."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby

_WIDTH, _HEIGHT = 960, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 20, 56, 46
_COLOURS = ("#c0392b", "#1f6fb2")
_TICKS_MS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000)


@dataclass(frozen=True, slots=True)
class _Axes:
    """The scales that convert seconds and milliseconds to coordinates."""

    seconds: int
    low_ms: float
    high_ms: float

    def x(self, second: float) -> float:
        """Return the coordinate of a moment."""
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * second / self.seconds

    def y(self, ms: float) -> float:
        """Return the coordinate of a latency."""
        share = math.log(max(ms, self.low_ms) / self.low_ms)
        height = _HEIGHT - _TOP - _BOTTOM
        return _HEIGHT - _BOTTOM - height * share / math.log(self.high_ms / self.low_ms)


def plot(
    title: str, lines: Sequence[tuple[str, Sequence[float]]], *, marked_from: int, mark: str
) -> str:
    """Return an SVG document. Each line has a label and a value in ms for each second.

    0 is a second without a value, which leaves a gap. The seconds from ``marked_from`` on are
    shaded and labelled ``mark``.
    """
    values = [value for _, line in lines for value in line if value > 0] or [1.0]
    low = max((tick for tick in _TICKS_MS if tick <= min(values)), default=min(values))
    high = min((tick for tick in _TICKS_MS if tick >= max(values)), default=max(values))
    axes = _Axes(max(len(line) for _, line in lines), low, max(high, 2 * low))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'width="{_WIDTH}" height="{_HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        f'<rect x="{axes.x(marked_from):.1f}" y="{_TOP}" fill="#f7e3df" '
        f'width="{axes.x(axes.seconds) - axes.x(marked_from):.1f}" '
        f'height="{_HEIGHT - _TOP - _BOTTOM}"/>',
        f'<text x="{_LEFT}" y="22" font-size="16">{escape(title)}</text>',
        f'<text x="{axes.x(marked_from) + 6:.1f}" y="{_HEIGHT - _BOTTOM - 8}">'
        f"{escape(mark)}</text>",
        *_ticks(axes),
    ]
    for number, (label, line) in enumerate(lines):
        parts += _curve(axes, number, label, line)
    return "\n".join([*parts, "</svg>\n"])


def _ticks(axes: _Axes) -> Iterator[str]:
    for ms in _TICKS_MS:
        if axes.low_ms <= ms <= axes.high_ms:
            y = axes.y(ms)
            ends = f'x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"'
            yield f'<line {ends} stroke="#cccccc"/>'
            yield f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{ms:,} ms</text>'
    step = next(step for step in (1, 2, 5, 10, 30, 60, 600) if axes.seconds / step <= 14)
    for second in range(0, axes.seconds + 1, step):
        x, y = axes.x(second), _HEIGHT - _BOTTOM + 18
        yield f'<text x="{x:.1f}" y="{y}" text-anchor="middle">{second} s</text>'


def _curve(axes: _Axes, number: int, label: str, line: Sequence[float]) -> Iterator[str]:
    colour = _COLOURS[number % len(_COLOURS)]
    for has_value, part in groupby(enumerate(line), key=lambda point: point[1] > 0):
        if has_value:
            points = " ".join(f"{axes.x(s + 0.5):.1f},{axes.y(ms):.1f}" for s, ms in part)
            yield f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'
    left = _LEFT + number * 430
    yield f'<rect x="{left}" y="34" width="18" height="4" fill="{colour}"/>'
    yield f'<text x="{left + 26}" y="41">{escape(label)}</text>'
