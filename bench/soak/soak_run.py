"""Runs a soak, samples it, and sums it up.

One bookie is killed repeatedly, and stays down for longer than repair waits, so that its
copies are made anew; each return begins its memory anew, so its memory and descriptors are shown
and not judged.
"""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ...chaos.lab.dashboards.dashboard_picture import Mark, draw_dashboard, show_value
from ...chaos.lab.dashboards.panel_series import Line, PanelPicture
from ...chaos.managed_process import ManagedProcess
from ..harness.disk_usage import disk_bytes
from .flatness import DESCRIPTORS, DISK, MEMORY, P50, P99, TOLERANCES, Flatness, judge
from .process_usage import usage_of
from .soak_cluster import LOST_AFTER_S, SoakCluster

OPERATIONS = "operations"
"""The kind of the samples of throughput, which are shown and not judged."""

_KILLS = 6
"""Kills of a bookie in a run."""

_DOWN_S = LOST_AFTER_S + 15.0
_KILL_EVERY_S_MIN = 3 * _DOWN_S
_STOP_S_MAX = 180.0

Series = dict[str, list[tuple[float, float]]]


@dataclass
class SoakReport:
    """The samples and the outcome of a run."""

    span_s: float = 0.0
    samples: dict[str, Series] = field(default_factory=dict)
    """By kind, then by name: (seconds since the start, value)."""
    kills: list[tuple[float, str]] = field(default_factory=list)
    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    """The last counts of each application."""
    faults: list[str] = field(default_factory=list)
    unjudged: tuple[str, ...] = ()
    """Processes that were restarted."""

    def add(self, kind: str, name: str, at_s: float, value: float) -> None:
        """Add a sample."""
        self.samples.setdefault(kind, {}).setdefault(name, []).append((at_s, value))

    def judgements(self) -> list[Flatness]:
        """Judge every series, except the memory and descriptors of restarted processes."""
        return [
            judge(kind, name, points, self.span_s)
            for kind, series in self.samples.items()
            if kind in TOLERANCES
            for name, points in series.items()
            if not (kind in (MEMORY, DESCRIPTORS) and name in self.unjudged)
        ]

    @property
    def is_clean(self) -> bool:
        """True if nothing was lost, nothing failed and everything is flat."""
        lost = sum(counts.get("lost", 0) for counts in self.counts.values())
        return not lost and not self.faults and all(one.is_flat for one in self.judgements())

    def lines(self) -> list[str]:
        """Return the outcome for people."""
        found = [f"{self.span_s / 60:.1f} minutes, {len(self.kills)} kills of a bookie"]
        for name, counts in self.counts.items():
            found.append(f"{name}: " + ", ".join(f"{n:,} {word}" for word, n in counts.items()))
        for one in self.judgements():
            unit = _UNITS[one.kind]
            shown = [show_value(value, unit) for value in (one.median, one.growth, one.allowed)]
            verdict = "flat" if one.is_flat else "GROWS"
            if one.is_judged:
                text = f"median {shown[0]}, growth {shown[1]}, allowed {shown[2]}: {verdict}"
            else:
                text = f"{one.samples} samples are too few"
            found.append(f"{one.kind:<11} {one.name:<14} {text}")
        return [*found, *self.faults, "clean" if self.is_clean else "NOT CLEAN"]

    def plot(self, title: str) -> str:
        """Return the samples as an SVG document."""
        panels = [
            PanelPicture(
                _TITLES[kind],
                {"x": 12 * (number % 2), "y": 10 * (number // 2), "w": 12, "h": 10},
                unit=_UNITS[kind],
                lines=[Line(name, points) for name, points in self.samples.get(kind, {}).items()],
            )
            for number, kind in enumerate((MEMORY, DESCRIPTORS, P50, P99, DISK, OPERATIONS))
        ]
        marks = [Mark(at_s, f"the kills of {name}") for at_s, name in self.kills]
        return draw_dashboard(title, panels, self.span_s, marks)


_UNITS = {
    MEMORY: "bytes",
    DESCRIPTORS: "short",
    DISK: "bytes",
    P50: "s",
    P99: "s",
    OPERATIONS: "ops",
}
_TITLES = {
    MEMORY: "Anonymous memory of each process",
    DESCRIPTORS: "Open descriptors of each process",
    DISK: "Disk",
    P50: "Duration of an operation of each application, median",
    P99: "Duration of an operation of each application, 99th percentile",
    OPERATIONS: "Operations of each application",
}


class SoakRun:
    """One run, whose files are below ``folder``."""

    def __init__(self, folder: Path, seconds: float, log: Callable[[str], None]) -> None:
        self._seconds = seconds
        self._period_s = min(60.0, max(5.0, seconds / 20))
        self._kill_every_s = max(_KILL_EVERY_S_MIN, seconds / _KILLS)
        self._log = log
        self._cluster = SoakCluster(folder, self._period_s)
        self._report = SoakReport()
        self._began = 0.0
        self._down_until: float | None = None

    def run(self) -> SoakReport:
        """Start everything, sample it, stop the applications and let them verify."""
        cluster = self._cluster
        with cluster.running():
            self._began = time.monotonic()
            self._log("everything runs")
            kill_at = self._kill_every_s / 2
            while (at_s := self._now()) < self._seconds:
                if at_s >= kill_at and at_s + _DOWN_S < self._seconds:
                    self._kill()
                    kill_at += self._kill_every_s
                if self._down_until is not None and at_s >= self._down_until:
                    self._return()
                self._sample()
                wait_s = self._period_s - (self._now() - at_s)
                time.sleep(max(0.1, min(wait_s, self._seconds - self._now())))
            self._report.span_s = self._now()
            if self._down_until is not None:
                self._return()
            self._log("the applications stop")
            for application in cluster.applications:
                if application.stop(_STOP_S_MAX):
                    self._report.faults.append(f"{application}: {application.end_of_log()}")
            for process in (*cluster.bookies, *cluster.proxies, *cluster.services):
                if not process.is_running:
                    self._note_end(process)
        self._read_applications()
        return self._report

    def _now(self) -> float:
        return time.monotonic() - self._began

    def _kill(self) -> None:
        victim = self._cluster.victim
        self._log(f"kill {victim.name} for {_DOWN_S:g} s")
        victim.kill()
        self._report.kills.append((self._now(), victim.name))
        self._report.unjudged = (victim.name,)
        self._down_until = self._now() + _DOWN_S

    def _return(self) -> None:
        self._down_until = None
        self._cluster.victim.start()

    def _sample(self) -> None:
        report, at_s = self._report, self._now()
        for process in self._cluster.processes():
            usage = usage_of(process.pid) if process.is_running else None
            if usage is not None:
                report.add(MEMORY, process.name, at_s, usage.memory)
                report.add(DESCRIPTORS, process.name, at_s, usage.descriptors)
            elif process is not self._cluster.victim:
                self._note_end(process)
        for name, folder in self._cluster.folders().items():
            report.add(DISK, name, at_s, disk_bytes(folder))
        metadata = self._cluster.folder.glob("metadata.db*")
        report.add(DISK, "metadata", at_s, sum(path.stat().st_size for path in metadata))

    def _note_end(self, process: ManagedProcess) -> None:
        if not any(fault.startswith(repr(process)) for fault in self._report.faults):
            self._report.faults.append(f"{process!r}: {process.end_of_log()}")

    def _read_applications(self) -> None:
        for application in self._cluster.applications:
            path = self._cluster.report_of(application)
            rows = [json.loads(line) for line in path.read_text().splitlines()]
            for row in rows:
                if "p50" in row:
                    at_s = row["at"] - self._began
                    rate = row["n"] / self._period_s
                    self._report.add(OPERATIONS, application.name, at_s, rate)
                    self._report.add(P50, application.name, at_s, row["p50"])
                    self._report.add(P99, application.name, at_s, row["p99"])
            if not rows or not rows[-1].pop("done", False):
                self._report.faults.append(f"{application.name} did not end its work")
                continue
            self._report.counts[application.name] = rows[-1]
