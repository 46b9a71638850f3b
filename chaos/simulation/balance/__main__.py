"""``-m rhumbline.chaos.simulation.balance``: simulates the balance of 100 proxies and draws it.

Prints a row for each skew of the load: the imbalance by hashing alone and balanced, the streams
that moved, and those that returned. Ends with 1 if a promise of the decision was broken.
"""

import argparse
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from .balance_model import BalanceResult, BalanceScenario, simulate
from .balance_plot import plot
from .load_model import LoadShape

EXPONENTS = (0.5, 0.7, 1.0)
SETTLE_S = 120
"""Time after the start and after each change of the load in which it is evened."""


def scenario(exponent: float, *, proxies: int, streams: int, seconds: int) -> BalanceScenario:
    """Return the simulated hour: shifts, five lost proxies, a drained one."""
    lost = tuple((number, seconds * 9 // 20, seconds * 11 // 20) for number in range(5))
    drained = ((5, seconds * 7 // 10, seconds * 8 // 10),)
    shape = LoadShape(streams=streams, zipf_exponent=exponent, shift_s=seconds // 6)
    return BalanceScenario(proxies, seconds, shape=shape, lost=lost, drained=drained, pinned=5)


def settled(result: BalanceResult) -> list[int]:
    """Return the numbers of the rounds before which the load had not just changed."""
    one = result.scenario
    changes = [0, *result.shifts]
    for _, begin, end in (*one.lost, *one.drained):
        changes += [begin, end]
    return [
        number
        for number in range(len(result.moves))
        if all(not at <= number * one.round_s < at + SETTLE_S for at in changes)
    ]


def row_of(result: BalanceResult) -> dict[str, object]:
    """Return the figures of a simulation; those of the balance are medians of settled rounds."""
    rounds = settled(result)

    def median(values: Sequence[float]) -> str:
        return f"{statistics.median(values[number] for number in rounds):.2f}"

    return {
        "hashed max/mean": median(result.hashed),
        "balanced": median(result.balanced),
        "bound": median(result.bound),
        "hashed avoidable": median(result.hashed_avoidable),
        "balanced ": median(result.avoidable),
        "moves": result.total_moves,
        "streams moved": result.moved_streams,
        "most of one": result.most_moves,
        "returns": result.returns,
        "shortest stay s": result.shortest_stay_s,
        "table bytes": result.table_bytes,
    }


def main() -> int:
    """Run the simulations, print the table and write the plot."""
    parser = argparse.ArgumentParser(prog="balance", description=__doc__)
    parser.add_argument("--proxies", type=int, default=100)
    parser.add_argument("--streams", type=int, default=5_000)
    parser.add_argument("--minutes", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--plot", type=Path, help="file for the SVG plot")
    options = parser.parse_args()
    runs = []
    for exponent in EXPONENTS:
        one = scenario(
            exponent,
            proxies=options.proxies,
            streams=options.streams,
            seconds=60 * options.minutes,
        )
        result = simulate(one, options.seed)
        runs.append((f"Zipf {exponent:g}", result))
        row = row_of(result)
        if exponent == EXPONENTS[0]:
            print(" | ".join(["skew", *row]))
        print(" | ".join([f"Zipf {exponent:g}", *(f"{v:>{len(k)}}" for k, v in row.items())]))
        for violation in result.violations:
            print(f"  broken: {violation}")
    if options.plot is not None:
        title = f"Balance of {options.streams:,} streams over {options.proxies} write proxies"
        options.plot.write_text(plot(title, runs))
    return 1 if any(run.violations for _, run in runs) else 0


if __name__ == "__main__":
    sys.exit(main())
