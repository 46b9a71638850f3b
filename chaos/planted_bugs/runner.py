"""Hunts planted bugs in parallel, each in its own copy of the package and its own process."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from .hunt import is_find
from .patch import PatchError, PlantedBug, copy_with, load

SEEDS_MAX = 300
SECONDS_MAX = 900.0
NONE = "none"
"""The name that stands for the unchanged package, in which nothing may be found."""


@dataclass(frozen=True, slots=True)
class HuntResult:
    """The result of hunting one bug. ``found_by``: ids of violated invariants; empty: not found."""

    name: str
    title: str
    plan: str
    seeds: int
    seconds: float
    found_by: tuple[str, ...] = ()
    seed: int | None = None
    seed_plan: str = ""
    """The plan of ``seed``; it differs from ``plan`` only if ``plan`` is ``everything``."""
    text: str = ""
    crashes: int = 0
    """Number of seeds that failed, but not by a violation that counts."""
    errors: str = ""

    @property
    def is_found(self) -> bool:
        """True if the checker found the bug."""
        return bool(self.found_by)


@dataclass(slots=True)
class Budget:
    """Limits for the hunt of each bug."""

    seeds: int = SEEDS_MAX
    seconds: float = SECONDS_MAX
    first: int = 1
    jobs: int = 0
    plan: str | None = None
    """Used instead of the plan that the bug names."""
    on_outcome: Callable[[HuntResult], None] = field(default=lambda outcome: None)


def hunt_all(names: Sequence[str], budget: Budget) -> list[HuntResult]:
    """Return one result for each name, in order. No process is left behind."""

    def hunt(name: str) -> HuntResult:
        outcome = hunt_one(name, budget)
        budget.on_outcome(outcome)
        return outcome

    with ThreadPoolExecutor(budget.jobs or os.cpu_count() or 1) as pool:
        return list(pool.map(hunt, names))


def hunt_one(name: str, budget: Budget) -> HuntResult:
    """Plant one bug in a new copy of the package and run seeds in it.

    A violation counts only if the unchanged package has none in the same seed.
    """
    if name == NONE:
        bug, title, plan = None, "the unchanged package", "races"
    else:
        bug = load(name)
        title, plan = bug.title, bug.plan
    plan = budget.plan or plan
    with tempfile.TemporaryDirectory(prefix="rhumbline-planted-bug-") as folder:
        try:
            lines, errors = _run(bug, Path(folder), plan, budget)
        except PatchError as error:
            lines, errors = [], str(error)
    counts = bug.counts if bug is not None else ()
    outcome = _outcome(name, title, plan, lines, errors, budget, counts)
    if bug is None or outcome.seed is None:
        return outcome
    control = hunt_one(NONE, replace(budget, first=outcome.seed, seeds=1, plan=outcome.seed_plan))
    if control.seeds == 1 and not control.is_found and not control.crashes:
        return outcome
    errors = f"seed {outcome.seed} also fails in the unchanged package: {control.text}"
    left_s = budget.seconds - outcome.seconds
    if outcome.seeds == budget.seeds or left_s <= 0:
        return replace(outcome, found_by=(), seed=None, errors=errors)
    rest = replace(
        budget, first=outcome.seed + 1, seeds=budget.seeds - outcome.seeds, seconds=left_s
    )
    later = hunt_one(name, rest)
    return replace(
        later,
        seeds=outcome.seeds + later.seeds,
        seconds=outcome.seconds + later.seconds,
        crashes=outcome.crashes + later.crashes,
    )


def _run(
    bug: PlantedBug | None, folder: Path, plan: str, budget: Budget
) -> tuple[list[dict[str, object]], str]:
    copy_with(bug, folder)
    command = [sys.executable, "-O", "-m", "rhumbline.chaos.planted_bugs.hunt"]
    command += [plan, str(budget.first), str(budget.seeds)]
    command += bug.counts if bug is not None else ()
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        out, errors = process.communicate(timeout=budget.seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        out, errors = process.communicate()
        errors = ""
    return [json.loads(line) for line in out.splitlines() if line.endswith("}")], errors


def _outcome(
    name: str,
    title: str,
    plan: str,
    lines: list[dict[str, object]],
    errors: str,
    budget: Budget,
    counts: Sequence[str],
) -> HuntResult:
    seeds, seconds, crashes = 0, budget.seconds, 0
    found_by: tuple[str, ...] = ()
    seed: int | None = None
    seed_plan = text = ""
    for line in lines:
        if "seeds" in line:
            seeds, seconds = int(str(line["seeds"])), float(str(line["seconds"]))
            continue
        found = line["found"]
        assert isinstance(found, list)
        seed_now = int(str(line["seed"]))
        by = dict.fromkeys(name for name, _ in found if is_find(name, counts))
        if by:
            found_by, seed, seed_plan = tuple(by), seed_now, str(line["plan"])
            text = next(text for violated, text in found if violated in by)
        else:
            crashes += 1
            text = text or found[0][1].strip().splitlines()[-1]
    return HuntResult(
        name, title, plan, seeds, seconds, found_by, seed, seed_plan, text, crashes, errors
    )
