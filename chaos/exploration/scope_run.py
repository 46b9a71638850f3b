"""Runs scopes and prints what they prove: for the command line, for CI and for planted bugs."""

import gc
import json
import logging
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from ..planted_bugs.patch import PlantedBug, copy_with
from .explorer import Explorer, SearchResult
from .scope import Scope
from .story import story_of

_PROGRESS_EVERY_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class ScopeOutcome:
    """The outcome of one scope. ``found`` is the violation, empty if there is none."""

    scope: str
    states: int
    transitions: int
    schedules: int
    finals: int
    local_states: int
    seconds: float
    is_complete: bool
    found: str = ""
    story: tuple[str, ...] = ()

    @property
    def invariant(self) -> str:
        """The id of the violated invariant."""
        return self.found.partition(":")[0]

    def line(self) -> str:
        """Return the outcome in one line."""
        rate = self.states / max(self.seconds, 0.001)
        end = (
            f"VIOLATED {self.invariant}"
            if self.found
            else ("exhausted" if self.is_complete else "not exhausted")
        )
        return (
            f"{self.scope:<18} {self.states:>9} states {self.schedules:>9} schedules "
            f"{self.finals:>5} final states {self.local_states:>6} local states "
            f"{self.seconds:>7.1f} s {rate:>7.0f} states/s  {end}"
        )


def run_scope(scope: Scope, seconds_max: float, folder: Path | None = None) -> ScopeOutcome:
    """Explore a scope for a time. Progress is printed to the standard error output.

    ``folder`` keeps interrupted searches, which are continued, and the outcomes of the others,
    which are returned. The search is saved there at intervals too.
    """
    known = known_outcome(scope, folder)
    if known is not None:
        return known
    logging.disable(logging.CRITICAL)
    gc.disable()  # whole searches create no garbage in cycles but processes, which are ended
    try:
        outcome = _search(scope, seconds_max, folder / f"{scope.name}.search" if folder else None)
    finally:
        gc.enable()
        logging.disable(logging.NOTSET)
    if folder is not None and outcome.is_complete:
        (folder / f"{scope.name}.outcome").write_text(as_json(outcome))
    return outcome


def known_outcome(scope: Scope, folder: Path | None) -> ScopeOutcome | None:
    """Return the outcome that ``folder`` keeps, None if it keeps none."""
    done = folder / f"{scope.name}.outcome" if folder is not None else None
    return from_json(done.read_text()) if done is not None and done.exists() else None


def _search(scope: Scope, seconds_max: float, saved: Path | None) -> ScopeOutcome:
    explorer = scope.explorer()
    if saved is not None and saved.exists():
        explorer.resume(saved)
    end = explorer.result.seconds + seconds_max
    while True:
        left = end - explorer.result.seconds
        result = explorer.run(min(left, _PROGRESS_EVERY_SECONDS))
        is_over = result.is_complete or bool(result.violations)
        if saved is not None:
            if result.is_complete:
                saved.unlink(missing_ok=True)
            elif not is_over:
                explorer.save(saved)
        if is_over or result.seconds >= end or left < _PROGRESS_EVERY_SECONDS:
            return _outcome(scope, explorer, result)
        print(f"{scope.name}: {explorer.progress()}", file=sys.stderr, flush=True)


def _outcome(scope: Scope, explorer: Explorer, result: SearchResult) -> ScopeOutcome:
    violation = result.violations[0] if result.violations else None
    outcome = ScopeOutcome(
        scope.name,
        result.states,
        result.transitions,
        result.schedules,
        result.finals,
        result.local_states,
        result.seconds,
        result.is_complete,
        violation.text if violation else "",
        tuple(story_of(explorer, violation)) if violation else (),
    )
    explorer.states.close()
    return outcome


def run_with_bug(bug: PlantedBug | None, scope: str, seconds_max: float) -> ScopeOutcome:
    """Explore a scope in a copy of the package with a planted bug, without its assertions.

    Raises PatchError if the patch does not apply, RuntimeError if the search itself failed.
    """
    with tempfile.TemporaryDirectory(prefix="rhumbline-scope-") as folder:
        copy_with(bug, Path(folder))
        command = [sys.executable, "-O", "-m", "rhumbline.chaos.exploration", scope]
        command += ["--seconds", str(seconds_max), "--json"]
        environment = {**os.environ, "PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=4 * seconds_max + 120,
            check=False,
        )
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        if not lines:
            raise RuntimeError(done.stderr[-2000:])
        return from_json(lines[-1])


def as_json(outcome: ScopeOutcome) -> str:
    """Return the outcome as one line of JSON."""
    return json.dumps(asdict(outcome))


def from_json(line: str) -> ScopeOutcome:
    """Return the outcome that ``as_json`` wrote."""
    found = json.loads(line)
    return ScopeOutcome(**{**found, "story": tuple(found["story"])})
