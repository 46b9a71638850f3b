"""What came of one run of one scenario, as plain data: kept as JSON, shown by every report."""

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
    """Whom it concerns; empty: everybody."""


@dataclass(frozen=True, slots=True)
class ExpectationResult:
    """Something that was expected, and how it came."""

    text: str
    wanted: str
    found: str
    held: bool


@dataclass(frozen=True, slots=True)
class Invariant:
    """One promise of the product, and what broke it."""

    id: str
    text: str
    is_judged: bool
    """False: this world does not see what it is about."""
    violations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ServiceLevel:
    """A service level of one operation in one region (``*``: all). Times in ms."""

    operation: str
    region: str
    count: int
    p50_ms: float
    p99_ms: float
    unavailable_ms: float
    """The longest time without a success while there should have been one."""


@dataclass(slots=True)
class Series:
    """What happened in one region, by slices of ``ScenarioOutcome.slice_ms``."""

    acked: list[int] = field(default_factory=list)
    delivered: list[int] = field(default_factory=list)
    ack_ms: list[float | None] = field(default_factory=list)
    """Median; None: nothing was acknowledged."""
    deliver_ms: list[float | None] = field(default_factory=list)


@dataclass(slots=True)
class ScenarioOutcome:
    """The whole of it."""

    scenario: str
    title: str
    about: str
    world: str
    seed: int
    wan: str = ""
    """How the wide area was made."""
    lasted_ms: float = 0.0
    """Of the scenario's own time."""
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
    """In the simulator: the fingerprint of the run; the same seed gives the same."""
    broke: str = ""
    """Why the run itself could not be played to its end."""
    slice_ms: float = 250.0
    checks: list[ExpectationResult] = field(default_factory=list)
    invariants: list[Invariant] = field(default_factory=list)
    levels: list[ServiceLevel] = field(default_factory=list)
    bands: list[Band] = field(default_factory=list)
    series: dict[str, Series] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        """Whether every promise was kept and every expectation held."""
        kept = all(not one.violations for one in self.invariants)
        return kept and not self.broke and all(check.held for check in self.checks)

    @property
    def unavailable_ms(self) -> float:
        """The longest time in which nobody's append was acknowledged."""
        found = [one.unavailable_ms for one in self.levels if one.region == "*"]
        return max(found, default=0.0)

    @property
    def faults(self) -> list[str]:
        """Everything that is wrong, one line each."""
        found = [self.broke] if self.broke else []
        found += [f"{one.id}: {text}" for one in self.invariants for text in one.violations]
        found += [f"{c.text}: {c.found}, wanted {c.wanted}" for c in self.checks if not c.held]
        return found

    @property
    def command(self) -> str:
        """How to play it again."""
        seed = f" --seed {self.seed}" if self.world == "sim" else ""
        return f"rhumbline chaos run {self.scenario} --world {self.world}{seed}"

    def save(self, folder: Path) -> Path:
        """Writes it into a folder, which is made if it is missing; returns the file."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.scenario}-{self.world}-{self.seed}.json"
        path.write_text(json.dumps({"format": FORMAT, **asdict(self)}))
        return path


def load_outcome(path: Path) -> ScenarioOutcome:
    """Reads ``ScenarioOutcome.save``. Raises CorruptionError."""
    try:
        data: dict[str, Any] = json.loads(path.read_text())
        if data.pop("format", None) != FORMAT:
            raise CorruptionError(f"{path}: not an outcome of this version")
        bands = [Band(**{**b, "regions": tuple(b["regions"])}) for b in data.pop("bands")]
        checks = [ExpectationResult(**one) for one in data.pop("checks")]
        levels = [ServiceLevel(**one) for one in data.pop("levels")]
        series = {name: Series(**one) for name, one in data.pop("series").items()}
        invariants = [
            Invariant(**{**one, "violations": tuple(one["violations"])})
            for one in data.pop("invariants")
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
        raise CorruptionError(f"{path}: not an outcome: {error}") from error


def load_folder(folder: Path) -> list[ScenarioOutcome]:
    """Every outcome in a folder, by name. Raises CorruptionError."""
    return [load_outcome(path) for path in sorted(folder.glob("*.json"))]
