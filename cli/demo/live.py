"""The live terminal view of the demo: regions, segments and their copies, plots, a timeline.

Designed for terminals of 80x24 and larger; the oldest lines are omitted if there is no room.
"""

from rich.console import Console, Group, RenderableType
from rich.layout import Layout
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from .plot import plot
from .state import DemoBookie, DemoState, RegionState, SegmentState

_STYLES = {"bad": "bold red", "good": "bold green", "plain": ""}
_WIDE = 120
_HEADER_LINES = 2
_BORDER = 2


class LiveView:
    """Redraws the whole screen at every tick; restores the terminal at the end."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, screen=True, auto_refresh=False)

    def __enter__(self) -> "LiveView":
        self._live.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.__exit__(None, None, None)

    def update(self, state: DemoState) -> None:
        """Show the state; called once per tick, and once at the end."""
        self._live.update(screen(state, self._console.width, self._console.height), refresh=True)


def screen(state: DemoState, width: int, height: int) -> Layout:
    """Return the layout for a terminal of this size."""
    regions_height = max(len(region.bookies) for region in state.regions) + 1 + _BORDER
    rest = height - _HEADER_LINES - regions_height
    layout = Layout()
    header = Layout(_header(state, width), size=_HEADER_LINES)
    regions = Layout(size=regions_height)
    regions.split_row(*(Layout(_region_panel(state, region)) for region in state.regions))
    if width >= _WIDE:
        plot_height = rest // 2
        lower = Layout(size=rest - plot_height)
        lower.split_row(
            Layout(_segments_panel(state, rest - plot_height)),
            Layout(_timeline_panel(state, rest - plot_height)),
        )
        layout.split_column(header, regions, _plots(state, width, plot_height), lower)
        return layout
    timeline_height = max(5, rest * 3 // 10)
    plot_height = max(5, rest * 3 // 10)
    segments_height = rest - timeline_height - plot_height
    layout.split_column(
        header,
        regions,
        Layout(_segments_panel(state, segments_height), size=segments_height),
        _plots(state, width, plot_height),
        Layout(_timeline_panel(state, timeline_height), size=timeline_height),
    )
    return layout


def _header(state: DemoState, width: int) -> RenderableType:
    title = Text(no_wrap=True, overflow="ellipsis")
    title.append(" RHUMBLINE ", "bold white on blue")
    title.append(f" {state.source.label}", "bold")
    title.append(f"  quorum E/WQ/AQ/R {state.quorum}", "dim")
    total = state.source.line_count
    counts = (
        f" {state.seconds:5.1f} s  acknowledged {state.acked_count:,} of {total:,}"
        f"  read {state.read_count:,} "
    )
    room = max(width - len(counts) - 1, 0)
    read = room * state.read_count // total
    acked = max(room * state.acked_count // total - read, 0)
    progress = Text(no_wrap=True, overflow="crop")
    progress.append(counts)
    progress.append("█" * read, "green")
    progress.append("█" * acked, "yellow")
    progress.append("░" * (room - read - acked), "dim")
    return Group(title, progress)


def _region_panel(state: DemoState, region: RegionState) -> Panel:
    body = Table.grid(expand=True)
    longest = max((len(_name(bookie)) for bookie in region.bookies), default=0)
    body.add_column(no_wrap=True, min_width=longest + 2)
    body.add_column(justify="right", no_wrap=True)
    for bookie in region.bookies:
        dot = Text("✗ " if region.is_cut else "● ", "red" if region.is_cut else "green")
        name = dot + Text(_name(bookie), "dim" if region.is_cut else "")
        body.add_row(name, f"{bookie.entry_count:,} entries")
    share = region.acked_count * 100 / max(state.acked_count, 1)
    # A quorum does not wait for a region that is far away; that is no fault.
    words = ("  in acks", f"{share:.0f} %") if share >= 0.5 else ("  copied", "after acks")
    body.add_row(*(Text(word, "dim") for word in words))
    role = "CUT OFF" if region.is_cut else region.role
    return Panel(
        body,
        title=f"{region.name} · {role}" if role else region.name,
        subtitle=Text(region.distances, "dim"),
        border_style="bold red" if region.is_cut else "green",
        padding=(0, 1),
    )


def _name(bookie: DemoBookie) -> str:
    return bookie.bookie_id.partition("@")[0]


def _segments_panel(state: DemoState, height: int) -> Panel:
    table = Table.grid(padding=(0, 1), expand=True)
    table.add_column("seg", justify="right", no_wrap=True)
    table.add_column("state", no_wrap=True)
    columns = [(region, bookie) for region in state.regions for bookie in region.bookies]
    for _ in columns:
        table.add_column(justify="center", no_wrap=True)
    heads = [Text(_name(bookie), "red" if region.is_cut else "dim") for region, bookie in columns]
    table.add_row(Text("segment", "dim"), "", *heads)
    room = max(height - _BORDER - 1, 1)
    for segment in state.segments[-room:]:
        if segment.is_completed:
            what = Text(f"{segment.record_count:,} records", "dim")
        else:
            what = Text("being written", "yellow")
        table.add_row(
            str(segment.lssn), what, *(_copies(segment, bookie.bookie_id) for _, bookie in columns)
        )
    return Panel(table, title="segments and their copies", border_style="blue")


def _copies(segment: SegmentState, bookie: str) -> Text:
    holds = [bookie in bookies for _, bookies in segment.fragments]
    if not any(holds):
        return Text("·", "dim")
    if all(holds):
        return Text("██", "green" if segment.is_completed else "yellow")
    return Text("▐█" if holds[-1] else "█▌", "magenta")


def _plots(state: DemoState, width: int, height: int) -> Layout:
    ticks = list(state.ticks)
    cut = [tick.is_cut for tick in ticks]
    size = {
        "total": state.planned_ticks,
        "width": width // 2 - 4,
        "height": height - _BORDER,
    }
    rates = [tick.records_per_second for tick in ticks]
    delays = [tick.p50_ms for tick in ticks]
    busy = [tick for tick in ticks[-8:] if tick.p50_ms]
    p50 = busy[-1].p50_ms if busy else 0.0
    p99 = busy[-1].p99_ms if busy else 0.0
    rate = sum(rates[-4:]) / max(len(rates[-4:]), 1)
    lag = ticks[-1].lag_records if ticks else 0
    plots = Layout(size=height)
    plots.split_row(
        Layout(
            Panel(
                plot(rates, cut, unit="/s", style="cyan", **size),
                title=f"{rate:,.0f} records/s · tail behind by {lag:,}",
                border_style="cyan",
            )
        ),
        Layout(
            Panel(
                plot(delays, cut, unit="ms", style="yellow", **size),
                title=f"ack p50 {p50:.1f} ms · p99 {p99:.1f} ms",
                border_style="yellow",
            )
        ),
    )
    return plots


def _timeline_panel(state: DemoState, height: int) -> Panel:
    text = Text(no_wrap=True, overflow="ellipsis")
    shown = state.events[-max(height - _BORDER, 1) :]
    for number, event in enumerate(shown):
        text.append(f"{event.at_seconds:5.1f} s ", "dim")
        text.append(event.text, _STYLES[event.tone])
        if number < len(shown) - 1:
            text.append("\n")
    return Panel(text, title="events", border_style="white")
