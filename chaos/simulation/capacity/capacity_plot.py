"""Draws the results of the capacity model as SVG."""

import math
from collections.abc import Callable, Iterator, Sequence
from html import escape

from .capacity_run import Results

_WIDTH, _HEIGHT = 900, 360
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 30, 70, 50
_COLOURS = ("#c0392b", "#1f6fb2")

Points = Sequence[tuple[float, float]]


def plots(results: Results) -> dict[str, str]:
    """Return the plots by file name."""
    losses = [
        (f"lost {name} ({results[name]['lost_bookies']} bookies)", results[name]["course"])
        for name in ("rack", "region")
    ]
    growth = results["growth"]
    fills = [(f"{name} rebalancing", _ranked(growth[name])) for name in ("before", "after")]
    hours = max((points[-1][0] for _, points in losses if points), default=1.0)
    highest = max(100 * share for name in ("before", "after") for share in growth[name])
    return {
        "capacity-healing.svg": _draw(
            "Healing: share of the lost bytes that is copied again",
            losses,
            ("hours since the loss, logarithmic", 0.05, hours, True),
            ("%", 1.0, 100),
        ),
        "capacity-fill.svg": _draw(
            "Used share of each disk, bookies in ascending order",
            fills,
            ("bookies", 0.0, float(len(growth["before"])), False),
            ("%", highest, 1),
        ),
    }


def _ranked(shares: Sequence[float]) -> Points:
    step = max(1, len(shares) // 300)
    return [
        (float(number), 100 * share)
        for number, share in enumerate(shares)
        if number % step == 0 or number == len(shares) - 1
    ]


def _draw(
    title: str,
    lines: Sequence[tuple[str, Points]],
    across: tuple[str, float, float, bool],
    upwards: tuple[str, float, int],
) -> str:
    """Return a plot. ``across``: label, range, logarithmic; ``upwards``: unit, highest, factor."""
    label, low, high, is_logarithmic = across
    unit, top, factor = upwards
    step = _step(top * factor) / factor
    top = math.ceil(top / step - 1e-9) * step

    def x(value: float) -> float:
        share = (value - low) / (high - low)
        if is_logarithmic:
            share = math.log(max(value, low) / low) / math.log(high / low)
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * share

    def y(value: float) -> float:
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * value / top

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'width="{_WIDTH}" height="{_HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        f'<text x="{_LEFT}" y="24" font-size="16">{escape(title)}</text>',
        *_grid(y, top, step, unit, factor),
        *_marks(x, low, high, is_logarithmic),
        f'<text x="{(_LEFT + _WIDTH - _RIGHT) / 2:.0f}" y="{_HEIGHT - 10}" '
        f'text-anchor="middle">{escape(label)}</text>',
    ]
    left = _LEFT
    for colour, (name, points) in zip(_COLOURS, lines, strict=True):
        drawn = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in points)
        parts.append(f'<polyline points="{drawn}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<rect x="{left}" y="40" width="18" height="6" fill="{colour}"/>')
        parts.append(f'<text x="{left + 24}" y="47">{escape(name)}</text>')
        left += 60 + 7 * len(name)
    return "\n".join([*parts, "</svg>\n"])


def _step(high: float) -> float:
    """Return a round distance of marks that gives about five of them."""
    rough = high / 5
    power = 10.0 ** math.floor(math.log10(rough))
    return next(power * one for one in (1, 2, 5, 10) if power * one >= rough)


def _grid(
    y: Callable[[float], float], top: float, step: float, unit: str, factor: int
) -> Iterator[str]:
    for number in range(round(top / step) + 1):
        value = number * step
        ends = f'x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y(value):.1f}" y2="{y(value):.1f}"'
        yield f'<line {ends} stroke="#e0e0e0"/>'
        yield (
            f'<text x="{_LEFT - 8}" y="{y(value) + 4:.1f}" text-anchor="end">'
            f"{value * factor:g} {unit}</text>"
        )


def _marks(
    x: Callable[[float], float], low: float, high: float, is_logarithmic: bool
) -> Iterator[str]:
    if is_logarithmic:
        values = [one for one in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500) if one <= high]
    else:
        step = _step(high - low)
        values = [low + number * step for number in range(int((high - low) / step) + 1)]
    for value in values:
        yield (
            f'<line x1="{x(value):.1f}" x2="{x(value):.1f}" y1="{_HEIGHT - _BOTTOM}" '
            f'y2="{_HEIGHT - _BOTTOM + 5}" stroke="#888"/>'
        )
        yield (
            f'<text x="{x(value):.1f}" y="{_HEIGHT - _BOTTOM + 18}" '
            f'text-anchor="middle">{value:g}</text>'
        )
