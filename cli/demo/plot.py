"""Bar plots of block characters, and the squeezing of a series into so many columns."""

from collections.abc import Sequence

from rich.text import Text

_BLOCKS = " ▁▂▃▄▅▆▇█"


def squeeze(values: Sequence[float], columns: int) -> list[float]:
    """At most ``columns`` means of neighbours; zeros (nothing happened) do not count in a mean."""
    step = -(-len(values) // columns) if values else 1
    squeezed = []
    for first in range(0, len(values), step):
        part = [value for value in values[first : first + step] if value]
        squeezed.append(sum(part) / len(part) if part else 0.0)
    return squeezed


def bars(
    values: Sequence[float], marked: Sequence[bool], *, width: int, height: int, style: str
) -> Text:
    """Bars from 0 to the largest value; those that are ``marked`` in red."""
    tops = squeeze(values, width)
    marks = [share > 0 for share in squeeze([float(mark) for mark in marked], width)]
    scale = height * 8 / max(max(tops, default=0), 1e-9)
    text = Text(no_wrap=True, overflow="crop")
    for row in range(height - 1, -1, -1):
        for top, is_marked in zip(tops, marks, strict=True):
            eighths = round(top * scale) - row * 8
            text.append(_BLOCKS[max(0, min(8, eighths))], "red" if is_marked else style)
        if row:
            text.append("\n")
    return text
