"""The runs that can be replayed: scenarios, plans and planted bugs."""

from ...planted_bugs import patch
from ...simulation.seed_runner import SHARES
from .. import scenario_library
from ..scenario import SIM
from .replay import about_plan


def catalogue() -> dict[str, list[dict[str, str]]]:
    """Return the runs by kind, each with its name and what it is about. It reads files.

    Scenarios that only real processes can play are left out.
    """
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
