"""Bar plots of block characters, and the scaling of a series to a number of columns."""

from collections.abc import Sequence

from rich.text import Text

_BLOCKS = " ▁▂▃▄▅▆▇█"


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
