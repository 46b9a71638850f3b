"""Service levels and the timeline, from what callers saw.

An append is unavailable while appends are wanted and none is acknowledged. Delivery to a region is
unavailable for as long as an acknowledged record waits to be delivered there.
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
"""Slices of a timeline, about."""


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which ``share`` of the sorted values lie; 0 when there are none."""
    return values[min(len(values) - 1, int(share * len(values)))] if values else 0.0


def slice_of(play: PlayedScenario) -> float:
    """Width of a slice of the timeline."""
    return max(100.0, play.load_ends_ms / SLICES)


def tail_region(reader: str) -> str | None:
    """The region of a tailing reader by its name; None for other readers."""
    return reader.split("-")[1].split("/")[0] if reader.startswith("tail app-") else None


def turns(play: PlayedScenario) -> list[tuple[str, float, float]]:
    """(region, from, to) of who was told to write."""
    writers = play.scenario.workload.writers
    ends = [*(float(turn.at_ms) for turn in writers[1:]), play.load_ends_ms]
    return [(turn.region, float(turn.at_ms), end) for turn, end in zip(writers, ends, strict=True)]


def deliveries(play: PlayedScenario) -> dict[str, dict[bytes, float]]:
    """By region: token to the time of its first delivery to a tailing reader there."""
    found: dict[str, dict[bytes, float]] = {}
    for read in play.history.reads:
        region = tail_region(read.reader)
        if region is None:
            continue
        seen = found.setdefault(region, {})
        for one in read.records:
            token = one.payload[:_TOKEN_BYTES]
            at_ms = one.at_ms - play.start_ms
            seen[token] = min(seen.get(token, at_ms), at_ms)
    return found


def levels_of(play: PlayedScenario) -> list[ServiceLevel]:
    """Every level there is: appends in all and by region, deliveries by region."""
    acked = [one for one in play.in_load() if one.outcome is AppendOutcome.OK]
    spans = turns(play)
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
    mine = [one for one in acked if region in (EVERYWHERE, play.regions.get(one.session))]
    waits = sorted((one.ended_ms or 0.0) - one.called_ms for one in mine)
    times = sorted((one.ended_ms or 0.0) - play.start_ms for one in mine)
    longest = 0.0
    for _, begin, end in spans:
        marks = [begin, *(at for at in times if begin < at < end), end]
        longest = max(longest, *(after - before for before, after in pairwise(marks)))
    return ServiceLevel(
        APPEND, region, len(mine), percentile(waits, 0.5), percentile(waits, 0.99), longest
    )


def _deliver_level(
    play: PlayedScenario, region: str, seen: dict[bytes, float], acked: Iterable[RecordedAppend]
) -> ServiceLevel:
    waits = []
    for one in acked:
        acked_ms = (one.ended_ms or 0.0) - play.start_ms
        came_ms = seen.get(one.token, play.load_ends_ms)
        waits.append(max(0.0, came_ms - acked_ms))
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
    """The timeline of each region."""
    width = slice_of(play)
    count = max(1, int(play.load_ends_ms // width))
    calls = {one.token: one.called_ms - play.start_ms for one in play.history.appends.values()}
    found = {}
    delivered = deliveries(play)
    for region in play.scenario.topology.regions:
        acks: list[list[float]] = [[] for _ in range(count)]
        for one in play.in_load():
            if one.outcome is AppendOutcome.OK and play.regions.get(one.session) == region:
                ended_ms = (one.ended_ms or 0.0) - play.start_ms
                _add(acks, ended_ms / width, (one.ended_ms or 0.0) - one.called_ms)
        comes: list[list[float]] = [[] for _ in range(count)]
        for token, at_ms in delivered.get(region, {}).items():
            if token in calls:
                _add(comes, at_ms / width, at_ms - calls[token])
        found[region] = Series(
            [len(one) for one in acks],
            [len(one) for one in comes],
            [round(median(one), 2) if one else None for one in acks],
            [round(median(one), 2) if one else None for one in comes],
        )
    return found


def _add(slices: list[list[float]], place: float, value: float) -> None:
    if 0 <= place < len(slices):
        slices[int(place)].append(value)
