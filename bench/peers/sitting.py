"""Runs our benchmarks and those of other systems in turn, and stores every window at once.

The folder of the other systems has a script to set them up (``setup.sh``) and, for each system X,
``run_X.sh`` and ``servers_X.sh``. A script appends its windows to ``$RAW/X.jsonl`` as JSON lines
with the keys of our own rows (``bench.harness.load``).
"""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ...chaos.managed_process import bare_environment, rhumbline_command
from ...core.protocol.errors import ConfigurationError
from ..raw_limits import measure_raw_limits
from .comparison import OWN

OTHERS = ("A", "B", "C")
"""Apache DistributedLog on BookKeeper, Apache Kafka, and NATS JetStream."""

_SECTIONS = {
    "A": ("w1", "w1b", "w2", "w3", "w4"),
    "B": ("w1", "w1b", "w2", "w3", "w4", "w1f", "w1bf", "w2f"),
    "C": ("w1", "w1b", "w2", "w3", "w4", "w1f", "w1bf", "w2f"),
}
_SETUP_S_MAX = 900.0
_TURN_S_MAX = 1_500.0
_STOP_S_MAX = 60.0


@dataclass(frozen=True, slots=True)
class PeerSitting:
    """The turns of a sitting; each turn measures the raw limits and then one system."""

    source: Path
    """The folder with the scripts of the other systems."""
    work: Path
    """Where they are set up and where results are kept."""
    seconds: float
    """Length of each timed window."""
    repetitions: int
    """Number of turns of each system. Every second round runs the systems in reverse order."""
    note: Callable[[str], None]
    """Is called with the progress."""
    raw_seconds: float = 1.0
    """Length of the measurement of each raw limit."""

    @property
    def results(self) -> Path:
        """The file to which every window is appended, as a JSON line."""
        return self.work / "results.jsonl"

    def run(self) -> None:
        """Run all turns that are not stored yet.

        Raises ConfigurationError if the scripts are missing or a turn fails. Safe to repeat: a turn
        that was interrupted runs again, the others do not.
        """
        self._set_up()
        turns = list(self._turns())
        for number, (system, repetition) in enumerate(turns, 1):
            if (system, repetition) in self._finished():
                continue
            started = time.monotonic()
            self.note(f"{number} of {len(turns)}: {system}, repetition {repetition + 1}")
            limits = measure_raw_limits(self.work, seconds=self.raw_seconds)
            raw = [asdict(limit) for limit in limits]
            rows = self._own_rows() if system == OWN else self._rows_of(system)
            self._store(system, repetition, raw, rows)
            self.note(f"  {len(rows)} windows in {time.monotonic() - started:.0f} s")

    def documents(self) -> list[dict[str, Any]]:
        """Return the stored turns: ``system``, ``repetition``, ``raw``, ``rows``."""
        if not self.results.exists():
            return []
        lines = self.results.read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]

    def _turns(self) -> Iterator[tuple[str, int]]:
        for repetition in range(self.repetitions):
            systems = (OWN, *OTHERS)
            yield from (
                (system, repetition) for system in (systems[::-1] if repetition % 2 else systems)
            )

    def _finished(self) -> set[tuple[str, int]]:
        return {(turn["system"], turn["repetition"]) for turn in self.documents()}

    def _store(
        self, system: str, repetition: int, raw: list[dict[str, Any]], rows: list[dict[str, Any]]
    ) -> None:
        turn = {"system": system, "repetition": repetition, "raw": raw, "rows": rows}
        with self.results.open("a", encoding="utf-8") as out:
            out.write(json.dumps(turn) + "\n")

    # --- our own turns ----------------------------------------------------------------------------

    def _own_rows(self) -> list[dict[str, Any]]:
        found = self.work / "own.jsonl"
        found.unlink(missing_ok=True)
        for part in ("write", "tail", "read"):
            options = ["--seconds", f"{self.seconds:g}", "--json", str(found)]
            if part == "tail":
                options += ["--only", "W3-1000,W3-10000"]
            self._call(rhumbline_command("bench", part, *options), _TURN_S_MAX, dict(os.environ))
        return _rows_in(found)

    # --- the other systems ------------------------------------------------------------------------

    @property
    def _harness(self) -> Path:
        return self.work / "others"

    def _set_up(self) -> None:
        if not (self.source / "setup.sh").exists():
            raise ConfigurationError(
                f"{self.source} has no setup.sh; PEERS names the folder with the other systems"
            )
        self.work.mkdir(parents=True, exist_ok=True)
        if not self._harness.exists():
            copy = self.work / "others.new"
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(self.source, copy, copy_function=shutil.copy)
            for folder in (copy, *(path for path in copy.rglob("*") if path.is_dir())):
                folder.chmod(0o755)
            copy.rename(self._harness)
        self.note("set up the other systems")
        self._script("setup.sh", seconds_max=_SETUP_S_MAX)

    def _rows_of(self, system: str) -> list[dict[str, Any]]:
        found = self.work / "raw" / f"{system}.jsonl"
        found.unlink(missing_ok=True)
        servers = f"servers_{system}.sh"
        self._script(servers, "clean", seconds_max=_STOP_S_MAX)
        try:
            self._script(f"run_{system}.sh", *_SECTIONS[system], seconds_max=_TURN_S_MAX)
        finally:
            self._script(servers, "clean", seconds_max=_STOP_S_MAX)
        return _rows_in(found)

    def _script(self, name: str, *arguments: str, seconds_max: float) -> None:
        environment = bare_environment() | {
            "DUR": f"{self.seconds:g}",
            "REPS": "1",
            "RAW": str(self.work / "raw"),
            "DATA": str(self.work / "data"),
            "LOGS": str(self.work / "logs"),
        }
        self._call([str(self._harness / name), *arguments], seconds_max, environment)

    def _call(self, command: list[str], seconds_max: float, environment: dict[str, str]) -> None:
        log = self.work / "output.log"
        with log.open("ab") as out:
            try:
                subprocess.run(
                    command,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    timeout=seconds_max,
                    check=True,
                )
            except (subprocess.SubprocessError, OSError) as err:
                raise ConfigurationError(f"{command[0]} failed, see {log}: {err}") from err


def _rows_in(file: Path) -> list[dict[str, Any]]:
    if not file.exists():
        raise ConfigurationError(f"a benchmark wrote no results to {file}")
    lines = file.read_text(encoding="utf-8").splitlines()
    rows: list[dict[str, Any]] = [json.loads(line) for line in lines if line.startswith("{")]
    return rows
