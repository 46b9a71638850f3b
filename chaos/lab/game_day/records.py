"""Compares what applications were told with what the streams contain. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

_SHOWN = 5


@dataclass
class Outcomes:
    """The outcomes of the applications' records."""

    acked: dict[str, list[int]] = field(default_factory=dict)
    """The numbers that were acknowledged, by stream."""
    unknown: int = 0
    """The number of records whose outcome is not known."""
    times_s: dict[str, list[float]] = field(default_factory=dict)
    """When records were acknowledged, on the monotonic clock, by stream."""

    def longest_gap_s(self, began_s: float, ended_s: float) -> float:
        """Return the longest time between two times in which a stream had no acknowledgement."""
        return max(
            (_longest_gap_s(times, began_s, ended_s) for times in self.times_s.values()),
            default=ended_s - began_s,
        )


def _longest_gap_s(times_s: Iterable[float], began_s: float, ended_s: float) -> float:
    inside = sorted(at for at in times_s if began_s < at < ended_s)
    return max(after - before for before, after in pairwise([began_s, *inside, ended_s]))


def parse_outcomes(lines: Iterable[str]) -> Outcomes:
    """Read the lines that the load process wrote; a last line that is not complete is ignored."""
    found = Outcomes()
    for line in lines:
        if not line.endswith("\n"):
            continue
        stream, number, outcome, at = line.split()
        if outcome == "acked":
            found.acked.setdefault(stream, []).append(int(number))
            found.times_s.setdefault(stream, []).append(float(at))
        else:
            found.unknown += 1
    return found


def judge_records(
    acked: Mapping[str, Sequence[int]], read: Mapping[str, Sequence[int]]
) -> list[str]:
    """Return what is wrong with the records that were read: lost, doubled or out of order."""
    faults = []
    for stream, numbers in read.items():
        lost = sorted(set(acked.get(stream, ())) - set(numbers))
        doubled = sorted(number for number, count in Counter(numbers).items() if count > 1)
        if lost:
            faults.append(f"{stream} lost {len(lost)} acknowledged records: {_shown(lost)}")
        if doubled:
            faults.append(f"{stream} has {len(doubled)} records twice: {_shown(doubled)}")
        if any(after < before for before, after in pairwise(numbers)):
            faults.append(f"{stream} is out of order")
    faults += [f"{stream} was not read" for stream in acked if stream not in read]
    return faults


def _shown(numbers: Sequence[int]) -> str:
    more = ", ..." if len(numbers) > _SHOWN else ""
    return ", ".join(map(str, numbers[:_SHOWN])) + more
