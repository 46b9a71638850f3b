"""``python -m rhumbline.chaos.exploration [SCOPE ...]``: explores small scopes exhaustively."""

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

from ..planted_bugs.patch import PlantedBug, load, names
from .page import page
from .scope import Scope
from .scope_run import ScopeOutcome, as_json, known_outcome, run_scope, run_with_bug
from .scopes import SCOPES, scope_of


def main() -> int:
    """Run the command line. Returns 0 if nothing was violated, or if each bug was found."""
    parser = argparse.ArgumentParser(prog="python -m rhumbline.chaos.exploration")
    parser.add_argument("scopes", nargs="*", metavar="SCOPE", help="default: all")
    parser.add_argument(
        "--seconds", type=float, default=600.0, help="limit of the CPU time of each scope"
    )
    parser.add_argument(
        "--save", type=Path, help="folder: continue the searches that were interrupted there"
    )
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="scopes that are searched at a time"
    )
    parser.add_argument(
        "--bugs", nargs="*", metavar="BUG", help="plant these bugs (default: all with a scope)"
    )
    parser.add_argument("--page", type=Path, help="replace the rows of these results in this file")
    parser.add_argument("--json", action="store_true", help="print each result as JSON")
    options = parser.parse_args()
    if options.bugs is not None:
        return _hunt(options.bugs, options.seconds, options.jobs, options.page)
    if options.save is not None:
        options.save.mkdir(parents=True, exist_ok=True)
    scopes = [scope_of(name) for name in options.scopes] or list(SCOPES)
    has_violation = False
    for outcome in _search(scopes, options.seconds, options.save, options.jobs):
        has_violation = has_violation or bool(outcome.found)
        print(as_json(outcome) if options.json else outcome.line(), flush=True)
        if not options.json:
            print("".join(f"{line}\n" for line in outcome.story), end="")
        if options.page is not None:
            _write_page(options.page, [outcome], {})
    return 1 if has_violation else 0


def _search(
    scopes: Sequence[Scope], seconds: float, folder: Path | None, jobs: int
) -> Iterator[ScopeOutcome]:
    """Yield the outcome of each scope when it is known. Each scope has a process of its own, whose
    memory is released when it is done."""
    known = {scope.name: known_outcome(scope, folder) for scope in scopes}
    yield from filter(None, known.values())
    scopes = [scope for scope in scopes if known[scope.name] is None]
    if len(scopes) <= 1:
        yield from (run_scope(scope, seconds, folder) for scope in scopes)
        return
    context = get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context, max_tasks_per_child=1) as pool:
        waiting = [pool.submit(run_scope, scope, seconds, folder) for scope in scopes]
        for found in as_completed(waiting):
            yield found.result()


def _hunt(wanted: list[str], seconds: float, jobs: int, path: Path | None) -> int:
    bugs = [bug for bug in map(load, wanted or names()) if bug.scope]
    is_each_found = True
    with ThreadPoolExecutor(jobs) as pool:
        found = pool.map(lambda bug: run_with_bug(bug, bug.scope, seconds), bugs)
        for bug, outcome in zip(bugs, found, strict=True):
            print(f"{bug.name:<22} {outcome.line()}", flush=True)
            is_each_found = is_each_found and bool(outcome.found)
            if path is not None:
                _write_page(path, [], {bug.name: (bug, outcome)})
    return 0 if is_each_found else 1


def _write_page(
    path: Path, outcomes: list[ScopeOutcome], bugs: dict[str, tuple[PlantedBug, ScopeOutcome]]
) -> None:
    old = path.read_text() if path.exists() else ""
    path.write_text(page(outcomes, bugs, old))


if __name__ == "__main__":
    sys.exit(main())
