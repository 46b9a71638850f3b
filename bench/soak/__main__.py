"""``python -m rhumbline.bench.soak --minutes 60``: run everything at once and judge it flat.

The exit code is 1 if a record was lost, a process failed or a series grows (``flatness``).
"""

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from .soak_run import SoakRun


def _log(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def main(arguments: Sequence[str]) -> int:
    """Run as the command line says, print the outcome and return the exit code."""
    parser = argparse.ArgumentParser(prog="soak")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--plot", type=Path, help="write the samples there, as SVG")
    options = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="rhumbline-soak-"))
    report = SoakRun(folder, options.minutes * 60, _log).run()
    print("\n".join(report.lines()), flush=True)
    if options.plot is not None:
        options.plot.write_text(report.plot(f"A soak of {options.minutes:g} minutes"))
    if report.is_clean:
        shutil.rmtree(folder)
        return 0
    _log(f"the files of the run are in {folder}")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
