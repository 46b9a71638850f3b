"""Runs seeds, and has Porcupine judge the history of each: the Go program beside this module."""

import json
import logging
import os
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from typing import IO

from ..checker.history import History
from ..simulation.seed_run import SeedRun, run_plan
from ..simulation.seed_runner import PLANS
from .operations import LogOperation, operations_of

PLANS_USED = ("races", "changes", "conditions", "recoveries", "swarm", "policies", "r-changes")
"""Plans whose streams are never truncated and read completely at the end."""

LINEARIZABLE = "Ok"

_MODULE = Path(__file__).resolve().parent / "porcupine"
_BUILD_S_MAX = 600.0
_BATCHES_A_PROCESS = 30


class PorcupineError(Exception):
    """Porcupine could not be built, or ended with an error."""


@dataclass(frozen=True, slots=True)
class StreamOperations:
    """The operations of one run. ``violations`` are the ids that our own checker found."""

    plan: str
    seed: int
    operations: list[LogOperation]
    violations: tuple[str, ...] = ()

    def line(self) -> str:
        """Return the input of Porcupine."""
        name = f"{self.plan} {self.seed}"
        return json.dumps({"name": name, "operations": self.operations})


@dataclass(frozen=True, slots=True)
class PorcupineVerdict:
    """Porcupine's verdict: ``Ok``, ``Illegal``, or ``Unknown`` if the time did not suffice."""

    name: str
    """The plan and the seed."""
    verdict: str
    operations: int
    seconds: float
    first: str
    """The first operation that does not fit, if the history is illegal."""


def record_seed(plan: str, seed: int) -> StreamOperations:
    """Run a seed and return the operations on its stream."""
    logging.disable(logging.CRITICAL)
    histories: list[History] = []

    def keep(run: SeedRun) -> None:
        histories.append(run.history)

    result = run_plan(PLANS[plan](seed), on_end=keep)
    ids = tuple(violation.id for violation in result.violations)
    return StreamOperations(plan, seed, operations_of(histories[0]), ids)


def record_seeds(
    plans: Iterable[str], operations_min: int, first: int
) -> Iterator[StreamOperations]:
    """Run seeds of all plans in turn until they have that many operations together."""
    names = tuple(plans)
    seeds = ((name, seed) for seed in count(first) for name in names)
    jobs = os.cpu_count() or 1
    total = 0
    with ProcessPoolExecutor(
        jobs, mp_context=get_context("spawn"), max_tasks_per_child=_BATCHES_A_PROCESS
    ) as pool:
        while total < operations_min:
            some = [next(seeds) for _ in range(jobs)]
            for found in pool.map(record_seed, *zip(*some, strict=True)):
                total += len(found.operations)
                yield found


def judge_histories(
    histories: Iterable[StreamOperations], folder: Path
) -> Iterator[PorcupineVerdict]:
    """Yield Porcupine's verdict on each history. Raises PorcupineError.

    ``folder`` receives the program, which needs Go and the Go module proxy to be built.
    """
    program = _built(folder)
    with tempfile.TemporaryFile("w+") as lines:
        for history in histories:
            lines.write(history.line() + "\n")
        lines.seek(0)
        yield from _run(program, lines)


def _built(folder: Path) -> Path:
    program = folder / "porcupine"
    command = ["go", "build", "-C", str(_MODULE), "-o", str(program), "."]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_BUILD_S_MAX)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PorcupineError(f"cannot build Porcupine: {error}") from error
    if done.returncode:
        raise PorcupineError(f"cannot build Porcupine: {done.stderr.strip()}")
    return program


def _run(program: Path, lines: IO[str]) -> Iterator[PorcupineVerdict]:
    with subprocess.Popen(
        [str(program)], stdin=lines, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        for line in process.stdout:
            yield PorcupineVerdict(**json.loads(line))
        errors = process.stderr.read()
    if process.returncode:
        raise PorcupineError(f"Porcupine ended with {process.returncode}: {errors.strip()}")
