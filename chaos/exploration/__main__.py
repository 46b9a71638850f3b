"""``python -m rhumbline.chaos.exploration [SCOPE ...]``: explores small scopes exhaustively."""

import argparse
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ..planted_bugs.patch import PlantedBug, load, names
from .page import page
from .scope_run import ScopeOutcome, as_json, run_scope, run_with_bug
from .scopes import SCOPES, scope_of


def main() -> int:
    """Run the command line. Returns 0 if nothing was violated, or if each bug was found."""
    parser = argparse.ArgumentParser(prog="python -m rhumbline.chaos.exploration")
    parser.add_argument("scopes", nargs="*", metavar="SCOPE", help="default: all")
    parser.add_argument("--seconds", type=float, default=600.0, help="time limit of each scope")
    parser.add_argument(
        "--save", type=Path, help="folder: continue the searches that were interrupted there"
    )
    parser.add_argument(
        "--bugs", nargs="*", metavar="BUG", help="plant these bugs (default: all with a scope)"
    )
    parser.add_argument("--page", type=Path, help="replace the rows of these results in this file")
    parser.add_argument("--json", action="store_true", help="print each result as JSON")
    options = parser.parse_args()
    if options.bugs is not None:
        return _hunt(options.bugs, options.seconds, options.page)
    outcomes = []
    for scope in [scope_of(name) for name in options.scopes] or SCOPES:
        saved = options.save / f"{scope.name}.json" if options.save else None
        outcome = run_scope(scope, options.seconds, saved)
        outcomes.append(outcome)
        print(as_json(outcome) if options.json else outcome.line(), flush=True)
        if not options.json:
            print("".join(f"{line}\n" for line in outcome.story), end="")
    if options.page is not None:
        _write_page(options.page, outcomes, {})
    return 1 if any(outcome.found for outcome in outcomes) else 0


def _hunt(wanted: list[str], seconds: float, path: Path | None) -> int:
    bugs = [bug for bug in map(load, wanted or names()) if bug.scope]
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        found = list(pool.map(lambda bug: run_with_bug(bug, bug.scope, seconds), bugs))
    for bug, outcome in zip(bugs, found, strict=True):
        print(f"{bug.name:<22} {outcome.line()}")
    if path is not None:
        results = {bug.name: (bug, outcome) for bug, outcome in zip(bugs, found, strict=True)}
        _write_page(path, [], results)
    return 0 if all(outcome.found for outcome in found) else 1


def _write_page(
    path: Path, outcomes: list[ScopeOutcome], bugs: dict[str, tuple[PlantedBug, ScopeOutcome]]
) -> None:
    old = path.read_text() if path.exists() else ""
    path.write_text(page(outcomes, bugs, old))


if __name__ == "__main__":
    sys.exit(main())
