"""The plain view of the demo, for pipes, files and terminals without cursor control."""

from collections.abc import Callable

from .state import DemoState

_LINE_EVERY_TICKS = 4


class PlainView:
    """Prints events as they happen, and one line of statistics per second."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._shown = 0
        self._ticks = 0

    def __enter__(self) -> "PlainView":
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def update(self, state: DemoState) -> None:
        """Show the state; called once per tick, and once at the end."""
        for event in state.events[self._shown :]:
            mark = {"bad": "!", "good": "+"}.get(event.tone, " ")
            self._write(f"{event.at_seconds:6.1f} s {mark} {event.text}")
        self._shown = len(state.events)
        if self._ticks % _LINE_EVERY_TICKS == _LINE_EVERY_TICKS - 1 and not state.is_over:
            self._write(statistics_line(state))
        self._ticks += 1


def statistics_line(state: DemoState) -> str:
    """Return records/s, ack latency and tail lag of the last second, and entries by region."""
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
