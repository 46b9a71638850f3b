"""``-m rhumbline.chaos.simulation.capacity``: models a large cluster, and writes page and plots.

Ends with 1 if an ensemble was chosen that violates a rule, or a move left its region.
"""

import argparse
import asyncio
import json
import sys
from dataclasses import replace
from pathlib import Path

from .capacity_page import write_section
from .capacity_plot import plots
from .capacity_run import Results, run_model
from .cluster_shape import ClusterShape
from .metadata_load import measure_metadata


def violations(results: Results) -> list[str]:
    """Return what must not happen in any run."""
    found = []
    for loss in ("rack", "region"):
        if results[loss]["illegal"]:
            found.append(f"{results[loss]['illegal']} illegal ensembles after a lost {loss}")
        if results[loss]["unplaced"]:
            found.append(f"{results[loss]['unplaced']} ledgers without a place for a lost {loss}")
    if results["growth"]["between_regions"]:
        found.append(f"{results['growth']['between_regions']} copies were moved between regions")
    return found


def main() -> int:
    """Run the model; print the results, or write them where the options say."""
    parser = argparse.ArgumentParser(prog="capacity", description=__doc__)
    parser.add_argument("--bookies", type=int, default=1_000)
    parser.add_argument("--streams", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="file for the results")
    parser.add_argument("--from-json", type=Path, help="draw the results of an earlier run")
    parser.add_argument("--page", type=Path, help="page whose sections of results are replaced")
    options = parser.parse_args()
    if options.from_json is not None:
        results: Results = json.loads(options.from_json.read_text())
    else:
        shape = replace(ClusterShape(), bookies=options.bookies, streams=options.streams)
        results = run_model(shape, options.seed, lambda text: print(text, flush=True))
        results["metadata"] = asyncio.run(measure_metadata())
    if options.json is not None:
        options.json.write_text(json.dumps(results) + "\n")
    if options.page is not None:
        write_section(options.page, results)
        for name, drawing in plots(results).items():
            options.page.with_name(name).write_text(drawing)
    broken = violations(results)
    for line in broken:
        print(f"broken: {line}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
