"""Draws the 99th percentile of appends over time as SVG, on a logarithmic axis."""

import math
from collections.abc import Iterator, Sequence
from html import escape

_WIDTH, _HEIGHT = 960, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 20, 56, 46
_COLOURS = ("#c0392b", "#1f6fb2")
_TICKS_MS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000)


def plot(
    title: str, lines: Sequence[tuple[str, Sequence[float]]], *, marked_from: int, mark: str
) -> str:
    """Return an SVG document. Each line has a label and a value in ms for each second.

    The seconds from ``marked_from`` on are shaded and labelled ``mark``.
    """
    values = [max(value, 0.1) for _, line in lines for value in line]
    seconds = max(len(line) for _, line in lines)
    low, high = _bounds(min(values), max(values))

    def x(second: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * second / seconds

    def y(ms: float) -> float:
        share = math.log(max(ms, low) / low) / math.log(high / low)
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)

    def axes() -> Iterator[str]:
        yield f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>'
        yield (
            f'<rect x="{x(marked_from):.1f}" y="{_TOP}" width="{x(seconds) - x(marked_from):.1f}" '
            f'height="{_HEIGHT - _TOP - _BOTTOM}" fill="#f7e3df"/>'
        )
        yield f'<text x="{_LEFT}" y="22" font-size="16">{escape(title)}</text>'
        yield f'<text x="{x(marked_from) + 6:.1f}" y="{_TOP + 16}">{escape(mark)}</text>'
        for ms in _TICKS_MS:
            if low <= ms <= high:
                yield (
                    f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y(ms):.1f}" y2="{y(ms):.1f}" '
                    'stroke="#cccccc"/>'
                )
                label = f"{_LEFT - 8}"
                yield f'<text x="{label}" y="{y(ms) + 4:.1f}" text-anchor="end">{ms:,} ms</text>'
        step = next(step for step in (1, 2, 5, 10, 30, 60, 600) if seconds / step <= 14)
        for second in range(0, seconds + 1, step):
            yield (
                f'<text x="{x(second):.1f}" y="{_HEIGHT - _BOTTOM + 18}" '
                f'text-anchor="middle">{second} s</text>'
            )

    def curves() -> Iterator[str]:
        for number, (label, line) in enumerate(lines):
            colour = _COLOURS[number % len(_COLOURS)]
            points = " ".join(f"{x(s + 0.5):.1f},{y(ms):.1f}" for s, ms in enumerate(line))
            yield f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'
            left = _LEFT + number * 430
            yield f'<rect x="{left}" y="34" width="18" height="4" fill="{colour}"/>'
            yield f'<text x="{left + 26}" y="41">{escape(label)}</text>'

    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'width="{_WIDTH}" height="{_HEIGHT}" font-family="sans-serif" font-size="12">'
    )
    return "\n".join([head, *axes(), *curves(), "</svg>\n"])


def _bounds(least: float, most: float) -> tuple[float, float]:
    """Return the ticks around the values."""
    low = max((tick for tick in _TICKS_MS if tick <= least), default=_TICKS_MS[0])
    high = min((tick for tick in _TICKS_MS if tick >= most), default=_TICKS_MS[-1])
    return min(low, least), max(high, 2 * low)
