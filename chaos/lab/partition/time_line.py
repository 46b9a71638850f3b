"""Draws the time line of a region that was cut off as SVG: records by time."""

from collections.abc import Iterator, Sequence
from html import escape
from typing import Any, Protocol

_WIDTH, _HEIGHT = 960, 440
_LEFT, _RIGHT, _TOP, _BOTTOM = 80, 20, 90, 46
_POINTS_MAX = 600
_ACKED, _LOCAL, _FOLLOWED, _READ = "#1f6fb2", "#8e44ad", "#c0392b", "#2e8b57"


class TimeLine(Protocol):
    """The times that are drawn, in seconds since the start; see ``CutOffResult``."""

    cut_s: float
    healed_s: float
    acked: list[tuple[float, int]]
    followed: list[tuple[float, int]]
    reads: list[dict[str, Any]]
    local_acked: list[tuple[float, int]]
    local_reads: list[dict[str, Any]]


class _Axes:
    def __init__(self, line: TimeLine) -> None:
        self.seconds: float = max(read["ended"] for read in [*line.reads, *line.local_reads])
        self.records = max(number for _, number in [*line.acked, *line.local_acked]) + 1

    def x(self, second: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * second / self.seconds

    def y(self, record: float) -> float:
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * record / self.records


def draw_time_line(line: TimeLine) -> str:
    """Return an SVG document with the records that were written and read over time."""
    axes = _Axes(line)
    left, width = axes.x(line.cut_s), axes.x(line.healed_s) - axes.x(line.cut_s)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'width="{_WIDTH}" height="{_HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        f'<rect x="{left:.1f}" y="{_TOP}" width="{width:.1f}" '
        f'height="{_HEIGHT - _TOP - _BOTTOM}" fill="#f7e3df"/>',
        f'<text x="{_LEFT}" y="22" font-size="16">Records in a region that is cut off</text>',
        f'<text x="{left + 6:.1f}" y="{_TOP + 18}">west is cut off for '
        f"{line.healed_s - line.cut_s:.0f} s</text>",
        *_ticks(axes),
        *_curve(axes, line.acked, _ACKED),
        *_curve(axes, line.local_acked, _LOCAL),
        *_curve(axes, line.followed, _FOLLOWED),
        *_readers(axes, line),
        *_legend(
            (_ACKED, "acknowledged in east"),
            (_LOCAL, "acknowledged in west, in a namespace of its own"),
            (_FOLLOWED, "got by the reader in west that follows"),
            (_READ, "last record of a new reader of either (in west; at the end in all)"),
        ),
    ]
    return "\n".join([*parts, "</svg>\n"])


def _ticks(axes: _Axes) -> Iterator[str]:
    step = next(step for step in (5, 10, 30, 60, 120, 600) if axes.seconds / step <= 14)
    for second in range(0, int(axes.seconds) + 1, step):
        y = _HEIGHT - _BOTTOM + 18
        yield f'<text x="{axes.x(second):.1f}" y="{y}" text-anchor="middle">{second} s</text>'
    for share in range(5):
        record = axes.records * share / 4
        height = axes.y(record)
        ends = f'x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{height:.1f}" y2="{height:.1f}"'
        yield f'<line {ends} stroke="#ccc"/>'
        yield f'<text x="{_LEFT - 8}" y="{height + 4:.1f}" text-anchor="end">{record:,.0f}</text>'


def _curve(axes: _Axes, line: Sequence[tuple[float, int]], colour: str) -> Iterator[str]:
    """Yield the line as steps: a value holds until the next one."""
    stride = max(1, len(line) // _POINTS_MAX)
    points: list[tuple[float, int]] = []
    before = 0
    for index, (second, number) in enumerate(line):
        if index % stride == 0 or index == len(line) - 1 or number - before > 50:
            points += [(second, before), (second, number)]
            before = number
    drawn = " ".join(f"{axes.x(second):.1f},{axes.y(number):.1f}" for second, number in points)
    yield f'<polyline points="{drawn}" fill="none" stroke="{colour}" stroke-width="2"/>'


def _readers(axes: _Axes, line: TimeLine) -> Iterator[str]:
    for read in [*line.reads, *line.local_reads]:
        if "last" in read:
            x, y = axes.x(read["ended"]), axes.y(read["last"])
            yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{_READ}"/>'


def _legend(*entries: tuple[str, str]) -> Iterator[str]:
    for number, (colour, label) in enumerate(entries):
        left, top = _LEFT + 400 * (number % 2), 40 + 20 * (number // 2)
        yield f'<rect x="{left}" y="{top}" width="18" height="6" fill="{colour}"/>'
        yield f'<text x="{left + 24}" y="{top + 8}">{escape(label)}</text>'
