"""The page of mutants: the score of each package, and the survivors of each module."""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten

from rhumbline.tests.mutants import exclusions, fork_server, selection
from rhumbline.tests.mutants.fork_server import KILLED, SURVIVED
from rhumbline.tests.mutants.mutation import Mutant
from rhumbline.tests.mutants.runner import Result

Z_95 = 1.96


@dataclass(frozen=True, slots=True)
class Measure:
    """The results of one package."""

    folder: str
    seed: int
    population: int
    """Number of mutants of the package, of which ``results`` may be a sample."""
    left_out: Counter[str]
    results: list[Result]

    def counts(self, equivalents: dict[tuple[str, ...], str]) -> tuple[int, int, int]:
        """Return how many mutants were killed, survived, and are equivalent."""
        killed = sum(result.outcome == KILLED for result in self.results)
        survived = [result for result in self.results if result.outcome == SURVIVED]
        equivalent = sum(result.mutant.key in equivalents for result in survived)
        return killed, len(survived) - equivalent, equivalent

    def summary(self, equivalents: dict[tuple[str, ...], str]) -> str:
        """Return one line with the score."""
        killed, survived, equivalent = self.counts(equivalents)
        low, high = interval(killed, killed + survived)
        return (
            f"{self.folder}: score {score(killed, survived):.1%} ({low:.1%} to {high:.1%}), "
            f"{killed} killed, {survived} survived, {equivalent} equivalent, "
            f"of {len(self.results)} tried and {self.population} in all"
        )


def score(killed: int, survived: int) -> float:
    """Return killed / (total - equivalent)."""
    return killed / max(1, killed + survived)


def interval(killed: int, total: int) -> tuple[float, float]:
    """Return Wilson's 95 % confidence interval of the score of a sample."""
    if total == 0:
        return 0.0, 1.0
    share, z2 = killed / total, Z_95 * Z_95
    middle = (share + z2 / (2 * total)) / (1 + z2 / total)
    spread = math.sqrt(share * (1 - share) / total + z2 / (4 * total * total))
    spread *= Z_95 / (1 + z2 / total)
    return max(0.0, middle - spread), min(1.0, middle + spread)


HEAD = """# Mutants

Written by `make mutants PAGE=docs/reference/mutants.md`; do not edit.

A *mutant* is a module with one small change, for example `<` instead of `<=`. It is *killed* if a
test fails. A mutant that *survives* shows behaviour that no test checks, unless it is *equivalent*:
no test could tell it from the original. A person judged those, and `tests/mutants/equivalent.toml`
says why. The score is killed / (total - equivalent).

Each mutant is tried by the unit tests of its package that execute the changed statement: first
those of the module's own test file, then others until {budget_s:.0f} s of CPU time are used. Tests
of other packages and simulated runs do not count. A test that takes {cpu_factor:.0f} times as long
as usual, and {cpu_extra_s:.0f} s more, kills the mutant. A sample is random, with a fixed seed, and
its score has a 95 % confidence interval (Wilson).

The changes are those of mutmut, except None in place of an argument (mypy reports nearly all of
them) and further changes of the same string, and two more: a call is deleted, and a condition is
negated.

```text
make mutants ONLY=core/protocol
make mutants ONLY=core/ledger/write/ledger_writer.py
make mutants SAMPLE=400 SEED=1
```

"""

COLUMNS = "| package | measured | mutants | tried | killed | survived | equivalent | score | 95 % |"
RULE = "|---|---|---|---|---|---|---|---|---|"


def updated(
    path: Path, measures: list[Measure], equivalents: dict[tuple[str, ...], str], name: str
) -> str:
    """Return the text of the page, with the results of some packages replaced."""
    old = path.read_text() if path.exists() else ""
    rows = dict(_old_rows(old))
    sections = dict(_old_sections(old))
    for measure in measures:
        rows[(measure.folder, name)] = _row(measure, name, equivalents)
        sections[measure.folder] = _section(measure, equivalents)
    limits = {
        "budget_s": selection.BUDGET_S,
        "cpu_factor": fork_server.CPU_FACTOR,
        "cpu_extra_s": fork_server.CPU_EXTRA_S,
    }
    table = "\n".join([COLUMNS, RULE, *(rows[key] for key in sorted(rows, reverse=True))])
    body = "".join(f"\n## {folder}\n\n{sections[folder]}" for folder in sorted(sections))
    return f"{HEAD.format(**limits)}{table}\n{_left_out()}{body}"


def _old_rows(text: str) -> Iterator[tuple[tuple[str, str], str]]:
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) == len(COLUMNS.split("|")) and cells[1].startswith("`"):
            yield (cells[1].strip("`"), cells[2]), line


def _old_sections(text: str) -> Iterator[tuple[str, str]]:
    for part in text.split("\n## ")[1:]:
        folder, _, body = part.partition("\n\n")
        if folder != LEFT_OUT_TITLE:
            yield folder, body


def _row(measure: Measure, name: str, equivalents: dict[tuple[str, ...], str]) -> str:
    killed, survived, equivalent = measure.counts(equivalents)
    low, high = interval(killed, killed + survived)
    tried = len(measure.results)
    is_sample = tried < measure.population
    confidence = f"{low:.1%} to {high:.1%}" if is_sample else "all mutants"
    sampled = f"{tried} (seed {measure.seed})" if is_sample else str(tried)
    return (
        f"| `{measure.folder}` | {name} | {measure.population} | {sampled} | {killed} | "
        f"{survived} | {equivalent} | {score(killed, survived):.1%} | {confidence} |"
    )


LEFT_OUT_TITLE = "What is left out"


def _left_out() -> str:
    reasons = [
        value for name, value in vars(exclusions).items() if name.isupper() and name[0] != "_"
    ]
    rows = "\n".join(f"- {reason}" for reason in reasons if isinstance(reason, str))
    return (
        f"\n## {LEFT_OUT_TITLE}\n\nThese are not mutated, because the change cannot matter or "
        f"another check of the project finds it:\n\n{rows}\n"
    )


def _section(measure: Measure, equivalents: dict[tuple[str, ...], str]) -> str:
    """Return the survivors of a package by module, and what was left out."""
    left_out = sum(measure.left_out.values())
    lines = [f"{left_out} possible changes of this package were left out.", ""]
    by_module: dict[str, list[Result]] = {}
    for result in measure.results:
        by_module.setdefault(result.mutant.module, []).append(result)
    lines += ["| module | tried | killed | equivalent | survivors |", "|---|---|---|---|---|"]
    for module, results in by_module.items():
        part = Measure(measure.folder, 0, 0, Counter(), results)
        killed, survived, equivalent = part.counts(equivalents)
        lines.append(f"| `{module}` | {len(results)} | {killed} | {equivalent} | {survived} |")
    for module, results in by_module.items():
        survivors = [
            result.mutant
            for result in results
            if result.outcome == SURVIVED and result.mutant.key not in equivalents
        ]
        if survivors:
            lines += ["", f"`{module}`:", "", "```text"]
            lines += [f"{m.function or 'module'} [{m.operator}]\n{_change(m)}" for m in survivors]
            lines += ["```"]
    return "\n".join(lines) + "\n"


def _change(mutant: Mutant) -> str:
    return f"  - {shorten(mutant.before, 160)}\n  + {shorten(mutant.after, 160)}"
