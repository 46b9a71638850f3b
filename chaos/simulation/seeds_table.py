"""The table of seeds per hour by plan, on the page about the simulator."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from .seed_runner import PlanTotals, SeedTotals

BEGIN, END = "<!-- seeds: begin -->", "<!-- seeds: end -->"


def write_table(page: Path, total: SeedTotals) -> None:
    """Replace what lies between the marks of a page. Raises ValueError if it has none."""
    before, _, rest = page.read_text().partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise ValueError(f"{page} has no marks {BEGIN} and {END}")
    table = "\n".join(table_of(total.plans))
    page.write_text(f"{before}{BEGIN}\n\n{table}\n\n{END}{after}")


def table_of(plans: Mapping[str, PlanTotals]) -> Iterator[str]:
    """Yield the lines of the table, one for each plan."""
    yield "| plan | seeds per CPU hour | simulated s per CPU s | part of time | new situations |"
    yield "|---|---:|---:|---:|---:|"
    spent_s = sum(plan.seconds for plan in plans.values())
    for name, plan in sorted(plans.items()):
        yield (
            f"| `{name}` | {plan.seeds / plan.seconds * 3600:,.0f} "
            f"| {plan.virtual_s / plan.seconds:.0f} | {plan.seconds / spent_s:.1%} "
            f"| {plan.new_situations:,} |"
        )
