"""The results of a game day: a table of steps, and a picture of the alerts over time. Pure."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from html import escape

from .alert_log import Firing

_WIDTH, _ROW, _LEFT, _RIGHT, _TOP = 1100, 22, 330, 20, 96
_FAILED = "DID NOT END"
_SEVERITY = {"critical": "#c0392b", "warning": "#d68910"}
_Scale = Callable[[float], float]
_RED, _GREEN, _SHADES = "#c0392b", "#2e8b57", ("#eef3f8", "#f8f4ea")


@dataclass
class StepResult:
    """A step with its times, in seconds since the start of the day."""

    name: str
    began_s: float
    fault_s: float | None = None
    """When the fault was injected; None: when the step began."""
    ended_s: float = 0.0
    red_s: float | None = None
    """When ``doctor`` first reported the fault; None if never."""
    green_s: float | None = None
    """When ``doctor`` was green for good; None if never."""
    acted_s: float | None = None
    """When the operator did the last thing that the recovery needed."""
    gap_s: float = 0.0
    """The longest time in which a stream had no acknowledgement."""
    firings: list[Firing] = field(default_factory=list)
    failure: str = ""
    """Why the step did not end; empty if it ended."""


def step_table(steps: Sequence[StepResult]) -> str:
    """Return the table of steps: a row for each alert, with seconds since the fault.

    RED and GREEN are what ``doctor`` said; ACTION is the operator's last one, and NO ACK the
    longest time in which a stream had no acknowledgement.
    """
    rows: list[tuple[str, ...]] = [
        ("STEP", "ALERT", "FIRED", "CLEARED", "RED", "ACTION", "GREEN", "NO ACK")
    ]
    for step in steps:
        own = (
            step.name,
            _after(step.red_s, step),
            "" if step.acted_s is None else _after(step.acted_s, step),
            "" if step.red_s is None else _after(step.green_s, step),
            f"{step.gap_s:.1f} s",
        )
        alerts = [_alert_cells(firing, step) for firing in step.firings] or [("none", "", "")]
        for number, alert in enumerate(alerts):
            name, *times = own if number == 0 else [""] * len(own)
            rows.append((name, *alert, *times))
        if step.failure:
            rows.append(("", f"{_FAILED}: {step.failure}", *[""] * 6))
    cells = [row for row in rows if not row[1].startswith(_FAILED)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def _alert_cells(firing: Firing, step: StepResult) -> tuple[str, str, str]:
    name = f"{firing.alert.name.removeprefix('Rhumbline')} {firing.alert.subject}".strip()
    return name, _after(firing.fired_s, step), _after(firing.cleared_s, step)


def _after(at_s: float | None, step: StepResult) -> str:
    fault_s = step.began_s if step.fault_s is None else step.fault_s
    return "never" if at_s is None else f"{at_s - fault_s:.0f} s"


def draw_day(
    steps: Sequence[StepResult], spans: Sequence[Firing], doctor: Sequence[tuple[float, bool]]
) -> str:
    """Return an SVG document: alerts as bars over time, steps as shades, and what doctor said.

    ``doctor`` has (time, whether it was green) of each check.
    """
    names = list(dict.fromkeys(_label(span) for span in spans))
    end_s = max([step.ended_s for step in steps] + [1.0])
    height = _TOP + _ROW * (len(names) + 1) + 40

    def x(at_s: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * min(at_s, end_s) / end_s

    bottom = height - 36
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        f'width="{_WIDTH}" height="{height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
        '<text x="12" y="24" font-size="16">'
        "A game day: warnings (orange), critical alerts (red), and doctor</text>",
        *_shades(steps, x, bottom),
        *_doctor_row(doctor, x, end_s),
    ]
    for row, name in enumerate(names, 1):
        y = _TOP + _ROW * row
        parts.append(f'<text x="{_LEFT - 10}" y="{y + 14}" text-anchor="end">{escape(name)}</text>')
        for span in (span for span in spans if _label(span) == name):
            left, right = x(span.fired_s), x(end_s if span.cleared_s is None else span.cleared_s)
            colour = _SEVERITY.get(span.alert.severity, "#7f8c8d")
            parts.append(
                f'<rect x="{left:.1f}" y="{y + 3}" width="{max(2.0, right - left):.1f}" '
                f'height="{_ROW - 8}" fill="{colour}"/>'
            )
    parts += _ticks(end_s, x, bottom)
    return "\n".join([*parts, "</svg>\n"])


def _label(span: Firing) -> str:
    return f"{span.alert.name.removeprefix('Rhumbline')} {span.alert.subject}".strip()


def _shades(steps: Sequence[StepResult], x: _Scale, bottom: float) -> Iterator[str]:
    for number, step in enumerate(steps):
        left, right = x(step.began_s), x(step.ended_s)
        yield (
            f'<rect x="{left:.1f}" y="44" width="{right - left:.1f}" height="{bottom - 44:.1f}" '
            f'fill="{_SHADES[number % len(_SHADES)]}"/>'
        )
        y = 60 + 16 * (number % 2)
        yield f'<text x="{left + 3:.1f}" y="{y}">{escape(step.name)}</text>'


def _doctor_row(doctor: Sequence[tuple[float, bool]], x: _Scale, end_s: float) -> Iterator[str]:
    yield f'<text x="{_LEFT - 10}" y="{_TOP + 14}" text-anchor="end">rhumbline doctor</text>'
    ends = [at for at, _ in doctor[1:]] + [end_s]
    for (began, is_green), ended in zip(doctor, ends, strict=True):
        left, right = x(began), x(ended)
        yield (
            f'<rect x="{left:.1f}" y="{_TOP + 3}" width="{max(0.0, right - left):.1f}" '
            f'height="{_ROW - 8}" fill="{_GREEN if is_green else _RED}"/>'
        )


def _ticks(end_s: float, x: _Scale, bottom: float) -> Iterator[str]:
    step = next(step for step in (10, 30, 60, 120, 300, 600, 3600) if end_s / step <= 14)
    for second in range(0, int(end_s) + 1, step):
        yield f'<text x="{x(second):.1f}" y="{bottom + 18}" text-anchor="middle">{second} s</text>'
