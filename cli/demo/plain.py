"""The demo as plain lines: for pipes, files and terminals without cursor control."""

from collections.abc import Callable

from .state import DemoState

_LINE_EVERY_TICKS = 4


class PlainView:
    """Prints happenings when they happen, and one line of figures a second."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._shown = 0
        self._ticks = 0

    def __enter__(self) -> "PlainView":
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def update(self, state: DemoState) -> None:
        """Called once a tick, and once more at the end."""
        for happening in state.happenings[self._shown :]:
            mark = {"bad": "!", "good": "+"}.get(happening.mood, " ")
            self._write(f"{happening.at_seconds:6.1f} s {mark} {happening.text}")
        self._shown = len(state.happenings)
        if self._ticks % _LINE_EVERY_TICKS == _LINE_EVERY_TICKS - 1 and not state.is_over:
            self._write(figures_line(state))
        self._ticks += 1


def figures_line(state: DemoState) -> str:
    """Records/s, ack latency and tail lag of the last second, and which regions hold the data."""
    recent = list(state.ticks)[-_LINE_EVERY_TICKS:]
    busy = [tick for tick in recent if tick.p50_ms] or recent
    rate = sum(tick.records_per_second for tick in recent) / len(recent)
    p50 = sorted(tick.p50_ms for tick in busy)[len(busy) // 2]
    p99 = max(tick.p99_ms for tick in busy)
    held = "  ".join(f"{region.name} {region.entry_count:,}" for region in state.regions)
    return (
        f"{state.seconds:6.1f} s   {state.acked_count:>9,} records  {rate:>8,.0f}/s  "
        f"ack p50 {p50:5.1f} p99 {p99:6.1f} ms  "
        f"tail -{recent[-1].lag_records:<5,}  entries in: {held}"
    )
