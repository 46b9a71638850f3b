"""Hunts mutations, several at a time, each in a copy of the package and a process of its own."""

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
"""The name of the unchanged package: nothing may be found in it."""


@dataclass(frozen=True, slots=True)
class HuntResult:
    """What came of hunting one mutation. ``found_by``: ids of invariants, empty: not found."""

    name: str
    title: str
    plan: str
    seeds: int
    seconds: float
    found_by: tuple[str, ...] = ()
    seed: int | None = None
    text: str = ""
    crashes: int = 0
    """Seeds in which the code broke down without the checker's help."""
    errors: str = ""

    @property
    def is_found(self) -> bool:
        """Whether an invariant of the checker was broken."""
        return bool(self.found_by)


@dataclass(slots=True)
class Budget:
    """How much is tried for each mutation."""

    seeds: int = SEEDS_MAX
    seconds: float = SECONDS_MAX
    first: int = 1
    jobs: int = 0
    plan: str | None = None
    """Instead of the mutation's own."""
    on_outcome: Callable[[HuntResult], None] = field(default=lambda outcome: None)


def hunt_all(names: Sequence[str], budget: Budget) -> list[HuntResult]:
    """One outcome for each name, in their order. Leaves no process behind."""

    def one(name: str) -> HuntResult:
        outcome = hunt_one(name, budget)
        budget.on_outcome(outcome)
        return outcome

    with ThreadPoolExecutor(budget.jobs or os.cpu_count() or 1) as pool:
        return list(pool.map(one, names))


def hunt_one(name: str, budget: Budget) -> HuntResult:
    """Applies the mutation to a fresh copy and runs seeds in it.

    What it finds counts only if the unchanged package is without fault in that very seed.
    """
    if name == NONE:
        mutation, title, plan = None, "the package as it is", "races"
    else:
        mutation = load(name)
        title, plan = mutation.title, mutation.plan
    plan = budget.plan or plan
    with tempfile.TemporaryDirectory(prefix="rhumbline-mutation-") as folder:
        try:
            lines, errors = _run(mutation, Path(folder), plan, budget)
        except PatchError as error:
            lines, errors = [], str(error)
    counts = mutation.counts if mutation is not None else ()
    outcome = _outcome(name, title, plan, lines, errors, budget, counts)
    if mutation is None or outcome.seed is None:
        return outcome
    control = hunt_one(NONE, replace(budget, first=outcome.seed, seeds=1, plan=plan))
    if control.seeds == 1 and not control.is_found and not control.crashes:
        return outcome
    words = f"seed {outcome.seed} fails in the unchanged package, too: {control.text}"
    left_s = budget.seconds - outcome.seconds
    if outcome.seeds == budget.seeds or left_s <= 0:
        return replace(outcome, found_by=(), seed=None, errors=words)
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
    mutation: PlantedBug | None, folder: Path, plan: str, budget: Budget
) -> tuple[list[dict[str, object]], str]:
    copy_with(mutation, folder)
    command = [sys.executable, "-O", "-m", "rhumbline.chaos.planted_bugs.hunt"]
    command += [plan, str(budget.first), str(budget.seeds)]
    command += mutation.counts if mutation is not None else ()
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
    text = ""
    for line in lines:
        if "seeds" in line:
            seeds, seconds = int(str(line["seeds"])), float(str(line["seconds"]))
            continue
        found = line["found"]
        assert isinstance(found, list)
        seed_now = int(str(line["seed"]))
        by = dict.fromkeys(one for one, _ in found if is_find(one, counts))
        if by:
            found_by, seed = tuple(by), seed_now
            text = next(words for one, words in found if one in by)
        else:
            crashes += 1
            text = text or found[0][1].strip().splitlines()[-1]
    return HuntResult(name, title, plan, seeds, seconds, found_by, seed, text, crashes, errors)
