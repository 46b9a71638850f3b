"""The pages about the simulator list every kind of fault, invariant, plan and found bug."""

import re
import tomllib
from pathlib import Path

from rhumbline.chaos.checker.run_record import INVARIANTS
from rhumbline.chaos.planted_bugs.hunt import BY_ACCIDENT
from rhumbline.chaos.planted_bugs.patch import load, names
from rhumbline.chaos.simulation.faults.faults import KINDS, TRIGGERED
from rhumbline.chaos.simulation.seed_run import LIVENESS
from rhumbline.chaos.simulation.seed_runner import PLANS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/simulator.md").read_text()
INVARIANTS_PAGE = (ROOT / "docs/protocol/invariants.md").read_text()
SCOPES_PAGE = (ROOT / "docs/reference/scopes.md").read_text()
PLANTED_BUGS_PAGE = (ROOT / "docs/reference/planted-bugs.md").read_text()


def first_cells(heading: str) -> list[str]:
    """Return the first column of the first table below a heading."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"^\| `?([\w-]+)`? \|", section, re.MULTILINE)[1:]


def test_every_kind_of_fault_is_on_the_page() -> None:
    assert sorted(first_cells("Kinds of faults")) == sorted([*KINDS, TRIGGERED])


def test_every_invariant_is_on_its_page() -> None:
    anchors = re.findall(r'<a id="([LVRG]\d+)"></a>', INVARIANTS_PAGE)
    assert sorted(anchors) == sorted({*INVARIANTS, *LIVENESS})


def test_every_plan_is_on_the_page() -> None:
    assert sorted(first_cells("Running it")) == sorted(PLANS)


def test_every_planted_bug_names_existing_invariants_and_a_plan() -> None:
    for name in names():
        bug = load(name)
        assert bug.plan in PLANS, name
        assert bug.counts, f"{name} must name the invariants that it violates"
        assert set(bug.counts) <= {*INVARIANTS, *LIVENESS, *BY_ACCIDENT}, name


def test_every_planted_bug_is_on_the_page_of_seeds_or_of_scopes_with_its_title() -> None:
    for name in names():
        bug = load(name)
        row = f"\n| {name} | {bug.title} | "
        by_scope = f"{row}`{bug.scope}` | "
        assert f"{row}`{bug.plan}` | " in PLANTED_BUGS_PAGE or by_scope in SCOPES_PAGE
        assert f"{by_scope}**not found**" not in SCOPES_PAGE


def test_every_found_bug_is_on_the_page() -> None:
    seeds = tomllib.loads((ROOT / "tests/sim/seeds.toml").read_text())["seed"]
    section = PAGE.split("\n## Bugs that it found\n")[1]
    for seed in seeds:
        assert f"| {seed['plan']} {seed['seed']} | {seed['broken']} |" in section
        assert seed["before"] in section
