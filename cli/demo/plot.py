"""Bar plots of block characters with axes, and the scaling of a series to a number of columns."""

from collections.abc import Sequence

from rich.text import Text

_BLOCKS = " ▁▂▃▄▅▆▇█"
_TIME_AXIS_FROM = 4
"""Height from which a plot has a time axis."""
_MARK_NAME = " cut off "


def fit(values: Sequence[float], total: int, columns: int) -> list[float]:
    """Scale the first ``len(values)`` of ``total`` values to columns; ``total`` fill ``columns``.

    A column is the mean of its values that are not zero (zero means no event).
    """
    total = max(total, len(values))
    fitted = []
    for column in range(columns):
        first = column * total // columns
        if first >= len(values):
            break
        last = max(first + 1, (column + 1) * total // columns)
        part = [value for value in values[first:last] if value]
        fitted.append(sum(part) / len(part) if part else 0.0)
    return fitted


def bars(
    values: Sequence[float],
    marked: Sequence[bool],
    *,
    total: int,
    width: int,
    height: int,
    style: str,
) -> Text:
    """Return bars scaled to the largest value; those that are ``marked`` are red."""
    tops = fit(values, total, width)
    marks = [share > 0 for share in fit([float(mark) for mark in marked], total, width)]
    scale = height * 8 / max(max(tops, default=0), 1e-9)
    text = Text(no_wrap=True, overflow="crop")
    for row in range(height - 1, -1, -1):
        for top, is_marked in zip(tops, marks, strict=True):
            eighths = round(top * scale) - row * 8
            text.append(_BLOCKS[max(0, min(8, eighths))], "red" if is_marked else style)
        if row:
            text.append("\n")
    return text


def plot(
    values: Sequence[float],
    marked: Sequence[bool],
    *,
    unit: str,
    total: int,
    width: int,
    height: int,
    style: str,
) -> Text:
    """Return bars with the largest value on a vertical axis, and a time axis if there is room.

    The time axis names the ``marked`` part, which is the time for which a region is cut off.
    """
    label = axis_label(max(fit(values, total, width), default=0), unit)
    columns = width - len(label) - 1
    has_time = height >= _TIME_AXIS_FROM
    rows = bars(
        values, marked, total=total, width=columns, height=height - has_time, style=style
    ).split("\n", allow_blank=True)
    text = Text(no_wrap=True, overflow="crop")
    for number, row in enumerate(rows):
        head = label if number == 0 else ""
        foot = "0" if number == len(rows) - 1 and len(rows) > 1 else head
        text.append(f"{foot:>{len(label)}}", "dim")
        text.append("┤" if foot else "│", "dim")
        text.append_text(row)
        if number < len(rows) - 1 or has_time:
            text.append("\n")
    if has_time:
        text.append(" " * len(label) + "└", "dim")
        text.append_text(_time_axis(marked, total, columns))
    return text


def axis_label(value: float, unit: str) -> str:
    """Return a value of at most five characters, and its unit."""
    if value >= 10_000:
        return f"{value / 1000:.0f}k{unit}"
    return f"{value:.0f}{unit}" if value >= 10 or value == 0 else f"{value:.1f}{unit}"


def _time_axis(marked: Sequence[bool], total: int, columns: int) -> Text:
    marks = [share > 0 for share in fit([float(mark) for mark in marked], total, columns)]
    axis = Text(no_wrap=True, overflow="crop")
    if True not in marks:
        return axis.append("─" * columns, "dim")
    first, last = marks.index(True), len(marks) - 1 - marks[::-1].index(True)
    name = _MARK_NAME if last - first + 1 >= len(_MARK_NAME) else ""
    axis.append("─" * first, "dim")
    axis.append(name.center(last - first + 1, "━"), "red")
    return axis.append("─" * (columns - last - 1), "dim")
