"""``python -m rhumbline.bench.peers --peers FOLDER``: measure all systems and write the page."""

import argparse
import os
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from ...core.protocol.installation import installed_form, installed_version
from .benchmarks_page import benchmarks_page, benchmarks_plot
from .sitting import PeerSitting


def main(arguments: Sequence[str]) -> int:
    """Run as the command line says; the exit code is 0 when the page is written."""
    parser = argparse.ArgumentParser(prog="bench-peers")
    parser.add_argument("--peers", type=Path, required=True, help="the scripts of other systems")
    parser.add_argument("--work", type=Path, required=True, help="results and servers")
    parser.add_argument("--seconds", type=float, default=5.0, help="length of a window")
    parser.add_argument("--repetitions", type=int, default=2, help="turns of each system")
    parser.add_argument("--page", type=Path, required=True, help="the page; an SVG goes beside it")
    options = parser.parse_args(arguments)
    sitting = PeerSitting(
        options.peers.resolve(), options.work.resolve(), options.seconds, options.repetitions, _note
    )
    sitting.run()
    turns = sitting.documents()
    plot = options.page.with_suffix(".svg")
    plot.write_text(benchmarks_plot(turns), encoding="utf-8")
    page = benchmarks_page(turns, _machine(options.seconds, options.repetitions), plot.name)
    options.page.write_text(page, encoding="utf-8")
    _note(f"wrote {options.page} and {plot}")
    return 0


def _note(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def _machine(seconds: float, repetitions: int) -> dict[str, str]:
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    kernel = platform.release().partition("-")[0]
    return {
        "Date": time.strftime("%Y-%m-%d"),
        "Machine": f"{os.cpu_count()} cores, {memory_gib:.0f} GiB, Linux {kernel}",
        "Rhumbline": f"{installed_version()}, {installed_form()}",
        "Python": platform.python_version(),
        "Java": _java_version(),
        "Windows": f"{repetitions} of {seconds:g} s in each cell, after a warm-up",
    }


def _java_version() -> str:
    done = subprocess.run(
        ["java", "-version"], capture_output=True, text=True, timeout=30, check=True
    )
    return done.stderr.splitlines()[0]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
