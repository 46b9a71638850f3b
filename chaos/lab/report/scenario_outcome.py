"""The judged outcome of one scenario run: plain data, stored as JSON and shown by all reports."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ....core.protocol.errors import CorruptionError

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Band:
    """A fault on the timeline."""

    begin_ms: float
    end_ms: float
    text: str
    regions: tuple[str, ...]
    """The affected regions; empty: all regions."""


@dataclass(frozen=True, slots=True)
class ExpectationResult:
    """One expectation, with the expected and the measured value."""

    text: str
    wanted: str
    found: str
    held: bool


@dataclass(frozen=True, slots=True)
class Invariant:
    """One invariant of the product, with its violations."""

    id: str
    text: str
    is_judged: bool
    """False if this world cannot observe what the invariant is about."""
    violations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ServiceLevel:
    """The service level of one operation in one region (``*``: all regions together)."""

    operation: str
    region: str
    count: int
    p50_ms: float
    p99_ms: float
    unavailable_ms: float
    """The longest time without a success while success was expected."""


@dataclass(slots=True)
class Series:
    """Counts and latencies of one region per time slice of ``ScenarioOutcome.slice_ms``."""

    acked: list[int] = field(default_factory=list)
    delivered: list[int] = field(default_factory=list)
    ack_ms: list[float | None] = field(default_factory=list)
    """Median append latency per slice; None: nothing was acknowledged."""
    deliver_ms: list[float | None] = field(default_factory=list)
    """Median time from append to delivery per slice; None: nothing was delivered."""


@dataclass(slots=True)
class ScenarioOutcome:
    """The outcome of one scenario run."""

    scenario: str
    title: str
    about: str
    world: str
    seed: int
    wan: str = ""
    """A description of how the wide-area network was emulated."""
    lasted_ms: float = 0.0
    """Duration on the scenario's own clock, which is virtual in the simulator."""
    real_s: float = 0.0
    acked: int = 0
    unknown: int = 0
    failed: int = 0
    lost: int = 0
    doubled: int = 0
    delivered: int = 0
    resume_ms: float | None = None
    whole_ms: float | None = None
    digest: str = ""
    """The fingerprint of a simulated run, which is equal for equal seeds."""
    broke: str = ""
    """The error that ended the run early; empty: none."""
    slice_ms: float = 250.0
    checks: list[ExpectationResult] = field(default_factory=list)
    invariants: list[Invariant] = field(default_factory=list)
    levels: list[ServiceLevel] = field(default_factory=list)
    bands: list[Band] = field(default_factory=list)
    series: dict[str, Series] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        """True if every invariant and every expectation held and the run was complete."""
        has_violations = any(invariant.violations for invariant in self.invariants)
        return not has_violations and not self.broke and all(check.held for check in self.checks)

    @property
    def unavailable_ms(self) -> float:
        """The longest time in which no append was acknowledged in any region."""
        times = [level.unavailable_ms for level in self.levels if level.region == "*"]
        return max(times, default=0.0)

    @property
    def problems(self) -> list[str]:
        """Everything that makes the outcome fail, one string per problem."""
        problems = [self.broke] if self.broke else []
        problems += [
            f"{invariant.id}: {text}"
            for invariant in self.invariants
            for text in invariant.violations
        ]
        problems += [
            f"{check.text}: {check.found}, expected {check.wanted}"
            for check in self.checks
            if not check.held
        ]
        return problems

    @property
    def command(self) -> str:
        """The command that plays the scenario again."""
        seed = f" --seed {self.seed}" if self.world == "sim" else ""
        return f"rhumbline chaos run {self.scenario} --world {self.world}{seed}"

    def save(self, folder: Path) -> Path:
        """Write the outcome into a folder, which is created if needed, and return the file."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.scenario}-{self.world}-{self.seed}.json"
        path.write_text(json.dumps({"format": FORMAT, **asdict(self)}))
        return path


def load_outcome(path: Path) -> ScenarioOutcome:
    """Read a file that ``ScenarioOutcome.save`` wrote. Raises CorruptionError."""
    try:
        data: dict[str, Any] = json.loads(path.read_text())
        if data.pop("format", None) != FORMAT:
            raise CorruptionError(f"{path}: not a scenario outcome of format {FORMAT}")
        bands = [
            Band(**{**fields, "regions": tuple(fields["regions"])}) for fields in data.pop("bands")
        ]
        checks = [ExpectationResult(**fields) for fields in data.pop("checks")]
        levels = [ServiceLevel(**fields) for fields in data.pop("levels")]
        series = {name: Series(**fields) for name, fields in data.pop("series").items()}
        invariants = [
            Invariant(**{**fields, "violations": tuple(fields["violations"])})
            for fields in data.pop("invariants")
        ]
        return ScenarioOutcome(
            **data,
            bands=bands,
            checks=checks,
            levels=levels,
            series=series,
            invariants=invariants,
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise CorruptionError(f"{path}: not a scenario outcome: {error}") from error


def load_folder(folder: Path) -> list[ScenarioOutcome]:
    """Read every outcome in a folder, sorted by file name. Raises CorruptionError."""
    return [load_outcome(path) for path in sorted(folder.glob("*.json"))]
