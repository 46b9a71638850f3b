"""``python -m rhumbline.chaos.lab.upgrade``: a rolling upgrade and downgrade under load.

The exit code is 1 if an acknowledged record is lost or doubled, or if the feature level could be
raised while an old process ran.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from .program_version import WORK_TREE
from .rolling_upgrade import roll


def main(arguments: Sequence[str]) -> int:
    """Run the upgrade and print its result."""
    parser = argparse.ArgumentParser(prog="upgrade")
    parser.add_argument("--old", required=True, help="commit of the old version")
    parser.add_argument("--new", default=WORK_TREE, help="commit of the new version")
    parser.add_argument(
        "--old-packages",
        type=Path,
        action="append",
        default=[],
        help="folder with packages that the old version needs besides; repeatable",
    )
    parser.add_argument("--pause", type=float, default=3.0, help="seconds before each step")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="rhumbline-upgrade-") as folder:
        result = roll(Path(folder), options.old, options.new, options.pause, options.old_packages)
    print("\n".join([*result.lines(), *result.faults]))
    return 1 if result.faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
