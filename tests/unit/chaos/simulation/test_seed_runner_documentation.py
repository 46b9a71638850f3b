"""The page about the simulator has every fault, invariant and plan that there is, and no other."""

import re
import tomllib
from pathlib import Path

from rhumbline.chaos.checker.run_record import INVARIANTS
from rhumbline.chaos.planted_bugs.patch import load, names
from rhumbline.chaos.simulation.faults.faults import AMBUSH, KINDS
from rhumbline.chaos.simulation.seed_run import LIVENESS
from rhumbline.chaos.simulation.seed_runner import PLANS

ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "docs/reference/simulator.md").read_text()


def first_cells(heading: str) -> list[str]:
    """The first column of the first table below a heading."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"^\| `?([\w-]+)`? \|", section, re.MULTILINE)[1:]


def test_every_kind_of_fault_is_on_the_page() -> None:
    assert sorted(first_cells("Kinds of faults")) == sorted([*KINDS, AMBUSH])


def test_every_invariant_is_on_the_page() -> None:
    assert sorted(first_cells("Invariants")) == sorted({*INVARIANTS, *LIVENESS})


def test_every_plan_is_on_the_page() -> None:
    assert sorted(first_cells("Running it")) == sorted(PLANS)


def test_every_mutation_names_invariants_that_there_are() -> None:
    for name in names():
        mutation = load(name)
        assert mutation.counts, f"{name} says what its detection is"
        assert set(mutation.counts) <= {*INVARIANTS, *LIVENESS}, name


def test_every_bug_that_was_found_is_on_the_page() -> None:
    seeds = tomllib.loads((ROOT / "tests/sim/seeds.toml").read_text())["seed"]
    section = PAGE.split("\n## Bugs that it found\n")[1]
    for one in seeds:
        assert f"| {one['plan']} {one['seed']} | {one['broken']} |" in section
        assert one["before"] in section
