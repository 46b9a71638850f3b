"""The runs that the page Chaos offers: scenarios, plans and planted bugs of the package chaos.

The package may be missing from an installation; only functions that are called import it.
"""

from functools import cache
from importlib.util import find_spec

_PACKAGE = "rhumbline.chaos.lab"
KINDS = ("scenario", "plan", "bug")


def is_installed() -> bool:
    """Return whether the simulator is installed."""
    try:
        return find_spec(_PACKAGE) is not None
    except ModuleNotFoundError:
        return False


@cache
def catalogue() -> dict[str, list[dict[str, str]]]:
    """Return the runs by kind, each with its name and what it is about. It reads files.

    Scenarios that only real processes can play are left out.
    """
    from ....chaos.lab import scenario_library
    from ....chaos.lab.replay.replay import about_plan
    from ....chaos.lab.scenario import SIM
    from ....chaos.planted_bugs import patch
    from ....chaos.simulation.seed_runner import SHARES

    scenarios = [scenario_library.load(name) for name in scenario_library.names()]
    bugs = [patch.load(name) for name in patch.names()]
    return {
        "scenario": [
            {"name": one.name, "title": one.title, "about": one.about}
            for one in scenarios
            if SIM in one.worlds
        ],
        "plan": [{"name": name, "title": name, "about": about_plan(name)} for name in SHARES],
        "bug": [
            {"name": one.name, "title": f"{one.name}: {one.title}", "about": about_plan(one.plan)}
            for one in bugs
        ],
    }
