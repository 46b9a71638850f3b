"""``python -m rhumbline.tests.mutants [MODULE or FOLDER ...]``: mutation testing."""

import argparse
import os
import sys
from collections import Counter
from pathlib import Path
from random import Random

from rhumbline.tests.mutants import baseline, exclusions, page, selection
from rhumbline.tests.mutants.equivalents import read_equivalents, row_of
from rhumbline.tests.mutants.fork_server import INVALID, SURVIVED
from rhumbline.tests.mutants.imported_root import check_imported_root
from rhumbline.tests.mutants.mutation import Mutant, Mutants, find_mutants
from rhumbline.tests.mutants.runner import Progress, Result, Runner

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ["core/protocol", "core/ledger", "core/bookie"]
PRODUCT = "core"


def main() -> int:
    """Run the command line; returns 0 if every mutant was tried."""
    parser = argparse.ArgumentParser(prog="python -m rhumbline.tests.mutants")
    parser.add_argument("only", nargs="*", default=PACKAGES, help="modules or folders")
    parser.add_argument("--sample", type=int, default=0, help="mutants of each argument; 0: all")
    parser.add_argument("--seed", type=int, default=1, help="seed of the sample")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--pool", nargs="*", help="folders of tests; default: those of the arguments' packages"
    )
    parser.add_argument("--budget", type=float, default=selection.BUDGET_S, metavar="SECONDS",
                        help="CPU time of the tests of one mutant")  # fmt: skip
    parser.add_argument("--list", action="store_true", help="print the mutants, run nothing")
    parser.add_argument("--page", type=Path, help="write the results of the arguments to this page")
    parser.add_argument("--name", default="now", help="name of this measurement on the page")
    options = parser.parse_args()

    check_imported_root(Path.cwd())
    found = {folder: find(folder) for folder in options.only}
    chosen = {
        folder: sample([m for part in parts for m in part.mutants], options.sample, options.seed)
        for folder, parts in found.items()
    }
    mutants = [mutant for part in chosen.values() for mutant in part]
    if options.list:
        print(*mutants, sep="\n")
        return 0
    pool = options.pool or sorted({selection.package_folder(f"{only}/") for only in options.only})
    measured = baseline.measure(ROOT, PRODUCT, pool, ROOT / "build/mutants")
    equivalents = read_equivalents()
    runner = Runner(ROOT, pool, measured, options.workers, options.budget)
    results = runner.run(mutants, Progress(len(mutants), lambda m: m.key in equivalents))
    write_survivors(results, equivalents)
    measures = []
    for folder, parts in found.items():
        keys = {mutant.key for mutant in chosen[folder]}
        measure = page.Measure(
            folder, options.seed, sum(len(part.mutants) for part in parts),
            sum((part.left_out for part in parts), Counter()),
            [result for result in results if result.mutant.key in keys],
        )  # fmt: skip
        measures.append(measure)
        print(measure.summary(equivalents))
    if options.page is not None:
        options.page.write_text(page.updated(options.page, measures, equivalents, options.name))
    return 0


def find(only: str) -> list[Mutants]:
    """Return the mutants of a module, or of all modules in a folder."""
    path = ROOT / only
    modules = [path] if path.is_file() else sorted(path.rglob("*.py"))
    if not modules:
        raise SystemExit(f"no module in {only}")
    enums = exclusions.internal_enumerations(ROOT, PRODUCT)
    return [find_mutants(ROOT, str(module.relative_to(ROOT)), enums) for module in modules]


def sample(mutants: list[Mutant], count: int, seed: int) -> list[Mutant]:
    """Return a random sample, the same for the same seed, in the order of the modules."""
    if not 0 < count < len(mutants):
        return mutants
    picked = Random(seed).sample(range(len(mutants)), count)
    return [mutants[number] for number in sorted(picked)]


def write_survivors(results: list[Result], equivalents: dict[tuple[str, ...], str]) -> None:
    """Write the survivors as rows that can be copied into equivalent.toml."""
    rows = [
        f"# line {result.mutant.line}\n{row_of(result.mutant)}"
        for result in results
        if result.outcome == SURVIVED and result.mutant.key not in equivalents
    ]
    invalid = sum(result.outcome == INVALID for result in results)
    path = ROOT / "build/mutants/survivors.toml"
    path.write_text("\n".join(rows))
    print(f"{len(rows)} survivors are in {path.relative_to(ROOT)}; {invalid} do not compile")


if __name__ == "__main__":
    sys.exit(main())
