"""The HTML page of a profile: one plot for each measure, and a table of the streams."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from html import escape
from typing import NamedTuple

_WIDTH, _HEIGHT = 720, 140
_HOURS_MIN = 24
"""The shortest time axis, so that the bars of a few hours stay narrow."""
_STYLE = (
    ":root{color-scheme:light dark}"
    "body{font:15px system-ui,sans-serif;margin:2em;max-width:60em}h2{font-size:1.1em}"
    "table{border-collapse:collapse}td,th{padding:.2em .8em;text-align:right}"
    "td:first-child,th:first-child{text-align:left}"
    "rect{fill:#4a7fc4}line{stroke:#888}text{font-size:11px;fill:currentColor}"
)


class Hour(NamedTuple):
    """The records of a stream that were created within one hour."""

    stream: str
    records: int
    payload_bytes: int
    size_min: int
    size_median: int
    size_p99: int
    size_max: int
    keyed_records: int
    keys: int
    hour: datetime
    records_per_s: float


def render_page(hours: Sequence[Hour]) -> str:
    """Return the page, which needs no other file. Plots add up all streams, hour by hour."""
    plots: list[tuple[str, Callable[[Hour], int], Callable[[Sequence[int]], int]]] = [
        ("Records by hour", lambda one: one.records, sum),
        ("Bytes of payload by hour", lambda one: one.payload_bytes, sum),
        ("Size of a record, 99th percentile", lambda one: one.size_p99, max),
        ("Keys by hour and stream, added up", lambda one: one.keys, sum),
    ]
    times = sorted({one.hour for one in hours})
    body = []
    for title, measure, combine in plots:
        values = [combine([measure(one) for one in hours if one.hour == time]) for time in times]
        body.append(f"<h2>{escape(title)}</h2>{_plot(times, values)}")
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Profile of streams</title>'
        f"<style>{_STYLE}</style><h1>Profile of streams</h1>{''.join(body)}"
        f"<h2>Streams</h2>{_table(hours)}</html>\n"
    )


def _plot(times: Sequence[datetime], values: Sequence[int]) -> str:
    """Return bars over a time axis as SVG; hours without records are gaps."""
    top = max(values, default=0)
    if not top:
        return "<p>None.</p>"
    first = times[0].timestamp()
    count = max(round((times[-1].timestamp() - first) / 3600) + 1, _HOURS_MIN)
    bars = []
    for time, value in zip(times, values, strict=True):
        left = (time.timestamp() - first) / 3600 * _WIDTH / count
        height = value * _HEIGHT / top
        bars.append(
            f'<rect x="{left:.1f}" y="{_HEIGHT - height:.1f}" width="{_WIDTH / count:.2f}" '
            f'height="{height:.1f}"><title>{_label(time)}: {value:,}</title></rect>'
        )
    last = times[0] + timedelta(hours=count - 1)
    return (
        f'<svg viewBox="0 -14 {_WIDTH} {_HEIGHT + 34}" width="{_WIDTH}" role="img">'
        f'{"".join(bars)}<line x1="0" y1="{_HEIGHT}" x2="{_WIDTH}" y2="{_HEIGHT}"/>'
        f'<text x="0" y="-3">at most {top:,}</text>'
        f'<text x="0" y="{_HEIGHT + 14}">{_label(times[0])}</text>'
        f'<text x="{_WIDTH}" y="{_HEIGHT + 14}" text-anchor="end">{_label(last)}</text></svg>'
    )


def _label(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M}"


def _table(hours: Sequence[Hour]) -> str:
    rows = []
    for stream in sorted({one.stream for one in hours}):
        own = [one for one in hours if one.stream == stream]
        records = sum(one.records for one in own)
        size_bytes = sum(one.payload_bytes for one in own)
        cells = (
            escape(stream), f"{len(own):,}", f"{records:,}", f"{size_bytes:,}",
            f"{size_bytes / max(1, records):,.0f}", f"{max(one.size_max for one in own):,}",
            f"{sum(one.keyed_records for one in own):,}",
        )  # fmt: skip
        rows.append("".join(f"<td>{cell}</td>" for cell in cells))
    heads = ("stream", "hours", "records", "bytes", "mean size", "largest", "with a key")
    head = "".join(f"<th>{name}</th>" for name in heads)
    return f"<table><tr>{head}</tr>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"
