"""Draws bars of several systems as SVG: one panel for each workload, each with its own scale."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

_WIDTH, _LABEL, _VALUE = 960, 200, 240
_HEAD, _BAR, _STEP, _GAP = 48, 16, 22, 30
_OWN, _OTHER, _UNSAFE = "#1f6fb2", "#8a8f98", "#d5d8dd"


@dataclass(frozen=True, slots=True)
class Bar:
    """The figure of one system."""

    label: str
    value: float
    text: str
    is_own: bool
    is_durable: bool


@dataclass(frozen=True, slots=True)
class BarPanel:
    """The bars of one figure."""

    title: str
    bars: Sequence[Bar]


def draw_bars(title: str, panels: Sequence[BarPanel]) -> str:
    """Return an SVG document. Systems that do not sync before they acknowledge are pale."""
    height = _HEAD + sum(_GAP + _STEP * len(panel.bars) + 12 for panel in panels)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        f'width="{_WIDTH}" height="{height}" font-family="sans-serif" font-size="12">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
        f'<text x="16" y="24" font-size="16">{escape(title)}</text>',
        *_legend(),
    ]
    top = _HEAD
    for panel in panels:
        parts += _panel(panel, top)
        top += _GAP + _STEP * len(panel.bars) + 12
    return "\n".join([*parts, "</svg>\n"])


def _legend() -> Iterator[str]:
    x = 400
    for colour, label in (
        (_OWN, "Rhumbline"),
        (_OTHER, "others, on disk when acknowledged"),
        (_UNSAFE, "others, not on disk"),
    ):
        yield f'<rect x="{x}" y="14" width="12" height="12" fill="{colour}"/>'
        yield f'<text x="{x + 17}" y="24">{label}</text>'
        x += 36 + 7 * len(label)


def _panel(panel: BarPanel, top: float) -> Iterator[str]:
    longest = max((bar.value for bar in panel.bars), default=1.0) or 1.0
    scale = (_WIDTH - _LABEL - _VALUE) / longest
    yield f'<text x="16" y="{top + 18}" font-weight="bold">{escape(panel.title)}</text>'
    for number, bar in enumerate(panel.bars):
        y = top + _GAP + _STEP * number
        colour = _OWN if bar.is_own else _OTHER if bar.is_durable else _UNSAFE
        width = max(bar.value * scale, 1.0)
        yield f'<text x="{_LABEL - 8}" y="{y + 12}" text-anchor="end">{escape(bar.label)}</text>'
        yield f'<rect x="{_LABEL}" y="{y}" width="{width:.1f}" height="{_BAR}" fill="{colour}"/>'
        yield f'<text x="{_LABEL + width + 6:.1f}" y="{y + 12}">{escape(bar.text)}</text>'
