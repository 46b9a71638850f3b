"""The screen of ``rhumbline top``: a document as lines of a terminal. Pure.

What does not fit is counted, and the rest of the height is divided between servers and streams.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ...client.units import show_bytes, show_count, show_ms
from ..operate.server_checks import FAULT

_WIDE = 110
"""Columns from which on the less important ones are shown."""
_ALERTS_MAX, _REGIONS_MAX = 5, 6
_GOOD = {"open", "writable", "accepting", "running"}
_BAD = {"down", "unreachable", "no writable bookie", "offline"}

Row = Mapping[str, Any]
Column = tuple[str, str, bool]
"""Heading, alignment, and whether it is shown on narrow screens too."""


def screen(document: Row, title: str, width: int, height: int) -> RenderableType:
    """Return the screen of a document, at most ``height`` lines high."""
    is_wide = width >= _WIDE
    alerts = _alerts(document["alerts"], width)
    regions = document["regions"][:_REGIONS_MAX]
    # Besides rows: header, repair line, three headings, three empty lines, and the cursor's line.
    left = max(2, height - len(alerts) - len(regions) - 9)
    servers, streams = document["servers"], document["streams"]
    for_servers = min(len(servers), max(left // 2, left - len(streams)))
    for_streams = min(len(streams), left - for_servers)
    return Group(
        _header(document, title, width),
        *alerts,
        Text(),
        _table(_region_columns(is_wide), [_region(row, is_wide) for row in regions], width),
        Text(),
        _table(
            _server_columns(is_wide),
            [_server(row, is_wide) for row in _busiest(servers, for_servers)],
            width,
            more=len(servers) - for_servers,
        ),
        Text(),
        _table(
            _stream_columns(is_wide),
            [_stream(row, is_wide) for row in streams[:for_streams]],
            width,
            more=len(streams) - for_streams,
        ),
        _repair(document["repair"]),
    )


def _header(document: Row, title: str, width: int) -> Text:
    alerts = document["alerts"]
    faults = sum(alert["verdict"] == FAULT for alert in alerts)
    warnings = len(alerts) - faults
    state = "all is well"
    if alerts:
        parts = [show_count(faults, "fault")] if faults else []
        state = ", ".join(parts + ([show_count(warnings, "warning")] if warnings else []))
    style = "bold red" if faults else "bold yellow" if warnings else "bold green"
    clock = str(document["sampled_at"])[11:19] + "Z"
    room = max(0, width - len(state) - len(clock) - 4)
    text = Text(f"{_cut(title, room):{room}}  ", style="bold")
    text.append(state, style=style)
    text.append(f"  {clock}")
    return text


def _alerts(alerts: Sequence[Row], width: int) -> list[Text]:
    lines = []
    for alert in alerts[:_ALERTS_MAX]:
        line = f"{'!' if alert['verdict'] == FAULT else '-'} {alert['subject']}: {alert['detail']}"
        lines.append(
            Text(_cut(line, width), style="red" if alert["verdict"] == FAULT else "yellow")
        )
    if len(alerts) > _ALERTS_MAX:
        lines.append(Text(f"  {len(alerts) - _ALERTS_MAX} more: `rhumbline doctor`"))
    return lines


def _region_columns(is_wide: bool) -> list[str]:
    columns = ["REGION", "STATE", ">WRITABLE", ">FREE", ">ADDS/S", ">WRITTEN/S", ">ADD P99"]
    return (
        [*columns, ">READ-ONLY", ">CLOSED", ">DOWN", ">PROXIES", ">REPAIR"] if is_wide else columns
    )


def _region(row: Row, is_wide: bool) -> list[Text]:
    cells = [
        Text(row["region"]),
        _mode(row["state"]),
        Text(f"{row['writable']}/{row['bookies']}"),
        Text("-" if row["free_bytes"] is None else show_bytes(row["free_bytes"])),
        _rate(row["adds_per_second"]),
        Text(
            "-"
            if row["written_bytes_per_second"] is None
            else show_bytes(row["written_bytes_per_second"])
        ),
        _latency(row["add_p99_ms"]),
    ]
    keys = ("read_only", "closed", "down", "proxies", "repairers")
    return cells + ([Text(str(row[key])) for key in keys] if is_wide else [])


def _server_columns(is_wide: bool) -> list[str]:
    columns = ["SERVER", "KIND", "MODE", ">WORK/S", ">P99", "LOAD"]
    return [columns[0], "REGION", *columns[1:]] if is_wide else columns


def _server(row: Row, is_wide: bool) -> list[Text]:
    cells = [
        Text(row["server"]),
        Text(row["kind"]),
        _mode(row["mode"]),
        _rate(row["work_per_second"]),
        _latency(row["p99_ms"]),
        Text(row["load"]),
    ]
    return [cells[0], Text(row["region"]), *cells[1:]] if is_wide else cells


def _stream_columns(is_wide: bool) -> list[str]:
    columns = ["STREAM", ">RECORDS/S", ">RECORDS", ">LAG", "OWNER"]
    return [*columns, "END"] if is_wide else columns


def _stream(row: Row, is_wide: bool) -> list[Text]:
    records, lag = row["records"], row["lag_records"]
    cells = [
        Text(row["stream"]),
        _rate(row["records_per_second"]),
        Text("-" if records is None else f"{records:,}"),
        Text("-" if lag is None else f"{lag:,}"),
        Text(row["owner"] or "-"),
    ]
    return [*cells, Text(row["end"])] if is_wide else cells


def _busiest(servers: Sequence[Row], count: int) -> list[Row]:
    """Return ``count`` servers: those that are not well, then those with other than storage."""
    kinds = sorted(
        servers,
        key=lambda row: (
            row["mode"] in _GOOD,
            row["kind"] == "bookie",
            -(row["work_per_second"] or 0),
        ),
    )
    return kinds[:count]


def _repair(row: Row) -> Text:
    parts = [show_count(row["ledgers_waiting"], "ledger waits", "ledgers wait")]
    if row["ledgers_reduced"]:
        parts.append(show_count(row["ledgers_reduced"], "ledger lacks", "ledgers lack") + " a copy")
    if row["copied_bytes_per_second"]:
        parts.append(f"{show_bytes(row['copied_bytes_per_second'])}/s copied")
    if row["left_bytes"]:
        parts.append(f"{show_bytes(row['left_bytes'])} to rebalance")
    parts.append("no auditor" if row["auditor"] is None else "audited")
    return Text(f"repair: {', '.join(parts)}", style="dim")


def _table(
    columns: Sequence[str], rows: Sequence[Sequence[Text]], width: int, more: int = 0
) -> Table:
    is_text_last = not columns[-1].startswith(">")
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
    table.width = width if is_text_last else None
    for number, column in enumerate(columns):
        is_right = column.startswith(">")
        heading = column.removeprefix(">")
        if number == 0 and more > 0:
            heading += f" (+{more})"
        table.add_column(
            heading,
            justify="right" if is_right else "left",
            no_wrap=True,
            overflow="ellipsis",
            ratio=1 if number == len(columns) - 1 and is_text_last else None,
        )
    for row in rows:
        table.add_row(*row)
    return table


def _mode(mode: str) -> Text:
    return Text(mode, style="green" if mode in _GOOD else "red" if mode in _BAD else "yellow")


def _rate(value: float | None) -> Text:
    return Text("-" if value is None else f"{value:,.0f}" if value >= 10 else f"{value:.1f}")


def _latency(value: float | None) -> Text:
    return Text("-" if value is None else show_ms(value))


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
