"""Draws the panels of a dashboard as SVG, with the layout, units and legends of the file. Pure."""

import math
from collections.abc import Callable, Iterator, Sequence
from html import escape
from itertools import pairwise
from typing import NamedTuple

from .panel_series import Line, PanelPicture

_COLUMN, _ROW_UNIT, _TOP, _GAP = 50, 26, 40, 4
_AXIS, _TITLE, _LEGEND_LINE = 62, 24, 14
_LEGEND_LINES_MAX = 3
_LETTER = 6.5
_TICKS = 4
_TIME_STEPS, _TIME_LABEL = (10, 30, 60, 120, 300, 600, 3_600, 43_200, 604_800), 44
PALETTE = (
    "#56A64B", "#E0B400", "#5794F2", "#FF780A", "#E02F44", "#1F60C4", "#A352CC", "#3F6833",
    "#967302", "#2F575E", "#99440A", "#58140C",
)  # fmt: skip
_NAMED = {
    "green": "#56A64B",
    "yellow": "#E0B400",
    "orange": "#FF9830",
    "dark-orange": "#FA6400",
    "red": "#C4162A",
    "blue": "#3274D9",
    "purple": "#8F3BB8",
    "gray": "#808080",
}
_LIMIT = "#C4162A"
_DECIMAL = ((1e9, "G"), (1e6, "M"), (1e3, "k"))
_BINARY = ((2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"))
_TIMES = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"), (1e-6, "us"))


class Mark(NamedTuple):
    """A moment that is drawn as a vertical line in every panel."""

    at_s: float
    name: str


def show_value(value: float, unit: str) -> str:
    """Return a value with its unit, as Grafana shows it on an axis."""
    if value == 0:
        return "0"
    if unit == "s":
        size, name = next((one for one in _TIMES if abs(value) >= one[0]), _TIMES[-1])
        return f"{_short(value / size)} {name}"
    if unit == "percentunit":
        return f"{_short(value * 100)} %"
    if unit in ("bytes", "Bps"):
        size, name = next((one for one in _BINARY if abs(value) >= one[0]), (1.0, "B"))
        return f"{_short(value / size)} {name}{'/s' if unit == 'Bps' else ''}"
    size, name = next((one for one in _DECIMAL if abs(value) >= one[0]), (1.0, ""))
    return f"{_short(value / size)}{name}{'/s' if unit == 'ops' else ''}"


def _short(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def nice_step(highest: float, unit: str) -> float:
    """Return the distance of the lines of an axis from 0 to ``highest``."""
    if highest <= 0:
        return 1.0
    base = 2.0 if unit in ("bytes", "Bps") else 10.0
    rough = highest / _TICKS
    power = base ** math.floor(math.log(rough, base))
    factors = (1, 2) if base == 2.0 else (1, 2, 5, 10)
    return next(power * factor for factor in factors if power * factor >= rough * 0.999)


def draw_dashboard(
    title: str, panels: Sequence[PanelPicture], span_s: float, marks: Sequence[Mark] = ()
) -> str:
    """Return an SVG document with all panels. ``span_s`` is the length of the time axis."""
    height = _TOP + _ROW_UNIT * max(panel.place["y"] + panel.place["h"] for panel in panels) + 8
    width = 24 * _COLUMN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="#f4f5f5"/>',
        f'<text x="12" y="26" font-size="16">{escape(title)}</text>',
    ]
    if marks:
        names = ", ".join(dict.fromkeys(mark.name for mark in marks))
        parts.append(
            f'<text x="{width - 12}" y="26" text-anchor="end">'
            f"dotted lines: the beginnings of {escape(names)}</text>"
        )
    for panel in panels:
        x, y = panel.place["x"] * _COLUMN, _TOP + panel.place["y"] * _ROW_UNIT
        if panel.is_row:
            parts.append(
                f'<text x="12" y="{y + 18}" font-size="14" font-weight="bold">'
                f"{escape(panel.title)}</text>"
            )
        else:
            size = panel.place["w"] * _COLUMN - 2 * _GAP, panel.place["h"] * _ROW_UNIT - 2 * _GAP
            parts.append(f'<g transform="translate({x + _GAP},{y + _GAP})">')
            parts += _draw_panel(panel, size, span_s, marks)
            parts.append("</g>")
    return "\n".join([*parts, "</svg>\n"])


def _draw_panel(
    panel: PanelPicture, size: tuple[int, int], span_s: float, marks: Sequence[Mark]
) -> Iterator[str]:
    width, height = size
    yield f'<rect width="{width}" height="{height}" fill="white" stroke="#d0d0d0"/>'
    yield f'<text x="8" y="16" font-size="12" font-weight="bold">{escape(panel.title)}</text>'
    shown = [line for line in panel.lines if line.points]
    if not shown:
        yield (
            f'<text x="{width / 2}" y="{height / 2}" text-anchor="middle" fill="#777">'
            "No data</text>"
        )
        return
    legend = list(_legend(panel, shown, width))
    bottom = height - 22 - _LEGEND_LINE * (1 + max(row for row, *_ in legend))
    highest = max(value for line in shown for _, value in line.points)
    step = nice_step(highest, panel.unit)
    top_value = step * max(1, math.ceil(highest / step - 1e-9))

    def at_x(at_s: float) -> float:
        return _AXIS + (width - _AXIS - 10) * at_s / span_s

    def at_y(value: float) -> float:
        return bottom - (bottom - _TITLE) * max(0.0, min(value, top_value)) / top_value

    for number in range(round(top_value / step) + 1):
        y = at_y(number * step)
        yield f'<path d="M{_AXIS} {y:.1f}H{width - 10}" stroke="#e5e5e5"/>'
        text = escape(show_value(number * step, panel.unit))
        yield f'<text x="{_AXIS - 5}" y="{y + 4:.1f}" text-anchor="end" fill="#555">{text}</text>'
    yield from _time_axis(span_s, at_x, bottom, marks)
    for number, line in enumerate(shown):
        yield _path(line, _colour(panel, line, number), at_x, at_y)
    if panel.limit is not None and panel.limit <= top_value:
        y = at_y(panel.limit)
        yield (
            f'<path d="M{_AXIS} {y:.1f}H{width - 10}" stroke="{_LIMIT}" stroke-dasharray="6 4"/>'
        )
    for row, x, named, number in legend:
        y = bottom + 28 + row * _LEGEND_LINE
        text = f"and {number} more"
        if named is not None:
            text, colour = named.legend, _colour(panel, named, number)
            yield f'<rect x="{x}" y="{y - 6}" width="10" height="3" fill="{colour}"/>'
        yield f'<text x="{x + 14}" y="{y}">{escape(text)}</text>'


def _colour(panel: PanelPicture, line: Line, number: int) -> str:
    name = panel.colours.get(line.legend)
    return PALETTE[number % len(PALETTE)] if name is None else _NAMED.get(name, name)


def _legend(
    panel: PanelPicture, lines: Sequence[Line], width: int
) -> Iterator[tuple[int, float, Line | None, int]]:
    """Yield (row, x, line, its number); at the end, if rows are full, how many are left out."""
    row, x = 0, 10.0
    for number, line in enumerate(lines):
        needed = 26 + _LETTER * len(line.legend)
        if x + needed > width and x > 10:
            row, x = row + 1, 10.0
        if row == _LEGEND_LINES_MAX:
            yield row - 1, width - 70.0, None, len(lines) - number
            return
        yield row, x, line, number
        x += needed


def _time_axis(
    span_s: float, at_x: Callable[[float], float], bottom: float, marks: Sequence[Mark]
) -> Iterator[str]:
    room = at_x(span_s) - at_x(0)
    step = next(one for one in _TIME_STEPS if span_s / one * _TIME_LABEL <= room)
    for at_s in range(0, int(span_s) + 1, step):
        anchor = "end" if at_x(span_s) - at_x(at_s) < _TIME_LABEL / 4 else "middle"
        yield (
            f'<text x="{at_x(at_s):.1f}" y="{bottom + 13:.1f}" text-anchor="{anchor}" '
            f'fill="#555">{show_value(at_s, "s")}</text>'
        )
    for mark in marks:
        x = at_x(mark.at_s)
        yield (
            f'<path d="M{x:.1f} {_TITLE}V{bottom:.1f}" stroke="#888" stroke-dasharray="2 3">'
            f"<title>{escape(mark.name)}</title></path>"
        )


def _path(
    line: Line, colour: str, at_x: Callable[[float], float], at_y: Callable[[float], float]
) -> str:
    """Return the line; it is interrupted where values are missing."""
    times = [at_s for at_s, _ in line.points]
    gaps = [after - before for before, after in pairwise(times)]
    usual = min(gaps, default=0.0)
    text, before_s = "", -math.inf
    for at_s, value in line.points:
        command = "M" if at_s - before_s > 2.5 * usual else "L"
        text += f"{command}{at_x(at_s):.0f} {at_y(value):.1f}"
        before_s = at_s
    return (
        f'<path d="{text}" fill="none" stroke="{colour}" stroke-width="1.4" '
        'stroke-linecap="round"/>'
    )
