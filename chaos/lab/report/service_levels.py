"""Computes service levels and timelines as callers experienced them.

Appends are unavailable while a writer is active and no append is acknowledged. Delivery to a region
is unavailable while an acknowledged record waits to be delivered there.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from statistics import median

from ...checker.history import AppendOutcome, RecordedAppend, token_of
from ..played_scenario import PlayedScenario
from ..scenario import APPEND, DELIVER, EVERYWHERE
from .scenario_outcome import Series, ServiceLevel

_TOKEN_BYTES = len(token_of(0, 0))

SLICES = 72
"""Approximate number of slices of a timeline."""


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which ``share`` of the sorted values lie; 0 if there are none."""
    return values[min(len(values) - 1, int(share * len(values)))] if values else 0.0


def slice_ms_of(play: PlayedScenario) -> float:
    """Return the width of a timeline slice in ms."""
    return max(100.0, play.load_ends_ms / SLICES)


def tail_region(reader: str) -> str | None:
    """Return the region in the name of a tailing reader; None for other readers."""
    return reader.split("-")[1].split("/")[0] if reader.startswith("tail app-") else None


def writer_turns(play: PlayedScenario) -> list[tuple[str, float, float]]:
    """Return (region, start ms, end ms) of each active writer."""
    writers = play.scenario.workload.writers
    ends = [*(float(turn.at_ms) for turn in writers[1:]), play.load_ends_ms]
    return [(turn.region, float(turn.at_ms), end) for turn, end in zip(writers, ends, strict=True)]


def deliveries(play: PlayedScenario) -> dict[str, dict[bytes, float]]:
    """Return by region and token the time of the first delivery to a tailing reader there."""
    found: dict[str, dict[bytes, float]] = {}
    for read in play.history.reads:
        region = tail_region(read.reader)
        if region is None:
            continue
        seen = found.setdefault(region, {})
        for record in read.records:
            token = record.payload[:_TOKEN_BYTES]
            at_ms = record.at_ms - play.start_ms
            seen[token] = min(seen.get(token, at_ms), at_ms)
    return found


def levels_of(play: PlayedScenario) -> list[ServiceLevel]:
    """Return the service levels of appends in total and by region, and of deliveries by region."""
    acked = [append for append in play.load_appends() if append.outcome is AppendOutcome.OK]
    spans = writer_turns(play)
    whole = [(EVERYWHERE, spans[0][1], play.load_ends_ms)] if spans else []
    by_region = [
        _append_level(play, region, acked, [span for span in spans if span[0] == region])
        for region in dict.fromkeys(span[0] for span in spans)
    ]
    return [
        _append_level(play, EVERYWHERE, acked, whole),
        *by_region,
        *(_deliver_level(play, region, seen, acked) for region, seen in deliveries(play).items()),
    ]


def _append_level(
    play: PlayedScenario,
    region: str,
    acked: Iterable[RecordedAppend],
    spans: Sequence[tuple[str, float, float]],
) -> ServiceLevel:
    own = [append for append in acked if region in (EVERYWHERE, play.regions.get(append.session))]
    waits = sorted((append.ended_ms or 0.0) - append.called_ms for append in own)
    times = sorted((append.ended_ms or 0.0) - play.start_ms for append in own)
    longest = 0.0
    for _, begin, end in spans:
        marks = [begin, *(at for at in times if begin < at < end), end]
        longest = max(longest, *(after - before for before, after in pairwise(marks)))
    return ServiceLevel(
        APPEND, region, len(own), percentile(waits, 0.5), percentile(waits, 0.99), longest
    )


def _deliver_level(
    play: PlayedScenario, region: str, seen: dict[bytes, float], acked: Iterable[RecordedAppend]
) -> ServiceLevel:
    waits = []
    for append in acked:
        acked_ms = (append.ended_ms or 0.0) - play.start_ms
        delivered_ms = seen.get(append.token, play.load_ends_ms)
        waits.append(max(0.0, delivered_ms - acked_ms))
    waits.sort()
    return ServiceLevel(
        DELIVER,
        region,
        len(seen),
        percentile(waits, 0.5),
        percentile(waits, 0.99),
        waits[-1] if waits else 0.0,
    )


def series_of(play: PlayedScenario) -> dict[str, Series]:
    """Return the timeline of each region."""
    width_ms = slice_ms_of(play)
    count = max(1, int(play.load_ends_ms // width_ms))
    calls = {
        append.token: append.called_ms - play.start_ms for append in play.history.appends.values()
    }
    found = {}
    delivered = deliveries(play)
    for region in play.scenario.topology.regions:
        ack_waits: list[list[float]] = [[] for _ in range(count)]
        for append in play.load_appends():
            if append.outcome is AppendOutcome.OK and play.regions.get(append.session) == region:
                ended_ms = (append.ended_ms or 0.0) - play.start_ms
                _add(ack_waits, ended_ms / width_ms, (append.ended_ms or 0.0) - append.called_ms)
        deliver_waits: list[list[float]] = [[] for _ in range(count)]
        for token, at_ms in delivered.get(region, {}).items():
            if token in calls:
                _add(deliver_waits, at_ms / width_ms, at_ms - calls[token])
        found[region] = Series(
            [len(waits) for waits in ack_waits],
            [len(waits) for waits in deliver_waits],
            [round(median(waits), 2) if waits else None for waits in ack_waits],
            [round(median(waits), 2) if waits else None for waits in deliver_waits],
        )
    return found


def _add(slices: list[list[float]], index: float, value: float) -> None:
    if 0 <= index < len(slices):
        slices[int(index)].append(value)
