"""Which tests try a mutant, and in which order."""

from pathlib import Path

from rhumbline.tests.mutants.baseline import AT_IMPORT, Baseline
from rhumbline.tests.mutants.mutation import Mutant

BUDGET_S = 4.0
"""CPU time of the tests of one mutant; the tests of its own test file always run."""


def mirrored_file(module: str) -> str:
    """Return the test file that mirrors a module."""
    path = Path(module)
    return str(Path("tests/unit", *path.parts[:-1], f"test_{path.name}"))


def package_folder(module: str) -> str:
    """Return the folder of the tests of the module's package, for example core/protocol."""
    return str(Path("tests/unit", *Path(module).parts[:2])) + "/"


def is_at_import(mutant: Mutant, baseline: Baseline) -> bool:
    """True if the mutant takes effect while its module is imported."""
    executing = baseline.tests_of(mutant.module, range(mutant.lines[0], mutant.lines[1] + 1))
    return not mutant.is_in_function or AT_IMPORT in executing


def tests_for(mutant: Mutant, baseline: Baseline, budget_s: float = BUDGET_S) -> list[str]:
    """Return the tests that execute the mutated statement, those most likely to fail first.

    First come the tests of the module's own test file, then those of its package, then the others;
    within each, the quick ones first. A mutant at the level of a module or class is tried by its
    own test file, and by tests that execute the module or belong to its package, for half of the
    budget, because they are collected anew.
    """
    own, package = mirrored_file(mutant.module) + "::", package_folder(mutant.module)
    if is_at_import(mutant, baseline):
        tests = baseline.tests_of(mutant.module, baseline.lines.get(mutant.module, {}))
        tests |= {test for test in baseline.seconds if test.startswith((own, package))}
        budget_s /= 2
    else:
        tests = baseline.tests_of(mutant.module, range(mutant.lines[0], mutant.lines[1] + 1))

    def rank(test: str) -> tuple[int, float, str]:
        distance = 0 if test.startswith(own) else 1 if test.startswith(package) else 2
        return (distance, baseline.seconds[test], test)

    chosen, spent_s = [], 0.0
    for test in sorted(tests - {AT_IMPORT}, key=rank):
        spent_s += baseline.seconds[test]
        if spent_s <= budget_s or test.startswith(own):
            chosen.append(test)
    return chosen
