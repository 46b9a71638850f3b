"""Renders the timeline of an outcome as SVG: one lane per region, with faults as shaded bands."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby

from ..fault_kinds import in_words
from .scenario_outcome import Band, ScenarioOutcome, Series

_WIDTH, _LEFT, _RIGHT = 1130, 92, 64
_LABEL_ROW, _RATE, _LATENCY, _GAP = 17, 74, 58, 24
_LATENCY_FROM_MS = 0.5
_NEAR_MS = 1_500
"""Repetitions of a fault that follow within this time share one label."""


@dataclass(frozen=True, slots=True)
class _Scales:
    """The scales that convert times, rates and latencies to coordinates."""

    ms: float
    """Width of one millisecond."""
    slice_ms: float
    rate_max: float
    """Records per slice at the top of a lane; higher rates are clipped and labelled."""
    latency_max: float

    def latency(self, ms: float) -> float:
        """Return the height of a latency on a logarithmic scale."""
        share = math.log(max(ms, _LATENCY_FROM_MS) / _LATENCY_FROM_MS)
        return (_LATENCY - 8) * share / math.log(self.latency_max / _LATENCY_FROM_MS)


def timeline(outcome: ScenarioOutcome) -> str:
    """Return the timeline of an outcome as an SVG element."""
    span_ms = max(outcome.lasted_ms, outcome.slice_ms)
    scales = _scales(outcome, span_ms)
    rows = list(_label_rows(outcome.bands, scales.ms))
    top = first = len(rows) * _LABEL_ROW + 12
    height = top + len(outcome.series) * (_RATE + _LATENCY + _GAP) + 22
    parts = [f'<svg viewBox="0 0 {_WIDTH} {height:.0f}" role="img" aria-label="timeline">']
    for row_index, row in enumerate(rows):
        for x, text in row:
            y = row_index * _LABEL_ROW + 13
            parts.append(f'<text class="fault" x="{x:.1f}" y="{y}">{escape(text)}</text>')
    parts += _borders(outcome.bands, first - 6, height - 24, scales.ms)
    for region, series in outcome.series.items():
        parts += _lane(outcome, region, series, top, scales)
        top += _RATE + _LATENCY + _GAP
    parts += _axis(span_ms, scales.ms, height)
    return "\n".join(['<div class="wide">', *parts, "</svg></div>"])


def _scales(outcome: ScenarioOutcome, span_ms: float) -> _Scales:
    rates = sorted(n for s in outcome.series.values() for n in (*s.acked, *s.delivered) if n)
    rate_p90 = rates[int(0.9 * (len(rates) - 1))] if rates else 1
    rate_peak = rates[-1] if rates else 1
    latencies = [ms for s in outcome.series.values() for ms in (*s.ack_ms, *s.deliver_ms) if ms]
    return _Scales(
        (_WIDTH - _LEFT - _RIGHT) / span_ms,
        outcome.slice_ms,
        rate_peak if rate_peak <= 2 * rate_p90 else 1.6 * rate_p90,
        max([10.0, *latencies]) * 1.2,
    )


def _borders(bands: Sequence[Band], top: float, bottom: float, ms: float) -> Iterator[str]:
    """Draw vertical lines across all lanes where faults begin and end."""
    for at_ms in sorted({round(at) for band in bands for at in (band.begin_ms, band.end_ms)}):
        x = min(_LEFT + at_ms * ms, _WIDTH - _RIGHT)
        yield (
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top:.0f}" y2="{bottom:.0f}" '
            'stroke="var(--fault)" stroke-dasharray="2 4" opacity="0.6"/>'
        )


def _label_rows(bands: Sequence[Band], scale: float) -> Iterator[list[tuple[float, str]]]:
    """Arrange fault labels in rows without overlaps; a repeated fault has one label."""
    labels: list[tuple[float, str]] = []
    ordered = sorted(bands, key=lambda band: (band.text, band.begin_ms))
    for text, group in groupby(ordered, key=lambda band: band.text):
        run: list[Band] = []
        for band in group:
            if run and band.begin_ms - run[-1].end_ms > _NEAR_MS:
                labels.append(_label(text, run, scale))
                run = []
            run.append(band)
        labels.append(_label(text, run, scale))
    labels.sort()
    while labels:
        row, rest, free = [], [], 0.0
        for x, text in labels:
            if x >= free:
                row.append((x, text))
                free = x + 7.2 * len(text) + 12
            else:
                rest.append((x, text))
        labels = rest
        yield row


def _label(text: str, run: Sequence[Band], scale: float) -> tuple[float, str]:
    times = f", {len(run)} repetitions" if len(run) > 1 else ""
    seconds = f"{(run[-1].end_ms - run[0].begin_ms) / 1000:.1f} s"
    return _LEFT + run[0].begin_ms * scale, f"{in_words(text)} ({seconds}{times})"


def _lane(
    outcome: ScenarioOutcome, region: str, series: Series, top: float, scales: _Scales
) -> Iterator[str]:
    right, base = _WIDTH - _RIGHT, top + _RATE
    bottom = base + _LATENCY
    yield f'<text class="name" x="0" y="{top + 14:.0f}">{escape(region)}</text>'
    for band in outcome.bands:
        x = _LEFT + band.begin_ms * scales.ms
        width = min(max((band.end_ms - band.begin_ms) * scales.ms, 1.5), right - x)
        if width > 0 and (not band.regions or region in band.regions):
            words = escape(in_words(band.text))
            yield (
                f'<rect x="{x:.1f}" y="{top:.0f}" width="{width:.1f}" height="{bottom - top:.0f}" '
                f'fill="var(--fault)" opacity="0.2"><title>{words}</title></rect>'
            )
    yield f'<text x="0" y="{base - 4:.0f}">records/s</text>'
    yield from _rates(series.delivered, base, scales, "var(--deliver)", 0.32)
    yield from _rates(series.acked, base, scales, "var(--ack)", 0.55)
    yield _rule(_LEFT, right, base)
    rate = scales.rate_max * 1000 / scales.slice_ms
    yield f'<text x="{right + 6}" y="{top + 10:.0f}">{rate:.0f}/s</text>'
    for ms in (1, 100, 10_000) if scales.latency_max > 1_000 else (1, 10, 100):
        if ms < scales.latency_max:
            y = bottom - scales.latency(ms)
            yield _rule(_LEFT, right, y, "2 5")
            yield f'<text x="{right + 6}" y="{y + 4:.0f}">{_short(ms)}</text>'
    yield f'<text x="0" y="{bottom - 6:.0f}">latency</text>'
    yield _line(series.deliver_ms, bottom, scales, "var(--deliver)")
    yield _line(series.ack_ms, bottom, scales, "var(--ack)")
    yield _rule(_LEFT, right, bottom)


def _rates(
    values: Sequence[int], base: float, scales: _Scales, colour: str, alpha: float
) -> Iterator[str]:
    """Draw a step area; if it is clipped at the top, label its maximum."""
    if not any(values):
        return
    step, top = scales.slice_ms * scales.ms, base - _RATE
    points = [f"{_LEFT:.1f},{base:.1f}"]
    for index, value in enumerate(values):
        y = max(top, base - value * _RATE / scales.rate_max)
        x = _LEFT + index * step
        points += [f"{x:.1f},{y:.1f}", f"{x + step:.1f},{y:.1f}"]
    points.append(f"{_LEFT + len(values) * step:.1f},{base:.1f}")
    yield f'<polygon points="{" ".join(points)}" fill="{colour}" opacity="{alpha}"/>'
    rate_peak = max(values)
    if rate_peak > scales.rate_max:
        x, rate = (
            _LEFT + (values.index(rate_peak) + 1) * step + 4,
            rate_peak * 1000 / scales.slice_ms,
        )
        yield f'<text x="{x:.1f}" y="{top + 10:.0f}">up to {rate:,.0f}/s</text>'


def _line(values: Sequence[float | None], base: float, scales: _Scales, colour: str) -> str:
    parts, is_drawn, step = [], False, scales.slice_ms * scales.ms
    for index, value in enumerate(values):
        if value is None:
            is_drawn = False
            continue
        x, y = _LEFT + (index + 0.5) * step, base - scales.latency(value)
        mark = "L" if is_drawn else "M"
        parts.append(f"{mark}{x:.1f} {y:.1f}")
        is_drawn = True
    return f'<path d="{" ".join(parts)}" fill="none" stroke="{colour}" stroke-width="1.8"/>'


def _rule(left: float, right: float, y: float, dashes: str = "") -> str:
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    ends = f'x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"'
    return f'<line {ends} stroke="var(--line)"{dashed}/>'


def _axis(span_ms: float, scale: float, height: float) -> Iterator[str]:
    step_s = next(step for step in (1, 2, 5, 10, 30, 60, 600) if span_ms / 1000 / step <= 16)
    for second in range(0, int(span_ms / 1000) + 1, step_s):
        x = _LEFT + second * 1000 * scale
        yield f'<text x="{x:.1f}" y="{height - 6:.0f}" text-anchor="middle">{second} s</text>'


def _short(ms: float) -> str:
    return f"{ms / 1000:.1f} s" if ms >= 1000 else f"{ms:.0f} ms"
