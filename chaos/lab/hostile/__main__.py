"""``python -m rhumbline.chaos.lab.hostile``: attack a cluster on this machine, and time others.

The exit code is 1 if the median append of the application took more than twice as long as before.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from .siege import Siege


def main(arguments: Sequence[str]) -> int:
    """Run the attack with TLS and without it, and print the results."""
    parser = argparse.ArgumentParser(prog="hostile")
    parser.add_argument("--frames", type=int, default=100_000, help="messages to each port")
    parser.add_argument("--connections", type=int, default=10_000, help="connections that are held")
    parser.add_argument("--modes", nargs="+", choices=("plain", "tls"), default=["plain", "tls"])
    options = parser.parse_args(arguments)
    is_good = True
    for mode in options.modes:
        with tempfile.TemporaryDirectory(prefix="rhumbline-hostile-") as folder:
            result = Siege(
                Path(folder),
                tls=mode == "tls",
                connections=options.connections,
                frames=options.frames,
            ).run()
        print(f"--- {mode}", *result.lines(), sep="\n", flush=True)
        is_good &= result.is_within_bound
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
