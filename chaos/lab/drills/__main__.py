"""``python -m rhumbline.chaos.lab.drills``: run security drills and print their outcomes.

The exit code is 1 if an expectation is not met.
"""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from ..certificates.__main__ import rotate
from . import certificates_expire, principal_revoked
from .drill import DrillOutcome

_PAUSE_S = 3.0


async def _rotate_authority(folder: Path) -> list[DrillOutcome]:
    result = await asyncio.to_thread(rotate, folder, _PAUSE_S)
    return [
        DrillOutcome("no append fails", not result.failures, "; ".join(result.lines())),
        DrillOutcome(
            "certificates of the old authority are refused", result.old_certificate_is_refused
        ),
    ]


DRILLS: dict[str, Callable[[Path], Awaitable[list[DrillOutcome]]]] = {
    "certificates-expire": certificates_expire.run,
    "principal-revoked": principal_revoked.run,
    "authority-rotated": _rotate_authority,
}


async def drill(name: str) -> list[DrillOutcome]:
    """Run one drill in a folder of its own. Raises UnavailableError if a process fails."""
    with tempfile.TemporaryDirectory(prefix="rhumbline-drill-") as folder:
        return await DRILLS[name](Path(folder) / name)


def main(arguments: Sequence[str]) -> int:
    """Run the drills that are named, or all."""
    parser = argparse.ArgumentParser(prog="drills")
    parser.add_argument("drills", nargs="*", metavar="DRILL", help=", ".join(DRILLS))
    options = parser.parse_args(arguments)
    if unknown := set(options.drills) - DRILLS.keys():
        parser.error(f"no such drill: {', '.join(sorted(unknown))} (known: {', '.join(DRILLS)})")
    is_good = True
    for name in options.drills or DRILLS:
        print(f"=== {name}", flush=True)
        outcomes = asyncio.run(drill(name))
        print(*outcomes, sep="\n", flush=True)
        is_good &= all(outcome.is_met for outcome in outcomes)
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
